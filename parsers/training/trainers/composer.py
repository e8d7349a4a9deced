"""Composer and LLM Foundry: a head with the batch, and a line for each value below it.

    [batch=10/1000]:
    <tab> Train time/batch: 9
    <tab> Train loss/train/total: 2.3456

https://github.com/mosaicml/composer: loggers/console_logger.py. A batch is a step; ``time/batch`` counts those
that were done before it. Where a run is measured in epochs the head counts within the epoch.
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.rules import Match, Rule, Said, event, whole
from aftershock.parsers.training.values import step_from
from aftershock.schemas.training import TrainingStep

_LINE: Final = re.compile(rb"\s*Train ([^:\n]{1,120}): ([^\s]{1,60})\s*\Z")
_RATE: Final = re.compile(r"lr-[^/]{1,60}/group0")


def _read_step(found: Match, said: Said) -> TrainingStep | None:
    values: dict[str, str] = {}
    for text in said.below():
        line = _LINE.match(text)
        if line is None:
            break
        values[text_of(line[1]).lower()] = text_of(line[2])
    row = step_from({name: value for name, value in values.items() if name != "step"})
    if row.loss is None:
        return None
    before = whole(values["time/batch"].encode("ascii", "replace")) if "time/batch" in values else None
    if found["unit"] == b"batch" and found["epoch"] is None:
        row.step, row.total_steps = whole(found["at"]), whole(found["total"])
    else:
        row.step = None if before is None else before + 1
    rate = next((value for name, value in values.items() if _RATE.fullmatch(name)), None)
    if rate is not None and row.learning_rate is None:
        row.learning_rate = step_from({"lr": rate}).learning_rate
    return row


RULES: Final = (
    Rule(
        words=(b"[batch=", b"[token=", b"[sample=", b"[iteration="),
        shape=later(
            rb"(?P<epoch>\[epoch=\d{1,9}\])?\[(?P<unit>batch|token|sample|iteration)=(?P<at>\d{1,16})"
            rb"(?:/(?P<total>\d{1,16}))?\]:\s*\Z"
        ),
        row=_read_step,
        only="step",
    ),
    Rule(
        words=(b"[Eval batch=",),
        shape=later(rb"\[Eval batch=(?P<at>\d{1,12})/(?P=at)\] Eval on [^\n]{1,200} data:\s*\Z"),
        row=event("validation"),
    ),
    Rule(
        words=(b"Trainer checkpoint loaded from ",),
        shape=later(rb"Trainer checkpoint loaded from (?P<path>\S+)"),
        row=event("load_end"),
    ),
)

SAMPLES: Final = (
    Sample(
        "[batch=10/1000]:\n\t Train time/batch: 9\n\t Train loss/train/total: 2.3456\n"
        "\t Train lr-DecoupledAdamW/group0: 0.0001\n"
        "[epoch=2][batch=5/100]:\n\t Train time/batch: 104\n\t Train loss/train/total: 2.2\n"
        "[Eval batch=40/40] Eval on eval data:\n\t Eval metrics/eval/LanguagePerplexity: 12.3\n",
        (
            expect("training_steps", step=10, total_steps=1000, loss=2.3456, learning_rate=0.0001),
            expect("training_steps", step=105, total_steps=None, loss=2.2),
            expect("training_events", kind="validation"),
        ),
        title="Composer",
        url="https://github.com/mosaicml/composer",
    ),
)

NON_SAMPLES: Final = ("[batch=10/1000]\n", "[Eval batch=3/40] Eval on eval data\n")
