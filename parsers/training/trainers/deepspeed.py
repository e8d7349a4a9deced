"""DeepSpeed: steps beside those of its trainer, saves without an end, loads; DeepSpeed-Chat.

    [2026-03-01 10:20:30,123] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=1, lr=[9.6e-06], mom=[(0.9, ...
    steps: 10 loss: 9.8765 iter time (s): 1.234 samples/sec: 12.345
    [Rank 0] [Torch] Checkpoint global_step20 is about to be saved!
    [Torch] Checkpoint global_step20 is ready now!

https://github.com/deepspeedai/DeepSpeed: runtime/engine.py, runtime/pipe/engine.py, utils/timer.py, runtime/
checkpoint_engine. ``skipped`` counts since the beginning of the run. Step 0 is a report of the settings. Not all
versions say that a checkpoint is ready; without that line the end of a save is not printed.
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.rules import Match, Rule, Said, event, number, whole
from aftershock.parsers.training.saves import NO_END
from aftershock.parsers.training.steps import WEAK
from aftershock.schemas.events import TrainingEvent
from aftershock.schemas.training import TrainingStep

_STEP_IN_TAG: Final = re.compile(rb"step[_-]?(\d{1,12})\Z")


def _read_step(found: Match, _said: Said) -> TrainingStep | None:
    groups = found.groupdict()
    row = TrainingStep(step=whole(groups["step"]))
    if not row.step:
        return None
    row.skipped = whole(groups.get("skipped"))
    row.learning_rate = number(groups.get("lr"))
    row.loss = number(groups.get("loss"))
    row.step_time_s = number(groups.get("seconds"))
    return row


def _read_tag(kind: str, found: Match) -> TrainingEvent:
    row = TrainingEvent(kind=kind)
    step = _STEP_IN_TAG.search(found["tag"])
    row.step = int(step[1]) if step else None
    if "path" in found.groupdict():
        row.path = text_of(found["path"])
    return row


_NUMBER: Final = rb"-?(?:[\d.]+(?:[eE][-+]?\d+)?|nan|inf)"

RULES: Final = (
    Rule(
        words=(b"step=",),
        scan=(b", skipped=",),
        shape=later(rb"\bstep=(?P<step>\d{1,12}), skipped=(?P<skipped>\d{1,12}),(?: lr=\[(?P<lr>" + _NUMBER + rb"))?"),
        row=_read_step,
        only="step",
        mark=WEAK,
    ),
    Rule(
        words=(b"RunningAvgSamplesPerSec=",),
        shape=later(rb"/global_step=(?P<step>\d{1,12}), RunningAvgSamplesPerSec="),
        row=_read_step,
        only="step",
        mark=WEAK,
    ),
    Rule(
        words=(b" iter time (s): ",),
        shape=later(
            rb"\bsteps: (?P<step>\d{1,12}) loss: (?P<loss>" + _NUMBER + rb")[^\n]{0,400}? iter time \(s\): "
            rb"(?P<seconds>[\d.]+)"
        ),
        row=_read_step,
        only="step",
        mark=WEAK,
    ),
    Rule(
        words=(b", Rank: ",),
        scan=(b", loss = ",),
        shape=later(rb"\bEpoch: \d{1,9}, Step: (?P<step>\d{1,12}), Rank: \d{1,7}, loss = (?P<loss>" + _NUMBER + rb")"),
        row=_read_step,
        only="step",
    ),
    Rule(
        words=(b" is about to be saved!",),
        shape=later(rb"\[\w{1,20}\] Checkpoint (?P<tag>\S{1,200}) is about to be saved!"),
        row=lambda found, _: _read_tag("save_begin", found),
        mark=NO_END,
    ),
    Rule(
        words=(b"Saving model checkpoint: ",),
        shape=later(rb"Saving model checkpoint: (?P<path>(?:\S*/)?(?P<tag>[^\s/]{1,200}))/[^\s/]+"),
        row=lambda found, _: _read_tag("save_begin", found),
        mark=NO_END,
    ),
    Rule(
        words=(b" is ready now!",),
        shape=later(rb"\[\w{1,20}\] Checkpoint (?P<tag>\S{1,200}) is ready now!"),
        row=lambda found, _: _read_tag("save_end", found),
    ),
    Rule(
        words=(b"Begin Load checkpoint from ", b"[Torch] Loading checkpoint from "),
        shape=later(
            rb"\[\w{1,20}\] (?:Begin Load|Loading) checkpoint from (?P<path>(?:\S*/)?(?P<tag>[^\s/]{1,200}))/[^\s/]+?"
            rb"\.\.\."
        ),
        row=lambda found, _: _read_tag("load_begin", found),
    ),
    Rule(
        words=(b"End Load checkpoint from ", b"[Torch] Loaded checkpoint from "),
        shape=later(
            rb"\[\w{1,20}\] (?:End Load|Loaded) checkpoint from (?P<path>(?:\S*/)?(?P<tag>[^\s/]{1,200}))/[^\s/]+?"
            rb"\.\.\."
        ),
        row=lambda found, _: _read_tag("load_end", found),
    ),
    Rule(
        words=(b"Unable to find latest file at ",),
        shape=later(rb"Unable to find latest file at (?P<path>[^\s,]+)"),
        row=event("load_missing"),
    ),
)

SAMPLES: Final = (
    Sample(
        "[2026-03-01 10:20:30,123] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=1, lr=[9.6e-06, 9.6e-06], "
        "mom=[(0.9, 0.95), (0.9, 0.95)]\n"
        "[2026-03-01 10:20:30,124] [INFO] [timer.py:260:stop] epoch=0/micro_step=10/global_step=10, "
        "RunningAvgSamplesPerSec=12.3, CurrSamplesPerSec=12.5, MemAllocated=10.1GB, MaxMemAllocated=20.2GB\n"
        "steps: 10 loss: 9.8765 iter time (s): 1.234 samples/sec: 12.345\n",
        (
            expect(
                "training_steps", step=10, skipped=1, learning_rate=9.6e-06, loss=9.8765, step_time_s=1.234, copies=3
            ),
        ),
        title="DeepSpeed: step",
        url="https://www.deepspeed.ai",
    ),
    Sample(
        "[2026-03-01 10:20:30,123] [INFO] [logging.py:96:log_dist] [Rank 0] [Torch] Checkpoint global_step20 is "
        "about to"
        " be saved!\n"
        "[2026-03-01 10:20:30,223] [INFO] [logging.py:96:log_dist] [Rank 0] Saving model checkpoint: "
        "/ckpt/global_step20/mp_rank_00_model_states.pt\n"
        "[2026-03-01 10:20:40,123] [INFO] [torch_checkpoint_engine.py:33:commit] [Torch] Checkpoint global_step20 is "
        "ready now!\n",
        (
            expect("training_events", kind="save_begin", step=20, path="/ckpt/global_step20", count=2),
            expect("checkpoints", kind="save", step=20, path="/ckpt/global_step20", complete=True, duration_s=10.0),
            expect("training_events", kind="save_end", step=20, path="/ckpt/global_step20"),
        ),
        title="DeepSpeed: save",
    ),
    Sample(
        "[Torch] Begin Load checkpoint from /ckpt/global_step20/mp_rank_00_model_states.pt...\n"
        "[Torch] End Load checkpoint from /ckpt/global_step20/mp_rank_00_model_states.pt...\n"
        "Epoch: 0, Step: 3, Rank: 0, loss = 2.5\n",
        (
            expect("training_events", kind="load_begin", step=20, path="/ckpt/global_step20"),
            expect("checkpoints", kind="load", step=20, complete=True),
            expect("training_events", kind="load_end", step=20),
            expect("training_steps", step=3, loss=2.5),
        ),
        title="DeepSpeed: load; DeepSpeed-Chat",
    ),
)

NON_SAMPLES: Final = (
    "[2026-03-01 10:20:30,123] [INFO] [logging.py:60:log_dist] [Rank 0] step=0, skipped=0, lr=[0.0, 0.0], mom=[(0.9, "
    "0.999)]\n",
    "[2026-03-01 10:20:30,123] [INFO] [loss_scaler.py:188:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. "
    "Attempted loss scale: 65536, but hysteresis is 2. Reducing hysteresis to 1\n",
    "Did not save the model /ckpt because `stage3_gather_16bit_weights_on_model_save` is False\n",
    "the coffee is ready now!\n",
)
