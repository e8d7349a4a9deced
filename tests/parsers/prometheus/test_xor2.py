"""Chunks of the encoding XOR2."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.prometheus.varbit import OutOfBits
from aftershock.parsers.prometheus.xor2 import decode_xor2
from tests.parsers.prometheus.block_writer import WrittenChunk, WrittenSeries, write_block
from tests.parsers.prometheus.blocks import BEGAN, STEP, floats, named, read, samples_of, steady
from tests.parsers.prometheus.encoders import NAN, STALE, bits_of
from tests.parsers.prometheus.xor2_encoder import xor2_chunk

values = st.sampled_from([0.0, 1.0, 1.5, NAN, STALE, float("inf")]) | st.floats(allow_nan=False)
steps = st.sampled_from([15_000, 15_000, 15_001, 0]) | st.integers(-(1 << 21), 1 << 21) | st.integers(0, 1 << 40)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(steps, values), max_size=40), st.sampled_from([None, BEGAN - 1000, 0]))
def test_samples_come_back(parts: list[tuple[int, float]], start: int | None) -> None:
    times = (np.cumsum([step for step, _ in parts], dtype=np.int64) + BEGAN).tolist()
    samples = list(zip(times, [value for _, value in parts], strict=True))
    got_times, got_values = decode_xor2(xor2_chunk(samples, start))
    assert got_times.tolist() == times
    assert got_values.view(np.uint64).tolist() == [bits_of(value) for _, value in samples]


def test_they_stand_among_chunks_of_other_encodings(tmp_path: Path) -> None:
    newer = [WrittenChunk(part[0][0], part[-1][0], xor2_chunk(part), 4) for part in (steady(10, 10), steady(10, 30))]
    older = [*floats(steady(10)), *floats(steady(10, 20))]
    chunks = [older[0], newer[0], older[1], newer[1]]
    block = write_block(tmp_path / "b", [WrittenSeries({"__name__": name}, chunks) for name in ("a", "b")])
    batches, refused = read(block)
    assert refused == []
    assert named(samples_of(batches)) == {"a": steady(40), "b": steady(40)}


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_refused_or_small(data: bytes) -> None:
    try:
        times, _ = decode_xor2(data)
    except OutOfBits:
        return
    assert len(times) <= 8 * len(data)


def test_the_sample_after_a_marker_is_told_against_the_one_before() -> None:
    samples = [(BEGAN + STEP * i, value) for i, value in enumerate((5.0, STALE, 5.0, STALE, STALE, 6.0))]
    assert decode_xor2(xor2_chunk(samples))[1].tolist()[2::3] == [5.0, 6.0]
