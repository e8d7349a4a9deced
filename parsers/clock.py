"""What a line says about when it happened, before anything outside the line is known.

A :class:`Reading` keeps the printed clock as it is. What it means in UTC is decided later, per source and in order
(:mod:`aftershock.parsers.settle`), from zones, years and boot offsets that no single line holds.
"""

from __future__ import annotations

import calendar
from functools import lru_cache
from typing import Final, Literal, NamedTuple

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
DAY: Final = 86_400 * SECOND

# A boot-relative clock that goes back by more than this began again; less is disorder between processors.
BOOT_RESTART: Final = 5 * SECOND

ClockKind = Literal["epoch", "zoned", "local", "yearless", "none"]

# Year-less dates are read in this year until their own is known: a leap year, so that Feb 29 can be read at all.
YEARLESS: Final = 1972

MONTHS: Final = {name: number for number, name in enumerate(calendar.month_abbr) if name}


class Reading(NamedTuple):
    """The clocks printed on one line. All numbers are microseconds.

    kind: what ``wall`` is. ``epoch`` and ``zoned`` are UTC; ``local`` is a wall clock without a zone, counted as if it
        were UTC; ``yearless`` is the same in the year 1972; ``none``: the line has no wall clock.
    wall: microseconds since 1970-01-01.
    boot: microseconds since boot, where the line has a boot-relative clock (it may have both).
    epoch: an absolute time that the line prints beside a local one: an anchor for zone and year.
    resolution: the smallest step of the printed clock.
    text: the time as printed.
    """

    kind: ClockKind = "none"
    wall: int | None = None
    boot: int | None = None
    epoch: int | None = None
    resolution: int = 1
    text: str | None = None


NO_CLOCK: Final = Reading()


@lru_cache(maxsize=4096)
def day_micros(year: int, month: int, day: int) -> int | None:
    """Microseconds from 1970-01-01 to midnight of that day, or None where there is no such day."""
    if not (1970 <= year <= 2200 and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]):
        return None
    return calendar.timegm((year, month, day, 0, 0, 0)) * SECOND


def wall_micros(year: int, month: int, day: int, hour: int, minute: int, second: int, micro: int = 0) -> int | None:
    """A wall clock as microseconds, counted as if it were UTC; None for an impossible date or time.

    Second 60 (a leap second) is read as the first second of the next minute.
    """
    midnight = day_micros(year, month, day)
    if midnight is None or hour > 23 or minute > 59 or second > 60:
        return None
    return midnight + ((hour * 60 + minute) * 60 + second) * SECOND + micro


def fraction_micros(digits: bytes | str | None) -> tuple[int, int]:
    """A printed fraction of a second as (microseconds, resolution in microseconds); finer digits are cut off."""
    if not digits:
        return 0, SECOND
    kept = digits[:6]
    scale: int = 10 ** (6 - len(kept))
    return int(kept) * scale, scale


def zone_offset_micros(text: bytes | str) -> int | None:
    """``Z``, ``+09:00``, ``+0900`` or ``+09`` as microseconds east of UTC; None if it is none of these."""
    word = text.decode("ascii", "replace") if isinstance(text, bytes) else text
    if word in ("Z", "z"):
        return 0
    digits = word[1:].replace(":", "")
    if word[:1] not in "+-" or not digits.isdigit() or len(digits) not in (2, 4):
        return None
    minutes = int(digits[:2]) * 60 + int(digits[2:] or 0)
    if minutes > 18 * 60:
        return None
    return (-minutes if word[0] == "-" else minutes) * MINUTE


def micros_between(earlier: Reading, later: Reading) -> int | None:
    """How far apart two records of one source are, by the clock that both have; None if they have none in common."""
    if earlier.boot is not None and later.boot is not None:
        return later.boot - earlier.boot
    if earlier.wall is not None and later.wall is not None:
        comparable = {"epoch": 0, "zoned": 0, "local": 1, "yearless": 2}
        if comparable.get(earlier.kind) == comparable.get(later.kind):
            return later.wall - earlier.wall
    return None
