"""Numbers over all time on a fixed grid: one cell for each step of time, one flat array for each key.

What is held is bounded: where there are too many cells the step doubles, and neighbours become one. The result does not
hang on the order in which numbers come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from aftershock.pipeline.metrics.window_join import Floats, Ints

# Cells that are held at once, of eight bytes each.
MOST_CELLS: Final = 1 << 27

Key = tuple[str, ...]


@dataclass
class _Row:
    first: int
    values: Floats


def _sum(one: Floats, other: Floats) -> Floats:
    """Sums in which nothing and a number is the number."""
    both: Floats = np.where(np.isnan(one), other, np.where(np.isnan(other), one, one + other))
    return both


ADD: Final = "add"
LOW: Final = "low"
HIGH: Final = "high"
_MERGE: Final[dict[str, Callable[[Floats, Floats], Floats]]] = {ADD: _sum, LOW: np.fmin, HIGH: np.fmax}
_REDUCE: Final[dict[str, np.ufunc]] = {ADD: np.add, LOW: np.minimum, HIGH: np.maximum}


@dataclass
class Cells:
    """Arrays over time by key. ``how``: what several numbers of one cell become. ``step_ms``: length of a cell."""

    how: str
    step_ms: int
    most: int = MOST_CELLS
    _rows: dict[Key, _Row] = field(default_factory=dict)
    _held: int = 0

    def put(self, key: Key, times: Ints, values: Floats) -> None:
        """Numbers at times (milliseconds, sorted)."""
        if not len(times):
            return
        cell = times // self.step_ms
        starts = np.flatnonzero(np.diff(cell, prepend=cell[0] - 1))
        self._merge(key, cell[starts], _REDUCE[self.how].reduceat(values, starts))

    def spread(self, key: Key, begin: Ints, end: Ints, by: Floats) -> None:
        """What was counted between times, which follow each other: evenly over the cells in between."""
        if not len(begin):
            return
        first, last = int(begin[0]) // self.step_ms, -(-int(end[-1]) // self.step_ms)
        edges = np.arange(first, last + 1) * self.step_ms
        # Between two spans nothing is counted, and nothing is known.
        times = np.column_stack((begin, end)).ravel()
        total = np.cumsum(by)
        totals = np.column_stack((total - by, total)).ravel()
        known = np.column_stack((np.cumsum(end - begin) - (end - begin), np.cumsum(end - begin))).ravel()
        amount = np.diff(np.interp(edges, times, totals))
        seen = np.diff(np.interp(edges, times, known.astype(np.float64))) > 0
        self._merge(key, np.arange(first, last)[seen], amount[seen])

    def _merge(self, key: Key, cells: Ints, values: Floats) -> None:
        if not len(cells):
            return
        row = self._room(key, int(cells[0]), int(cells[-1]) + 1)
        at = cells - row.first
        row.values[at] = _MERGE[self.how](row.values[at], values)
        while self._held > self.most and self.step_ms < 1 << 40:
            self._coarsen()

    def _room(self, key: Key, first: int, end: int) -> _Row:
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = _Row(first, np.full(end - first, np.nan))
            self._held += end - first
            return row
        old_end = row.first + len(row.values)
        if first >= row.first and end <= old_end:
            return row
        # Room for a half more at the side that grows, so that many small pieces are no square.
        new_first = row.first if first >= row.first else first - len(row.values) // 2
        new_end = old_end if end <= old_end else end + len(row.values) // 2
        values = np.full(new_end - new_first, np.nan)
        values[row.first - new_first : old_end - new_first] = row.values
        self._held += len(values) - len(row.values)
        row.first, row.values = new_first, values
        return row

    def _coarsen(self) -> None:
        self.step_ms *= 2
        self._held = 0
        for row in self._rows.values():
            first, end = row.first // 2, -(-(row.first + len(row.values)) // 2)
            padded = np.full(2 * (end - first), np.nan)
            padded[row.first - 2 * first :][: len(row.values)] = row.values
            row.first, row.values = first, _MERGE[self.how](padded[0::2], padded[1::2])
            self._held += len(row.values)

    def coarsen_to(self, step_ms: int) -> None:
        """Make the step as long as another's, which is this one's times a power of two."""
        while self.step_ms < step_ms:
            self._coarsen()

    def held(self) -> Iterable[Key]:
        """Everything that there is a number of, sorted."""
        return sorted(self._rows)

    def span(self) -> tuple[int, int]:
        """First cell that has a number, and the one behind the last; (0, 0) if there is none."""
        firsts, ends = [], []
        for row in self._rows.values():
            some = np.flatnonzero(~np.isnan(row.values))
            if len(some):
                firsts.append(row.first + int(some[0]))
                ends.append(row.first + int(some[-1]) + 1)
        return (min(firsts), max(ends)) if ends else (0, 0)

    def values(self, key: Key, first: int, end: int) -> Floats:
        """The numbers of a key in cells [first, end); not a number where there is none."""
        out = np.full(end - first, np.nan)
        row = self._rows.get(key)
        if row is not None:
            low, high = max(first, row.first), min(end, row.first + len(row.values))
            if low < high:
                out[low - first : high - first] = row.values[low - row.first : high - row.first]
        return out
