"""Chunks of native histograms: of integers (encoding 2), of floats (3), and both with start times (5, 6).

    uint16 samples | flags | width of the zero bucket | schema | spans of positive and negative buckets | samples

Buckets of schema n grow by the factor 2^(2^-n); those of schema -53 have bounds of their own, which stand in the chunk.
Of times, counts and buckets the first is written as it is, then the differences of distances; sums (and all numbers of
float histograms) are written against the value before. Buckets of integers are themselves differences along the span.
https://github.com/prometheus/prometheus/blob/main/tsdb/docs/format/chunks.md, tsdb/chunkenc/histogram.go.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from aftershock.parsers.prometheus.columns import STALE_BITS
from aftershock.parsers.prometheus.varbit import BitReader, OutOfBits, XorReader

HISTOGRAM: Final = 2
FLOAT_HISTOGRAM: Final = 3
HISTOGRAM_ST: Final = 5
FLOAT_HISTOGRAM_ST: Final = 6
ENCODINGS: Final = frozenset({HISTOGRAM, FLOAT_HISTOGRAM, HISTOGRAM_ST, FLOAT_HISTOGRAM_ST})

_HEADER: Final = 3
_CUSTOM: Final = -53
_SCHEMAS: Final = range(-9, 53)
_COUNT_MASK_ST: Final = 0x3FFF

_STALE: Final = STALE_BITS.to_bytes(8, "big")

Bucket = tuple[float, float, float]


class HistogramSample(NamedTuple):
    """One histogram: milliseconds, count and sum (both markers of staleness at the end of a series), its buckets.

    buckets: (lower, upper, count) of those that are not empty, from the lowest to the highest.
    """

    time: int
    count: float  # type: ignore[assignment]  # a tuple has a method of this name
    sum: float
    buckets: tuple[Bucket, ...]


class Layout(NamedTuple):
    """What buckets count: half the width of the one around zero, (lower, upper) of the others."""

    threshold: float
    positive: tuple[tuple[float, float], ...]
    negative: tuple[tuple[float, float], ...]

    @property
    def number(self) -> int:
        return len(self.positive) + len(self.negative)


def decode_histogram(chunk: bytes, encoding: int) -> list[HistogramSample]:
    """The histograms of a chunk, from its count on.

    Raises:
        OutOfBits: the chunk is damaged.
    """
    if len(chunk) < _HEADER:
        raise OutOfBits("is shorter than its header")
    number = chunk[0] << 8 | chunk[1]
    starts = None
    if encoding in (HISTOGRAM_ST, FLOAT_HISTOGRAM_ST):
        number &= _COUNT_MASK_ST
        starts = chunk[2]
    if not number:
        return []
    reader = BitReader(chunk, _HEADER)
    layout = _read_layout(reader)
    read = _integers if encoding in (HISTOGRAM, HISTOGRAM_ST) else _floats
    return list(read(reader, number, layout, starts))


def _read_layout(reader: BitReader) -> Layout:
    threshold = _read_threshold(reader)
    schema = reader.signed()
    most = reader.left  # every bucket takes a bit or more
    positive, negative = _read_spans(reader, most), _read_spans(reader, most)
    bounds: list[float] = []
    if schema == _CUSTOM:
        size = reader.unsigned()
        if size > reader.left:
            raise OutOfBits("ends before its bounds do")
        for _ in range(size):
            number = reader.unsigned()
            bounds.append((number - 1) / 1000 if number else _real(reader.take(64)))
    return layout_of(schema, threshold, positive, negative, bounds)


def _read_threshold(reader: BitReader) -> float:
    """Half the width of the bucket around zero: in most cases a power of two."""
    power = reader.take(8)
    if power == 255:
        return _real(reader.take(64))
    return math.ldexp(0.5, power - 243) if power else 0.0


def _read_spans(reader: BitReader, most: int) -> list[int]:
    """The indices of buckets."""
    indices: list[int] = []
    at = 0
    for _ in range(reader.unsigned()):
        length, offset = reader.unsigned(), reader.signed()
        at += offset
        if len(indices) + length > most:
            raise OutOfBits("has more buckets than bits")
        indices += range(at, at + length)
        at += length
    return indices


def layout_of(schema: int, threshold: float, positive: list[int], negative: list[int], bounds: list[float]) -> Layout:
    """What the buckets with these indices count; ``bounds``: those of schema -53.

    Raises:
        OutOfBits: an unknown schema, or a bucket without bounds.
    """
    if schema != _CUSTOM and schema not in _SCHEMAS:
        raise OutOfBits(f"has an unknown schema, {schema}")
    if schema == _CUSTOM:
        edges = [-math.inf, *bounds, math.inf]
        if any(not 0 <= i < len(edges) - 1 for i in positive) or negative:
            raise OutOfBits("has a bucket without bounds")
        return Layout(threshold, tuple((edges[i], edges[i + 1]) for i in positive), ())
    upper = tuple((_bound(i - 1, schema), _bound(i, schema)) for i in positive)
    lower = tuple((-_bound(i, schema), -_bound(i - 1, schema)) for i in negative)
    return Layout(threshold, upper, lower)


def _bound(index: int, schema: int) -> float:
    """The upper bound of a bucket: 2 ** (index * 2 ** -schema)."""
    power = index * 2.0**-schema
    if power == 1024:
        return sys.float_info.max  # the last one before the bucket of the infinite
    return math.inf if power > 1024 else 2.0**power


def _integers(reader: BitReader, number: int, layout: Layout, starts: int | None) -> Iterator[HistogramSample]:
    size = layout.number
    time, count, zero = reader.signed(), reader.unsigned(), reader.unsigned()
    total = XorReader(reader.take(64))
    steps = [reader.signed() for _ in range(size)]
    deltas = [0] * (size + 3)
    yield _integer_sample(time, count, zero, total.bits, steps, layout)
    _pass_start(reader, 0, starts)
    for i in range(1, number):
        deltas[0] += reader.signed()
        deltas[1] += reader.signed()
        deltas[2] += reader.signed()
        time, count, zero = time + deltas[0], count + deltas[1], zero + deltas[2]
        if total.next(reader) != STALE_BITS:
            for k in range(size):
                deltas[k + 3] += reader.signed()
                steps[k] += deltas[k + 3]
        yield _integer_sample(time, count, zero, total.bits, steps, layout)
        _pass_start(reader, i, starts)


def _integer_sample(time: int, count: int, zero: int, total: int, steps: list[int], layout: Layout) -> HistogramSample:
    middle = len(layout.positive)
    counts: list[float] = []
    for part in (steps[:middle], steps[middle:]):
        running = 0
        for step in part:
            running += step
            counts.append(_float(running))
    return sample_of(_signed(time), _float(count), _float(zero), _real(total), counts, layout)


def _floats(reader: BitReader, number: int, layout: Layout, starts: int | None) -> Iterator[HistogramSample]:
    time, delta = reader.signed(), 0
    fields = [XorReader(reader.take(64)) for _ in range(3 + layout.number)]  # count, zero, sum, buckets
    yield _float_sample(time, fields, layout)
    _pass_start(reader, 0, starts)
    for i in range(1, number):
        delta += reader.signed()
        time += delta
        for field in fields[:3]:
            field.next(reader)
        if fields[2].bits != STALE_BITS:
            for field in fields[3:]:
                field.next(reader)
        yield _float_sample(time, fields, layout)
        _pass_start(reader, i, starts)


def _float_sample(time: int, fields: list[XorReader], layout: Layout) -> HistogramSample:
    count, zero, total, *counts = (_real(field.bits) for field in fields)
    return sample_of(_signed(time), count, zero, total, counts, layout)


def sample_of(
    time: int, count: float, zero: float, total: float, counts: Sequence[float], layout: Layout
) -> HistogramSample:
    """A histogram, from the counts of its positive buckets and then the negative ones."""
    if struct.pack(">d", total) == _STALE:
        return HistogramSample(time, total, total, ())
    return HistogramSample(time, count, total, _buckets(layout, zero, counts))


def _buckets(layout: Layout, zero: float, counts: Sequence[float]) -> tuple[Bucket, ...]:
    """The buckets that are not empty, in the order of their bounds."""
    middle = len(layout.positive)
    lower = zip(reversed(layout.negative), reversed(counts[middle:]), strict=True)
    upper = zip(layout.positive, counts[:middle], strict=True)
    found = [(*bounds, count) for bounds, count in lower if count]
    if zero:
        found.append((-layout.threshold, layout.threshold, zero))
    found += [(*bounds, count) for bounds, count in upper if count]
    return tuple(found)


def _pass_start(reader: BitReader, index: int, starts: int | None) -> None:
    """Pass over the start time of a sample, where there is one: the header says from which sample on."""
    if not starts:
        return
    if index == 0:
        if starts & 0x80:
            reader.varint()
    elif 0 < starts & 0x7F <= index:
        reader.signed()


def _real(bits: int) -> float:
    value: float = struct.unpack(">d", bits.to_bytes(8, "big"))[0]
    return value


def _signed(number: int) -> int:
    number &= (1 << 64) - 1
    return number - (1 << 64) if number >> 63 else number


def _float(count: int) -> float:
    """A count as a float; what damage made of it may be too large for one."""
    return float(_signed(count))
