"""DLLogger of NVIDIA's deep learning examples: steps as names and values, in text.

    DLL 2026-03-01 10:20:30.573283 - Training Epoch: 0 Training Iteration: 100  average_loss : 9.1 step_loss : 8.9 ...
    DLL 2026-03-01 10:20:30.573283 - Epoch: 0 Iteration: 10  train.loss : 6.97 train.total_ips : 2101.2 img/s
    DLL 2026-03-01 10:20:30.573283 - Iteration 10 | iteration_time : 231.25 ms | train_loss : 8.0000

https://github.com/NVIDIA/dllogger, https://github.com/NVIDIA/DeepLearningExamples. An iteration beside an epoch is that
of the epoch, of which nobody knows how long it is, unless both are called those of the training.
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.prefixes import reading_of
from aftershock.parsers.training.rules import Match, Rule, Said, Told, number, whole
from aftershock.schemas.training import TrainingStep

_VALUE: Final = re.compile(
    rb"(?<![\w.])(?P<name>[A-Za-z_][\w.]{0,60}) : (?P<value>-?(?:\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|nan|inf))"
    rb"(?: (?P<unit>ms|s)\b)?"
)
# What is the loss of this step goes before what is an average.
_LOSSES: Final = (b"step_loss", b"train_loss", b"train.loss", b"loss", b"average_loss")


def _read_step(found: Match, _said: Said) -> Told | None:
    values = {match["name"]: match for match in _VALUE.finditer(found["values"])}
    loss = next((values[name] for name in _LOSSES if name in values), None)
    if loss is None:
        return None
    row = TrainingStep(loss=number(loss["value"]))
    epoch = whole(found["epoch"])
    row.step = whole(found["step"]) if found["training"] or not epoch else None
    rate, spent = values.get(b"learning_rate"), values.get(b"iteration_time")
    row.learning_rate = number(rate["value"]) if rate else None
    seconds = number(spent["value"]) if spent and spent["unit"] else None
    row.step_time_s = seconds if seconds is None or spent is None or spent["unit"] == b"s" else seconds / 1000
    return Told(row, reading_of(found["at"]))


RULES: Final = (
    Rule(
        words=(b"DLL ",),
        scan=(b"DLL 20",),
        shape=later(
            rb"\ADLL (?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,9}) - (?:(?:Training )?Epoch: (?P<epoch>\d{1,9}) )?"
            rb"(?P<training>Training )?Iteration:? (?P<step>\d{1,12})(?:  ?| \| )(?P<values>[^\r\n]{1,2000})"
        ),
        row=_read_step,
        only="step",
    ),
)

SAMPLES: Final = (
    Sample(
        "DLL 2026-03-01 10:20:30.573283 - Training Epoch: 0 Training Iteration: 100  average_loss : 9.1 step_loss : 8.9"
        " learning_rate : 6e-06\n"
        "DLL 2026-03-01 10:20:31.573283 - Iteration 101 | iteration_time : 231.25 ms | train_loss : 8.0000  | "
        "last_iter_used_cuda_graph : True\n",
        (
            expect("training_steps", step=100, loss=8.9, learning_rate=6e-6, time=1_772_360_430_573_283),
            expect("training_steps", step=101, loss=8.0, step_time_s=0.23125),
        ),
        title="DLLogger",
        url="https://github.com/NVIDIA/dllogger",
    ),
    Sample(
        "DLL 2026-03-01 10:20:30.573283 - Epoch: 3 Iteration: 10  train.loss : 6.97 train.total_ips : 2101.2 img/s\n",
        (expect("training_steps", step=None, loss=6.97),),
        title="DLLogger: within an epoch",
    ),
)

NON_SAMPLES: Final = (
    "DLL 2026-03-01 10:20:30.573283 - PARAMETER SEED : 42\n",
    "DLL 2026-03-01 10:20:30.573283 - Epoch: 3 Iteration: 10  val.loss : 6.97 val.top1 : 0.71\n",
)
