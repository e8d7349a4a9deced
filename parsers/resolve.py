"""Clocks of one source: which year, which zone, which boot. Null rather than a guess.

Order of evidence: what the line itself states (epoch, zone); what the configuration states; what other lines of the
same source state (an absolute time beside a local one, a wall clock beside a boot-relative one, the order of year-less
dates); and only where the caller says so, the zone of this machine, marked ``assumed_zone``.
"""

from __future__ import annotations

import bisect
import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from aftershock.parsers.clock import (
    BOOT_RESTART,
    DAY,
    MINUTE,
    SECOND,
    Reading,
    day_micros,
    zone_offset_micros,
)
from aftershock.parsers.zones import Crowd, shift_between

HALF_YEAR: Final = 183 * DAY
YEAR: Final = 366 * DAY  # of 1972
LATE: Final = 3 * DAY
HOUR: Final = 60 * MINUTE

# Zones are multiples of a quarter of an hour; an anchor further off than this from one says nothing about the zone.
QUARTER: Final = 15 * MINUTE
ANCHOR_SLACK: Final = 2 * MINUTE


class BadZone(ValueError):
    """A time zone that nobody knows."""


class Resolved(NamedTuple):
    """UTC microseconds or None, how they are known, and how wrong they can be in seconds."""

    time: int | None
    basis: str
    error_s: float | None


UNKNOWN: Final = Resolved(None, "none", None)


@dataclass(frozen=True)
class ClockRules:
    """What is stated from outside about the clock of a source.

    zone: IANA name or ``+09:00``; None if nothing is stated. assumed: the zone is only this machine's own.
    year: the year of the first record of a source whose dates have none. inferred: whether zone and year may be
        inferred from other lines, and from the time at which a collector took a line. nearby: whether the zone may be
        inferred from lines with an absolute time that only stand near local ones, too.
    """

    zone: str | None = None
    assumed: bool = False
    year: int | None = None
    inferred: bool = True
    nearby: bool = False


@lru_cache(maxsize=256)
def zone_of(name: str) -> dt.tzinfo:
    """The zone of an IANA name or of an offset such as ``+09:00``.

    Raises:
        BadZone: there is no such zone.
    """
    offset = zone_offset_micros(name)
    if offset is not None:
        return dt.timezone(dt.timedelta(microseconds=offset))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise BadZone(f"unknown time zone {name!r}: give an IANA name such as Asia/Seoul, or +09:00") from error


@lru_cache(maxsize=65536)
def offset_at(zone: str, wall_minute: int) -> tuple[int, bool]:
    """Offset east of UTC in microseconds at a wall clock minute, and whether that wall clock comes twice or never."""
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(minutes=wall_minute)
    tz = zone_of(zone)
    early = moment.replace(tzinfo=tz, fold=0).utcoffset() or dt.timedelta(0)
    late = moment.replace(tzinfo=tz, fold=1).utcoffset() or dt.timedelta(0)
    return early // dt.timedelta(microseconds=1), early != late


