"""Teardown on healthy hosts follows the fault on another host of the same job."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.pipeline.episodes import link_episodes
from aftershock.pipeline.teardown import Placement, mark_teardown, placements_of
from aftershock.schemas.events import GpuError
from aftershock.schemas.sessions import Session

S = 1_000_000
HOUR = 3600 * S


def error(host: str, second: float, code: int, gpu: int = 0, **fields: Any) -> GpuError:
    at = HOUR + round(second * S)
    row = GpuError(host=host, family="xid", code=code, pci=f"0000:{gpu:02x}:00.0", time=at, last_time=at)
    row.pid, row.process, row.time_basis, row.time_error_s = 100 + gpu, "python3", "zoned", 1e-6
    for name, value in fields.items():
        setattr(row, name, value)
    return row


def marked(rows: list[GpuError], *placements: Placement) -> list[GpuError]:
    link_episodes(rows)
    return mark_teardown(rows, placements)


JOB = Placement(("a", "b"), 0, 2 * HOUR)


def test_one_crash_does_not_flag_the_healthy_hosts() -> None:
    """A GPU falls off the bus on one host; 77 healthy hosts of its job print Xid 45 on each of their eight GPUs."""
    hosts = [f"gpu{n:03d}" for n in range(1, 79)]
    fault = error("gpu040", 0, 79, 3, pid=None, process=None)
    teardown = [
        error(host, 5 + gpu * 0.01, 45, gpu) for host in hosts for gpu in range(8) if (host, gpu) != ("gpu040", 3)
    ]
    rows = [fault, *teardown]
    changed = marked(rows, Placement(tuple(hosts), 0, HOUR + 30 * S))
    assert {row.host for row in changed} == set(hosts) - {"gpu040"}
    assert [row.host for row in rows if row.role == "root"] == ["gpu040"]
    assert {row.role for row in teardown} == {"follow_on"}
    assert {row.episode_id for row in rows} == {fault.episode_id}


@pytest.mark.parametrize("code", [79, 48, 95, 94, 149, 119, 31, 13])
@pytest.mark.parametrize("teardown", [43, 45])
def test_any_fault_takes_the_job_down(code: int, teardown: int) -> None:
    fault, follows = error("a", 0, code), error("b", 60, teardown)
    assert marked([fault, follows], JOB) == [follows]
    assert (follows.role, follows.episode_id) == ("follow_on", fault.episode_id)


@pytest.mark.parametrize(
    "rows",
    [
        # only teardown on both hosts: somebody cancelled the job
        [error("a", 0, 45), error("b", 1, 45)],
        # too late, too early
        [error("a", 0, 79), error("b", 130, 45)],
        [error("a", 0, 79), error("b", -10, 45)],
        # a fault of its own, and a summary of one that was not logged
        [error("a", 0, 79), error("b", 1, 63)],
        [error("a", 0, 79), error("b", 1, 154)],
        # the clocks are known in different ways
        [error("a", 0, 79, time_basis="assumed_zone"), error("b", 1, 45)],
        # another host, not of this job
        [error("c", 0, 79), error("b", 1, 45)],
        # a test, what a user wrote, and errors that take nothing down
        [error("a", 0, 14), error("b", 1, 45)],
        [error("a", 0, 79, trust="user"), error("b", 1, 45)],
        [error("a", 0, 63), error("b", 1, 45)],
        [error("a", 0, 20001, family="sxid", severity="nonfatal"), error("b", 1, 45)],
    ],
)
def test_what_is_not_explained_stays_as_it_is(rows: list[GpuError]) -> None:
    link_episodes(rows)
    before = [(row.role, row.episode_id) for row in rows]
    assert mark_teardown(rows, [JOB]) == []
    assert [(row.role, row.episode_id) for row in rows] == before


@pytest.mark.parametrize(("start", "end"), [(0, HOUR - 200 * S), (HOUR + 30 * S, None)])
def test_a_fault_outside_the_session_explains_nothing(start: int, end: int | None) -> None:
    assert marked([error("a", 0, 79), error("b", 1, 45)], Placement(("a", "b"), start, end)) == []


def test_a_job_that_still_runs_has_no_end() -> None:
    assert len(marked([error("a", 0, 79), error("b", 1, 45)], Placement(("a", "b"), 0, None))) == 1


def test_errors_of_the_clocks_widen_the_window() -> None:
    rows = [error("a", 0, 79, time_error_s=10.0), error("b", -9, 45, time_error_s=1.0)]
    assert len(marked(rows, JOB)) == 1


def test_a_host_with_a_fault_of_its_own_keeps_its_episode() -> None:
    own = [error("b", 0, 48), error("b", 1, 45)]
    assert marked([error("a", 0, 79), *own], JOB) == []
    assert [row.role for row in own] == ["root", "follow_on"]


def test_the_graver_fault_explains_more_than_the_earlier_one() -> None:
    program, lost, follows = error("a", 0, 31), error("c", 5, 79), error("b", 6, 45)
    marked([program, lost, follows], Placement(("a", "b", "c"), 0, None))
    assert follows.episode_id == lost.episode_id


def test_a_contained_error_behind_a_record_of_repair_takes_the_job_down() -> None:
    assert len(marked([error("a", 0, 63), error("a", 0, 94), error("b", 1, 45)], JOB)) == 1


def test_sessions_become_placements() -> None:
    sessions = [
        Session(hosts=["a", "b"], start_time=1, end_time=9, time_basis="zoned"),
        Session(hosts=["a"], start_time=1, end_time=9),
        Session(hosts=[], start_time=None),
        Session(hosts=["a", "b"], start_time=1, time_basis="assumed_zone"),
    ]
    assert placements_of(sessions) == [Placement(("a", "b"), 1, 9), Placement(("a", "b"), 1, None, True)]


EVENTS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(-200, 200), st.sampled_from([31, 45, 48, 79, 94, 154])), max_size=12
)


@given(events=EVENTS, order=st.randoms(use_true_random=False))
def test_order_does_not_matter(events: list[tuple[str, int, int]], order: random.Random) -> None:
    jobs = [JOB, Placement(("b", "c"), HOUR - 100 * S, HOUR + 50 * S), Placement(("a", "c"), HOUR, None)]

    def said(shuffle: bool) -> list[tuple[str | None, str | None]]:
        rows = [error(*event) for event in events]
        ordered, placements = list(rows), list(jobs)
        if shuffle:
            order.shuffle(ordered)
            order.shuffle(placements)
        link_episodes(ordered)
        mark_teardown(ordered, placements)
        return [(row.role, row.episode_id) for row in rows]

    assert said(True) == said(False)
