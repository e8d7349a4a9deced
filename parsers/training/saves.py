"""Checkpoints of one file: a begin and an end become an interval; a begin without an end is incomplete."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from aftershock.parsers.clock import SECOND
from aftershock.parsers.formats import Found
from aftershock.schemas.events import TrainingEvent
from aftershock.schemas.training import Checkpoint

_KINDS: Final = {
    "save_begin": ("save", "begin"),
    "save_scheduled": ("save", "scheduled"),
    "save_end": ("save", "end"),
    "load_begin": ("load", "begin"),
    "load_end": ("load", "end"),
}


def checkpoints_of(events: Iterable[Found]) -> list[Found]:
    """A row for each save and load that is told of, in the order of their first lines.

    Times of the rows are printed wall clocks, of the kind of their reading. A save of the same step from another line
    (older versions print no step at the end) ends the last one that is open.
    """
    rows: list[Found] = []
    open_rows: dict[tuple[str, int | None], Found] = {}
    for item in events:
        event = item.row
        if not isinstance(event, TrainingEvent) or event.kind not in _KINDS:
            continue
        kind, part = _KINDS[event.kind]
        key = (kind, event.step)
        held = open_rows.get(key)
        if held is None and part != "begin":
            # The end, or the begin, may leave out the step.
            held = next(
                (one for (k, step), one in reversed(open_rows.items()) if k == kind and _fits(step, event)), None
            )
        if held is None or part == "begin":
            if part == "begin" and held is not None and _same_moment(held, item):
                continue  # another rank says the same
            held = Found(
                Checkpoint(kind=kind, step=event.step, path=event.path, origin="log"), item.reading, item.offset
            )
            _checkpoint(held).complete = False
            rows.append(held)
            open_rows[key] = held
        _take(held, part, item, event)
        if part == "end":
            for name in [name for name, row in open_rows.items() if row is held]:
                del open_rows[name]
    return rows


def _fits(step: int | None, event: TrainingEvent) -> bool:
    return step is None or event.step is None


def _same_moment(held: Found, item: Found) -> bool:
    first = _checkpoint(held).start_time
    return first is None or item.reading.wall is None or abs(item.reading.wall - first) <= 60 * SECOND


def _checkpoint(item: Found) -> Checkpoint:
    assert isinstance(item.row, Checkpoint)
    return item.row


def _take(held: Found, part: str, item: Found, event: TrainingEvent) -> None:
    row = _checkpoint(held)
    row.step = row.step if row.step is not None else event.step
    row.path = row.path or event.path
    wall = item.reading.wall if item.reading.kind == held.reading.kind else None
    if part == "begin":
        row.start_time = wall
    elif part == "scheduled":
        row.scheduled_time = wall
    else:
        row.end_time = wall
        row.complete = True
        row.duration_s = event.duration_s
    if row.start_time is not None and row.end_time is not None and row.end_time >= row.start_time:
        row.duration_s = (row.end_time - row.start_time) / SECOND