class SourceClock:
    """The clock of one source, fitted from all its readings in the order of their offsets.

    ``sections``: offsets at which another text begins within the source (a file within a file). Years and boots are not
    followed over them; zones and full dates, which are those of the host, hold for all. ``crowd``: further lines with a
    local clock, of which at least the first one is among the readings.
    """

    def __init__(
        self,
        readings: Iterable[tuple[int, Reading]],
        rules: ClockRules,
        sections: Iterable[int] = (),
        crowd: Crowd | None = None,
    ) -> None:
        self._rules = rules
        self._crowd = crowd
        ordered = sorted(readings, key=lambda pair: pair[0])
        self._sections = sorted(sections)
        self.has_local = any(reading.kind in ("local", "yearless") for _, reading in ordered)
        self._years = self._fit_years(ordered)
        self._anchors = self._fit_anchors(ordered)
        # What the fit of the boots works out is asked for again, record by record.
        self._by_offset: dict[int, tuple[Reading, Resolved]] = {}
        self._boots = self._fit_boots(ordered)

    @property
    def lacks_year(self) -> bool:
        """Whether dates without a year stand in the source and nothing says which year it was."""
        return any(years.unknown for years in self._years)

    @property
    def zone_basis(self) -> str | None:
        """How local times are turned into UTC: ``zoned``, ``inferred_zone``, ``assumed_zone`` or None."""
        if self._rules.zone and not self._rules.assumed:
            return "zoned"
        if self._anchors:
            return "inferred_zone"
        return "assumed_zone" if self._rules.zone else None

    @property
    def zone_name(self) -> str | None:
        """The zone that local times are read in."""
        basis = self.zone_basis
        if basis == "inferred_zone":
            minutes = self._anchors[0][1] // MINUTE
            return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"
        return self._rules.zone if basis else None

    def resolve(self, offset: int, reading: Reading) -> Resolved:
        """When the record at ``offset`` happened."""
        known = self._by_offset.get(offset)
        by_wall = known[1] if known and known[0] is reading else self._by_wall(offset, reading)
        if by_wall.time is not None or reading.boot is None:
            return by_wall
        return self._boots.at(offset, reading)

    def _by_wall(self, offset: int, reading: Reading) -> Resolved:
        error = reading.resolution / SECOND
        if reading.wall is None or reading.kind == "none":
            return UNKNOWN
        if reading.kind in ("epoch", "zoned"):
            return Resolved(reading.wall, reading.kind, error)
        wall: int | None = reading.wall
        year_basis = None
        if reading.kind == "yearless":
            wall, year_basis = self._years[self._section_of(offset)].at(offset, reading.wall)
            if wall is None:
                return UNKNOWN
        basis = self.zone_basis
        if basis is None:
            return UNKNOWN
        assert wall is not None
        if basis == "inferred_zone":
            shift, twice = self._anchor_at(offset), False
        else:
            shift, twice = offset_at(self._rules.zone or "UTC", wall // MINUTE)
        if basis == "zoned" and year_basis:
            basis = year_basis
        return Resolved(wall - shift, basis, error + (HOUR / SECOND if twice else 0.0))

    def _section_of(self, offset: int) -> int:
        return bisect.bisect_right(self._sections, offset)

    def _fit_years(self, ordered: Sequence[tuple[int, Reading]]) -> list[_Years]:
        if not self._sections:
            return [_Years(ordered, ordered, self._rules)]
        parts: list[list[tuple[int, Reading]]] = [[] for _ in range(len(self._sections) + 1)]
        for pair in ordered:
            parts[self._section_of(pair[0])].append(pair)
        return [_Years(part, ordered, self._rules) for part in parts]

    def _fit_anchors(self, ordered: Sequence[tuple[int, Reading]]) -> list[tuple[int, int]]:
        """(offset in the file, zone offset) from lines that print an absolute time beside a local one."""
        anchors: list[tuple[int, int]] = []
        for offset, reading in ordered if self._rules.inferred else ():
            if reading.epoch is None or reading.wall is None or reading.kind not in ("local", "yearless"):
                continue
            wall: int | None = reading.wall
            if reading.kind == "yearless":
                wall = _nearest_year(reading.wall, reading.epoch)
            if wall is None:
                continue
            shift = round((wall - reading.epoch) / QUARTER) * QUARTER
            if abs(wall - reading.epoch - shift) <= ANCHOR_SLACK and abs(shift) <= 16 * HOUR:
                anchors.append((offset, shift))
        if not anchors and self._rules.nearby and self.has_local:
            near = shift_between(ordered, _nearest_year, self._crowd)
            anchors += [] if near is None else [(0, near)]
        return anchors

    @property
    def anchors(self) -> list[tuple[int, int]]:
        """Where in the file lines tell the zone, and how far it is ahead of UTC."""
        return self._anchors

    def _anchor_at(self, offset: int) -> int:
        i = bisect.bisect_left(self._anchors, (offset, 0))
        near = self._anchors[max(0, i - 1) : i + 1] or self._anchors[-1:]
        return min(near, key=lambda anchor: abs(anchor[0] - offset))[1]

    def _fit_boots(self, ordered: Sequence[tuple[int, Reading]]) -> _Boots:
        pairs = []
        for offset, reading in ordered:
            if reading.boot is not None:
                wall = self._by_wall(offset, reading)
                self._by_offset[offset] = reading, wall
                pairs.append((offset, reading.boot, wall))
        return _Boots(pairs, self._sections)


class _Years:
    """Years of year-less dates: the order of the file shows where a year ends, an anchor says which one it was."""

    def __init__(
        self, ordered: Sequence[tuple[int, Reading]], whole: Sequence[tuple[int, Reading]], rules: ClockRules
    ) -> None:
        self._offsets: list[int] = []
        self._turns: list[int] = []  # years since the first record
        self._first: int | None = None
        self.basis = "inferred_year"
        previous: int | None = None
        turn = 0
        for offset, reading in ordered:
            if reading.kind != "yearless" or reading.wall is None:
                continue
            if previous is not None:
                # A log may be silent for months: forward is the same year, unless a late line of the old year stands
                # behind the first ones of the new.
                if previous - reading.wall > HALF_YEAR:
                    turn += 1
                elif turn and reading.wall - previous > YEAR - LATE:
                    turn -= 1
            previous = reading.wall
            self._offsets.append(offset)
            self._turns.append(turn)
        if not self._offsets:
            return
        if rules.year is not None:
            self._first = rules.year
            self.basis = ""  # stated, not inferred
        elif rules.inferred:
            # A date of the same text is nearer than one of another text in the source.
            self._first = self._from_anchor(ordered) or self._from_anchor([*ordered, *whole])

    def _from_anchor(self, ordered: Sequence[tuple[int, Reading]]) -> int | None:
        """The year of the first record, from the first line that states a full date."""
        for offset, reading in ordered:
            absolute = reading.epoch if reading.kind == "yearless" else reading.wall
            if absolute is None or reading.kind == "none":
                continue
            i = min(bisect.bisect_left(self._offsets, offset), len(self._offsets) - 1)
            near = next(r for o, r in ordered if o == self._offsets[i] and r.kind == "yearless")
            wall = _nearest_year(near.wall or 0, absolute)
            if wall is not None:
                return _year_of(wall) - self._turns[i]
        return None

    @property
    def unknown(self) -> bool:
        """Whether there are year-less dates and no year for them."""
        return bool(self._offsets) and self._first is None

    def at(self, offset: int, wall: int) -> tuple[int | None, str | None]:
        """The wall clock in its own year, and the basis if the year was inferred."""
        if self._first is None:
            return None, None
        i = max(0, bisect.bisect_right(self._offsets, offset) - 1)
        return _in_year(wall, self._first + self._turns[i]), self.basis or None


def _year_of(wall: int) -> int:
    return (dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=wall)).year


