"""The same event seen through several logs is one row; text alone never merges."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.pipeline.occurrences import HostClash, check_names, give_ids, merge_occurrences
from aftershock.schemas.events import EventRow, GpuError, SchedulerEvent

S = 1_000_000
GAP = 60 * S


def error(second: float, source: str, offset: int = 0, **fields: Any) -> GpuError:
    time = round(second * S)
    row = GpuError(
        host="gpu001",
        time=time,
        last_time=time,
        time_basis="zoned",
        time_error_s=1.0,
        source=source,
        byte_offset=offset,
        sources=[f"{source}:{offset}"],
        code=79,
        pci="0000:3b:00.0",
        message="fallen",
    )
    for name, value in fields.items():
        setattr(row, name, value)
    return row


def test_one_line_in_two_logs_is_one_event_with_the_better_time() -> None:
    merged = merge_occurrences([error(10, "syslog"), error(10.5, "journal", 7, time_error_s=1e-6)], GAP)
    assert [(m.count, m.time, m.sources) for m in merged] == [(1, 10_500_000, ["journal:7", "syslog:0"])]


def test_two_lines_in_one_log_are_two_occurrences() -> None:
    merged = merge_occurrences([error(10, "syslog", 0), error(10.5, "syslog", 90)], GAP)
    assert [(m.count, m.time, m.last_time, m.sources) for m in merged] == [(2, 10 * S, 10_500_000, ["syslog:0"])]


def test_what_only_one_log_knows_of_the_gpu_is_kept() -> None:
    views = [error(10, "syslog"), error(10, "journal", gpu_uuid="GPU-1", host_raw="gpu001.example")]
    merged = merge_occurrences(views, GAP)
    assert [(m.count, m.gpu_uuid, m.host_raw) for m in merged] == [(1, "GPU-1", "gpu001.example")]  # type: ignore[attr-defined]


def test_a_burst_seen_twice_is_counted_once() -> None:
    a = error(10, "syslog", count=5, last_time=20 * S)
    b = error(10, "journal", count=4, last_time=19 * S)
    assert [m.count for m in merge_occurrences([a, b], GAP)] == [5]


def test_the_next_file_of_a_rotated_log_goes_on_with_the_burst() -> None:
    a = error(10, "kern.log.1", count=5, last_time=20 * S)
    b = error(40, "kern.log", count=2, last_time=45 * S)
    assert [(m.count, m.last_time) for m in merge_occurrences([a, b], GAP)] == [(7, 45 * S)]


@pytest.mark.parametrize("old", ["kern.log.1", "kern.log.2.gz", "kern.log-20260301", "kern.log.old"])
def test_neighbours_in_two_parts_of_one_log_are_two_occurrences(old: str) -> None:
    merged = merge_occurrences([error(10, old), error(11, "kern.log")], GAP)
    assert [m.count for m in merged] == [2]


@pytest.mark.parametrize(
    "other",
    [{"host": "gpu002"}, {"pci": "0000:4c:00.0"}, {"message": "other"}, {"time": None}, {"time_basis": "assumed_zone"}],
)
def test_what_differs_stays_apart(other: dict[str, Any]) -> None:
    assert len(merge_occurrences([error(10, "syslog"), error(10, "journal", **other)], GAP)) == 2


def test_a_scheduler_that_says_a_thing_twice_did_it_twice() -> None:
    rows: list[EventRow] = [
        SchedulerEvent(
            kind="node_down", host="a", time=t * S, last_time=t * S, source="ctld", byte_offset=t, sources=[]
        )
        for t in (1, 2)
    ]
    assert len(merge_occurrences(rows, -1)) == 2


SEEN = st.lists(
    st.tuples(st.integers(0, 300), st.sampled_from(["a", "b", "c"]), st.integers(0, 99)), max_size=15, unique=True
)


@given(seen=SEEN, order=st.randoms())
def test_order_does_not_matter(seen: list[tuple[int, str, int]], order: Any) -> None:
    def result(items: list[tuple[int, str, int]]) -> list[tuple[Any, ...]]:
        merged = merge_occurrences([error(*item) for item in items], GAP)
        give_ids(merged)
        return sorted((m.event_id, m.time, m.last_time, m.count, tuple(m.sources or [])) for m in merged)

    shuffled = list(seen)
    order.shuffle(shuffled)
    assert result(seen) == result(shuffled)


def test_ids_tell_equals_apart_and_do_not_hang_on_order() -> None:
    rows: list[EventRow] = [error(10, "a", time=None), error(10, "b", time=None)]
    give_ids(rows)
    ids = {row.event_id for row in rows}
    again: list[EventRow] = [error(10, "b", time=None), error(10, "a", time=None)]
    give_ids(again)
    assert len(ids) == 2
    assert {row.event_id for row in again} == ids


def test_two_hosts_under_one_short_name_are_an_error() -> None:
    rows = [error(1, "a", host_raw="gpu001.a.example"), error(1, "a", host_raw="gpu001.b.example")]
    with pytest.raises(HostClash, match=r"hosts\.aliases"):
        check_names(rows)
    check_names([error(1, "a", host_raw="gpu001.a.example"), error(1, "a", host_raw="gpu001")])
