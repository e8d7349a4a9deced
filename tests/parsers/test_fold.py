"""Folding: a closure over steps in time that does not depend on how the records were cut or ordered."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.clock import SECOND, Reading
from aftershock.parsers.fold import fold
from aftershock.parsers.formats import Found
from aftershock.schemas.events import GpuError, SchedulerEvent


def error(second: int, offset: int, code: int = 95, pid: int = 1) -> Found:
    return Found(GpuError(code=code, pid=pid, message="m"), Reading("zoned", second * SECOND), offset)


def summary(items: list[Found]) -> list[tuple[int | None, int | None, int, int]]:
    return sorted(
        (
            item.row.code,
            item.row.count,
            (item.reading.wall or 0) // SECOND,
            ((item.last or item.reading).wall or 0) // SECOND,
        )  # type: ignore[attr-defined]
        for item in items
    )


def test_repeats_within_the_gap_are_one_row() -> None:
    folded = fold([error(0, 0), error(50, 10), error(100, 20), error(161, 30)], 60 * SECOND)
    assert summary(folded) == [(95, 1, 161, 161), (95, 3, 0, 100)]
    assert folded[0].offset == 0


def test_another_boot_is_another_burst() -> None:
    def at(boot: int, offset: int) -> Found:
        return Found(GpuError(code=79, message="m"), Reading(boot=boot * SECOND), offset)

    folded = fold([at(100, 0), at(102, 10), at(3, 20), at(101, 30)], 60 * SECOND)
    assert [(f.row.count, f.offset) for f in folded] == [(2, 0), (1, 20), (1, 30)]  # type: ignore[attr-defined]


def test_other_pid_code_or_text_is_another_row() -> None:
    assert len(fold([error(0, 0), error(1, 10, pid=2), error(2, 20, code=94)], 60 * SECOND)) == 3


def test_without_a_clock_nothing_is_merged_by_text_alone() -> None:
    items = [Found(GpuError(code=95, message="m"), Reading(), offset) for offset in (0, 10)]
    assert len(fold(items, 60 * SECOND)) == 2


def test_what_a_scheduler_says_is_not_folded() -> None:
    items = [Found(SchedulerEvent(kind="started"), Reading("zoned", 0), offset) for offset in (0, 10)]
    assert len(fold(items, 60 * SECOND)) == 2


def test_a_flood_stays_a_handful_of_rows() -> None:
    folded = fold((error(n // 1000, n, code=95 + n % 3) for n in range(100_000)), 60 * SECOND)
    assert [(f.row.code, f.row.count) for f in folded] == [(95, 33334), (96, 33333), (97, 33333)]  # type: ignore[attr-defined]


EVENTS = st.lists(st.tuples(st.integers(0, 600), st.sampled_from([94, 95])), max_size=25)


@given(events=EVENTS, cuts=st.lists(st.integers(0, 25), max_size=4), order=st.randoms())
def test_folding_in_pieces_is_folding_at_once(events: list[tuple[int, int]], cuts: list[int], order: object) -> None:
    def items() -> list[Found]:
        return [error(second, offset * 10, code) for offset, (second, code) in enumerate(events)]

    whole = summary(fold(items(), 60 * SECOND))
    pieces: list[Found] = []
    edges = [0, *sorted(min(cut, len(events)) for cut in cuts), len(events)]
    for begin, stop in itertools.pairwise(edges):
        pieces += fold(items()[begin:stop], 60 * SECOND)
    order.shuffle(pieces)  # type: ignore[attr-defined]
    assert summary(fold(pieces, 60 * SECOND)) == whole
    assert sum(count or 0 for _, count, _, _ in whole) == len(events)
