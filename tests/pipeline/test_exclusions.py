"""Exclusions from the lines that a scheduler prints about hosts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.pipeline.exclusions import find_exclusions, hosts_named
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.sessions import Exclusion

US = 1_000_000
DAY0 = 1_780_000_000 * US  # 2026-05-28T20:26:40Z; the times below are seconds after this


def said(kind: str, seconds: float | None, hosts: tuple[str, ...] = ("n1",), **more: Any) -> SchedulerEvent:
    columns: dict[str, Any] = {
        "hosts": list(hosts),
        "host": hosts[0] if len(hosts) == 1 else None,
        "cluster": "sun",
        "time_basis": "zoned",
        "byte_offset": round((seconds or 0) * 1000),
    }
    time = None if seconds is None else DAY0 + round(seconds * US)
    return SchedulerEvent(kind=kind, time=time, **(columns | more))


def spans(rows: list[Exclusion]) -> list[tuple[Any, ...]]:
    def seconds(time: int | None) -> float | None:
        return None if time is None else (time - DAY0) / US

    return [(row.host, row.how, seconds(row.start_time), seconds(row.end_time)) for row in rows]


def test_drain_with_reason_until_resumed() -> None:
    rows = find_exclusions(
        [
            said("node_state", 10, reason="Xid 79"),
            said("node_drain", 10.001, state="DRAINED", user="root"),
            said("node_up", 20, reason="now responding; returned to service"),
            said("node_resume", 90, state="IDLE"),
        ]
    )
    assert spans(rows) == [("n1", "drain", 10.001, 90)]
    assert (rows[0].reason, rows[0].by, rows[0].cluster) == ("Xid 79", "root", "sun")
    assert (rows[0].evidenced, rows[0].evidence_event_ids, rows[0].session_id) == (None, None, None)


def test_drain_and_reason_on_one_line() -> None:
    (row,) = find_exclusions([said("node_drain", 10, state="DRAIN", reason="bad link")])
    assert (row.reason, row.end_time) == ("bad link", None)


def test_reason_of_another_time_is_not_taken() -> None:
    lines = [said("node_state", 1, reason="old"), said("node_drain", 60), said("node_state", 300, reason="checked")]
    assert find_exclusions(lines)[0].reason is None
    assert find_exclusions([*lines[:2], said("node_state", 60.5, reason="new")])[0].reason == "new"


def test_repeated_drain_is_one_exclusion() -> None:
    lines = [said("node_drain", t, reason=f"r{t}") for t in (10, 20, 30)]
    (row,) = find_exclusions([*lines, said("node_resume", 40)])
    assert spans([row]) == [("n1", "drain", 10, 40)]
    assert row.reason == "r10"


def test_down_until_returned_to_service() -> None:
    lines = [
        said("node_down", 10, reason="not responding"),
        said("node_up", 30, reason="now responding"),
        said("node_up", 31, reason="returned to service"),
        said("node_down", 50),
    ]
    assert spans(find_exclusions(lines)) == [("n1", "down", 10, 31), ("n1", "down", 50, None)]


def test_drained_host_that_goes_down_is_out_twice() -> None:
    lines = [
        said("node_drain", 10),
        said("node_down", 20),
        said("node_up", 30, reason="returned to service"),
        said("node_resume", 40, state="RESUME"),
    ]
    assert spans(find_exclusions(lines)) == [("n1", "drain", 10, 40), ("n1", "down", 20, 30)]


def test_undrain_does_not_bring_a_host_up() -> None:
    lines = [said("node_drain", 10), said("node_down", 20), said("node_resume", 40, state="UNDRAIN")]
    assert spans(find_exclusions(lines)) == [("n1", "drain", 10, 40), ("n1", "down", 20, None)]


@pytest.mark.parametrize(
    ("state", "means"),
    [
        ("DOWN*+DRAIN", {"down", "drain"}),
        ("IDLE+DRAIN", {"drain"}),
        ("DOWN", {"down"}),
        ("IDLE~", set()),
        (None, set()),
    ],
)
def test_printed_states(state: str | None, means: set[str]) -> None:
    assert {row.how for row in find_exclusions([said("node_state", 5, state=state)])} == means


def test_printed_state_without_a_drain_ends_it() -> None:
    lines = [said("node_drain", 1), said("node_state", 5, state="MIXED")]
    assert spans(find_exclusions(lines)) == [("n1", "drain", 1, 5)]


@pytest.mark.parametrize(
    ("message", "how"),
    [
        ("job_epilog_complete: JobId=9 epilog error on n1, draining the node", "drain"),
        ("Epilog failure on host n1, setting DOWN", "down"),
        ("_slurm_rpc_epilog_complete: epilog error JobId=9 Node=n1 Err=Job epilog failed", None),
    ],
)
def test_epilog_errors(message: str, how: str | None) -> None:
    rows = find_exclusions([said("epilog_error", 5, message=message, reason="Epilog error")])
    assert [(row.how, row.reason) for row in rows] == ([(how, "Epilog error")] if how else [])


def test_line_about_several_hosts() -> None:
    lines = [said("node_down", 10, ("n1", "n2")), said("node_up", 20, ("n2",), reason="returned to service")]
    assert spans(find_exclusions(lines)) == [("n1", "down", 10, None), ("n2", "down", 10, 20)]
    assert spans(find_exclusions(lines, host="n2")) == [("n2", "down", 10, 20)]
    assert hosts_named(lines[0]) == ["n1", "n2"]
    assert hosts_named(SchedulerEvent(kind="node_up", host="n3")) == ["n3"]


def reservation(seconds: float, hosts: tuple[str, ...], state: str, name: str = "fix", **more: Any) -> SchedulerEvent:
    return said("reservation", seconds, hosts, state=state, reason=name, **more)


def test_reservation_until_deleted() -> None:
    lines = [reservation(5, ("n1", "n2"), "CREATED", user="root"), reservation(50, (), "DELETED")]
    rows = find_exclusions(lines)
    assert spans(rows) == [("n1", "reservation", 5, 50), ("n2", "reservation", 5, 50)]
    assert {(row.reason, row.by) for row in rows} == {("fix", "root")}
    assert spans(find_exclusions(lines[:1], host="n1")) == [("n1", "reservation", 5, None)]


def test_update_of_a_reservation_moves_hosts() -> None:
    lines = [
        reservation(5, ("n1", "n2"), "CREATED"),
        reservation(9, (), "UPDATED"),
        reservation(20, ("n2", "n3"), "UPDATED"),
        reservation(30, ("n1",), "CREATED", "other"),
    ]
    assert spans(find_exclusions(lines)) == [
        ("n1", "reservation", 5, 20),
        ("n2", "reservation", 5, None),
        ("n3", "reservation", 20, None),
        ("n1", "reservation", 30, None),
    ]


def test_planned_times_of_a_reservation() -> None:
    """They are printed in the clock of the line, here nine hours ahead of UTC."""
    printed = {
        "time_local": "2026-05-29T05:26:45.101",
        "message": "sched: Created reservation=fix users=root nodes=n1 cores=0 start=2026-05-29T05:30:00 end=2026-05-29T06:00:00",
    }
    created = reservation(5.101, ("n1",), "CREATED", **printed)
    assert spans(find_exclusions([created])) == [("n1", "reservation", 200, 2000)]
    assert spans(find_exclusions([created, reservation(900, (), "DELETED")])) == [("n1", "reservation", 200, 900)]
    assert spans(find_exclusions([created, reservation(9000, (), "DELETED")])) == [("n1", "reservation", 200, 2000)]
    assert find_exclusions([created, reservation(100, (), "DELETED")]) == []


def test_two_reservations_that_begin_together() -> None:
    rows = find_exclusions([reservation(5, ("n1",), "CREATED", name) for name in ("a", "b")])
    assert len({row.exclusion_id for row in rows}) == 2


def test_clusters_and_zones_are_apart() -> None:
    lines = [said("node_drain", 1), said("node_resume", 9, cluster="moon")]
    assert spans(find_exclusions(lines)) == [("n1", "drain", 1, None)]
    lines = [said("node_drain", 1), said("node_resume", 9, cluster=None)]
    assert spans(find_exclusions(lines)) == [("n1", "drain", 1, 9)]
    lines = [said("node_drain", 1), said("node_resume", 9, time_basis="assumed_zone")]
    assert spans(find_exclusions(lines)) == [("n1", "drain", 1, None)]


def test_what_is_no_exclusion() -> None:
    lines = [said("started", 1), said("node_up", 2, reason="returned to service"), said("node_resume", 3)]
    assert find_exclusions(lines) == []
    assert find_exclusions([said("node_resume", None), said("node_state", None, state="DRAIN")]) == []
    assert find_exclusions([]) == []


_LINES = st.builds(
    said,
    st.sampled_from(["node_drain", "node_down", "node_up", "node_resume", "node_state", "reservation"]),
    st.integers(0, 30),
    st.sampled_from([("n1",), ("n2",), ("n1", "n2"), ()]),
    state=st.sampled_from([None, "IDLE", "DOWN+DRAIN", "CREATED", "DELETED", "UNDRAIN"]),
    reason=st.sampled_from([None, "Xid 79", "now responding"]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_LINES, max_size=12), st.randoms(use_true_random=False))
def test_order_does_not_matter_and_hosts_are_independent(lines: list[SchedulerEvent], chance: Any) -> None:
    expected = find_exclusions(lines)
    shuffled = lines + lines[:3]
    chance.shuffle(shuffled)
    assert find_exclusions(shuffled) == expected
    assert [row for host in ("n1", "n2") for row in find_exclusions(lines, host=host)] == sorted(
        expected, key=lambda row: row.host or ""
    )
    ids = [row.exclusion_id for row in expected]
    assert len(set(ids)) == len(ids)
    assert all(row.end_time is None or row.end_time >= (row.start_time or 0) for row in expected)


def listed(seconds: float, reason: str, user: str = "jkim") -> SchedulerEvent:
    """A row of `sinfo -R`: whole seconds, a reason of at most twenty characters, no state."""
    stamp = f"2026-05-28T20:{26 + round(seconds) // 60:02d}:40"
    return said(
        "node_drain",
        seconds,
        reason=reason[:20],
        user=user,
        time_local=stamp,
        message=f"{reason[:20]} {user} {stamp} n1",
    )


def test_a_list_of_reasons_alone_is_a_drain_by_a_person() -> None:
    (row,) = find_exclusions([listed(60, "IB flapping, RMA 4411")])
    assert (row.how, row.by, row.reason, row.end_time) == ("drain", "jkim", "IB flapping, RMA 441", None)


@pytest.mark.parametrize("offset", [-0.4, 0.0, 0.7])
def test_a_host_that_was_set_down_is_not_drained_too_because_a_list_does_not_say_which(offset: float) -> None:
    lines = [listed(60, "IB flapping, RMA 4411"), said("node_down", 60 + offset, reason="IB flapping, RMA 4411")]
    (row,) = find_exclusions(lines)
    assert (row.how, row.by, row.reason) == ("down", "jkim", "IB flapping, RMA 4411" if offset < 0 else row.reason)
    assert len(find_exclusions([*lines, said("node_resume", 90, state="IDLE")])) == 1


def test_another_reason_is_another_exclusion() -> None:
    lines = [listed(60, "bad fan"), said("node_down", 60.2, reason="Not responding")]
    assert [row.how for row in find_exclusions(lines)] == ["drain", "down"]
