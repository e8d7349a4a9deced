"""Steps as scripts of one's own print them: the word, the number, and a loss soon behind it.

    2026-03-01 10:20:30,123 - INFO - Step 100: loss=2.3100, lr=1.00e-04
    [Iter 100/1000] Loss: 2.31 | grad_norm: 0.5
    epoch 2 | global_step 100 | train_loss 2.3100

A line without a trainer of its own. An evaluation is none, and neither is a step without a loss, or a whole number.
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.rules import Match, Rule, Said, number, whole
from aftershock.schemas.training import TrainingStep

ORDER: Final = 90  # behind all trainers that have a name

_NUMBER: Final = rb"-?(?:\d+\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|nan|NaN|inf)"
_OTHER: Final = re.compile(rb"\b(?:eval|val|valid|validation|test|dev|sanity)", re.IGNORECASE)
# What Megatron-LM prints, and its forks.
_NAMED: Final = re.compile(rb"elapsed time per iteration|consumed samples: ")
_RATE: Final = re.compile(rb"\b(?:lr|learning[ _]rate)(?: *[:=] *| +)(" + _NUMBER + rb")", re.IGNORECASE)
_NORM: Final = re.compile(rb"\b(?:grad(?:ient)?[ _]?norm|gnorm)(?: *[:=] *| +)(" + _NUMBER + rb")", re.IGNORECASE)


def _read_step(found: Match, said: Said) -> TrainingStep | None:
    before = said.message[max(0, found.start() - 32) : found.start()]
    if _NAMED.search(said.message) or _OTHER.search(before) or _OTHER.search(found["between"]):
        return None
    row = TrainingStep(step=whole(found["step"]), total_steps=whole(found["total"]), loss=number(found["loss"]))
    beside = found["between"] + found["rest"]
    rate, norm = _RATE.search(beside), _NORM.search(beside)
    row.learning_rate = number(rate[1]) if rate else None
    row.grad_norm = number(norm[1]) if norm else None
    return row


RULES: Final = (
    Rule(
        words=(b"oss: ", b"oss=", b"oss ", b"oss:"),
        scan=(b"loss: ", b"loss=", b"Loss: ", b"Loss=", b" loss ", b"_loss ", b"loss:"),
        shape=later(
            rb"(?<![\w/.-])(?:(?:global|train|training)[ _])?(?:[Ss]tep|STEP|[Ii]ter(?:ation)?|ITER)s?"
            rb"(?: *[:=#] *| +)(?P<step>\d{1,12})(?: */ *(?P<total>\d{1,12}))?(?![\d.%])"
            rb"(?P<between>[^\w\r\n](?:(?!\b[Ss]tep)[^\r\n]){0,80}?)"
            rb"(?<![\w/])(?:(?:train|training|avg|mean|total)[ _/])?(?:[Ll]oss|LOSS)(?: *[:=] *| +)(?P<loss>"
            + _NUMBER
            + rb")(?![\w.])(?P<rest>[^\r\n]{0,400})"
        ),
        row=_read_step,
        only="step",
    ),
)

SAMPLES: Final = (
    Sample(
        "2026-03-01 10:20:30,123 - INFO - Step 100: loss=2.3100, lr=1.00e-04\n"
        "[Iter 200/1000] Loss: 2.2100 | grad_norm: 0.5123\n"
        "epoch 2 | global_step 300 | train_loss 2.1000\n",
        (
            expect("training_steps", step=100, loss=2.31, learning_rate=1e-4, copies=1),
            expect("training_steps", step=200, total_steps=1000, loss=2.21, grad_norm=0.5123),
            expect("training_steps", step=300, loss=2.1),
        ),
        title="Scripts of one's own, in words",
    ),
)

NON_SAMPLES: Final = (
    "step 1 of the recipe: heat loss: 3 per cent\n",
    "validation step 100: loss=2.3100\n",
    "Step 100: val loss=2.3100\n",
    "step 100 done, packet loss: 0.0.0.0\n",
    "Starting training step on epoch 3, loss: to be seen\n",
)
