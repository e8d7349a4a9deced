"""Reading and parsing in Beam: files to chunks, spread by a shuffle, chunks to batches of unsettled records."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import Any, Final

import pyarrow as pa

from aftershock.parsers.blocks import BlockResult
from aftershock.parsers.source import SourceFile
from aftershock.parsers.transit import is_found, pack, pack_source
from aftershock.pipeline import tally
from aftershock.pipeline.chunks import read_chunk
from aftershock.pipeline.outputs import typed
from aftershock.pipeline.plan import CHUNK_BYTES, Chunk, chunks_of
from aftershock.pipeline.quick_beam import beam
from aftershock.pipeline.waiting import waiting
from aftershock.pipeline.workers import current_workers, is_small, parsing_workers

Keyed = tuple[str, pa.RecordBatch]

# Rows that a source may have waiting before they are packed. Packing costs per batch, so batches should be large.
HELD_ROWS: Final = 20_000

# Chunks that are asked for ahead of the one whose rows are taken next.
AHEAD: Final = 8


class Held:
    """What blocks gave, by source, until there is enough of it to be packed. ``aside``: folder for large batches."""

    def __init__(self, aside: str) -> None:
        self._aside = aside
        self._by_source: dict[str, BlockResult] = {}

    def add(self, source: str, block: BlockResult) -> Iterator[Keyed]:
        """Take in a block; give the batches of its source if they have become large."""
        tally.add(block.bytes)
        held = self._by_source.setdefault(source, BlockResult())
        held.add(block)
        if held.rows > HELD_ROWS:
            del self._by_source[source]
            yield from self._packed(source, held)

    def rest(self) -> Iterator[Keyed]:
        """Give everything that is left."""
        for source, held in self._by_source.items():
            yield from self._packed(source, held)
        self._by_source.clear()

    def _packed(self, source: str, held: BlockResult) -> Iterator[Keyed]:
        batches = pack(held, source)
        yield from ((source, batch) for batch in batches if not is_found(batch))
        yield from waiting(((source, batch) for batch in batches if is_found(batch)), self._aside)


def plan_chunks(file: SourceFile, chunk_bytes: int) -> Iterator[tuple[int, Chunk]]:
    """The chunks of a file, each under a key of its own so that they spread."""
    workers = current_workers()
    chunks = workers.plan(file, chunk_bytes) if workers else chunks_of(file, chunk_bytes)
    for chunk in chunks:
        yield zlib.crc32(f"{chunk.begin}:{chunk.source}".encode()), chunk


class ParseChunks(beam.DoFn):  # type: ignore[misc]
    """Parses chunks in the workers of this process; no more than a few chunks are ahead of what is given."""

    def __init__(self, burst_gap: int, aside: str) -> None:
        self._burst_gap = burst_gap
        self._aside = aside

    def start_bundle(self) -> None:
        """Begin a bundle with an empty queue."""
        self._workers, self._owned = parsing_workers(self._burst_gap, self._aside)
        self._queue: deque[tuple[str, Future[BlockResult]]] = deque()
        self._held = Held(self._aside)

    def process(self, keyed: tuple[int, Iterable[Chunk]]) -> Iterator[Keyed]:
        """Queue chunks; give what is ready."""
        for chunk in keyed[1]:
            if chunk.begin == 0:
                yield chunk.source, pack_source(chunk.format, chunk.refused, chunk.note)
            if chunk.refused:
                continue
            if not is_small(chunk):
                # A large source that cannot be split streams: its batches leave as they come.
                for block in read_chunk(chunk, self._burst_gap, self._aside):
                    yield from self._held.add(chunk.source, block)
                continue
            self._queue.append((chunk.source, self._workers.parse(chunk)))
            while len(self._queue) > AHEAD:
                yield from self._next()

    def finish_bundle(self) -> Iterator[Any]:
        """Give the rest."""
        window = beam.transforms.window.GlobalWindow()
        for keyed in self._rest():
            yield beam.utils.windowed_value.WindowedValue(keyed, window.max_timestamp(), [window])
        if self._owned:
            self._workers.close()

    def _next(self) -> Iterator[Keyed]:
        source, future = self._queue.popleft()
        yield from self._held.add(source, future.result())

    def _rest(self) -> Iterator[Keyed]:
        while self._queue:
            yield from self._next()
        yield from self._held.rest()


class ReadRecords(beam.PTransform):  # type: ignore[misc]
    """Files to (source, batch of unsettled records): plan, spread the descriptors, parse.

    aside: folder for steps of blocks that have many, and for other rows where they are.
    """

    def __init__(self, burst_gap: int, aside: str, chunk_bytes: int = CHUNK_BYTES) -> None:
        super().__init__()
        self._burst_gap = burst_gap
        self._aside = aside
        self._chunk_bytes = chunk_bytes

    def expand(self, files: Any) -> Any:
        """PCollection[SourceFile] to PCollection[tuple[str, RecordBatch]]."""
        parsed = (
            files
            | "PlanChunks" >> beam.FlatMap(plan_chunks, self._chunk_bytes).with_output_types(tuple[int, Chunk])
            | "SpreadChunks" >> beam.GroupByKey()
            | "ParseChunks" >> beam.ParDo(ParseChunks(self._burst_gap, self._aside)).with_output_types(Keyed)
        )
        return typed(parsed, Keyed)
