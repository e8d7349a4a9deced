"""The zone of a file in which some lines print absolute times and others a local one, without a zone.

Trainers print epochs (MLPerf's log, flight recorders) between lines of loggers and of Slurm that print a wall clock. A
local line between two absolute ones lies between them in time: if these are near each other, only one zone fits. At the
ends of a file, where there is one on one side only, the local line is taken to follow, or to go before, at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from aftershock.parsers.clock import MINUTE, SECOND, Reading

# Zones differ by quarters of an hour; of those that a single neighbour may tell only by whole and half hours.
_QUARTER: Final = 15 * MINUTE
_HALF: Final = 30 * MINUTE
_MOST: Final = 14 * 60 * MINUTE
# How soon a line follows another one for this to be no coincidence.
_AT_ONCE: Final = 120 * SECOND
# Part of the lines that must agree.
_AGREED: Final = 0.8


Ints = npt.NDArray[np.int64]


class Crowd(Protocol):
    """Local lines that are too many to be given one by one."""

    def parts(self) -> Iterable[tuple[Ints, Ints]]:
        """Their offsets, in order, and their wall clocks."""


def shift_between(
    ordered: Iterable[tuple[int, Reading]], in_year: Callable[[int, int], int | None], crowd: Crowd | None = None
) -> int | None:
    """Microseconds east of UTC of the local lines of a file, given in the order of their offsets; None if unknown.

    in_year: moves a wall clock without a year to the year that brings it nearest to an absolute time. crowd: further
    local lines.
    """
    sure: Counter[int] = Counter()
    likely: Counter[int] = Counter()
    waiting: list[Reading] = []
    before: int | None = None
    absolutes: list[tuple[int, int]] = []
    for offset, reading in ordered:
        absolute = _absolute(reading)
        if absolute is None:
            if reading.wall is not None and reading.kind in ("local", "yearless"):
                waiting.append(reading)
            continue
        for local in waiting:
            _vote(_wall(local, absolute, in_year), before, absolute, sure, likely)
        waiting, before = [], absolute
        absolutes.append((offset, absolute))
    if before is not None:
        for local in waiting:
            _vote(_wall(local, before, in_year), before, None, sure, likely)
    if crowd is not None and absolutes:
        for offsets, walls in crowd.parts():
            _vote_all(offsets, walls, absolutes, sure, likely)
    for votes in (sure, likely):
        if votes:
            shift, count = votes.most_common(1)[0]
            return shift if count >= _AGREED * votes.total() else None
    return None


def _absolute(reading: Reading) -> int | None:
    return reading.wall if reading.kind in ("epoch", "zoned") else None


def _wall(local: Reading, near: int, in_year: Callable[[int, int], int | None]) -> int | None:
    assert local.wall is not None
    return local.wall if local.kind == "local" else in_year(local.wall, near)


def _vote(wall: int | None, before: int | None, after: int | None, sure: Counter[int], likely: Counter[int]) -> None:
    if wall is None:
        return
    if before is not None and after is not None:
        # Shifts with which the line lies between the two; a second for clocks that are cut off.
        low, high = wall - after - SECOND, wall - before + SECOND
        first = -(-low // _QUARTER) * _QUARTER
        if first <= high < first + _QUARTER and abs(first) <= _MOST:
            sure[first] += 1
        return
    late = before is not None
    apart = wall - before if before is not None else (after or 0) - wall
    shift = (apart // _HALF) * _HALF
    if apart - shift <= _AT_ONCE and abs(shift) <= _MOST:
        likely[shift if late else -shift] += 1


def _vote_all(
    offsets: Ints, walls: Ints, absolutes: Sequence[tuple[int, int]], sure: Counter[int], likely: Counter[int]
) -> None:
    """The votes of many local lines. ``absolutes``: the absolute times of the file, by offset."""
    places = np.array([offset for offset, _ in absolutes], np.int64)
    times = np.array([time for _, time in absolutes], np.int64)
    place = np.searchsorted(places, offsets)
    first, last = place == 0, place == len(times)
    before, after = times[np.maximum(place - 1, 0)], times[np.minimum(place, len(times) - 1)]
    low, high = walls - after - SECOND, walls - before + SECOND
    shift = -(-low // _QUARTER) * _QUARTER
    told = ~first & ~last & (shift <= high) & (high < shift + _QUARTER) & (np.abs(shift) <= _MOST)
    _count(shift[told], sure)
    apart = np.where(last, walls - before, after - walls)
    shift = apart // _HALF * _HALF
    told = (first | last) & (apart - shift <= _AT_ONCE) & (np.abs(shift) <= _MOST)
    _count(np.where(last, shift, -shift)[told], likely)


def _count(shifts: Ints, votes: Counter[int]) -> None:
    values, counts = np.unique(shifts, return_counts=True)
    votes.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
