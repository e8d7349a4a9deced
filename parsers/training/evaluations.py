"""Evaluations of one file: one that is told by a benchmark's record and by the trainer's own line is one event."""

from __future__ import annotations

from typing import Final

from aftershock.parsers.formats import Found
from aftershock.schemas.events import TrainingEvent

# Mark of a record that tells of an evaluation beside the trainer's line.
BESIDE: Final = "beside"
# The two stand next to each other.
_NEAR_BYTES: Final = 2048


def join_evaluations(events: list[Found]) -> list[Found]:
    """The events of one source, in the order of their offsets: the clock of the one, the step of the other."""
    kept: list[Found] = []
    last: Found | None = None
    for item in events:
        row = item.row
        if not isinstance(row, TrainingEvent) or row.kind != "validation":
            kept.append(item)
            continue
        if (
            last is not None
            and item.offset - last.offset <= _NEAR_BYTES
            and (item.mark == BESIDE) != (last.mark == BESIDE)
        ):
            _merge(last, item)
            last = None
            continue
        last = item
        kept.append(item)
    return kept


def _merge(first: Found, other: Found) -> None:
    row, more = first.row, other.row
    assert isinstance(row, TrainingEvent)
    assert isinstance(more, TrainingEvent)
    row.step = row.step if row.step is not None else more.step
    row.duration_s = row.duration_s if row.duration_s is not None else more.duration_s
    if first.reading.wall is None:
        first.reading = other.reading
    row.count = (row.count or 1) + (more.count or 1)
