"""Sessions from accounting records and controller logs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from aftershock.pipeline.attempts import Record
from aftershock.pipeline.sessions import BuiltSessions, SessionRules, array_task_of, build_sessions
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.sessions import Session

US = 1_000_000
DAY0 = 1_780_000_000 * US  # the times below are seconds after this
RULES = SessionRules()


def at(seconds: float | None) -> int | None:
    return None if seconds is None else DAY0 + round(seconds * US)


def job(
    submit: float | None = None,
    start: float | None = None,
    end: float | None = None,
    state: str | None = "COMPLETED",
    **more: Any,
) -> Session:
    columns: dict[str, Any] = {
        "scheduler": "slurm",
        "job_id": "700",
        "raw_job_id": "700",
        "name": "glm",
        "user": "ada",
        "work_dir": "/w/glm",
        "hosts": ["n1", "n2"] if start is not None else [],
        "time_basis": "zoned",
        "sources": ["acct:1"],
    }
    return Session(submit_time=at(submit), start_time=at(start), end_time=at(end), state=state, **(columns | more))


def said(kind: str, seconds: float | None, **more: Any) -> SchedulerEvent:
    columns: dict[str, Any] = {
        "job_id": "700",
        "raw_job_id": "700",
        "time_basis": "zoned",
        "source": "ctl",
        "byte_offset": round((seconds or 0) * 1000),
    }
    return SchedulerEvent(kind=kind, time=at(seconds), **(columns | more))


def build(
    accounting: list[Session | Record], events: list[SchedulerEvent] | None = None, **rules: Any
) -> list[Session]:
    return built(accounting, events, **rules).sessions


def built(
    accounting: list[Session | Record], events: list[SchedulerEvent] | None = None, **rules: Any
) -> BuiltSessions:
    records = [("sacct", row) if isinstance(row, Session) else row for row in accounting]
    return build_sessions(records, events or [], SessionRules(**rules))


def seconds(time: int | None) -> float | None:
    return None if time is None else (time - DAY0) / US


def spans(sessions: list[Session]) -> list[tuple[Any, ...]]:
    return [(s.attempt, seconds(s.start_time), seconds(s.end_time), s.state) for s in sessions]


# What was done: a job loses a host, is put back, and is cancelled while it waits.
NODE_FAILURE = [
    said("submitted", 0.7),
    said("started", 1.1, hosts=["n1", "n2"]),
    said("requeued", 42.17, reason="failure of node n2", state="NODE_FAIL", hosts=["n2"]),
    said("requeued", 42.22),
    said("cancelled", 152.8, user="0"),
]
NODE_FAILURE_RECORDS = [
    job(0, 1, 42, "NODE_FAIL", duration_s=41.0, exit_code=0, n_hosts=2, n_gpus=16),
    job(42, None, 152, "CANCELLED", cancelled_by="0", duration_s=0.0, n_hosts=2, sources=["acct:2"]),
]


@pytest.mark.parametrize("records", [NODE_FAILURE_RECORDS, []], ids=["accounting", "log alone"])
def test_requeue_that_never_started_again(records: list[Session]) -> None:
    result = built([*records], NODE_FAILURE)
    first, second = result.sessions
    assert (first.attempt, first.state, first.hosts, first.n_hosts) == (1, "NODE_FAIL", ["n1", "n2"], 2)
    assert first.end_reason == "failure of node n2"
    assert (second.attempt, second.state, second.hosts, second.start_time) == (None, "CANCELLED", [], None)
    assert (second.cancelled_by, second.duration_s, second.n_hosts) == ("0", None, 0)
    assert [e.session_id for e in result.events] == [first.session_id] * 4 + [second.session_id]


def test_log_alone_and_accounting_give_the_same_ids() -> None:
    both = {s.session_id for s in build([*NODE_FAILURE_RECORDS], NODE_FAILURE)}
    log = {s.session_id for s in build([], NODE_FAILURE)}
    accounting = {s.session_id for s in build([*NODE_FAILURE_RECORDS])}
    assert both == log == accounting
    assert len(both) == 2


def test_requeue_without_a_cancel_is_still_pending() -> None:
    assert build([], NODE_FAILURE[:-1])[1].state == "PENDING"


def test_cancelled_before_it_ever_started() -> None:
    (row,) = build([], [said("submitted", 0), said("cancelled", 80, user="501")])
    assert (row.state, row.hosts, row.attempt, row.cancelled_by) == ("CANCELLED", [], None, "501")
    assert (seconds(row.submit_time), seconds(row.end_time)) == (0, 80)


def test_five_attempts_of_one_job() -> None:
    records = [job(100 * n, 100 * n + 1, 100 * (n + 1), "NODE_FAIL") for n in range(4)]
    records.append(job(400, 401, 450, "COMPLETED"))
    events = [said("submitted", 0.4)]
    for n in range(5):
        events.append(said("started", 100 * n + 1.3, hosts=["n1"]))
        if n < 4:
            events += [said("requeued", 100 * (n + 1) + d, reason="node failure") for d in (0.1, 0.2)]
    for rows, lines in ((records, []), (records, events), ([], events), (records[2:], events)):
        sessions = build([*rows], lines)
        assert [s.attempt for s in sessions] == [1, 2, 3, 4, 5]
        assert [s.state for s in sessions[:4]] == ["NODE_FAIL"] * 4


def test_same_attempt_in_four_formats_is_one_row_with_all_sources() -> None:
    row = job(0, 1, 9, "FAILED", exit_code=9)
    records: list[Session | Record] = [
        ("sacct", replace(row, sources=["a.psv:10"])),
        ("sacct", replace(row, sources=["b.psv:70", "a.psv:10"])),
        ("sacct_json", replace(row, start_time=at(2), sources=["c.json:0"], exit_code=0, name=None)),
        ("scontrol_job", replace(row, sources=["d.txt:5"], exit_code=137, excluded_hosts=["n9"])),
    ]
    (session,) = build(records, [said("started", 1.9)])
    assert session.sources == ["a.psv:10", "b.psv:70", "c.json:0", "ctl:1900", "d.txt:5"]
    assert (seconds(session.start_time), session.exit_code, session.excluded_hosts) == (1, 137, ["n9"])


@pytest.mark.parametrize(
    ("formats", "logged", "expected"),
    [
        (("sacct",), 137, 137),
        (("sacct", "scontrol_job"), None, 137),
        (("sacct_json", "sacct"), None, 9),
        (("sacct_json",), None, 0),
    ],
)
def test_exit_status_of_the_most_trusted_source(formats: tuple[str, ...], logged: int | None, expected: int) -> None:
    printed = {"sacct": 9, "sacct_json": 0, "scontrol_job": 137}
    records: list[Session | Record] = [(f, job(0, 1, 9, "FAILED", exit_code=printed[f])) for f in formats]
    events = [] if logged is None else [said("ended", 9.2, exit_code=logged)]
    assert build(records, events)[0].exit_code == expected


def test_scontrol_of_a_job_that_never_got_hosts_prints_a_start() -> None:
    (row,) = build([("scontrol_job", job(42, 152, 152, "CANCELLED", hosts=[]))])
    assert (row.start_time, row.attempt, row.hosts) == (None, None, [])


def test_planned_times_are_no_facts() -> None:
    (waits,) = build([("scontrol_job", job(0, 500, 900, "PENDING", hosts=[]))])
    assert (waits.start_time, waits.end_time, waits.state) == (None, None, "PENDING")
    (runs,) = build([("scontrol_job", job(0, 1, 9000, "RUNNING"))])
    assert (seconds(runs.start_time), runs.end_time, runs.state) == (1, None, "RUNNING")


def test_older_looks_give_way_to_newer_ones() -> None:
    looks = [job(0, None, None, "PENDING"), job(0, 5, None, "RUNNING", duration_s=4.0), job(0, 5, 90, duration_s=85.0)]
    (row,) = build([*looks])
    assert (row.state, row.duration_s, seconds(row.end_time)) == ("COMPLETED", 85.0, 90)


def test_record_that_still_ran_is_closed_by_the_log() -> None:
    (row,) = build([job(0, 5, None, "RUNNING", duration_s=4.0)], [said("ended", 95.5, exit_code=1)])
    assert (row.state, row.exit_code, row.duration_s) == ("FAILED", 1, 90.5)


@pytest.mark.parametrize(
    ("lines", "state"),
    [
        ([said("ended", 50, exit_code=0)], "COMPLETED"),
        ([said("ended", 50, exit_code=3), said("ended", 50.001)], "FAILED"),
        ([said("ended", 50, exit_signal=9)], "FAILED"),
        ([said("ended", 50, state="OUT_OF_MEMORY")], "OUT_OF_MEMORY"),
        ([said("ended", 50, reason="cancelled by node failure")], "NODE_FAIL"),
        ([said("time_limit", 50), said("ended", 51, exit_signal=15)], "TIMEOUT"),
        ([said("requeued", 50, reason="node failure")], "NODE_FAIL"),
        ([said("requeued", 50)], "REQUEUED"),
        ([said("requeued", 50, reason="preempted to reclaim resources")], "PREEMPTED"),
        ([said("preempted", 50, state="PREEMPTED")], "PREEMPTED"),
        ([said("cancelled", 50, user="7")], "CANCELLED"),
        ([said("cancelled", 49, user="7"), said("ended", 50, exit_signal=15)], "CANCELLED"),
        ([said("cancelled", 49), said("ended", 50, exit_code=0)], "COMPLETED"),
        ([said("ended", 50)], "UNKNOWN"),
        ([], "RUNNING"),
    ],
)
def test_state_from_the_log(lines: list[SchedulerEvent], state: str) -> None:
    row = build([], [said("started", 1, hosts=["n1"]), *lines])[0]
    assert row.state == state
    assert seconds(row.end_time) == (None if state == "RUNNING" else 50)


def test_start_line_missing_from_the_log() -> None:
    """From 26.05 on the controller does not print what backfill starts."""
    (row,) = build([], [said("submitted", 0), said("ended", 50, exit_code=1)])
    assert (row.start_time, row.attempt, row.state, row.hosts) == (None, 1, "FAILED", None)
    first, second = build([], [said("submitted", 0), said("requeued", 40), said("started", 60), said("ended", 70)])
    assert (first.start_time, seconds(first.submit_time), first.attempt) == (None, 0, 1)
    assert (seconds(second.submit_time), seconds(second.start_time), second.attempt) == (40, 60, 2)


def test_log_that_begins_in_the_middle() -> None:
    first, second = build([], [said("requeued", 40, reason="node failure"), said("started", 60)])
    assert sorted([(first.attempt, first.state), (second.attempt, second.state)]) == [(1, "NODE_FAIL"), (2, "RUNNING")]


def test_reused_id_begins_a_new_job() -> None:
    records = [job(0, 1, 50, "FAILED"), job(400, 401, 500, "NODE_FAIL"), job(500, 510, 600)]
    assert [s.attempt for s in build([*records])] == [1, 1, 2]
    others = [job(0, 1, 50, "NODE_FAIL"), job(50, 60, 90, name="other", user="eve")]
    sessions = build([*others])
    assert [(s.attempt, s.name) for s in sessions] == [(1, "glm"), (1, "other")]


def test_submit_line_between_two_starts_begins_a_new_job() -> None:
    lines = [
        said("submitted", 0),
        said("started", 1),
        said("requeued", 20),
        said("submitted", 900),
        said("started", 901),
        said("ended", 950, exit_code=0),
    ]
    assert spans(build([], lines)) == [
        (1, 1, 20, "REQUEUED"),
        (None, None, None, "PENDING"),
        (1, 901, 950, "COMPLETED"),
    ]


def test_requeue_by_exit_code_is_no_new_job() -> None:
    """Slurm closes the row as FAILED and resets Submit to that moment."""
    assert [s.attempt for s in build([job(0, 1, 50, "FAILED"), job(50, 60, 90)])] == [1, 2]


def test_array_tasks_keep_their_ids() -> None:
    record = job(0, 1, 9, job_id="690_2", raw_job_id="700")
    lines = [said("started", 1.2, job_id="690", array_task="2"), said("ended", 9.1, job_id="690", array_task="2")]
    for records in ([record], []):
        (row,) = build([*records], lines)
        assert (row.job_id, row.raw_job_id, row.attempt) == ("690_2", "700", 1)
    last = [said("submitted", 0, job_id="690", raw_job_id="690")]
    last.append(said("started", 1, job_id="690", raw_job_id="690", array_task="3"))
    pending = job(0, None, None, "PENDING", job_id="690_[1-3]", raw_job_id="690")
    assert [s.job_id for s in build([pending], last)] == ["690_3"]
    assert [array_task_of(name) for name in ("690_3", "690", "690_[1-3]", "a_3", None)] == ["3", None, None, None, None]


def test_tasks_under_one_id_are_told_apart() -> None:
    rows = [job(0, 1, 9, job_id=f"690_{n}", raw_job_id="690", sources=[f"acct:{n}"]) for n in range(3)]
    sessions = build([*rows])
    assert sorted(s.job_id or "" for s in sessions) == ["690_0", "690_1", "690_2"]
    assert len({s.session_id for s in sessions}) == 3


def test_unnamed_rows_join_the_only_cluster() -> None:
    rows = [job(0, 1, 9, cluster="sun"), job(0, 1, 9, sources=["acct:2"])]
    (row,) = build([*rows], [said("started", 1.1)])
    assert (row.cluster, row.sources) == ("sun", ["acct:1", "acct:2", "ctl:1100"])


def test_two_clusters_are_two_jobs() -> None:
    rows = [job(0, 1, 9, cluster="sun"), job(0, 1, 9, cluster="moon"), job(500, 501, 509)]
    sessions = build([*rows], [said("started", 1.1, cluster="moon")])
    assert [(s.cluster, s.attempt) for s in sessions[:2]] in ([("sun", 1), ("moon", 1)], [("moon", 1), ("sun", 1)])
    assert sessions[2].cluster is None
    assert len({s.session_id for s in sessions}) == 3


def test_job_columns_reach_attempts_that_only_the_log_saw() -> None:
    lines = [said("started", 1), said("requeued", 20, reason="node failure"), said("started", 30)]
    first, second = build([job(20, 30, 90)], lines)
    assert (first.user, first.name, first.work_dir, first.state) == ("ada", "glm", "/w/glm", "NODE_FAIL")
    assert second.attempt == 2


def test_gpus_fall_back_to_hosts() -> None:
    (row,) = build([job(0, 10, 110)], gpus_per_host=8)
    assert (row.n_gpus, row.duration_s, row.gpu_seconds) == (16, 100.0, 1600.0)
    (row,) = build([job(0, 10, 110, n_gpus=4)], gpus_per_host=8)
    assert (row.n_gpus, row.gpu_seconds) == (4, 400.0)
    (row,) = build([job(0, 10, 110)])
    assert (row.n_gpus, row.gpu_seconds) == (None, None)


def test_reasons_for_waiting_do_not_explain_the_end() -> None:
    assert build([job(0, 1, 9, end_reason="ReqNodeNotAvail")])[0].end_reason is None
    assert build([job(0, 1, 9, "FAILED", end_reason="NonZeroExitCode")])[0].end_reason == "NonZeroExitCode"
    waited = job(0, None, 9, "CANCELLED", end_reason="ReqNodeNotAvail")
    assert build([waited])[0].end_reason == "ReqNodeNotAvail"


def test_attempt_that_was_followed_does_not_run_any_more() -> None:
    lines = [said("started", 1), said("started", 500)]
    assert [s.state for s in build([], lines)] == ["UNKNOWN", "RUNNING"]


def test_assumed_zone_that_agrees_is_settled() -> None:
    lines = [replace(line, time_basis="assumed_zone") for line in NODE_FAILURE]
    first, second = build([NODE_FAILURE_RECORDS[1]], lines)
    assert (first.time_basis, second.time_basis) == ("inferred_zone", "zoned")
    assert (first.state, second.state) == ("NODE_FAIL", "CANCELLED")


def test_assumed_zone_that_disagrees_opens_no_attempts() -> None:
    lines = [replace(line, time=(line.time or 0) + 9 * 3600 * US, time_basis="assumed_zone") for line in NODE_FAILURE]
    result = built([*NODE_FAILURE_RECORDS], lines)
    assert len(result.sessions) == 2
    assert {event.session_id for event in result.events} == {None}
    shifted = replace(job(0, 1, 9), start_time=at(3601), submit_time=at(3600), time_basis="assumed_zone")
    sessions = build([job(0, 1, 9), shifted])
    assert [(s.time_basis, s.attempt) for s in sessions] == [("zoned", 1), ("assumed_zone", 1)]


def test_assumed_zone_alone_is_kept() -> None:
    lines = [replace(line, time_basis="assumed_zone") for line in NODE_FAILURE]
    assert {s.time_basis for s in build([], lines)} == {"assumed_zone"}


def test_time_errors_widen_the_match() -> None:
    start = said("started", 7, time_error_s=5.0)
    assert len(build([job(0, 1, 90, time_error_s=1.0)], [start])) == 1
    assert len(build([job(0, 1, 90)], [said("started", 7)])) == 2


def test_rows_without_times_stay() -> None:
    rows = [job(state="REQUEUED", hosts=None, duration_s=60.0 * n, sources=[f"acct:{n}"]) for n in (3, 4, 5)]
    sessions = build([*rows, *rows])
    assert [s.state for s in sessions] == ["REQUEUED"] * 3
    assert [s.attempt for s in sessions] == [None] * 3
    assert len({s.session_id for s in sessions}) == 3
    (only,) = build([rows[0]])
    assert only.attempt == 1
    result = built([job(0, 1, 9)], [said("ended", None)])
    assert [event.session_id for event in result.events] == [None]


def test_late_lines_belong_to_nobody() -> None:
    result = built([job(0, 1, 9)], [said("cancelled", 4000), said("epilog_error", 12), said("time_limit", 4000)])
    by_kind = {event.kind: event.session_id for event in result.events}
    assert by_kind["epilog_error"] == result.sessions[0].session_id
    assert by_kind["cancelled"] is by_kind["time_limit"] is None
    assert len(result.sessions) == 1


def test_placed_record_without_a_start_takes_it_from_the_log() -> None:
    (row,) = build([job(0, None, 90, hosts=["n1"])], [said("started", 5)])
    assert (seconds(row.start_time), row.hosts, row.duration_s) == (5, ["n1"], 85.0)


def test_nothing_gives_nothing() -> None:
    assert built([]) == BuiltSessions([], [])
