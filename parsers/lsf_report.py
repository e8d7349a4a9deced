"""The report on a job that LSF sends by mail or puts into the output of the job.

    Sender: LSF System <lsfadmin@c1>
    Subject: Job 812: <bert> in cluster <solar> Exited

    Job <bert> was submitted from host <login1> by user <mira> in cluster <solar> at Mon Feb  3 07:59:50 2025
    Job was executed on host(s) <8*c1>, in queue <gpu>, as user <mira> in cluster <solar> at Mon Feb  3 08:00:05 2025
                                <8*c2>
    Started at Mon Feb  3 08:00:05 2025
    Terminated at Mon Feb  3 09:10:11 2025

    TERM_RUNLIMIT: job killed after reaching LSF run time limit.
    Exited with exit code 140.

Shown at https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=bsub-o. The script of the job stands between the times
and the end. Times are local and have no zone.
"""

from __future__ import annotations

import re
import signal as signals
from collections.abc import Iterator
from typing import Final

from aftershock.parsers.clock import NO_CLOCK, SECOND, Reading, wall_micros
from aftershock.parsers.envelopes.months import month_number
from aftershock.parsers.formats import LOOKAHEAD, Found, Head, Line, LineFormat, Refused, Sample, expect
from aftershock.parsers.kernel.text import lines_below
from aftershock.parsers.slurm_words import LAST_SIGNAL
from aftershock.schemas.sessions import Session

_SUBJECT: Final = re.compile(
    rb"Subject: Job (?P<job>\d{1,12})(?:\[(?P<index>\d{1,9})\])?: <(?P<name>[^>]{0,512})>"
    rb" in cluster <(?P<cluster>[^>]{1,128})> (?P<end>Done|Exited)\s*\Z"
)
_DATE: Final = (
    rb"[A-Z][a-z]{2} (?P<month>[A-Z][a-z]{2}) {1,2}(?P<day>\d{1,2}) "
    rb"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?: [A-Z]{2,5})? (?P<year>\d{4})"
)
_SUBMITTED: Final = re.compile(rb"Job <.{0,512}> was submitted from host <[^>]{1,253}> by user <(?P<user>[^>]{1,128})>")
_EXECUTED: Final = re.compile(
    rb"Job was executed on host\(s\) <(?P<host>[^>]{1,253})>(?:, in queue <(?P<queue>[^>]{1,128})>)?"
)
_MORE: Final = re.compile(rb"\s{8,40}<(?P<host>[^>]{1,253})>\s*\Z")
_HOST: Final = re.compile(r"(?:\d{1,5}\*)?(?P<name>[A-Za-z0-9][\w.-]{0,252})\Z")
_WHERE: Final = re.compile(rb"<(?P<path>/[^>]{0,1024})> was used as the working directory")
_AT: Final = re.compile(rb"(?P<what>Started|Terminated) at " + _DATE)
_SUBMIT_DATE: Final = re.compile(rb" at " + _DATE + rb"\.?\s*\Z")
_REASON: Final = re.compile(rb"(?P<reason>TERM_[A-Z]{3,24}): (?P<words>job killed .{1,200}?)\.?\s*\Z")
_EXITED: Final = re.compile(
    rb"Exited with (?:exit code (?P<code>\d{1,5})|signal termination: (?P<signal>\d{1,3}|[A-Za-z ]{3,40}))\.?\s*\Z"
)
# A job on hundreds of hosts names each on a line.
_MOST_LINES: Final = 600
_STATES: Final = {
    "TERM_RUNLIMIT": "TIMEOUT",
    "TERM_CPULIMIT": "TIMEOUT",
    "TERM_WINDOW": "TIMEOUT",
    "TERM_DEADLINE": "DEADLINE",
    "TERM_MEMLIMIT": "OUT_OF_MEMORY",
    "TERM_SWAP": "OUT_OF_MEMORY",
    "TERM_PREEMPT": "PREEMPTED",
    "TERM_OWNER": "CANCELLED",
    "TERM_ADMIN": "CANCELLED",
    "TERM_FORCE_OWNER": "CANCELLED",
    "TERM_FORCE_ADMIN": "CANCELLED",
    "TERM_REQUEUE_OWNER": "REQUEUED",
    "TERM_REQUEUE_ADMIN": "REQUEUED",
}
# Signals by the words that the C library has for them.
_SIGNALS: Final = {signals.strsignal(number): number for number in range(1, 32)}
_END, _WHY = "end", "why"


