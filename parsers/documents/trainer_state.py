"""``trainer_state.json`` of Hugging Face's Trainer: the log of the run as it was when a checkpoint was saved.

    {"epoch": 0.5, "global_step": 30, "log_history": [{"epoch": 0.33, "grad_norm": 0.75, "learning_rate": 5e-05,
     "loss": 2.5, "step": 20}, {"epoch": 0.5, "eval_loss": 2.75, "step": 30}], "max_steps": 1000, ...}

src/transformers/trainer_callback.py, TrainerState. No time is in it. Each checkpoint has such a file, and those of one
run tell the same steps again.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, cast

from aftershock.parsers.clock import NO_CLOCK
from aftershock.parsers.documents.json_elements import Element, elements_of
from aftershock.parsers.documents.step_values import StepValues, step_number
from aftershock.parsers.documents.wandb_run import number_in_json
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.schemas.events import TrainingEvent
from aftershock.schemas.training import TrainingStep

_KEY: Final = "log_history"
_MARKS: Final = (b'"log_history"', b'"global_step"', b'"epoch"')
_EXCERPT: Final = 256
_TAIL: Final = 8192
_MAX_STEPS: Final = re.compile(rb'"max_steps"\s*:\s*(\d{1,12})')


def detects(head: Head) -> float:
    """Sure of the keys of such a state."""
    return 0.95 if head.data.lstrip().startswith(b"{") and all(mark in head.data for mark in _MARKS) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The steps and evaluations of the log."""
    tail = _Tail(stream)
    steps = StepValues()
    held: Found | None = None
    for item in _items(cast(BinaryIO, tail), steps):
        if isinstance(item, Refused):
            yield item
            continue
        if held is not None:
            yield held
        held = item
    if held is not None:
        # How many steps the run means to do stands behind the log. It travels with the last row.
        total = _MAX_STEPS.search(tail.last)
        held.mark = total[1].decode("ascii") if total else ""
        yield held


def settle(found: list[Found]) -> list[Found]:
    """Every step gets the number of steps that the run means to do."""
    total = next((int(item.mark) for item in found if item.mark), None)
    for item in found:
        if isinstance(item.row, TrainingStep) and total:
            item.row.total_steps = total
    return found


class _Tail(io.RawIOBase):
    """Passes a stream on and remembers its end."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.last = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size) or b""
        self.last = (self.last + data[-_TAIL:])[-_TAIL:] if data else self.last
        return data


def _items(stream: BinaryIO, steps: StepValues) -> Iterator[Found | Refused]:
    for element in elements_of(stream, _KEY):
        if isinstance(element, Refused):
            yield element._replace(reason=f"trainer_state: {element.reason}")
        else:
            yield from _read_entry(element, steps)
    yield from steps.rest()


def _read_entry(element: Element, steps: StepValues) -> Iterator[Found | Refused]:
    try:
        entry: Any = json.loads(element.data)  # knows NaN, which Python writes
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict):
        yield Refused(element.offset, len(element.data), "trainer_state: not JSON", element.data[:_EXCERPT])
        return
    step = step_number(entry.get("step"))
    if step is None:
        yield Refused(element.offset, len(element.data), "trainer_state: entry without step", element.data[:_EXCERPT])
    elif "train_runtime" in entry:
        event = TrainingEvent(kind="exit", step=step, duration_s=number_in_json(entry["train_runtime"]))
        yield Found(event, NO_CLOCK, element.offset)
    elif any(name.startswith("eval_") for name in entry):
        event = TrainingEvent(kind="validation", step=step, duration_s=number_in_json(entry.get("eval_runtime")))
        yield Found(event, NO_CLOCK, element.offset)
    else:
        for name, value in entry.items():
            number = number_in_json(value)
            if number is not None and name != "step":
                yield from steps.add(step, name, number, NO_CLOCK, element.offset)


FORMAT: Final = DocumentFormat(
    name="trainer_state",
    doc="The state of Hugging Face's Trainer beside a checkpoint, `trainer_state.json`: steps and evaluations, without "
    "their times.",
    url="https://huggingface.co/docs/transformers/main_classes/callback#transformers.TrainerState",
    tables=("training_steps", "training_events"),
    detects=detects,
    read=read,
    settle=settle,
    samples=(
        Sample(
            '{\n  "best_metric": null,\n  "epoch": 0.5,\n  "global_step": 30,\n  "log_history": [\n'
            '    {"epoch": 0.33, "grad_norm": 0.75, "learning_rate": 5e-05, "loss": 2.5, "step": 20},\n'
            '    {"epoch": 0.5, "eval_loss": 2.75, "eval_runtime": 3.5, "step": 30},\n'
            '    {"epoch": 0.5, "step": 30, "total_flos": 1e15, "train_loss": 2.6, "train_runtime": 120.5}\n  ],\n'
            '  "logging_steps": 10,\n  "max_steps": 1000,\n  "num_train_epochs": 1\n}\n',
            (
                expect("training_steps", step=20, total_steps=1000, loss=2.5, grad_norm=0.75, learning_rate=5e-05),
                expect("training_events", kind="validation", step=30, duration_s=3.5, time=None),
                expect("training_events", kind="exit", step=30, duration_s=120.5),
            ),
        ),
    ),
    non_samples=(
        '{"log_history": [], "global_step": 3}\n',
        '{"epoch": 1, "history": [{"loss": 2.5, "step": 1}], "global_step": 3}\n',
    ),
)
