"""The events that metrics are asked about, and the hosts that did the same work at that time."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from aftershock.pipeline.attempts import ASSUMED, US
from aftershock.pipeline.exclusion_evidence import HARDWARE_KINDS
from aftershock.pipeline.metrics.rules import WindowRules
from aftershock.schemas.events import EventRow, GpuError, NodeEvent, SchedulerEvent, TrainingEvent
from aftershock.schemas.sessions import Session

# Peers beyond this many tell no more about what is usual in a job.
MOST_PEERS: Final = 128
_NODE_KINDS: Final = HARDWARE_KINDS | {"panic", "hung_task", "soft_lockup", "oom_kill", "nfs_not_responding"}


@dataclass(frozen=True)
class Asked:
    """An event with a host and a time. ``peers``: the other hosts of the session that ran there. Microseconds."""

    event_id: str
    host: str
    time: int
    error: int
    gpu_uuid: str | None = None
    pci: str | None = None
    gpu_index: int | None = None
    peers: tuple[str, ...] = ()


def is_asked(row: EventRow) -> bool:
    """Whether metrics may have shown something of an event: a fault, or what may have been one."""
    # A time in a zone that was assumed is joined only with its like: samples know theirs.
    if row.time is None or row.event_id is None or row.time_basis == ASSUMED:
        return False
    if isinstance(row, GpuError):
        return row.role != "follow_on"
    if isinstance(row, NodeEvent):
        return row.kind in _NODE_KINDS
    if isinstance(row, SchedulerEvent):
        return row.kind == "node_down"
    return isinstance(row, TrainingEvent) and row.error_role == "root"


def asked_of(events: Iterable[EventRow], sessions: Iterable[Session]) -> list[Asked]:
    """The events that are asked about, one for each burst of a GPU, in the order of time."""
    running = _Running(sessions)
    found: dict[object, Asked] = {}
    for row in sorted((row for row in events if is_asked(row)), key=lambda row: (row.time or 0, row.event_id or "")):
        hosts = hosts_of(row)
        for host in hosts:
            key = (row.burst_id, host) if isinstance(row, GpuError) and row.burst_id else (row.event_id, host)
            if key not in found:
                found[key] = _asked(row, host, running)
    return list(found.values())


def hosts_of(row: EventRow) -> Sequence[str]:
    """The hosts that an event is about."""
    if isinstance(row, SchedulerEvent) and row.hosts:
        return row.hosts
    return [row.host] if row.host else []


def _asked(row: EventRow, host: str, running: _Running) -> Asked:
    gpu = row if isinstance(row, GpuError) else None
    return Asked(
        event_id=row.event_id or "",
        host=host,
        time=row.time or 0,
        error=round((row.time_error_s or 0.0) * US),
        gpu_uuid=gpu.gpu_uuid if gpu else None,
        pci=gpu.pci if gpu else None,
        gpu_index=gpu.gpu_index if gpu else None,
        peers=running.beside(host, row.time or 0),
    )


class _Running:
    """Which hosts worked together when."""

    def __init__(self, sessions: Iterable[Session]) -> None:
        self._by_host: dict[str, list[tuple[int, int, tuple[str, ...]]]] = defaultdict(list)
        for row in sessions:
            if row.start_time is not None and row.hosts and len(row.hosts) > 1:
                hosts = tuple(row.hosts)
                end = row.end_time if row.end_time is not None else 1 << 62
                for host in hosts:
                    self._by_host[host].append((row.start_time, end, hosts))
        for spans in self._by_host.values():
            spans.sort(key=lambda span: span[:2])

    def beside(self, host: str, time: int) -> tuple[str, ...]:
        spans = self._by_host.get(host, [])
        # Records of an end are late by some seconds: a fault that ended its session still belongs to it.
        for start, end, hosts in reversed(spans[: bisect_right(spans, (time, 1 << 62, ()))]):
            if start <= time <= end + 120 * US:
                return tuple(other for other in hosts if other != host)[:MOST_PEERS]
        return ()


def window_ms(one: Asked, rules: WindowRules) -> tuple[int, int, int, int]:
    """Begin of the baseline, begin of the window, the event, and the end of the window (which it does not hold)."""
    before = one.time - one.error - round(rules.before_s * US)
    begin = before - round(rules.baseline_s * US)
    end = one.time + one.error + round(rules.after_s * US)
    return begin // 1000, before // 1000, one.time // 1000, end // 1000 + 1
