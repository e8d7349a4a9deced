"""scontrol show job: blocks and single lines."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.clock import SECOND, wall_micros
from aftershock.parsers.documents.scontrol_job import detects, read
from aftershock.parsers.formats import Found, Head, Refused
from aftershock.schemas.sessions import Session

BLOCK = """\
JobId={job} JobName={name}
   UserId={user} GroupId=ml(400) MCS_label=N/A
   JobState={state} Reason={reason} Dependency=(null)
   Requeue=1 Restarts=2 BatchFlag=1 Reboot=0 ExitCode={code}
   RunTime=00:01:00 TimeLimit=01:00:00 TimeMin=N/A
   SubmitTime=2025-01-01T00:00:00 EligibleTime=2025-01-01T00:00:00
   StartTime=2025-01-01T01:00:00 EndTime=2025-01-01T01:01:00 Deadline=N/A
   Partition=p AllocNode:Sid=login1:5
   ReqNodeList=b9 ExcNodeList={excluded}
   NodeList={nodes}
   BatchHost=a1
   NumNodes=2 NumCPUs=4 NumTasks=2 CPUs/Task=2 ReqB:S:C:T=0:0:*:*
   ReqTRES=cpu=4,node=2,gres/gpu=8
   Command=/home/x/run.sh StartTime=never NodeList=c1
   WorkDir=/home/x/my runs

"""


def block(**fields: str) -> str:
    given_fields = {
        "job": "7", "name": "a", "user": "mira(40)", "state": "FAILED", "reason": "None", "code": "1:0",
        "excluded": "(null)", "nodes": "a[1-2]",
    }  # fmt: skip
    return BLOCK.format(**(given_fields | fields))


def items(text: str | bytes) -> list[Found | Refused]:
    return list(read(io.BytesIO(text.encode() if isinstance(text, str) else text)))


def session(text: str) -> Session:
    (item,) = items(text)
    assert isinstance(item, Found)
    assert isinstance(item.row, Session)
    return item.row


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {},
            {
                "job_id": "7",
                "name": "a",
                "user": "mira",
                "hosts": ["a1", "a2"],
                "exit_code": 1,
                "n_gpus": 8,
                "n_hosts": 2,
            },
        ),
        (
            {},
            {
                "work_dir": "/home/x/my runs",
                "partition": "p",
                "duration_s": 60.0,
                "excluded_hosts": [],
                "attempt": None,
            },
        ),
        ({"excluded": "a[3-4],b1"}, {"excluded_hosts": ["a3", "a4", "b1"]}),
        (
            {"name": "x Partition=q JobState=DONE"},
            {"name": "x Partition=q JobState=DONE", "partition": "p", "state": "FAILED"},
        ),
        ({"job": "9 ArrayJobId=5 ArrayTaskId=3"}, {"job_id": "5_3", "raw_job_id": "9"}),
        ({"job": "9 ArrayJobId=9 ArrayTaskId=0-3%2"}, {"job_id": "9_[0-3%2]", "raw_job_id": "9"}),
        ({"job": "9 HetJobId=8 HetJobOffset=1"}, {"job_id": "8+1", "raw_job_id": "9"}),
        ({"user": "(null)(41)"}, {"user": "41"}),
        (
            {"state": "PENDING", "nodes": "", "code": "0:0"},
            {"start_time": None, "end_time": None, "hosts": [], "exit_code": None},
        ),
        ({"state": "RUNNING"}, {"start_time": wall_micros(2025, 1, 1, 1, 0, 0), "end_time": None, "exit_code": None}),
        ({"reason": "NonZeroExitCode"}, {"end_reason": "NonZeroExitCode"}),
        ({"reason": "Priority"}, {"end_reason": None}),
        ({"state": "REQUEUE_HOLD"}, {"state": "PENDING", "hosts": []}),
    ],
)
def test_blocks(fields: dict[str, str], expected: dict[str, Any]) -> None:
    row = session(block(**fields))
    assert {name: getattr(row, name) for name in expected} == expected


def test_one_line_form_says_the_same() -> None:
    text = block(name="a b", excluded="a3")
    one_line = " ".join(line.strip() for line in text.splitlines() if line.strip()) + "\n"
    assert session(one_line) == session(text)


def test_offsets_and_clock() -> None:
    text = block() + block(job="8")
    found = [item for item in items(text) if isinstance(item, Found)]
    assert [item.offset for item in found] == [0, text.index("JobId=8")]
    assert (found[0].reading.kind, found[0].reading.wall) == ("local", wall_micros(2025, 1, 1, 1, 1, 0))
    assert found[0].reading.resolution == SECOND


def test_carriage_returns_and_noise_before() -> None:
    text = "some banner\n" + block()
    rows = [item.row for item in items(text.replace("\n", "\r\n")) if isinstance(item, Found)]
    assert rows == [session(block())]


def test_a_record_without_a_state_is_refused() -> None:
    (item,) = items("JobId=7 JobName=a\n   UserId=mira(40)\n")
    assert isinstance(item, Refused)
    (item,) = items("JobId=7 UserId=mira(40) Name=a JobState=FAILED\n")
    assert isinstance(item, Refused)


def test_detection_leaves_the_jobcomp_log_alone() -> None:
    assert detects(Head("x", block().encode())) > 0.5
    assert detects(Head("x", b"JobId=7 UserId=mira(40) GroupId=ml(4) Name=a JobState=FAILED\n")) == 0.0
    assert detects(Head("x", b"NodeName=a1 State=IDLE\n")) == 0.0


PIECES = [
    "JobId=7",
    " JobName=",
    "\n   ",
    "UserId=",
    "JobState=FAILED",
    " NodeList=",
    "a[1-",
    "x",
    "\r\n",
    "=",
    " StartTime=2025-13-01T00:00:00",
]


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join) | st.text(max_size=60))
def test_any_text_is_read_without_error(text: str) -> None:
    items(text.encode("utf-8", "replace"))


@given(st.binary(max_size=120))
def test_any_bytes_are_read_without_error(body: bytes) -> None:
    items(b"JobId=7 JobName=a\n JobState=FAILED " + body)
