"""Numbers over all time on a grid: bounded, and whole series out of pieces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.pipeline.metrics.cells import ADD, HIGH, LOW, Cells
from aftershock.pipeline.metrics.stitched import LONGEST_MS, Stitched
from tests.pipeline.metrics.made import SECOND, STALE, START


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float64)


@pytest.mark.parametrize(("how", "expected"), [(ADD, [3.0, 3.0]), (LOW, [1.0, 3.0]), (HIGH, [2.0, 3.0])])
def test_numbers_of_one_cell(how: str, expected: list[float]) -> None:
    cells = Cells(how, 10)
    cells.put(("a",), ints(100, 105, 119), floats(1, 2, 3))
    assert cells.values(("a",), 10, 12).tolist() == expected
    assert np.isnan(cells.values(("a",), 12, 14)).all()
    assert cells.span() == (10, 12)
    assert np.isnan(cells.values(("b",), 10, 12)).all()


_PIECES = st.lists(
    st.lists(st.integers(0, 300_000), min_size=1, max_size=5, unique=True).map(sorted), min_size=1, max_size=8
)


@given(_PIECES, st.sampled_from([ADD, LOW, HIGH]), st.integers(1, 30_000))
def test_the_order_of_pieces_does_not_matter(pieces: list[list[int]], how: str, most: int) -> None:
    def filled(order: list[list[int]], most: int) -> Cells:
        cells = Cells(how, 10, most)
        for piece in order:
            cells.put(("a",), np.array(piece, np.int64), np.array(piece, np.float64))
        return cells

    bounded, free = filled(pieces, most), filled(pieces[::-1], 1 << 20)
    free.coarsen_to(bounded.step_ms)
    assert bounded.step_ms == free.step_ms
    assert bounded._held <= max(most, 1024)
    end = 300_010 // bounded.step_ms + 1
    np.testing.assert_array_equal(bounded.values(("a",), 0, end), free.values(("a",), 0, end))
    assert free.span() == bounded.span()
    first, last = free.span()
    assert np.flatnonzero(~np.isnan(free.values(("a",), 0, end)))[[0, -1]].tolist() == [first, last - 1]


def test_a_time_far_away_costs_a_page_and_no_resolution() -> None:
    cells = Cells(LOW, 30_000, most=1 << 14)
    for time in (946_684_800_000, START, START + 40_000, START + 20 * 365 * 86_400_000):
        cells.put(("a",), ints(time), floats(1.0))
    cells.spread(("b",), ints(START, START + 10**12), ints(START + 1000, START + 10**12 + 1000), floats(1.0, 2.0))
    assert cells.step_ms == 30_000
    assert cells.values(("a",), START // 30_000, START // 30_000 + 2).tolist() == [1.0, 1.0]
    assert cells.span() == (946_684_800_000 // 30_000, -(-(START + 10**12 + 1000) // 30_000))


def test_very_many_keys_keep_their_step() -> None:
    cells = Cells(LOW, 30_000, most=4096)
    for key in range(100):
        cells.put((str(key),), ints(START), floats(1.0))
    assert cells.step_ms == 30_000


def test_what_was_counted_is_spread_over_the_time_in_between() -> None:
    cells = Cells(ADD, 10)
    cells.spread(("a",), ints(5, 15, 25), ints(15, 25, 45), floats(10, 20, 40))
    assert cells.values(("a",), 0, 6).tolist()[:5] == pytest.approx([5, 15, 20, 20, 10])
    # Not over a gap, of which nothing is known.
    cells = Cells(ADD, 10)
    cells.spread(("a",), ints(0, 50), ints(10, 60), floats(7, 9))
    assert cells.values(("a",), 0, 6).tolist()[::5] == [7, 9]
    assert np.isnan(cells.values(("a",), 1, 5)).all()


@given(st.lists(st.integers(1, 500), min_size=1, max_size=30), st.integers(1, 40), st.integers(2, 5))
def test_a_counter_in_pieces_is_the_counter(steps: list[int], step: int, parts: int) -> None:
    times = START + np.cumsum(np.array(steps)) * 10
    values = np.cumsum(np.array(steps, np.float64))
    whole, pieces = Cells(ADD, step * 10), Cells(ADD, step * 10)
    for cells, cuts in ((whole, 1), (pieces, parts)):
        stitched = Stitched()
        for some in np.array_split(np.arange(len(times)), cuts):
            # Each piece is read twice, as from two servers.
            for _ in range(2):
                for counted in stitched.counted("x", times[some], values[some]):
                    cells.spread(("a",), counted.begin, counted.end, counted.by)
    first, end = whole.span()
    np.testing.assert_allclose(whole.values(("a",), first, end), pieces.values(("a",), first, end), atol=1e-6)
    assert np.nansum(whole.values(("a",), first, end)) == pytest.approx(values[-1] - values[0])


def test_pieces_may_come_later_first() -> None:
    stitched = Stitched()
    later = stitched.counted("x", ints(300, 400), floats(30, 40))
    before = stitched.counted("x", ints(100, 200), floats(10, 20))
    assert [counted.by.tolist() for counted in (*later, *before)] == [[10], [10, 10]]
    assert stitched.counted("x", ints(100, 200, 300, 400), floats(1, 2, 3, 4)) == []


def test_resets_gaps_and_markers() -> None:
    (counted,) = Stitched().counted(
        "x", ints(0, 10, 20, 30, 30 + LONGEST_MS + 1, 31 + LONGEST_MS + 1), floats(5, STALE, 9, 2, 50, 51)
    )
    assert counted.by.tolist() == [4, 2, 1]
    assert counted.begin.tolist() == [0, 20, 30 + LONGEST_MS + 1]


def test_levels_do_not_repeat_the_ends_of_what_was_seen() -> None:
    stitched = Stitched()
    assert [values.tolist() for _, values in stitched.levels("x", ints(10, 20), floats(1, 2))] == [[1, 2]]
    assert [values.tolist() for _, values in stitched.levels("x", ints(0, 15, 20, 30), floats(9, 9, 9, 3))] == [
        [3],
        [9],
    ]


def test_a_step_is_never_shorter_than_asked() -> None:
    assert Cells(ADD, 30 * SECOND).step_ms == 30 * SECOND
