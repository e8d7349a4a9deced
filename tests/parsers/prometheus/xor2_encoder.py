"""Writes chunks of the encoding XOR2, with start times or without."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tests.parsers.prometheus.encoders import STALE, Bits, bits_of, put_varbit_int, signed, uvarint, varint

_STALE = bits_of(STALE)


class _Writer:
    def __init__(self) -> None:
        self.bits = Bits()
        self.base = 0
        self.leading: int | None = None
        self.trailing = 0

    def window(self, raw: int, reuse: tuple[int, int], new: tuple[int, int]) -> None:
        """A value that is another, in the last window or in a new one, each with its prefix."""
        delta = self.base ^ raw
        leading, trailing = min(64 - delta.bit_length(), 31), (delta & -delta).bit_length() - 1
        if self.leading is not None and leading >= self.leading and trailing >= self.trailing:
            self.bits.put(*reuse)
        else:
            self.leading, self.trailing = leading, trailing
            self.bits.put(*new)
            self.bits.put(leading, 5)
            self.bits.put(64 - leading - trailing, 6)
        self.bits.put(delta >> self.trailing, 64 - self.leading - self.trailing)
        self.base = raw

    def value(self, raw: int) -> None:
        """A value of which nothing is known yet."""
        if raw == _STALE:
            self.bits.put(0b111, 3)
        elif raw == self.base:
            self.bits.put(0, 1)
        else:
            self.window(raw, (0b10, 2), (0b110, 3))

    def joint(self, dod: int, raw: int) -> None:
        """A sample from the third on."""
        if dod == 0 and raw == _STALE:
            self.bits.put(0b11111, 5)
        elif dod == 0 and raw == self.base:
            self.bits.put(0, 1)
        elif dod == 0:
            self.bits.put(0b10, 2)
            self.window(raw, (0, 1), (1, 1))
        else:
            for prefix, length, size in ((0b110, 3, 13), (0b1110, 4, 20), (0b11110, 5, 64)):
                if -(1 << size - 1) <= dod < 1 << size - 1:
                    self.bits.put(prefix, length)
                    self.bits.put(dod, size)
                    break
            self.value(raw)


def xor2_chunk(samples: Sequence[tuple[int, float]], start: int | None = None) -> bytes:
    """A chunk from its count on. ``start``: a start time that every sample has."""
    writer = _Writer()
    last = delta = 0
    for i, (time, value) in enumerate(samples):
        raw = bits_of(value)
        if i == 0:
            writer.bits.put_bytes(varint(time))
            writer.bits.put(raw, 64)
            writer.base = 0 if raw == _STALE else raw
        elif i == 1:
            delta = signed(time - last)
            writer.bits.put_bytes(uvarint(delta))
            writer.value(raw)
        else:
            writer.joint(signed(time - last - delta), raw)
            delta = signed(time - last)
        if start is not None:
            if i == 0:
                writer.bits.put_bytes(varint(time - start))
            else:
                put_varbit_int(writer.bits, signed(last - start))
        last = time
    header = 0 if start is None else 0x80 | 1
    return struct.pack(">HB", len(samples), header) + writer.bits.done()
