"""Joins rows about hosts: one row for a fault that several lines tell, the cgroup of a kill, the duration of an outage.

A *lead* says what happened; an *echo* (its mark ends with ``~``) only says it again in other words, and is kept only
where no lead of its group stands near. In some groups a lead is an echo of the lead before it. All of it is one pass in
the order of the file; what is near is bounded in time, and in bytes where two lines have no clock in common.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from aftershock.parsers.clock import MINUTE, SECOND, Reading, micros_between
from aftershock.parsers.formats import Found
from aftershock.parsers.kernel.cpu import PANIC, STALL
from aftershock.parsers.kernel.gpu import BOOTED, LOADED
from aftershock.parsers.kernel.hardware import MACHINE
from aftershock.parsers.kernel.life import AMD_LOAD, SHUTDOWN, UNLOAD
from aftershock.parsers.kernel.memory import CHOSEN, KILLED, LIMITED
from aftershock.parsers.kernel.netfs import BEGINS, ENDS
from aftershock.parsers.kernel.network import ADAPTER, LINK
from aftershock.parsers.kernel.pcie import SLOT
from aftershock.parsers.kernel.power import PACKAGE
from aftershock.parsers.kernel.rules import ECHO
from aftershock.parsers.kernel.storage import DISK, FILE_SYSTEM, disk_of
from aftershock.schemas.events import NodeEvent

KIB: Final = 1024


def _of_host(_row: NodeEvent) -> str | None:
    return None


def _of_device(row: NodeEvent) -> str | None:
    return row.device


def _of_disk(row: NodeEvent) -> str | None:
    return disk_of(row.device)


def _of_link(row: NodeEvent) -> str | None:
    """The address of an adapter or port, and whether the link went down or came up."""
    return f"{(row.device or '').partition(' ')[0]} {row.kind}"


def _of_address(row: NodeEvent) -> str | None:
    return (row.device or "").partition(" ")[0]


def _of_server(row: NodeEvent) -> str | None:
    """The address of a server stands last in the device."""
    return (row.device or "").rpartition(" ")[2]


class Group(NamedTuple):
    """Rows of one mark that may tell the same fault.

    within, bytes: how far from the first row. key: what they have in common besides their host. single: whether a
    lead that follows a lead says the same again. ended_by: marks after which nothing belongs to what was before.
    """

    within: int
    bytes: int
    key: Callable[[NodeEvent], str | None] = _of_host
    single: bool = False
    ended_by: frozenset[str] = frozenset()


# How long the lines of one thing take: a machine goes down in minutes, a driver is unloaded in seconds, an oops prints
# its registers and stacks before the panic, blocks of hardware errors are printed at once.
GROUPS: Final = {
    SHUTDOWN: Group(10 * MINUTE, 256 * KIB, single=True, ended_by=frozenset({BOOTED})),
    UNLOAD: Group(MINUTE, 16 * KIB, single=True, ended_by=frozenset({BOOTED, LOADED})),
    AMD_LOAD: Group(MINUTE, 64 * KIB, ended_by=frozenset({BOOTED})),
    MACHINE: Group(SECOND, 4 * KIB),
    PANIC: Group(10 * SECOND, 32 * KIB, single=True, ended_by=frozenset({BOOTED})),
    STALL: Group(5 * SECOND, 16 * KIB, single=True),
    KILLED: Group(10 * SECOND, 64 * KIB),
    PACKAGE: Group(SECOND, 64 * KIB, single=True),
    LINK: Group(10 * SECOND, 4 * KIB, _of_link),
    SLOT: Group(SECOND, 4 * KIB, _of_link),
    ADAPTER: Group(5 * SECOND, 8 * KIB, _of_address, single=True),
    FILE_SYSTEM: Group(2 * SECOND, 8 * KIB, _of_device),
    DISK: Group(SECOND, 4 * KIB, _of_disk),
    BEGINS: Group(5 * SECOND, 4 * KIB, _of_server),
}
_ENDED_BY: Final = {
    mark: tuple(name for name, group in GROUPS.items() if mark in group.ended_by)
    for mark in {mark for group in GROUPS.values() for mark in group.ended_by}
}


def join_hosts(found: list[Found]) -> list[Found]:
    """All rows of one source, in order, with those about hosts joined."""
    marks = {item.mark for item in found}
    if not marks.isdisjoint((KILLED, CHOSEN, LIMITED)):
        found = _with_cgroups(found)
    if any(mark.removesuffix(ECHO) in GROUPS for mark in marks):
        found = _without_echoes(found)
    if ENDS in marks:
        _time_outages(found)
    return found


def _is_near(first: Found, later: Found, within: int, size: int) -> bool:
    """Whether ``later`` stands near ``first``, or near the burst that it begins."""
    begin = micros_between(first.reading, later.reading)
    if begin is None:
        return first.offset - size <= later.offset <= (first.until or first.offset) + size
    end = begin if first.last is None else micros_between(first.last, later.reading)
    return begin >= -within and end is not None and end <= within


def _without_echoes(found: list[Found]) -> list[Found]:
    last: dict[tuple[str, str | None, str | None], Found] = {}
    ended: dict[tuple[str, str | None], dict[str | None, Found]] = defaultdict(dict)
    gone: set[int] = set()
    for item in found:
        row = item.row
        if not isinstance(row, NodeEvent):
            continue
        for name in _ENDED_BY.get(item.mark, ()):
            for key in ended.pop((name, row.host_raw), ()):
                last.pop((name, row.host_raw, key), None)
        name = item.mark.removesuffix(ECHO)
        group = GROUPS.get(name)
        if group is None:
            continue
        place = (name, row.host_raw, group.key(row))
        before = last.get(place)
        is_echo = item.mark.endswith(ECHO)
        near = before is not None and _is_near(before, item, group.within, group.bytes)
        if before is not None and near and (is_echo or (group.single and not before.mark.endswith(ECHO))):
            _absorb(before, item)
            gone.add(id(item))
            continue
        if before is not None and near and before.mark.endswith(ECHO):
            _absorb(item, before)
            gone.add(id(before))
        last[place] = item
        if group.ended_by:
            ended[name, row.host_raw][place[2]] = item
    return [item for item in found if id(item) not in gone] if gone else found


def _absorb(kept: Found, echo: Found) -> None:
    """What an echo knows and the row that stays does not: an epoch, who was running, that it was fatal."""
    told, said = kept.row, echo.row
    assert isinstance(told, NodeEvent)
    assert isinstance(said, NodeEvent)
    if kept.reading.wall is None and echo.reading.kind == "epoch":
        kept.reading = echo.reading
    elif kept.reading.epoch is None and echo.reading.epoch is not None:
        kept.reading = kept.reading._replace(epoch=echo.reading.epoch)
    if told.pid is None and told.process is None:
        told.pid, told.process = said.pid, said.process
        told.device = told.device or said.device
    if said.severity == "fatal":
        told.severity = "fatal"


# The lines before a kill list the memory and the tasks of the machine.
_KILL_WITHIN: Final = 10 * SECOND
_KILL_BYTES: Final = 256 * KIB
_MOST_CHOSEN: Final = 16


@dataclass
class _Kills:
    """What was said before a kill on one host: the limit that was hit, and the tasks that were chosen."""

    limit: Found | None = None
    chosen: deque[Found] = field(default_factory=lambda: deque(maxlen=_MOST_CHOSEN))


def _with_cgroups(found: list[Found]) -> list[Found]:
    kills: dict[str | None, _Kills] = defaultdict(_Kills)
    gone: set[int] = set()
    for item in found:
        row = item.row
        if not isinstance(row, NodeEvent):
            continue
        if item.mark == LIMITED:
            kills[row.host_raw].limit = item
            gone.add(id(item))
        elif item.mark == CHOSEN:
            kills[row.host_raw].chosen.append(item)
        elif item.mark == KILLED:
            told = _told_before(kills[row.host_raw], item, row)
            if told is not None and isinstance(told.row, NodeEvent):
                row.device = told.row.device
                if told.row.pid == row.pid:
                    gone.add(id(told))
    return [item for item in found if id(item) not in gone]


def _told_before(kills: _Kills, kill: Found, row: NodeEvent) -> Found | None:
    """What was said of this task; else of the cgroup that is killed as a group, or whose limit was hit."""
    near = [item for item in kills.chosen if _is_near(item, kill, _KILL_WITHIN, _KILL_BYTES)]
    own = next((item for item in reversed(near) if isinstance(item.row, NodeEvent) and item.row.pid == row.pid), None)
    if own is not None:
        return own
    in_cgroup = (row.message or "").startswith("Memory cgroup")
    if in_cgroup and near:
        return near[-1]
    limit, kills.limit = kills.limit, kills.limit if in_cgroup else None
    return limit if limit is not None and _is_near(limit, kill, _KILL_WITHIN, _KILL_BYTES) else None


# Complaints of one outage come every few minutes; a longer silence, and it is another one.
_OUTAGE_GAP: Final = 15 * MINUTE
_OUTAGE_MOST: Final = 24 * 60 * MINUTE


@dataclass
class _Outage:
    first: Reading
    latest: Reading
    is_over: bool = False


def _time_outages(found: list[Found]) -> None:
    """Put on the end of an outage how long it took since its first complaint, in seconds."""
    outages: dict[tuple[str | None, str | None], _Outage] = {}
    for item in found:
        row = item.row
        if not isinstance(row, NodeEvent) or item.mark not in (BEGINS, BEGINS + ECHO, ENDS):
            continue
        place = (row.host_raw, _of_server(row))
        outage = outages.get(place)
        latest = item.last or item.reading
        if item.mark != ENDS:
            silence = None if outage is None else micros_between(outage.latest, item.reading)
            if outage is None or outage.is_over or silence is None or silence > _OUTAGE_GAP:
                outages[place] = _Outage(item.reading, latest)
            else:
                outage.latest = latest
        elif outage is not None:
            outage.is_over = True
            lasted = micros_between(outage.first, item.reading)
            if lasted is not None and 0 <= lasted <= _OUTAGE_MOST:
                row.value, row.unit = lasted / SECOND, "s"
