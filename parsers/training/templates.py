"""Templates: what is known of lines that differ in nothing but numbers, so that all of them are read at once.

``learning`` makes one of a line, ``alike`` reads the lines that are like it.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from aftershock.parsers.clock import wall_micros
from aftershock.parsers.training.walking import Segment, segments_of

DATE: Final = re.compile(
    r"(\d{4})[-/](\d\d)[-/](\d\d)[ T:_](\d\d):(\d\d):(\d\d)(?:[.,](\d{3}|\d{6}))?(Z|[+-]\d\d:?\d\d)?"
)
DATE_PLACES: Final = (4, 7, 10, 13, 16)
"""Where a date and time has its separators; that of the fraction, if there is one, stands behind 19 characters."""
DATE_END: Final = 19

# Digits of a rank, and ranks that one label tells.
MOST_RANK: Final = 6
MOST_MARKED: Final = 2

_DIGITS: Final = re.compile(rb"\d+")

# Times between these are in the years that a single line is read in: 2000 to 2099.
EARLIEST, LATEST = 946_684_800_000_000, 4_102_444_800_000_000

# Lines below, where it is not known how many of them are looked at.
ALL_BELOW: Final = 1 << 30


@dataclass(frozen=True)
class Value:
    """A column and the number that it is. first, last: the digits of the number, by their places in the line.

    before: how many characters stand before the first digits of it (a sign). how: ``int`` (with commas, where it has
    several runs of digits), ``next`` (the one behind it), ``float``, ``cut`` (whole, printed with a fraction),
    ``milli`` (printed in milliseconds).
    """

    column: str
    first: int
    last: int
    before: int
    how: str
    not_zero: bool = False


class Moment(NamedTuple):
    """The time of a line. first, last: its digits. text: as printed in the template. shift: of the zone that it has.

    unit: microseconds of one, if the time is a whole number since 1970; else 0.
    """

    first: int
    last: int
    text: bytes
    kind: str
    resolution: int
    shift: int
    unit: int = 0


@dataclass(frozen=True)
class Template:
    """What is known of records that differ in nothing but numbers: of a line, or of a line and some below it.

    literal: digits that must be the same, by their places among the runs of digits. widths: the least and the greatest
    length of each run. plain: runs that must not begin with a zero, if they are longer than that. constant: columns
    that are the same in all records. below: how many lines below the first one are looked at. marked: where digits that
    tell who wrote a record stand in its mark, by their places among the runs of digits. labelled: whether its
    label is one only beside other lines that have one.
    """

    text: bytes
    literal: Mapping[int, bytes]
    widths: Sequence[tuple[int, int]]
    plain: frozenset[int]
    values: Sequence[Value]
    constant: Mapping[str, int | float]
    mark: str
    moment: Moment | None
    below: int
    marked: Mapping[int, int]
    labelled: bool

    @cached_property
    def runs(self) -> list[tuple[int, int]]:
        """Where the runs of digits stand in the text."""
        return runs_of(self.text)

    @cached_property
    def lines(self) -> int:
        """Of how many lines a record is."""
        return 1 + self.text.count(b"\n")

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """What a record is made of."""
        moment, widths = self.moment, list(self.widths)
        same = set(self.literal)
        stamp = None
        if moment is not None:
            begin = self.runs[moment.first][0]
            if moment.unit:
                widths[moment.first] = (len(moment.text), len(moment.text))
            else:
                stamp = moment.first, range(begin, begin + DATE_END + len(fraction_of(moment.text.decode())))
                same |= set(range(moment.first, moment.last + 1))
        return segments_of(self.text, self.runs, same, widths, self.plain, stamp)

    @cached_property
    def wanted(self) -> frozenset[int]:
        """The runs of digits that are read."""
        runs = {number for value in self.values for number in range(value.first, value.last + 1)}
        return frozenset({*runs, *self.marked, *([] if self.moment is None else [self.moment.first])})

    def printed(self, value: Value) -> bytes:
        """A value as it stands in the text, with its sign."""
        return self.text[self.runs[value.first][0] - value.before : self.runs[value.last][1]]

    def mark_of(self, digits: Mapping[int, bytes]) -> str:
        """The mark of a record with other digits in some places."""
        lengths = {number: self.runs[number][1] - self.runs[number][0] for number in self.marked}
        return marked_with(self.mark, self.marked, lengths, digits)

    def has_literals(self, text: bytes) -> bool:
        """Whether a record that differs in nothing but numbers has the digits that must be the same."""
        runs = runs_of(text)
        return all(text[slice(*runs[number])] == digits for number, digits in self.literal.items())


def marked_with(mark: str, marked: Mapping[int, int], lengths: Mapping[int, int], digits: Mapping[int, bytes]) -> str:
    """A mark with other digits. lengths: of those that stand there."""
    for number, place in sorted(marked.items(), key=lambda each: -each[1]):
        if number in digits:
            mark = mark[:place] + digits[number].decode() + mark[place + lengths[number] :]
    return mark


def first_difference(one: str, other: str) -> int:
    """Where two texts begin to differ."""
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def runs_of(text: bytes) -> list[tuple[int, int]]:
    """Where digits stand."""
    return [found.span() for found in _DIGITS.finditer(text)]


def skeleton_of(text: bytes) -> bytes:
    """What is left of a text without its numbers."""
    return _DIGITS.sub(b"0", text)


def fraction_of(printed: str) -> str:
    """The fraction of a second of a printed date and time, with its point."""
    found = DATE.fullmatch(printed)
    return "" if found is None or found[7] is None else printed[DATE_END : DATE_END + 1 + len(found[7])]


def wall_of(found: re.Match[str]) -> int | None:
    """The microseconds of a date and time; None if there is no such day."""
    year, month, day, hour, minute, second = (int(found[number]) for number in range(1, 7))
    return wall_micros(year, month, day, hour, minute, second, int((found[7] or "0").ljust(6, "0")))


def any_epoch(rng: random.Random, moment: Moment) -> tuple[int, str]:
    """A time since 1970 in the years that are read, of as many digits."""
    least, most = (edge // moment.unit for edge in (EARLIEST, LATEST - 1))
    length = len(moment.text)
    number = rng.randint(max(least, 10 ** (length - 1)), min(most, 10**length - 1))
    return number * moment.unit, str(number)


def any_date(rng: random.Random, moment: Moment) -> tuple[int, str]:
    """A date and time that is printed in the same way."""
    printed = moment.text.decode()
    clock = (rng.randint(2001, 2098), *(rng.randint(1, most) for most in (12, 28, 23, 59, 59)))
    text = "{:04}{}{:02}{}{:02}{}{:02}{}{:02}{}{:02}".format(
        *(part for pair in zip(clock, [*(printed[at] for at in DATE_PLACES), ""], strict=True) for part in pair)
    )
    fraction = re.sub(r"\d", lambda _: str(rng.randrange(10)), fraction_of(printed))
    text += fraction + printed[DATE_END + len(fraction) :]
    found = DATE.fullmatch(text)
    wall = None if found is None else wall_of(found)
    assert wall is not None
    return wall, text


def same_value(one: float | None, other: float | None) -> bool:
    """Whether two values of a column are the same; NaN is the same as NaN."""
    return one == other or (
        isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other)
    )


def number_of(text: bytes, how: str) -> int | float | None:
    """The value of a printed number, read in one of the ways of :class:`Value`; None if it is none."""
    if how == "int":
        digits = text.replace(b",", b"")
        return int(digits) if digits.isdigit() else None
    if how == "next":
        return int(text) + 1 if text.isdigit() else None
    if how == "float":
        return float(text)
    if how == "cut":
        return int(float(text))
    if b"e" in text.lower():
        return None
    whole, _, fraction = text.partition(b".")
    return int(whole + fraction) / 10.0 ** (3 + len(fraction))
