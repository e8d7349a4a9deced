"""Accelerate and Colossal-AI: checkpoints.

    Saving current state to out/checkpoint_3
    Random states saved in out/checkpoint_3/random_states_0.pkl
    Saved checkpoint at epoch 0 step 500 at folder out

https://github.com/huggingface/accelerate: accelerator.py, checkpointing.py. The states of the random generators are the
last that is written and the last that is loaded. The step of Colossal-AI counts within the epoch.
"""

from __future__ import annotations

from typing import Final

from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.rules import Rule, event

RULES: Final = (
    Rule(
        words=(b"Saving current state to ",),
        shape=later(
            rb"\bSaving current state to (?P<path>\S{0,1000}?(?:(?:step|checkpoint)[_-](?P<step>\d{1,12}))?/?)(?=\s|\Z)"
        ),
        row=event("save_begin"),
    ),
    Rule(
        words=(b"Random states saved in ",),
        shape=later(rb"\bRandom states saved in (?P<path>\S{1,1000})/[^/\s]+"),
        row=event("save_end"),
    ),
    Rule(
        words=(b"Loading states from ",),
        shape=later(
            rb"\bLoading states from (?P<path>\S{0,1000}?(?:(?:step|checkpoint)[_-](?P<step>\d{1,12}))?/?)(?=\s|\Z)"
        ),
        row=event("load_begin"),
    ),
    Rule(
        words=(b"All random states loaded successfully", b"Could not load random states"),
        shape=later(rb"\A(?:All random states loaded successfully|Could not load random states)"),
        row=event("load_end"),
    ),
    Rule(
        words=(b"Saved checkpoint at epoch ",),
        shape=later(rb"\bSaved checkpoint at epoch \d{1,9} step [\d.]{1,16} at folder (?P<path>\S{1,1000})"),
        row=event("save_end"),
    ),
    Rule(
        words=(b"Loaded checkpoint ",),
        scan=(b" at epoch ",),
        shape=later(rb"\bLoaded checkpoint (?P<path>\S{1,1000}) at epoch \d{1,9} step \d{1,12}"),
        row=event("load_end"),
    ),
)

SAMPLES: Final = (
    Sample(
        "[2026-03-01 10:20:30,123] [INFO] [accelerate.accelerator] Saving current state to out/step_300\n"
        "[2026-03-01 10:20:31,123] [INFO] [accelerate.checkpointing] Model weights saved in out/step_300/"
        "model.safetensors\n"
        "[2026-03-01 10:20:32,623] [INFO] [accelerate.checkpointing] Random states saved in out/step_300/"
        "random_states_0.pkl\n",
        (
            expect("training_events", kind="save_begin", step=300, path="out/step_300"),
            expect("checkpoints", kind="save", step=300, path="out/step_300", complete=True, duration_s=2.5),
            expect("training_events", kind="save_end", step=300, path="out/step_300"),
        ),
        title="Accelerate",
        url="https://github.com/huggingface/accelerate",
    ),
    Sample(
        "Loading states from out/step_300\nAll random states loaded successfully\n"
        "Saved checkpoint at epoch 0 step 500 at folder out2\n",
        (
            expect("training_events", kind="load_begin", step=300),
            expect("checkpoints", kind="load", step=300, complete=True),
            expect("training_events", kind="load_end", step=300),
            expect("training_events", kind="save_end", step=None, path="out2"),
            expect("checkpoints", kind="save", step=None, path="out2", complete=True),
        ),
        title="Accelerate: load; Colossal-AI: save",
    ),
)

NON_SAMPLES: Final = ("Saving current states\n", "Model weights saved in out/step_300/model.safetensors\n")
