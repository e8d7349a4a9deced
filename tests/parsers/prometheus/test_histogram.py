"""Chunks of native histograms, of integers and of floats."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.prometheus.columns import STALE_BITS
from aftershock.parsers.prometheus.histogram import ENCODINGS, decode_histogram
from aftershock.parsers.prometheus.varbit import BitReader, OutOfBits
from tests.parsers.prometheus.encoders import (
    STALE,
    Bits,
    HistogramSample,
    bits_of,
    float_histogram_chunk,
    histogram_chunk,
    put_varbit_int,
    put_varbit_uint,
)

BEGAN = 1_772_366_400_000


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-300, 300), max_size=20))
def test_signed_numbers_come_back(numbers: list[int]) -> None:
    bits = Bits()
    for number in numbers:
        put_varbit_int(bits, number)
    reader = BitReader(bits.done())
    assert [reader.signed() for _ in numbers] == numbers


@given(st.lists(st.integers(0, (1 << 64) - 1) | st.integers(0, 600), max_size=20))
def test_unsigned_numbers_come_back(numbers: list[int]) -> None:
    bits = Bits()
    for number in numbers:
        put_varbit_uint(bits, number)
    reader = BitReader(bits.done())
    assert [reader.unsigned() for _ in numbers] == numbers


counts = st.integers(0, 50) | st.integers(0, 1 << 50)


@st.composite
def integer_samples(draw: st.DrawFn) -> tuple[list[HistogramSample], int, int]:
    upper, lower = draw(st.integers(0, 6)), draw(st.integers(0, 3))
    time = BEGAN
    out: list[HistogramSample] = []
    for _ in range(draw(st.integers(0, 12))):
        buckets = [draw(st.lists(counts, min_size=n, max_size=n)) for n in (upper, lower)]
        total = draw(st.floats(allow_nan=False) | st.just(1.5))
        out.append((time, draw(counts), draw(counts), total, *buckets))
        time += draw(st.integers(-100, 100_000))
    return out, upper, lower


@settings(max_examples=150, deadline=None)
@given(integer_samples(), st.integers(-4, 8))
def test_integer_histograms_come_back(drawn: tuple[list[HistogramSample], int, int], schema: int) -> None:
    samples, upper, lower = drawn
    chunk = histogram_chunk(samples, schema, 0.001, [(-1, upper)], [(2, lower)])
    got = decode_histogram(chunk, 2)
    assert [(s.time, s.count, s.sum) for s in got] == [(t, float(c), s) for t, c, _, s, _, _ in samples]
    for one, (_, _, zero, _, high, low) in zip(got, samples, strict=True):
        wanted = [float(n) for n in (*reversed(low), zero, *high) if n]
        assert [count for _, _, count in one.buckets] == wanted


def test_buckets_have_the_bounds_of_their_schema() -> None:
    chunk = histogram_chunk([(BEGAN, 10, 1, 2.5, [2, 3], [4])], 1, 2.0**-128, [(0, 1), (2, 1)], [(1, 1)])
    (sample,) = decode_histogram(chunk, 2)
    root = math.sqrt(2)
    assert sample.buckets[1] == (-(2.0**-128), 2.0**-128, 1.0)
    assert [bucket[2] for bucket in sample.buckets] == [4.0, 1.0, 2.0, 3.0]
    assert sample.buckets[0][:2] == pytest.approx((-root, -1.0))
    assert sample.buckets[2][:2] == pytest.approx((1 / root, 1.0))
    assert sample.buckets[3][:2] == pytest.approx((2.0, 2 * root))


def test_buckets_may_have_bounds_of_their_own() -> None:
    chunk = histogram_chunk([(BEGAN, 6, 0, 2.5, [1, 2, 3], [])], -53, 0.0, [(0, 3)], [], [0.005, 1e-9 + 1])
    (sample,) = decode_histogram(chunk, 2)
    assert sample.buckets == ((-math.inf, 0.005, 1.0), (0.005, 1 + 1e-9, 2.0), (1 + 1e-9, math.inf, 3.0))


def test_float_histograms_come_back() -> None:
    samples = [(BEGAN + 15_000 * k, 4.5 * k, 0.5, 1.25 * k, [1.5 * k, 2.0], [0.25]) for k in range(5)]
    got = decode_histogram(float_histogram_chunk(samples, 0, 1.0, [(0, 2)], [(0, 1)]), 3)
    assert [s.time for s in got] == [BEGAN + 15_000 * k for k in range(5)]
    assert [s.count for s in got] == [4.5 * k for k in range(5)]
    assert got[2].buckets == ((-1.0, -0.5, 0.25), (-1.0, 1.0, 0.5), (0.5, 1.0, 3.0), (1.0, 2.0, 2.0))


def test_the_end_of_a_series_is_a_marker_in_count_and_sum() -> None:
    samples = [(BEGAN, 3, 1, 2.0, [2], []), (BEGAN + 15_000, 0, 0, STALE, [2], [])]
    last = decode_histogram(histogram_chunk(samples, 0, 0.0, [(0, 1)]), 2)[-1]
    assert bits_of(last.sum) == bits_of(last.count) == STALE_BITS
    assert last.buckets == ()


def test_start_times_are_passed_over() -> None:
    """Encodings 5 and 6: flags in the count, a header for start times, and nothing else if there are none."""
    plain = histogram_chunk([(BEGAN, 3, 1, 2.0, [2], [])], 0, 0.0, [(0, 1)])
    with_starts = bytes((plain[0] | 0x80, plain[1], 0)) + plain[3:]
    assert decode_histogram(with_starts, 5) == decode_histogram(plain, 2)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=80), st.sampled_from(sorted(ENCODINGS)))
def test_arbitrary_bytes_are_refused_or_small(data: bytes, encoding: int) -> None:
    try:
        got = decode_histogram(data, encoding)
    except OutOfBits:
        return
    assert sum(1 + len(sample.buckets) for sample in got) <= 8 * len(data)
