"""Samples in windows: the same as one would find by looking at each pair by itself."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aftershock.pipeline.metrics.window_join import Grid, medians, summarise

_SERIES = st.lists(
    st.lists(st.tuples(st.integers(0, 50), st.floats(-1e6, 1e6)), max_size=12, unique_by=lambda sample: sample[0]),
    min_size=1,
    max_size=4,
)
_SPANS = st.lists(st.tuples(st.integers(0, 3), st.integers(-5, 60), st.integers(0, 30)), max_size=12)


@given(_SERIES, _SPANS)
def test_slices_hold_what_lies_in_the_span(
    series: list[list[tuple[int, float]]], spans: list[tuple[int, int, int]]
) -> None:
    ordered = [sorted(samples) for samples in series]
    grid = Grid(
        np.cumsum([0, *map(len, ordered)]),
        np.array([time for samples in ordered for time, _ in samples], np.int64),
        np.array([value for samples in ordered for _, value in samples], np.float64),
    )
    pairs = [(number % len(ordered), first, first + length) for number, first, length in spans]
    wanted, first, last = (
        np.array(column, np.int64) for column in (zip(*pairs, strict=True) if pairs else ((), (), ()))
    )
    begin, end = grid.slices(wanted, first, last)
    found = summarise(grid, begin, end)
    middle, spread = medians(grid.values, begin, end)
    for i, (number, low, high) in enumerate(pairs):
        inside = [value for time, value in ordered[number] if low <= time < high]
        assert found.count[i] == len(inside)
        if not inside:
            assert math.isnan(found.mean[i])
            assert math.isnan(middle[i])
            continue
        assert found.low[i] == min(inside)
        assert found.high[i] == max(inside)
        assert math.isclose(found.mean[i], np.mean(inside), abs_tol=1e-6)
        assert math.isclose(middle[i], np.median(inside), abs_tol=1e-9)
        assert math.isclose(spread[i], np.median(np.abs(np.array(inside) - np.median(inside))), abs_tol=1e-9)
