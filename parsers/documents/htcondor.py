"""HTCondor's log of job events, one file for each job or for all of an access point (``EVENT_LOG``).

    000 (812.000.000) 2025-02-03 07:59:50 Job submitted from host: <10.0.0.1:9618?addrs=10.0.0.1-9618&alias=login1>
    ...
    001 (812.000.000) 2025-02-03 08:00:05 Job executing on host: <10.0.0.7:9618?addrs=10.0.0.7-9618&alias=dgx07>
        SlotName: slot1_1@dgx07.example.org
        GPUs = 8
    ...
    005 (812.000.000) 2025-02-03 09:10:11 Job terminated.
        (1) Normal termination (return value 1)
    ...

Codes at https://htcondor.readthedocs.io/en/latest/codes-other-values/job-event-log-codes.html; the wording is in
src/condor_utils/condor_event.cpp of https://github.com/htcondor/htcondor. Each run of a job is a session: it ends with
the job, or where the job is evicted, held, or loses its host. Times are local without a zone, or in UTC with a Z; those
of old versions have no year. Logs as XML or JSON, and the history, are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from aftershock.parsers.clock import NO_CLOCK, SECOND, Reading
from aftershock.parsers.documents.htcondor_events import HEADER, JobEvent, event_of, exit_of, hosts_of
from aftershock.parsers.documents.text_lines import chunks_of, lines_of
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.sessions import Session

# How the events that are read begin.
_BEGINS: Final = re.compile(
    rb"Job (?:submitted from|executing on) host: |Job (?:was (?:evicted|aborted|held|released|suspended)|terminated)"
    rb"|Node [0-9]+ executing on host: |Shadow exception!|Job (?:disconnected|reconnect)|Cluster submitted from host: "
)
_END: Final = b"..."
_GPUS: Final = re.compile(r"\s*GPUs = (?P<number>[0-9]{1,4})\s*\Z")
# The table at the end: usage, request, what was allocated, and which.
_ALLOCATED: Final = re.compile(r"\s*GPUs +: +(?:[0-9.]{1,9} +)?[0-9]{1,4} +(?P<number>[0-9]{1,4})(?: |\Z)")
_NAME: Final = re.compile(r'\s*(?:\[ |.*; )?(?:DAG Node: |(?:JobBatchName|DAGNodeName) = ")(?P<name>[^"\s]{1,256})')
_CODE: Final = re.compile(r"\s*Code (?P<code>[0-9]{1,9}) Subcode (?P<sub>-?[0-9]{1,9})\s*\Z")
_USER: Final = re.compile(r"\(by user (?P<user>[^)\s]{1,128})\)")
_LOST: Final = re.compile(r"\s*Can not reconnect to (?:\S{1,128}@)?(?P<host>[\w.-]{1,253}), ")
_TRYING: Final = re.compile(r"\s*Trying to reconnect to (?:\S{1,128}@)?(?P<host>[\w.-]{1,253})")
_REQUEUED: Final = re.compile(r"\s*\(0\) Job terminated and was requeued")
# Codes of holds that say how the run ended; for the others it failed.
_HOLDS: Final = {1: "CANCELLED", 46: "TIMEOUT", 47: "TIMEOUT"}
_RESOURCES, _MEMORY = 34, 102
# An eviction and the hold that is its cause are written one after the other.
_SOON: Final = 60 * SECOND
_MOST_LINES: Final = 400
# Open jobs that are kept in mind; logs of access points have thousands.
_MOST_JOBS: Final = 200_000


@dataclass(slots=True)
class _Job:
    """What is known of a job that has not ended: when it was submitted, its present run, its last eviction."""

    submit: Reading = NO_CLOCK
    offset: int = 0
    name: str | None = None
    run: Found | None = None
    nodes: list[str] = field(default_factory=list)
    evicted: Found | None = None


def detects(head: Head) -> float:
    """Sure of a first line that is the header of an event."""
    lines = head.lines(40)
    first = HEADER.match(lines[0].removeprefix(b"\xef\xbb\xbf").rstrip()) if lines else None
    if first is not None:
        return 0.9
    known = [line for line in lines if (header := HEADER.match(line.rstrip())) and _BEGINS.match(header["text"])]
    return 0.7 if known and any(line.rstrip() == _END for line in lines) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The events of a log, and a session for each run."""
    jobs: dict[str, _Job] = {}
    event: JobEvent | None = None
    told = False  # whether it was said that lines stand in no event
    for offset, raw in lines_of(chunks_of(stream)):
        header = HEADER.match(raw.rstrip())
        if header is not None or raw.rstrip() == _END:
            if event is not None:
                yield from _told(event, jobs)
            event = event_of(header, offset) if header is not None else None
            told = header is not None and event is None
            if told:
                yield Refused(offset, len(raw), "htcondor: a date that does not exist", raw[:512])
        elif event is None and raw.strip() and not told:
            told = True
            yield Refused(offset, len(raw), "htcondor: lines without the header of their event", raw[:512])
        elif event is not None and len(event.lines) < _MOST_LINES:
            event.lines.append(raw.decode("utf-8", "backslashreplace").rstrip())
    if event is not None:
        yield from _told(event, jobs)
    for name, job in jobs.items():
        yield from _left(name, job)


