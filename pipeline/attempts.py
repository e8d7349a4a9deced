"""Attempts of one job: all that accounting records and log lines say about one placement, kept together.

A scheduler keeps the id of a job that it requeues and, after a reset of its state, gives old ids to new jobs. So a
job id names neither an attempt nor even a job: attempts are told apart by when they started (those that never got
hosts, by when they were put into the queue), and jobs that share an id, here called generations, by what lies between.
`timeline.py` does that; here is what an attempt is, and what records and lines are taken to mean.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, Final, TypeVar

from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.sessions import Session

# The format that an accounting row was read from, and the row.
Record = tuple[str, Session]

US: Final = 1_000_000  # microseconds in a second, the unit of every time in a row
OPEN_STATES: Final = frozenset({"PENDING", "RUNNING"})
# Ends after which Slurm puts the same job back into the queue.
REQUEUE_ENDS: Final = frozenset({"REQUEUED", "NODE_FAIL", "PREEMPTED"})
# States that a job can have without ever having got hosts.
UNPLACED_STATES: Final = frozenset({None, "PENDING", "CANCELLED", "DEADLINE"})
# Log lines after which a placement is over. A cancel is only a request, and may be the request to send a signal.
ENDINGS: Final = frozenset({"ended", "requeued", "time_limit", "preempted"})
ASSUMED: Final = "assumed_zone"
SLURM: Final = "slurm"

# What job steps and the daemons of hosts print of what the controller decided: `slurmstepd: error: *** JOB 7 ON ...`.
_ECHO: Final = re.compile(r"\s*(?:\S{1,64}: )?(?:slurmstepd|slurmd|srun)\b|.{0,64}\*\*\* (?:JOB|STEP) ")
_ECHO_FORMATS: Final = frozenset({"slurm_step", "slurmd"})

T = TypeVar("T")
KeyT = TypeVar("KeyT", bound=Hashable)


@dataclass(frozen=True)
class SessionRules:
    """How records and log lines are told apart and joined."""

    scheduler: str = SLURM  # of log lines that do not say
    gpus_per_host: int | None = None
    # Accounting rounds to seconds and the log line follows the decision: real pairs lie below 1.1 s apart.
    tolerance_s: float = 2.0
    # Lines about the end (epilog, last steps) that come after it. Slurm itself waits this long before it complains.
    slack_s: float = 60.0
    # From a cancel to the end that it brought: Slurm's KillWait is 30 s, sites set it to a minute or two.
    cancel_grace_s: float = 120.0
    # By how much the clocks of two sources of one job may differ. More is a zone, and zones are told.
    most_offset_s: float = 900.0
    # Pairs of placements that are compared for it: of a job that is requeued for ever the clock is told by others.
    most_compared: int = 2_500

    @property
    def tolerance_us(self) -> int:
        """``tolerance_s`` in microseconds."""
        return round(self.tolerance_s * US)


@dataclass(eq=False, slots=True)
class Attempt:
    """One placement of a job, or one stay in the queue that led to none: all that was recorded about it."""

    records: list[Record] = field(default_factory=list)
    events: list[SchedulerEvent] = field(default_factory=list)
    start: int | None = None
    submit: int | None = None
    error: int = 0  # of start and submit, microseconds
    generation: int = 0
    confirmed: bool = False  # an assumed zone agrees with a known start of the same job
    offset: int = 0  # of the clock of its lines from that of its records, microseconds
    _recorded: int | None = None  # end, by records
    _ended: int | None = None  # end, by the log
    _cancelled: int | None = None  # first cancel in the log

    def add_record(self, record: Record) -> None:
        """Take a record in."""
        self.records.append(record)
        self._recorded = earliest(self._recorded, record[1].end_time)

    def add_event(self, event: SchedulerEvent) -> None:
        """Take a line in."""
        self.events.append(event)
        if event.kind in ENDINGS:
            self._ended = earliest(self._ended, event.time)
        elif event.kind == "cancelled":
            self._cancelled = earliest(self._cancelled, event.time)

    @property
    def placed(self) -> bool:
        """Whether it got hosts. An end in the log proves it where no record and no line tells of the start."""
        if self.start is not None or any(is_placed(row) for _, row in self.records):
            return True
        closed = any(row.state not in (None, *OPEN_STATES) for _, row in self.records)
        return not closed and any(event.kind in ENDINGS for event in self.events)

    @property
    def end(self) -> int | None:
        """When it ended: by a record that is closed, else by the log."""
        known = (t for t in (self._recorded, self._ended, self._cancelled) if t is not None)
        return next(known, None)

    @property
    def moment(self) -> int | None:
        """Where it stands among the attempts of its job."""
        return self.start if self.start is not None else self.submit if self.submit is not None else self.end


def earliest(one: int | None, other: int | None) -> int | None:
    """The earlier of two times, of which either may be unknown."""
    return other if one is None else one if other is None else min(one, other)


def closing_event(events: Sequence[SchedulerEvent]) -> SchedulerEvent | None:
    """The line that ended a placement: the first ending, or a cancel that no ending followed.

    ``events`` are in order. What steps and hosts print counts only where the scheduler itself tells of no end.
    """
    endings = [event for event in events if event.kind in ENDINGS and event.time is not None]
    if endings:
        return next((event for event in endings if not is_echo(event)), endings[0])
    return next((event for event in events if event.kind == "cancelled" and event.time is not None), None)


def is_echo(event: SchedulerEvent, origin: str = "") -> bool:
    """Whether a line was printed by a step or a host, which only pass on what the controller decided."""
    return origin in _ECHO_FORMATS or _ECHO.match(event.message or "") is not None


def is_start(event: SchedulerEvent) -> bool:
    """Whether a line says that the job got hosts. Kubernetes tells of each pod, and of the job as a state."""
    if event.kind == "started":
        return True
    return event.scheduler == "kubernetes" and (
        event.kind == "pod_started" or (event.kind == "job_state" and event.state == "RUNNING")
    )


def is_placed(row: Session) -> bool:
    """Whether a record says that the job got hosts; one without times and hosts does so by its state."""
    return row.start_time is not None or bool(row.hosts) or (row.hosts is None and row.state not in UNPLACED_STATES)


def as_meant(row: Session) -> Session:
    """The record without times that are no facts.

    ``scontrol show job`` prints the planned start of a pending job, the moment of the cancel as StartTime of a job
    that never got hosts, and the time limit as EndTime of a running one; newer ``sacct`` does the second too.
    """
    start, end = row.start_time, row.end_time
    if start is not None:
        hostless = row.hosts == [] and (row.state in UNPLACED_STATES or start == end)
        if hostless or row.state == "PENDING":
            start = None
    if row.state in OPEN_STATES:
        end = None
    if start == row.start_time and end == row.end_time:
        return row
    row = copy_of(row)
    row.start_time, row.end_time = start, end
    return row


RowT = TypeVar("RowT", Session, SchedulerEvent)


def _copier(kind: type[RowT]) -> Callable[[RowT], RowT]:
    """Rows have slots and nothing happens when they are made, so that filling the slots is quick."""
    names = tuple(column.name for column in fields(kind))
    values_of: Callable[[RowT], tuple[Any, ...]] = attrgetter(*names)
    slots = tuple(getattr(kind, name).__set__ for name in names)

    def copied(row: RowT) -> RowT:
        made = object.__new__(kind)
        for fill, value in zip(slots, values_of(row)):  # noqa: B905 - as many slots as values
            fill(made, value)
        return made

    return copied


_copy_session: Final = _copier(Session)
_copy_event: Final = _copier(SchedulerEvent)


def copy_of(row: RowT) -> RowT:
    """The row once more."""
    return _copy_session(row) if isinstance(row, Session) else _copy_event(row)


def in_order(events: Iterable[SchedulerEvent]) -> list[SchedulerEvent]:
    """Events in time; those of one moment as they stand in their file, and by all they say if need be."""
    return sorted_by(events, _event_place)


def records_in_order(records: Iterable[Record]) -> list[Record]:
    """Records in an order that does not depend on how they came."""
    return sorted_by(records, _record_place)


def _event_place(event: SchedulerEvent) -> tuple[int, str, int, str, str]:
    return event.time or 0, event.source or "", event.byte_offset or 0, event.kind or "", event.host or ""


def _record_place(record: Record) -> tuple[str, list[str], int, int, int]:
    origin, row = record
    return origin, row.sources or [], row.submit_time or 0, row.start_time or 0, row.end_time or 0


def sorted_by(items: Iterable[T], place: Callable[[T], Any]) -> list[T]:
    """Items by their place; those of one place by their text, which takes ten times as long to make."""
    ordered = sorted(items, key=place)
    if len(ordered) < 2:
        return ordered
    places = list(map(place, ordered))
    at = 0
    while at < len(ordered) - 1:
        end = at + 1
        while end < len(ordered) and places[end] == places[at]:
            end += 1
        if end > at + 1:
            ordered[at:end] = sorted(ordered[at:end], key=repr)
        at = end
    return ordered


def error_us(row: Session | SchedulerEvent) -> int:
    """``time_error_s`` in microseconds."""
    return round((row.time_error_s or 0.0) * US)


def grouped(items: Iterable[T], key: Callable[[T], KeyT]) -> dict[KeyT, list[T]]:
    """Items by a key, groups and their members in the order in which they come."""
    groups: dict[KeyT, list[T]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups
