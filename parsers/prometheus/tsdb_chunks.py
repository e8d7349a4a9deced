"""Chunks of a block, in files of up to 512 MiB: ``chunks/000001`` and so on.

    magic 0x85BD40DD, version, 3 bytes | uvarint length, encoding, data, CRC32C of both (big-endian) | ...

https://github.com/prometheus/prometheus/blob/main/tsdb/docs/format/chunks.md. The index says where each chunk begins:
the number of its file (from 0) in the upper 32 bits, the offset in the lower ones.
"""

from __future__ import annotations

import struct
from typing import Final

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from aftershock.parsers.prometheus.chunk_batch import Problem
from aftershock.parsers.prometheus.columns import MetricsSource
from aftershock.parsers.prometheus.file_ranges import FileRanges
from aftershock.parsers.prometheus.varints import read_uvarint

MAGIC: Final = b"\x85\xbd\x40\xdd"
_OFFSET_BITS: Final = 32
_SUM: Final = struct.Struct(">I")
# Chunks are read together if no more than this lies between them, and no more than that in all.
_GAP: Final = 64 << 10
_RUN: Final = 8 << 20
# Behind the beginning of the last one: most chunks are below 1 KiB. What is longer is read by itself.
_TAIL: Final = 4 << 10
_LONGEST: Final = 4 << 20


def place_of(number: int) -> tuple[str, int]:
    """The file and the offset that the number of a place means."""
    return f"chunks/{(number >> _OFFSET_BITS) + 1:06d}", number & (1 << _OFFSET_BITS) - 1


class ChunkFiles:
    """The files of the chunks of a block, opened as they are needed."""

    def __init__(self, source: MetricsSource) -> None:
        self._source = source
        self._name = ""
        self._file: FileRanges | None = None

    def read(self, places: NDArray[np.int64]) -> tuple[list[bytes], list[Problem]]:
        """Encoding and data of the chunks at places, and what could not be read (of which the bytes are empty)."""
        found = [b""] * len(places)
        problems: list[Problem] = []
        order = np.argsort(places, kind="stable")
        begin = 0
        ordered = places[order]
        offsets = ordered & ((1 << _OFFSET_BITS) - 1)
        behind = 0  # the place behind the last chunk
        cuts = np.flatnonzero(np.diff(ordered) > _GAP) + 1  # other files are farther away than any gap
        for end in [*cuts.tolist(), len(places)]:
            while begin < end:
                stop = int(np.searchsorted(offsets[begin:end], offsets[begin] + _RUN)) + begin
                own = order[begin:stop].tolist()
                run = (int(ordered[begin]), own, offsets[begin:stop].tolist())
                behind = self._read_run(*run, behind, found, problems)
                begin = stop
        return found, problems

    def close(self) -> None:
        """Close the file that is open."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read_run(
        self, place: int, own: list[int], offsets: list[int], behind: int, found: list[bytes], problems: list[Problem]
    ) -> int:
        """Read chunks of one file that stand near each other; returns the place behind the last of them."""
        name, first = place_of(place)
        file = self._opened(name)
        if file is None:
            problems += [Problem(i, f"the file {name} is missing") for i in own]
            return behind
        end = max(0, first + behind - place)
        data = file.read(first, offsets[-1] - first + _TAIL)
        value, unpack = google_crc32c.value, _SUM.unpack_from
        held = len(data) - _SUM.size - 1
        for i, offset in zip(own, offsets, strict=True):
            if offset < end:
                # Only made up or damaged: it would give the same bytes, and the memory for them, again and again.
                problems.append(Problem(i, "a chunk that begins within another"))
                continue
            at = offset - first
            size, body = -1, at
            if at + 8 < held:
                size, body = data[at], at + 1
                if size >= 0x80:
                    more = data[body]
                    if more < 0x80:  # nearly all are shorter than 16 KiB
                        size, body = size & 0x7F | more << 7, body + 1
                    else:
                        size, body = read_uvarint(data, at) or (-1, at)
            stop = body + 1 + size
            if size >= 0 and stop <= held:
                chunk, checksum = data[body:stop], unpack(data, stop)[0]
            else:
                chunk, checksum = _read_one(file, offset)
            if not chunk:
                problems.append(Problem(i, "a chunk that is cut off"))
            elif value(chunk) != checksum:
                problems.append(Problem(i, "a chunk with a wrong checksum"))
            else:
                found[i] = chunk
                end = offset + len(chunk)
        return place - first + end

    def _opened(self, name: str) -> FileRanges | None:
        if name != self._name:
            self.close()
            self._name = name
            try:
                self._file = FileRanges(self._source.open(name)) if name in self._source.names else None
            except OSError:
                self._file = None
        return self._file


def _read_one(file: FileRanges, offset: int) -> tuple[bytes, int]:
    """Encoding and data of a chunk that is long, or the last one, and its checksum; nothing where it is cut off."""
    head = read_uvarint(file.read(offset, 10), 0)
    if head is None or head[0] > _LONGEST:
        return b"", 0
    size, skipped = head
    data = file.read(offset + skipped, size + 1 + _SUM.size)
    if len(data) < size + 1 + _SUM.size:
        return b"", 0
    return data[:-4], _SUM.unpack_from(data, size + 1)[0]
