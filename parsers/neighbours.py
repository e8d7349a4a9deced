"""Times of lines that print none, from those around them in the same file, with the error that this has.

Trainers print steps without a clock between stages that have one, and saves between steps. Where a known time stands
before and behind, a line lies between the two; the step times that are printed on the way say where. With a known time
on one side only, the sum of the step times leads on from it as far as it reaches; what lies beyond stays unknown.
Pauses between steps (saves, evaluations) are in no step time: that is the error of such a sum.

An assumed zone stays an assumption.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from aftershock.parsers.clock import SECOND
from aftershock.parsers.resolve import Resolved
from aftershock.schemas.columns import Row
from aftershock.schemas.events import EventRow, TrainingEvent
from aftershock.schemas.training import Checkpoint, TrainingStep

ASSUMED: Final = "assumed_zone"
NEIGHBOUR: Final = "neighbour"

# Part of a sum of step times by which it may be wrong where nothing bounds it: real runs pause for less than this.
_PAUSES: Final = 0.1

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class Lines(NamedTuple):
    """Lines of one file in their order.

    times: seconds, NaN where unknown. errors: of known times, seconds. bridges: seconds from the line before to this
    one as the line itself states it, else 0. breaks: whether nobody knows how long before it the run stood still.
    """

    times: Floats
    errors: Floats
    bridges: Floats
    breaks: Bools


class Filled(NamedTuple):
    """Times and errors, seconds; NaN where no neighbour gives one. lows, highs: between which each lies."""

    times: Floats
    errors: Floats
    lows: Floats
    highs: Floats


def fill_times(lines: Lines) -> Filled:
    """Times of all lines, as far as their neighbours tell them."""
    times, errors = _led_on(lines)
    lows, highs = times - errors, times + errors
    known = np.flatnonzero(~np.isnan(times))
    at = np.arange(times.size)
    wanted = np.isnan(times) & (at > known[0]) & (at < known[-1]) if known.size else np.zeros(0, np.bool_)
    if not wanted.any():
        return Filled(times, errors, lows, highs)
    before, after = _around(known, at)
    i, p, n = at[wanted], before[wanted], after[wanted]
    sums = np.cumsum(np.where(np.isnan(lines.times), lines.bridges, 0.0))
    span, told, reached = times[n] - times[p], sums[n] - sums[p], sums[i] - sums[p]
    slack = span - told
    share = (i - p) / (n - p)
    # What is left over lies anywhere between the two; a sum that is longer than the time it lies in is scaled.
    fitting = slack >= 0
    scale = np.divide(span, told, out=np.zeros_like(span), where=told > 0)
    filled = times[p] + np.where(fitting, reached + slack * share, np.maximum(reached * scale, 0.0))
    wrong = np.where(fitting, slack * np.maximum(share, 1 - share), -slack)
    around = np.maximum(errors[p], errors[n])
    times[i], errors[i] = filled, wrong + around
    lows[i] = np.where(fitting, times[p] + reached, filled + slack) - around
    highs[i] = np.where(fitting, times[p] + reached + slack, filled - slack) + around
    return Filled(times, errors, lows, highs)


def _led_on(lines: Lines) -> tuple[Floats, Floats]:
    """Times of lines with a known time on one side only, as far as step times lead on from it."""
    times, errors = lines.times.copy(), lines.errors.copy()
    known = np.flatnonzero(~np.isnan(times))
    if not known.size:
        return times, errors
    first, last = int(known[0]), int(known[-1])
    sums = np.cumsum(lines.bridges)
    breaks = np.cumsum(lines.breaks)
    behind = np.arange(last + 1, times.size)
    behind = behind[(lines.bridges[behind] > 0) & (breaks[behind] == breaks[last])]
    reached = sums[behind] - sums[last]
    times[behind], errors[behind] = times[last] + reached, errors[last] + _PAUSES * reached
    ahead = np.arange(first)
    ahead = ahead[(lines.bridges[ahead] > 0) & (breaks[ahead] == breaks[first])]
    if ahead.size:
        # Behind the last step up to one more was on the way, unless the known time is that of a step itself.
        half = 0.0 if lines.bridges[first] > 0 else float(np.median(lines.bridges[ahead])) / 2
        reached = sums[first] - sums[ahead]
        times[ahead] = times[first] - reached - half
        errors[ahead] = errors[first] + _PAUSES * reached + half
    return times, errors


def _around(known: npt.NDArray[np.intp], at: npt.NDArray[np.intp]) -> tuple[npt.NDArray[np.intp], ...]:
    """For each place the known one before it and behind it; only where there are both."""
    place = np.searchsorted(known, at)
    return known[np.clip(place - 1, 0, known.size - 1)], known[np.clip(place, 0, known.size - 1)]


def step_bridges(steps: Sequence[int | None], step_times: Sequence[float | None]) -> tuple[Floats, Bools]:
    """For printed steps the seconds since the print before, and whether a run begins anew with one.

    A print stands for as many steps as lie between it and the one before; of the first one as usual in this file.
    """
    seconds = np.array([np.nan if value is None else value for value in step_times], np.float64)
    numbered = np.array([step is not None for step in steps], np.bool_)
    number = np.array([step for step in steps if step is not None], np.float64)
    apart = np.diff(number, prepend=np.nan)
    forward = apart[apart > 0]
    usual = float(np.median(forward)) if forward.size else 1.0
    bridges, breaks = np.zeros(seconds.size), np.zeros(seconds.size, np.bool_)
    breaks[numbered] = apart < 0
    count = np.where(apart > 0, apart, np.where(apart == 0, 0.0, np.minimum(usual, number)))
    told = seconds[numbered]
    bridges[numbered] = np.where(np.isfinite(told) & (told > 0), told * count, 0.0)
    return bridges, breaks


def fill_rows(rows: Sequence[Row], anchors: Iterable[tuple[int, Resolved]]) -> None:
    """Fill the times of training rows of one source, in place. ``anchors``: clocks of further lines, by offset."""
    wanted = [row for row in rows if isinstance(row, (TrainingEvent, TrainingStep))]
    if not wanted or all(row.time is not None for row in wanted):
        _fill_checkpoints(rows, {})
        return
    steps = [row for row in wanted if isinstance(row, TrainingStep)]
    bridges, breaks = step_bridges([row.step for row in steps], [row.step_time_s for row in steps])
    number = {id(row): place for place, row in enumerate(steps)}
    own = {row.byte_offset for row in wanted if row.time is not None}
    told = [(offset, when) for offset, when in anchors if when.time is not None and offset not in own]
    told += [
        (row.byte_offset or 0, Resolved(row.time, row.time_basis or "", row.time_error_s))
        for row in rows
        if isinstance(row, EventRow) and not isinstance(row, TrainingEvent) and row.time is not None
    ]
    places: list[tuple[int, int, Resolved | TrainingEvent | TrainingStep]] = [
        *((offset, 0, when) for offset, when in told),
        *((row.byte_offset or 0, 1, row) for row in wanted),
    ]
    places.sort(key=lambda place: place[:2])
    items = [item for _, _, item in places]
    at = [number.get(id(item), -1) for item in items]
    errors = [(item.error_s if isinstance(item, Resolved) else item.time_error_s) or 0.0 for item in items]
    # Seconds since the first of them: microseconds since 1970 would be at the limit of what a float holds.
    base = next((item.time for item in items if item.time is not None), 0)
    lines = Lines(
        np.array([np.nan if item.time is None else (item.time - base) / SECOND for item in items], np.float64),
        np.array(errors, np.float64),
        np.array([bridges[place] if place >= 0 else 0.0 for place in at], np.float64),
        np.array([bool(breaks[place]) if place >= 0 else False for place in at], np.bool_),
    )
    bases = [item.basis if isinstance(item, Resolved) else item.time_basis for item in items]
    basis = ASSUMED if any(word == ASSUMED for word in bases) else NEIGHBOUR
    filled = fill_times(lines)
    spans: dict[int, tuple[float, float]] = {}
    for item, time, error, low, high in zip(items, *(column.tolist() for column in filled), strict=True):
        if isinstance(item, Resolved) or item.time is not None or isnan(time):
            continue
        item.time, item.time_basis, item.time_error_s = base + round(time * SECOND), basis, round(error, 6)
        if isinstance(item, TrainingEvent):
            item.last_time = item.time
            spans[id(item)] = base + low * SECOND, base + high * SECOND
    _fill_checkpoints(rows, spans)


_PARTS: Final = {
    "save_begin": ("save", "start_time"),
    "save_scheduled": ("save", "scheduled_time"),
    "save_end": ("save", "end_time"),
    "load_begin": ("load", "start_time"),
    "load_end": ("load", "end_time"),
}


Span = tuple[float, float]


def _fill_checkpoints(rows: Sequence[Row], spans: Mapping[int, Span]) -> None:
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
