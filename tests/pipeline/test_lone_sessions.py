"""Jobs with one record: the same sessions whether they are built one by one or all at once."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.transit import lean_batch, rows_of
from aftershock.pipeline.keys import partitioned, partitioned_batches
from aftershock.pipeline.lone_sessions import lone_sessions, split_lone
from aftershock.pipeline.sessions import SessionRules, build_sessions
from aftershock.pipeline.window import Window
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.sessions import SESSION_STATES, Session

TIME = st.sampled_from(
    [None, 1_770_000_000_000_000, 1_770_000_000_400_000, 1_770_003_600_000_000, 1_769_999_999_000_000]
)
HOSTS = st.sampled_from([None, [], ["d1"], ["d1", "d2"]])


@st.composite
def records(draw: Any) -> Session:
    pick = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    return Session(
        cluster=pick(None, "alpha"),
        scheduler=pick(None, "slurm", "slurm", "pbs"),
        job_id=pick("7", "7_2", "7_[0-3]", "8+1", None),
        raw_job_id=pick("7", "8", None),
        name=pick(None, "a"),
        user=pick(None, "mira"),
        hosts=draw(HOSTS),
        n_hosts=pick(None, 0, 1, 2),
        n_gpus=pick(None, 0, 8),
        submit_time=draw(TIME),
        start_time=draw(TIME),
        end_time=draw(TIME),
        duration_s=pick(None, 0.0, 60.0),
        state=pick(None, *SESSION_STATES, "COMPLETED", "FAILED", "PENDING"),
        exit_code=pick(None, 0, 1),
        end_reason=pick(None, "", "None", "Priority", "NonZeroExitCode", "TimeLimit"),
        cancelled_by=pick(None, "40"),
        excluded_hosts=draw(HOSTS),
        designated_hosts=draw(HOSTS),
        gpu_seconds=pick(None, 5.0),
        sources=["s:7"],
        time_basis=pick("zoned", "assumed_zone", "none"),
        time_error_s=pick(None, 1.0),
    )


@settings(max_examples=600, deadline=None)
@given(
    st.lists(records(), min_size=1, max_size=8),
    st.sampled_from(["sacct", "squeue", "pbs", "job_table"]),
    st.sampled_from([None, 8]),
)
def test_both_ways(rows: list[Session], origin: str, gpus: int | None) -> None:
    rules = SessionRules(gpus_per_host=gpus)
    batch = lone_sessions(lean_batch(rows, "sessions", origin), rules)
    one_by_one = [build_sessions([(origin, row)], [], rules).sessions[0] for row in rows]
    assert [asdict(row) for row in rows_of(batch)] == [asdict(row) for row in one_by_one]


def test_a_job_that_is_told_of_twice_is_not_lone() -> None:
    records = [
        Session(job_id=job, raw_job_id=raw) for job, raw in [("1", "1"), ("2", None), ("9_3", "3"), (None, None)]
    ]
    again = [Session(job_id="2"), Session(job_id="4", raw_job_id="4")]
    lines = [SchedulerEvent(kind="ended", job_id="9", array_task="3", raw_job_id="3")]
    batches = [
        lean_batch(records, "sessions", "sacct"),
        lean_batch(again, "sessions", "sacct"),
        lean_batch(lines, "scheduler_events"),
    ]
    split = split_lone(batches)
    assert [row.job_id for batch in split.lone for row in rows_of(batch)] == ["1", "4"]
    assert [(row.table, row.job_id) for batch in split.others for row in rows_of(batch)] == [
        ("sessions", "2"), ("sessions", "9_3"), ("sessions", None), ("sessions", "2"), ("scheduler_events", "9"),
    ]  # fmt: skip


def test_nothing_gives_nothing() -> None:
    assert split_lone([]) == split_lone([lean_batch([], "sessions")])


@given(st.lists(st.sampled_from([None, "", "mira", "ines", "bo", "ü"]), min_size=1), st.integers(1, 9))
def test_batches_are_cut_as_rows_are(users: list[str | None], partitions: int) -> None:
    rows = [Session(job_id=str(n), user=user) for n, user in enumerate(users)]
    by_row = {
        number: [row.job_id for row in rows_of(batch)]
        for number, batch in partitioned(rows, lambda row: row.user or "", partitions)
    }
    batches = [lean_batch(rows, "sessions")]
    by_batch = {
        number: [row.job_id for row in rows_of(batch)]
        for number, batch in partitioned_batches(batches, lambda batch: batch.column("user"), partitions)
    }
    assert by_batch == by_row


@given(st.lists(st.tuples(TIME, TIME, TIME), max_size=6), TIME, TIME)
def test_a_window_keeps_of_a_batch_what_it_keeps_of_rows(
    times: list[Any], since: int | None, until: int | None
) -> None:
    rows = [Session(job_id=str(n), submit_time=a, start_time=b, end_time=c) for n, (a, b, c) in enumerate(times)]
    window = Window(since, until)
    assert [row.job_id for row in window.kept(rows)] == [
        row.job_id for row in rows_of(window.kept_sessions(lean_batch(rows, "sessions")))
    ]