def read(line: Line) -> Iterator[Found | Refused]:
    """The session of a report; what ended it stands behind the script, and is joined to it."""
    if line.envelope.names != ("plain",):
        return
    message = line.envelope.message
    subject = _SUBJECT.match(message)
    if subject is not None:
        yield from _report(line, subject)
        return
    why = _REASON.match(message)
    if why is not None:
        state = _STATES.get(why["reason"].decode("ascii"))
        text = b"%b: %b" % (why["reason"], why["words"])
        yield Found(Session(state=state, end_reason=_text(text)), NO_CLOCK, line.offset, _WHY)
        return
    exited = _EXITED.match(message)
    if exited is not None:
        row = Session()
        if exited["code"]:
            row.exit_code = int(exited["code"])
            signal = row.exit_code - 128
        else:
            named = _text(exited["signal"])
            signal = int(named) if named.isdigit() else _SIGNALS.get(named, 0)
        row.exit_signal = signal if 0 < signal <= LAST_SIGNAL else None
        yield Found(row, NO_CLOCK, line.offset, _END)


def _report(line: Line, subject: re.Match[bytes]) -> Iterator[Found | Refused]:
    shown = subject["job"].decode("ascii") + (f"[{subject['index'].decode('ascii')}]" if subject["index"] else "")
    row = Session(scheduler="lsf", job_id=shown, raw_job_id=shown, name=_text(subject["name"]) or None)
    row.cluster = _text(subject["cluster"])
    row.state = "COMPLETED" if subject["end"] == b"Done" else "FAILED"
    row.exit_code = 0 if subject["end"] == b"Done" else None
    hosts: list[str] = []
    reading = NO_CLOCK
    wrong: bytes | None = None
    whole = len(line.following) < LOOKAHEAD
    for below in lines_below(line, _MOST_LINES):
        if below.startswith((b"Your job looked like", b"Subject: ", b"Results reported ")):
            whole = True
            break
        if (submitted := _SUBMITTED.match(below)) is not None:
            row.user = _text(submitted["user"])
            if (date := _SUBMIT_DATE.search(below)) is not None:
                reading = _clock(date)
                row.submit_time = reading.wall
                wrong = below if reading.wall is None else wrong
        elif (executed := _EXECUTED.match(below)) is not None:
            row.partition = _text(executed["queue"]) if executed["queue"] else None
            hosts.append(_text(executed["host"]))
        elif hosts and (more := _MORE.match(below)) is not None:
            hosts.append(_text(more["host"]))
        elif (where := _WHERE.match(below)) is not None:
            row.work_dir = _text(where["path"])
        elif (at := _AT.match(below)) is not None:
            reading = _clock(at)
            wrong = below if reading.wall is None else wrong
            if at["what"] == b"Started":
                row.start_time = reading.wall
            else:
                row.end_time = reading.wall
    named = [found["name"] for host in hosts if (found := _HOST.match(host))]
    row.hosts = list(dict.fromkeys(named)) if hosts else [] if row.start_time is None else None
    if not whole:
        row.hosts = None  # there are more of them than those that were seen
        reason = "lsf_report: the report is too long: its hosts, and the times below them, are not read"
        yield Refused(line.offset, len(line.text), reason, line.text[:512])
    if wrong is not None:
        yield Refused(line.offset, len(line.text), "lsf_report: a date that does not exist", wrong[:512])
    row.n_hosts = len(row.hosts) if row.hosts is not None else None
    if row.start_time is not None and row.end_time is not None and row.end_time >= row.start_time:
        row.duration_s = (row.end_time - row.start_time) / SECOND
    yield Found(row, reading, line.offset)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def _clock(date: re.Match[bytes]) -> Reading:
    month = month_number(date["month"])
    year, day, hour, minute, second = (int(date[name]) for name in ("year", "day", "hour", "minute", "second"))
    wall = wall_micros(year, month, day, hour, minute, second) if month else None
    if wall is None:
        return NO_CLOCK
    return Reading("local", wall, resolution=SECOND, text=_text(date[0]).removeprefix(" at "))


