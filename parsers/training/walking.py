"""Walking along many lines at once, as a template says: what must stand there, then a number, then what must follow.

Every line has a place of its own, which moves on by as much as was found there. Lines in which anything else stands are
left behind. What is done for a line is a few operations on machine words for each of its numbers, and one for eight
other characters.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from aftershock.parsers.training.digits import HIGH, MOST_DIGITS, Bytes, Ints, Words, width_of, words_of

_U = np.uint64
# What is added to a character, exclusive-or what it should be, to see whether it differs.
_LETTER, _DIGIT = 0x7F, 0x76
# Zeros behind the bytes of a page: what is looked at beyond them.
_MARGIN: Final = 64
# Lines are left behind at once if they are more than one of so many.
_FEW: Final = 8

_NEWLINE: Final = 10
_CR_NEWLINE: Final = 0x0A0D


@dataclass(frozen=True)
class Fixed:
    """Characters that must stand there. words: by offset what they are, which of them count, and how they count:

    a digit may be any other one where the third has 0x76, other characters must be the same.
    """

    words: tuple[tuple[int, np.uint64, np.uint64, np.uint64 | None], ...]
    length: int


@dataclass(frozen=True)
class Here:
    """A place that is kept under a number, as that of a run of digits is."""

    number: int


@dataclass(frozen=True)
class Run:
    """A run of digits. number: among those of the line. least, most: its length. plain: it does not begin with a zero,
    unless it is one.
    """

    number: int
    least: int
    most: int
    plain: bool


Segment = Fixed | Here | Run


def segments_of(
    text: bytes,
    runs: Sequence[tuple[int, int]],
    same: Collection[int],
    widths: Sequence[tuple[int, int]],
    plain: Collection[int] = (),
    stamp: tuple[int, range] | None = None,
) -> tuple[Segment, ...]:
    """What a line is made of. runs: where its digits stand; those of ``same`` have to be the same. widths, plain: as
    in :class:`Run`, by run. stamp: the first run of a date and time, and the places of it: it is as long as it is here,
    whatever its digits are.
    """
    found: list[Segment] = []
    places = range(0) if stamp is None else stamp[1]

    def fixed(begin: int, end: int) -> None:
        if end > begin:
            found.append(_fixed(text, begin, end, places))

    at = 0
    for number, (begin, end) in enumerate(runs):
        if stamp is not None and number == stamp[0]:
            fixed(at, begin)
            found.append(Here(number))
            at = begin
        if number in same or begin in places:
            continue
        fixed(at, begin)
        least, most = widths[number]
        found.append(Run(number, least, min(most, MOST_DIGITS), number in plain))
        at = end
    fixed(at, len(text))
    return tuple(found)


def _fixed(text: bytes, begin: int, end: int, stamp: range) -> Fixed:
    words = []
    for at in range(begin, end, 8):
        some = range(at, min(at + 8, end))
        digits = [place in stamp and 0x30 <= text[place] <= 0x39 for place in some]
        word = _word([0x30 if free else text[place] for place, free in zip(some, digits, strict=True)])
        add = _word([_DIGIT if free else _LETTER for free in digits]) if any(digits) else None
        words.append((at - begin, word, _word([0xFF] * len(some)), add))
    return Fixed(tuple(words), end - begin)


def _word(values: Sequence[int]) -> np.uint64:
    word: np.uint64 = np.uint64(int.from_bytes(bytes(values), "little"))
    return word


@dataclass
class Page:
    """Some lines. data: their bytes, and some zeros. size: of the bytes. begins: of the lines, ends: of them without
    their newlines.
    """

    data: Bytes
    size: int
    begins: Ints
    ends: Ints
    words: Words = field(init=False)

    def __post_init__(self) -> None:
        self.words = words_of(self.data)

    @classmethod
    def of(cls, block: Bytes, begins: Ints, ends: Ints) -> Page:
        """From lines of a block that follow each other."""
        first, last = int(begins[0]), int(ends[-1]) + 1
        data = np.zeros(last - first + _MARGIN, np.uint8)
        data[: last - first] = block[first:last]
        return cls(data, last - first, begins - first, ends - first)

    def text(self, first: int, lines: int = 1) -> bytes:
        """Some lines as they stand, without the line end of the last."""
        text = self.data[int(self.begins[first]) : int(self.ends[first + lines - 1])].tobytes()
        return text.removesuffix(b"\r")


@dataclass
class Walked:
    """Lines that were walked along to their ends. lines: which. places: of each run of digits that was asked for, and
    its length, by its number. starts: where the lines begin.
    """

    lines: Ints
    starts: Ints
    places: dict[int, tuple[Ints, Ints]]


def walk(page: Page, lines: Ints, segments: Sequence[Segment], wanted: Collection[int]) -> Walked:
    """Walk along some lines of a page. wanted: numbers of the runs of digits whose places are kept."""
    way = _Way(page, lines, page.begins[lines], page.begins[lines])
    for segment in segments:
        if isinstance(segment, Fixed):
            way.along(segment)
        elif isinstance(segment, Here):
            way.places[segment.number] = way.at, way.at
        else:
            way.over(segment, segment.number in wanted)
        if not way.lines.size:
            break
    way.wrong |= ~_is_end(page, way.at)
    way.keep()
    return Walked(way.lines, way.starts, way.places)


@dataclass
class _Way:
    """Lines on their way. starts: where they begin. at: how far they are. wrong: where that is not zero something else
    was found.
    """

    page: Page
    lines: Ints
    starts: Ints
    at: Ints
    places: dict[int, tuple[Ints, Ints]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.wrong = np.zeros(self.lines.size, np.uint64)

    def along(self, segment: Fixed) -> None:
        """Go on by what must stand there."""
        page = self.page
        for offset, word, mask, add in segment.words:
            there = (page.words[np.minimum(self.at + offset, page.size)] ^ word) & mask
            self.wrong |= there if add is None else ((there + (add & mask)) | there) & HIGH
            self.drop()
        self.at = self.at + segment.length

    def over(self, run: Run, wanted: bool) -> None:
        """Go on by a run of digits."""
        width, bad = _digits_at(self.page, self.at, run)
        self.wrong |= bad
        if wanted:
            self.places[run.number] = self.at, width
        self.at = self.at + width
        self.drop()

    def drop(self) -> None:
        """Leave lines behind if they are many."""
        if np.count_nonzero(self.wrong) * _FEW > self.lines.size:
            self.keep()

    def keep(self) -> None:
        """Leave all lines behind in which something else was found."""
        good = self.wrong == 0
        if good.all():
            return
        self.lines, self.starts, self.at, self.wrong = (
            each[good] for each in (self.lines, self.starts, self.at, self.wrong)
        )
        self.places = {number: (place[good], width[good]) for number, (place, width) in self.places.items()}


def _digits_at(page: Page, at: Ints, run: Run) -> tuple[Ints, npt.NDArray[np.uint64]]:
    """How many digits stand at each place, and something else than zero where these are too few or too many."""
    place = np.minimum(at, page.size)
    word = page.words[place]
    width = width_of(word)
    for done in (8, 16):
        long = np.flatnonzero(width == done)
        if not long.size or run.most < done:
            break
        width[long] += width_of(page.words[np.minimum(place[long] + done, page.size)])
    bad = (width < run.least) | (width > run.most)
    if run.plain:
        bad |= (width > 1) & ((word & _U(0xFF)) == _U(0x30))
    return width, bad.astype(np.uint64)


def _is_end(page: Page, at: Ints) -> npt.NDArray[np.bool_]:
    word = page.words[np.minimum(at, page.size)]
    return np.asarray(((word & _U(0xFF)) == _U(_NEWLINE)) | ((word & _U(0xFFFF)) == _U(_CR_NEWLINE)))