def _told(event: JobEvent, jobs: dict[str, _Job]) -> Iterator[Found | Refused]:
    """The rows of an event, and the session of the run that it ends."""
    code = event.code
    if code not in _KINDS and code != 14:
        return
    if event.job not in jobs and len(jobs) >= _MOST_JOBS:
        first = next(iter(jobs))
        yield from _left(first, jobs.pop(first))
    job = jobs.setdefault(event.job, _Job())
    if job.evicted is not None:
        evicted, job.evicted = job.evicted, None
        if code == 12 and abs((event.clock.wall or 0) - (evicted.reading.wall or 0)) <= _SOON:
            _ended_by_hold(evicted, event)
        yield evicted
    if code == 14:
        job.nodes += hosts_of(event)
        return
    if code == 0:
        named = event.find(_NAME)
        job.submit, job.offset, job.name = event.clock, event.offset, named["name"] if named else None
    elif code == 1:
        if job.run is not None:
            yield job.run  # nothing says how it ended
        job.run = _begun(event, job)
        job.nodes = []
    ended = _ENDS.get(code)
    run, state = job.run, None
    if ended is not None and (run is not None or code in (5, 9)):
        run = run or _unplaced(event.job, job, event)
        state = _end(run, event, ended)
        job.run = None
        job.submit = NO_CLOCK  # of the first run only
        if code == 4:
            job.evicted = run
        else:
            yield run
    yield _row(event, state, job)
    if code in (5, 9):
        del jobs[event.job]


def _row(event: JobEvent, state: str | None, job: _Job) -> Found:
    row = SchedulerEvent(scheduler="htcondor", kind=_KINDS[event.code], job_id=event.job, raw_job_id=event.job)
    row.state, row.message = state, event.message
    code = event.code
    if code == 1 and job.run is not None and isinstance(job.run.row, Session):
        row.hosts = job.run.row.hosts
    elif code not in (0, 5):
        row.reason = event.reason
    if code in (22, 23, 24):
        host = event.find(_LOST if code == 24 else _TRYING)
        named = host or re.search(r"reconnected to (?:\S{1,128}@)?(?P<host>[\w.-]{1,253})", event.lines[0])
        row.hosts = [named["host"]] if named else None
        row.state = {22: "DISCONNECTED", 23: "RECONNECTED"}.get(code, state)
    user = _USER.search(row.reason or "")
    row.user = user["user"] if user else None
    if code in (4, 5):
        row.exit_code, row.exit_signal = exit_of(event)
    return Found(row, event.clock, event.offset)


# What the events are, by their codes; those that end a run, and how.
_KINDS: Final = {
    0: "submitted",
    1: "started",
    2: "launch_failed",
    4: "evicted",
    5: "ended",
    7: "job_state",
    9: "cancelled",
    10: "suspended",
    11: "resumed",
    12: "held",
    13: "released",
    21: "launch_failed",
    22: "job_state",
    23: "job_state",
    24: "requeued",
}
_ENDS: Final = {
    2: "FAILED",
    4: "PREEMPTED",
    5: "COMPLETED",
    7: "REQUEUED",
    9: "CANCELLED",
    12: "FAILED",
    24: "NODE_FAIL",
}