def settle(found: list[Found]) -> list[Found]:
    """How a job ended stands in the first such lines below its report."""
    kept: list[Found] = []
    open_marks: set[str] = set()
    for item in found:
        row = item.row
        assert isinstance(row, Session)
        if not item.mark:
            kept.append(item)
            open_marks = {_END, _WHY} if row.state == "FAILED" else set()
        elif item.mark in open_marks:
            open_marks.discard(item.mark)
            report = kept[-1].row
            assert isinstance(report, Session)
            if item.mark == _WHY:
                report.state, report.end_reason = row.state or report.state, row.end_reason
            else:
                report.exit_code, report.exit_signal = row.exit_code, row.exit_signal
                open_marks = set()
    return kept


def detects(head: Head) -> float:
    """A report is a part of another file."""
    del head
    return 0.0


_REPORT: Final = (
    "Sender: LSF System <lsfadmin@c1>\n"
    "Subject: Job 812: <bert> in cluster <solar> Exited\n\n"
    "Job <bert> was submitted from host <login1> by user <mira> in cluster <solar> at Mon Feb  3 07:59:50 2025\n"
    "Job was executed on host(s) <8*c1>, in queue <gpu>, as user <mira> in cluster <solar> at Mon Feb  3 08:00:05 "
    "2025\n"
    "                            <8*c2>\n"
    "</home/mira> was used as the home directory.\n"
    "</home/mira/bert> was used as the working directory.\n"
    "Started at Mon Feb  3 08:00:05 2025\n"
    "Terminated at Mon Feb  3 09:10:11 2025\n"
    "Results reported at Mon Feb  3 09:10:11 2025\n\n"
    "Your job looked like:\n\n"
    "------------------------------------------------------------\n"
    "# LSBATCH: User input\n"
    "python train.py\n"
    "------------------------------------------------------------\n\n"
    "TERM_RUNLIMIT: job killed after reaching LSF run time limit.\n"
    "Exited with exit code 140.\n\n"
    "Resource usage summary:\n\n"
    "    CPU time :   1234.00 sec.\n"
)

FORMAT = LineFormat(
    name="lsf_report",
    doc="The report on a job that LSF sends by mail or puts into the output of the job.",
    url="https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=bsub-o",
    tables=("sessions",),
    detects=detects,
    signatures=(
        rb"Subject: Job \d",
        rb": job killed ",
        rb"Exited with (?:exit code \d|signal termination)",
    ),
    read=read,
    settle=settle,
    samples=(
        Sample(
            "step 400: loss 2.1\n" + _REPORT,
            (
                expect(
                    "sessions",
                    job_id="812",
                    name="bert",
                    user="mira",
                    cluster="solar",
                    partition="gpu",
                    hosts=["c1", "c2"],
                    n_hosts=2,
                    duration_s=4206.0,
                    state="TIMEOUT",
                    exit_code=140,
                    exit_signal=12,
                    end_reason="TERM_RUNLIMIT: job killed after reaching LSF run time limit",
                    work_dir="/home/mira/bert",
                ),
            ),
        ),
        Sample(
            _REPORT.replace("Exited\n", "Done\n")
            .replace("TERM_RUNLIMIT: job killed after reaching LSF run time limit.\n", "")
            .replace("Exited with exit code 140.", "Successfully completed.")
            + "\nExited with exit code 1.\n",
            (expect("sessions", job_id="812", state="COMPLETED", exit_code=0, exit_signal=None, end_reason=None),),
        ),
    ),
    non_samples=(
        "Exited with exit code 1.\n",
        "TERM_OWNER: job killed by owner.\nExited with signal termination: 9.\n",
        "Re: Subject: Job 812: <bert> in cluster <solar> Exited\n",
        "Subject: Job 812: a new one in the cluster <solar> Done\n",
    ),
)
