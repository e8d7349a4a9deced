"""The job log of Microsoft's Philly clusters, ``cluster_job_log``: jobs with their attempts, as JSON.

    {"status": "Killed", "vc": "6214e9", "jobid": "application_1506638472019_10258", "attempts": [{"start_time":
     "2017-10-07 01:12:09", "end_time": "2017-10-07 01:13:23", "detail": [{"ip": "m47", "gpus": ["gpu0", "gpu1"]}]}],
     "submitted_time": "2017-10-07 01:11:39", "user": "ce2f4c"}

Published at https://github.com/msr-fiddle/philly-traces, as one array; one object a line is read as well. Each attempt
is a session. Only the job has a status: it is that of its last attempt. That another attempt followed says that one did
not bring the job to its end, but not how it ended: its state is UNKNOWN. Times have no zone; they are those of the US
Pacific coast (``timezone = "America/Los_Angeles"`` in the configuration).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from aftershock.parsers.clock import NO_CLOCK, SECOND, Reading
from aftershock.parsers.documents.cell_values import CellClock, text_cell, time_cell
from aftershock.parsers.documents.json_elements import Element
from aftershock.parsers.documents.json_records import json_start, load_record, records_of
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.parsers.hostlist import CAP
from aftershock.schemas.sessions import Session

_STATES: Final = {"pass": "COMPLETED", "killed": "CANCELLED", "failed": "FAILED"}
_MARKS: Final = (b'"jobid"', b'"attempts"', b'"submitted_time"')
# More attempts than any job has; the log's own jobs have a handful.
_MOST_ATTEMPTS: Final = 10_000
_EXCERPT: Final = 512


def detects(head: Head) -> float:
    """Sure of jobs that have attempts, under the names of this log."""
    start = json_start(head.data)
    return 0.95 if all(mark in start for mark in _MARKS) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The sessions of all jobs."""
    for element in records_of(stream):
        if isinstance(element, Refused):
            yield element._replace(reason=f"philly: {element.reason}")
            continue
        job = load_record(element)
        if job is None:
            yield _refused(element, "not JSON")
        elif (job_id := text_cell(job.get("jobid"))) is None:
            yield _refused(element, "a job without its id")
        else:
            yield from _sessions(job, job_id, element)


def _refused(element: Element, reason: str) -> Refused:
    return Refused(element.offset, len(element.data), f"philly: {reason}", element.data[:_EXCERPT])


def _sessions(job: dict[str, Any], job_id: str, element: Element) -> Iterator[Found | Refused]:
    problems: list[str] = []
    attempts = job.get("attempts")
    if not isinstance(attempts, list) or len(attempts) > _MOST_ATTEMPTS:
        yield _refused(element, "attempts are no list, or too many")
        return
    status = _STATES.get((text_cell(job.get("status")) or "").lower(), "UNKNOWN")
    submit = _clock(job, "submitted_time", problems)
    for number, attempt in enumerate(attempts, 1):
        if not isinstance(attempt, dict):
            problems.append(f"attempt {number} is no object")
            continue
        row = Session(attempt=number, state=status if number == len(attempts) else "UNKNOWN")
        row.hosts, row.n_gpus = _placement(attempt.get("detail"), problems)
        # Only the first submission is told, not when a job was put back.
        times = submit if number == 1 else None, _clock(attempt, "start_time", problems)
        yield _found(row, (*times, _clock(attempt, "end_time", problems)), job, job_id, element.offset)
    if not attempts:
        yield _found(Session(state=status, hosts=[]), (submit, None, None), job, job_id, element.offset)
    for problem in dict.fromkeys(problems):
        yield _refused(element, problem)


def _clock(holder: dict[str, Any], key: str, problems: list[str]) -> CellClock | None:
    try:
        return time_cell(holder.get(key))
    except ValueError as error:
        problems.append(f"{key} is not read: {error}")
        return None


