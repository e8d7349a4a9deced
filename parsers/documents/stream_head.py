"""A look at the beginning of a stream that cannot be wound back."""

from __future__ import annotations

import io
from typing import BinaryIO, Final, cast

HEAD: Final = 4096


def with_head(stream: BinaryIO, size: int = HEAD) -> tuple[bytes, BinaryIO]:
    """The first bytes, and a stream that begins with them all the same."""
    head = stream.read(size) or b""
    return head, cast(BinaryIO, _Joined(head, stream))


class _Joined(io.RawIOBase):
    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if not self._head:
            return self._rest.read(size) or b""
        taken = self._head if size < 0 else self._head[:size]
        self._head = self._head[len(taken) :]
        return taken
