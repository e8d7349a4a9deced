"""Attempts whose start is known: records first, then the lines of the log that tell of a start."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from aftershock.pipeline.attempts import SLURM, Attempt, Record, SessionRules, error_us, is_start
from aftershock.schemas.events import SchedulerEvent


@dataclass(frozen=True)
class Turns:
    """When the log says that jobs of this id began and ended: what must not lie between two signs of one attempt."""

    submits: Sequence[int]
    endings: Sequence[int]


def started_attempts(
    records: Sequence[Record], events: Sequence[SchedulerEvent], turns: Turns, rules: SessionRules
) -> list[Attempt]:
    """Attempts whose start is known, from records first: a log line joins the nearest one or opens its own."""
    attempts: list[Attempt] = []
    for record in sorted(records, key=lambda record: record[1].start_time or 0):
        row = record[1]
        start, error = row.start_time or 0, error_us(row)
        near = _nearest(attempts[-1:], start, error, rules)
        if near is None:
            near = Attempt(start=start, error=error)
            attempts.append(near)
        near.add_record(record)
        near.submit = near.submit if near.submit is not None else row.submit_time
    starts = [attempt.start or 0 for attempt in attempts]
    widest = max((attempt.error for attempt in attempts), default=0)
    lines: list[Attempt] = []
    for event in events:
        if is_start(event) and event.time is not None:
            time, error = event.time, error_us(event)
            reach = rules.tolerance_us + widest + error
            close = attempts[bisect_left(starts, time - reach) : bisect_right(starts, time + reach)]
            near = _nearest(close, time, error, rules)
            near = near or _nearest(lines[-1:], time, error, rules)
            near = near or _member_of(event, time, attempts, starts, lines, turns)
            if near is None:
                near = Attempt(start=time, error=error)
                lines.append(near)
            near.add_event(event)
    return sorted(attempts + lines, key=position)


def _nearest(attempts: Sequence[Attempt], start: int, error: int, rules: SessionRules) -> Attempt | None:
    close = [a for a in attempts if abs((a.start or 0) - start) <= rules.tolerance_us + a.error + error]
    return min(close, key=lambda a: abs((a.start or 0) - start), default=None)


def _member_of(
    event: SchedulerEvent,
    time: int,
    attempts: Sequence[Attempt],
    starts: Sequence[int],
    lines: Sequence[Attempt],
    turns: Turns,
) -> Attempt | None:
    """The placement that runs already. Slurm starts a job on all its hosts at once; elsewhere each container of a job
    has a line of its own, and belongs to what has not ended since."""
    if event.scheduler in (None, SLURM):
        return None
    before = bisect_right(starts, time) - 1
    candidates = [*lines[-1:], *(attempts[before : before + 1] if before >= 0 else ())]
    latest = max(candidates, key=lambda attempt: attempt.start or 0, default=None)
    if latest is None or latest.start is None:
        return None
    ended = latest.end is not None and latest.end < time
    between = bisect_right(turns.endings, latest.start) < bisect_left(turns.endings, time)
    return None if ended or between else latest


def position(attempt: Attempt) -> tuple[bool, int]:
    """By time; what has none comes last."""
    moment = attempt.moment
    return moment is None, moment or 0
