"""The log of LevelDB: records in blocks of 32 KiB, in pieces where they do not fit into the rest of a block.

    uint32 checksum of type and data, uint16 length, uint8 type (1 whole, 2 first, 3 middle, 4 last), data

https://github.com/google/leveldb/blob/main/doc/log_format.md. LevelDB sums with CRC32C, Weights & Biases with CRC32.
Damage costs the rest of its block: reading goes on with the next one.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from aftershock.parsers.formats import Refused

BLOCK: Final = 32 << 10
# A record of a tracker holds the values of one step, or the configuration of a run.
LARGEST: Final = 16 << 20

_HEADER: Final = struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_EXCERPT: Final = 256


class LogRecord(NamedTuple):
    """The bytes of a record, and where its first piece starts."""

    offset: int
    data: bytes


class _Damage(NamedTuple):
    offset: int
    length: int
    reason: str
    excerpt: bytes


def checksum(kind: int, data: bytes) -> int:
    """CRC32 over the type and the data of a piece."""
    return zlib.crc32(data, zlib.crc32(bytes((kind,))))


def log_records(stream: BinaryIO, skipped: int) -> Iterator[LogRecord | Refused]:
    """The records behind a header of ``skipped`` bytes, which the stream still holds."""
    begun: bytearray | None = None
    begin = size = 0
    for piece in _pieces(stream, skipped):
        if isinstance(piece, _Damage):
            yield Refused(*piece)
            begun = None
            continue
        offset, kind, data = piece
        if kind in (_WHOLE, _FIRST):
            if begun is not None:
                yield Refused(begin, size, "record without its end", bytes(begun[:_EXCERPT]))
            begun, begin, size = bytearray(data), offset, len(data)
        elif begun is None:
            continue  # what follows damage, which was told
        else:
            size += len(data)
            if size <= LARGEST:
                begun += data
            else:
                del begun[_EXCERPT:]  # no more than its size is kept
        if kind in (_WHOLE, _LAST):
            if size > LARGEST:
                yield Refused(begin, size, f"record of more than {LARGEST} bytes", bytes(begun[:_EXCERPT]))
            else:
                yield LogRecord(begin, bytes(begun))
            begun = None
    if begun is not None:
        yield Refused(begin, size, "record is cut off", bytes(begun[:_EXCERPT]))


def _pieces(stream: BinaryIO, skipped: int) -> Iterator[tuple[int, int, bytes] | _Damage]:
    base, at = 0, skipped
    while block := _read_block(stream):
        while len(block) - at >= _HEADER.size:
            wanted, length, kind = _HEADER.unpack_from(block, at)
            begin, end = at + _HEADER.size, at + _HEADER.size + length
            if not (wanted or length or kind):
                # Room that was made beforehand, or a hole.
                if block[at:].strip(b"\0"):
                    yield _Damage(base + at, len(block) - at, "no record: the rest of its block is not read", b"")
                at = len(block)
                break
            if end > len(block):
                reason = "record is cut off" if len(block) < BLOCK else "record reaches beyond its block"
                yield _Damage(base + at, len(block) - at, reason, block[at : at + _EXCERPT])
                at = len(block)
                break
            data = block[begin:end]
            if not _WHOLE <= kind <= _LAST or checksum(kind, data) != wanted:
                reason = "record has a wrong checksum: the rest of its block is not read"
                yield _Damage(base + at, len(block) - at, reason, block[at : at + _EXCERPT])
                at = len(block)
                break
            yield base + at, kind, data
            at = end
        if len(block) < BLOCK and 0 < len(block) - at < _HEADER.size:
            yield _Damage(base + at, len(block) - at, "record is cut off", block[at:])
        base, at = base + len(block), 0


def _read_block(stream: BinaryIO) -> bytes:
    parts: list[bytes] = []
    left = BLOCK
    while left and (data := stream.read(left)):
        parts.append(data)
        left -= len(data)
    return b"".join(parts)
