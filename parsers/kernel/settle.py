"""Joins what the kernel says over several lines: twins of Xid 79, identities of GPUs, rows about hosts."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

from aftershock.parsers.clock import BOOT_RESTART, SECOND, micros_between
from aftershock.parsers.formats import Found
from aftershock.parsers.kernel.catalog import NVLINK5, decode_nvlink5, driver_of
from aftershock.parsers.kernel.gpu import BOOTED, IDENTITY, LOADED, LOST, SERIAL
from aftershock.parsers.kernel.joins import join_hosts
from aftershock.parsers.kernel.pcie import REPORT, join_reports
from aftershock.schemas.events import GpuError, NodeEvent
from aftershock.schemas.topology import Gpu

# The driver prints Xid 79 and its twin within a millisecond; syslog may stamp them a few seconds apart.
_TWIN_WITHIN: Final = 5 * SECOND
# Without a clock in common, lines as near as this in the file belong together.
_TWIN_BYTES: Final = 2048


# The driver names a GPU before its first error since it was loaded, and the board below that.
_PRINTED: Final = (IDENTITY, SERIAL, "")


def settle(found: list[Found]) -> list[Found]:
    """All rows of one source in the order of their offsets, with what belongs together joined."""
    if not is_newest_first(found):
        return _joined(found)
    return sorted(_joined(found[::-1]), key=lambda item: item.offset)


def is_newest_first(found: list[Found]) -> bool:
    """Whether a source was printed newest first, as log stores do, told by the records of each host.

    Where two clocks agree or are missing, the order tells in which the driver prints what it says of a GPU. A clock
    from boot that falls back far tells of another boot.
    """
    forward = backward = 0
    by_host: dict[str | None, list[Found]] = defaultdict(list)
    for item in found:
        by_host[_host(item)].append(item)
    for items in by_host.values():
        for first, second in itertools.pairwise(items):
            passed = micros_between(first.reading, second.reading) or _printed_between(first, second)
            if first.reading.wall is None and passed < -BOOT_RESTART:
                continue
            forward, backward = forward + (passed > 0), backward + (passed < 0)
    return backward > forward


def _printed_between(first: Found, second: Found) -> int:
    """How far behind the first the driver prints the second of two lines about a GPU; 0 for other lines."""
    if not all(isinstance(item.row, (Gpu, GpuError)) and item.mark in _PRINTED for item in (first, second)):
        return 0
    return _PRINTED.index(second.mark) - _PRINTED.index(first.mark)


def _joined(found: list[Found]) -> list[Found]:
    if any(isinstance(item.row, GpuError) and item.row.code in NVLINK5 for item in found):
        _decode_links(found)
    if not any(item.mark for item in found):
        return found
    if any(item.mark == REPORT for item in found):
        found = join_reports(found)
    found = join_hosts(found)
    if any(item.mark == LOST for item in found):
        found = _without_twins(found)
    if any(item.mark in (IDENTITY, SERIAL) for item in found):
        found = _with_identities(found)
    return found


def _decode_links(found: list[Found]) -> None:
    """Read the words of NVLink 5 errors by the driver that was loaded last on the host, in the same boot."""
    drivers: dict[str | None, int | None] = {}
    for item in found:
        row, host = item.row, _host(item)
        if item.mark == BOOTED:
            drivers.pop(host, None)
        elif item.mark == LOADED and isinstance(row, NodeEvent):
            drivers[host] = driver_of(row.message)
        elif isinstance(row, GpuError) and row.family == "xid" and row.code in NVLINK5:
            decode_nvlink5(row, drivers.get(host))


def _host(item: Found) -> str | None:
    row = item.row
    return row.host if isinstance(row, Gpu) else getattr(row, "host_raw", None)


def _is_near(xid: Found, line: Found) -> bool:
    """Whether a line stands near an Xid (or near the burst that it begins), in time and in the file."""
    begin = micros_between(xid.reading, line.reading)
    if begin is None:
        return xid.offset - _TWIN_BYTES <= line.offset <= (xid.until or xid.offset) + _TWIN_BYTES
    end = begin if xid.last is None else micros_between(xid.last, line.reading)
    return begin >= -_TWIN_WITHIN and end is not None and end <= _TWIN_WITHIN


def _without_twins(found: list[Found]) -> list[Found]:
    """Drop ``fallen off the bus`` lines that only repeat an Xid 79 of the same GPU."""
    fallen: dict[tuple[str | None, str], list[Found]] = defaultdict(list)
    redacted: dict[str | None, list[Found]] = defaultdict(list)
    of_redacted: dict[int, str | None] = {}  # a blackened address is that of one GPU, whichever
    for item in found:
        row = item.row
        if isinstance(row, GpuError) and row.family == "xid" and row.code == 79:
            if row.pci is not None:
                fallen[_host(item), row.pci].append(item)
            else:
                redacted[_host(item)].append(item)

    def is_twin(item: Found) -> bool:
        if item.mark != LOST:
            return False
        device = getattr(item.row, "device", None)
        if any(_is_near(xid, item) for xid in fallen.get((_host(item), device or ""), ())):
            return True
        near = (xid for xid in redacted.get(_host(item), ()) if _is_near(xid, item))
        return any(of_redacted.setdefault(id(xid), device) == device for xid in near)

    return [item for item in found if not is_twin(item)]


@dataclass
class _Load:
    """One load of the driver on one host: who sat where."""

    uuids: dict[str, str] = field(default_factory=dict)
    serials: dict[str, str] = field(default_factory=dict)
    rows: dict[tuple[str | None, str | None], Found] = field(default_factory=dict)


def _with_identities(found: list[Found]) -> list[Found]:
    """Put UUIDs and serial numbers on the errors of the same load of the driver; keep one Gpu row for each GPU."""
    loads: dict[str | None, _Load] = {}
    uptimes: dict[str | None, int] = {}
    last_named: dict[str | None, Found] = {}
    of_item: list[_Load] = []
    for item in found:
        host = _host(item)
        uptime = item.reading.boot
        again = uptime is not None and uptime < uptimes.get(host, 0) - BOOT_RESTART
        if again or item.mark in (LOADED, BOOTED) or host not in loads:
            loads[host] = _Load()
            last_named.pop(host, None)
        if uptime is not None:
            uptimes[host] = uptime
        load = loads[host]
        of_item.append(load)
        row = item.row
        if not isinstance(row, Gpu):
            continue
        if item.mark == SERIAL:
            named = last_named.pop(host, None)
            pci = named.row.pci if named is not None and isinstance(named.row, Gpu) else None
            if pci is None or row.gpu_serial is None:
                continue  # whose it is stands in a line that is not here
            load.serials.setdefault(pci, row.gpu_serial)
        elif row.pci is not None:
            if row.gpu_uuid is not None:
                load.uuids.setdefault(row.pci, row.gpu_uuid)
            if row.gpu_serial is not None:
                load.serials.setdefault(row.pci, row.gpu_serial)
            load.rows.setdefault((row.pci, load.uuids.get(row.pci)), item)
            last_named[host] = item
    kept = []
    told: set[tuple[str | None, str | None, str | None, str | None]] = set()
    for item, load in zip(found, of_item, strict=True):
        row = item.row
        if isinstance(row, Gpu):
            if item.mark == SERIAL or row.pci is None:
                continue
            row.gpu_uuid = row.gpu_uuid or load.uuids.get(row.pci)
            row.gpu_serial = row.gpu_serial or load.serials.get(row.pci)
            identity = (row.host, row.pci, row.gpu_uuid, row.gpu_serial)
            if identity in told:
                continue
            told.add(identity)
        elif isinstance(row, GpuError) and row.family == "xid" and row.pci is not None:
            row.gpu_uuid = row.gpu_uuid or load.uuids.get(row.pci)
            row.gpu_serial = row.gpu_serial or load.serials.get(row.pci)
        kept.append(item)
    return kept
