"""Times of lines that print none, from those around them in the same file, with the error that this has.

Trainers print steps without a clock between stages that have one, and saves between steps. Where a known time stands
before and behind, a line lies between the two; the step times that are printed on the way say where. With a known time
on one side only, the sum of the step times leads on from it as far as it reaches; what lies beyond stays unknown.
Pauses between steps (saves, evaluations) are in no step time: that is the error of such a sum.

An assumed zone stays an assumption.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from aftershock.parsers.clock import SECOND
from aftershock.parsers.filling import Bools, Filled, Filling, Floats, Lines
from aftershock.parsers.resolve import Resolved
from aftershock.parsers.step_times import ASSUMED, NEIGHBOUR, NOT_KNOWN, Bridges, Neighbours, Span, StepPiece
from aftershock.schemas.columns import Row
from aftershock.schemas.events import TrainingEvent
from aftershock.schemas.training import Checkpoint, TrainingStep


def fill_times(lines: Lines) -> Filled:
    """Times of all lines of a file, as far as their neighbours tell them."""
    filling = Filling()
    filling.look(lines)
    filling.lead(lines)
    return filling.fill(lines)


def step_bridges(steps: Sequence[int | None], step_times: Sequence[float | None]) -> tuple[Floats, Bools]:
    """For printed steps the seconds since the print before, and whether a run begins anew with one.

    A print stands for as many steps as lie between it and the one before; of the first one as usual in this file.
    """
    bridges = Bridges()
    numbers, seconds = (np.array([np.nan if v is None else v for v in c], np.float64) for c in (steps, step_times))
    bridges.look(numbers)
    return bridges.of(numbers, seconds)


def fill_rows(rows: Sequence[Row], anchors: Iterable[tuple[int, Resolved]]) -> None:
    """Fill the times of training rows of one source, in place. ``anchors``: clocks of further lines, by offset."""
    if all(row.time is not None for row in rows if isinstance(row, (TrainingEvent, TrainingStep))):
        fill_checkpoints(rows, {})
        return
    steps = [row for row in rows if isinstance(row, TrainingStep)]
    steps.sort(key=lambda row: row.byte_offset or 0)
    piece = _piece_of(steps)
    around = Neighbours([row for row in rows if not isinstance(row, TrainingStep)], anchors)
    around.scan(piece)
    around.look(piece)
    around.look(None)
    around.lead(piece)
    around.lead(None)
    times, errors = around.fill(piece)
    around.fill(None)
    for row, time, error in zip(steps, times.tolist(), errors.tolist(), strict=True):
        if row.time is None and time != NOT_KNOWN:
            row.time, row.time_basis, row.time_error_s = time, around.basis, error
    fill_checkpoints(rows, around.spans)


def _piece_of(steps: Sequence[TrainingStep]) -> StepPiece:
    return StepPiece(
        np.array([row.byte_offset or 0 for row in steps], np.int64),
        np.array([NOT_KNOWN if row.time is None else row.time for row in steps], np.int64),
        np.array([row.time_error_s or 0.0 for row in steps], np.float64),
        np.array([np.nan if row.step is None else row.step for row in steps], np.float64),
        np.array([np.nan if row.step_time_s is None else row.step_time_s for row in steps], np.float64),
        any(row.time_basis == ASSUMED for row in steps),
    )


_PARTS: Final = {
    "save_begin": ("save", "start_time"),
    "save_scheduled": ("save", "scheduled_time"),
    "save_end": ("save", "end_time"),
    "load_begin": ("load", "start_time"),
    "load_end": ("load", "end_time"),
}


def fill_checkpoints(rows: Sequence[Row], spans: Mapping[int, Span]) -> None:
    """Fill begins and ends of checkpoints from their lines, which stand at or behind the first of them.

    spans: by ``id`` of a line, between which times (microseconds) it lies, if it has no clock of its own.
    """
    told = [row for row in rows if isinstance(row, Checkpoint)]
    lines: list[Checkpoint | TrainingEvent] = [*told]
    lines += [row for row in rows if isinstance(row, TrainingEvent) and row.kind in _PARTS]
    lines.sort(key=lambda row: (row.byte_offset or 0, isinstance(row, TrainingEvent)))
    open_rows: dict[tuple[str | None, int | None], Checkpoint] = {}
    filled: dict[tuple[int, str], Span] = {}  # by row and column
    for row in lines:
        if isinstance(row, Checkpoint):
            open_rows[row.kind, row.step] = row
            continue
        kind, column = _PARTS[row.kind or ""]
        held = open_rows.get((kind, row.step))
        if held is None or row.time is None or getattr(held, column) is not None:
            continue
        if column == "end_time" and not held.complete:
            continue
        setattr(held, column, row.time)
        held.time_basis = ASSUMED if ASSUMED in (row.time_basis, held.time_basis) else NEIGHBOUR
        error = (row.time_error_s or 0.0) * SECOND
        filled[id(held), column] = spans.get(id(row), (row.time - error, row.time + error))
    for row in told:
        _fit(row, filled.get((id(row), "start_time")), filled.get((id(row), "end_time")))


def _fit(row: Checkpoint, start: Span | None, end: Span | None) -> None:
    """Let begin, end and a printed duration fit together. ``start``, ``end``: where those lie that were filled in."""
    worst = max(_half(start), _half(end))
    length = None if row.duration_s is None else round(row.duration_s * SECOND)
    if length is None or not row.complete:
        if row.start_time is not None and row.end_time is not None:
            row.end_time = max(row.start_time, row.end_time)
    elif row.start_time is not None and start is not None and row.end_time is not None and end is not None:
        # The begin lies where both allow it.
        low, high = max(start[0], end[0] - length), min(start[1], end[1] - length)
        if low <= high:
            row.start_time, worst = round((low + high) / 2), (high - low) / 2
        row.end_time = row.start_time + length
    elif row.start_time is not None and (row.end_time is None or end is not None):
        row.end_time, worst = row.start_time + length, _half(start)
    elif row.end_time is not None and (row.start_time is None or start is not None):
        row.start_time, worst = row.end_time - length, _half(end)
    if start is not None or end is not None:
        row.time_error_s = round(max(row.time_error_s or 0.0, worst / SECOND), 6)


def _half(span: Span | None) -> float:
    return 0.0 if span is None else (span[1] - span[0]) / 2
