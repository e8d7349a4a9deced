"""PBS accounting: the daily files of PBS Professional, OpenPBS and Torque (``server_priv/accounting/20260302``).

    03/02/2026 07:00:01;S;812.pbs1;user=mira group=ml jobname=bert queue=gpu ... start=1772434801 exec_host=c1/0*8+c2/0
    03/02/2026 08:10:05;D;812.pbs1;requestor=mira@login1
    03/02/2026 08:10:09;E;812.pbs1;user=mira ... start=1772434801 ... end=1772439009 Exit_status=271 run_count=1

The letters and the wording are in src/include/acct.h and src/server/accounting.c of https://github.com/openpbs/openpbs
and, for Torque, of https://github.com/adaptivecomputing/torque. The clock in front is local
and has no zone; the seconds since 1970 in the text are the truth, and where a record has both they tell the zone of the
others. An end or a rerun is a session, with the times of its placement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aftershock.parsers.clock import MINUTE, SECOND, Reading, wall_micros
from aftershock.parsers.formats import Found, Head, Line, LineFormat, Refused, Sample, expect
from aftershock.parsers.hostlist import HostListError
from aftershock.parsers.pbs_words import ending_of, epoch_of, fields_of, gpus_of, hosts_of, vnodes_of
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.sessions import Session

_RECORD: Final = re.compile(
    rb"""
    (?P<stamp>
        (?P<month>\d\d) / (?P<day>\d\d) / (?P<year>\d{4}) [ ]
        (?P<hour>\d\d) : (?P<minute>\d\d) : (?P<second>\d\d)
    ) ;
    (?P<type>[A-Za-z]) ;
    (?P<id>[^;]{1,256}) ;
    (?P<text>.*) \Z""",
    re.VERBOSE | re.DOTALL,
)
_JOB: Final = re.compile(r"(?P<number>[0-9]{1,20})(?:\[(?P<task>[0-9]{0,10})\])?(?P<server>\.[\w.-]{1,200})?\Z")
# The types of records, between semicolons. Classes of bytes make the compiler of the scan slow, short literals do not.
_SIGNATURES: Final = tuple(b";%c;" % letter for letter in b"ABCDEFKLMPQRSTUYackmpsu")

# The text of a record with thousands of slots is no message.
_LONGEST_MESSAGE: Final = 4096
# A deleted job gets time to end by itself (kill_delay, some seconds) before its end is written.
_DELETED: Final = "deleted"
_KILLS: Final = frozenset({9, 15})
_QUARTER: Final = 15 * MINUTE
_SLACK: Final = 2 * MINUTE


def detects(head: Head) -> float:
    """Sure of a file whose first lines are records."""
    lines = head.lines(20)
    ours = sum(_RECORD.match(line) is not None for line in lines)
    return 0.9 if lines and 2 * ours > len(lines) else 0.0


def read(line: Line) -> Iterator[Found | Refused]:
    """The rows of one record: a session where it ends one, else the event that it is."""
    match = _RECORD.match(line.text)
    if match is None:
        return
    kind = match["type"].decode("ascii")
    wall = wall_micros(*(int(match[name]) for name in ("year", "month", "day", "hour", "minute", "second")))
    if wall is None:
        yield _refused(line, "a date that does not exist")
        return
    record = _Record(line, kind, wall, match)
    if kind in _RESERVATIONS:
        yield record.reservation()
    elif kind in _EVENTS or kind in "ER":
        job = _JOB.match(record.id)
        if job is None:
            yield _refused(line, "no job id")
        else:
            yield from record.rows(job)


# Records of a job besides its end and its rerun, and what they are. A restart takes up a job that was checkpointed.
_EVENTS: Final = {
    "Q": "submitted",
    "S": "started",
    "T": "started",
    "C": "requeued",
    "D": "cancelled",
    "A": "cancelled",
}
_SAID: Final = {"A": "aborted by the server", "C": "checkpointed and held"}
# Records of reservations, and the state that they put it in.
_RESERVATIONS: Final = {"B": "ACTIVE", "F": "ENDED", "K": "DELETED", "k": "DELETED"}


class _Record:
    """One record: the clock in front of it, its fields."""

    def __init__(self, line: Line, kind: str, wall: int, match: re.Match[bytes]) -> None:
        self._line = line
        self._kind = kind
        self._wall = wall
        self._stamp = match["stamp"].decode("ascii")
        self.id = match["id"].decode("utf-8", "backslashreplace")
        self._text = match["text"].decode("utf-8", "backslashreplace").strip()
        self._fields = fields_of(self._text)

    def rows(self, job: re.Match[str]) -> Iterator[Found | Refused]:
        """The rows of a record of a job."""
        hosts: list[str] | None = None
        if "exec_host" in self._fields:
            try:
                hosts = hosts_of(self._fields["exec_host"])
            except HostListError as error:
                yield _refused(self._line, str(error))
        is_array = job["task"] == ""  # the array as a whole: its tasks have records of their own
        start, end = epoch_of(self._fields.get("start")), epoch_of(self._fields.get("end"))
        if self._kind in _EVENTS:
            if self._kind == "S" and is_array:
                return
            yield self._event(_EVENTS[self._kind], job, hosts)
            return
        if is_array:
            return
        if self._kind == "R":
            event = self._event("requeued", job, hosts)
            if end is not None:
                event.reading, event.mark = self._absolute(end), str(self._wall)
            yield event
            if start is None:
                return
        yield self._session(job, hosts, start, end)
        if self._kind == "E" and end is None and start is not None:
            # The clock in front stands for the end, but it is of another kind than the start.
            yield self._event("ended", job, hosts)
            yield _refused(self._line, "record without its end")

    def _session(self, job: re.Match[str], hosts: list[str] | None, start: int | None, end: int | None) -> Found:
        fields = self._fields
        submit = epoch_of(fields.get("ctime")) or epoch_of(fields.get("qtime"))
        absolute = start is not None or end is not None or submit is not None
        ending = ending_of(fields)
        placed = start is not None or hosts is not None or not absolute
        row = Session(
            scheduler="pbs",
            job_id=self.id,
            raw_job_id=self.id,
            name=fields.get("jobname") or None,
            user=fields.get("user") or None,
            partition=fields.get("queue") or None,
            hosts=hosts if placed else [],
            n_hosts=len(hosts) if hosts is not None else (None if placed else 0),
            n_gpus=gpus_of(fields) if placed else None,
            submit_time=submit,
            start_time=start,
            end_time=end if absolute else self._wall,
            duration_s=max(0, end - start) / SECOND if start is not None and end is not None else None,
            state="REQUEUED" if self._kind == "R" else ending.state,
            exit_code=ending.exit_code,
            exit_signal=ending.exit_signal,
            end_reason=ending.reason,
        )
        if not absolute:
            return Found(row, self._local(), self._line.offset)
        anchor = str(self._wall) if end is not None else ""
        moment = next(t for t in (end, start, submit) if t is not None)
        return Found(row, self._absolute(moment), self._line.offset, anchor)

    def _event(self, kind: str, job: re.Match[str], hosts: list[str] | None) -> Found:
        fields = self._fields
        user = fields.get("requestor", "").partition("@")[0] or (fields.get("user") if self._kind == "Q" else None)
        ending = ending_of(fields) if self._kind in "ER" else None
        row = SchedulerEvent(
            scheduler="pbs",
            kind=kind,
            job_id=self.id if job["task"] is None else f"{job['number']}[]{job['server'] or ''}",
            array_task=job["task"] or None,
            raw_job_id=self.id,
            hosts=hosts,
            user=user or None,
            reason=self._reason() or (ending.reason if ending else None),
            state=None if ending is None else "REQUEUED" if self._kind == "R" else ending.state,
            exit_code=ending.exit_code if ending else None,
            exit_signal=ending.exit_signal if ending else None,
            message=self._text[:_LONGEST_MESSAGE] or None,
        )
        at = {"Q": "qtime", "S": "start"}.get(self._kind)
        epoch = epoch_of(fields.get(at)) if at else None
        if epoch is not None:
            return Found(row, self._absolute(epoch), self._line.offset, str(self._wall))
        return Found(row, self._local(), self._line.offset, _DELETED if self._kind == "D" else "")

    def _reason(self) -> str | None:
        said = _SAID.get(self._kind)
        return (self._text[:_LONGEST_MESSAGE] if self._kind == "A" else None) or said

    def reservation(self) -> Found:
        """The row of a record of a reservation: its hosts are set aside while it lasts."""
        fields = self._fields
        user = (fields.get("requestor") or fields.get("owner") or "").partition("@")[0]
        row = SchedulerEvent(
            scheduler="pbs",
            kind="reservation",
            hosts=vnodes_of(fields.get("nodes", "")) or None,
            user=user or None,
            reason=self.id,
            state=_RESERVATIONS[self._kind],
            message=self._text[:_LONGEST_MESSAGE] or None,
        )
        return Found(row, self._local(), self._line.offset)

    def _local(self) -> Reading:
        return Reading("local", self._wall, resolution=SECOND, text=self._stamp)

    def _absolute(self, micros: int) -> Reading:
        return Reading("epoch", micros, resolution=SECOND, text=self._stamp)


def _refused(line: Line, reason: str) -> Refused:
    return Refused(line.offset, len(line.text), f"pbs: {reason}", line.text[:512])


def settle(found: list[Found]) -> list[Found]:
    """Give local clocks the zone that other records show, and tell the jobs that somebody deleted."""
    anchors = [(item.offset, shift) for item in found if (shift := _shift(item)) is not None]
    at = 0
    deleted: dict[str | None, str | None] = {}
    for item in found:
        while at + 1 < len(anchors) and anchors[at + 1][0] <= item.offset:
            at += 1
        row, wall = item.row, item.reading.wall
        if item.reading.kind == "local" and wall is not None and anchors:
            item.reading = item.reading._replace(epoch=wall - anchors[at][1])
        if isinstance(row, SchedulerEvent):
            if item.mark == _DELETED:
                deleted[row.raw_job_id] = row.user
            elif row.kind == "started":
                deleted.pop(row.raw_job_id, None)
        elif isinstance(row, Session) and row.raw_job_id in deleted:
            by = deleted.pop(row.raw_job_id)
            if row.exit_signal in _KILLS and row.state == "FAILED":
                row.state, row.cancelled_by = "CANCELLED", by
    return found


def _shift(item: Found) -> int | None:
    """How far the clock in front is ahead of UTC, from a record that was written at a moment that it also states."""
    if not item.mark.isdigit() or item.reading.wall is None:
        return None
    ahead = int(item.mark) - item.reading.wall
    shift = round(ahead / _QUARTER) * _QUARTER
    return shift if abs(ahead - shift) <= _SLACK else None


_S: Final = (
    "03/02/2026 07:00:01;S;812.pbs1;user=mira group=ml project=_pbs_project_default jobname=bert queue=gpu "
    "ctime=1772434790 qtime=1772434790 etime=1772434790 start=1772434801 exec_host=c1/0*8+c2/0*8 "
    "exec_vnode=(c1:ncpus=8:ngpus=4)+(c2:ncpus=8:ngpus=4) Resource_List.ngpus=8 Resource_List.walltime=24:00:00\n"
)
_E: Final = (
    "03/02/2026 08:10:09;E;812.pbs1;user=mira group=ml jobname=bert queue=gpu ctime=1772434790 qtime=1772434790 "
    "etime=1772434790 start=1772434801 exec_host=c1/0*8+c2/0*8 exec_vnode=(c1:ncpus=8:ngpus=4)+(c2:ncpus=8:ngpus=4) "
    "Resource_List.walltime=24:00:00 session=4242 end=1772439009 Exit_status=271 "
    "resources_used.walltime=01:10:08 run_count=1\n"
)

FORMAT: Final = LineFormat(
    name="pbs",
    doc="Accounting records of PBS Professional, OpenPBS and Torque: a session for each end and rerun of a job, an "
    "event for each submission, start, deletion and rerun, and the reservations.",
    url="https://github.com/openpbs/openpbs",
    tables=("sessions", "scheduler_events"),
    detects=detects,
    signatures=_SIGNATURES,
    read=read,
    settle=settle,
    samples=(
        Sample(
            "03/02/2026 06:59:50;Q;812.pbs1;queue=gpu\n"
            + _S
            + "03/02/2026 08:10:05;D;812.pbs1;requestor=mira@login1\n"
            + _E,
            (
                expect("scheduler_events", kind="submitted", job_id="812.pbs1", time_basis="zoned"),
                expect("scheduler_events", kind="started", hosts=["c1", "c2"], time=1772434801000000),
                expect("scheduler_events", kind="cancelled", user="mira", raw_job_id="812.pbs1"),
                expect(
                    "sessions",
                    job_id="812.pbs1",
                    hosts=["c1", "c2"],
                    n_gpus=8,
                    name="bert",
                    partition="gpu",
                    submit_time=1772434790000000,
                    start_time=1772434801000000,
                    end_time=1772439009000000,
                    state="CANCELLED",
                    cancelled_by="mira",
                    exit_code=None,
                    exit_signal=15,
                ),
            ),
            title="PBS Professional and OpenPBS: a job that its user deleted",
            url="https://github.com/openpbs/openpbs",
        ),
        Sample(
            "03/02/2026 09:00:00;R;813[2].pbs1;user=ines group=ml jobname=sweep queue=gpu ctime=1772441000 "
            "qtime=1772441000 etime=1772441000 start=1772441100 exec_host=c3/0 session=77 end=1772442000 "
            "Exit_status=-11 run_count=1\n",
            (
                expect("scheduler_events", kind="requeued", job_id="813[].pbs1", array_task="2", state="REQUEUED"),
                expect("sessions", job_id="813[2].pbs1", state="REQUEUED", end_reason="JOB_EXEC_RERUN", exit_code=None),
            ),
            title="PBS Professional and OpenPBS: a task of an array that is run again",
            url="https://github.com/openpbs/openpbs",
        ),
        Sample(
            "03/02/2026 10:00:00;E;90.head;user=tom group=ml account=my lab jobname=train queue=batch ctime=1772440000 "
            "qtime=1772440000 etime=1772440000 start=1772441990 owner=tom@login1 exec_host=n2/3+n2/2+n1/0-1 "
            "Resource_List.neednodes=2:ppn=2:gpus=4 Resource_List.walltime=00:10:00 session=9 "
            "total_execution_slots=4 unique_node_count=2 end=1772442600 Exit_status=-11 "
            "resources_used.walltime=00:10:10\n",
            (
                expect(
                    "sessions",
                    job_id="90.head",
                    hosts=["n2", "n1"],
                    n_gpus=8,
                    state="TIMEOUT",
                    end_reason="JOB_EXEC_OVERLIMIT_WT",
                    duration_s=610.0,
                ),
            ),
            title="Torque: a job that was over its time",
            url="https://github.com/adaptivecomputing/torque",
        ),
    ),
    non_samples=(
        "03/02/2026 07:00:01;0008;PBS_Server;Job;812.pbs1;Job Run at request of root@head\n",
        "03/02/2026 07:00:01;L;license;floating license hour:0 day:0 month:0 max:0\n",
        "03/02/2026 07:00:01;E;the end;of the day\n",
        "13/42/2026 07:00:01;E;812.pbs1;user=mira\n",
        "E;812.pbs1;user=mira end=1772439009\n",
    ),
)
