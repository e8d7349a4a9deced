"""A text in blocks of whole lines, for readers that take many lines at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from aftershock.parsers.formats import Refused

BLOCK: Final = 1 << 20
EXCERPT: Final = 256

_BOM: Final = b"\xef\xbb\xbf"


class Block(NamedTuple):
    """Whole lines, all with their ends (the last line of the text gets one), and where the first begins."""

    offset: int
    data: bytes


def line_blocks(
    stream: BinaryIO, tool: str, block: int = BLOCK, longest: int | None = None
) -> Iterator[Block | Refused]:
    """The text in blocks of this size, whatever pieces the stream gives.

    longest: bytes of a line, with its end; it may be more than a block. A longer one is refused.
    """
    longest = block if longest is None else longest
    offset = 0
    kept = _filled(stream, b"", block)
    if kept.startswith(_BOM):
        offset, kept = len(_BOM), _filled(stream, kept[len(_BOM) :], block)
    while kept:
        end = kept.rfind(b"\n") + 1
        if end:
            yield Block(offset, kept[:end])
            offset += end
            kept = _filled(stream, kept[end:], block)
            continue
        longer = _filled(stream, kept, min(longest, 2 * len(kept)))
        if len(longer) > len(kept):
            kept = longer
        elif len(kept) < longest:
            yield Block(offset, kept + b"\n")
            return
        else:
            length, after = _line_rest(stream, len(kept), block)
            yield Refused(offset, length, f"{tool}: a line of more than {longest} bytes", kept[:EXCERPT])
            offset += length
            kept = _filled(stream, after, block)


def _filled(stream: BinaryIO, kept: bytes, size: int) -> bytes:
    """What is kept and what comes behind it, up to this size."""
    parts = [kept]
    have = len(kept)
    while have < size and (chunk := stream.read(size - have)):
        parts.append(chunk)
        have += len(chunk)
    return b"".join(parts)


def _line_rest(stream: BinaryIO, length: int, piece: int) -> tuple[int, bytes]:
    """Reads to the end of a line: its length with the end, and what was read behind it."""
    while chunk := stream.read(piece):
        end = chunk.find(b"\n") + 1
        if end:
            return length + end, chunk[end:]
        length += len(chunk)
    return length, b""
