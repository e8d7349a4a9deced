"""A block of Prometheus, Thanos, Mimir or Cortex, as columns: meta.json, index, chunks, tombstones.

https://github.com/prometheus/prometheus/blob/main/tsdb/docs/format/README.md. Chunks outside the times that are wanted
are not read. What was deleted (tombstones) stays out. The labels that tell one Prometheus from another stand only in
meta.json, where Thanos writes them: they are added to every series. The good rest of a damaged block is read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import google_crc32c
import numpy as np
import orjson
from numpy.typing import NDArray

from aftershock.parsers.formats import Refused
from aftershock.parsers.prometheus.chunk_batch import MISSING, Chunks, Problem, batch_of
from aftershock.parsers.prometheus.columns import MetricsSource, SeriesBatch, Wanted
from aftershock.parsers.prometheus.file_ranges import FileRanges
from aftershock.parsers.prometheus.ragged import begins_of
from aftershock.parsers.prometheus.tsdb_chunks import ChunkFiles, place_of
from aftershock.parsers.prometheus.tsdb_index import IndexDamage, open_index
from aftershock.parsers.prometheus.tsdb_pick import LabelsOf, Picked, Picker
from aftershock.parsers.prometheus.varints import read_uvarint, zigzag

Ints = NDArray[np.int64]
Spans = Mapping[int, Sequence[tuple[int, int]]]

# Samples that a batch has as a rule: 4096 chunks of 120 have half a million.
_BATCH_SAMPLES: Final = 2 << 20
# Chunks that cannot be read are refused one by one up to here, and counted beyond.
_TOLD_CHUNKS: Final = 100
_LARGEST_META: Final = 16 << 20
_TOMBSTONES_MAGIC: Final = b"\x01\x30\xba\x30\x01"
_EXCERPT: Final = 256


def read_block(source: MetricsSource, wanted: Wanted) -> Iterator[SeriesBatch | Refused]:
    """The samples of a block, whose files stand at the top of ``source``."""
    refusals: list[Refused] = []
    meta = _read_meta(source, refusals)
    if meta.downsampled:
        reason = f"a block that Thanos downsampled to {meta.downsampled} s: no samples; give the raw blocks"
        yield Refused(0, 0, f"tsdb: {reason}")
        return
    deleted = _read_tombstones(source, refusals)
    yield from refusals
    if "index" not in source.names:
        yield Refused(0, 0, "tsdb: no index: nothing says which series the chunks are of")
        return
    try:
        file = FileRanges(source.open("index"))
    except OSError as error:
        yield Refused(0, 0, f"tsdb: index: cannot be read: {error.strerror or error}")
        return
    try:
        index = open_index(file)
    except IndexDamage as damage:
        yield Refused(0, 0, f"tsdb: index: {damage}", file.read(0, _EXCERPT))
        file.close()
        return
    files = ChunkFiles(source)
    told = _Told()
    yield from map(_of_index, index.damage)
    labels_of = LabelsOf(index.symbols, meta.labels)
    for picked in Picker(index, wanted).batches():
        if isinstance(picked, Refused):
            yield _of_index(picked)
            continue
        data, problems = files.read(picked.places)
        yield from told.of(picked.places, problems)
        labels = labels_of(picked)
        for begin, end in _portions(picked, data):
            part, first = picked.part(begin, end), picked.chunk_begins[begin]
            own = data[first : first + len(part.places)]
            encodings = np.fromiter((chunk[0] if chunk else MISSING for chunk in own), np.uint8, len(own))
            chunks = Chunks(labels[begin:end], part.chunk_begins, own, encodings, skip=1)
            batch, problems = batch_of(
                chunks, {i: deleted[ref] for i, ref in enumerate(part.refs.tolist()) if ref in deleted}
            )
            yield from told.of(part.places, problems)
            if len(batch.times):
                yield batch
    yield from told.rest()
    files.close()
    file.close()


def _portions(picked: Picked, data: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Series whose chunks are decoded together: all, unless their chunks claim unusually many samples."""
    claimed = begins_of(np.fromiter((int.from_bytes(chunk[1:3], "big") for chunk in data), np.int64, len(data)))
    samples = claimed[picked.chunk_begins]
    begin, number = 0, len(picked.refs)
    while begin < number:
        end = int(np.searchsorted(samples, samples[begin] + _BATCH_SAMPLES, side="right")) - 1
        end = min(max(end, begin + 1), number)
        yield begin, end
        begin = end


