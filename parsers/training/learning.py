"""Lines that differ in nothing but numbers: what is learnt of one of them by reading it, to read the others at once.

A line is a template if, whatever digits stand in it, the rules of :mod:`aftershock.parsers.training` make one step of
it, and every value of that step is a number that stands in the line. Whether that is so is found out by asking the
rules: digits are changed, one number after the other, then all of them, and what comes out is compared with what the
template foretells. Where a rule does anything else with a number than to read it, there is no template, and such lines
are read one by one as ever. Numbers may be longer or shorter than those of the line within the limits that were tried.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from aftershock.parsers.clock import NO_CLOCK
from aftershock.parsers.training.templates import (
    DATE,
    MOST_MARKED,
    MOST_RANK,
    Moment,
    Template,
    Value,
    any_date,
    any_epoch,
    first_difference,
    marked_with,
    number_of,
    runs_of,
    same_value,
    skeleton_of,
    wall_of,
)
from aftershock.parsers.training.trying import COLUMNS, Read, Seen, Trial

# With commas a number is a whole one.
_NUMBER: Final = re.compile(
    rb"(?<![\w.,-])\d{1,3}(?:,\d{3})+(?![\d.,]|[eE][-+\d])|(?:(?<![\w.-])-)?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
)
# Dates and times with 0 for all digits. Whether one is good, and a clock at all, hangs on its numbers.
_CLOCKS: Final = re.compile(rb"0[-/]0[-/]0|0/0[ T]0:0|[A-Z]0 0:0:0|[A-Z][a-z]{2} +0 0:0:0")
# What rules may take for a time: seconds and milliseconds since 1970.
_TIMES: Final = (b"1772360430123", b"987654321000", b"1772360430", b"987654321")

# Lengths of numbers that are tried, and how often all numbers are changed.
_WIDTHS: Final = (1, 2, 3, 4, 6, 8, 10, 12, 15, 18, 21)
_ROUNDS: Final = 8
_MOST_WHOLE: Final = 18
# Lines, and those below them, that are tried together.
_BELOW: Final = 5
# Digits before and behind the point of milliseconds: all of them are a number that a float holds.
_MOST_MILLI: Final = 7
# Numbers in one line: each is asked for by itself.
_MOST_NUMBERS: Final = 64

_WHOLE: Final = frozenset(
    {"rank", "local_rank", "step", "total_steps", "samples", "tokens", "skipped", "nan", "copies"}
)


class _NoTemplate(Exception):
    """The rules do something else with this line than to read its numbers."""


def template_of(text: bytes, read: Read, like: Template | None = None) -> Template | None:
    """What is to be known of a record, without the end of its last line; None if it is no template.

    like: of a record that differs in nothing but numbers, some of which have to be the same.
    """
    learner = _Learner(text, read)
    try:
        return learner.learn() if like is None else learner.learn_from(like)
    except _NoTemplate:
        return None


@dataclass
class _Learner:
    text: bytes
    read: Read
    widths: list[list[int]] = field(default_factory=list)
    marked: dict[int, int] = field(default_factory=dict)

    def learn(self) -> Template:
        """Find out all of it."""
        own = self._begin()
        self.literal: dict[int, bytes] = {}
        touched: dict[str, set[int]] = {}
        for number, (begin, end) in enumerate(self.runs):
            if number in own:
                continue
            changed = self._changed(number)
            if changed is None:
                self.literal[number] = self.text[begin:end]
                continue
            for column in changed:
                touched.setdefault(column, set()).add(number)
        self.free = [n for n in range(len(self.runs)) if n not in own and n not in self.literal]
        self.values = [self._value(column, runs) for column, runs in sorted(touched.items())]
        self._find_constants()
        self._find_widths()
        self._find_plain()
        self._try_edges()
        self._fit_together()
        return self._proven()

    def learn_from(self, like: Template) -> Template:
        """Take over what is known of such a line, and see whether it holds."""
        own = self._begin()
        self.literal = {number: self.text[slice(*self.runs[number])] for number in like.literal}
        self.free = [n for n in range(len(self.runs)) if n not in own and n not in self.literal]
        self.values = list(like.values)
        if any(self._changed(number) is None for number in like.marked) or self.marked.keys() != like.marked.keys():
            raise _NoTemplate
        self.plain = like.plain
        self._find_constants()
        self.widths = [sorted({*range_, self._own(n)}) for n, range_ in enumerate(like.widths)]
        return self._proven()

    def _find_constants(self) -> None:
        touched = {value.column for value in self.values}
        self.constant = {
            name: value for name, value in self.base.values.items() if value is not None and name not in touched
        }

    def _proven(self) -> Template:
        """The template, if it holds for whatever numbers."""
        if not self._holds():
            raise _NoTemplate
        self.trial.looks_no_further()
        if self.moment is not None:
            for _ in range(_ROUNDS):
                self._try_moment()
        widths = [(min(each), max(each)) for each in self.widths]
        parts = (
            widths,
            self.plain,
            self.values,
            self.constant,
            self.base.mark,
            self.moment,
            self.trial.reach,
            self.marked,
        )
        return Template(self.text, self.literal, *parts, self.trial.labelled)

    def _begin(self) -> range:
        """Read the line itself. Returns the numbers that are its time."""
        self.runs = runs_of(self.text)
        if not 0 < len(self.runs) <= _MOST_NUMBERS:
            raise _NoTemplate
        self.rng = random.Random(self.text)
        self.trial = Trial(self.read)
        self.base = self._seen(self.text)
        self.moment = self._moment()
        other = self.text if self.moment is None else self.text.replace(self.moment.text, b"@")
        if _CLOCKS.search(skeleton_of(other)):
            raise _NoTemplate
        return self._runs_of_moment()

    def _look(self, text: bytes, following: bytes = b"") -> Seen | None:
        return self.trial.look(text, following)

    def _seen(self, text: bytes) -> Seen:
        seen = self._look(text)
        if seen is None:
            raise _NoTemplate
        return seen

    def _moment(self) -> Moment | None:
        reading = self.base.reading
        if reading == NO_CLOCK:
            return None
        printed = (reading.text or "").encode()
        if self.text.count(printed) != 1 or reading.wall is None or reading.boot is not None:
            raise _NoTemplate
        at = self.text.index(printed)
        first = next((number for number, (begin, _) in enumerate(self.runs) if begin == at), None)
        if first is None:
            raise _NoTemplate
        last = sum(1 for run in self.runs if run[0] < at + len(printed)) - 1
        if self.runs[last][1] > at + len(printed):
            raise _NoTemplate
        found = DATE.fullmatch(reading.text or "")
        if found is None and reading.kind == "epoch" and printed.isdigit() and reading.wall % int(printed) == 0:
            unit = reading.wall // int(printed)
            return Moment(first, last, printed, reading.kind, reading.resolution, 0, unit)
        wall = None if found is None else wall_of(found)
        if wall is None or reading.kind not in ("local", "zoned"):
            raise _NoTemplate
        return Moment(first, last, printed, reading.kind, reading.resolution, wall - reading.wall)

    def _runs_of_moment(self) -> range:
        return range(0) if self.moment is None else range(self.moment.first, self.moment.last + 1)

    def _changed(self, number: int) -> set[str] | None:
        """The columns that change with a number; None if anything else does, or a number may not be another one."""
        begin, end = self.runs[number]
        other = self._other_digits(self.text[begin:end])
        seen = self._look(self._with({number: other}))
        if seen is not None and seen.mark != self.base.mark and len(self.marked) < MOST_MARKED:
            place = first_difference(seen.mark, self.base.mark)
            self.marked[number] = place
            stands = self.base.mark.startswith(self.text[begin:end].decode(), place)
            if not stands or seen.mark != self._mark({number: other}):
                del self.marked[number]
        if seen is None or seen.mark != self._mark({number: other}) or seen.reading != self.base.reading:
            return None
        changed = {name for name in COLUMNS if not same_value(seen.values[name], self.base.values[name])}
        # A number in a name: with another one it is something else that is printed.
        return None if any(seen.values[name] is None for name in changed) else changed

    def _mark(self, digits: Mapping[int, bytes]) -> str:
        """The mark of the line with other digits in some places."""
        return marked_with(self.base.mark, self.marked, {number: self._own(number) for number in self.marked}, digits)

    def _other_digits(self, digits: bytes) -> bytes:
        """As many digits, none of them where it was, and none a zero: that may be said of nothing."""
        return bytes(self.rng.choice([other for other in b"123456789" if other != digit]) for digit in digits)

    def _with(self, digits: Mapping[int, bytes], moment: bytes | None = None) -> bytes:
        """The line with other digits in some places."""
        parts: list[bytes] = []
        at = 0
        for number, (begin, end) in enumerate(self.runs):
            if begin < at:
                continue  # within the time
            parts.append(self.text[at:begin])
            if moment is not None and self.moment is not None and number == self.moment.first:
                parts.append(moment)
                at = begin + len(moment)
                continue
            parts.append(digits.get(number, self.text[begin:end]))
            at = end
        return b"".join([*parts, self.text[at:]])

    def _value(self, column: str, runs: set[int]) -> Value:
        begin = self.runs[min(runs)][0]
        for found in _NUMBER.finditer(self.text):
            if found.start() <= begin < found.end():
                inside = [n for n, run in enumerate(self.runs) if found.start() <= run[0] < found.end()]
                if max(runs) > inside[-1] or any(n in self.literal for n in inside):
                    break
                before = self.runs[inside[0]][0] - found.start()
                for how in ("int", "cut", "next") if column in _WHOLE else ("float", "milli"):
                    value = Value(column, inside[0], inside[-1], before, how)
                    if same_value(number_of(found[0], how), self.base.values[column]):
                        return value
        raise _NoTemplate

    def _foretells(self, digits: Mapping[int, bytes], following: bytes = b"") -> bool:
        """Whether the template says of a line what the rules make of it."""
        seen = self._look(self._with(digits), following)
        if seen is None or seen.mark != self._mark(digits) or seen.reading != self.base.reading:
            return False
        wanted: dict[str, int | float | None] = dict(self.constant)
        for value in self.values:
            wanted[value.column] = number_of(self._text_of(value, digits), value.how)
        return all(same_value(seen.values[name], wanted.get(name)) for name in COLUMNS)

    def _text_of(self, value: Value, digits: Mapping[int, bytes]) -> bytes:
        at = self.runs[value.first][0] - value.before
        parts: list[bytes] = []
        for number in range(value.first, value.last + 1):
            begin, end = self.runs[number]
            parts += [self.text[at:begin], digits.get(number, self.text[begin:end])]
            at = end
        return b"".join(parts)

    def _random(self, width: int) -> bytes:
        """Digits, the first of which is none that a small number has."""
        return bytes([self.rng.randrange(49, 58), *(self.rng.randrange(48, 58) for _ in range(width - 1))])

    def _failing(self, digits: Mapping[int, bytes]) -> set[int]:
        """The numbers that may not be these digits: all at once, and only where that fails the halves of them."""
        if not digits or self._foretells(digits):
            return set()
        numbers = list(digits)
        if len(numbers) == 1:
            return set(numbers)
        half = len(numbers) // 2
        return set().union(*(self._failing({n: digits[n] for n in part}) for part in (numbers[:half], numbers[half:])))

    def _find_widths(self) -> None:
        self.widths = [[end - begin] for begin, end in self.runs]
        if not self._foretells({}):
            raise _NoTemplate
        failing = {width: self._failing({number: self._random(width) for number in self.free}) for width in _WIDTHS}
        for number in self.free:
            (own,) = self.widths[number]
            tried = sorted({*_WIDTHS, own})
            place = tried.index(own)
            low = high = place
            while low > 0 and number not in failing[tried[low - 1]]:
                low -= 1
            while high + 1 < len(tried) and number not in failing[tried[high + 1]]:
                high += 1
            self.widths[number] = [tried[low], tried[high]]
        for number in self.marked:
            self.widths[number] = [min(width, MOST_RANK) for width in self.widths[number]]
        for value in self.values:
            # A number of 17 digits has as many behind its point, and four zeros, but never so many before it.
            self.widths[value.first] = [min(width, _MOST_WHOLE) for width in self.widths[value.first]]
            if value.how == "milli":
                for number in range(value.first, value.last + 1):
                    self.widths[number] = [min(width, _MOST_MILLI) for width in self.widths[number]]
            elif value.how == "int" and value.first < value.last:
                self.widths[value.first] = [1, 3]
                self.widths[value.first + 1 : value.last + 1] = [[3, 3] for _ in range(value.first, value.last)]

    def _find_plain(self) -> None:
        """Numbers before which no zeros may stand."""
        long = [number for number in self.free if max(self.widths[number]) > 1]
        zeros = {number: b"0" + self._random(max(self._own(number), 2) - 1) for number in long}
        self.plain = frozenset(self._failing(zeros))

    def _own(self, number: int) -> int:
        begin, end = self.runs[number]
        return end - begin

    def _try_edges(self) -> None:
        """Numbers that rules may take for something else: zero, one, the largest, those that are times."""
        inside: set[int] = set()
        for place, value in enumerate(self.values):
            runs = range(value.first, value.last + 1)
            nothing = {number: b"0" * self._own(number) for number in runs} | {value.first: b"0"}
            largest = {number: b"9" * max(self.widths[number]) for number in runs}
            if not self._foretells({**nothing, value.first: b"1"}):
                raise _NoTemplate
            if not self._has_exponent(value) and not self._foretells(largest):
                raise _NoTemplate
            if not self._foretells(nothing):
                self.values[place] = replace(value, not_zero=True)
                inside |= {value.first} if value.first == value.last else set()
        for digit, numbers in ((b"0", [n for n in self.free if n not in inside]), (b"1", self.free)):
            if self._failing({number: digit.rjust(min(self.widths[number]), b"0") for number in numbers}):
                raise _NoTemplate
        for time in _TIMES:
            long = [number for number in self.free if max(self.widths[number]) >= len(time)]
            for number in self._failing(dict.fromkeys(long, time)):
                self.widths[number] = [min(width, len(time) - 1) for width in self.widths[number]]
        if any(not min(self.widths[n]) <= self._own(n) <= max(self.widths[n]) for n in self.free):
            raise _NoTemplate

    def _has_exponent(self, value: Value) -> bool:
        """Whether nines all over would be a number that nobody prints."""
        return b"e" in self.text[self.runs[value.first][0] : self.runs[value.last][1]].lower()

    def _fit_together(self) -> None:
        """Let numbers be as long, and as short, as they may be together: those that are values go first."""
        inside = {number for value in self.values for number in range(value.first, value.last + 1)}
        order = sorted(self.free, key=lambda number: number not in inside)
        for pick, step in ((max, -1), (min, 1)):
            sizes = {number: pick(self.widths[number]) for number in self.free}
            if self._foretells({number: self._random(size) for number, size in sizes.items()}):
                continue
            sizes = {number: self._own(number) for number in self.free}
            for number in order:
                for size in range(pick(self.widths[number]), self._own(number), step):
                    sizes[number] = size
                    if self._foretells({other: self._random(width) for other, width in sizes.items()}):
                        break
                else:
                    sizes[number] = self._own(number)
                least, most = min(self.widths[number]), max(self.widths[number])
                self.widths[number] = [least, sizes[number]] if step < 0 else [sizes[number], most]

    def _holds(self) -> bool:
        sizes = ({number: self._random(pick(self.widths[number])) for number in self.free} for pick in (min, max))
        if not all(self._foretells(digits) for digits in sizes):
            return False
        for _ in range(_ROUNDS):
            lines = [self._any_digits() for _ in range(_BELOW)]
            below = self._line_end().join(self._with(digits) for digits in lines[1:])
            if not self._foretells(lines[0]) or not self._foretells(lines[0], below):
                return False
        return True

    def _line_end(self) -> bytes:
        return b"\r\n" if b"\r\n" in self.text else b"\n"

    def _any_digits(self) -> dict[int, bytes]:
        return {
            number: self._random(self.rng.randint(min(self.widths[number]), max(self.widths[number])))
            for number in self.free
        }

    def _try_moment(self) -> None:
        assert self.moment is not None
        wall, text = any_epoch(self.rng, self.moment) if self.moment.unit else any_date(self.rng, self.moment)
        seen = self._look(self._with({}, text.encode()))
        wanted = self.base.reading._replace(wall=wall - self.moment.shift, text=text)
        if seen is None or seen.mark != self.base.mark or seen.reading != wanted:
            raise _NoTemplate
        if not all(same_value(seen.values[name], self.base.values[name]) for name in COLUMNS):
            raise _NoTemplate
