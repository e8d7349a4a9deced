"""Reading and parsing: chunks in, batches of unsettled records out, one fused step."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from aftershock.parsers.blocks import BlockResult
from aftershock.parsers.fold import fold
from aftershock.parsers.source import SourceFile, read_range, read_whole
from aftershock.parsers.transit import pack, pack_source
from aftershock.pipeline import tally
from aftershock.pipeline.plan import CHUNK_BYTES, Chunk, chunks_of, opener_of
from aftershock.pipeline.quick_beam import beam

Keyed = tuple[str, pa.RecordBatch]


# Rows that a source may have waiting before they are packed. Packing costs per batch, so batches should be large.
HELD_ROWS: Final = 20_000


def read_chunk(chunk: Chunk, burst_gap: int) -> Iterator[BlockResult]:
    """Parse one chunk, block by block, and fold what repeats within a block."""
    opened = chunk.opened()
    opener = opener_of(chunk.path)
    if chunk.stop < 0:
        blocks: Iterable[BlockResult] = read_whole(opened, opener)
    else:
        blocks = [read_range(opened, chunk.begin, chunk.stop, opener)]
    for block in blocks:
        tally.add(block.bytes)
        block.found = fold(block.found, burst_gap)
        yield block


class Held:
    """What blocks gave, by source, until there is enough of it to be packed."""

    def __init__(self) -> None:
        self._by_source: dict[str, BlockResult] = {}

    def add(self, source: str, block: BlockResult) -> Iterator[Keyed]:
        """Take in a block; give the batches of its source if they have become large."""
        held = self._by_source.setdefault(source, BlockResult())
        held.add(block)
        if len(held.found) + len(held.refused) > HELD_ROWS:
            del self._by_source[source]
            yield from _packed(source, held)

    def rest(self) -> Iterator[Keyed]:
        """Give everything that is left."""
        for source, held in self._by_source.items():
            yield from _packed(source, held)
        self._by_source.clear()


def _packed(source: str, held: BlockResult) -> Iterator[Keyed]:
    for batch in pack(held, source):
        yield source, batch


class PlanChunks(beam.DoFn):  # type: ignore[misc]
    """A file to its chunks; what it was recognised as goes to the output ``described``."""

    def __init__(self, chunk_bytes: int) -> None:
        self._chunk_bytes = chunk_bytes

    def process(self, file: SourceFile) -> Iterator[Any]:
        """Look at one file."""
        detected, chunks = chunks_of(file, self._chunk_bytes)
        compression = chunks[0].compression if chunks else None
        note = f"{compression}, read as one stream" if compression else None
        yield beam.pvalue.TaggedOutput("described", (file.source, pack_source(detected.format, detected.reason, note)))
        yield from chunks


class ParseChunks(beam.DoFn):  # type: ignore[misc]
    """Parses chunks in a few threads: the scan releases the interpreter lock. Never more than two chunks a thread."""

    def __init__(self, burst_gap: int) -> None:
        self._burst_gap = burst_gap
        self._threads = min(4, os.cpu_count() or 1)

    def start_bundle(self) -> None:
        """Begin a bundle with an empty queue."""
        self._pool = ThreadPoolExecutor(self._threads)
        self._queue: deque[tuple[str, Future[list[BlockResult]]]] = deque()
        self._held = Held()

    def process(self, chunk: Chunk) -> Iterator[Keyed]:
        """Queue one chunk; give what is ready."""
        if chunk.stop < 0:
            # A whole source streams: its batches leave as they come.
            for block in read_chunk(chunk, self._burst_gap):
                yield from self._held.add(chunk.source, block)
            return
        self._queue.append((chunk.source, self._pool.submit(_listed, chunk, self._burst_gap)))
        while len(self._queue) > 2 * self._threads or (self._queue and self._queue[0][1].done()):
            yield from self._next()

    def finish_bundle(self) -> Iterator[Any]:
        """Give the rest."""
        window = beam.transforms.window.GlobalWindow()
        rest = chain.from_iterable(self._next() for _ in range(len(self._queue)))
        for keyed in chain(rest, self._held.rest()):
            yield beam.utils.windowed_value.WindowedValue(keyed, window.max_timestamp(), [window])
        self._pool.shutdown()

    def _next(self) -> Iterator[Keyed]:
        source, future = self._queue.popleft()
        for block in future.result():
            yield from self._held.add(source, block)


def _listed(chunk: Chunk, burst_gap: int) -> list[BlockResult]:
    return list(read_chunk(chunk, burst_gap))


class ReadRecords(beam.PTransform):  # type: ignore[misc]
    """Files to (source, batch of unsettled records): plan, spread the descriptors, parse."""

    def __init__(self, burst_gap: int, chunk_bytes: int = CHUNK_BYTES) -> None:
        super().__init__()
        self._burst_gap = burst_gap
        self._chunk_bytes = chunk_bytes

    def expand(self, files: Any) -> Any:
        """PCollection[SourceFile] to PCollection[tuple[str, RecordBatch]]."""
        planned = files | "PlanChunks" >> beam.ParDo(PlanChunks(self._chunk_bytes)).with_outputs(
            "described", main="chunks"
        )
        parsed = (
            planned.chunks
            | "SpreadChunks" >> beam.Reshuffle()
            | "ParseChunks" >> beam.ParDo(ParseChunks(self._burst_gap)).with_output_types(Keyed)
        )
        described = planned.described | "Described" >> beam.Map(lambda keyed: keyed).with_output_types(Keyed)
        return (parsed, described) | "AllOfASource" >> beam.Flatten()