def _begun(event: JobEvent, job: _Job) -> Found:
    gpus = event.find(_GPUS)
    hosts = list(dict.fromkeys(job.nodes)) or hosts_of(event)
    row = Session(
        scheduler="htcondor",
        job_id=event.job,
        raw_job_id=event.job,
        name=job.name,
        hosts=hosts or None,
        n_hosts=len(hosts) or None,
        n_gpus=int(gpus["number"]) if gpus and len(hosts) < 2 else None,
        submit_time=_wall(job.submit, event.clock),
        start_time=event.clock.wall,
        state="RUNNING",
    )
    return Found(row, event.clock, event.offset)


def _unplaced(name: str, job: _Job, event: JobEvent | None) -> Found:
    clock = event.clock if event else job.submit
    row = Session(scheduler="htcondor", job_id=name, raw_job_id=name, name=job.name, hosts=[], n_hosts=0)
    row.submit_time, row.state = _wall(job.submit, clock), "PENDING"
    if event is not None and event.code == 5:
        row.hosts, row.n_hosts = None, None  # it ran, before the log began
    return Found(row, clock, event.offset if event else job.offset)


def _wall(clock: Reading, other: Reading) -> int | None:
    """The time of a clock, if it is of the kind that the row's other times are."""
    return clock.wall if clock.kind == other.kind else None


def _end(run: Found, event: JobEvent, state: str) -> str:
    """End a run."""
    row = run.row
    assert isinstance(row, Session)
    row.end_time = _wall(event.clock, run.reading)
    if row.start_time is not None and row.end_time is not None and row.end_time >= row.start_time:
        row.duration_s = (row.end_time - row.start_time) / SECOND
    if event.code in (4, 5):
        row.exit_code, row.exit_signal = exit_of(event)
        if row.n_gpus is None and len(row.hosts or ()) < 2 and (allocated := event.find(_ALLOCATED)):
            row.n_gpus = int(allocated["number"])
    if event.code == 5 and (row.exit_code or row.exit_signal):
        state = "FAILED"
    elif event.code == 4 and event.find(_REQUEUED):
        state = "REQUEUED"
    row.state = state
    if event.code != 5:
        row.end_reason = event.reason
    if event.code == 12:
        _ended_by_hold(run, event)
    elif event.code == 9:
        user = _USER.search(event.reason or "")
        row.cancelled_by = user["user"] if user else None
    run.reading = event.clock if row.end_time is not None else run.reading
    return row.state or state


def _ended_by_hold(run: Found, event: JobEvent) -> None:
    row = run.row
    assert isinstance(row, Session)
    code = event.find(_CODE)
    number, sub = (int(code["code"]), int(code["sub"])) if code else (0, 0)
    reason = event.reason
    row.state = _HOLDS.get(number, "FAILED")
    if number == _RESOURCES and (sub == _MEMORY or "memory" in (reason or "").lower()):
        row.state = "OUT_OF_MEMORY"
    row.end_reason = reason
    user = _USER.search(reason or "")
    if number == 1 and user:
        row.cancelled_by = user["user"]


def _left(name: str, job: _Job) -> Iterator[Found]:
    """The session of a job that the log does not see the end of."""
    last = job.evicted or job.run
    if last is not None:
        yield last
    elif job.submit.wall is not None:
        yield _unplaced(name, job, None)


def settle(found: list[Found]) -> list[Found]:
    """The rows in the order of the log: a session stands where its run began."""
    return sorted(found, key=lambda item: item.offset)


def _log(*events: str) -> str:
    return "".join(f"{event}\n...\n" for event in events)


_AT: Final = "<10.0.0.7:9618?addrs=10.0.0.7-9618&alias=dgx07&noUDP&sock=slot1_1_4242_a0c1>"

