"""What planned changes explain: ends of sessions and exclusions of hosts that nobody need look for a fault in.

A change covers a host (or all hosts of its cluster) from its start to its end. A drain that begins within it was
planned, and so was the end of a session on one of its hosts that did not complete. What nothing covers stays unknown: a
table of changes is never complete.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from aftershock.schemas.changes import Change
from aftershock.schemas.sessions import Exclusion, Session

US: Final = 1_000_000
_ASSUMED: Final = "assumed_zone"
# A clock that shows an hour twice is wrong by an hour.
MOST_SLACK_S: Final = 3601.0

# Kinds that somebody set out to do. A repair follows a fault, and a ticket says nothing about it.
PLANNED_KINDS: Final = frozenset({"maintenance", "driver_change"})
# Exclusions that a person or a program decides on; the others follow from requests and from retries.
_DECIDED: Final = frozenset({"drain", "down", "reservation", "cordon"})
# Ends that a session comes to by itself, and states that are no end.
_NO_CUT: Final = frozenset({"COMPLETED", "RUNNING", "PENDING", None})


@dataclass(frozen=True)
class ChangeRules:
    """How near a planned change something has to be.

    moment_s: a change without an end is taken to last this long: an hour.
    """

    moment_s: float = 3600.0


def mark_planned(
    changes: Iterable[Change],
    exclusions: Iterable[Exclusion],
    sessions: Iterable[Session],
    rules: ChangeRules | None = None,
) -> None:
    """Fill ``planned`` of exclusions and sessions, in place, where it is null and a change covers them.

    Order does not matter, and a row is marked by itself: exclusions and sessions may come in any parts, as long as all
    changes of their hosts, and those of all hosts of a cluster, are there. A row is planned if a planned change covers
    it, and not planned if only changes do that are said to be unplanned. Change and row without a cluster go with any.
    A change whose zone was assumed covers only sessions of which the same holds.
    """
    covers = _Covers(changes, rules or ChangeRules())
    for exclusion in exclusions:
        if exclusion.planned is None and exclusion.how in _DECIDED and exclusion.start_time is not None:
            exclusion.planned = covers.at(exclusion.cluster, [exclusion.host], exclusion.start_time, assumed=False)
    for session in sessions:
        if session.planned is None and session.end_time is not None and session.state not in _NO_CUT:
            assumed = session.time_basis == _ASSUMED
            hosts: Sequence[str | None] = session.hosts if session.hosts is not None else [None]
            session.planned = covers.at(session.cluster, hosts, session.end_time, assumed=assumed)


def is_planned(change: Change) -> bool | None:
    """Whether a change was planned: as it says, else by its kind; null where neither tells."""
    if change.planned is not None:
        return change.planned
    return True if change.kind in PLANNED_KINDS else None


class _Covers:
    """Spans of time by host and cluster, of planned changes and of unplanned ones."""

    def __init__(self, changes: Iterable[Change], rules: ChangeRules) -> None:
        spans: dict[tuple[object, ...], list[tuple[int, int]]] = defaultdict(list)
        for change in changes:
            planned = is_planned(change)
            if planned is None or change.start_time is None:
                continue
            # A date alone may be wrong by a day, but its span is that day already.
            error = change.time_error_s or 0.0
            slack = round(error * US) if error <= MOST_SLACK_S else 0
            end = change.end_time if change.end_time is not None else change.start_time + round(rules.moment_s * US)
            assumed = change.time_basis == _ASSUMED
            key = (planned, assumed, change.cluster, change.host)
            spans[key].append((change.start_time - slack, end + slack))
        self._spans = {key: _Union(group) for key, group in spans.items()}
        self._clusters = {key[2] for key in self._spans}

    def at(self, cluster: str | None, hosts: Sequence[str | None], time: int, *, assumed: bool) -> bool | None:
        """Whether it was planned that something happened to one of these hosts at a moment; null if nothing covers it.

        A host of None stands for hosts that nobody knows: only what is about a whole cluster covers it.
        """
        clusters = self._clusters if cluster is None else self._clusters & {cluster, None}
        wanted = [*dict.fromkeys(hosts), None] if hosts else []
        for planned in (True, False):
            keys = ((planned, assumed, name, host) for name in clusters for host in wanted)
            if any(key in self._spans and time in self._spans[key] for key in keys):
                return planned
        return None


class _Union:
    """Spans of time, joined where they touch."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(spans):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)

    def __contains__(self, time: int) -> bool:
        i = bisect_right(self._starts, time) - 1
        return i >= 0 and time <= self._ends[i]
