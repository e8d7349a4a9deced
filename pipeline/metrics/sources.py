"""Which inputs of a run are metrics: they are read after the events are known, and only where those ask."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import BinaryIO

from aftershock.parsers.formats import DocumentFormat
from aftershock.parsers.prometheus.columns import MetricsSource
from aftershock.parsers.registry import format_named
from aftershock.parsers.source import SourceFile
from aftershock.parsers.streams import compression_of, decompressed
from aftershock.pipeline.plan import opener_of
from aftershock.pipeline.training.staged import Staged

Pair = tuple[SourceFile, DocumentFormat]


def metrics_among(staged: Staged, files: Sequence[SourceFile]) -> list[Pair]:
    """The files that were recognised as metrics, in the order of their names, and their formats."""
    recognised: dict[str, str | None] = {}
    for batch in staged.batches("sources", ("source", "format")):
        recognised.update(zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True))
    formats = {}
    for name in {name for name in recognised.values() if name}:
        fmt = format_named(name)
        if isinstance(fmt, DocumentFormat) and fmt.read_metrics is not None:
            formats[name] = fmt
    if not formats:
        return []
    pairs = ((file, formats.get(recognised.get(file.source) or "")) for file in files if not file.refused)
    found = [(file, fmt) for file, fmt in sorted(pairs, key=lambda pair: pair[0].source) if fmt is not None]
    return [(file, fmt.mapped(file.column_map)) for file, fmt in found]


def opened(file: SourceFile) -> MetricsSource:
    """A file, decompressed, or a folder of files that belong together, as a reader of metrics takes it."""
    opener = opener_of(file.path)

    def open_part(name: str) -> BinaryIO:
        raw = opener(os.path.join(file.path, name) if name else file.path)
        if name:
            return raw
        kind = compression_of(raw.read(8) or b"")
        raw.seek(0)
        return decompressed(raw, kind)

    return MetricsSource(file.source, open_part, file.names or _names(file.path))


def _names(path: str) -> tuple[str, ...]:
    if not os.path.isdir(path):
        return ()
    found = (os.path.relpath(os.path.join(top, name), path) for top, _, names in os.walk(path) for name in names)
    return tuple(sorted(found))
