"""Planned changes: what they cover, and what stays unknown."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.pipeline.changes import mark_planned
from aftershock.schemas.changes import Change
from aftershock.schemas.sessions import Exclusion, Session

HOUR = 3600_000000


def change(host: str | None = "a1", start: int = 10, end: int | None = 20, **more: Any) -> Change:
    given = {"kind": "maintenance", "time_basis": "zoned", "time_error_s": 1.0, "cluster": "solar"}
    ends = None if end is None else end * HOUR
    return Change(host=host, start_time=start * HOUR, end_time=ends, **(given | more))


def drain(start: float = 12, **more: Any) -> Exclusion:
    given = {"cluster": "solar", "host": "a1", "how": "drain"}
    return Exclusion(start_time=round(start * HOUR), **(given | more))


def session(end: float = 12, **more: Any) -> Session:
    given = {"cluster": "solar", "hosts": ["a1", "a2"], "state": "CANCELLED", "time_basis": "zoned"}
    return Session(end_time=round(end * HOUR), **(given | more))


def planned(row: Exclusion | Session, *changes: Change) -> bool | None:
    exclusions = [row] if isinstance(row, Exclusion) else []
    sessions = [row] if isinstance(row, Session) else []
    mark_planned(changes, exclusions, sessions)
    return row.planned


@pytest.mark.parametrize(("start", "wanted"), [(9, None), (10, True), (15, True), (20, True), (21, None)])
def test_a_drain_within_a_planned_change_was_planned(start, wanted):
    assert planned(drain(start), change()) is wanted
    assert planned(session(start), change()) is wanted


@pytest.mark.parametrize("how", ["drain", "down", "reservation", "cordon"])
def test_what_somebody_decides_is_marked(how):
    assert planned(drain(how=how), change()) is True


@pytest.mark.parametrize("how", ["exclude_list", "designated_complement", "soft", "swapped_out"])
def test_what_follows_from_requests_and_retries_is_not(how):
    assert planned(drain(how=how), change()) is None


@pytest.mark.parametrize("state", ["COMPLETED", "RUNNING", "PENDING", None])
def test_sessions_that_nobody_ended_are_not_marked(state):
    assert planned(session(state=state), change()) is None


def test_one_host_of_a_session_is_enough():
    assert planned(session(), change("a2")) is True
    assert planned(session(), change("a3")) is None
    assert planned(session(hosts=[]), change(None)) is None


def test_changes_of_a_whole_cluster():
    assert planned(drain(), change(None)) is True
    assert planned(session(hosts=None), change(None)) is True
    assert planned(session(hosts=None), change("a1")) is None
    assert planned(drain(cluster="lunar"), change(None)) is None
    assert planned(drain(cluster=None), change(None)) is True
    assert planned(drain(), change(None, cluster=None)) is True


def test_kinds_tell_where_the_table_does_not():
    assert planned(drain(), change(kind="driver_change")) is True
    assert planned(drain(), change(kind="repair")) is None
    assert planned(drain(), change(kind="repair", planned=True)) is True
    assert planned(drain(), change(planned=False)) is False
    assert planned(drain(), change(planned=False), change(kind="other", planned=True)) is True


def test_a_change_without_an_end_lasts_an_hour():
    assert planned(drain(10.9), change(end=None)) is True
    assert planned(drain(11.1), change(end=None)) is None


def test_what_is_already_known_stays():
    assert planned(drain(planned=False), change()) is False
    assert planned(session(planned=True)) is True


def test_an_assumed_zone_meets_its_like_only():
    assumed = change(time_basis="assumed_zone")
    assert planned(session(), assumed) is None
    assert planned(session(time_basis="assumed_zone"), assumed) is True
    assert planned(session(time_basis="assumed_zone"), change()) is None
    assert planned(drain(), assumed) is None


def test_the_error_of_a_clock_widens_a_change_but_that_of_a_day_does_not():
    assert planned(drain(9.5), change(time_error_s=3600.0)) is True
    assert planned(drain(9.5), change(time_error_s=86400.0)) is None


SPANS = st.lists(
    st.builds(
        lambda start, length, host, how: change(host, start, start + length, planned=how),
        st.integers(0, 30),
        st.integers(0, 5),
        st.sampled_from(["a1", "a2", None]),
        st.sampled_from([True, False, None]),
    ),
    max_size=6,
)


@given(SPANS, st.lists(st.integers(0, 40), min_size=1, max_size=6), st.randoms())
def test_order_and_parts_do_not_matter(changes: list[Change], starts: list[int], order: random.Random):
    rows = [drain(start) for start in starts]
    apart = copy.deepcopy(rows)
    mark_planned(changes, rows, [])
    shuffled = list(changes)
    order.shuffle(shuffled)
    for row in apart:
        mark_planned(shuffled, [row], [])
    assert apart == rows
    for row in rows:
        covering = [c for c in changes if c.host in ("a1", None) and _covers(c, row.start_time or 0)]
        stated = [c.planned is not False for c in covering]
        assert row.planned == (None if not stated else any(stated))


def _covers(change: Change, time: int) -> bool:
    return (change.start_time or 0) - 1_000_000 <= time <= (change.end_time or 0) + 1_000_000
