"""One truth from several sources: contradictions, schedulers apart, what steps and hosts print."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.pipeline.attempts import Record
from aftershock.pipeline.sessions import SessionRules, build_sessions
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.sessions import Session
from tests.pipeline.test_sessions import at, build, built, job, said, seconds, spans

KILLED = "slurmstepd: error: *** JOB 700 ON n1 CANCELLED AT 2026-05-28T20:27:31 DUE TO TIME LIMIT ***"


def conflicts(*records: Session | Record, events: list[SchedulerEvent] | None = None) -> list[str]:
    (row,) = build(list(records), events)
    return row.conflicts or []


def test_sources_that_agree_have_no_conflict() -> None:
    row = job(0, 1, 90, exit_code=0)
    late = replace(row, start_time=at(2), end_time=at(91))
    lines = [said("submitted", 0.4), said("started", 1.4), said("ended", 90.7, exit_code=0)]
    assert conflicts(row, ("sacct_json", late), ("scontrol_job", row), events=lines) == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"name": "bert"}, "name: glm (sacct) against bert (sacct_json)"),
        ({"user": "eve"}, "user: ada (sacct) against eve (sacct_json)"),
        ({"hosts": ["n2", "n3"]}, "hosts: n1,n2 (sacct) against n2,n3 (sacct_json)"),
        ({"n_gpus": 8}, "n_gpus: 16 (sacct) against 8 (sacct_json)"),
        ({"state": "FAILED"}, "state: COMPLETED (sacct) against FAILED (sacct_json)"),
        ({"exit_code": 3}, "exit_code: 0 (sacct) against 3 (sacct_json)"),
        (
            {"end_time": at(300)},
            "end_time: 2026-05-28T20:28:10Z (sacct) against 2026-05-28T20:31:40Z (sacct_json)",
        ),
        ({"excluded_hosts": ["n9"]}, "excluded_hosts: n7 (sacct) against n9 (sacct_json)"),
    ],
)
def test_contradiction_is_kept(change: dict[str, Any], text: str) -> None:
    row = job(0, 1, 90, n_gpus=16, exit_code=0, excluded_hosts=["n7"])
    other = replace(row, **change)
    assert conflicts(row, ("sacct_json", other)) == [text]
    assert conflicts(("sacct_json", other), row) == [text]


@pytest.mark.parametrize(
    "change",
    [
        {"state": "RUNNING", "end_time": at(9000), "duration_s": 4.0},
        {"state": "PENDING", "start_time": None, "hosts": []},
        {"user": "1001"},
        {"end_time": at(91)},
        {"exit_code": 137},
        {"name": None, "hosts": None},
        {"partition": "long,short"},
    ],
    ids=["ran", "waited", "user id", "second", "less 128", "says nothing", "one of several"],
)
def test_no_contradiction(change: dict[str, Any]) -> None:
    row = job(0, 1, 90, "FAILED", exit_code=9, partition="long")
    assert conflicts(row, ("scontrol_job", replace(row, **change))) == []


def test_log_against_accounting() -> None:
    row = job(0, 1, 90, exit_code=0)
    (found,) = conflicts(row, events=[said("started", 1.2), said("ended", 130, exit_code=0)])
    assert found == "end_time: 2026-05-28T20:28:10Z (sacct) against 2026-05-28T20:28:50Z (slurmctld)"
    found, exits = conflicts(row, events=[said("ended", 90.3, exit_code=3)])
    assert found == "state: COMPLETED (sacct) against FAILED (slurmctld)"
    assert exits == "exit_code: 3 (slurmctld) against 0 (sacct)"
    lost = job(0, 1, 90, "TIMEOUT")
    assert conflicts(lost, events=[said("time_limit", 90.1), said("ended", 90.4, exit_signal=15)]) == []
    told = [said("ended", 90.1, reason="cancelled by node failure")]
    assert conflicts(lost, events=told) == ["state: TIMEOUT (sacct) against NODE_FAIL (slurmctld)"]


def test_format_of_a_line_is_named() -> None:
    line = said("ended", 400, exit_code=0, scheduler="slurm")
    result = build_sessions([("sacct", job(0, 1, 90))], [line], SessionRules(), {id(line): "slurmd"})
    assert [row.conflicts for row in result.sessions] == [None]  # too late to be about it
    line = said("ended", 130, exit_code=0)
    result = build_sessions([("sacct", job(0, 1, 90))], [line], SessionRules(), {id(line): "slurmd"})
    assert "(slurmd)" in (result.sessions[0].conflicts or [""])[0]


def test_ids_of_two_schedulers_are_two_jobs() -> None:
    pbs = job(0, 1, 50, scheduler="pbs", user="eve")
    slurm = job(0, 1, 90)
    rows = build([pbs, slurm], [said("started", 1.1, hosts=["n1"]), said("ended", 90.2, exit_code=0)])
    assert sorted((row.scheduler, row.user, seconds(row.end_time)) for row in rows) == [
        ("pbs", "eve", 50),
        ("slurm", "ada", 90),
    ]
    assert {row.attempt for row in rows} == {1}
    assert len({row.session_id for row in rows}) == 2


def test_row_without_a_scheduler_joins_the_only_one() -> None:
    table = job(0, 1, 90, scheduler=None, name=None, sources=["jobs.csv:9"])
    (row,) = build([job(0, 1, 90, scheduler="pbs"), ("job_table", table)])
    assert (row.scheduler, row.sources) == ("pbs", ["acct:1", "jobs.csv:9"])
    (alone,) = build([("job_table", table)])
    assert alone.scheduler is None
    (logged,) = build([("job_table", table)], [said("started", 1.3)])
    assert logged.scheduler == "slurm"
    # A line without a scheduler is Slurm's, whatever else has the same number.
    assert len(build([job(0, 1, 90, scheduler="lsf")], [said("started", 1.3)])) == 2


def test_step_output_confirms_an_end() -> None:
    step = said("time_limit", 95, source="job.out", message=KILLED, hosts=["n1"])
    (row,) = build([job(0, 1, None, "RUNNING")], [step])
    assert (row.state, seconds(row.end_time)) == ("TIMEOUT", 95)
    (row,) = build([job(0, 1, None, "RUNNING")], [said("time_limit", 90), step])
    assert (row.state, seconds(row.end_time)) == ("TIMEOUT", 90)
    (row,) = build([job(0, 1, 90, "TIMEOUT")], [step])
    assert (seconds(row.end_time), row.sources, row.conflicts) == (90, ["acct:1", "job.out:95000"], None)


def test_step_output_opens_no_attempt_beside_the_log() -> None:
    message = "slurmstepd: error: *** JOB 700 ON n1 CANCELLED AT 2026-05-28T20:27:23 DUE TO JOB REQUEUE ***"
    lines = [
        said("started", 1),
        said("requeued", 40),
        said("started", 100),
        said("ended", 150, exit_code=0),
        said("requeued", 43.5, source="job.out", message=message),
        said("started", 8, source="job.out", message="srun: job 700 has been allocated resources"),
    ]
    assert spans(build([], lines)) == [(1, 1, 40, "REQUEUED"), (2, 100, 150, "COMPLETED")]
    # Alone it is the only word.
    assert spans(build([], lines[4:5]))[0][2:] == (43.5, "REQUEUED")


def test_containers_of_one_job_start_one_after_the_other() -> None:
    told = {"scheduler": "kubernetes", "raw_job_id": "ml/glm", "job_id": "glm"}
    lines = [
        said("submitted", 0, **told),
        said("pod_started", 10, hosts=["n1"], **told),
        said("pod_started", 25, hosts=["n2"], **told),
        said("requeued", 90, state="REQUEUED", **told),
        said("pod_started", 120, hosts=["n3"], **told),
        said("ended", 200, state="COMPLETED", **told),
    ]
    rows = build([], lines)
    assert spans(rows) == [(1, 10, 90, "REQUEUED"), (2, 120, 200, "COMPLETED")]
    assert [row.hosts for row in rows] == [["n1", "n2"], ["n3"]]
    assert {row.scheduler for row in rows} == {"kubernetes"}


def test_ten_thousand_requeues_of_one_job() -> None:
    def history(count: int) -> list[SchedulerEvent]:
        lines = [said("submitted", 0)]
        for n in range(count):
            lines += [said("started", 600 * n + 60), said("requeued", 600 * n + 600), said("requeued", 600 * n + 600.1)]
        return lines

    rows = build([], history(10_000))
    assert len(rows) == 10_001
    assert [row.attempt for row in rows[:-1]] == list(range(1, 10_001))
    assert rows[-1].state == "PENDING"


_SCHEDULERS = st.sampled_from([None, "slurm", "pbs"])
_CLUSTERS = st.sampled_from([None, "sun", "moon"])


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9), _SCHEDULERS, _CLUSTERS), max_size=6),
    st.lists(
        st.tuples(
            st.sampled_from(["submitted", "started", "ended", "requeued", "time_limit", "launched"]),
            st.integers(0, 40),
            _SCHEDULERS,
            _CLUSTERS,
            st.sampled_from([None, KILLED]),
        ),
        max_size=8,
    ),
    st.randoms(use_true_random=False),
)
def test_order_and_repetition_do_not_matter(records: Any, lines: Any, chance: Any) -> None:
    accounting = [
        ("sacct", job(start, start + 1, start + 1 + length, scheduler=scheduler, cluster=cluster, sources=[f"a:{n}"]))
        for n, (start, length, scheduler, cluster) in enumerate(records)
    ]
    events = [
        said(kind, time, scheduler=scheduler, cluster=cluster, message=message, byte_offset=n)
        for n, (kind, time, scheduler, cluster, message) in enumerate(lines)
    ]
    expected = built([*accounting], events)
    again = accounting + accounting[:2]
    chance.shuffle(again)
    chance.shuffle(events)
    assert built([*again], events) == expected
    named = {row.scheduler for _, row in accounting} | {event.scheduler for event in events} | {"slurm", None}
    assert {row.scheduler for row in expected.sessions} <= named
