"""The times of hosts between which nothing is compared: a job begins or ends, and everything is different."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from aftershock.pipeline.attempts import ASSUMED
from aftershock.schemas.sessions import Session


@dataclass(frozen=True)
class Segment:
    """Hosts that do the same work in cells [first, end). ``works``: False while they do none that is known."""

    hosts: tuple[str, ...]
    first: int
    end: int
    works: bool = True


def segments_of(sessions: Iterable[Session], watched: Mapping[str, tuple[int, int]], step_ms: int) -> list[Segment]:
    """The whole time of each watched host, cut where sessions begin and end. Without sessions it is not cut.

    ``watched``: first cell of each host, and the one behind its last. Of sessions that share a host at the same time
    the first has it.
    """
    placed = [row for row in sessions if row.start_time is not None and row.hosts and row.time_basis != ASSUMED]
    if not placed:
        return [Segment((host,), first, end) for host, (first, end) in sorted(watched.items())]
    busy: dict[str, list[tuple[int, int]]] = defaultdict(list)
    found = []
    for row in sorted(placed, key=lambda row: (row.start_time or 0, row.session_id or "")):
        step = step_ms * 1000
        # What lies partly in a session is not of it.
        first = -(-(row.start_time or 0) // step)
        end = 1 << 40 if row.end_time is None else row.end_time // step
        by_span: dict[tuple[int, int], list[str]] = defaultdict(list)
        for host in sorted(set(row.hosts or ())):
            if host not in watched:
                continue
            span = (max(first, watched[host][0]), min(end, watched[host][1]))
            if span[0] < span[1] and not any(one[0] < span[1] and span[0] < one[1] for one in busy[host]):
                busy[host].append(span)
                by_span[span].append(host)
        found += _alike(by_span)
    return [*found, *_idle(busy, watched)]


def _alike(by_span: Mapping[tuple[int, int], Sequence[str]]) -> list[Segment]:
    """One segment of all hosts, over the time that any of them was watched: what a host lacks is not a number."""
    if not by_span:
        return []
    hosts = sorted(host for own in by_span.values() for host in own)
    first, end = min(span[0] for span in by_span), max(span[1] for span in by_span)
    return [Segment(tuple(hosts), first, end)]


def _idle(busy: Mapping[str, Sequence[tuple[int, int]]], watched: Mapping[str, tuple[int, int]]) -> list[Segment]:
    found = []
    for host, (first, end) in sorted(watched.items()):
        at = first
        for begin, until in sorted(busy.get(host, ())):
            if at < begin:
                found.append(Segment((host,), at, begin, works=False))
            at = max(at, until)
        if at < end:
            found.append(Segment((host,), at, end, works=False))
    return found
