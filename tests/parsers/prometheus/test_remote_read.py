"""Answers of remote read: both kinds, whole, cut off and damaged."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence

import cramjam
import google_crc32c
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.detect import detect
from aftershock.parsers.documents.remote_read import FORMAT, read_metrics
from aftershock.parsers.formats import Head, Refused
from aftershock.parsers.prometheus.columns import EVERYTHING, MetricsSource, SeriesBatch, Wanted
from tests.parsers.prometheus.blocks import BEGAN, STEP, Samples, apart, named, samples_of, steady
from tests.parsers.prometheus.encoders import NAN, STALE, bits_of, histogram_chunk, uvarint, xor_chunk

Labels = dict[str, str]


def message(number: int, data: bytes) -> bytes:
    return uvarint(number << 3 | 2) + uvarint(len(data)) + data


def real(number: int, value: float) -> bytes:
    """A double; like gogo, nothing for zero."""
    return b"" if bits_of(value) == 0 else uvarint(number << 3 | 1) + struct.pack("<d", value)


def whole(number: int, value: int) -> bytes:
    return b"" if value == 0 else uvarint(number << 3) + uvarint(value)


def labels_message(labels: Labels) -> bytes:
    return b"".join(message(1, message(1, k.encode()) + message(2, v.encode())) for k, v in sorted(labels.items()))


def series_message(labels: Labels, samples: Samples, histograms: Sequence[bytes] = ()) -> bytes:
    body = b"".join(message(2, real(1, value) + whole(2, time)) for time, value in samples)
    return labels_message(labels) + body + b"".join(message(4, one) for one in histograms)


def answer(*series: bytes) -> bytes:
    packed = cramjam.snappy.compress_raw(message(1, b"".join(message(1, one) for one in series)))
    return bytes(packed)


def frame(*series: bytes) -> bytes:
    data = b"".join(message(1, one) for one in series)
    return uvarint(len(data)) + struct.pack(">I", google_crc32c.value(data)) + data


def chunked(labels: Labels, *parts: Samples) -> bytes:
    chunks = (
        whole(1, part[0][0]) + whole(2, part[-1][0]) + whole(3, 1) + message(4, xor_chunk(part)) for part in parts
    )
    return labels_message(labels) + b"".join(message(2, chunk) for chunk in chunks)


def read(data: bytes, wanted: Wanted = EVERYTHING) -> tuple[list[SeriesBatch], list[Refused]]:
    return apart(read_metrics(MetricsSource("answer", lambda name: io.BytesIO(data)), wanted))


numbers = st.sampled_from([0.0, -0.0, 1.0, float("inf")]) | st.floats(allow_nan=False)
some_samples = st.lists(st.tuples(st.integers(0, 1 << 45), numbers), max_size=30, unique_by=lambda pair: pair[0])


@settings(max_examples=100, deadline=None)
@given(st.lists(some_samples, max_size=5))
def test_samples_come_back(parts: list[Samples]) -> None:
    ordered = [sorted(part) for part in parts]
    data = answer(*(series_message({"__name__": f"m{i}"}, part) for i, part in enumerate(ordered)))
    batches, refused = read(data)
    if not any(ordered) and not data.count(b"__name__"):
        return  # an empty answer is not recognised as one
    assert refused == []
    assert named(samples_of(batches)) == {f"m{i}": part for i, part in enumerate(ordered) if part}


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(some_samples.filter(bool), min_size=1, max_size=3), min_size=1, max_size=4))
def test_chunks_come_back(parts: list[list[Samples]]) -> None:
    ordered = [[sorted(chunk) for chunk in part] for part in parts]
    data = b"".join(frame(chunked({"__name__": f"m{i}"}, *part)) for i, part in enumerate(ordered))
    batches, refused = read(data)
    assert refused == []
    wanted = {}
    for i, part in enumerate(ordered):
        first: dict[int, float] = {}
        for time, value in (pair for chunk in part for pair in chunk):
            first.setdefault(time, value)
        wanted[f"m{i}"] = sorted(first.items())
    assert named(samples_of(batches)) == wanted


def test_both_kinds_are_recognised_by_content() -> None:
    many = [series_message({"__name__": "up", "instance": f"10.0.{i}.1:9400"}, steady(300)) for i in range(50)]
    assert detect(Head("response.bin", answer(*many)[: 64 << 10])).format == "remote_read"
    long = frame(*(chunked({"UUID": f"GPU-{i}", "__name__": "t"}, steady(120)) for i in range(900)))
    assert len(long) > 64 << 10
    assert detect(Head("x", long[: 64 << 10])).format == "remote_read"


def test_markers_and_nans_keep_their_bits() -> None:
    samples = [(BEGAN, 1.0), (BEGAN + STEP, NAN), (BEGAN + 2 * STEP, STALE)]
    for data in (answer(series_message({"__name__": "up"}, samples)), frame(chunked({"__name__": "up"}, samples))):
        (batch,), _ = read(data)
        assert batch.values.view(np.uint64).tolist() == [bits_of(value) for _, value in samples]


def test_a_series_goes_on_in_the_next_frame() -> None:
    labels = {"__name__": "up"}
    data = frame(chunked(labels, steady(10))) + frame(
        chunked(labels, steady(10, 10)), chunked({"__name__": "b"}, steady(1))
    )
    assert named(samples_of(read(data)[0])) == {"up": steady(20), "b": steady(1)}


def test_only_wanted_chunks_and_metrics_are_decoded() -> None:
    data = frame(*(chunked({"__name__": name}, steady(10), steady(10, 10)) for name in ("a", "b")))
    wanted = Wanted(spans=((BEGAN + 12 * STEP, BEGAN + 13 * STEP),), metrics=frozenset({"b"}))
    assert named(samples_of(read(data, wanted)[0])) == {"b": steady(10, 10)}


def test_a_bad_frame_is_refused_and_the_next_is_read() -> None:
    first, second, third = (frame(chunked({"__name__": name}, steady(3))) for name in ("a", "b", "c"))
    broken = bytearray(first)
    broken[-1] ^= 1
    batches, refused = read(second + bytes(broken) + third)
    assert set(named(samples_of(batches))) == {"b", "c"}
    assert [r.offset for r in refused] == [len(second)]
    assert "wrong checksum" in refused[0].reason
    batches, refused = read(first + second[:-3])
    assert named(samples_of(batches)) == {"a": steady(3)}
    assert "cut off" in refused[0].reason


def test_an_unknown_encoding_is_named() -> None:
    chunk = whole(1, BEGAN) + whole(2, BEGAN) + whole(3, 9) + message(4, b"\0\1")
    data = frame(labels_message({"__name__": "a"}) + message(2, chunk), chunked({"__name__": "b"}, steady(2)))
    batches, refused = read(data)
    assert named(samples_of(batches)) == {"b": steady(2)}
    assert "encoding 9" in refused[0].reason


def test_an_answer_that_is_cut_off_is_refused() -> None:
    data = answer(series_message({"__name__": "up"}, steady(500)))
    batches, refused = read(data[:-20])
    assert batches == []
    assert "damaged or cut off" in refused[0].reason
    huge = uvarint(1 << 29) + data[2:]
    assert "snappy" in read(huge)[1][0].reason


def test_native_histograms_come_in_both_kinds() -> None:
    spans = message(11, uvarint(2 << 3) + uvarint(2))
    counts = message(12, b"".join(uvarint(n) for n in (4, 2)))  # zigzag: 2, then 1 more
    one = whole(1, 6) + real(3, 2.5) + real(5, 0.001) + whole(6, 1) + spans + counts + whole(15, BEGAN)
    stale = real(3, STALE) + whole(15, BEGAN + STEP)
    (batch,), refused = read(answer(series_message({"__name__": "rpc"}, [], [one, stale])))
    assert refused == []
    found = named(samples_of([batch]))
    assert found["rpc_count"][0] == (BEGAN, 6.0)
    assert found["rpc_sum"][0] == (BEGAN, 2.5)
    assert batch.stale().sum() == 2
    buckets = ((-0.001, 0.001, 1.0), (0.5, 1.0, 2.0), (1.0, 2.0, 3.0))
    assert batch.histograms[0].buckets == buckets
    data = histogram_chunk([(BEGAN, 6, 1, 2.5, [2, 3], [])], 0, 0.001, [(0, 2)])
    chunk = whole(1, BEGAN) + whole(2, BEGAN) + whole(3, 2) + message(4, data)
    (batch,), _ = read(frame(labels_message({"__name__": "rpc"}) + message(2, chunk)))
    assert batch.histograms[0].buckets == buckets
    assert named(samples_of([batch]))["rpc_count"] == [(BEGAN, 6.0)]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damage_never_raises(data: st.DataObject) -> None:
    text = bytearray(data.draw(st.sampled_from(FORMAT.samples)).text.encode("utf-8", "surrogateescape"))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        text[at : at + data.draw(st.integers(0, 12))] = data.draw(st.binary(max_size=6))
    read(bytes(text))


@pytest.mark.parametrize("data", [b"", b"\n", b"text\n", bytes(100), b"\xff" * 100])
def test_other_bytes_are_refused(data: bytes) -> None:
    batches, refused = read(data)
    assert batches == []
    assert len(refused) == bool(data) or data == bytes(100)