FORMAT: Final = DocumentFormat(
    name="htcondor",
    doc="HTCondor's log of job events, of one job or of an access point: events, and a session for each run.",
    url="https://htcondor.readthedocs.io/en/latest/codes-other-values/job-event-log-codes.html",
    tables=("scheduler_events", "sessions"),
    detects=detects,
    read=read,
    settle=settle,
    samples=(
        Sample(
            _log(
                "000 (812.000.000) 2025-02-03 07:59:50 Job submitted from host: <10.0.0.1:9618?alias=login1>\n"
                '    [ JobBatchName = "bert" ]',
                f"001 (812.000.000) 2025-02-03 08:00:05 Job executing on host: {_AT}\n"
                "\tSlotName: slot1_1@dgx07\n\tGPUs = 8\n\tMemory = 524288",
                "006 (812.000.000) 2025-02-03 08:05:05 Image size of job updated: 72",
                "004 (812.000.000) 2025-02-03 08:10:05 Job was evicted. Code 1022 Subcode 0\n"
                "\t(0) CPU times\n\t\tUsr 0 00:00:00, Sys 0 00:00:00  -  Run Remote Usage\n"
                "\t1024  -  Run Bytes Sent By Job\n\tReason: Job vacated by schedd",
                f"001 (812.000.000) 2025-02-03 08:20:05 Job executing on host: {_AT}\n\tSlotName: slot1_2@dgx08",
                "005 (812.000.000) 2025-02-03 09:20:05 Job terminated.\n\t(1) Normal termination (return value 3)\n"
                "\t\tUsr 0 00:00:00, Sys 0 00:00:00  -  Run Remote Usage\n"
                "\tPartitionable Resources :    Usage  Request Allocated \n"
                '\t   GPUs                 :     6.91        8         8 "GPU-4f2e0a17"',
            ),
            (
                expect("scheduler_events", kind="submitted", job_id="812.0"),
                expect("scheduler_events", kind="started", hosts=["dgx07"]),
                expect("sessions", job_id="812.0", name="bert", state="PREEMPTED", hosts=["dgx07"], n_gpus=8),
                expect("scheduler_events", kind="evicted", reason="Job vacated by schedd", state="PREEMPTED"),
                expect("scheduler_events", kind="started", hosts=["dgx08"]),
                expect("sessions", job_id="812.0", hosts=["dgx08"], state="FAILED", exit_code=3, n_gpus=8),
                expect("scheduler_events", kind="ended", exit_code=3, state="FAILED"),
            ),
        ),
        Sample(
            _log(
                "001 (813.000.000) 2025-02-03 08:00:05.120Z Job executing on host: <10.0.0.9:9618>",
                "004 (813.000.000) 2025-02-03 08:10:05.120Z Job was evicted.\n\t(0) CPU times",
                "012 (813.000.000) 2025-02-03 08:10:05.320Z Job was held.\n"
                "\tError from slot1_1@dgx09: Job has gone over cgroup memory limit of 524288 megabytes\n"
                "\tCode 34 Subcode 102",
                "009 (813.000.000) 2025-02-03 08:20:05.000Z Job was aborted.\n\tvia condor_rm (by user mira)",
                f"001 (814.000.000) 2025-02-03 08:00:05.000Z Job executing on host: {_AT}",
                "022 (814.000.000) 2025-02-03 08:30:05.000Z Job disconnected, attempting to reconnect\n"
                "    Socket between submit and execute hosts closed unexpectedly\n"
                "    Trying to reconnect to slot1_1@dgx07 <10.0.0.7:9618>",
                "024 (814.000.000) 2025-02-03 09:10:05.000Z Job reconnection failed\n"
                "    Job disconnected too long: JobLeaseDuration (2400 seconds) expired\n"
                "    Can not reconnect to slot1_1@dgx07, rescheduling job",
            ),
            (
                expect("scheduler_events", kind="started", job_id="813.0"),
                expect("sessions", job_id="813.0", state="OUT_OF_MEMORY", duration_s=600.0, hosts=["10.0.0.9"]),
                expect("scheduler_events", kind="evicted", job_id="813.0"),
                expect("scheduler_events", kind="held", job_id="813.0"),
                expect("sessions", job_id="813.0", state="CANCELLED", hosts=[], cancelled_by="mira"),
                expect("scheduler_events", kind="cancelled", user="mira"),
                expect("scheduler_events", kind="started", job_id="814.0"),
                expect("sessions", job_id="814.0", state="NODE_FAIL", hosts=["dgx07"], duration_s=4200.0),
                expect("scheduler_events", kind="job_state", state="DISCONNECTED", hosts=["dgx07"]),
                expect("scheduler_events", kind="requeued", state="NODE_FAIL", hosts=["dgx07"]),
            ),
        ),
    ),
    non_samples=(
        "001 (812.000.000) is the code of a job that began\n...\n",
        "000 apples\n001 pears\n...\n",
        "2025-02-03 08:00:05 Job executing on host: dgx07\n...\n",
    ),
)