def _in_year(wall: int, year: int) -> int | None:
    """A year-less wall clock (counted in 1972) moved to ``year``; None if that year has no such day."""
    midnight = _same_day(wall // DAY, year)
    return None if midnight is None else midnight + wall % DAY


@lru_cache(maxsize=4096)
def _same_day(day: int, year: int) -> int | None:
    """Midnight of the day of ``year`` that has the month and number of a day (counted from 1970) of the year 1972."""
    moment = dt.date(1970, 1, 1) + dt.timedelta(days=day)
    return day_micros(year, moment.month, moment.day)


def _nearest_year(wall: int, absolute: int) -> int | None:
    """A year-less wall clock moved to the year that brings it nearest to an absolute time."""
    year = _year_of(absolute)
    moved = [m for m in (_in_year(wall, y) for y in (year - 1, year, year + 1)) if m is not None]
    return min(moved, key=lambda m: abs(m - absolute), default=None)


class _Boots:
    """Boot segments of a source, each with the offset between its boot-relative clock and the wall clock."""

    def __init__(self, pairs: Sequence[tuple[int, int, Resolved]], sections: Sequence[int]) -> None:
        self._starts: list[int] = []
        self._fits: list[_BootFit | None] = []
        segment: list[tuple[int, Resolved]] = []
        highest = -1
        section = 0
        for offset, boot, wall in pairs:
            before, section = section, bisect.bisect_right(sections, offset)
            if highest >= 0 and (boot < highest - BOOT_RESTART or section != before):
                self._fits.append(_fit(segment))
                segment, highest = [], -1
            if not segment:
                self._starts.append(offset)
            highest = max(highest, boot)
            segment.append((boot, wall))
        if segment:
            self._fits.append(_fit(segment))

    def at(self, offset: int, reading: Reading) -> Resolved:
        """UTC of a boot-relative clock, if its boot has records with both clocks."""
        i = bisect.bisect_right(self._starts, offset) - 1
        fit = self._fits[i] if i >= 0 else None
        if fit is None or reading.boot is None:
            return UNKNOWN
        return Resolved(reading.boot + fit.offset, fit.basis, fit.error_s)


class _BootFit(NamedTuple):
    offset: int
    basis: str
    error_s: float


def _fit(segment: Sequence[tuple[int, Resolved]]) -> _BootFit | None:
    """Median offset between wall and boot clock in microseconds, and its error; an assumed zone stays an assumption."""
    known = [(wall.time - boot, wall.error_s or 0.0) for boot, wall in segment if wall.time is not None]
    if not known:
        return None
    offsets = sorted(offset for offset, _ in known)
    middle = offsets[len(offsets) // 2]
    spread = max(abs(offsets[0] - middle), abs(offsets[-1] - middle)) / SECOND
    assumed = any(wall.basis == "assumed_zone" for _, wall in segment)
    basis = "assumed_zone" if assumed else "boot_offset"
    return _BootFit(middle, basis, spread + max(error for _, error in known))
