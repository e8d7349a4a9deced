"""TFRecord: records one after the other, each with its length and two checksums.

    uint64 length, uint32 masked CRC32C of the length, the bytes, uint32 masked CRC32C of the bytes     (little-endian)

https://www.tensorflow.org/tutorials/load_data/tfrecord. A writer that was killed leaves a record that is cut off. Where
a length is damaged, the next place that has a length with its own checksum is looked for.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from aftershock.parsers.formats import Refused

# Larger records hold graphs and images: they are passed over without a look.
LARGEST: Final = 256 << 10
# No writer makes larger ones: a length beyond is damage.
_LONGEST: Final = 1 << 31
_EXCERPT: Final = 256
_HEADER: Final = struct.Struct("<QI")
_SUM: Final = struct.Struct("<I")
_PIECE: Final = 1 << 20
# Places that are tried for a new beginning, in one file. Damage that looks like a beginning everywhere was made to.
_MOST_TRIES: Final = 200_000
# A length below 16 MiB, for a new beginning after damage.
_LIKE_A_LENGTH: Final = re.compile(rb"(?s)(?=(?!\0\0\0)...\0\0\0\0\0....)")


class Record(NamedTuple):
    """The bytes of a record, and where it starts; None if it is larger than what is looked at."""

    offset: int
    data: bytes | None


def _table() -> tuple[int, ...]:
    rows = []
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)  # noqa: PLW2901 - the division of a polynomial
        rows.append(number)
    return tuple(rows)


_TABLE: Final = _table()


def masked_crc32c(data: bytes) -> int:
    """The checksum of TFRecord: CRC32C, turned and shifted, so that it may itself be part of what is summed."""
    table, crc = _TABLE, 0xFFFF_FFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFF_FFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFF_FFFF


def starts_here(data: bytes) -> bool:
    """Whether a record begins with the first of these bytes, by the checksum of its length."""
    if len(data) < _HEADER.size:
        return False
    length, checksum = _HEADER.unpack_from(data)
    return bool(0 < length < _LONGEST and masked_crc32c(data[:8]) == checksum)


def records_of(stream: BinaryIO) -> Iterator[Record | Refused]:
    """The records of a stream in order; damage is refused where it stands."""
    reader = _Reader(stream)
    while True:
        offset = reader.offset
        header = reader.take(_HEADER.size)
        if not header:
            return
        if len(header) < _HEADER.size:
            yield Refused(offset, len(header), "record is cut off", header)
            return
        if not starts_here(header):
            yield from reader.go_on(offset, header)
            continue
        length = _HEADER.unpack(header)[0]
        if length > LARGEST:
            if reader.skip(length + _SUM.size) < length + _SUM.size:
                yield Refused(offset, reader.offset - offset, "record is cut off", header)
                return
            yield Record(offset, None)
            continue
        body = reader.take(length + _SUM.size)
        if len(body) < length + _SUM.size:
            yield Refused(offset, len(header) + len(body), "record is cut off", body[:_EXCERPT])
            return
        data = body[:length]
        if masked_crc32c(data) != _SUM.unpack_from(body, length)[0]:
            yield Refused(offset, len(header) + len(body), "record has a wrong checksum", data[:_EXCERPT])
        else:
            yield Record(offset, data)


class _Reader:
    """Takes bytes of a stream by number, whatever the pieces are in which it gives them."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._held = b""
        self._at = 0
        self._tries = _MOST_TRIES
        self.offset = 0

    def take(self, size: int) -> bytes:
        """So many bytes; fewer at the end of the stream."""
        while len(self._held) - self._at < size:
            piece = self._stream.read(_PIECE)
            if not piece:
                break
            self._held, self._at = self._held[self._at :] + piece, 0
        data = self._held[self._at : self._at + size]
        self._at += len(data)
        self.offset += len(data)
        return data

    def skip(self, size: int) -> int:
        """Pass over bytes; how many there were."""
        left = size
        while left and (data := self.take(min(left, _PIECE))):
            left -= len(data)
        return size - left

    def go_on(self, begin: int, header: bytes) -> Iterator[Refused]:
        """Pass over damage: up to the next length with its checksum, or to the end."""
        window = header[1:] + self.take(_PIECE)
        base = begin + 1
        while (found := self._beginning(window)) is None:
            kept = window[-_HEADER.size + 1 :]
            more = self.take(_PIECE)
            if not more or not self._tries:
                self.skip_all()
                yield Refused(begin, self.offset - begin, "length has a wrong checksum: nothing behind it", header)
                return
            base += len(window) - len(kept)
            window = kept + more
        self._held, self._at = window[found:] + self._held[self._at :], 0
        self.offset = base + found
        yield Refused(begin, self.offset - begin, "length has a wrong checksum", header)

    def skip_all(self) -> None:
        """Pass over the rest."""
        while self.take(_PIECE):
            pass

    def _beginning(self, window: bytes) -> int | None:
        """The first place in it where a record begins."""
        for match in _LIKE_A_LENGTH.finditer(window):
            if not self._tries:
                return None
            self._tries -= 1
            at = match.start()
            if starts_here(window[at : at + _HEADER.size]):
                return at
        return None
