"""Parsing one chunk: what every worker does, in whatever process or thread it runs. No Beam here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from aftershock.parsers.blocks import BlockResult
from aftershock.parsers.fold import fold
from aftershock.parsers.source import read_range, read_whole
from aftershock.pipeline.aside import set_aside
from aftershock.pipeline.plan import Chunk, opener_of


def read_chunk(chunk: Chunk, burst_gap: int, aside: str | None = None) -> Iterator[BlockResult]:
    """Parse one chunk, block by block, and fold what repeats within a block (``burst_gap`` in microseconds).

    aside: folder for steps, where a block has many; without one they stay in the result.
    """
    opened = chunk.opened()
    opener = opener_of(chunk.path)
    if opened.detected.document is not None and opened.detected.document.read_metrics is not None:
        yield BlockResult(bytes=chunk.size or 0)  # metrics are read once the events are known that ask for them
        return
    if chunk.is_whole:
        blocks: Iterable[BlockResult] = read_whole(opened, opener, burst_gap, columns=True)
    else:
        blocks = [read_range(opened, chunk.begin, chunk.stop, opener, burst_gap, columns=True)]
    for block in blocks:
        block.found = fold(block.found, burst_gap)
        if aside is not None:
            set_aside(block, aside)
        yield block


def read_chunk_at_once(chunk: Chunk, burst_gap: int, aside: str | None = None) -> BlockResult:
    """The same as one result: for a chunk of a split source, which is one block, and for a source that is small."""
    result = BlockResult()
    for block in read_chunk(chunk, burst_gap, aside):
        result.add(block)
    return result
