"""Answers of remote read, as a client got them and saved them: samples in one message, or chunks in a stream of frames.

SAMPLES is one ReadResponse in a block of snappy (not its framing format). STREAMED_XOR_CHUNKS is no snappy: frame after
frame of uvarint length, CRC32C (big-endian), ChunkedReadResponse; a series may go on in the next frame.
https://prometheus.io/docs/prometheus/latest/querying/remote_read_api/, prompb/remote.proto. External labels are added
by the server: the same series in a block lacks them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final

import google_crc32c
import numpy as np

from aftershock.parsers.documents.proto_wire import NotProto
from aftershock.parsers.formats import Refused
from aftershock.parsers.prometheus.chunk_batch import Chunks, batch_of
from aftershock.parsers.prometheus.columns import NAME, Labels, MetricsSource, SeriesBatch, Wanted
from aftershock.parsers.prometheus.gather import Gather
from aftershock.parsers.prometheus.ragged import begins_of
from aftershock.parsers.prometheus.remote_messages import ChunkMessage, chunks_of, labels_of, messages_in, series_of
from aftershock.parsers.prometheus.varints import read_uvarint

# Clients of Prometheus take no larger frames.
_LONGEST_FRAME: Final = 50_000_000
_LARGEST: Final = 1 << 30
# Snappy writes no fewer bytes than a 22nd of what it stands for.
_SNAPPY_RATIO: Final = 32
_BATCH_CHUNKS: Final = 4096
_BATCH_BYTES: Final = 8 << 20
_SUM: Final = 4
_EXCERPT: Final = 64

_LABEL_NAME: Final = re.compile(rb"[A-Za-z_][\x20-\x7e]{0,126}\x12")


def is_streamed(head: bytes) -> bool:
    """Whether a file begins with a frame of chunks."""
    found = read_uvarint(head, 0)
    if found is None or not 8 <= found[0] <= _LONGEST_FRAME:
        return False
    size, at = found
    data = head[at + _SUM : at + _SUM + size]
    if len(data) == size:
        return google_crc32c.value(data) == int.from_bytes(head[at : at + _SUM], "big") and _goes_down(data, 1)
    return _goes_down(data, 1)


def is_samples(head: bytes) -> bool:
    """Whether a file begins with a block of snappy that holds samples."""
    found = read_uvarint(head, 0)
    if found is None or not 8 <= found[0] <= 1 << 32:
        return False
    at = found[1]
    tag = head[at] if at < len(head) else 1
    if tag & 3:
        return False  # it has to begin with a literal
    size, at = (tag >> 2) + 1, at + 1
    if size > 60:
        size, at = int.from_bytes(head[at : at + size - 60], "little") + 1, at + size - 60
    return size <= found[0] and _goes_down(head[at : at + size], 2)


def _goes_down(data: bytes, levels: int) -> bool:
    """Whether messages stand in each other here, down to a label with a name."""
    at, end = 0, 1 << 62
    for _ in range(levels + 1):
        if data[at : at + 1] != b"\n":
            return False
        found = read_uvarint(data, at + 1)
        if found is None or found[0] > end - found[1]:
            return False
        at, end = found[1], found[0] + found[1]
    if data[at : at + 1] != b"\n" or at + 1 >= len(data):
        return False
    name = _LABEL_NAME.match(data, at + 2)
    return name is not None and name.end() == at + 3 + data[at + 1]


def read_samples(source: MetricsSource, wanted: Wanted) -> Iterator[SeriesBatch | Refused]:
    """The samples of an answer of the kind SAMPLES."""
    import cramjam  # noqa: PLC0415 - large, and few inputs are snappy

    with source.open("") as stream:
        packed = _exactly(stream, _LARGEST + 1)
    size = read_uvarint(packed, 0)
    if size is None or size[0] > min(_LARGEST, _SNAPPY_RATIO * len(packed)) or len(packed) > _LARGEST:
        yield Refused(0, len(packed), f"remote_read: more than {_LARGEST} bytes, or not what snappy makes of anything")
        return
    try:
        data = bytes(cramjam.snappy.decompress_raw(packed))
    except cramjam.DecompressionError as error:
        yield Refused(0, len(packed), f"remote_read: damaged or cut off: {error}", packed[:_EXCERPT])
        return
    del packed
    gather = Gather(wanted)
    try:
        for begin, end in messages_in(data, 0, len(data), 1):
            for first, last in messages_in(data, begin, end, 1):
                series = series_of(data, first, last)
                gather.add(series.labels, series.times, series.values)
                for one in series.histograms:
                    gather.add_histogram(series.labels, one.time, one.count, one.sum, one.buckets)
                if gather.full and (batch := gather.take()):
                    yield batch
    except NotProto as error:
        yield Refused(0, len(data), f"remote_read: no answer of remote read: {error}", data[:_EXCERPT])
    rest = gather.take()
    if rest:
        yield rest


def read_streamed(source: MetricsSource, wanted: Wanted) -> Iterator[SeriesBatch | Refused]:
    """The samples of an answer of the kind STREAMED_XOR_CHUNKS."""
    held = _Held()
    with source.open("") as stream:
        for item in _frames(stream):
            if isinstance(item, Refused):
                yield item
                continue
            offset, data = item
            try:
                for begin, end in messages_in(data, 0, len(data), 1):
                    labels = labels_of(data, begin, end)
                    if held.is_full and not held.goes_on(labels):
                        yield from held.take()
                    if _is_wanted(labels, wanted):
                        chunks = chunks_of(data, begin, end)
                        held.add(offset, labels, [chunk for chunk in chunks if _touches(chunk, wanted)])
            except NotProto as error:
                yield Refused(offset, len(data), f"remote_read: no frame of chunks: {error}", data[:_EXCERPT])
    yield from held.take()


def _frames(stream: BinaryIO) -> Iterator[tuple[int, bytes] | Refused]:
    """(offset, message) of each frame. What is damaged is refused; the next frame stands behind it all the same."""
    offset = 0
    while head := _exactly(stream, 1):
        while head[-1] >= 0x80 and len(head) < 10 and (more := _exactly(stream, 1)):
            head += more
        found = read_uvarint(head, 0)
        if found is None or found[0] > _LONGEST_FRAME:
            yield Refused(offset, len(head), "remote_read: a frame without a sound length; the rest is not read", head)
            return
        size = found[0]
        body = _exactly(stream, _SUM + size)
        if len(body) < _SUM + size:
            yield Refused(offset, len(head) + len(body), "remote_read: a frame is cut off", body[:_EXCERPT])
            return
        data = body[_SUM:]
        if google_crc32c.value(data) != int.from_bytes(body[:_SUM], "big"):
            yield Refused(offset, len(head) + len(body), "remote_read: a frame with a wrong checksum", data[:_EXCERPT])
        else:
            yield offset, data
        offset += len(head) + len(body)


def _exactly(stream: BinaryIO, size: int) -> bytes:
    """So many bytes; fewer at the end of the stream."""
    parts = []
    while size > 0 and (data := stream.read(min(size, 1 << 20))):
        parts.append(data)
        size -= len(data)
    return b"".join(parts)


def _is_wanted(labels: Labels, wanted: Wanted) -> bool:
    if wanted.metrics is None:
        return True
    name = next((value for key, value in labels if key == NAME), "")
    return not wanted.metrics.isdisjoint((name, f"{name}_count", f"{name}_sum"))


def _touches(chunk: ChunkMessage, wanted: Wanted) -> bool:
    return wanted.spans is None or any(begin <= chunk.last and chunk.first < end for begin, end in wanted.spans)


class _Held:
    """Series whose chunks are not decoded yet."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._chunks = self._bytes = 0
        self._labels: list[Labels] = []
        self._data: list[list[ChunkMessage]] = []
        self._offsets: list[list[int]] = []

    @property
    def is_full(self) -> bool:
        """Whether it is time to decode."""
        return self._chunks >= _BATCH_CHUNKS or self._bytes >= _BATCH_BYTES

    def goes_on(self, labels: Labels) -> bool:
        """Whether the next chunks are of the last series."""
        return bool(self._labels) and self._labels[-1] == labels

    def add(self, offset: int, labels: Labels, chunks: list[ChunkMessage]) -> None:
        """Take in chunks of a frame."""
        if not self.goes_on(labels):
            self._labels.append(labels)
            self._data.append([])
            self._offsets.append([])
        self._data[-1] += chunks
        self._offsets[-1] += [offset] * len(chunks)
        self._chunks += len(chunks)
        self._bytes += sum(len(chunk.data) for chunk in chunks)

    def take(self) -> Iterator[SeriesBatch | Refused]:
        """Decode all that is here."""
        flat = [chunk for own in self._data for chunk in own]
        offsets = [offset for own in self._offsets for offset in own]
        encodings = np.array([chunk.encoding or 254 for chunk in flat], np.uint8)
        begins = begins_of(np.array([len(own) for own in self._data], np.int64))
        batch, problems = batch_of(Chunks(tuple(self._labels), begins, [chunk.data for chunk in flat], encodings))
        for problem in problems:
            data = flat[problem.chunk].data
            yield Refused(offsets[problem.chunk], len(data), f"remote_read: {problem.reason}", data[:_EXCERPT])
        if len(batch.times):
            yield batch
        self._clear()
