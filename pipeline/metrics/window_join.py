"""Samples in windows: for each pair of a series and a span of time the samples in it, and what they add up to.

Samples stand series by series in the order of time: two binary searches for each pair, all pairs of a series at once,
and sums, extremes and medians of all slices together.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Cells of the matrix in which medians are found: what is held at once, whatever the number of pairs.
_CELLS: Final = 1 << 21


@dataclass(frozen=True)
class Grid:
    """Samples of some series: ``begins`` as in a ``SeriesBatch``. Times are sorted within each series.

    Values are numbers: markers of staleness and what else is no number are taken out before.
    """

    begins: Ints
    times: Ints
    values: Floats

    def slices(self, series: Ints, first: Ints, last: Ints) -> tuple[Ints, Ints]:
        """For each pair of a series and a span [first, last): where its samples begin and end."""
        low, high = np.zeros(len(series), np.int64), np.zeros(len(series), np.int64)
        order = np.argsort(series, kind="stable") if (np.diff(series) < 0).any() else None
        first, last = (first, last) if order is None else (first[order], last[order])
        numbers = series if order is None else series[order]
        cuts = np.flatnonzero(np.diff(numbers, prepend=-1, append=-1))
        for begin, end in pairwise(cuts.tolist()):
            number = int(numbers[begin])
            start, stop = int(self.begins[number]), int(self.begins[number + 1])
            own = self.times[start:stop]
            low[begin:end] = own.searchsorted(first[begin:end]) + start
            high[begin:end] = own.searchsorted(last[begin:end]) + start
        if order is not None:
            low[order], high[order] = low.copy(), high.copy()
        return low, np.maximum(low, high)


@dataclass(frozen=True)
class Summary:
    """Of each pair: number of samples, mean, lowest and highest value (not a number where there is no sample)."""

    count: Ints
    mean: Floats
    low: Floats
    high: Floats


def summarise(grid: Grid, begin: Ints, end: Ints) -> Summary:
    """Sums and extremes of slices of samples."""
    count = end - begin
    some = count > 0
    mean, low, high = (np.full(len(begin), np.nan) for _ in range(3))
    if not some.any():
        return Summary(count, mean, low, high)
    edges = np.column_stack((begin[some], end[some])).ravel()
    values = grid.values
    if int(edges.max()) == len(values):
        values = np.append(values, np.nan)
    # What lies between two slices is reduced as well, and left out.
    mean[some] = np.add.reduceat(values, edges)[::2] / count[some]
    low[some] = np.minimum.reduceat(values, edges)[::2]
    high[some] = np.maximum.reduceat(values, edges)[::2]
    return Summary(count, mean, low, high)


def medians(values: Floats, begin: Ints, end: Ints) -> tuple[Floats, Floats]:
    """Median and median absolute deviation of slices; not a number where a slice is empty."""
    middle, spread = np.full(len(begin), np.nan), np.full(len(begin), np.nan)
    count = end - begin
    # Slices of like length together: a matrix is as wide as its longest.
    order = np.argsort(count, kind="stable")
    order = order[count[order] > 0]
    at = 0
    while at < len(order):
        # As many rows as fit with the width of the last of them.
        rows = max(1, _CELLS // int(count[order[at]]))
        chosen = order[at : at + rows]
        while len(chosen) > 1 and len(chosen) * int(count[chosen[-1]]) > 2 * _CELLS:
            chosen = chosen[: len(chosen) // 2]
        width = int(count[chosen[-1]])
        column = np.arange(width)
        inside = column < count[chosen][:, None]
        cells = np.where(inside, values[np.minimum(begin[chosen][:, None] + column, len(values) - 1)], np.inf)
        middle[chosen] = _middle(cells, count[chosen])
        cells = np.where(inside, np.abs(cells - middle[chosen][:, None]), np.inf)
        spread[chosen] = _middle(cells, count[chosen])
        at += len(chosen)
    return middle, spread


def _middle(cells: Floats, count: Ints) -> Floats:
    """Median of the first ``count`` cells of each row; the others are infinite."""
    cells = np.sort(cells, axis=1)
    rows = np.arange(len(cells))
    return (cells[rows, (count - 1) // 2] + cells[rows, count // 2]) / 2
