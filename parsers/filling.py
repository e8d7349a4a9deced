"""Times of lines that have none, from those around them: arithmetic over the lines of a file, piece by piece.

A file may have more lines than fit into memory. Each piece is shown three times, in order: to find the first and the
last known time, to see how far step times lead on from those, and to fill what lies between two known times. What is
kept of a piece are the known times next to unknown ones. However a file is cut into pieces, it gets the same times.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

# Part of a sum of step times by which it may be wrong where nothing bounds it: real runs pause for less than this.
_PAUSES: Final = 0.1

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


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


class _Known(NamedTuple):
    """A line with a time: its number, the sums of bridges and of breaks up to it, and whether it is a step itself."""

    number: int
    time: float
    error: float
    sum: float
    breaks: int
    is_step: bool


class _Sums:
    """Sums over all lines so far, rounded as if they were made in one go."""

    def __init__(self) -> None:
        self.lines = 0
        self._bridges = self._untimed = 0.0
        self._breaks = 0

    def of(self, lines: Lines) -> tuple[Ints, Floats, Floats, Ints]:
        """For each line its number, and up to it the sums of bridges, of bridges of untimed lines, and of breaks."""
        numbers = self.lines + np.arange(lines.times.size)
        bridges = np.cumsum(np.concatenate([[self._bridges], lines.bridges]))
        untimed = np.cumsum(np.concatenate([[self._untimed], np.where(np.isnan(lines.times), lines.bridges, 0.0)]))
        breaks = self._breaks + np.concatenate([[0], np.cumsum(lines.breaks)])
        self.lines += lines.times.size
        self._bridges, self._untimed, self._breaks = float(bridges[-1]), float(untimed[-1]), int(breaks[-1])
        return numbers, bridges[1:], untimed[1:], breaks[1:]


class Filling:
    """Show all pieces to :meth:`look`, then all to :meth:`lead`, then all to :meth:`fill`, always in order."""

    def __init__(self) -> None:
        self._sums = (_Sums(), _Sums(), _Sums())
        self._first: _Known | None = None
        self._last: _Known | None = None
        self._half = 0.0
        # Bridges before the first known time, since the last break, and the number of that.
        self._ahead: list[Floats] = []
        self._ahead_of = 0
        # Times next to lines that have none: number, time, error, sum of untimed bridges.
        self._noted: list[tuple[Ints, Floats, Floats, Floats]] = []
        self._around: tuple[Ints, Floats, Floats, Floats] | None = None

    def look(self, lines: Lines) -> None:
        """Find the first and the last known time."""
        if not lines.times.size:
            return
        numbers, sums, _, breaks = self._sums[0].of(lines)
        known = np.flatnonzero(~np.isnan(lines.times)).tolist()
        if self._first is None:
            self._look_ahead(lines, breaks, known[0] if known else lines.times.size)
        for at in {known[0], known[-1]} if known else ():
            here = _Known(
                int(numbers[at]),
                float(lines.times[at]),
                float(lines.errors[at]),
                float(sums[at]),
                int(breaks[at]),
                bool(lines.bridges[at] > 0),
            )
            if self._first is None or here.number < self._first.number:
                self._first = here
            if self._last is None or here.number > self._last.number:
                self._last = here
        if self._first is not None and self._ahead:
            # Behind the last step up to one more was on the way, unless the known time is that of a step itself.
            self._half = 0.0 if self._first.is_step else float(np.median(np.concatenate(self._ahead))) / 2
            self._ahead = []

    def _look_ahead(self, lines: Lines, breaks: Ints, until: int) -> None:
        now = int(breaks[min(until, lines.times.size - 1)])
        if now != self._ahead_of:
            self._ahead, self._ahead_of = [], now
        own = lines.bridges[:until][(breaks[:until] == now) & (lines.bridges[:until] > 0)]
        if own.size:
            self._ahead.append(own)

    def lead(self, lines: Lines) -> None:
        """See how far step times lead on, and note the times next to lines that still have none."""
        if not lines.times.size:
            return
        numbers, sums, untimed, breaks = self._sums[1].of(lines)
        times, errors = self._led_on(lines, numbers, sums, breaks)
        unknown = np.isnan(times)
        beside = np.ones(times.size, np.bool_)  # a line at the edge of a piece may stand next to any
        beside[1:-1] = unknown[:-2] | unknown[2:]
        beside &= ~unknown
        self._noted.append((numbers[beside], times[beside], errors[beside], untimed[beside]))

    def _led_on(self, lines: Lines, numbers: Ints, sums: Floats, breaks: Ints) -> tuple[Floats, Floats]:
        """Times of lines with a known time on one side only, as far as step times lead on from it."""
        times, errors = lines.times.copy(), lines.errors.copy()
        first, last = self._first, self._last
        if first is None or last is None:
            return times, errors
        steps = lines.bridges > 0
        behind = steps & (numbers > last.number) & (breaks == last.breaks)
        reached = sums[behind] - last.sum
        times[behind], errors[behind] = last.time + reached, last.error + _PAUSES * reached
        ahead = steps & (numbers < first.number) & (breaks == first.breaks)
        reached = first.sum - sums[ahead]
        times[ahead] = first.time - reached - self._half
        errors[ahead] = first.error + _PAUSES * reached + self._half
        return times, errors

    def fill(self, lines: Lines) -> Filled:
        """Times of all lines of a piece, as far as their neighbours tell them."""
        numbers, sums, untimed, breaks = self._sums[2].of(lines)
        times, errors = self._led_on(lines, numbers, sums, breaks)
        lows, highs = times - errors, times + errors
        known, known_times, known_errors, told_sums = self._all_noted()
        place = np.searchsorted(known, numbers)
        wanted = np.flatnonzero(np.isnan(times) & (place > 0) & (place < known.size))
        if not wanted.size:
            return Filled(times, errors, lows, highs)
        p, n = place[wanted] - 1, place[wanted]
        span, told, reached = (
            known_times[n] - known_times[p],
            told_sums[n] - told_sums[p],
            untimed[wanted] - told_sums[p],
        )
        slack = span - told
        share = (numbers[wanted] - known[p]) / (known[n] - known[p])
        # What is left over lies anywhere between the two; a sum that is longer than the time it lies in is scaled.
        fitting = slack >= 0
        scale = np.divide(span, told, out=np.zeros_like(span), where=told > 0)
        filled = known_times[p] + np.where(fitting, reached + slack * share, np.maximum(reached * scale, 0.0))
        wrong = np.where(fitting, slack * np.maximum(share, 1 - share), -slack)
        around = np.maximum(known_errors[p], known_errors[n])
        times[wanted], errors[wanted] = filled, wrong + around
        lows[wanted] = np.where(fitting, known_times[p] + reached, filled + slack) - around
        highs[wanted] = np.where(fitting, known_times[p] + reached + slack, filled - slack) + around
        return Filled(times, errors, lows, highs)

    def _all_noted(self) -> tuple[Ints, Floats, Floats, Floats]:
        if self._around is None:
            nothing = (np.zeros(0, np.int64), np.zeros(0), np.zeros(0), np.zeros(0))
            columns = zip(*(self._noted or [nothing]), strict=True)
            numbers, times, errors, sums = (np.concatenate(column) for column in columns)
            self._around, self._noted = (numbers, times, errors, sums), []
        return self._around
