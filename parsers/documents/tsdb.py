"""Blocks of Prometheus, as Prometheus, Thanos, Mimir and Cortex keep them: a folder each.

    01KJ7Q3V9W2M8T5C6B4X0Y1ZAN/meta.json  index  tombstones  chunks/000001  chunks/000002 ...

Documented at https://github.com/prometheus/prometheus/blob/main/tsdb/docs/format/README.md. The input is the folder of
a block, or any folder above: a data folder of Prometheus, a snapshot, a bucket. Floats (also those of XOR2), markers of
staleness by their bits, native histograms, tombstones and the external labels of Thanos are read; what a damaged or cut
block still has is read. A file of a block by itself says nothing: it is refused, and so is the head (wal, chunks_head).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final

from aftershock.parsers.documents.json_records import json_start
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample
from aftershock.parsers.prometheus.columns import MetricsSource, SeriesBatch, Wanted
from aftershock.parsers.prometheus.folders import HEAD_REASON
from aftershock.parsers.prometheus.tsdb_block import read_block

_FILES: Final = {
    b"\xba\xaa\xd7\x00": "the index",
    b"\x85\xbd\x40\xdd": "a file of chunks",
    b"\x01\x30\xba\x30": "the tombstones",
}
_HEAD_CHUNKS: Final = b"\x01\x30\xbc\x91"
_META: Final = re.compile(rb'"ulid"\s*:\s*"[0-9A-HJKMNP-TV-Z]{26}"')
_TIMES: Final = re.compile(rb'"m(?:in|ax)Time"\s*:\s*-?\d{1,19}')


def detects(head: Head) -> float:
    """Sure of the files of a block, none of which is read by itself."""
    if head.data.startswith((*_FILES, _HEAD_CHUNKS)):
        return 0.95
    start = json_start(head.data)
    return 0.9 if start and _META.search(start) and _TIMES.search(start) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """Nothing but the advice to give the folder."""
    yield _alone(stream.read(64))


def read_metrics(source: MetricsSource, wanted: Wanted) -> Iterator[SeriesBatch | Refused]:
    """The samples of a block."""
    if source.names:
        yield from read_block(source, wanted)
    else:
        with source.open("") as stream:
            yield _alone(stream.read(64))


def _alone(start: bytes) -> Refused:
    if start.startswith(_HEAD_CHUNKS):
        return Refused(0, 0, f"tsdb: {HEAD_REASON}", start)
    what = _FILES.get(start[:4], "meta.json")
    return Refused(0, 0, f"tsdb: {what} of a block: give the folder in which index and chunks stand together", start)


_SAMPLE: Final = """{
\t"ulid": "01KJ7Q3V9W2M8T5C6B4X0Y1ZAN",
\t"minTime": 1772366400000,
\t"maxTime": 1772373600000,
\t"stats": {
\t\t"numSamples": 480,
\t\t"numSeries": 1,
\t\t"numChunks": 4
\t},
\t"compaction": {
\t\t"level": 1,
\t\t"sources": [
\t\t\t"01KJ7Q3V9W2M8T5C6B4X0Y1ZAN"
\t\t]
\t},
\t"version": 1
}
"""

FORMAT: Final = DocumentFormat(
    name="tsdb",
    doc="Blocks of Prometheus, Thanos, Mimir and Cortex: give the folder of a block, or a folder with blocks. The "
    "external labels of Thanos are added; what was deleted stays out. The newest samples are not in a block: take a "
    "snapshot.",
    url="https://github.com/prometheus/prometheus/blob/main/tsdb/docs/format/README.md",
    tables=("series", "samples"),
    detects=detects,
    read=read,
    read_metrics=read_metrics,
    binary=True,
    is_folder=True,
    samples=(Sample(_SAMPLE, (), title="meta.json of a block, which is read with its folder"),),
    non_samples=(
        '{"ulid": "01KJ7Q3V9W2M8T5C6B4X0Y1ZAN", "name": "a run"}\n',
        '{"minTime": 1772366400000, "maxTime": 1772373600000}\n',
    ),
)
