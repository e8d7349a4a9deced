"""Answers that came, kept so that a run which was broken off, or is made again, does not ask for them again.

An answer lies under its question in one compressed file, and only as a whole. Questions about times that are not over
yet are not kept.
"""

from __future__ import annotations

import hashlib
import io
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, cast

import zstandard

from aftershock.parsers.streams import decompressed

_SUFFIX: Final = ".zst"
_BUFFER: Final = 1 << 18
# A hidden file older than this is nobody's any more.
_LEFT_OVER_S: Final = 86_400


def passing_key() -> str:
    """A key for an answer that is dropped as soon as it is read."""
    return f".{uuid.uuid4().hex}"


def cache_folder(given: str | None, config_folder: str, out: str) -> Path:
    """Where answers are kept: as the configuration says, or beside the result."""
    return Path(config_folder, given) if given else Path(f"{out.rstrip('/')}.prometheus")


class Cache:
    """A folder of answers, which other users of the machine cannot read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sweep()

    def _sweep(self) -> None:
        """Take away what a run that was killed did not."""
        for path in self.folder.glob(".*"):
            with suppress(OSError):
                if path.stat().st_mtime < time.time() - _LEFT_OVER_S:
                    path.unlink()

    def key(self, *parts: bytes) -> str:
        """The name of an answer: made of what was asked, and of whom."""
        digest = hashlib.sha256()
        for part in parts:
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
        return digest.hexdigest()[:40]

    def path(self, key: str) -> Path:
        """Where an answer lies, whether it is there or not."""
        return self.folder / f"{key}{_SUFFIX}"

    def has(self, key: str) -> bool:
        return self.path(key).is_file()

    def drop(self, key: str) -> None:
        """Forget an answer."""
        with suppress(FileNotFoundError):
            self.path(key).unlink()

    @contextmanager
    def writing(self, key: str) -> Iterator[Callable[[], Callable[[bytes], object]]]:
        """Gives what begins an answer (anew, for each try); at the end of the block the last of them is the answer."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = self.folder / f".{key}.{uuid.uuid4().hex[:12]}"
        opened: list[tuple[BinaryIO, zstandard.ZstdCompressionWriter]] = []

        def begin() -> Callable[[bytes], object]:
            _close(opened)
            raw = cast(BinaryIO, os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb"))
            writer = zstandard.ZstdCompressor(level=1, write_checksum=True).stream_writer(raw, closefd=False)
            opened.append((raw, writer))
            return writer.write

        try:
            yield begin
            _close(opened)
            os.replace(part, self.path(key))
        finally:
            with suppress(OSError, zstandard.ZstdError):
                _close(opened)
            with suppress(FileNotFoundError):
                part.unlink()

    def open(self, key: str) -> BinaryIO:
        """The answer as it came.

        Reading from it raises ``StreamError`` where it is torn or damaged.
        """
        return _Kept(open(self.path(key), "rb"))


class _Kept(io.BufferedReader):
    """A decompressed stream that closes its file."""

    def __init__(self, raw: BinaryIO) -> None:
        super().__init__(cast(io.RawIOBase, decompressed(raw, "zstd")), _BUFFER)
        self._file = raw

    def close(self) -> None:
        super().close()
        self._file.close()


def _close(opened: list[tuple[BinaryIO, zstandard.ZstdCompressionWriter]]) -> None:
    while opened:
        raw, writer = opened.pop()
        try:
            writer.close()  # type: ignore[no-untyped-call]
        finally:
            raw.close()
