"""What a host ran and when: driver, kernel and the rest, from boots, driver loads and reports that state them.

A new kernel or driver is a new row. A boot tells the kernel; what the driver is after a boot into another kernel is
unknown until it is loaded. A report (nvidia-smi, DCGM) that finds another driver than before, after a boot, is taken to
date from that boot.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from aftershock.schemas.events import NodeEvent
from aftershock.schemas.topology import Host

ATTRIBUTES: Final = ("driver", "kernel", "firmware", "rack", "role", "partition")
# What a boot into another kernel does not change.
_LASTING: Final = frozenset({"rack", "role", "partition"})

_DRIVER: Final = re.compile(r"loading NVIDIA UNIX .{0,60}?Kernel Module.{0,40}?\s(\d{2,4}\.\d{1,3}(?:\.\d{1,3})?)\b")
_KERNEL: Final = re.compile(r"Linux version (\S{1,128})")


class _Fact(NamedTuple):
    """What is known of a host at a time. ``exact``: it became so at this time, rather than was found so."""

    time: int
    rank: int
    exact: bool
    booted: bool
    values: tuple[tuple[str, str], ...]


@dataclass
class _Span:
    """A row in the making. ``seen``: when each attribute was last stated."""

    start: int | None
    values: dict[str, str] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    end: int | None = None


def merge_hosts(rows: Iterable[Host], node_events: Iterable[NodeEvent] = ()) -> list[Host]:
    """The table of hosts from reports (``valid_from``: when it was so) and from boots and driver loads.

    The order of the input does not matter. Rows and events without a host are left out.
    """
    facts: dict[tuple[str | None, str], set[_Fact]] = defaultdict(set)
    undated: dict[tuple[str | None, str], set[tuple[tuple[str, str], ...]]] = defaultdict(set)
    gone: dict[tuple[str | None, str], int] = {}
    for row in rows:
        if row.host is not None and row.valid_to is not None:
            gone[row.cluster, row.host] = max(row.valid_to, gone.get((row.cluster, row.host), row.valid_to))
        values = tuple((name, value) for name in ATTRIBUTES if (value := getattr(row, name)))
        if row.host is None or not values:
            continue
        if row.valid_from is None:
            undated[row.cluster, row.host].add(values)
        else:
            facts[row.cluster, row.host].add(_Fact(row.valid_from, 2, False, False, values))
    for event in node_events:
        fact = _fact_of(event)
        if fact is not None and event.host is not None:
            facts[event.cluster, event.host].add(fact)
    merged = []
    for key in sorted({*facts, *undated}, key=lambda pair: (pair[0] or "", pair[1])):
        spans = _spans(sorted(facts.get(key, ())))
        _add_undated(spans, sorted(undated.get(key, ())))
        # A host that is gone may come back: what was found of it later is true too.
        last = max((fact.time for fact in facts.get(key, ())), default=None)
        if key in gone and spans and (last is None or last <= gone[key]):
            spans[-1].end = gone[key]
        merged += [_row(key, span) for span in spans]
    return merged


def driver_version(message: str | None) -> str | None:
    """The version that the line of a driver load states."""
    found = _DRIVER.search(message or "")
    return found[1] if found else None


def kernel_version(message: str | None) -> str | None:
    """The release that the first line of a boot states."""
    found = _KERNEL.search(message or "")
    return found[1] if found else None


def _fact_of(event: NodeEvent) -> _Fact | None:
    if event.time is None:
        return None
    if event.kind == "boot":
        kernel = kernel_version(event.message)
        return _Fact(event.time, 0, True, True, (("kernel", kernel),) if kernel else ())
    if event.kind == "driver_load":
        driver = driver_version(event.message)
        return _Fact(event.time, 1, True, False, (("driver", driver),)) if driver else None
    return None


def _spans(facts: Sequence[_Fact]) -> list[_Span]:
    spans: list[_Span] = []
    booted: int | None = None
    for fact in facts:
        values = dict(fact.values)
        if fact.booted:
            booted = fact.time
            if values and spans and spans[-1].values.get("kernel") != values["kernel"]:
                lasting = {name: value for name, value in spans[-1].values.items() if name in _LASTING}
                _begin(spans, fact.time, lasting)
        if not values:
            continue
        if not spans:
            spans.append(_Span(fact.time if fact.exact else booted))
        changed = [name for name, value in values.items() if spans[-1].values.get(name, value) != value]
        if changed:
            last = max(spans[-1].seen.get(name, fact.time) for name in changed)
            start = booted if booted is not None and not fact.booted and booted > last else fact.time
            _begin(spans, start, {name: value for name, value in spans[-1].values.items() if name not in changed})
        spans[-1].values |= values
        spans[-1].seen |= dict.fromkeys(values, fact.time)
    return spans


def _begin(spans: list[_Span], start: int, values: dict[str, str]) -> None:
    seen = {name: time for name, time in spans[-1].seen.items() if name in values}
    spans[-1].end = start
    spans.append(_Span(start, values, seen))


def _add_undated(spans: list[_Span], undated: Sequence[tuple[tuple[str, str], ...]]) -> None:
    """What was so at some time: it fills in where it is the only word, and stands alone where it contradicts all."""
    words: dict[str, set[str]] = defaultdict(set)
    for values in undated:
        for name, value in values:
            words[name].add(value)
    for values in undated:
        agreeing = [s for s in spans if all(s.values.get(name, value) == value for name, value in values)]
        if not agreeing:
            spans.append(_Span(None, dict(values)))
        for span in agreeing:
            span.values |= {name: value for name, value in values if len(words[name]) == 1}


def _row(key: tuple[str | None, str], span: _Span) -> Host:
    row = Host(cluster=key[0], host=key[1], valid_from=span.start, valid_to=span.end)
    for name, value in span.values.items():
        setattr(row, name, value)
    return row
