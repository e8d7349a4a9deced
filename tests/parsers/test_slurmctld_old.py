"""slurmctld before 19.05: jobs as `JobID=9 State=0x1 NodeCnt=2`, `job 9` and `job_id 9`."""

from __future__ import annotations

import pytest

from aftershock.parsers.selfcheck import rows_of_text
from aftershock.parsers.slurmctld import FORMAT
from aftershock.schemas.events import SchedulerEvent


def told(*messages: str) -> list[tuple[str | None, str | None, str | None, list[str] | None]]:
    text = "".join(f"[2018-03-01T08:0{n}:00.000] {message}\n" for n, message in enumerate(messages))
    rows = [row for row in rows_of_text(text, FORMAT) if isinstance(row, SchedulerEvent)]
    return [(row.kind, row.job_id, row.state, row.hosts) for row in rows]


@pytest.mark.parametrize(
    ("message", "row"),
    [
        ("sched: Allocate JobID=19 NodeList=n[1-2] #CPUs=4 Partition=long", ("started", "19", None, ["n1", "n2"])),
        ("backfill: Started JobID=20 in long on n3", ("started", "20", None, ["n3"])),
        ("_job_complete: JobID=19 State=0x1 NodeCnt=2 WEXITSTATUS 1", ("ended", "19", "FAILED", None)),
        ("_job_complete: JobID=19 State=0x8003 NodeCnt=2 done", ("ended", "19", None, None)),
        ("_job_complete: requeue JobID=25 State=0x8000 NodeCnt=1 due to node failure", ("requeued", "25", "NODE_FAIL", None)),
        ("requeue job 21 due to failure of node n3", ("requeued", "21", "NODE_FAIL", ["n3"])),
        ("Killing job_id 22 on failed node n3", ("ended", "22", "NODE_FAIL", ["n3"])),
        ("_slurm_rpc_kill_job2: REQUEST_KILL_JOB job 23 uid 1004", ("cancelled", "23", "CANCELLED", None)),
        ("Time limit exhausted for JobId=24", ("time_limit", "24", "TIMEOUT", None)),
    ],
)  # fmt: skip
def test_lines(message: str, row: tuple[str | None, str | None, str | None, list[str] | None]) -> None:
    assert told(message) == [row]


def test_the_line_that_closes_one_adds_nothing() -> None:
    lines = (
        "_job_complete: JobID=19 State=0x1 NodeCnt=2 WEXITSTATUS 1",
        "_job_complete: JobID=19 State=0x8005 NodeCnt=2 done",
    )
    assert told(*lines) == [("ended", "19", "FAILED", None)]


@pytest.mark.parametrize("message", ["Killing joker 22 on failed node n3", "requeue job21 due to failure of node n3"])
def test_no_jobs(message: str) -> None:
    assert told(message) == []
