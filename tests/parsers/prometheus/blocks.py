"""Blocks for tests, and how they are read."""

from __future__ import annotations

from pathlib import Path

from aftershock.parsers.formats import Refused
from aftershock.parsers.prometheus.columns import EVERYTHING, Labels, MetricsSource, SeriesBatch, Wanted
from aftershock.parsers.prometheus.tsdb_block import read_block
from tests.parsers.prometheus.block_writer import WrittenChunk, WrittenSeries
from tests.parsers.prometheus.encoders import xor_chunk

BEGAN = 1_772_366_400_000
STEP = 15_000

Samples = list[tuple[int, float]]


def floats(samples: Samples, per_chunk: int = 120) -> list[WrittenChunk]:
    """Chunks of floats that hold these samples."""
    parts = [samples[i : i + per_chunk] for i in range(0, len(samples), per_chunk)]
    return [WrittenChunk(part[0][0], part[-1][0], xor_chunk(part)) for part in parts]


def series(name: str, samples: Samples, per_chunk: int = 120, **labels: str) -> WrittenSeries:
    """A series of floats."""
    return WrittenSeries({"__name__": name, **labels}, floats(samples, per_chunk))


def steady(number: int, first: int = 0) -> Samples:
    """Samples at every step, whose values count up."""
    return [(BEGAN + STEP * i, float(i)) for i in range(first, first + number)]


def source_of(folder: Path) -> MetricsSource:
    """A folder as a reader takes it."""
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return MetricsSource(str(folder), lambda name: open(folder / name, "rb", buffering=0), tuple(names))


def read(folder: Path, wanted: Wanted = EVERYTHING) -> tuple[list[SeriesBatch], list[Refused]]:
    """The batches and the refusals of a block."""
    return apart(read_block(source_of(folder), wanted))


def apart(items: object) -> tuple[list[SeriesBatch], list[Refused]]:
    """Batches and refusals, each by themselves."""
    batches: list[SeriesBatch] = []
    refused: list[Refused] = []
    for item in items:  # type: ignore[attr-defined]
        if isinstance(item, Refused):
            refused.append(item)
        else:
            batches.append(item)
    return batches, refused


def samples_of(batches: list[SeriesBatch]) -> dict[Labels, Samples]:
    """The samples by the labels of their series, of series that have any."""
    found: dict[Labels, Samples] = {}
    for batch in batches:
        assert len(batch.begins) == len(batch.labels) + 1
        assert batch.begins[0] == 0
        assert batch.begins[-1] == len(batch.times) == len(batch.values)
        for i, labels in enumerate(batch.labels):
            own = slice(batch.begins[i], batch.begins[i + 1])
            pairs = list(zip(batch.times[own].tolist(), batch.values[own].tolist(), strict=True))
            if pairs:
                assert labels not in found
                found[labels] = pairs
    return found


def named(found: dict[Labels, Samples]) -> dict[str, Samples]:
    """The same by the names of metrics, of which each has one series."""
    by_name = {dict(labels)["__name__"]: samples for labels, samples in found.items()}
    assert len(by_name) == len(found)
    return by_name
