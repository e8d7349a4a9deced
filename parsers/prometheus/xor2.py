"""Chunks of floats as Prometheus may write them since 3.13 (XOR2, encoding 4), one after the other.

    uint16 samples | start times | varint t0 | float64 v0 | uvarint t1 - t0 | value | sample 2 | ...

A sample begins with one of ``0`` (same distance in time, same value), ``10`` (same distance, another value), ``110``,
``1110``, ``11110`` (difference of distances of 13, 20 or 64 bits, then a value) and ``11111`` (marker of staleness). A
value is ``0``, ``10``, ``110`` or ``111``: the same, in the last window, in a new one, a marker; after ``10`` it is
known to be another, and only the window is told. The value after a marker is told against the one before it.
https://github.com/prometheus/prometheus/blob/main/tsdb/chunkenc/xor2.go
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from aftershock.parsers.prometheus.columns import STALE_BITS
from aftershock.parsers.prometheus.varbit import BitReader, OutOfBits, XorReader

_HEADER: Final = 3
_DOD_BITS: Final = (13, 20, 64)
_STALE: Final = 5
_MASK: Final = (1 << 64) - 1


def decode_xor2(chunk: bytes) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Times and values of a chunk, from its count on.

    Raises:
        OutOfBits: the chunk is damaged.
    """
    if len(chunk) < _HEADER:
        raise OutOfBits("is shorter than its header")
    number, starts = chunk[0] << 8 | chunk[1], chunk[2]
    reader = BitReader(chunk, _HEADER)
    times: list[int] = []
    values: list[int] = []
    time, delta, value = 0, 0, XorReader(0)
    for i in range(number):
        if i == 0:
            time = reader.varint()
            now = reader.take(64)
            value = XorReader(0 if now == STALE_BITS else now)
        elif i == 1:
            delta = reader.uvarint()
            now = _value(reader, value)
        else:
            kind = reader.ones(5)
            if kind >= 2 and kind != _STALE:
                delta += _dod(reader, _DOD_BITS[kind - 2])
                now = _value(reader, value)
            elif kind == 1:
                now = value.windowed(reader)
            else:
                now = STALE_BITS if kind == _STALE else value.bits
        time += delta if i else 0
        times.append(time & _MASK)
        values.append(now)
        if i == 0 and starts & 0x80:
            reader.varint()
        elif 0 < starts & 0x7F <= i:
            reader.signed()
    return np.array(times, np.uint64).view(np.int64), np.array(values, np.uint64).view(np.float64)


def _value(reader: BitReader, value: XorReader) -> int:
    """The bits of a value that may be the same, another, or a marker of staleness."""
    if not reader.take(1):
        return value.bits
    if not reader.take(1):
        return value.windowed(reader, new=False)
    return STALE_BITS if reader.take(1) else value.windowed(reader, new=True)


def _dod(reader: BitReader, size: int) -> int:
    number = reader.take(size)
    return number - (1 << size) if number >> size - 1 else number
