"""Ranges of a file that is read from its end and here and there: the index and the chunks of a block."""

from __future__ import annotations

import io
import shutil
import tempfile
from typing import BinaryIO, Final, cast

_PIECE: Final = 1 << 20


def seekable(stream: BinaryIO) -> tuple[BinaryIO, int]:
    """A file that can be read from anywhere, and its size.

    A stream that cannot go back (a compressed one) is laid down in an unnamed file first.
    """
    try:
        return stream, stream.seek(0, io.SEEK_END)
    except (OSError, AttributeError):
        laid_down = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 - closed by whoever reads it
        shutil.copyfileobj(stream, laid_down, _PIECE)
        stream.close()
        return laid_down, laid_down.tell()


class FileRanges:
    """A file by ranges."""

    def __init__(self, stream: BinaryIO) -> None:
        self._file, self.size = seekable(stream)

    def read(self, at: int, length: int) -> bytes:
        """The bytes from ``at`` on; fewer where the file ends."""
        if at >= self.size or length <= 0:
            return b""
        self._file.seek(at)
        parts = []
        left = min(length, self.size - at)
        while left > 0 and (data := self._file.read(left)):
            parts.append(data)
            left -= len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
