"""verl: steps of reinforcement learning, and its checkpoints.

    step:10 - actor/pg_loss:0.012 - actor/grad_norm:np.float64(0.5) - actor/lr:1e-06 - timing_s/step:120.3
    local_global_step_folder: ckpt/global_step_100

https://github.com/volcengine/verl: utils/logger/aggregate_logger.py, trainer/ppo/ray_trainer.py. Newer versions print
numbers as numpy shows them. No line says that a save has come to its end.
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.rules import Match, Rule, Said, event, whole
from aftershock.parsers.training.saves import NO_END
from aftershock.parsers.training.values import step_from
from aftershock.schemas.events import TrainingEvent
from aftershock.schemas.training import TrainingStep

_VALUE: Final = re.compile(
    rb" - ([A-Za-z][\w/@.()-]{0,120}):(?:(?:np|numpy)\.\w{1,16}\()?(-?(?:[\d.]+(?:[eE][-+]?\d+)?|nan|inf))\)?"
)


def _read_step(found: Match, _said: Said) -> TrainingStep | TrainingEvent | None:
    values = {text_of(name).lower(): text_of(value) for name, value in _VALUE.findall(found["values"])}
    step = whole(found["step"])
    row = step_from({name: value for name, value in values.items() if name not in ("step", "iteration")})
    if row.loss is None and row.step_time_s is None:
        return TrainingEvent(kind="validation", step=step) if any(one.startswith("val") for one in values) else None
    row.step = step
    row.total_steps = None
    return row


RULES: Final = (
    Rule(
        words=(b"step:",),
        scan=(b" - actor/", b" - train/loss:", b" - val/loss:", b" - val-core/", b" - val/", b" - timing_s/"),
        shape=later(rb"\bstep:(?P<step>\d{1,12})(?P<values> - [A-Za-z][^\r\n]{1,100000})"),
        row=_read_step,
        only="step",
    ),
    Rule(
        words=(b"local_global_step_folder: ",),
        shape=later(rb"local_global_step_folder: (?P<path>\S{0,1000}?global_step_(?P<step>\d{1,12}))/?(?=\s|\Z)"),
        row=event("save_begin"),
        mark=NO_END,
    ),
    Rule(
        words=(b"Saving checkpoint to: ",),
        shape=later(rb"Saving checkpoint to: (?P<path>\S{0,1000}?global_step_(?P<step>\d{1,12}))/?(?=\s|\Z)"),
        row=event("save_begin"),
        mark=NO_END,
    ),
    Rule(
        words=(b"Resuming from ",),
        scan=(b"/global_step_",),
        shape=later(rb"\AResuming from (?P<path>\S{0,1000}?global_step_(?P<step>\d{1,12}))/?(?=\s|\Z)"),
        row=event("resume"),
    ),
    Rule(
        words=(b"Training from scratch",),
        shape=later(rb"\ATraining from scratch\s*\Z"),
        row=event("load_missing", step=0),
    ),
)

SAMPLES: Final = (
    Sample(
        "(TaskRunner pid=77) step:10 - actor/entropy:0.3 - actor/pg_loss:0.012 - actor/grad_norm:np.float64(0.5) - "
        "actor/lr:1e-06 - timing_s/step:120.3 - perf/throughput:812.5\n"
        "(TaskRunner pid=77) local_global_step_folder: ckpt/global_step_10\n"
        "(TaskRunner pid=77) step:10 - val-core/gsm8k/acc:0.7\n",
        (
            expect(
                "training_steps", step=10, loss=0.012, grad_norm=0.5, learning_rate=1e-06, step_time_s=120.3, copies=1
            ),
            expect("training_events", kind="save_begin", step=10, path="ckpt/global_step_10"),
            expect("checkpoints", kind="save", step=10, path="ckpt/global_step_10"),
            expect("training_events", kind="validation", step=10),
        ),
        title="verl",
        url="https://github.com/volcengine/verl",
    ),
)

NON_SAMPLES: Final = ("step:10 - of the recipe\n", "Resuming from /global_step_ of nothing\n")
