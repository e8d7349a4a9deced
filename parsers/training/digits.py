"""Numbers of many lines at once: how long they are, and what they say, eight characters in one machine word.

A word holds the characters from a place on, the first of them lowest. All functions take and return arrays of words.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

# Characters of a number that are read, and those of which the number is exact in 64 bits.
MOST_DIGITS: Final = 24
_EXACT_DIGITS: Final = 18
# The powers of ten that a float holds, and the whole numbers below which it holds each: a number of two of these,
# multiplied or divided once, is rounded once, as the text of it is.
_POWERS: Final = 10.0 ** np.arange(23)
_EXACT: Final = np.uint64(1 << 53)

_U = np.uint64
_ZEROS: Final = _U(0x3030303030303030)
_ABOVE_NINE: Final = _U(0x7676767676767676)
HIGH: Final = _U(0x8080808080808080)
_ONES: Final = _U(0x0101010101010101)
_TENS: Final = _U(10) ** np.arange(20, dtype=np.uint64)


def words_of(data: Bytes) -> Words:
    """The word from each place of some bytes on, but the last seven."""
    words: Words = np.ndarray((data.size - 7,), np.dtype("<u8"), data.data, strides=(1,))
    return words


def width_of(word: Words) -> Ints:
    """How many digits a word begins with."""
    other = word ^ _ZEROS
    other = ((other + _ABOVE_NINE) | other) & HIGH
    first = other & (~other + _U(1))
    width: Words = (((first - _U(1)) >> _U(7)) & _ONES) * _ONES >> _U(56)
    return width.astype(np.int64)


def _eight(word: Words, width: Ints) -> Words:
    """The number of the first digits of a word, eight at most."""
    value: Words = (word ^ _ZEROS) << ((8 - width) * 8).astype(np.uint64)
    value = value * _U(10) + (value >> _U(8))
    low, high = value & _U(0x000000FF000000FF), (value >> _U(16)) & _U(0x000000FF000000FF)
    return np.asarray((low * _U(0x000F424000000064) + high * _U(0x0000271000000001)) >> _U(32))


def whole_of(words: Words, at: Ints, width: Ints) -> Words:
    """The numbers of so many digits at these places; those of more than 18 are wrong."""
    value = _eight(words[at], np.minimum(width, 8))
    for done in (8, 16):
        long = np.flatnonzero(width > done)
        if not long.size:
            break
        more = np.minimum(width[long] - done, 8)
        value[long] = value[long] * _TENS[more] + _eight(words[at[long] + done], more)
    return value


class Number:
    """A number as printed in many lines: its digits before the point, behind it, and those of its exponent.

    at, width: of each of these runs of digits. negative: whether it is below zero, sign: of the exponent.
    """

    def __init__(self, words: Words, runs: list[tuple[Ints, Ints]], *, fraction: bool, exponent: int) -> None:
        self.words = words
        at, self._whole_width = runs[0]
        self._at = at
        self._end = runs[-1][0] + runs[-1][1]
        self.fraction = runs[1][1] if fraction else np.zeros(at.size, np.int64)
        self.digits = whole_of(words, at, self._whole_width)
        if fraction:
            self.digits = self.digits * _TENS[np.minimum(self.fraction, 18)] + whole_of(words, *runs[1])
        self._sound = self._whole_width + self.fraction <= _EXACT_DIGITS
        self.scale = -self.fraction
        if exponent:
            self.scale = self.scale + exponent * whole_of(words, *runs[-1]).astype(np.int64)
            self._sound &= runs[-1][1] <= 3

    def floats(self, data: Bytes, *, negative: bool) -> Floats:
        """The numbers, rounded as Python does it. data: the bytes that the words are of."""
        digits, scale = self.digits.astype(np.float64), self.scale
        power = _POWERS[np.minimum(np.abs(scale), 22)]
        values = np.where(scale < 0, digits / power, digits * power)
        hard = ~(self._sound & (self.digits < _EXACT) & (np.abs(scale) <= 22))
        if hard.any():
            values[hard] = self._as_printed(data, hard)
        return -values if negative else values

    def millis(self) -> Floats:
        """What is printed in thousandths, as the number that the same digits print."""
        return self.digits.astype(np.float64) / _POWERS[self.fraction + 3]

    def _as_printed(self, data: Bytes, which: npt.NDArray[np.bool_]) -> Floats:
        edges = np.empty(2 * np.count_nonzero(which), np.int32)
        edges[::2], edges[1::2] = self._at[which], self._end[which]
        cut = pa.StringArray.from_buffers(edges.size - 1, pa.py_buffer(edges), pa.py_buffer(data))
        texts = cut.take(pa.array(np.arange(0, edges.size, 2, dtype=np.int32)))
        return np.asarray(texts.cast(pa.float64()).to_numpy())


def day_of(words: Words, at: Ints) -> tuple[Words, Words]:
    """What the ten characters of a day are, to be compared with others: the same days are the same words."""
    return words[at], words[at + 2]


def seconds_of(words: Words, at: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Seconds of a day, printed as ``10:20:30``, and whether there is such a time."""
    digits = words[at] & _U(0x0F0F000F0F000F0F)
    pairs = digits * _U(10) + (digits >> _U(8))
    hour, minute, second = (((pairs >> _U(by)) & _U(0xFF)).astype(np.int64) for by in (0, 24, 48))
    return hour * 3600 + minute * 60 + second, (hour < 24) & (minute < 60) & (second < 60)
