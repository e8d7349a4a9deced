"""Steps of one file: one row for each printed step, whatever number of ranks printed it.

Trainers and the libraries below them print the same step twice (Megatron-LM and DeepSpeed), a line for each rank
(torchtitan), or a progress bar beside a line of values (Hugging Face): one row each, ``copies`` says of how many lines.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from aftershock.parsers.clock import SECOND, micros_between
from aftershock.parsers.formats import Found
from aftershock.schemas.training import TrainingStep

# A progress bar, which knows the step; and values without a step, which belong to the last bar before them.
BAR, VALUES = "bar", "values"

# Prints of one step by several ranks stand near each other: in time where they have a clock, else in the file.
_NEAR_US: Final = 120 * SECOND
_NEAR_BYTES: Final = 256 << 10
# How many different steps may stand between two prints of one.
_OPEN_STEPS: Final = 8

_VALUES: Final = tuple(
    column.name
    for column in fields(TrainingStep)
    if column.name not in ("session_id", "time", "time_basis", "step", "copies", "source", "byte_offset")
)


def join_steps(found: list[Found]) -> list[Found]:
    """The steps of one source, in the order of their offsets."""
    kept: list[Found] = []
    open_steps: dict[int | None, Found] = {}
    bar: Found | None = None
    for item in found:
        row = item.row
        assert isinstance(row, TrainingStep)
        if item.mark == BAR:
            bar = item
            continue
        if item.mark == VALUES and row.step is None:
            if bar is None:
                continue
            assert isinstance(bar.row, TrainingStep)
            row.step = bar.row.step
            row.total_steps = row.total_steps or bar.row.total_steps
            row.step_time_s = row.step_time_s if row.step_time_s is not None else bar.row.step_time_s
        same = open_steps.get(row.step)
        if same is not None and _is_copy(same, item):
            _merge(same.row, row)
            continue
        open_steps.pop(row.step, None)
        open_steps[row.step] = item
        if len(open_steps) > _OPEN_STEPS:
            del open_steps[next(iter(open_steps))]
        kept.append(item)
    return kept


def _is_copy(first: Found, again: Found) -> bool:
    """Whether a step is printed once more, rather than reached once more after a restart."""
    one, other = first.row, again.row
    assert isinstance(one, TrainingStep)
    assert isinstance(other, TrainingStep)
    apart = micros_between(first.reading, again.reading)
    if apart is not None:
        return abs(apart) <= _NEAR_US
    return again.offset - first.offset <= _NEAR_BYTES and (
        one.loss is None or other.loss is None or one.loss == other.loss or one.loss != one.loss
    )


def _merge(row: object, copy: object) -> None:
    """Take from a further print what the first one does not say."""
    for name in _VALUES:
        if getattr(row, name) is None:
            setattr(row, name, getattr(copy, name))
    assert isinstance(row, TrainingStep)
    assert isinstance(copy, TrainingStep)
    row.copies = (row.copies or 1) + (copy.copies or 1)
