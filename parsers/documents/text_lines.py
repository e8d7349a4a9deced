"""Lines of a document with their offsets, whatever their length: how formats that are tables or blocks are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final

CHUNK: Final = 1 << 16
# No line of a tool's report is longer; of one that is, only the beginning is kept.
LONGEST: Final = 1 << 16

_BOM: Final = b"\xef\xbb\xbf"


def chunks_of(stream: BinaryIO) -> Iterator[bytes]:
    """The stream in pieces."""
    while chunk := stream.read(CHUNK):
        yield chunk


def lines_of(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """(offset, line without its end) of every line; memory stays bounded for lines of any length."""
    offset = begin = 0
    kept: list[bytes] = []
    size = 0

    def line(last: bytes) -> bytes:
        text = b"".join([*kept, last])[:LONGEST].rstrip(b"\r")
        return text.removeprefix(_BOM) if begin == 0 else text

    for chunk in chunks:
        at = 0
        while (end := chunk.find(b"\n", at)) >= 0:
            yield begin, line(chunk[at:end])
            kept, size, at = [], 0, end + 1
            begin = offset + at
        rest = chunk[at:]
        if size < LONGEST:
            kept.append(rest)
        size += len(rest)
        offset += len(chunk)
    if size:
        yield begin, line(b"")
