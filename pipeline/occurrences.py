"""One occurrence once: the same event seen through several logs is one row with several sources.

Two rows of one host are the same occurrence if everything that they say is equal and their times agree within their
summed errors; text alone never merges. Within one source repeats add up; between sources that saw the same burst the
count is the largest, not the sum.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import Final

from aftershock.parsers.fold import content_of
from aftershock.parsers.hosts import domain_of
from aftershock.pipeline.boot_clocks import borrow_times
from aftershock.schemas.events import EventRow, GpuError, HealthCheck, NodeEvent, SchedulerEvent, TrainingEvent
from aftershock.schemas.ids import stable_id

# Columns by which an event is told from another one at the same host and time; the id is made of them.
_IDENTITY: Final[dict[type[EventRow], tuple[str, ...]]] = {
    GpuError: ("family", "code", "pci", "pid", "link", "message"),
    NodeEvent: ("kind", "device", "pid", "message"),
    HealthCheck: ("checker", "check", "device", "gpu_uuid", "pci", "message"),
    SchedulerEvent: ("kind", "raw_job_id", "array_task", "hosts", "message"),
}

# What one log may say of an event and another one leave out, though it is the same event.
_TOLD_ELSEWHERE: Final = ("host_raw", "gpu_uuid", "gpu_serial", "gpu_index")

# What logrotate and its like put behind the name of a log.
_ROTATED: Final = re.compile(r"(?:(?:\.\d{1,4}|[-.]\d{8}(?:[-T]?\d{4,6})?|\.old)?(?:\.(?:gz|zst|bz2|xz))?)\Z")


class HostClash(Exception):
    """Two hosts whose names become the same when the domain is cut off."""


def check_names(rows: Iterable[EventRow]) -> None:
    """Make sure that every short name stands for one host.

    Raises:
        HostClash: the same short name with two domains.
    """
    domains: dict[str, str] = {}
    for row in rows:
        domain = domain_of(row.host_raw)
        if not row.host or not domain or not (row.host_raw or "").lower().startswith(row.host + "."):
            continue
        first = domains.setdefault(row.host, domain)
        if first != domain:
            raise HostClash(
                f"{row.host}.{first} and {row.host}.{domain} would both become {row.host}: "
                "give them names in [hosts.aliases] of the configuration"
            )


def merge_occurrences(rows: Sequence[EventRow], burst_gap: int) -> list[EventRow]:
    """Rows of one or more hosts with each occurrence once (``burst_gap`` in microseconds). Order does not matter."""
    borrow_times(rows, _TOLD_ELSEWHERE)
    groups: dict[Hashable, list[EventRow]] = defaultdict(list)
    kept: list[EventRow] = []
    for row in rows:
        if row.time is None or (row.host is None and not isinstance(row, SchedulerEvent)):
            kept.append(row)
        else:
            groups[_same_thing(row)].append(row)
    for group in groups.values():
        # What a scheduler says twice it does twice: only views of several sources are merged there.
        gap = burst_gap if isinstance(group[0], (GpuError, NodeEvent)) else -1
        kept.extend(_bursts(group, gap) if len(group) > 1 else group)
    return kept


def _same_thing(row: EventRow) -> Hashable:
    """What two rows must share: all content but the spelling of the host and what other lines told about the GPU."""
    content = content_of(row.table, _TOLD_ELSEWHERE)(row)
    if isinstance(row, (SchedulerEvent, TrainingEvent)):
        content = tuple(tuple(value) if isinstance(value, list) else value for value in content)
    return type(row), row.time_basis == "assumed_zone", content


def _by_time(row: EventRow) -> tuple[int, str, int]:
    return row.time or 0, row.source or "", row.byte_offset or 0


def _bursts(group: list[EventRow], gap: int) -> list[EventRow]:
    """Merge what overlaps in time (seen twice) and then what follows within the gap (repeated)."""
    group.sort(key=_by_time)
    seen: list[list[EventRow]] = []
    for row in group:
        if seen and _overlap(seen[-1], row):
            seen[-1].append(row)
        else:
            seen.append([row])
    merged: list[EventRow] = []
    for views in seen:
        row = _one_view(views)
        if merged and (row.time or 0) - (merged[-1].last_time or 0) <= gap:
            _append(merged[-1], row)
        else:
            merged.append(row)
    return merged


def _overlap(views: list[EventRow], row: EventRow) -> bool:
    """Whether another source saw one of these bursts: their spans touch within the summed errors."""
    return any(
        view.source != row.source and (row.time or 0) - (view.last_time or 0) <= _error_us(view) + _error_us(row)
        for view in views
    )


def log_of(source: str | None) -> str:
    """The log that a file is a part of: ``kern.log.2.gz`` and ``kern.log-20260301`` are parts of ``kern.log``.

    What stands in two parts of one log was written twice; what stands in two logs may have been written once.
    """
    return _ROTATED.sub("", source or "")


def _error_us(row: EventRow) -> int:
    return round((row.time_error_s or 0.0) * 1_000_000)


def _one_view(views: list[EventRow]) -> EventRow:
    if len(views) == 1:
        return views[0]
    best = min(views, key=lambda row: (row.time_error_s or 0.0, *_by_time(row)))
    per_log: dict[str, int] = defaultdict(int)
    for row in views:
        per_log[log_of(row.source)] += row.count or 1
    best.count = max(per_log.values())
    best.last_time = max(row.last_time or 0 for row in views if row.time_error_s == best.time_error_s)
    best.sources = _places(views)
    for name in _TOLD_ELSEWHERE:
        known = [value for row in views if (value := getattr(row, name, None)) is not None]
        if known and getattr(best, name) is None:
            setattr(best, name, min(known))
    return best


def _append(burst: EventRow, row: EventRow) -> None:
    burst.count = (burst.count or 1) + (row.count or 1)
    burst.last_time = max(burst.last_time or 0, row.last_time or 0)
    burst.sources = _places([burst, row])


def _places(rows: Iterable[EventRow]) -> list[str]:
    """The first place in each source, in order."""
    first: dict[str, int] = {}
    for place in (place for row in rows for place in row.sources or []):
        source, _, offset = place.rpartition(":")
        first[source] = min(int(offset), first.get(source, int(offset)))
    return [f"{source}:{offset}" for source, offset in sorted(first.items())]


def give_ids(rows: Iterable[EventRow]) -> None:
    """Give every event its id: from host, time, identity and its ordinal among equals."""
    groups: dict[tuple[object, ...], list[EventRow]] = defaultdict(list)
    for row in rows:
        groups[_id_parts(row)].append(row)
    for parts, equals in groups.items():
        if len(equals) > 1:
            equals.sort(key=_by_time)
        for ordinal, row in enumerate(equals):
            row.event_id = stable_id("e", *parts, ordinal)


def _id_parts(row: EventRow) -> tuple[object, ...]:
    place = None if row.time is not None else (row.byte_offset or 0)
    identity = [getattr(row, name) for name in _IDENTITY.get(type(row), ("message",))]
    hashable = (tuple(value) if isinstance(value, list) else value for value in identity)
    return (row.table, row.host, row.time, place, *hashable)
