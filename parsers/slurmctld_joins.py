"""Joining the lines of slurmctld that tell one thing: an end, a requeue, a refused kill, the drain of a host.

Every step looks at records in the order of their offsets. How near two of them are is told by the clock that both
print, so that the answer does not hang on the zone; records without clocks count as near.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Final

from aftershock.parsers.clock import DAY, MINUTE, SECOND, micros_between
from aftershock.parsers.formats import Found
from aftershock.parsers.slurm_words import LAST_SIGNAL
from aftershock.schemas.events import SchedulerEvent

# The lines of one call follow each other within milliseconds; a busy controller may take seconds.
NEAR: Final = 5 * SECOND
# From the decision to end or requeue a job to the lines that follow from it: they wait for locks and for accounting.
CALL: Final = MINUTE
# From that decision to "Requeuing", which waits until every host has cleaned up, or was given up.
CLEAN_UP: Final = DAY

SIGKILL: Final = 9
# A requeue has two or three reasons, in other words of the same; of more no list is made.
_MOST_REASONS: Final = 8

# Before the mark of a row whose line does not show whose it is.
UNSIGNED: Final = "?"


def settle(found: list[Found]) -> list[Found]:
    """The rows of a source, one for each thing that happened."""
    items = _signed(item for item in found if isinstance(item.row, SchedulerEvent))
    for step in (_join_ends, _join_requeues, _drop_refused_kills, _join_hosts, _join_scripts):
        items = step(items)
    _name_cluster(items)
    return items


def _signed(items: Iterable[Found]) -> list[Found]:
    """Lines that anybody may have written count where others in the same source are the controller's without doubt."""
    kept = list(items)
    if all(item.mark.startswith(UNSIGNED) for item in kept):
        return []
    for item in kept:
        item.mark = item.mark.removeprefix(UNSIGNED)
    return kept


def _event(item: Found) -> SchedulerEvent:
    assert isinstance(item.row, SchedulerEvent)
    return item.row


def _near(earlier: Found, later: Found, limit: int) -> bool:
    apart = micros_between(earlier.reading, later.reading)
    return apart is None or abs(apart) <= limit


def _job(row: SchedulerEvent) -> Hashable:
    """What all lines about one placement of a job have in common."""
    return row.raw_job_id or (row.job_id, row.array_task)


def _join_ends(items: Iterable[Found]) -> list[Found]:
    """``WEXITSTATUS 1`` and ``done`` are one end, and so are ``WTERMSIG 126``, ``cancelled by ...`` and ``done``."""
    kept: list[Found] = []
    latest: dict[Hashable, Found] = {}
    for item in items:
        row = _event(item)
        if item.mark not in ("exited", "signalled", "cut_off", "done"):
            kept.append(item)
            continue
        first = latest.get(_job(row))
        if first is not None and not _near(first, item, CALL):
            first = None
        if item.mark == "done" and first is not None:
            del latest[_job(row)]
            continue
        if item.mark == "cut_off" and first is not None and _event(first).state is None:
            _event(first).state, _event(first).reason = row.state, row.reason
            continue
        if item.mark != "done":
            latest[_job(row)] = item
        kept.append(item)
    return kept


@dataclass(slots=True)
class _Requeue:
    """A requeue whose lines are still coming. ``row`` of ``first`` is the one that stays."""

    first: Found
    last: Found
    closed: bool
    hosts: set[str] = field(default_factory=set)
    reasons: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        row = _event(self.first)
        self.hosts.update(row.hosts or ())
        self.reasons.update(filter(None, (row.reason,)))

    def takes(self, item: Found) -> bool:
        if self.closed:
            return _near(self.last, item, NEAR)
        return _near(self.first, item, CLEAN_UP if _closes(item) else CALL)

    def take(self, item: Found) -> None:
        kept, more = _event(self.first), _event(item)
        for host in more.hosts or ():
            if host not in self.hosts:
                self.hosts.add(host)
                kept.hosts = kept.hosts or []
                kept.hosts.append(host)
        if more.reason and more.reason not in self.reasons and len(self.reasons) < _MOST_REASONS:
            self.reasons.add(more.reason)
            kept.reason = f"{kept.reason}; {more.reason}" if kept.reason else more.reason
        kept.state = kept.state or more.state
        self.last, self.closed = item, self.closed or _closes(item)


def _closes(item: Found) -> bool:
    """``Requeuing JobId=...`` is the last line of a requeue, and the only one without a reason."""
    return item.mark == "requeued" and _event(item).reason is None


