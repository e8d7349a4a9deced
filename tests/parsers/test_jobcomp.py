"""jobcomp/filetxt, and what stands near it."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.clock import SECOND, wall_micros
from aftershock.parsers.detect import detect
from aftershock.parsers.documents import sdiag
from aftershock.parsers.formats import Found, Head, Mark, Refused
from aftershock.parsers.jobcomp import FORMAT
from aftershock.parsers.selfcheck import rows_of_text
from aftershock.schemas.sessions import Session

LINE = (
    "JobId={job} UserId={user} GroupId=ml(400) Name={name} JobState={state} Partition=long TimeLimit=1440 "
    "StartTime=2025-02-03T08:12:31 EndTime=2025-02-03T09:12:31 NodeList={nodes} NodeCnt=2 ProcCnt=16 "
    "WorkDir={folder} ReservationName= Tres=cpu=16,node=2,gres/gpu=16 Account=ml QOS=normal WcKey= Cluster=alpha "
    "SubmitTime=2025-02-03T08:10:05 EligibleTime=2025-02-03T08:10:05{ids} DerivedExitCode=1:0 ExitCode={code} \n"
)


def line(**fields: str) -> str:
    given_fields = {
        "job": "812", "user": "mira(4021)", "name": "a", "state": "FAILED", "nodes": "d[7-8]", "folder": "/w",
        "ids": "", "code": "1:0",
    }  # fmt: skip
    return LINE.format(**(given_fields | fields))


def session(text: str) -> Session:
    (row,) = rows_of_text(text, FORMAT)
    assert isinstance(row, Session)
    return row


def test_a_whole_line() -> None:
    row = session(line())
    assert (row.job_id, row.user, row.cluster, row.partition, row.state) == ("812", "mira", "alpha", "long", "FAILED")
    assert (row.hosts, row.n_gpus, row.exit_code) == (["d7", "d8"], 16, 1)
    assert row.start_time == wall_micros(2025, 2, 3, 8, 12, 31)
    assert (row.end_time or 0) - (row.submit_time or 0) == (3600 + 146) * SECOND


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"name": "a JobState of mind # 3"}, {"name": "a JobState of mind # 3", "state": "FAILED"}),
        ({"name": "x Partition=y EndTime=z"}, {"name": "x Partition=y EndTime=z", "partition": "long"}),
        ({"folder": "/my runs/ExitCode=9:9"}, {"work_dir": "/my runs/ExitCode=9:9", "exit_code": 1}),
        ({"folder": "/a Tresor/b"}, {"work_dir": "/a Tresor/b"}),
        ({"ids": " ArrayJobId=9 ArrayTaskId=2"}, {"job_id": "9_2", "raw_job_id": "812"}),
        ({"ids": " HetJobId=9 HetJobOffset=1"}, {"job_id": "9+1", "raw_job_id": "812"}),
        ({"ids": " PackJobId=9 PackJobOffset=1"}, {"job_id": "9+1"}),
        ({"user": "(4021)"}, {"user": "4021"}),
        ({"user": "first last(4021)"}, {"user": "first last"}),
        ({"nodes": "(null)", "state": "CANCELLED"}, {"hosts": [], "start_time": None, "exit_code": None}),
        ({"code": "0:9"}, {"exit_code": 0, "exit_signal": 9}),
    ],
)
def test_fields(fields: dict[str, str], expected: dict[str, object]) -> None:
    row = session(line(**fields))
    assert {name: getattr(row, name) for name in expected} == expected


@pytest.mark.parametrize("text", [line()[:60] + "\n", "JobId=1 UserId=a(1) GroupId=b(2) Name=c\n"])
def test_a_torn_line_is_refused(text: str) -> None:
    found = detect(Head("jobcomp.log", (line() + text).encode()))
    assert found.format == "jobcomp"
    assert rows_of_text(text, FORMAT) == []


@given(st.text(alphabet=st.characters(blacklist_characters="\n\r", blacklist_categories=["Cs"]), max_size=40))
def test_any_name_leaves_the_rest_as_it_is(name: str) -> None:
    row = session(line(name=f"x{name}x"))
    assert (row.job_id, row.user, row.hosts, row.exit_code) == ("812", "mira", ["d7", "d8"], 1)


def test_sdiag_is_known_and_gives_nothing_but_its_clock() -> None:
    text = sdiag.FORMAT.samples[0].text.encode()
    assert detect(Head("x", text)).format == "sdiag"
    found = list(sdiag.read(io.BytesIO(text)))
    assert not any(isinstance(item, (Found, Refused)) for item in found)
    assert [mark.reading.wall for mark in found if isinstance(mark, Mark)] == [
        1738569605 * SECOND,
        1738540800 * SECOND,
    ]


def test_a_line_of_the_log_within_another_log_is_not_read() -> None:
    assert rows_of_text("[2025-02-03T08:00:00.000] " + line(), FORMAT) == []
