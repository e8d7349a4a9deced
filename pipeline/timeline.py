"""The attempts of a job in time: which of its records and log lines are about the same placement.

Everything is found by bisection: one job may be requeued ten thousand times.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence

from aftershock.pipeline.attempts import (
    ASSUMED,
    ENDINGS,
    US,
    Attempt,
    Record,
    SessionRules,
    as_meant,
    copy_of,
    error_us,
    in_order,
    is_echo,
    is_placed,
    is_start,
    records_in_order,
)
from aftershock.pipeline.clock_offsets import clock_offset
from aftershock.pipeline.generations import differ, identity_of, number_generations
from aftershock.pipeline.looks import join_looks
from aftershock.pipeline.starts import Turns, position, started_attempts
from aftershock.schemas.events import SchedulerEvent


def tell_apart(records: Sequence[Record], events: Sequence[SchedulerEvent], rules: SessionRules) -> list[Attempt]:
    """The attempts of all jobs that had one id in one cluster, in order, with their generation.

    Times of an assumed zone are set against known ones only if a start of the job is the same in both: then the
    assumption is right. Otherwise each kind of time is told apart by itself, and log lines of the assumed zone open
    no attempts beside known ones: they tell of the same placements at other hours.
    """
    records = records_in_order([(origin, as_meant(row)) for origin, row in records])
    events = in_order(events)
    attempts = _by_zone(records, events, rules)
    place = {id(event): number for number, event in enumerate(events)}
    for attempt in attempts:
        attempt.events.sort(key=lambda event: place[id(event)])
    return attempts


def _by_zone(records: Sequence[Record], events: Sequence[SchedulerEvent], rules: SessionRules) -> list[Attempt]:
    known = [r for r in records if r[1].time_basis != ASSUMED], [e for e in events if e.time_basis != ASSUMED]
    assumed = [r for r in records if r[1].time_basis == ASSUMED], [e for e in events if e.time_basis == ASSUMED]
    if not any(assumed) or not _moments(*known) or not _moments(*assumed):
        return _in_time(records, events, rules)
    if _agree(_moments(*known), _moments(*assumed), rules.tolerance_us):
        attempts = _in_time(records, events, rules)
        for attempt in attempts:
            attempt.confirmed = True
        return attempts
    apart = [attempt for attempt in _in_time(*assumed, rules) if attempt.records]
    attempts = _in_time(*known, rules)
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
    return any(bisect_left(known, time - tolerance) < bisect_right(known, time + tolerance) for time in assumed)


def _in_time(records: Sequence[Record], events: Sequence[SchedulerEvent], rules: SessionRules) -> list[Attempt]:
    timed = [event for event in events if event.time is not None]
    # What steps and hosts print confirms what the scheduler itself says, so that it is read last.
    echoes = [event for event in timed if is_echo(event)]
    own = timed if not echoes else [event for event in timed if not is_echo(event)]
    offset = clock_offset(records, own, rules)
    if offset:
        return _in_time_of_records(records, own, echoes, offset, rules)
    return _placed_in_time(records, own, echoes, rules)


def _in_time_of_records(
    records: Sequence[Record],
    own: Sequence[SchedulerEvent],
    echoes: Sequence[SchedulerEvent],
    offset: int,
    rules: SessionRules,
) -> list[Attempt]:
    """The attempts of a job whose log was written by another clock than its records: theirs counts."""
    lines: dict[int, SchedulerEvent] = {}
    moved = []
    for event in own:
        copy = copy_of(event)
        copy.time = (event.time or 0) - offset
        lines[id(copy)] = event
        moved.append(copy)
    attempts = _placed_in_time(records, moved, echoes, rules)
    for attempt in attempts:
        attempt.offset = offset if any(id(event) in lines for event in attempt.events) else 0
        attempt.events = [lines.get(id(event), event) for event in attempt.events]
    return attempts


def _placed_in_time(
    records: Sequence[Record],
    own: Sequence[SchedulerEvent],
    echoes: Sequence[SchedulerEvent],
    rules: SessionRules,
) -> list[Attempt]:
    turns = Turns(
        submits=[event.time or 0 for event in own if event.kind == "submitted"],
        endings=[event.time or 0 for event in own if event.kind in ENDINGS],
    )
    line = _Timeline(
        started_attempts([r for r in records if r[1].start_time is not None], own, turns, rules), turns, rules
    )
    line.add_unstarted([r for r in records if r[1].start_time is None])
    for event in own:
        if not is_start(event):
            line.place(event, event.time or 0)
    for event in echoes:
        line.confirm(event, event.time or 0)
    line.join_timeless()
    attempts = line.attempts
    number_generations(attempts, rules)
    return attempts


class _Timeline:
    """Attempts in the order of their moments, with what is needed to find them by time."""

    def __init__(self, started: list[Attempt], turns: Turns, rules: SessionRules) -> None:
        self._rules = rules
        self._turns = turns
        self._started = started
        self._starts = [attempt.start or 0 for attempt in started]
        self._timed = list(started)
        self._moments = list(self._starts)
        self._timeless: list[Attempt] = []
        # Submit, and the number of the attempt: which of several comes first is a matter of position.
        self._submits: list[tuple[int, int]] = []
        self._by_number: list[Attempt] = []
        for attempt in started:
            self._submitted(attempt)

    @property
    def attempts(self) -> list[Attempt]:
        """All attempts in order, those without any time last."""
        return self._timed + self._timeless

    def _submitted(self, attempt: Attempt) -> None:
        if attempt.submit is not None:
            insort(self._submits, (attempt.submit, len(self._by_number)))
            self._by_number.append(attempt)

    def _insert(self, attempt: Attempt) -> None:
        moment = attempt.moment
        if moment is None:
            self._timeless.append(attempt)
            return
        at = bisect_right(self._moments, moment)
        self._moments.insert(at, moment)
        self._timed.insert(at, attempt)

    def _submit_at(self, attempt: Attempt, time: int) -> None:
        """It is known by now when it was submitted."""
        if attempt.start is not None:
            attempt.submit = time
        else:
            before = attempt.moment
            attempt.submit = time
            self._take_out(attempt, before)
            self._insert(attempt)
        self._submitted(attempt)

    def _take_out(self, attempt: Attempt, moment: int | None) -> None:
        if moment is None:
            self._timeless = [other for other in self._timeless if other is not attempt]
            return
        at = bisect_left(self._moments, moment)
        while self._timed[at] is not attempt:
            at += 1
        del self._timed[at], self._moments[at]

    def _hear(self, attempt: Attempt, event: SchedulerEvent) -> None:
        """Give a line to an attempt that is in the timeline."""
        before = attempt.moment
        attempt.add_event(event)
        if attempt.moment != before:  # only its end was known, and is another one now
            self._take_out(attempt, before)
            self._insert(attempt)

    def add_unstarted(self, records: Sequence[Record]) -> None:
        """Records without a start: an older look at an attempt that started later, or attempts of their own."""
        queued: list[Attempt] = []
        timeless: dict[str, Attempt] = {}
        for record in sorted(records, key=lambda record: record[1].submit_time or 0):
            row = record[1]
            if row.submit_time is None:
                content = copy_of(row)
                content.sources = None
                timeless.setdefault(repr(content), Attempt()).add_record(record)
                continue
            may_have_run = row.state in (None, "PENDING") or is_placed(row)
            found = self._opened_at(row.submit_time) if may_have_run else None
            if found is None and queued and _within(queued[-1].submit, row.submit_time, self._rules.tolerance_us):
                found = queued[-1]
            if found is None:
                found = Attempt(submit=row.submit_time, error=error_us(row))
                queued.append(found)
            elif found.submit is None:
                self._submit_at(found, row.submit_time)
            found.add_record(record)
        for attempt in queued:
            self._insert(attempt)
            self._submitted(attempt)
        for content_text in sorted(timeless):
            self._insert(timeless[content_text])

    def _opened_at(self, submit: int) -> Attempt | None:
        """The attempt that this stay in the queue led to: submitted then, or next to start if nobody knows its submit.

        An ending in between is that of an attempt whose start nobody recorded.
        """
        tolerance = self._rules.tolerance_us
        first = bisect_left(self._submits, (submit - tolerance, -1))
        last = bisect_left(self._submits, (submit + tolerance + 1, -1))
        if first < last:
            numbers = [number for _, number in self._submits[first:last]]
            return min((self._by_number[number] for number in numbers), key=position)
        at = bisect_left(self._starts, submit - tolerance)
        following = self._started[at] if at < len(self._started) else None
        if following is None or following.submit is not None:
            return None
        endings = self._turns.endings
        between = bisect_right(endings, submit) < bisect_left(endings, following.start or 0)
        return None if between else following

    def place(self, event: SchedulerEvent, time: int) -> None:
        """Give a log line to its attempt, and open one where the line proves that there was one."""
        if event.kind == "submitted":
            found = self._opened_at(time)
            if found is None:
                found = Attempt(submit=time, error=error_us(event))
                self._insert(found)
                self._submitted(found)
            elif found.submit is None:
                self._submit_at(found, time)
            found.add_event(event)
        elif event.kind == "requeued":
            self._requeue(event, time)
        elif event.kind == "launched":
            # A host launches what has been placed, not what the same second put back into the queue.
            after = bisect_right(self._starts, time + self._rules.tolerance_us)
            if after and self._reaches(self._started[after - 1], time):
                self._hear(self._started[after - 1], event)
        elif event.kind in ENDINGS:
            at = self._running_at(time)
            if at is None:
                self._insert_ended(event)
            elif self._reaches(self._timed[at], time):
                self._hear(self._timed[at], event)
        else:
            at = bisect_right(self._moments, time + self._rules.tolerance_us) - 1
            if at >= 0 and self._reaches(self._timed[at], time):
                self._hear(self._timed[at], event)

    def join_timeless(self) -> None:
        """Give records without a time, as a list of the queue prints them, to the last attempt they can be about."""
        self._timeless = join_looks(self._timeless, self._timed)

    def confirm(self, event: SchedulerEvent, time: int) -> None:
        """Give what a step or a host printed to the attempt that began or ended about then, if there is one."""
        slack = round(self._rules.slack_s * US)
        begins = event.kind in ("started", "submitted")
        at = bisect_right(self._moments, time + (slack if begins else 0)) - 1
        for attempt in self._timed[max(0, at - 1) : at + 1][::-1]:
            about = attempt.moment if begins else attempt.end
            if about is not None and abs(about - time) <= slack and (begins or attempt.placed):
                self._hear(attempt, event)
                return
        if event.kind == "started":
            self._insertstarted_attempts(event, time)
        else:
            self.place(event, time)

    def _insertstarted_attempts(self, event: SchedulerEvent, time: int) -> None:
        attempt = Attempt(start=time, error=error_us(event))
        attempt.add_event(event)
        self._insert(attempt)
        at = bisect_right(self._starts, time)
        self._starts.insert(at, time)
        self._started.insert(at, attempt)

    def _insert_ended(self, event: SchedulerEvent) -> None:
        """The log begins after the start: of this placement only the end is known."""
        attempt = Attempt()
        attempt.add_event(event)
        self._insert(attempt)

    def _reaches(self, attempt: Attempt, time: int) -> bool:
        """Whether a line of this time can still be about the attempt."""
        end = attempt.end
        return end is None or time <= end + round(self._rules.slack_s * US)

    def _running_at(self, time: int) -> int | None:
        """The attempt that an ending is about: not the stay in the queue which that same ending opened."""
        last = bisect_right(self._moments, time) - 1
        ends = [(abs(end - time), -at) for at in range(max(0, last - 3), last + 1) if (end := self._placed_end(at))]
        if ends and min(ends)[0] <= self._rules.tolerance_us:
            return -min(ends)[1]
        for at in range(last, -1, -1):
            attempt = self._timed[at]
            if not (_within(attempt.submit, time, self._rules.tolerance_us) and _begins(attempt, time)):
                return at
        return last if last >= 0 else None

    def _placed_end(self, at: int) -> int | None:
        return self._timed[at].end if self._timed[at].placed else None

    def _requeue(self, event: SchedulerEvent, time: int) -> None:
        """A requeue ends one attempt and opens the next. One decision may print several lines."""
        at = self._running_at(time)
        if at is None:
            self._insert_ended(event)
            at = bisect_right(self._moments, time) - 1
        else:
            self._hear(self._timed[at], event)
        ended = self._timed[at]
        follower = self._timed[at + 1] if at + 1 < len(self._timed) else None
        if follower is None or not self._follows(follower, ended, time):
            waiting = Attempt(submit=time, error=error_us(event))
            self._insert(waiting)
            self._submitted(waiting)
        elif follower.submit is None:
            self._submit_at(follower, time)

    def _follows(self, follower: Attempt, ended: Attempt, time: int) -> bool:
        """Whether an attempt is what a requeue at this time led to, and not another job that got the same id."""
        opened, tolerance = follower.moment, self._rules.tolerance_us
        if opened is None or opened < time - tolerance:
            return False
        submits = self._turns.submits
        if bisect_right(submits, time + tolerance) < bisect_right(submits, opened):
            return False
        return not differ(identity_of(ended), identity_of(follower))


def _within(a: int | None, b: int | None, tolerance: int) -> bool:
    return a is not None and b is not None and abs(a - b) <= tolerance


def _begins(attempt: Attempt, time: int) -> bool:
    """Whether it had not started yet, or has done so within the very second: accounting rounds down."""
    return attempt.start is None or attempt.start > time - US
