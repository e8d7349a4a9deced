"""Boot clocks over the logs of one host: a log that counts from boot borrows the time from one that also knows it.

Equal content at the same microsecond since boot is the same event: it shows which boot a log without wall clock is
of. One such pair is proof for its whole log; without one its times stay unknown, since every boot counts from zero.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from statistics import median_low
from typing import Final

from aftershock.parsers.clock import BOOT_RESTART, SECOND
from aftershock.parsers.fold import content_of
from aftershock.schemas.events import EventRow, GpuError, NodeEvent

# A journal and the ring buffer print the same clock; some collectors cut it to milliseconds.
_SAME: Final = 1_000


def borrow_times(rows: Sequence[EventRow], told_elsewhere: tuple[str, ...]) -> None:
    """Fill in ``time`` of rows that have only ``uptime_s``, from rows of other logs of the same host.

    ``told_elsewhere``: columns in which two views of one event may differ.
    """
    timed: dict[Hashable, list[EventRow]] = defaultdict(list)
    lacking: dict[tuple[str, str], list[EventRow]] = defaultdict(list)
    for row in rows:
        if row.uptime_s is None or row.host is None or not isinstance(row, (GpuError, NodeEvent)):
            continue
        if row.time is None:
            lacking[row.host, row.source or ""].append(row)
        elif row.time_basis != "assumed_zone":
            timed[row.table, content_of(row.table, told_elsewhere)(row)].append(row)
    for log in lacking.values():
        found = [pair for row in log for pair in _offsets(row, timed, told_elsewhere)]
        if found and max(found)[0] - min(found)[0] <= BOOT_RESTART:
            best = min(error for _, error in found)
            middle = median_low([offset for offset, error in found if error == best])
            for row in log:
                _set_time(row, middle, best)


def _uptime(row: EventRow) -> int:
    return round((row.uptime_s or 0.0) * SECOND)


def _offsets(
    row: EventRow, timed: dict[Hashable, list[EventRow]], told_elsewhere: tuple[str, ...]
) -> list[tuple[int, float]]:
    """Microseconds between wall clock and boot clock, and their error, from other logs' views of this event."""
    views = timed.get((row.table, content_of(row.table, told_elsewhere)(row)), ())
    return [
        ((view.time or 0) - _uptime(view), view.time_error_s or 0.0)
        for view in views
        if view.source != row.source and abs(_uptime(view) - _uptime(row)) <= _SAME
    ]


def _set_time(row: EventRow, offset: int, error_s: float) -> None:
    row.time = row.last_time = _uptime(row) + offset
    row.time_basis, row.time_error_s = "boot_offset", error_s
