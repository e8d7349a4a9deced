"""Bursts: errors of one GPU, code and process that follow each other within a short gap, whatever their wording.

The three lines of an Xid 13 and an Xid 31 that comes back on every processor of the GPU are one burst each: message and
location (GPC and TPC, link) may differ. Rows stay as they are, they only share a ``burst_id``.

Where a row stands in time is a position on an axis: UTC where it is known, else a clock that the source prints. Rows on
different axes, or of different hosts, are never near each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from aftershock.parsers.clock import BOOT_RESTART, Reading
from aftershock.pipeline.fault_codes import Nature, nature_of
from aftershock.schemas.columns import Row
from aftershock.schemas.events import EventRow, GpuError, NodeEvent
from aftershock.schemas.ids import stable_id

Scope = tuple[Hashable, ...]

# Local wall clocks of a source count as one axis, year-less ones as another.
_WALLS: Final = ("local", "yearless")


class Placed(NamedTuple):
    """A row and where it stands: host and axis, first and last position in microseconds."""

    row: GpuError
    scope: Scope
    first: int
    last: int


@dataclass(slots=True, eq=False)
class Burst:
    """Rows of one burst. ``gpu``: whatever names the GPU on its host, None if nothing does."""

    rows: list[GpuError]
    gpu: str | None
    nature: Nature
    first: int
    last: int
    id: str = ""
    caused_by: set[int] = field(default_factory=set)

    @property
    def code(self) -> int | None:
        """The code that all its rows have."""
        return self.rows[0].code

    @property
    def pid(self) -> int | None:
        """The process id that all its rows have."""
        return self.rows[0].pid

    @property
    def process(self) -> str | None:
        """The process name that all its rows have."""
        return self.rows[0].process

    @property
    def order(self) -> tuple[int, str]:
        """Earlier first; the id settles ties, so that the order of the input never does."""
        return self.first, self.id

    @property
    def precedence(self) -> tuple[int, int, str]:
        """The cause first: by rank, then by time."""
        return self.nature.rank, self.first, self.id


def placed_by_time(rows: Iterable[GpuError]) -> list[Placed]:
    """Rows by their time in UTC; those without one are left out. Assumed zones are an axis of their own."""
    return [
        Placed(row, (*_writer(row), "assumed" if row.time_basis == "assumed_zone" else "utc"), row.time, _end(row))
        for row in rows
        if row.time is not None
    ]


def placed_by_clock(rows: Sequence[Row], clocks: Sequence[tuple[Reading, Reading]]) -> list[Placed]:
    """The errors of one source by UTC, and where that is not known by the clocks that they print.

    ``rows``: all rows of the source in the order of the file, the others tell where a boot begins.
    """
    placed: list[Placed] = []
    boots: dict[str | None, int] = defaultdict(int)
    uptimes: dict[str | None, int] = {}
    for row, (first, last) in zip(rows, clocks, strict=True):
        if not isinstance(row, EventRow):
            continue
        if first.boot is not None:
            back = uptimes.get(row.host, 0) - first.boot > BOOT_RESTART
            if back or (isinstance(row, NodeEvent) and row.kind == "boot"):
                boots[row.host] += 1
            uptimes[row.host] = first.boot
        if not isinstance(row, GpuError):
            continue
        if row.time is not None:
            placed += placed_by_time([row])
        elif first.kind in _WALLS and first.wall is not None:
            end = first.wall if last.wall is None else last.wall
            placed.append(Placed(row, (*_writer(row), first.kind), first.wall, end))
        elif first.boot is not None:
            end = first.boot if last.boot is None else last.boot
            placed.append(Placed(row, (*_writer(row), "boot", boots[row.host]), first.boot, end))
    return placed


def _writer(row: GpuError) -> tuple[str, ...]:
    """Rows are compared within a host; without one within their source. What users wrote is apart from the rest."""
    where = ("host", row.host) if row.host else ("source", row.source or "")
    return (*where, "user") if row.trust == "user" else where


def _end(row: GpuError) -> int:
    return max(row.time or 0, row.last_time or 0)


def bursts_of(placed: Sequence[Placed], gap: int) -> list[Burst]:
    """The bursts of one scope, with their ids, in order, whatever the order of the input (``gap`` in microseconds)."""
    addresses = _addresses(placed)
    groups: dict[Hashable, list[tuple[Placed, str | None]]] = defaultdict(list)
    for item in placed:
        gpu = _gpu(item.row, addresses)
        groups[_alike(item.row, gpu)].append((item, gpu))
    bursts: list[Burst] = []
    for group in groups.values():
        group.sort(key=lambda entry: (entry[0].first, entry[0].last))
        current: Burst | None = None
        for item, gpu in group:
            if current is None or item.first - current.last > gap:
                current = Burst([], gpu, nature_of(item.row), item.first, item.last)
                bursts.append(current)
            current.rows.append(item.row)
            current.last = max(current.last, item.last)
            if item.row.caused_by is not None:
                current.caused_by.add(item.row.caused_by)
    for burst in bursts:
        burst.id = _id_of(burst)
        for row in burst.rows:
            row.burst_id = burst.id
    bursts.sort(key=lambda burst: burst.order)
    return bursts


def _addresses(placed: Iterable[Placed]) -> dict[str, str]:
    """UUID to address, where rows of the same host say so: an agent may name a GPU by one, the kernel by the other."""
    known: dict[str, set[str]] = defaultdict(set)
    for item in placed:
        if item.row.gpu_uuid and item.row.pci:
            known[item.row.gpu_uuid].add(item.row.pci)
    return {uuid: next(iter(addresses)) for uuid, addresses in known.items() if len(addresses) == 1}


def _gpu(row: GpuError, addresses: dict[str, str]) -> str | None:
    if row.pci:
        return row.pci
    if row.gpu_uuid:
        return addresses.get(row.gpu_uuid, row.gpu_uuid)
    if row.gpu_index is not None:
        return f"index {row.gpu_index}"
    return row.pci_raw


def _alike(row: GpuError, gpu: str | None) -> Hashable:
    """What the rows of a burst share. Errors without a code are told apart by what they say."""
    kind: object = row.code if row.code is not None else row.message
    severity = row.severity if row.family in ("sxid", "fabric_manager") else None
    return row.family, kind, severity, gpu, row.mig_gi, row.mig_ci, row.pid, row.process, row.trust == "injected"


def _id_of(burst: Burst) -> str:
    first = [row.event_id for row in burst.rows if row.event_id and row.time == burst.first]
    if first:
        # Named after its first event, as far as events have ids: no two bursts begin with the same.
        return "burst-" + min(first).rpartition("-")[2]
    row = burst.rows[0]
    what = row.code if row.code is not None else row.message
    who = (burst.gpu, row.mig_gi, row.mig_ci, row.pid, row.process)
    where = row.host or row.source
    return stable_id("burst", where, row.family, what, row.severity, row.trust == "injected", *who, burst.first)
