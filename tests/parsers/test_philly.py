"""The job log of the Philly clusters: attempts, and whose status it is."""

from __future__ import annotations

import io
import json

import pytest

from aftershock.parsers.detect import detect
from aftershock.parsers.documents import philly
from aftershock.parsers.formats import Head, Refused
from aftershock.parsers.resolve import ClockRules
from aftershock.parsers.selfcheck import rows_of_text
from aftershock.parsers.settle import SourceRules
from aftershock.schemas.sessions import Session


def attempt(start: str | None, end: str | None, *hosts: str) -> dict:
    return {"start_time": start, "end_time": end, "detail": [{"ip": h, "gpus": ["gpu0", "gpu1"]} for h in hosts]}


def job(*attempts, status="Pass", **more) -> dict:
    given = {"status": status, "vc": "v", "jobid": "application_1_1", "attempts": list(attempts), "user": "u"}
    return given | {"submitted_time": "2017-10-02 01:00:00"} | more


def sessions(*jobs: dict, zone: str | None = "UTC") -> list[Session]:
    rules = SourceRules(source="s", clock=ClockRules(zone, inferred=False))
    return [r for r in rows_of_text(json.dumps(list(jobs)), philly.FORMAT, rules) if isinstance(r, Session)]


def refusals(text: str) -> list[str]:
    return [i.reason for i in philly.FORMAT.read(io.BytesIO(text.encode())) if isinstance(i, Refused)]


FIRST = attempt("2017-10-02 01:00:10", "2017-10-02 01:20:10", "m1")
SECOND = attempt("2017-10-02 01:21:00", "2017-10-02 03:21:00", "m2", "m3", "m2")


@pytest.mark.parametrize(("status", "state"), [("Pass", "COMPLETED"), ("Killed", "CANCELLED"), ("Failed", "FAILED")])
def test_the_status_is_that_of_the_last_attempt(status, state):
    rows = sessions(job(FIRST, SECOND, status=status))
    assert [(r.attempt, r.state, r.hosts, r.n_gpus) for r in rows] == [
        (1, "UNKNOWN", ["m1"], 2),
        (2, state, ["m2", "m3"], 6),
    ]
    assert {r.raw_job_id for r in rows} == {"application_1_1"}
    assert [r.submit_time is not None for r in rows] == [True, False]


def test_an_unknown_status_is_kept_as_its_word():
    assert [(r.state, r.end_reason) for r in sessions(job(FIRST, status="Lost"))] == [("UNKNOWN", "Lost")]


def test_times_have_no_zone_of_their_own():
    (row,) = sessions(job(FIRST), zone=None)
    assert (row.start_time, row.duration_s) == (None, 1200.0)
    (row,) = sessions(job(FIRST), zone="America/Los_Angeles")
    assert row.start_time == 1506931210_000000  # seven hours behind


def test_missing_times_and_machines():
    rows = sessions(job(attempt(None, None), attempt("2017-10-02 01:21:00", "None"), attempt("None", None, "m1")))
    assert [(r.hosts, r.start_time is None, r.end_time) for r in rows] == [
        ([], True, None),
        (None, False, None),
        (["m1"], True, None),
    ]


def test_a_job_without_attempts_never_got_hosts():
    (row,) = sessions(job(status="Killed"))
    assert (row.hosts, row.n_hosts, row.state, row.attempt) == ([], 0, "CANCELLED", None)


def test_what_cannot_be_read_is_said():
    text = json.dumps(
        [
            job(FIRST, jobid=None),
            job(FIRST, attempts="two"),
            job("x", attempt("soon", None, "m1"), {"detail": [{"gpus": []}]}),
        ]
    )
    assert refusals(text) == [
        "philly: a job without its id",
        "philly: attempts are no list, or too many",
        "philly: attempt 1 is no object",
        "philly: start_time is not read: not a time",
        "philly: a machine without a name",
    ]


def test_it_is_recognised_in_both_shapes():
    one = json.dumps(job(FIRST))
    assert detect(Head("x.json", f"[{one},\n{one}]".encode())).format == "philly"
    assert detect(Head("x.json", f"{one}\n{one}\n".encode())).format == "philly"
