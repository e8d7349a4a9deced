"""Folding: equal records within a burst become one row with a count.

Rows are equal if everything that they say is equal, the message included; only clock and place may differ. They are one
burst if no step between neighbours is longer than the gap: between neighbours in time where they print a clock, and
between neighbours in the file where none of them does. Lines without any clock that stand near each other in one file
are a repetition there; nothing is known of when, so that only their count is said. A boot, or a load of the driver,
between two of them ends a burst, and is never a repetition itself.

That closure does not depend on order or on how the records were cut into groups, so folding may begin within a block
and go on per source and per host.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

from aftershock.parsers.clock import BOOT_RESTART, Reading
from aftershock.parsers.formats import Found
from aftershock.schemas.events import GpuError, NodeEvent
from aftershock.schemas.tables import TABLES

FOLDED: Final = (GpuError, NodeEvent)

# Records without a clock are one burst up to this many bytes from one to the next: a file of any size gives few rows.
GAP_BYTES: Final = 1 << 20

# With these another life of the host or of the driver begins: what is said before and after them is not the same.
_BEGINNINGS: Final = ("boot", "driver_load")

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
    items = sorted(found, key=lambda item: item.offset)
    kept: list[Found] = []
    groups: dict[tuple[str, Hashable], list[Found]] = {}
    for item, life in zip(items, _lives(items), strict=True):
        axis = axis_of(item)
        if axis is None:
            kept.append(item)
            continue
        content = content_of(item.row.table)(item.row)
        alike = (type(item.row), item.mark, life if axis in ("boot", "place") else None, content)
        group = groups.setdefault((axis, alike), [])
        if not (group and _absorb(group[-1], item, axis, gap)):
            group.append(item)
    for (axis, _), group in groups.items():
        kept.extend(_closure(group, axis, gap) if len(group) > 1 else group)
    kept.sort(key=lambda item: item.offset)
    return kept


def axis_of(item: Found) -> str | None:
    """By what two records of one source are compared: a kind of wall clock, ``boot``, or ``place`` in the file.

    None: the record is not folded.
    """
    row, reading = item.row, item.reading
    if not isinstance(row, FOLDED) or (isinstance(row, NodeEvent) and row.kind in _BEGINNINGS):
        return None
    if reading.wall is not None and reading.kind != "none":
        return reading.kind
    if reading.boot is not None:
        return "boot"
    # A stamp that cannot be read is no clock, but it may tell two records apart.
    return "place" if reading.text is None else None


def span_of(item: Found, axis: str) -> tuple[int, int]:
    """The first and the last position of what was folded into a record."""
    if axis == "place":
        return item.offset, item.offset if item.until is None else item.until
    return position_of(item.reading, axis), position_of(item.last or item.reading, axis)


def position_of(reading: Reading, axis: str) -> int:
    """Microseconds on the axis of a clock."""
    position = reading.boot if axis == "boot" else reading.wall
    assert position is not None
    return position


def _order(reading: Reading, axis: str) -> tuple[int, int, str]:
    """Of clocks that agree, the one that says more: the latest does not hang on the order in which lines came."""
    return position_of(reading, axis), -1 if reading.boot is None else reading.boot, reading.text or ""


def _lives(items: Sequence[Found]) -> list[int]:
    """For each record, in the order of the file, in which life of its host or driver it stands.

    A clock that counts from boot says nothing about another boot: where it falls back, another one began.
    """
    lives: dict[str | None, int] = defaultdict(int)
    highest: dict[str | None, int] = {}
    # A burst tells of the clock where it begins and where it ends.
    later = [(item.until, -1, item) for item in items if item.until is not None and item.last is not None]
    places = sorted([(item.offset, n, item) for n, item in enumerate(items)] + later, key=lambda place: place[:2])
    found = [0] * len(items)
    for _, number, item in places:
        host = getattr(item.row, "host_raw", None)
        reading = item.reading if number >= 0 or item.last is None else item.last
        if reading.boot is not None:
            before = highest.get(host, reading.boot)
            if reading.boot < before - BOOT_RESTART:
                lives[host], before = lives[host] + 1, reading.boot
            highest[host] = max(before, reading.boot)
        if isinstance(item.row, NodeEvent) and item.row.kind in _BEGINNINGS:
            lives[host] += 1
        if number >= 0:
            found[number] = lives[host]
    return found


def _absorb(into: Found, item: Found, axis: str, gap: int) -> bool:
    """Fold ``item`` into ``into`` if no more than the gap lies between them; the earlier place stays."""
    a_first, a_last = span_of(into, axis)
    b_first, b_last = span_of(item, axis)
    most = GAP_BYTES if axis == "place" else gap
    if b_first - a_last > most or a_first - b_last > most:
        return False
    count = _count(into) + _count(item)
    until = max(place if at is None else at for place, at in ((into.offset, into.until), (item.offset, item.until)))
    if axis != "place":
        into.last = max((into.last or into.reading, item.last or item.reading), key=lambda r: _order(r, axis))
    if (b_first, item.offset) < (a_first, into.offset):
        into.row, into.reading, into.offset = item.row, item.reading, item.offset
    into.row.count = count  # type: ignore[attr-defined]
    into.until = until
    return True


def _count(item: Found) -> int:
    assert isinstance(item.row, FOLDED)
    return item.row.count or 1


def _closure(group: list[Found], axis: str, gap: int) -> list[Found]:
    group.sort(key=lambda item: (span_of(item, axis)[0], item.offset))
    merged = [group[0]]
    for item in group[1:]:
        if not _absorb(merged[-1], item, axis, gap):
            merged.append(item)
    return merged
