"""Writes what Prometheus writes: chunks of floats and native histograms, for tests that read them back."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence

STALE = struct.unpack(">d", bytes.fromhex("7ff0000000000002"))[0]
NAN = struct.unpack(">d", bytes.fromhex("7ff8000000000001"))[0]


def bits_of(value: float) -> int:
    """A float as its 64 bits."""
    return int.from_bytes(struct.pack(">d", value), "big")


def uvarint(number: int) -> bytes:
    """An unsigned varint of Go."""
    number &= (1 << 64) - 1
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def varint(number: int) -> bytes:
    """A signed varint of Go (zigzag)."""
    return uvarint(number << 1 ^ number >> 63)


class Bits:
    """Bits, high first."""

    def __init__(self) -> None:
        self._done: list[str] = []

    def put(self, value: int, size: int) -> None:
        """The lowest bits of a number."""
        if size:
            self._done.append(format(value & (1 << size) - 1, f"0{size}b"))

    def put_bytes(self, data: bytes) -> None:
        """Whole bytes, wherever they begin."""
        for byte in data:
            self.put(byte, 8)

    def done(self) -> bytes:
        """All of it, filled up with zero bits."""
        text = "".join(self._done)
        text += "0" * (-len(text) % 8)
        return int(text, 2).to_bytes(len(text) // 8, "big") if text else b""


class XorWindow:
    """The last window of significant bits of one value."""

    def __init__(self) -> None:
        self.leading: int | None = None
        self.trailing = 0

    def put(self, bits: Bits, before: int, now: int) -> None:
        """A value against the one before it."""
        delta = before ^ now
        if not delta:
            bits.put(0, 1)
            return
        leading, trailing = min(64 - delta.bit_length(), 31), (delta & -delta).bit_length() - 1
        if self.leading is not None and leading >= self.leading and trailing >= self.trailing:
            bits.put(0b10, 2)
            bits.put(delta >> self.trailing, 64 - self.leading - self.trailing)
            return
        self.leading, self.trailing = leading, trailing
        size = 64 - leading - trailing
        bits.put(0b11, 2)
        bits.put(leading, 5)
        bits.put(size, 6)  # 64 becomes 0
        bits.put(delta >> trailing, size)


def fits(number: int, size: int) -> bool:
    """Whether a signed number has room in so many bits, as Prometheus counts them."""
    return -((1 << size - 1) - 1) <= number <= 1 << size - 1


def put_dod(bits: Bits, dod: int) -> None:
    """The difference of two distances in time."""
    if dod == 0:
        bits.put(0, 1)
        return
    for prefix, length, size in ((0b10, 2, 14), (0b110, 3, 17), (0b1110, 4, 20)):
        if fits(dod, size):
            bits.put(prefix, length)
            bits.put(dod, size)
            return
    bits.put(0b1111, 4)
    bits.put(dod, 64)


def signed(number: int) -> int:
    """A number as 64 bits hold it."""
    number &= (1 << 64) - 1
    return number - (1 << 64) if number >> 63 else number


def xor_chunk(samples: Sequence[tuple[int, float]]) -> bytes:
    """A chunk of floats from its count on. Times are milliseconds."""
    bits, window = Bits(), XorWindow()
    delta = time = value = 0
    for i, (now, number) in enumerate(samples):
        raw = bits_of(number)
        if i == 0:
            bits.put_bytes(varint(now))
            bits.put(raw, 64)
        elif i == 1:
            delta = signed(now - time)
            bits.put_bytes(uvarint(delta))
            window.put(bits, value, raw)
        else:
            put_dod(bits, signed(now - time - delta))
            delta = signed(now - time)
            window.put(bits, value, raw)
        time, value = now, raw
    return struct.pack(">H", len(samples)) + bits.done()


_STEPS = (
    (0b10, 2, 3),
    (0b110, 3, 6),
    (0b1110, 4, 9),
    (0b11110, 5, 12),
    (0b111110, 6, 18),
    (0b1111110, 7, 25),
    (254, 8, 56),
)


def put_varbit_int(bits: Bits, number: int) -> None:
    """A signed number of a histogram."""
    if number == 0:
        bits.put(0, 1)
        return
    for prefix, length, size in _STEPS:
        if fits(number, size):
            bits.put(prefix, length)
            bits.put(number, size)
            return
    bits.put(255, 8)
    bits.put(number, 64)


def put_varbit_uint(bits: Bits, number: int) -> None:
    """An unsigned number of a histogram."""
    if number == 0:
        bits.put(0, 1)
        return
    for prefix, length, size in _STEPS:
        if number < 1 << size:
            bits.put(prefix, length)
            bits.put(number, size)
            return
    bits.put(255, 8)
    bits.put(number, 64)


def put_zero_threshold(bits: Bits, threshold: float) -> None:
    """How wide the bucket around zero is."""
    fraction, exponent = math.frexp(threshold)
    if threshold == 0:
        bits.put(0, 8)
    elif fraction != 0.5 or not -242 <= exponent <= 11:
        bits.put(255, 8)
        bits.put(bits_of(threshold), 64)
    else:
        bits.put(exponent + 243, 8)


Spans = Sequence[tuple[int, int]]  # (offset, length)


def put_layout(
    bits: Bits, schema: int, threshold: float, positive: Spans, negative: Spans, bounds: Sequence[float]
) -> None:
    """Which buckets the histograms of a chunk have."""
    put_zero_threshold(bits, threshold)
    put_varbit_int(bits, schema)
    for spans in (positive, negative):
        put_varbit_uint(bits, len(spans))
        for offset, length in spans:
            put_varbit_uint(bits, length)
            put_varbit_int(bits, offset)
    if schema == -53:
        put_varbit_uint(bits, len(bounds))
        for bound in bounds:
            if 0 <= bound * 1000 <= 33554430 and round(bound * 1000) / 1000 == bound:
                put_varbit_uint(bits, round(bound * 1000) + 1)
            else:
                bits.put(0, 1)
                bits.put(bits_of(bound), 64)


HistogramSample = tuple[int, int, int, float, Sequence[int], Sequence[int]]
"""(time, count, count of the zero bucket, sum, counts of positive buckets, counts of negative ones)."""


def histogram_chunk(
    samples: Iterable[HistogramSample],
    schema: int = 0,
    threshold: float = 2.0**-128,
    positive: Spans = (),
    negative: Spans = (),
    bounds: Sequence[float] = (),
) -> bytes:
    """A chunk of integer histograms (encoding 2) from its count on."""
    bits, window = Bits(), XorWindow()
    put_layout(bits, schema, threshold, positive, negative, bounds)
    number = 0
    before: list[int] = []
    deltas: list[int] = []
    raw_sum = 0
    for time, count, zero, total, upper, lower in samples:
        steps = [b - a for counts in (upper, lower) for a, b in zip((0, *counts)[: len(counts)], counts, strict=True)]
        if number == 0:
            put_varbit_int(bits, time)
            put_varbit_uint(bits, count)
            put_varbit_uint(bits, zero)
            bits.put(bits_of(total), 64)
            for step in steps:
                put_varbit_int(bits, step)
            before, deltas = [time, count, zero, *steps], [0] * (3 + len(steps))
        else:
            now = [time, count, zero, *steps]
            stale = bits_of(total) == bits_of(STALE)
            if stale:
                now = [time, 0, 0, *before[3:]]
            for i, (old, new) in enumerate(zip(before, now, strict=True)):
                if i == 3:
                    window.put(bits, raw_sum, bits_of(total))
                if i < 3 or not stale:
                    put_varbit_int(bits, new - old - deltas[i])
                    deltas[i] = new - old
            if len(now) == 3:
                window.put(bits, raw_sum, bits_of(total))
            before = now
        raw_sum = bits_of(total)
        number += 1
    return struct.pack(">HB", number, 0) + bits.done()


FloatHistogramSample = tuple[int, float, float, float, Sequence[float], Sequence[float]]


def float_histogram_chunk(
    samples: Iterable[FloatHistogramSample],
    schema: int = 0,
    threshold: float = 2.0**-128,
    positive: Spans = (),
    negative: Spans = (),
) -> bytes:
    """A chunk of histograms of floats (encoding 3) from its count on."""
    bits = Bits()
    put_layout(bits, schema, threshold, positive, negative, ())
    number, delta, last = 0, 0, 0
    windows: list[XorWindow] = []
    before: list[int] = []
    for time, *rest, upper, lower in samples:
        now = [bits_of(v) for v in (*rest, *upper, *lower)]
        if number == 0:
            put_varbit_int(bits, time)
            for raw in now:
                bits.put(raw, 64)
            windows = [XorWindow() for _ in now]
        else:
            put_varbit_int(bits, time - last - delta)
            delta = time - last
            for window, old, new in zip(windows, before, now, strict=True):
                window.put(bits, old, new)
        before, last = now, time
        number += 1
    return struct.pack(">HB", number, 0) + bits.done()
