"""The wire format of protocol buffers: the fields of one message, without the types that its definition gives them.

https://protobuf.dev/programming-guides/encoding/. A message holds no lengths that reach beyond it, and nothing here
goes down into it by itself, so that depth and size of what a file claims cost nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5

_LONGEST_VARINT: Final = 10
_DOUBLE: Final = struct.Struct("<d")
_FLOAT: Final = struct.Struct("<f")


class NotProto(ValueError):
    """Bytes that are no message; the text says why."""


class Field(NamedTuple):
    """A field: its number, how it is written, and a number (varint) or bytes (everything else)."""

    number: int
    wire: int
    varint: int
    data: bytes

    def text(self) -> str:
        """The bytes as text; what is no UTF-8 is replaced."""
        return self.data.decode("utf-8", "replace")

    def signed(self) -> int:
        """A varint of a signed type."""
        return self.varint - (1 << 64) if self.varint >= 1 << 63 else self.varint

    def real(self) -> float | None:
        """A float or double; None if it was written as something else."""
        if self.wire == FIXED64:
            return float(_DOUBLE.unpack(self.data)[0])
        if self.wire == FIXED32:
            return float(_FLOAT.unpack(self.data)[0])
        return None


def fields_of(data: bytes) -> Iterator[Field]:
    """The fields of a message, in order.

    Raises:
        NotProto: the bytes are no message.
    """
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if not 0 < number < 1 << 29:
            raise NotProto("a field without a number")
        if wire == VARINT:
            value, at = _varint(data, at)
            yield Field(number, wire, value, b"")
            continue
        if wire == BYTES:
            size, at = _varint(data, at)
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise NotProto("a field of an unknown kind")
        if size > end - at:
            raise NotProto("a field is longer than its message")
        yield Field(number, wire, 0, data[at : at + size])
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    if at < len(data) and (first := data[at]) < 0x80:  # nearly all keys and lengths
        return first, at + 1
    value = shift = 0
    for byte in data[at : at + _LONGEST_VARINT]:
        value |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
    raise NotProto("a number that does not end")
