"""What the libraries of Prometheus and parquet-common wrote, against what they read back."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aftershock.parsers.documents import parquet_common, tsdb
from aftershock.parsers.formats import Refused
from aftershock.parsers.prometheus.columns import EVERYTHING, STALE_BITS, Labels, MetricsSource, ReadColumns
from aftershock.parsers.prometheus.histogram import decode_histogram
from aftershock.parsers.prometheus.xor import decode_chunks
from aftershock.parsers.prometheus.xor2 import decode_xor2

SAMPLES = Path(__file__).parents[2] / "samples" / "prometheus"
STALE = f"{STALE_BITS:016x}"

Read = dict[Labels, list[tuple[int, str]]]


def lines(name: str) -> Iterator[dict[str, Any]]:
    with (SAMPLES / name).open() as file:
        yield from map(json.loads, file)


def bits(value: float) -> str:
    return struct.pack(">d", value).hex()


def real(text: str) -> float:
    value: float = struct.unpack(">d", bytes.fromhex(text))[0]
    return value


@pytest.mark.parametrize("encoding", [1, 4])
def test_floats(encoding: int) -> None:
    read = 0
    for one in lines("chunks.jsonl"):
        if one["encoding"] != encoding:
            continue
        chunk = base64.b64decode(one["chunk"])
        if encoding == 1:
            decoded = decode_chunks([chunk])
            times, values = decoded.times, decoded.values
        else:
            times, values = decode_xor2(chunk)
        got = [[time, f"{value:016x}"] for time, value in zip(times, values.view(np.uint64).tolist(), strict=True)]
        assert got == one["samples"], one["title"]
        read += len(got)
    assert read > 300


@pytest.mark.parametrize("encoding", [2, 3, 5, 6])
def test_histograms(encoding: int) -> None:
    read = 0
    for one in lines("chunks.jsonl"):
        if one["encoding"] != encoding:
            continue
        got = decode_histogram(base64.b64decode(one["chunk"]), encoding)
        assert len(got) == len(one["samples"])
        for sample, (time, count, total, *buckets) in zip(got, one["samples"], strict=True):
            assert (sample.time, bits(sample.sum)) == (time, total), one["title"]
            if total == STALE:
                continue
            assert bits(sample.count) == count
            for wanted in buckets:
                # The bounds are powers of two; libraries differ in the last bit of them.
                assert np.array(sample.buckets).ravel() == pytest.approx(
                    [real(text) for bucket in wanted for text in bucket], rel=1e-14, abs=0
                )
            read += 1
    assert read > 60


@pytest.mark.parametrize(("folder", "read"), [("block", tsdb.read_metrics), ("parquet", parquet_common.read_metrics)])
def test_folders(folder: str, read: ReadColumns) -> None:
    top = SAMPLES / folder
    names = tuple(sorted(str(path.relative_to(top)) for path in top.rglob("*") if path.is_file()))
    got: Read = {}
    histograms = 0
    for batch in read(MetricsSource(folder, lambda name: (top / name).open("rb"), names), EVERYTHING):
        assert not isinstance(batch, Refused)
        histograms += len(batch.histograms)
        values = batch.values.view(np.uint64).tolist()
        for at, labels in enumerate(batch.labels):
            begin, end = int(batch.begins[at]), int(batch.begins[at + 1])
            if begin < end:
                own = zip(batch.times[begin:end].tolist(), values[begin:end], strict=True)
                got[labels] = [(time, f"{value:016x}") for time, value in own]
    wanted: Read = {}
    for one in lines(f"{folder}.jsonl"):
        labels = one["labels"]
        if len(one["samples"][0]) == 2:
            wanted[tuple(sorted(labels.items()))] = [(time, value) for time, value in one["samples"]]
            continue
        for at, suffix in enumerate(("_count", "_sum"), start=1):
            named = {**labels, "__name__": labels["__name__"] + suffix}
            wanted[tuple(sorted(named.items()))] = [(sample[0], sample[at]) for sample in one["samples"]]
    assert got == wanted
    assert histograms == 40
