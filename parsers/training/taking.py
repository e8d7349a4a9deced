"""What stands in records that a template fits: their values as columns, their times, and which of them are sound."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aftershock.parsers.clock import SECOND
from aftershock.parsers.training.digits import Ints, Number, day_of, seconds_of, whole_of
from aftershock.parsers.training.templates import (
    DATE,
    DATE_END,
    DATE_PLACES,
    EARLIEST,
    LATEST,
    MOST_RANK,
    Moment,
    Template,
    Value,
    wall_of,
)
from aftershock.parsers.training.walking import Page, Walked

Bools = npt.NDArray[np.bool_]
Column = npt.NDArray[Any]

# Whole numbers of more digits may be beyond 64 bits.
_MOST_DIGITS: Final = 18
# Behind a date.
_CLOCK: Final = 11
WALL: Final = "@wall"
TEXT: Final = "@text"
MARK: Final = "@mark"


@dataclass
class Taken:
    """Records of one template in a block. lines: their first ones. columns: by name, piece by piece; ``@text`` is where
    the printed time begins, in the block.
    """

    template: Template
    lines: list[Ints] = field(default_factory=list)
    columns: dict[str, list[Column]] = field(default_factory=dict)
    marks: list[str] = field(default_factory=list)
    _numbers: dict[int, int] = field(default_factory=dict)

    def add(self, page: Page, walked: Walked, first: int, offset: int) -> None:
        """Take the values of what was walked along. first: number of the first line of the page in the block, offset:
        where it begins.
        """
        columns, sound = _columns(self.template, page, walked)
        columns[MARK] = self._marks(page, walked)
        if TEXT in columns:
            columns[TEXT] = columns[TEXT] + offset
        lines = walked.lines + first
        if not sound.all():
            lines, columns = lines[sound], {name: column[sound] for name, column in columns.items()}
        self.lines.append(lines)
        for name, column in columns.items():
            self.columns.setdefault(name, []).append(column)

    def _marks(self, page: Page, walked: Walked) -> Ints:
        keys = np.zeros(walked.lines.size, np.int64)
        for run in self.template.marked:
            at, width = walked.places[run]
            # The number, and how long it is, for zeros before it count; one such pair is below this.
            keys = (keys * (10**MOST_RANK) + whole_of(page.words, at, width).astype(np.int64)) * (MOST_RANK + 1) + width
        found, which = np.unique(keys, return_inverse=True)
        return np.array([self._number_of(key) for key in found.tolist()], np.int64)[which.reshape(-1)]

    def _number_of(self, key: int) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self.marks)
            digits, rest = {}, key
            for run in reversed(self.template.marked):
                rest, width = divmod(rest, MOST_RANK + 1)
                rest, value = divmod(rest, 10**MOST_RANK)
                digits[run] = str(value).zfill(width).encode()
            self.marks.append(self.template.mark_of(digits))
        return self._numbers[key]

    def whole(self) -> tuple[Ints, dict[str, Column]]:
        """All of them."""
        return np.concatenate(self.lines), {name: np.concatenate(parts) for name, parts in self.columns.items()}


def _columns(template: Template, page: Page, walked: Walked) -> tuple[dict[str, Column], Bools]:
    sound = np.ones(walked.lines.size, np.bool_)
    columns: dict[str, Column] = {}
    read: dict[tuple[int, int, str], Column] = {}
    for value in template.values:
        key = value.first, value.last, value.how
        if key not in read:
            read[key] = _value(template, value, page, walked, sound)
        columns[value.column] = read[key]
        if value.not_zero:
            sound &= read[key] != 0
    if template.moment is not None:
        _clock(template.moment, page, walked, columns, sound)
    return columns, sound


def _value(template: Template, value: Value, page: Page, walked: Walked, sound: Bools) -> Column:
    runs = [walked.places[number] for number in range(value.first, value.last + 1)]
    printed = template.printed(value).lower()
    if value.how in ("int", "next"):
        digits, width = whole_of(page.words, *runs[0]), runs[0][1]
        for at, more in runs[1:]:
            digits = digits * np.uint64(10) ** more.astype(np.uint64) + whole_of(page.words, at, more)
            width = width + more
        sound &= width <= _MOST_DIGITS
        whole = digits.astype(np.int64)
        return whole + 1 if value.how == "next" else whole
    exponent = 0 if b"e" not in printed else -1 if b"e-" in printed else 1
    number = Number(page.words, runs, fraction=b"." in printed, exponent=exponent)
    if value.how == "milli":
        return number.millis()
    floats = number.floats(page.data, negative=printed.startswith(b"-"))
    return floats.astype(np.int64) if value.how == "cut" else floats


def _clock(moment: Moment, page: Page, walked: Walked, columns: dict[str, Column], sound: Bools) -> None:
    at, width = walked.places[moment.first]
    if moment.unit:
        wall = whole_of(page.words, at, width).astype(np.int64) * moment.unit
    else:
        wall, good = _printed(moment, page, at)
        sound &= good
    sound &= (wall >= EARLIEST) & (wall < LATEST)
    columns[WALL], columns[TEXT] = wall, at


def _printed(moment: Moment, page: Page, at: Ints) -> tuple[Ints, Bools]:
    """Microseconds of dates and times, and which are good."""
    seconds, good = seconds_of(page.words, at + _CLOCK)
    wall = _days(moment, page, at) + seconds * SECOND - moment.shift
    fraction = DATE.fullmatch(moment.text.decode())
    if fraction is not None and fraction[7]:
        digits = len(fraction[7])
        wall += whole_of(page.words, at + DATE_END + 1, np.full(at.size, digits)).astype(np.int64) * 10 ** (6 - digits)
    return wall, good


def _days(moment: Moment, page: Page, at: Ints) -> Ints:
    """Microseconds of the days on which the times are; before all times where there is no such day."""
    one, other = day_of(page.words, at)
    pairs = np.empty((at.size, 2), np.uint64)
    pairs[:, 0], pairs[:, 1] = one, other
    alike = (pairs == pairs[:1]).all()
    days, which = (pairs[:1], np.zeros(at.size, np.int64)) if alike else np.unique(pairs, axis=0, return_inverse=True)
    return np.array([_day(*pair) for pair in days.tolist()], np.int64)[which.reshape(-1)]


def _day(one: int, other: int) -> int:
    text = (one.to_bytes(8, "little") + other.to_bytes(8, "little")[6:]).decode("ascii")
    year, month = DATE_PLACES[:2]
    found = DATE.fullmatch(f"{text[:year]}-{text[year + 1 : month]}-{text[month + 1 :]} 00:00:00")
    wall = None if found is None else wall_of(found)
    return -(1 << 60) if wall is None else wall
