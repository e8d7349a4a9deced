"""Numbers over all time on a fixed grid: one cell for each step of time, pages of cells for each key.

What is held is bounded: where there are too many cells the step doubles, and neighbours become one. Time in which there
is nothing costs nothing. The result does not hang on the order in which numbers come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from aftershock.pipeline.metrics.window_join import Floats, Ints

# Cells that are held at once, of eight bytes each.
MOST_CELLS: Final = 1 << 27

# Cells of a page.
_PAGE: Final = 1024

Key = tuple[str, ...]


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
    _rows: dict[Key, dict[int, Floats]] = field(default_factory=dict)
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
        apart = np.flatnonzero(begin[1:] - end[:-1] > _PAGE * self.step_ms) + 1
        for part in np.split(np.arange(len(begin)), apart):
            self._spread(key, begin[part], end[part], by[part])

    def _spread(self, key: Key, begin: Ints, end: Ints, by: Floats) -> None:
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
        pages = self._rows.setdefault(key, {})
        place = cells // _PAGE
        cuts = np.flatnonzero(np.diff(place)) + 1
        for own in np.split(np.arange(len(cells)), cuts):
            if len(own):
                self._put(pages, int(place[own[0]]), cells[own] % _PAGE, values[own])
        # A key has a page at least, however long the step.
        while self._held > max(self.most, _PAGE * len(self._rows)) and self.step_ms < 1 << 40:
            self._coarsen()

    def _put(self, pages: dict[int, Floats], number: int, at: Ints, values: Floats) -> None:
        page = pages.get(number)
        if page is None:
            page = pages[number] = np.full(_PAGE, np.nan)
            self._held += _PAGE
        page[at] = _MERGE[self.how](page[at], values)

    def _coarsen(self) -> None:
        self.step_ms *= 2
        self._held = 0
        half = _PAGE // 2
        for key, pages in self._rows.items():
            wider: dict[int, Floats] = {}
            for number, page in pages.items():
                target = wider.setdefault(number // 2, np.full(_PAGE, np.nan))
                target[number % 2 * half :][:half] = _MERGE[self.how](page[0::2], page[1::2])
            self._rows[key] = wider
            self._held += _PAGE * len(wider)

    def coarsen_to(self, step_ms: int) -> None:
        """Make the step as long as another's, which is this one's times a power of two."""
        while self.step_ms < step_ms:
            self._coarsen()

    def held(self) -> Iterable[Key]:
        """Everything that there is a number of, sorted."""
        return sorted(self._rows)

    def span(self) -> tuple[int, int]:
        """First cell that has a number, and the one behind the last; (0, 0) if there is none."""
        firsts: list[int] = []
        ends: list[int] = []
        for pages in self._rows.values():
            # A page is made for a number, so that the outer ones have some.
            for number, found in ((min(pages), firsts), (max(pages), ends)) if pages else ():
                some = np.flatnonzero(~np.isnan(pages[number]))
                found.append(number * _PAGE + int(some[0] if found is firsts else some[-1] + 1))
        return (min(firsts), max(ends)) if ends else (0, 0)

    def values(self, key: Key, first: int, end: int) -> Floats:
        """The numbers of a key in cells [first, end); not a number where there is none."""
        out = np.full(end - first, np.nan)
        pages = self._rows.get(key, {})
        for number in range(first // _PAGE, -(-end // _PAGE)) if end - first <= _PAGE * len(pages) else sorted(pages):
            page = pages.get(number)
            if page is not None:
                low, high = max(first, number * _PAGE), min(end, (number + 1) * _PAGE)
                if low < high:
                    out[low - first : high - first] = page[low - number * _PAGE : high - number * _PAGE]
        return out
