"""A change, wherever it was written down, as rows: one for each host that it is about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from aftershock.parsers.clock import DAY, NO_CLOCK, ClockKind, Reading
from aftershock.parsers.documents.cell_values import CellClock
from aftershock.parsers.formats import Found, Refused
from aftershock.parsers.hostlist import CAP
from aftershock.parsers.hosts import HostNames
from aftershock.schemas.changes import CHANGE_KINDS, Change

# A list of hosts is a row for each. A table that lists a whole cluster this often means the cluster.
MOST_ROWS: Final = 500_000
_EXCERPT: Final = 512
_LONGEST_TEXT: Final = 16 << 10
_UTC: Final = frozenset({"epoch", "zoned"})
_NAMES: Final = HostNames()

# Words for all hosts.
ALL_HOSTS: Final = frozenset({"all", "*", "any", "cluster", "all hosts", "all nodes"})

# What sites call the kinds.
_KINDS: Final = {
    "maint": "maintenance",
    "planned maintenance": "maintenance",
    "scheduled maintenance": "maintenance",
    "maintenance window": "maintenance",
    "repaired": "repair",
    "rma": "repair",
    "replacement": "repair",
    "replaced": "repair",
    "swap": "repair",
    "driver": "driver_change",
    "driver change": "driver_change",
    "driver update": "driver_change",
    "driver upgrade": "driver_change",
    "incident": "ticket",
    "issue": "ticket",
    "root cause": "verdict",
    "alarm": "alert",
    "alerting": "alert",
}


def kind_of(word: str | None) -> str | None:
    """The kind that a word means, None for one that means none."""
    key = (word or "").strip().lower().replace("-", "_")
    if key in CHANGE_KINDS:
        return key
    return _KINDS.get(key.replace("_", " "))


@dataclass(slots=True)
class Told:
    """A change as it was read. hosts: None for all hosts of the cluster, or for none that is named."""

    hosts: list[str] | None
    start: CellClock | None
    end: CellClock | None = None
    kind: str = "other"
    change_id: str | None = None
    cluster: str | None = None
    planned: bool | None = None
    verdict: str | None = None
    by: str | None = None
    text: str | None = None


class ChangeRows:
    """Turns what was read into rows, for one source; what cannot be one is refused."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._made = 0

    @property
    def most_hosts(self) -> int:
        """How many hosts the next list may stand for: there is always room for one."""
        return max(1, min(CAP, MOST_ROWS - self._made))

    def refused(self, offset: int, raw: bytes, reason: str) -> Refused:
        """A refusal in the name of the format."""
        return Refused(offset, len(raw), f"{self._tool}: {reason}", raw[:_EXCERPT])

    def of(self, told: Told, offset: int, raw: bytes) -> Iterator[Found | Refused]:
        """The rows of one change, and what of it cannot be read."""
        if told.start is None:
            yield self.refused(offset, raw, "a change without its start")
            return
        start, end, kind, problem = _span(told.start, told.end)
        if problem is not None:
            yield self.refused(offset, raw, problem)
        told.text, told.verdict = (value and value[:_LONGEST_TEXT] for value in (told.text, told.verdict))
        hosts = told.hosts
        if hosts is not None:
            wrong = [host for host in hosts if _NAMES.of(host) is None]
            hosts = [host for host in hosts if host not in wrong] if wrong else hosts
            if wrong:
                yield self.refused(offset, raw, f"no name that a host can have: {wrong[0][:64]}")
            if len(hosts) > 1 and self._made + len(hosts) > MOST_ROWS:
                yield self.refused(offset, raw, f"lists of hosts that come to more than {MOST_ROWS} rows")
                return
        clock = told.start
        step = max(clock.resolution, told.end.resolution if told.end is not None else 1)
        reading = Reading(kind, start, resolution=step, text=clock.text or None) if kind != "none" else NO_CLOCK
        for host in [None] if hosts is None else hosts:
            self._made += 1
            row = Change(
                change_id=told.change_id,
                cluster=told.cluster,
                host=host,
                start_time=start,
                end_time=end,
                kind=told.kind,
                planned=told.planned,
                verdict=told.verdict,
                by=told.by,
                text=told.text,
            )
            yield Found(row, reading, offset)


def _span(start: CellClock, end: CellClock | None) -> tuple[int, int | None, ClockKind, str | None]:
    """Start, end, kind of both clocks, and what is wrong with the end. A day as the end is meant as a whole."""
    if end is None:
        return start.wall, None, start.kind, None
    if start.kind != end.kind and not {start.kind, end.kind} <= _UTC:
        return start.wall, None, start.kind, "end_time is not read: its clock is not that of the start"
    last = end.wall + DAY if end.resolution == DAY else end.wall
    if last < start.wall:
        return start.wall, None, start.kind, "end_time is before start_time"
    return start.wall, last, start.kind, None
