"""Chunks of floats: what the writer put in comes out, bit by bit, however many are read at once."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.prometheus.columns import STALE_BITS
from aftershock.parsers.prometheus.xor import decode_chunks, decode_xor
from tests.parsers.prometheus.encoders import NAN, STALE, bits_of, xor_chunk

BEGAN = 1_772_366_400_000

raw_floats = st.integers(0, (1 << 64) - 1).map(lambda raw: struct.unpack("<d", struct.pack("<Q", raw))[0])
values = st.sampled_from([0.0, -0.0, 1.0, NAN, STALE, float("inf"), 0.1]) | st.integers(0, 100).map(float) | raw_floats
steps = st.sampled_from([0, 15_000, 15_001, 14_999, -1, 1 << 13, -(1 << 13), 1 << 16, 1 << 19, -(1 << 19)])
steps = steps | st.integers(-(1 << 21), 1 << 21) | st.integers(-(1 << 62), 1 << 62)


@st.composite
def series(draw: st.DrawFn) -> list[tuple[int, float]]:
    size = draw(st.sampled_from([0, 1, 2, 3]) | st.integers(0, 40))
    time = draw(st.sampled_from([0, BEGAN, -BEGAN]) | st.integers(-(1 << 62), 1 << 62))
    out = []
    for _ in range(size):
        out.append((time, draw(values)))
        time = max(-(1 << 63), min((1 << 63) - 1, time + draw(steps)))
    return out


@settings(max_examples=200, deadline=None)
@given(st.lists(series(), max_size=8))
def test_chunks_hold_what_was_written(given_chunks: list[list[tuple[int, float]]]) -> None:
    decoded = decode_chunks([xor_chunk(samples) for samples in given_chunks])
    assert not decoded.damaged.any()
    for i, samples in enumerate(given_chunks):
        own = slice(decoded.begins[i], decoded.begins[i + 1])
        assert decoded.times[own].tolist() == [time for time, _ in samples]
        assert decoded.values[own].view(np.uint64).tolist() == [bits_of(value) for _, value in samples]


def test_a_marker_of_staleness_and_an_ordinary_nan_keep_their_bits() -> None:
    decoded = decode_chunks([xor_chunk([(BEGAN, 1.0), (BEGAN + 15_000, NAN), (BEGAN + 30_000, STALE)])])
    assert decoded.values.view(np.uint64).tolist()[1:] == [0x7FF8_0000_0000_0001, STALE_BITS]


def test_chunks_of_very_different_sizes_stand_in_their_own_order() -> None:
    sizes = [1, 500, 2, 3, 500, 120, 0, 7]
    chunks = [xor_chunk([(BEGAN + 1000 * k, float(i * 1000 + k)) for k in range(n)]) for i, n in enumerate(sizes)]
    decoded = decode_chunks(chunks)
    assert np.diff(decoded.begins).tolist() == sizes
    assert decoded.values.tolist() == [float(i * 1000 + k) for i, n in enumerate(sizes) for k in range(n)]


def test_chunks_may_lie_anywhere_in_a_buffer() -> None:
    one, two = xor_chunk([(5, 1.5)]), xor_chunk([(7, 2.5), (9, 2.5)])
    buffer = b"?" * 3 + two + b"??" + one
    starts = np.array([len(buffer) - len(one), 3])
    decoded = decode_xor(buffer, starts, starts + np.array([len(one), len(two)]))
    assert decoded.times.tolist() == [5, 7, 9]


@pytest.mark.parametrize("cut", [0, 1, 2, 9, 12, 20, 40])
def test_a_chunk_that_is_cut_off_gives_nothing_and_harms_no_other(cut: int) -> None:
    whole = xor_chunk([(BEGAN + 15_000 * k, k * 0.1) for k in range(60)])
    decoded = decode_chunks([whole, whole[:cut], whole])
    assert decoded.damaged.tolist() == [False, True, False]
    assert np.diff(decoded.begins).tolist() == [60, 0, 60]
    assert decoded.times[:60].tolist() == decoded.times[60:].tolist()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=5))
def test_arbitrary_bytes_never_raise_and_never_swell(chunks: list[bytes]) -> None:
    decoded = decode_chunks(chunks)
    counts = np.diff(decoded.begins)
    assert len(decoded.times) == len(decoded.values) == counts.sum()
    assert all(count <= 4 * len(chunk) for count, chunk in zip(counts, chunks, strict=True))