def _placement(detail: Any, problems: list[str]) -> tuple[list[str] | None, int | None]:
    """Hosts and number of GPUs of an attempt; no hosts where the log does not tell them."""
    hosts: dict[str, None] = {}
    gpus = 0
    for machine in detail if isinstance(detail, list) else []:
        name = text_cell(machine.get("ip")) if isinstance(machine, dict) else None
        if name is None:
            problems.append("a machine without a name")
            return None, None
        hosts[name] = None
        held = machine.get("gpus")
        gpus += len(held) if isinstance(held, list) else 0
    if len(hosts) > CAP:
        problems.append(f"more than {CAP} machines")
        return None, None
    return (list(hosts), gpus) if hosts else (None, None)


def _found(
    row: Session,
    times: tuple[CellClock | None, CellClock | None, CellClock | None],
    job: dict[str, Any],
    job_id: str,
    offset: int,
) -> Found:
    row.scheduler, row.job_id, row.raw_job_id = "yarn", job_id, job_id
    row.user, row.partition = text_cell(job.get("user")), text_cell(job.get("vc"))
    clock = next((time for time in reversed(times) if time is not None), None)
    kept = [time.wall if time is not None and clock is not None and time.kind == clock.kind else None for time in times]
    row.submit_time, row.start_time, row.end_time = kept
    if row.start_time is not None and row.end_time is not None:
        row.duration_s = max(0, row.end_time - row.start_time) / SECOND
    if row.start_time is None and row.end_time is None and not row.hosts:
        row.hosts = []  # it never got any
    row.n_hosts = None if row.hosts is None else len(row.hosts)
    if row.state == "UNKNOWN" and row.attempt is not None and row.attempt == len(job["attempts"]):
        row.end_reason = text_cell(job.get("status"))
    if clock is None:
        return Found(row, NO_CLOCK, offset)
    return Found(row, Reading(clock.kind, clock.wall, resolution=clock.resolution, text=clock.text), offset)


_GPUS: Final = '["gpu0","gpu1","gpu2","gpu3"]'
_JOB: Final = (
    '{"status":"Failed","vc":"0aaaaa","jobid":"application_1500000000000_0007","attempts":['
    '{"start_time":"2017-10-02 01:00:10","end_time":"2017-10-02 01:20:10","detail":[{"ip":"m7","gpus":' + _GPUS + "}]},"
    '{"start_time":"2017-10-02 01:21:00","end_time":"2017-10-02 03:21:00","detail":[{"ip":"m8","gpus":' + _GPUS + "},"
    '{"ip":"m9","gpus":' + _GPUS + '}]}],"submitted_time":"2017-10-02 01:00:00","user":"0bbbbb"}'
)
_QUEUED: Final = (
    '{"status":"Killed","vc":"0aaaaa","jobid":"application_1500000000000_0008","attempts":[],'
    '"submitted_time":"2017-10-02 02:00:00","user":"0bbbbb"}'
)
_ROWS: Final = (
    expect(
        "sessions",
        job_id="application_1500000000000_0007",
        attempt=1,
        hosts=["m7"],
        n_gpus=4,
        submit_time=1506906000000000,
        duration_s=1200.0,
        state="UNKNOWN",
    ),
    expect("sessions", attempt=2, hosts=["m8", "m9"], n_gpus=8, submit_time=None, duration_s=7200.0, state="FAILED"),
    expect("sessions", job_id="application_1500000000000_0008", hosts=[], start_time=None, state="CANCELLED"),
)

FORMAT: Final = DocumentFormat(
    name="philly",
    doc="The published job log of Microsoft's Philly clusters: a session for each attempt of a job. Its times are "
    "those of the US Pacific coast, without a zone.",
    url="https://github.com/msr-fiddle/philly-traces",
    tables=("sessions",),
    detects=detects,
    read=read,
    samples=(
        Sample(f"[{_JOB},\n{_QUEUED}]\n", _ROWS, title="One array, as it was published"),
        Sample(f"{_JOB}\n{_QUEUED}\n", _ROWS, title="An object a line"),
    ),
    non_samples=(
        '{"jobid":"application_1500000000000_0007","status":"Pass"}\n',
        '{"id":1,"attempts":[],"submitted_time":"2017-10-02 02:00:00"}\n',
        "jobid,attempts,submitted_time\n1,2,2017-10-02 02:00:00\n",
    ),
)
