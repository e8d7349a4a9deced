"""LSF: the accounting log ``lsb.acct`` and the event log ``lsb.events``.

    "JOB_FINISH" "10.1" 1772439009 812 1001 33554434 16 1772434790 0 0 1772434801 "mira" "gpu" "span[ptile=8]" ...
    "JOB_START" "10.1" 1772434801 812 4 4242 4242 60.0 2 "8*c1" "8*c2" "" "" 0 "" 0 "" -1 ""
    "JOB_STATUS" "10.1" 1772439009 812 32 0 0 12.5 1772439009 0 256 0 0
    "JOB_REQUEUE" "10.1" 1772439010 812 0

Documented at https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=files-lsbacct and ``files-lsbevents``. The fields of
a record have no names: their order is the same, as far as they are read here, in the versions 6 to 10.1; newer ones
append. Texts stand in quotes, a quote in them is doubled. Times are seconds since 1970.

How many GPUs a job got stands in its effective resource request, which joins what the user, the queue and the
application profile asked for: `rusage[ngpus_physical=4.00/host]`. Counts for each task, and counts without a word for a
job on several hosts, mean what the settings of the cluster say, so they are not told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from aftershock.parsers.clock import SECOND, Reading
from aftershock.parsers.formats import Found, Head, Line, LineFormat, Refused, Sample, expect
from aftershock.parsers.lsf_words import BadRecord, Fields, ending_of, epoch_of, gpus_of, is_end
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.sessions import Session

_RECORD: Final = re.compile(rb'"(?P<type>JOB_(?:FINISH|START|STATUS|REQUEUE))" "(?P<version>[0-9][0-9.]{0,15})" ')
_SIGNATURES: Final = (
    rb'"JOB_FINISH" "[0-9]',
    rb'"JOB_START" "[0-9]',
    rb'"JOB_STATUS" "[0-9]',
    rb'"JOB_REQUEUE" "[0-9]',
)
# The resource usage of a record: as many numbers as getrusage(2) had in LSF.
_USAGE: Final = 19
_EXCERPT: Final = 512
# Commands and records that are kept as text.
_LONGEST: Final = 4096
# An array names its elements behind its own name.
_ARRAY: Final = re.compile(r"\[[0-9,:-]{1,200}\](?:%[0-9]{1,9})?\Z")


def detects(head: Head) -> float:
    """Sure of a file that has records among its first lines, between others of the event log."""
    lines = head.lines(40)
    ours = sum(_RECORD.match(line) is not None for line in lines)
    return 0.9 if ours and all(line.startswith((b'"', b"#")) for line in lines) else 0.0


def read(line: Line) -> Iterator[Found | Refused]:
    """The row of a record; a refusal beside it where the record is cut short."""
    match = _RECORD.match(line.text)
    if match is None:
        return
    fields = Fields(line.text[match.end() :].decode("utf-8", "backslashreplace"))
    try:
        time, job_id = fields.number("event time"), fields.number("jobId")
        if epoch_of(time) is None or job_id <= 0:
            raise BadRecord("event time or job id is no such number")
        told = _READERS[match["type"]](fields, time, str(job_id))
    except BadRecord as error:
        yield _refused(line, str(error))
        return
    if told is None:
        return
    row, seconds = told
    if isinstance(row, SchedulerEvent):
        row.message = line.text.decode("utf-8", "backslashreplace")[:_LONGEST]
    yield Found(row, Reading("epoch", seconds * SECOND, resolution=SECOND, text=str(seconds)), line.offset)
    if fields.cut:
        yield _refused(line, fields.cut)


def _refused(line: Line, reason: str) -> Refused:
    return Refused(line.offset, len(line.text), f"lsf: {reason}", line.text[:_EXCERPT])


def _finish(fields: Fields, time: int, job_id: str) -> tuple[Session, int]:
    """A job that ended. What stands behind the hosts may be missing."""
    fields.skip(3, "userId, options, numProcessors")
    submit = epoch_of(fields.number("submitTime"))
    fields.skip(2, "beginTime, termTime")
    start = epoch_of(fields.number("startTime"))
    user, queue = fields.text("userName"), fields.text("queue")
    fields.skip(4, "resReq, dependCond, preExecCmd, fromHost")
    cwd = fields.text("cwd")
    fields.skip(4, "inFile, outFile, errFile, jobFile")
    fields.hosts("askedHosts")
    hosts = fields.hosts("execHosts")
    status = fields.maybe_number("jStatus")
    fields.maybe_skip(1, "hostFactor")
    name, command = fields.maybe_text("jobName"), fields.maybe_text("command")
    fields.maybe_skip(_USAGE + 2, "lsfRusage, mailUser, projectName")
    exit_status = fields.maybe_number("exitStatus")
    cut = fields.cut
    fields.maybe_skip(3, "maxNumProcessors, loginShell, timeEvent")
    index = fields.maybe_number("idx")
    if index is None and _ARRAY.search(name or ""):
        raise BadRecord("record is cut short before the index of its task")
    fields.maybe_skip(8, "maxRMem to additionalInfo")
    ending = ending_of(status, exit_status, fields.maybe_number("exitInfo"), user)
    request = _effective_request(fields)
    fields.cut = cut  # what tells of the end is there: records of old versions end here too
    shown = f"{job_id}[{index}]" if index else job_id
    end = epoch_of(time)
    placed = start is not None or bool(hosts)
    row = Session(
        scheduler="lsf",
        job_id=shown,
        raw_job_id=shown,
        name=name or None,
        user=user or None,
        work_dir=cwd or None,
        partition=queue or None,
        command=(command or "")[:_LONGEST] or None,
        hosts=hosts if placed else [],
        n_hosts=len(hosts) if placed else 0,
        n_gpus=gpus_of(request, len(hosts)) if placed and request else None,
        submit_time=submit,
        start_time=start,
        end_time=end,
        duration_s=max(0, end - start) / SECOND if start is not None and end is not None else None,
        state=ending.state,
        exit_code=ending.exit_code if placed else None,
        exit_signal=ending.exit_signal if placed else None,
        end_reason=ending.reason,
        cancelled_by=ending.cancelled_by,
    )
    return row, time


def _effective_request(fields: Fields) -> str | None:
    """The effective resource request, behind two lists of other things; None in records of versions before 9."""
    fields.maybe_skip(14, "warningAction to jobDescription")
    fields.maybe_list(2, "submitEXT")
    fields.maybe_list(6, "hostRusage")
    fields.maybe_skip(3, "options3, runLimit, avgMem")
    return fields.maybe_text("effectiveResReq")


def _started(fields: Fields, time: int, job_id: str) -> tuple[SchedulerEvent, int]:
    fields.skip(4, "jStatus, jobPid, jobPGid, hostFactor")
    hosts = fields.hosts("execHosts")
    fields.skip(4, "queuePreCmd, queuePostCmd, jFlags, userGroup")
    return _of_job("started", job_id, fields.number("idx"), hosts=hosts), time


def _requeued(fields: Fields, time: int, job_id: str) -> tuple[SchedulerEvent, int]:
    return _of_job("requeued", job_id, fields.number("idx")), time


def _ended(fields: Fields, time: int, job_id: str) -> tuple[SchedulerEvent, int] | None:
    """The end of a job; nothing for another change of its state."""
    status = fields.number("jStatus")
    if not is_end(status):
        return None
    fields.skip(3, "reason, subreasons, cpuTime")
    end = fields.number("endTime")
    if fields.number("ru"):
        fields.skip(_USAGE, "lsfRusage")
    exit_status, index = fields.number("exitStatus"), fields.number("idx")
    reason = fields.maybe_number("exitInfo")
    fields.cut = None  # old versions have none
    ending = ending_of(status, exit_status, reason, None)
    row = _of_job("ended", job_id, index)
    row.state, row.reason = ending.state, ending.reason
    row.exit_code, row.exit_signal = ending.exit_code, ending.exit_signal
    return row, end if epoch_of(end) is not None else time


def _of_job(kind: str, job_id: str, index: int, hosts: list[str] | None = None) -> SchedulerEvent:
    raw = f"{job_id}[{index}]" if index > 0 else job_id
    task = str(index) if index > 0 else None
    return SchedulerEvent(scheduler="lsf", kind=kind, job_id=job_id, array_task=task, raw_job_id=raw, hosts=hosts)


_READERS: Final[dict[bytes, Callable[[Fields, int, str], tuple[Session | SchedulerEvent, int] | None]]] = {
    b"JOB_FINISH": _finish,
    b"JOB_START": _started,
    b"JOB_STATUS": _ended,
    b"JOB_REQUEUE": _requeued,
}


def _usage(zeros: int = 17) -> str:
    return "3600.5 10.25" + " 0" * zeros


_SAMPLES: Final = (
    Sample(
        '"JOB_FINISH" "10.1" 1772439009 812 1001 33554434 16 1772434790 0 0 1772434801 "mira" "gpu" "span[ptile=8]" "" '
        '"" "login1" "/home/mira/bert" "" "%J.out" "%J.err" "1772434790.812" 0 2 "8*c1" "8*c2" 32 60.0 "bert" '
        f'"#!/bin/sh;#BSUB -J ""bert"";./train" {_usage()} "" "ml" 130 16 "" "" 0 812344 901232 "" "" "" "" 0 "" 5 "" '
        "-1\n",
        (
            expect(
                "sessions",
                job_id="812",
                user="mira",
                partition="gpu",
                name="bert",
                work_dir="/home/mira/bert",
                command='#!/bin/sh;#BSUB -J "bert";./train',
                hosts=["c1", "c2"],
                submit_time=1772434790000000,
                start_time=1772434801000000,
                end_time=1772439009000000,
                state="TIMEOUT",
                end_reason="TERM_RUNLIMIT",
                exit_code=None,
                exit_signal=2,
            ),
        ),
        title="The accounting log; hosts with their slots (SHORT_EVENTFILE)",
        url="https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=files-lsbacct",
    ),
    Sample(
        '"JOB_FINISH" "7.06" 1772439100 813 1002 2 2 1772434700 0 0 1772434900 "ines" "long" "" "" "" "login1" "/w" "" '
        f'"" "" "1772434700.813" 0 2 "c3" "c3" 64 1.0 "sweep[1-4]" "./x" {_usage()} "" "default" 0 2 "" "" 3 1 1 '
        '"" "" "" "" 0 "" 0\n',
        (expect("sessions", job_id="813[3]", hosts=["c3"], state="COMPLETED", exit_code=0, end_reason=None),),
        title="The accounting log; a host for each slot, an element of an array",
        url="https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=files-lsbacct",
    ),
    Sample(
        '"JOB_FINISH" "10.1" 1772439200 815 1001 33554434 16 1772434790 0 0 1772434801 "mira" "gpu" "" "" "" "login1" '
        f'"/w" "" "" "" "1772434790.815" 0 2 "8*c1" "8*c2" 64 60.0 "bert" "./train" {_usage()} "" "ml" 0 16 "" "" 0 0 '
        '0 "" "" "" "" 0 "" 0 "" -1 "/mira" "" "" "" -1 "" "" 1040 "" -1 "" "" 1 "GPU_REQ" "num=8" 2 "c1" 812 0 3600.5 '
        '10.25 0 "c2" 812 0 3590.0 9.5 0 0 86400 1024 "select[ngpus>0] order[gpu_maxfactor] '
        'rusage[mem=900.00,ngpus_physical=8.00/host] span[ptile=8]" "" 0 "" 0 0 -1 0 0 "" 4399 ""\n',
        (expect("sessions", job_id="815", hosts=["c1", "c2"], n_gpus=16, state="COMPLETED"),),
        title="The accounting log; GPUs in the effective resource request",
        url="https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=files-lsbacct",
    ),
    Sample(
        '"JOB_START" "10.1" 1772434801 814 4 4242 4242 60.0 2 "8*c1" "8*c2" "" "" 0 "" 0 "" -1 ""\n'
        '"JOB_STATUS" "10.1" 1772434802 814 4 0 0 0.0 0 0 0 0 0\n'
        '"JOB_STATUS" "10.1" 1772439009 814 32 0 0 12.5 1772439008 0 256 0 0\n'
        '"JOB_REQUEUE" "10.1" 1772439010 814 0\n',
        (
            expect("scheduler_events", kind="started", job_id="814", hosts=["c1", "c2"], time=1772434801000000),
            expect("scheduler_events", kind="ended", state="FAILED", exit_code=1, time=1772439008000000),
            expect("scheduler_events", kind="requeued", raw_job_id="814"),
        ),
        title="The event log",
        url="https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=files-lsbevents",
    ),
)

FORMAT: Final = LineFormat(
    name="lsf",
    doc="Accounting and event records of LSF, `lsb.acct` and `lsb.events`: a session for each job that ended, an event "
    "for each start, end and requeue.",
    url="https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=files-lsbacct",
    tables=("sessions", "scheduler_events"),
    detects=detects,
    signatures=_SIGNATURES,
    read=read,
    samples=_SAMPLES,
    non_samples=(
        '"JOB_FINISH" "10.1" 1772439009 812 1001\n',
        '"JOB_FINISH" "10.1" 1772439009 812 1 2 3 1772434790 0 0 0 "u" "q" "" "" "" "h" "/" "" "" "" "" 0 9999999 ""\n',
        '"JOB_STATUS" "10.1" 1772434802 814 4 0 0 0.0 0 0 0 0 0\n',
        '"JOB_NEW" "10.1" 1772434790 814 1001 33554434 16 1772434790 0 0 0\n',
        'He wrote "JOB_FINISH" "10.1" and nothing else.\n',
    ),
)
