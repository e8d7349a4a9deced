"""Faults that metrics may have shown, and the times in which a host was not healthy because of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aftershock.pipeline.metrics.alarm_rules import AlarmRules
from aftershock.pipeline.metrics.asked import hosts_of, is_asked
from aftershock.pipeline.metrics.spans import Spans, joined_spans
from aftershock.schemas.events import EventRow, GpuError
from aftershock.schemas.incidents import Incident
from aftershock.schemas.sessions import Exclusion

_NO_TRUST: Final = frozenset({"user", "injected"})


@dataclass(frozen=True)
class Fault:
    """A fault on a host: the first event of it there. Times in milliseconds.

    xid: whether the driver of a GPU named it; fault_class: that of the error.
    """

    fault_id: str
    host: str
    time: int
    error: int
    xid: bool
    fault_class: str | None = None
    incident_id: str | None = None


def faults_of(events: Iterable[EventRow], incidents: Iterable[Incident] = ()) -> list[Fault]:
    """One fault for each incident and host; events of no incident by their episode. In the order of time."""
    incident_of = {event: row.incident_id for row in incidents for event in row.event_ids or ()}
    first: dict[tuple[str, str], Fault] = {}
    for row in events:
        if not is_asked(row) or getattr(row, "trust", None) in _NO_TRUST:
            continue
        gpu = row if isinstance(row, GpuError) else None
        if gpu is not None and gpu.severity == "correctable":
            continue
        incident = incident_of.get(row.event_id or "")
        name = incident or (gpu.episode_id if gpu is not None else None) or row.event_id or ""
        for host in hosts_of(row):
            fault = Fault(
                name,
                host,
                (row.time or 0) // 1000,
                round((row.time_error_s or 0.0) * 1000),
                gpu is not None and gpu.family in ("xid", "sxid"),
                gpu.fault_class if gpu is not None else None,
                incident,
            )
            known = first.get((name, host))
            # What the driver named goes before what else was seen of the same incident.
            if known is None or (not fault.xid, fault.time) < (not known.xid, known.time):
                first[name, host] = fault
    return sorted(first.values(), key=lambda fault: (fault.time, fault.host, fault.fault_id))


def unhealthy(faults: Sequence[Fault], exclusions: Iterable[Exclusion], rules: AlarmRules) -> Mapping[str, Spans]:
    """For each host the times (milliseconds) around its faults, and those in which it was kept from work."""
    spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
    before, after = round(rules.before_s * 1000), round(max(rules.after_s, rules.recovery_s) * 1000)
    for fault in faults:
        spans[fault.host].append((fault.time - fault.error - before, fault.time + fault.error + after))
    for row in exclusions:
        # A list of hosts that one session left out says nothing of what they did meanwhile.
        if row.host and row.start_time is not None and row.how in ("drain", "down", "cordon", "reservation"):
            end = 1 << 60 if row.end_time is None else row.end_time // 1000
            spans[row.host].append((row.start_time // 1000, end))
    return {host: joined_spans(own) for host, own in spans.items()}
