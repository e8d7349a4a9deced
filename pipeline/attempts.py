"""Attempts of one job: which accounting records and log lines are about the same placement.

A scheduler keeps the id of a job that it requeues and, after a reset of its state, gives old ids to new jobs. So a
job id names neither an attempt nor even a job: attempts are told apart by when they started (those that never got
hosts, by when they were put into the queue), and jobs that share an id, here called generations, by what lies between.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

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


@dataclass(frozen=True)
class SessionRules:
    """How records and log lines are told apart and joined."""

    scheduler: str = "slurm"  # of log lines: they do not say
    gpus_per_host: int | None = None
    # Accounting rounds to seconds and the log line follows the decision: real pairs lie below 1.1 s apart.
    tolerance_s: float = 2.0
    # Lines about the end (epilog, last steps) that come after it. Slurm itself waits this long before it complains.
    slack_s: float = 60.0
    # From a cancel to the end that it brought: Slurm's KillWait is 30 s, sites set it to a minute or two.
    cancel_grace_s: float = 120.0

    @property
    def tolerance_us(self) -> int:
        """``tolerance_s`` in microseconds."""
        return round(self.tolerance_s * US)


@dataclass(eq=False)
class Attempt:
    """One placement of a job, or one stay in the queue that led to none: all that was recorded about it."""

    records: list[Record] = field(default_factory=list)
    events: list[SchedulerEvent] = field(default_factory=list)
    start: int | None = None
    submit: int | None = None
    error: int = 0  # of start and submit, microseconds
    generation: int = 0
    confirmed: bool = False  # an assumed zone agrees with a known start of the same job

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
        recorded = [row.end_time for _, row in self.records if row.end_time is not None]
        if recorded:
            return min(recorded)
        closing = closing_event(self.events)
        return closing.time if closing else None

    @property
    def moment(self) -> int | None:
        """Where it stands among the attempts of its job."""
        return next((t for t in (self.start, self.submit, self.end) if t is not None), None)


@dataclass(frozen=True)
class Turns:
    """When the log says that jobs of this id began and ended: what must not lie between two signs of one attempt."""

    submits: Sequence[int]
    endings: Sequence[int]


def closing_event(events: Sequence[SchedulerEvent]) -> SchedulerEvent | None:
    """The line that ended a placement: the first ending, or a cancel that no ending followed."""
    for kinds in (ENDINGS, frozenset({"cancelled"})):
        found = [event for event in events if event.kind in kinds and event.time is not None]
        if found:
            return min(found, key=event_order)
    return None


def is_placed(row: Session) -> bool:
    """Whether a record says that the job got hosts; one without times and hosts does so by its state."""
    return row.start_time is not None or bool(row.hosts) or (row.hosts is None and row.state not in UNPLACED_STATES)


def as_meant(row: Session) -> Session:
    """The record without times that are no facts.

    ``scontrol show job`` prints the planned start of a pending job, the moment of the cancel as StartTime of a job
    that never got hosts, and the time limit as EndTime of a running one; newer ``sacct`` does the second too.
    """
    start, end = row.start_time, row.end_time
    hostless = row.hosts == [] and (row.state in UNPLACED_STATES or start == end)
    if start is not None and (hostless or row.state == "PENDING"):
        start = None
    if row.state in OPEN_STATES:
        end = None
    return row if (start, end) == (row.start_time, row.end_time) else replace(row, start_time=start, end_time=end)


def event_order(event: SchedulerEvent) -> tuple[int, str, int, str]:
    """Events in time; those of one moment as they stand in their file."""
    return event.time or 0, event.source or "", event.byte_offset or 0, repr(event)


def tell_apart(records: Sequence[Record], events: Sequence[SchedulerEvent], rules: SessionRules) -> list[Attempt]:
    """The attempts of all jobs that had one id in one cluster, in order, with their generation.

    Times of an assumed zone are set against known ones only if a start of the job is the same in both: then the
    assumption is right. Otherwise each kind of time is told apart by itself, and log lines of the assumed zone open
    no attempts beside known ones: they tell of the same placements at other hours.
    """
    records = sorted(((origin, as_meant(row)) for origin, row in records), key=repr)
    events = sorted(events, key=event_order)
    known = [r for r in records if r[1].time_basis != ASSUMED], [e for e in events if e.time_basis != ASSUMED]
    assumed = [r for r in records if r[1].time_basis == ASSUMED], [e for e in events if e.time_basis == ASSUMED]
    if not _moments(*known) or not _moments(*assumed):
        return _in_order(records, events, rules)
    if _agree(_moments(*known), _moments(*assumed), rules.tolerance_us):
        attempts = _in_order(records, events, rules)
        for attempt in attempts:
            attempt.confirmed = True
        return attempts
    apart = [attempt for attempt in _in_order(*assumed, rules) if attempt.records]
    attempts = _in_order(*known, rules)
    later = max(attempt.generation for attempt in attempts) + 1
    for attempt in apart:
        attempt.generation += later
    return attempts + apart


def _moments(records: Iterable[Record], events: Iterable[SchedulerEvent]) -> list[int]:
    """Starts, and for what never started the submit: what identifies an attempt."""
    rows = [row.start_time if row.start_time is not None else row.submit_time for _, row in records]
    lines = [event.time for event in events if event.kind in ("started", "submitted", "requeued")]
    return sorted(t for t in (*rows, *lines) if t is not None)


def _agree(known: Sequence[int], assumed: Sequence[int], tolerance: int) -> bool:
    return any(abs(a - b) <= tolerance for a in known for b in assumed)


def _in_order(records: Sequence[Record], events: Sequence[SchedulerEvent], rules: SessionRules) -> list[Attempt]:
    timed = [event for event in events if event.time is not None]
    attempts = _started([r for r in records if r[1].start_time is not None], timed, rules)
    turns = Turns(
        submits=[event.time or 0 for event in timed if event.kind == "submitted"],
        endings=[event.time or 0 for event in timed if event.kind in ENDINGS],
    )
    _add_unstarted(attempts, [r for r in records if r[1].start_time is None], turns, rules)
    attempts.sort(key=_position)
    for event in timed:
        if event.kind != "started" and event.time is not None:
            _place(event, event.time, attempts, turns, rules)
    _number_generations(attempts, rules)
    return attempts


def _position(attempt: Attempt) -> tuple[bool, int]:
    """By time; what has none comes last."""
    return attempt.moment is None, attempt.moment or 0


def error_us(row: Session | SchedulerEvent) -> int:
    """``time_error_s`` in microseconds."""
    return round((row.time_error_s or 0.0) * US)


def _started(records: Sequence[Record], events: Sequence[SchedulerEvent], rules: SessionRules) -> list[Attempt]:
    """Attempts whose start is known, from records first: a log line joins the nearest one or opens its own."""
    attempts: list[Attempt] = []
    for record in sorted(records, key=lambda record: record[1].start_time or 0):
        row = record[1]
        start, error = row.start_time or 0, error_us(row)
        near = _nearest(attempts[-1:], start, error, rules)
        if near is None:
            near = Attempt(start=start, error=error)
            attempts.append(near)
        near.records.append(record)
        near.submit = near.submit if near.submit is not None else row.submit_time
    lines: list[Attempt] = []
    for event in events:
        if event.kind == "started" and event.time is not None:
            near = _nearest(attempts, event.time, error_us(event), rules)
            near = near or _nearest(lines[-1:], event.time, error_us(event), rules)
            if near is None:
                near = Attempt(start=event.time, error=error_us(event))
                lines.append(near)
            near.events.append(event)
    return sorted(attempts + lines, key=_position)


def _nearest(attempts: Sequence[Attempt], start: int, error: int, rules: SessionRules) -> Attempt | None:
    close = [a for a in attempts if abs((a.start or 0) - start) <= rules.tolerance_us + a.error + error]
    return min(close, key=lambda a: abs((a.start or 0) - start), default=None)


def _add_unstarted(attempts: list[Attempt], records: Sequence[Record], turns: Turns, rules: SessionRules) -> None:
    """Records without a start: an older look at an attempt that started later, or attempts of their own."""
    started = list(attempts)
    queued: list[Attempt] = []
    timeless: dict[str, Attempt] = {}
    for record in sorted(records, key=lambda record: record[1].submit_time or 0):
        row = record[1]
        if row.submit_time is None:
            content = repr(replace(row, sources=None))
            timeless.setdefault(content, Attempt()).records.append(record)
            continue
        may_have_run = row.state in (None, "PENDING") or is_placed(row)
        found = _opened_at(started, row.submit_time, turns, rules) if may_have_run else None
        if found is None and queued and _within(queued[-1].submit, row.submit_time, rules.tolerance_us):
            found = queued[-1]
        if found is None:
            found = Attempt(submit=row.submit_time, error=error_us(row))
            queued.append(found)
        found.submit = found.submit if found.submit is not None else row.submit_time
        found.records.append(record)
    attempts.extend(queued)
    attempts.extend(timeless[content] for content in sorted(timeless))


def _opened_at(attempts: Sequence[Attempt], submit: int, turns: Turns, rules: SessionRules) -> Attempt | None:
    """The attempt that this stay in the queue led to: submitted then, or next to start if nobody knows its submit.

    An ending in between is that of an attempt whose start nobody recorded.
    """
    for attempt in attempts:
        if attempt.submit is not None and _within(attempt.submit, submit, rules.tolerance_us):
            return attempt
    following = next((a for a in attempts if (a.start or 0) >= submit - rules.tolerance_us), None)
    if following is None or following.submit is not None:
        return None
    return None if any(submit < t < (following.start or 0) for t in turns.endings) else following


def _within(a: int | None, b: int | None, tolerance: int) -> bool:
    return a is not None and b is not None and abs(a - b) <= tolerance


def _place(event: SchedulerEvent, time: int, attempts: list[Attempt], turns: Turns, rules: SessionRules) -> None:
    """Give a log line to its attempt, and open one where the line proves that there was one."""
    if event.kind == "submitted":
        found = _opened_at(attempts, time, turns, rules)
        if found is None:
            found = Attempt(submit=time, error=error_us(event))
            insort(attempts, found, key=_position)
        elif found.submit is None:
            found.submit = time
        found.events.append(event)
    elif event.kind == "requeued":
        _place_requeue(event, time, attempts, turns, rules)
    elif event.kind in ENDINGS:
        found = _running_at(attempts, time, rules)
        if found is None and not _before(attempts, time):
            found = Attempt()
            attempts.insert(0, found)
        if found is not None and _reaches(found, time, rules):
            found.events.append(event)
    else:
        earlier = _before(attempts, time + rules.tolerance_us)
        if earlier and _reaches(earlier[-1], time, rules):
            earlier[-1].events.append(event)


def _before(attempts: Sequence[Attempt], time: int) -> list[Attempt]:
    return [a for a in attempts if a.moment is not None and a.moment <= time]


def _reaches(attempt: Attempt, time: int, rules: SessionRules) -> bool:
    """Whether a line of this time can still be about the attempt."""
    end = attempt.end
    return end is None or time <= end + round(rules.slack_s * US)


def _running_at(attempts: Sequence[Attempt], time: int, rules: SessionRules) -> Attempt | None:
    """The attempt that an ending is about: not the stay in the queue which that same ending opened."""
    earlier = _before(attempts, time)
    running = [a for a in earlier if not (_within(a.submit, time, rules.tolerance_us) and _begins(a, time))]
    candidates = running or earlier
    return candidates[-1] if candidates else None


def _begins(attempt: Attempt, time: int) -> bool:
    """Whether it had not started yet, or has done so within the very second: accounting rounds down."""
    return attempt.start is None or attempt.start > time - US


def _place_requeue(
    event: SchedulerEvent, time: int, attempts: list[Attempt], turns: Turns, rules: SessionRules
) -> None:
    """A requeue ends one attempt and opens the next. One decision may print several lines."""
    ended = _running_at(attempts, time, rules)
    if ended is None:
        # The log begins after the start: of this placement only the end is known.
        ended = Attempt()
        attempts.insert(0, ended)
    ended.events.append(event)
    follower = next(iter(attempts[attempts.index(ended) + 1 :]), None)
    if follower is None or not _follows(follower, ended, time, turns, rules):
        insort(attempts, Attempt(submit=time, error=error_us(event)), key=_position)
    elif follower.submit is None:
        follower.submit = time


def _follows(follower: Attempt, ended: Attempt, time: int, turns: Turns, rules: SessionRules) -> bool:
    """Whether an attempt is what a requeue at this time led to, and not another job that got the same id."""
    opened = follower.moment
    if opened is None or opened < time - rules.tolerance_us:
        return False
    if any(time + rules.tolerance_us < t <= opened for t in turns.submits):
        return False
    return not _differ(_identity(ended), _identity(follower))


def _number_generations(attempts: Sequence[Attempt], rules: SessionRules) -> None:
    """Tell jobs apart that got the same id one after the other."""
    said: tuple[str | None, ...] = (None, None, None)
    for before, after in pairwise(attempts):
        said = tuple(new or old for new, old in zip(_identity(before), said, strict=True))
        after.generation = before.generation
        if _differ(said, _identity(after)) or _submitted_anew(before, after, rules):
            after.generation += 1
            said = (None, None, None)


def _identity(attempt: Attempt) -> tuple[str | None, ...]:
    """User, name and shown id: what a requeue does not change. A bare user id may be the number of a named user."""
    rows = [row for _, row in attempt.records]
    shown = [row.job_id for row in rows if row.job_id and "[" not in row.job_id]
    return (
        next((row.user for row in rows if row.user and not row.user.isdigit()), None),
        next((row.name for row in rows if row.name), None),
        next(iter(shown), None),
    )


def _differ(one: Sequence[str | None], other: Sequence[str | None]) -> bool:
    return any(a and b and a != b for a, b in zip(one, other, strict=True))


def _submitted_anew(before: Attempt, after: Attempt, rules: SessionRules) -> bool:
    """Whether another submit lies between two attempts: a requeue prints no submit line, and resets Submit to its
    own moment, which is the end of the attempt before."""
    if before.moment is None or after.moment is None:
        return False
    if any(e.kind == "submitted" and (e.time or 0) > before.moment for e in after.events):
        return True
    if any(event.kind == "requeued" for event in before.events):
        return False
    if any(row.state in REQUEUE_ENDS for _, row in before.records):
        return False
    return before.end is not None and after.submit is not None and after.submit > before.end + rules.tolerance_us
