"""Clocks of a source: years, zones, boots; null rather than a guess."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.clock import SECOND, Reading, wall_micros
from aftershock.parsers.resolve import BadZone, ClockRules, SourceClock, zone_of


def wall(*fields: int) -> int:
    micros = wall_micros(*fields)
    assert micros is not None
    return micros


def utc(*fields: int) -> int:
    return int(dt.datetime(*fields, tzinfo=dt.timezone.utc).timestamp() * SECOND)


def yearless(month: int, day: int, hour: int = 0, boot: int | None = None) -> Reading:
    return Reading("yearless", wall(1972, month, day, hour, 0, 0), boot=boot, resolution=SECOND)


def test_a_line_that_states_its_zone_needs_nothing_else() -> None:
    reading = Reading("zoned", utc(2026, 3, 1, 12), resolution=1)
    resolved = SourceClock([(0, reading)], ClockRules(zone="Asia/Seoul")).resolve(0, reading)
    assert resolved == (utc(2026, 3, 1, 12), "zoned", 1e-6)


def test_local_time_without_any_zone_stays_unknown() -> None:
    reading = Reading("local", wall(2026, 3, 1, 12, 0, 0))
    assert SourceClock([(0, reading)], ClockRules()).resolve(0, reading).time is None


@pytest.mark.parametrize(("assumed", "basis"), [(False, "zoned"), (True, "assumed_zone")])
def test_stated_and_assumed_zones_are_told_apart(assumed: bool, basis: str) -> None:
    reading = Reading("local", wall(2026, 3, 1, 12, 0, 0), resolution=SECOND)
    resolved = SourceClock([(0, reading)], ClockRules("Asia/Seoul", assumed=assumed)).resolve(0, reading)
    assert resolved == (utc(2026, 3, 1, 3), basis, 1.0)


def test_the_hour_that_comes_twice_is_uncertain_by_an_hour() -> None:
    reading = Reading("local", wall(2025, 10, 26, 2, 30, 0), resolution=SECOND)
    resolved = SourceClock([(0, reading)], ClockRules("Europe/Berlin")).resolve(0, reading)
    assert resolved.error_s == 3601.0


def test_an_absolute_time_beside_a_local_one_gives_the_zone() -> None:
    anchor = Reading("local", wall(2026, 3, 1, 21, 0, 0), epoch=utc(2026, 3, 1, 12), resolution=SECOND)
    plain = Reading("local", wall(2026, 3, 1, 22, 0, 0), resolution=SECOND)
    clock = SourceClock([(0, anchor), (90, plain)], ClockRules("UTC", assumed=True))
    assert clock.resolve(90, plain) == (utc(2026, 3, 1, 13), "inferred_zone", 1.0)
    assert clock.zone_name == "+09:00"


def test_years_follow_the_order_of_the_file() -> None:
    readings = [(0, yearless(11, 30)), (50, yearless(12, 31, 23)), (100, yearless(1, 1)), (150, yearless(12, 30))]
    clock = SourceClock(readings, ClockRules("UTC", year=2025))
    years = [dt.datetime.fromtimestamp((clock.resolve(*r).time or 0) / SECOND, dt.timezone.utc).year for r in readings]
    assert years == [2025, 2025, 2026, 2025]  # the last one is a late line of the old year


@pytest.mark.parametrize(
    ("dates", "wanted"),
    [
        ([(1, 12), (8, 2)], [2024, 2024]),
        ([(2, 12), (11, 2)], [2024, 2024]),
        ([(1, 12), (8, 2), (10, 2), (1, 3)], [2024, 2024, 2024, 2025]),
        ([(1, 1), (12, 31)], [2024, 2024]),
    ],
)
def test_silence_of_months_is_no_turn_of_the_year(dates: list[tuple[int, int]], wanted: list[int]) -> None:
    readings = [(number * 100, yearless(*date)) for number, date in enumerate(dates)]
    clock = SourceClock(readings, ClockRules("UTC", year=2024))
    times = [dt.datetime.fromtimestamp((clock.resolve(*r).time or 0) / SECOND, dt.timezone.utc) for r in readings]
    assert [time.year for time in times] == wanted


def test_nothing_is_inferred_where_only_the_text_counts() -> None:
    collected = Reading("local", wall(2026, 3, 1, 21, 0, 0), epoch=utc(2026, 3, 1, 12))
    dated = yearless(3, 1)._replace(epoch=utc(2026, 3, 1, 0))
    clock = SourceClock([(0, collected), (50, dated)], ClockRules(inferred=False))
    assert clock.resolve(0, collected).time is None
    assert clock.resolve(50, dated).time is None


def test_a_full_date_in_the_file_gives_the_year() -> None:
    full = Reading("zoned", utc(2026, 1, 2), resolution=SECOND)
    readings = [(0, yearless(12, 31)), (100, yearless(1, 1)), (200, full)]
    clock = SourceClock(readings, ClockRules("UTC"))
    assert clock.resolve(0, readings[0][1]) == (utc(2025, 12, 31), "inferred_year", 1.0)
    assert not clock.lacks_year


def test_no_year_anywhere_is_null_and_said() -> None:
    clock = SourceClock([(0, yearless(5, 6))], ClockRules("UTC"))
    assert clock.resolve(0, yearless(5, 6)).time is None
    assert clock.lacks_year


def test_a_leap_day_in_a_year_without_one_is_null() -> None:
    clock = SourceClock([(0, yearless(2, 29))], ClockRules("UTC", year=2025))
    assert clock.resolve(0, yearless(2, 29)).time is None


def test_boot_clock_takes_its_offset_from_lines_with_both() -> None:
    both = Reading("zoned", utc(2026, 3, 1, 12), boot=100 * SECOND, resolution=SECOND)
    alone = Reading(boot=160 * SECOND)
    clock = SourceClock([(0, both), (80, alone)], ClockRules())
    assert clock.resolve(80, alone) == (utc(2026, 3, 1, 12, 1), "boot_offset", 1.0)


def test_another_boot_has_another_offset() -> None:
    first = Reading("zoned", utc(2026, 3, 1, 12), boot=9000 * SECOND)
    restarted = Reading(boot=5 * SECOND)
    clock = SourceClock([(0, first), (80, restarted)], ClockRules())
    assert clock.resolve(80, restarted).time is None


def test_a_boot_offset_fitted_to_an_assumed_zone_is_an_assumption() -> None:
    both = Reading("local", wall(2026, 3, 1, 12, 0, 0), boot=100 * SECOND)
    clock = SourceClock([(0, both), (80, Reading(boot=101 * SECOND))], ClockRules("UTC", assumed=True))
    assert clock.resolve(80, Reading(boot=101 * SECOND)).basis == "assumed_zone"


@given(st.integers(0, 4_000_000_000), st.sampled_from(["Asia/Seoul", "America/New_York", "+05:45", "UTC"]))
def test_zones_agree_with_the_standard_library(seconds: int, zone: str) -> None:
    moment = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(seconds=seconds)
    tz = zone_of(zone) if zone.startswith("+") else ZoneInfo(zone)
    local = moment.astimezone(tz)
    naive = local.replace(tzinfo=None, fold=0)
    reading = Reading("local", (naive - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1), resolution=SECOND)
    resolved = SourceClock([(0, reading)], ClockRules(zone)).resolve(0, reading)
    if resolved.error_s == 1.0:
        assert resolved.time == seconds * SECOND
    else:
        assert abs((resolved.time or 0) - seconds * SECOND) <= 3600 * SECOND


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "../etc/passwd", "+99:00"])
def test_unknown_zones_are_refused_in_one_line(name: str) -> None:
    with pytest.raises(BadZone, match="time zone"):
        zone_of(name)