def _of_index(refused: Refused) -> Refused:
    return refused._replace(reason=f"tsdb: {refused.reason}")


@dataclass(frozen=True)
class _Meta:
    labels: Mapping[str, str]
    downsampled: int  # seconds, 0 for raw samples


def _read_meta(source: MetricsSource, refusals: list[Refused]) -> _Meta:
    """What meta.json says: the external labels of Thanos, and whether it is raw."""
    try:
        if "meta.json" not in source.names:
            raise ValueError("is missing")
        with source.open("meta.json") as stream:
            meta = orjson.loads(stream.read(_LARGEST_META))
        if not isinstance(meta, dict) or "ulid" not in meta:
            raise ValueError("is not that of a block")
    except (ValueError, OSError) as error:
        reason = f"tsdb: meta.json: {error}; external labels, if there were any, are not known"
        refusals.append(Refused(0, 0, reason))
        return _Meta({}, 0)
    thanos = _member(meta, "thanos")
    labels = {name: value for name, value in _member(thanos, "labels").items() if isinstance(value, str) and value}
    resolution = _member(thanos, "downsample").get("resolution")
    return _Meta(labels, resolution // 1000 if isinstance(resolution, int) else 0)


def _member(value: Any, name: str) -> dict[str, Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _read_tombstones(source: MetricsSource, refusals: list[Refused]) -> Spans:
    """What was deleted: (first, last time) by series."""
    deleted: dict[int, list[tuple[int, int]]] = defaultdict(list)
    if "tombstones" not in source.names:
        return deleted
    try:
        with source.open("tombstones") as stream:
            data = stream.read()
    except OSError as error:
        refusals.append(Refused(0, 0, f"tsdb: tombstones: cannot be read: {error.strerror or error}"))
        return deleted
    head = len(_TOMBSTONES_MAGIC)
    body = data[head:-4]
    sound = data[:head] == _TOMBSTONES_MAGIC and google_crc32c.value(body) == int.from_bytes(data[-4:], "big")
    if not sound or len(data) < head + 4:
        refusals.append(Refused(0, len(data), "tsdb: tombstones: damaged; what was deleted is read", data[:_EXCERPT]))
        return deleted
    at = 0
    numbers: list[int] = []
    while at < len(body) and (found := read_uvarint(body, at)) is not None:
        number, at = found
        numbers.append(number)
    for ref, first, last in zip(numbers[0::3], numbers[1::3], numbers[2::3], strict=False):
        deleted[ref].append((zigzag(first), zigzag(last)))
    return deleted


class _Told:
    """Says which chunks could not be read: each of the first ones, then how many."""

    def __init__(self) -> None:
        self._left = _TOLD_CHUNKS
        self._more: Counter[str] = Counter()

    def of(self, places: Ints, problems: Sequence[Problem]) -> Iterator[Refused]:
        """Refusals for the problems of some chunks."""
        for problem in problems:
            name, offset = place_of(int(places[problem.chunk]))
            if "missing" in problem.reason or self._left <= 0:
                self._more[problem.reason if "missing" in problem.reason else f"{name}: {problem.reason}"] += 1
                continue
            self._left -= 1
            yield Refused(offset, 0, f"tsdb: {name}: {problem.reason}")

    def rest(self) -> Iterator[Refused]:
        """Refusals for those that were only counted."""
        for reason, number in self._more.items():
            yield Refused(0, 0, f"tsdb: {reason} ({number} chunks)")
