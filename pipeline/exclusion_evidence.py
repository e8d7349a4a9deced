"""What speaks for an exclusion: hardware faults on that host shortly before it.

"No fault seen" and "nobody looked" are different answers: an exclusion without a fault is one without evidence only if
somebody looked at the host in that time, else it is unknown.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from aftershock.pipeline.attempts import US
from aftershock.pipeline.exclusion_rules import ExclusionRules
from aftershock.schemas.events import EventRow, GpuError, HealthCheck, NodeEvent
from aftershock.schemas.sessions import Exclusion
from aftershock.schemas.topology import Coverage

# Classes of faults that are the host's own, not those of what ran on it.
_FAULTS: Final = frozenset({"hardware", "fabric", "thermal"})
# What a user's program printed is no evidence, nor is a fault that was injected.
_NO_TRUST: Final = frozenset({"user", "injected"})
# Hangs and panics are no fault of the hardware by themselves, and a full file system is none of the host's.
HARDWARE_KINDS: Final = frozenset(
    {
        "gpu_init_failed",
        "gpu_lost",
        "io_error",
        "link_down",
        "machine_check",
        "memory_error",
        "nic_error",
        "nvme_error",
        "pcie_error",
        "power",
        "raid_degraded",
        "thermal",
    }
)


def is_fault(row: EventRow) -> bool:
    """Whether an event is a fault of the host that it names."""
    if row.host is None or row.time is None:
        return False
    if isinstance(row, GpuError):
        return row.fault_class in _FAULTS and row.trust not in _NO_TRUST and row.severity != "correctable"
    if not isinstance(row, NodeEvent) or row.kind not in HARDWARE_KINDS:
        return False
    return row.trust not in _NO_TRUST and row.severity != "correctable"


def looks_at(rows: Iterable[EventRow]) -> list[Coverage]:
    """For each host the time from the first to the last record of its kernel, and of checks of its health."""
    spans: dict[tuple[str, str], tuple[int, int, str | None]] = {}
    for row in rows:
        if row.time is None or row.host is None:
            continue
        if isinstance(row, (GpuError, NodeEvent)):
            if row.trust == "user":
                continue
            kind = "kernel"
        elif isinstance(row, HealthCheck):
            kind = "health"
        else:
            continue
        last = row.last_time if row.last_time is not None else row.time
        span = spans.get((row.host, kind))
        if span is None:
            spans[row.host, kind] = row.time, last, row.cluster
        else:
            spans[row.host, kind] = min(span[0], row.time), max(span[1], last), row.cluster
    return [
        Coverage(cluster=cluster, host=host, kind=kind, start_time=first, end_time=last, state="present")
        for (host, kind), (first, last, cluster) in sorted(spans.items(), key=lambda item: item[0])
    ]


class Evidence:
    """Faults and looks by host, found by time."""

    def __init__(self, events: Iterable[EventRow], coverage: Iterable[Coverage], rules: ExclusionRules) -> None:
        self._rules = rules
        faults: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
        for row in events:
            if is_fault(row):
                last = row.last_time if row.last_time is not None else row.time
                faults[row.host or ""].append((row.time or 0, last or 0, row.event_id or ""))
        self._faults = {host: sorted(set(found)) for host, found in faults.items()}
        self._firsts = {host: [first for first, _, _ in found] for host, found in self._faults.items()}
        self._longest = {host: max(last - first for first, last, _ in found) for host, found in self._faults.items()}
        self._looks: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for look in coverage:
            if look.host and look.state != "absent" and look.start_time is not None:
                self._looks[look.host].append((look.start_time, look.end_time or look.start_time))

    def mark(self, exclusions: Iterable[Exclusion]) -> None:
        """Fill ``evidenced`` and ``evidence_event_ids``, in place."""
        known: dict[tuple[str, int], Sequence[str]] = {}
        window, slack = round(self._rules.evidence_window_s * US), round(self._rules.evidence_slack_s * US)
        for row in exclusions:
            host, start = row.host, row.start_time
            if host is None or start is None:
                continue
            found = known.get((host, start))
            if found is None:
                found = known[host, start] = self._within(host, start - window, start + slack)
            if found:
                row.evidenced, row.evidence_event_ids = True, list(found)
            elif any(first <= start + slack and last >= start - window for first, last in self._looks.get(host, ())):
                row.evidenced, row.evidence_event_ids = False, []

    def _within(self, host: str, since: int, until: int) -> list[str]:
        found = self._faults.get(host)
        if found is None:
            return []
        firsts = self._firsts[host]
        begin = bisect_left(firsts, since - self._longest[host])
        stop = bisect_right(firsts, until)
        return [name for _, last, name in found[begin:stop] if last >= since and name]
