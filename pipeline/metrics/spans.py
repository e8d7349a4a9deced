"""Spans of time: [begin, end) in milliseconds since 1970, sorted and apart from each other."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from aftershock.pipeline.metrics.window_join import Ints

Spans = tuple[tuple[int, int], ...]


def joined_spans(spans: Iterable[tuple[int, int]]) -> Spans:
    """The same times as spans that are sorted and apart from each other."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return tuple(joined)


def inside(times: Ints, spans: Spans) -> NDArray[np.bool_]:
    """Which times lie in any of the spans."""
    if not spans:
        return np.zeros(len(times), bool)
    begins = np.array([span[0] for span in spans], np.int64)
    ends = np.array([span[1] for span in spans], np.int64)
    at = np.searchsorted(begins, times, side="right") - 1
    found: NDArray[np.bool_] = (at >= 0) & (times < ends[np.maximum(at, 0)])
    return found


def meets(spans: Spans, begin: int, end: int) -> bool:
    """Whether a span of time has anything in common with any of them."""
    first = np.searchsorted(np.array([span[1] for span in spans], np.int64), begin, side="right")
    return bool(first < len(spans) and spans[int(first)][0] < end)
