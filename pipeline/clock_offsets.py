"""A log and an accounting whose clocks differ by minutes: how much, where what both tell of one job leaves no doubt.

Both list when the placements of a job began and ended. Where they agree on how long one lasted, but not on when, one
of the clocks was off. Two placements of one job never overlap, and the first of two ends with a requeue: what would
have to be both at once is the same one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from aftershock.pipeline.attempts import (
    ENDINGS,
    OPEN_STATES,
    REQUEUE_ENDS,
    SLURM,
    US,
    Record,
    SessionRules,
    error_us,
    is_start,
)
from aftershock.schemas.events import SchedulerEvent


class _Span(NamedTuple):
    """A placement as one source tells of it. ``users``: who it was of, where that is said by name."""

    start: int
    end: int
    error: int
    requeued: bool
    user: str | None


def clock_offset(records: Sequence[Record], events: Sequence[SchedulerEvent], rules: SessionRules) -> int:
    """How far the clock of the log is ahead of that of the records, in microseconds; 0 where nothing is certain.

    All placements that can be matched have to agree, and each must be matched by one other at most. ``events``: of one
    job, in order, of the controller itself.
    """
    told, logged = _recorded(records), _logged(events)
    if not told or not logged or len(told) * len(logged) > rules.most_compared:
        return 0
    if any(abs(a.start - b.start) <= rules.tolerance_us + a.error + b.error for a in told for b in logged):
        return 0
    starts = sorted(span.start for span in (*told, *logged))
    pairs = [(a, b) for a in told for b in logged if _may_be_one(a, b, starts, rules)]
    if not pairs or len({a for a, _ in pairs}) < len(pairs) or len({b for _, b in pairs}) < len(pairs):
        return 0
    offsets = sorted(b.start - a.start for a, b in pairs)
    if offsets[-1] - offsets[0] > 2 * rules.tolerance_us or not any(_is_certain(a, b) for a, b in pairs):
        return 0
    return offsets[len(offsets) // 2]


def _recorded(records: Sequence[Record]) -> list[_Span]:
    """The placements that records tell of as over; each once."""
    spans: dict[int, _Span] = {}
    for _, row in records:
        if row.start_time is None or row.end_time is None or row.state in (None, *OPEN_STATES):
            continue
        user = row.user if row.user and not row.user.isdigit() else None
        span = _Span(row.start_time, row.end_time, error_us(row), row.state in REQUEUE_ENDS, user)
        spans.setdefault(row.start_time, span)
    return list(spans.values())


def _logged(events: Sequence[SchedulerEvent]) -> list[_Span]:
    """The placements of which the log has both ends."""
    if any(event.scheduler not in (None, SLURM) for event in events):
        return []
    begins = [number for number, event in enumerate(events) if is_start(event) and event.time is not None]
    spans = []
    for at, after in pairwise([*begins, len(events)]):
        within = [event for event in events[at + 1 : after] if event.kind in ENDINGS and event.time is not None]
        if within:
            user = next((event.user for event in events[:after] if event.kind == "submitted" and event.user), None)
            requeued = any(event.kind in ("requeued", "preempted") for event in within)
            start, end = events[at].time or 0, within[0].time or 0
            spans.append(_Span(start, end, error_us(events[at]), requeued, None if user and user.isdigit() else user))
    return spans


def _may_be_one(told: _Span, logged: _Span, starts: Sequence[int], rules: SessionRules) -> bool:
    """Whether both last as long, close to each other, with no other placement between them."""
    offset = logged.start - told.start
    unlike = abs((logged.end - logged.start) - (told.end - told.start))
    if abs(offset) > rules.most_offset_s * US or unlike > rules.tolerance_us + told.error + logged.error:
        return False
    if told.user and logged.user and told.user != logged.user:
        return False
    low, high = sorted((told.start, logged.start))
    return told.requeued == logged.requeued and not any(low < start < high for start in starts)


def _is_certain(told: _Span, logged: _Span) -> bool:
    """Whether they cannot be two placements of the job."""
    overlap = told.start < logged.end and logged.start < told.end
    return overlap or not told.requeued
