"""The zone of a file with absolute times between local ones: one that fits, or none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.clock import MINUTE, SECOND, Reading
from aftershock.parsers.resolve import ClockRules, SourceClock
from aftershock.parsers.zones import shift_between

HOUR = 60 * MINUTE
NOON = 1_772_366_400 * SECOND


def epoch(seconds: float) -> Reading:
    return Reading("epoch", NOON + round(seconds * SECOND))


def local(seconds: float, shift: int) -> Reading:
    return Reading("local", NOON + round(seconds * SECOND) + shift)


def shift_of(*readings: Reading) -> int | None:
    return shift_between(list(enumerate(readings)), lambda wall, near: wall)


def test_a_local_line_between_two_epochs_has_one_zone() -> None:
    assert shift_of(epoch(0), local(30, 9 * HOUR), epoch(60)) == 9 * HOUR
    assert shift_of(epoch(0), local(30, 345 * MINUTE), epoch(60)) == 345 * MINUTE


def test_epochs_that_are_far_apart_say_nothing() -> None:
    assert shift_of(epoch(0), local(600, 9 * HOUR), epoch(3600)) is None


def test_a_line_that_follows_at_once_tells_it_by_the_half_hour() -> None:
    assert shift_of(epoch(0), local(8, -4 * HOUR)) == -4 * HOUR
    assert shift_of(local(0, -4 * HOUR), epoch(8)) == -4 * HOUR
    assert shift_of(epoch(0), local(700, -4 * HOUR)) is None, "a cancel long after the last word may be of any zone"


def test_lines_that_contradict_each_other_say_nothing() -> None:
    assert shift_of(epoch(0), local(30, 9 * HOUR), epoch(60), local(90, 2 * HOUR), epoch(120)) is None


def test_a_few_stamps_of_another_moment_do_not_matter() -> None:
    true = [reading for n in range(9) for reading in (epoch(n * 60), local(n * 60 + 30, 9 * HOUR))]
    assert shift_of(*true, local(-40 * 60, 9 * HOUR), epoch(9 * 60 + 40)) == 9 * HOUR


@given(
    st.integers(-48, 56).map(lambda quarters: quarters * 15 * MINUTE),
    st.lists(st.tuples(st.booleans(), st.floats(0.1, 200)), min_size=3, max_size=30),
)
def test_what_is_told_is_never_another_zone(shift: int, lines: list[tuple[bool, float]]) -> None:
    at = 0.0
    readings = [epoch(at)]
    for absolute, apart in lines:
        at += apart
        readings.append(epoch(at) if absolute else local(at, shift))
    readings.append(epoch(at + 1))
    found = shift_of(*readings)
    assert found in (None, shift)


def test_it_is_inferred_only_where_it_is_asked_for() -> None:
    readings = list(enumerate([epoch(0), local(30, 9 * HOUR), epoch(60)]))
    clock = SourceClock(readings, ClockRules("UTC", assumed=True, nearby=True))
    assert (clock.zone_name, clock.zone_basis) == ("+09:00", "inferred_zone")
    assert clock.resolve(1, readings[1][1]).time == NOON + 30 * SECOND
    assert SourceClock(readings, ClockRules("UTC", assumed=True)).zone_basis == "assumed_zone"
    assert SourceClock(readings, ClockRules("UTC", nearby=True)).zone_basis == "zoned", "what is stated goes first"
