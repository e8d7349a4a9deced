"""Rows of unequal length in one array: where each begins, how long it is, and what can be done with all of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def begins_of(counts: Ints) -> Ints:
    """Where each row begins, and behind them the end: one more than there are rows."""
    begins = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=begins[1:])
    return begins


def positions(begins: Ints, counts: Ints) -> Ints:
    """The positions of all elements of rows that begin anywhere, row by row."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    found: Ints = np.repeat(begins - (ends - counts), counts) + np.arange(total, dtype=np.int64)
    return found


def running_sums(values: Ints, begins: Ints) -> Ints:
    """Sums from the first element of its row to each element; they may wrap around, as integers of machines do."""
    sums = np.cumsum(values)
    before = np.concatenate((np.zeros(1, np.int64), sums))[begins[:-1]]
    summed: Ints = sums - np.repeat(before, np.diff(begins))
    return summed
