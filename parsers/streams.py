"""Opening files: compressed or not, with limits, always as a stream.

Compression is told by the first bytes, not by the name. Members that follow each other are read as one stream. Memory
stays bounded whatever the file claims; a stream that grows out of proportion is cut off.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, Final, cast

import zstandard

MAGIC: Final = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
)

# Real logs shrink 10 to 60 times, a file of one repeated line some 200 times; gzip cannot do more than 1030. Below
# the free amount a bomb does no harm, since nothing is kept.
MAX_RATIO: Final = 250
FREE_BYTES: Final = 256 << 20
MAX_BYTES: Final = 1 << 40
MEMORY_LIMIT: Final = 256 << 20
PIECE: Final = 128 << 10


class StreamError(Exception):
    """A compressed stream that is torn, damaged, or larger than its limits; the message says which."""


def compression_of(head: bytes) -> str | None:
    """``gzip``, ``zstd``, ``bzip2``, ``xz`` or None, told by the first bytes."""
    return next((name for magic, name in MAGIC if head.startswith(magic)), None)


def decompressed(raw: BinaryIO, kind: str | None) -> BinaryIO:
    """The decompressed stream; ``raw`` itself if ``kind`` is None.

    Reading from it raises :class:`StreamError` where the data ends early, is damaged or passes the limits.
    """
    if kind is None:
        return raw
    counted = _Counted(raw)
    opened = _gunzipped(counted) if kind == "gzip" else _Members(counted, _FRESH[kind])
    return cast(BinaryIO, _Limited(opened, counted))


def _gunzipped(counted: _Counted) -> gzip.GzipFile:
    return gzip.GzipFile(fileobj=cast(Any, counted), mode="rb")


class _Counted(io.RawIOBase):
    """Counts the compressed bytes that were taken."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self.taken = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._raw.read(size)
        self.taken += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _Members(io.RawIOBase):
    """Compressed members one after the other, through a decompressor of the bz2 and lzma kind."""

    def __init__(self, raw: _Counted, fresh: Callable[[], Any]) -> None:
        self._raw = raw
        self._fresh = fresh
        self._member = fresh()
        self._left = b""
        self._ready = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        wanted = size if size > 0 else PIECE
        if not self._ready:
            self._ready = self._decompressed(wanted)
        data, self._ready = self._ready[:wanted], self._ready[wanted:]
        return data

    def _decompressed(self, wanted: int) -> bytes:
        """The next bytes, some more than wanted perhaps; none at the end."""
        while True:
            if self._member.eof:
                rest = (self._member.unused_data or self._raw.read(1 << 16)).lstrip(b"\0")
                if not rest:
                    return b""
                self._member, self._left = self._fresh(), rest
            if self._member.needs_input and not self._left:
                self._left = self._raw.read(1 << 16)
                if not self._left:
                    raise EOFError("compressed stream ends in the middle")
            data = self._member.decompress(self._left, max_length=wanted)
            self._left = b""
            if data:
                return cast(bytes, data)


class _ZstdFrame:
    """A zstd frame with the interface of the bz2 and lzma decompressors: it knows whether it came to its end."""

    # A few bytes may stand for a whole block of 128 KiB: fed in small pieces, none of them can grow out of bounds.
    _FEED: Final = 512

    def __init__(self) -> None:
        self._frame = zstandard.ZstdDecompressor(max_window_size=MEMORY_LIMIT).decompressobj()
        self._pending = memoryview(b"")
        self.eof = False
        self.needs_input = True
        self.unused_data = b""

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        if data:
            self._pending = memoryview(bytes(self._pending) + data)
        out = b""
        while self._pending and not out and not self.eof:
            piece, self._pending = self._pending[: self._FEED], self._pending[self._FEED :]
            out = self._frame.decompress(bytes(piece))
            self.eof = self._frame.eof
        if self.eof:
            self.unused_data = self._frame.unused_data + bytes(self._pending)
        self.needs_input = not self._pending
        return out


_FRESH: Final[dict[str, Callable[[], Any]]] = {
    "bzip2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(memlimit=MEMORY_LIMIT),
    "zstd": _ZstdFrame,
}


class _Limited(io.RawIOBase):
    """Turns every way a stream can go wrong into :class:`StreamError` and keeps it within its limits."""

    def __init__(self, opened: Any, counted: _Counted) -> None:
        # What was decompressed before the damage must not be lost with it: take what is ready, in small pieces.
        self._take = getattr(opened, "read1", opened.read)
        self._counted = counted
        self._given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._take(min(len(buffer), PIECE))
        except (EOFError, OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError) as error:
            raise StreamError(f"compressed data is torn or damaged: {error}") from error
        self._given += len(data)
        if self._given > MAX_BYTES:
            raise StreamError(f"more than {MAX_BYTES} bytes after decompression")
        if self._given > FREE_BYTES and self._given > MAX_RATIO * max(1, self._counted.taken):
            raise StreamError(f"grows more than {MAX_RATIO} times when decompressed: looks like a bomb")
        buffer[: len(data)] = data
        return len(data)