def _join_requeues(items: Iterable[Found]) -> list[Found]:
    """Up to five lines tell of one requeue. An end without an exit status that belongs to it is not told apart."""
    kept: list[Found] = []
    open_ones: dict[Hashable, _Requeue] = {}
    ends: dict[Hashable, Found] = {}
    for item in items:
        row = _event(item)
        job = _job(row)
        if item.mark in ("submitted", "started", "allocated"):
            open_ones.pop(job, None)
            ends.pop(job, None)
        elif row.kind == "ended" and row.exit_code is None and row.exit_signal is None and row.state != "OUT_OF_MEMORY":
            requeue = open_ones.get(job)
            if requeue and _near(requeue.last, item, CALL):
                if row.state == "NODE_FAIL":
                    requeue.take(item)
                continue
            ends[job] = item
        elif row.kind == "requeued":
            requeue = open_ones.get(job)
            if requeue and requeue.takes(item):
                requeue.take(item)
                continue
            end = ends.pop(job, None)
            if end is not None and end.mark != "done" and _near(end, item, CALL):
                # The end came first: its line becomes the requeue, so that the earliest time stays.
                _become_requeue(end)
                open_ones[job] = _Requeue(end, end, closed=False)
                open_ones[job].take(item)
                continue
            open_ones[job] = _Requeue(item, item, closed=_closes(item))
        kept.append(item)
    return kept


def _become_requeue(end: Found) -> None:
    row = _event(end)
    row.kind = "requeued"
    if row.state != "NODE_FAIL":  # what stopped the placement was the requeue itself
        row.state = row.reason = None


def _drop_refused_kills(items: Iterable[Found]) -> list[Found]:
    """A kill that was refused, or that only delivered a signal, cancelled nothing."""
    kept: list[Found] = []
    asked: dict[Hashable, Found] = {}
    dropped: set[int] = set()
    for item in items:
        row = _event(item)
        if item.mark == "cancelled":
            asked[_job(row)] = item
        elif item.mark == "not_killed":
            kill = asked.pop(_job(row), None)
            harmless = row.reason == "refused" or (
                row.exit_signal != SIGKILL and 0 < (row.exit_signal or 0) <= LAST_SIGNAL
            )
            if kill is not None and harmless and _near(kill, item, NEAR):
                dropped.add(id(kill))
            continue
        kept.append(item)
    return [item for item in kept if id(item) not in dropped]


def _join_hosts(items: Iterable[Found]) -> list[Found]:
    """A reason and the state that it explains are one row, and so are the two lines of a return to service."""
    kept: list[Found] = []
    latest: dict[Hashable, Found] = {}
    for item in items:
        if item.mark in ("node_reason", "node_state", "node_up", "epilog_error"):
            hosts = tuple(_event(item).hosts or ())
            before = latest.get(hosts)
            if before is not None and _near(before, item, NEAR) and _merged(before, item):
                continue
            latest[hosts] = item
        kept.append(item)
    return kept


def _merged(before: Found, item: Found) -> bool:
    """Whether ``item`` says more of what ``before`` said; ``before`` then says it all."""
    kept, more = _event(before), _event(item)
    match (before.mark, item.mark):
        case ("node_reason", "node_state") if more.reason is None:
            kept.kind, kept.state = more.kind, more.state
            before.mark = "node_state"
            return True
        case ("node_state", "node_reason") if kept.reason is None:
            kept.reason = more.reason
            return True
        case ("node_state", "node_state") if kept.kind == more.kind == "node_drain" and None in (
            kept.reason,
            more.reason,
        ):
            kept.reason = kept.reason or more.reason
            return True
        case ("epilog_error", "node_state") if more.kind == "node_drain":
            more.reason = more.reason or kept.reason
        case ("node_up", "node_up") if kept.reason != more.reason:
            kept.reason = f"{kept.reason}; {more.reason}"
            return True
    return False


def _join_scripts(items: Iterable[Found]) -> list[Found]:
    """That a script of the controller failed is said by who ran it and by who asked for it."""
    kept: list[Found] = []
    latest: dict[Hashable, Found] = {}
    for item in items:
        if item.mark == "script_failed":
            key = (_job(_event(item)), _event(item).kind)
            before = latest.get(key)
            if before is not None and _near(before, item, NEAR):
                continue
            latest[key] = item
        kept.append(item)
    return kept


def _name_cluster(items: Iterable[Found]) -> None:
    """The controller names its cluster when it starts. Where a log holds several clusters, only those lines know."""
    rows = [_event(item) for item in items]
    names = {row.cluster for row in rows if row.cluster}
    if len(names) == 1:
        name = names.pop()
        for row in rows:
            row.cluster = name
