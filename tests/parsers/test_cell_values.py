"""Cells: times of every spelling, hosts of every spelling, numbers; and what is not guessed."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.clock import DAY
from aftershock.parsers.documents.cell_values import (
    ArrowTime,
    CellClock,
    hosts_cell,
    number_cell,
    text_cell,
    time_cell,
    truth_cell,
    whole_cell,
)

MOMENT = 1772435289_000000  # 2026-03-02 07:08:09 UTC


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("2026-03-02T07:08:09Z", "zoned"),
        ("2026-03-02 07:08:09+00:00", "zoned"),
        ("2026-03-02 07:08:09 UTC", "zoned"),
        ("2026-03-02T16:08:09.000+0900", "zoned"),
        ("20260302T070809Z", "zoned"),
        ("2026/03/02 07:08:09", "local"),
        ("2026-03-02T07:08:09", "local"),
        ("1772435289", "epoch"),
        ("1772435289.0", "epoch"),
        ("1772435289000", "epoch"),
        ("1772435289000000", "epoch"),
        ("1772435289000000000", "epoch"),
        ("1.772435289e9", "epoch"),
    ],
)
def test_times(text, kind):
    clock = time_cell(text)
    assert clock is not None
    assert (clock.kind, clock.wall) == (kind, MOMENT)


def test_fractions_and_dates_alone():
    fraction = time_cell("2026-03-02 07:08:09.25")
    assert fraction == CellClock("local", MOMENT + 250_000, 10_000, "2026-03-02 07:08:09.25")
    day = time_cell("2026-03-02")
    assert day is not None
    assert (day.wall, day.resolution) == (MOMENT // DAY * DAY, DAY)
    compact = time_cell("20260302")
    assert compact is not None
    assert compact.wall == day.wall


@pytest.mark.parametrize("text", ["", "None", "NaT", "nan", "null", "N/A", "0", "-1", None, math.nan, "\\N"])
def test_no_time(text):
    assert time_cell(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "03/02/2026 07:08:09",  # which is the month?
        "2026-02-30",
        "2026-13-01 00:00:00",
        "12345",  # seconds since what?
        "99999999999999999999",
        "1e99",
        "soon",
        "2026-03-02 07:08:09+99:00",
        "1969-01-01 00:00:00",
        "9" * 500,
    ],
)
def test_what_is_no_time_is_said(text):
    with pytest.raises(ValueError, match=r"time|date|number|zone"):
        time_cell(text)


def test_units_and_formats_come_from_outside():
    assert time_cell("12345678", "s") == CellClock("epoch", 12345678_000000, 1_000_000, "12345678")
    assert time_cell("1772435289000", "ms") == CellClock("epoch", MOMENT, 1000, "1772435289000")
    local = time_cell("02.03.2026 07:08", time_format="%d.%m.%Y %H:%M")
    assert local is not None
    assert (local.kind, local.wall) == ("local", MOMENT - 9_000000)
    zoned = time_cell("02 Mar 2026 16:08:09 +0900", time_format="%d %b %Y %H:%M:%S %z")
    assert zoned is not None
    assert (zoned.kind, zoned.wall) == ("zoned", MOMENT)
    with pytest.raises(ValueError, match="format"):
        time_cell("2026-03-02", time_format="%d.%m.%Y")


def test_typed_columns_keep_what_they_know():
    assert time_cell(ArrowTime(MOMENT, utc=True)) == CellClock("epoch", MOMENT, 1, "")
    assert time_cell(ArrowTime(MOMENT, utc=False)) == CellClock("local", MOMENT, 1, "")
    with pytest.raises(ValueError, match="before 1970"):
        time_cell(ArrowTime(-5, utc=True))


@pytest.mark.parametrize(
    "value",
    [
        "a1,a2",
        "a1;a2",
        "a1 a2",
        "a1|a2",
        "a1, a2",
        "a[1-2]",
        "a[1-2],a1",
        '["a1", "a2"]',
        "['a1', 'a2']",
        "('a1', 'a2')",
        ["a1", "a2"],
        ["a[1-2]"],
        ("a1", "a2", None),
    ],
)
def test_hosts(value):
    assert hosts_cell(value) == ["a1", "a2"]


def test_hosts_with_a_mark_of_their_own_and_without_any():
    assert hosts_cell("a1+a2", "+") == ["a1", "a2"]
    assert hosts_cell("") is None
    assert hosts_cell("None") is None
    assert hosts_cell([]) == []


@pytest.mark.parametrize("value", ["a[1-", "a[1-99999999]", "a{1}", ["x"] * 70_000, "n[0-9][0-9999999]"])
def test_bad_hosts_are_said(value):
    with pytest.raises(ValueError, match="host list"):
        hosts_cell(value)


def test_numbers_and_truth():
    assert [whole_cell(v) for v in ("8", "8.0", 8, 8.0, "", None)] == [8, 8, 8, 8, None, None]
    assert number_cell("1.5e3") == 1500.0
    assert [truth_cell(v) for v in ("Yes", "0", True, "planned", "")] == [True, False, True, True, None]
    for read, value in ((whole_cell, "8.5"), (whole_cell, "3000000000"), (number_cell, "x"), (truth_cell, "maybe")):
        with pytest.raises(ValueError, match=r"not a|neither"):
            read(value)


VALUES = st.none() | st.text(max_size=40) | st.floats() | st.integers() | st.booleans() | st.lists(st.text(max_size=5))


@pytest.mark.parametrize("read", [text_cell, whole_cell, number_cell, truth_cell, time_cell, hosts_cell])
@given(value=VALUES)
def test_any_value_is_read_or_said(read, value):
    try:
        read(value)
    except ValueError:
        return  # nothing else may come out


@given(st.from_regex(r"[0-9eE.+\-]{0,40}", fullmatch=True), st.sampled_from([None, "s", "ms", "us", "ns"]))
def test_numbers_of_any_size_are_times_or_not(text, unit):
    try:
        clock = time_cell(text, unit)
    except ValueError:
        return
    assert clock is None or 0 < clock.wall < 7_258_118_400_000_000
