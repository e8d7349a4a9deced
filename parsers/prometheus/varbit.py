"""Bits of one chunk, read in order: the numbers of native histograms.

A varbit number is one of ``0`` (zero) and ``10``, ``110``, ... ``11111111`` with 3, 6, 9, 12, 18, 25, 56 or 64 bits; a
signed one above half of its range is negative. https://github.com/prometheus/prometheus/blob/main/tsdb/chunkenc/varbit.go
"""

from __future__ import annotations

from typing import Final

from aftershock.parsers.prometheus.varints import zigzag

_SIZES: Final = (0, 3, 6, 9, 12, 18, 25, 56, 64)
_MASK: Final = (1 << 64) - 1


class OutOfBits(ValueError):
    """A chunk ends before its samples do."""


class BitReader:
    """Takes bits from the front, high ones first."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        """``at``: the first byte."""
        self._data = data
        self._at = 8 * at
        self._end = 8 * len(data)

    @property
    def left(self) -> int:
        """How many bits there still are."""
        return self._end - self._at

    def take(self, size: int) -> int:
        """The next bits (up to 64) as a number.

        Raises:
            OutOfBits: there are fewer.
        """
        end = self._at + size
        if end > self._end:
            raise OutOfBits("ends before its samples do")
        last = end + 7 >> 3
        word = int.from_bytes(self._data[self._at >> 3 : last], "big") >> (last << 3) - end
        self._at = end
        return word & (1 << size) - 1

    def ones(self, most: int) -> int:
        """How many ones stand before the next zero, at most so many; the zero is passed over, if one ends them."""
        for number in range(most):
            if not self.take(1):
                return number
        return most

    def unsigned(self) -> int:
        """A varbit number."""
        return self.take(_SIZES[self.ones(8)])

    def signed(self) -> int:
        """A varbit number with a sign."""
        size = _SIZES[self.ones(8)]
        number = self.take(size)
        if size == 64:
            return number - (1 << 64) if number >> 63 else number
        return number - (1 << size) if size and number > 1 << size - 1 else number

    def uvarint(self) -> int:
        """A varint of whole bytes, wherever it begins."""
        number = 0
        for shift in range(0, 70, 7):
            byte = self.take(8)
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number & _MASK
        raise OutOfBits("has a number without end")

    def varint(self) -> int:
        """A varint of whole bytes with a sign."""
        return zigzag(self.uvarint())


class XorReader:
    """One float after the other, each against the one before it."""

    def __init__(self, bits: int) -> None:
        """``bits``: of the first value."""
        self.bits = bits
        self._size = 64
        self._trailing = 0

    def next(self, reader: BitReader) -> int:
        """The bits of the next value: ``0`` for the same, ``1`` and a window for another."""
        return self.windowed(reader) if reader.take(1) else self.bits

    def windowed(self, reader: BitReader, new: bool | None = None) -> int:
        """The bits of another value; a bit tells whether its window is a new one, unless that is known."""
        if reader.take(1) if new is None else new:
            leading = reader.take(5)
            self._size = reader.take(6) or 64
            self._trailing = 64 - leading - self._size
            if self._trailing < 0:
                raise OutOfBits("has a value of more than 64 bits")
        self.bits ^= reader.take(self._size) << self._trailing
        return self.bits
