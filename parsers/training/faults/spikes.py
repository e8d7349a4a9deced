"""Losses that are higher than usual, as trainers say it that watch for them. The run goes on.

    Potential loss spike detected. Iteration: 1
    Loss spike detected for 5 steps. Try lowering the learning rate.
    High losses detected: 60/100 losses above 10.
    Spike detected at step: loss_spike=True, grad_norm_spike=False
    Checking step by step: Loss spike may be happened in step 120, loss value from 2.31 to 7.9, please check it.

https://github.com/mosaicml/llm-foundry: callbacks/kill_loss_spike_callback.py (which may also raise, then it is an
exception); https://github.com/allenai/OLMo-core: train/callbacks/stability_monitor.py; https://github.com/InternLM/
InternEvo: monitor/monitor.py. Megatron-LM asks whether such a loss is real: see ``megatron_reruns``. What the steps
themselves say of it is told where they stand together.
"""

from __future__ import annotations

from typing import Final

from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.faults.talk import is_shown
from aftershock.parsers.training.rules import Match, Rule, Said, whole
from aftershock.schemas.events import TrainingEvent


def _read(found: Match, said: Said) -> TrainingEvent | None:
    if is_shown(said, found.start("error")):
        return None
    row = TrainingEvent(kind="loss_spike", error=text_of(found["error"]))
    row.step = whole(found.groupdict().get("step"))
    return row


RULES: Final = (
    Rule(
        words=(b"oss spike detected", b"High losses detected: "),
        shape=later(
            rb"(?:\A|: )(?P<error>Potential loss spike detected\. Iteration: \d{1,9}"
            rb"|Loss spike detected for \d{1,9} steps\. Try lowering the learning rate\."
            rb"|High losses detected: \d{1,9}/\d{1,9} losses above [\d.]{1,20}\.)\s*\Z"
        ),
        row=_read,
    ),
    Rule(
        words=(b"Spike detected at step: loss_spike=",),
        shape=later(
            rb"(?P<error>Spike detected at step: loss_spike=(?:True|tensor\(True[^)\r\n]{0,60}\)), "
            rb"grad_norm_spike=[^\r\n]{1,80})"
        ),
        row=_read,
    ),
    Rule(
        words=(b"Loss spike may be happened in step ",),
        shape=later(
            rb"(?P<error>Loss spike may be happened in step (?P<step>\d{1,12}), "
            rb"loss value from \S{1,40} to \S{1,40}), please check it"
        ),
        row=_read,
    ),
)

SAMPLES: Final = (
    Sample(
        "2026-03-01 10:20:30,123: rank0[2000][MainThread]: INFO: llmfoundry.callbacks.kill_loss_spike_callback: "
        "Potential loss spike detected. Iteration: 1\n"
        "2026-03-01 10:20:42,456: rank0[2000][MainThread]: INFO: llmfoundry.callbacks.kill_loss_spike_callback: "
        "Not a persistent loss spike. Resetting outlier counter.\n",
        (
            expect(
                "training_events",
                kind="loss_spike",
                error_class=None,
                error_role=None,
                error="Potential loss spike detected. Iteration: 1",
            ),
        ),
        title="LLM Foundry: a loss spike",
        url="https://github.com/mosaicml/llm-foundry",
    ),
    Sample(
        "Spike detected at step: loss_spike=True, grad_norm_spike=False\n",
        (expect("training_events", kind="loss_spike", error_class=None),),
        title="OLMo-core: a loss spike",
        url="https://github.com/allenai/OLMo-core",
    ),
    Sample(
        "Checking step by step: Loss spike may be happened in step 120, loss value from 2.31 to 7.9, please check "
        "it.\n",
        (expect("training_events", kind="loss_spike", step=120),),
        title="InternEvo: a loss spike",
        url="https://github.com/InternLM/InternEvo",
    ),
)

NON_SAMPLES: Final = (
    "2026-03-01 10:20:30,123: rank0[2000][MainThread]: INFO: llmfoundry.callbacks.kill_loss_spike_callback: "
    "Window size set to: 500\n",
    "Not a persistent loss spike. Resetting outlier counter.\n",
    "Spike detected at step: loss_spike=False, grad_norm_spike=True\n",
    "log.info('Loss spike detected for 5 steps. Try lowering the learning rate.')\n",
    "a loss spike detected early is a loss spike cured\n",
)
