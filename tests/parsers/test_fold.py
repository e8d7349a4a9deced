"""Folding: a closure over steps in time that does not depend on how the records were cut or ordered."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.clock import SECOND, Reading
from aftershock.parsers.fold import GAP_BYTES, fold
from aftershock.parsers.formats import Found
from aftershock.schemas.events import GpuError, NodeEvent, SchedulerEvent


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


def bare(offset: int, code: int = 95) -> Found:
    return Found(GpuError(code=code, message="m"), Reading(), offset)


def boot(offset: int, kind: str = "boot") -> Found:
    return Found(NodeEvent(kind=kind, message=kind), Reading(), offset, mark="booted")


def counts(items: list[Found]) -> list[tuple[int, int | None]]:
    return [(item.offset, item.row.count) for item in items]  # type: ignore[attr-defined]


def test_lines_without_a_clock_that_stand_near_each_other_are_one_row() -> None:
    folded = fold([bare(0), bare(100, 31), bare(200), bare(300, 31), bare(400)], 60 * SECOND)
    assert counts(folded) == [(0, 3), (100, 2)]
    assert [item.until for item in folded] == [400, 300]
    assert all(item.reading == Reading() and item.last is None for item in folded)


def test_lines_without_a_clock_far_from_each_other_stay_apart() -> None:
    assert counts(fold([bare(0), bare(GAP_BYTES), bare(2 * GAP_BYTES + 1)], 60 * SECOND)) == [
        (0, 2),
        (2 * GAP_BYTES + 1, 1),
    ]


def test_a_boot_or_a_load_of_the_driver_lies_between() -> None:
    items = [bare(0), bare(10), boot(20), bare(30), boot(40, "driver_load"), boot(50, "driver_load"), bare(60)]
    assert counts(fold(items, 60 * SECOND)) == [(0, 2), (20, 1), (30, 1), (40, 1), (50, 1), (60, 1)]


def test_a_stamp_that_cannot_be_read_is_no_lack_of_a_clock() -> None:
    items = [Found(GpuError(code=95, message="m"), Reading(text="Feb 31 12:00:00"), offset) for offset in (0, 10)]
    assert len(fold(items, 60 * SECOND)) == 2


def test_each_host_has_boots_of_its_own() -> None:
    def at(host: str, seconds: int, offset: int) -> Found:
        return Found(GpuError(code=79, message="m", host_raw=host), Reading(boot=seconds * SECOND), offset)

    items = [at("gpu1", 5000, 0), at("gpu2", 90, 10), at("gpu1", 5001, 20), at("gpu2", 91, 30)]
    assert counts(fold(items, 60 * SECOND)) == [(0, 2), (10, 2)]


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


# A line of a file: how far behind the one before, its clock, and what it says. The clock from boot falls back by hours
# or not at all: what falls back by seconds is disorder, in which nobody can tell a boot.
LINES = st.lists(
    st.tuples(
        st.sampled_from([10, 100, GAP_BYTES // 2, GAP_BYTES, GAP_BYTES + 1]),
        st.sampled_from(["none", "none", "boot", "zoned", "begin"]),
        st.integers(0, 150),
        st.sampled_from([94, 95]),
    ),
    max_size=25,
)


def lines(drawn: list[tuple[int, str, int, int]]) -> list[Found]:
    found, at, uptime = [], 0, 10_000
    for step, clock, passed, code in drawn:
        at += step
        uptime = uptime + passed if passed < 140 else passed
        if clock == "begin":
            found.append(boot(at))
        elif clock == "none":
            found.append(bare(at, code))
        elif clock == "boot":
            found.append(Found(GpuError(code=code, message="m"), Reading(boot=uptime * SECOND), at))
        else:
            found.append(Found(GpuError(code=code, message="m"), Reading("zoned", passed * SECOND), at))
    return found


def everything(items: list[Found]) -> list[tuple[object, ...]]:
    return [
        (item.offset, item.until, item.reading, item.last, item.row.code, item.row.count)  # type: ignore[attr-defined]
        if isinstance(item.row, GpuError)
        else (item.offset,)
        for item in items
    ]


@given(drawn=LINES, cuts=st.lists(st.integers(0, 25), max_size=4), order=st.randoms())
def test_clocks_of_all_kinds_fold_the_same_in_pieces(
    drawn: list[tuple[int, str, int, int]], cuts: list[int], order: object
) -> None:
    whole = everything(fold(lines(drawn), 60 * SECOND))
    pieces: list[Found] = []
    edges = [0, *sorted(min(cut, len(drawn)) for cut in cuts), len(drawn)]
    for begin, stop in itertools.pairwise(edges):
        pieces += fold(lines(drawn)[begin:stop], 60 * SECOND)
    order.shuffle(pieces)  # type: ignore[attr-defined]
    assert everything(fold(pieces, 60 * SECOND)) == whole
