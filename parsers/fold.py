"""Folding: equal records within a burst become one row with a count.

Rows are equal if everything that they say is equal, the message included; only clock and place may differ. They are one
burst if no step between neighbours in time is longer than the gap. That closure does not depend on order or on how the
records were cut into groups, so folding may begin within a block and go on per source and per host.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

from aftershock.parsers.clock import BOOT_RESTART, Reading
from aftershock.parsers.formats import Found
from aftershock.schemas.events import GpuError, NodeEvent
from aftershock.schemas.tables import TABLES

FOLDED: Final = (GpuError, NodeEvent)

# What may differ between two prints of the same thing: place and time, and what is concluded from all the rest.
_PLACE_AND_TIME: Final = frozenset(
    {
        "mnemonic",
        "action",
        "fault_class",
        "burst_id",
        "episode_id",
        "role",
        "event_id",
        "time",
        "last_time",
        "time_local",
        "time_basis",
        "time_error_s",
        "uptime_s",
        "count",
        "source",
        "byte_offset",
        "sources",
    }
)


@lru_cache(maxsize=64)
def content_of(table: str, besides: tuple[str, ...] = ()) -> Callable[[Any], tuple[Hashable, ...]]:
    """A function from a row of a table to all that it says besides place and time, and besides some columns more."""
    left_out = _PLACE_AND_TIME.union(besides)
    return attrgetter(*(name for name in TABLES[table].column_names if name not in left_out))


def fold(found: Iterable[Found], gap: int) -> list[Found]:
    """Fold the foldable rows of one source (``gap`` in microseconds); the others pass. Sorted by offset."""
    kept: list[Found] = []
    groups: dict[Hashable, list[Found]] = {}
    boot, highest = 0, -1
    for item in sorted(found, key=lambda item: item.offset):
        # A clock that counts from boot says nothing about another boot: where it falls back, another one began.
        if item.reading.boot is not None:
            if item.reading.boot < highest - BOOT_RESTART:
                boot, highest = boot + 1, item.reading.boot
            highest = max(highest, item.reading.boot)
        position = _position(item.reading)
        if position is None or not isinstance(item.row, FOLDED):
            kept.append(item)
            continue
        content = content_of(item.row.table)(item.row)
        group = groups.setdefault((type(item.row), item.mark, position[0], _boot_of(position, boot), content), [])
        if not (group and _absorb(group[-1], item, gap)):
            group.append(item)
    for group in groups.values():
        kept.extend(_closure(group, gap) if len(group) > 1 else group)
    kept.sort(key=lambda item: item.offset)
    return kept


def _position(reading: Reading) -> tuple[str, int] | None:
    """The clock by which two records of one source are compared."""
    if reading.wall is not None and reading.kind != "none":
        return reading.kind, reading.wall
    return ("boot", reading.boot) if reading.boot is not None else None


def _boot_of(position: tuple[str, int], boot: int) -> int | None:
    return boot if position[0] == "boot" else None


def _span(item: Found) -> tuple[int, int]:
    first = _position(item.reading)
    last = _position(item.last) if item.last else first
    assert first is not None
    assert last is not None
    return first[1], last[1]


def _absorb(into: Found, item: Found, gap: int) -> bool:
    """Fold ``item`` into ``into`` if no more than the gap lies between them; the earlier place stays."""
    a_first, a_last = _span(into)
    b_first, b_last = _span(item)
    if b_first - a_last > gap or a_first - b_last > gap:
        return False
    count = _count(into) + _count(item)
    last = max((into.last or into.reading, item.last or item.reading), key=lambda r: (_position(r) or ("", 0))[1])
    if (b_first, item.offset) < (a_first, into.offset):
        into.row, into.reading, into.offset = item.row, item.reading, item.offset
    into.row.count = count  # type: ignore[attr-defined]
    into.last = last
    return True


def _count(item: Found) -> int:
    assert isinstance(item.row, FOLDED)
    return item.row.count or 1


def _closure(group: list[Found], gap: int) -> list[Found]:
    group.sort(key=lambda item: (_span(item)[0], item.offset))
    merged = [group[0]]
    for item in group[1:]:
        if not _absorb(merged[-1], item, gap):
            merged.append(item)
    return merged
