"""One input as a whole: opened, recognised, read block by block. No Beam here."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final, cast

import xxhash

from aftershock.parsers.blocks import REACH, BlockResult, Window, read_block, read_blocks
from aftershock.parsers.column_map import ColumnMap
from aftershock.parsers.detect import HEAD_BYTES, Detected, detect, rebuild
from aftershock.parsers.formats import DocumentFormat, Found, FoundColumns, Head, Mark, Refused
from aftershock.parsers.prometheus.columns import MetricsSource
from aftershock.parsers.prometheus.rows import rows_of
from aftershock.parsers.redact import redact_bytes, redact_row
from aftershock.parsers.scan import scanner_for
from aftershock.parsers.streams import StreamError, compression_of, decompressed
from aftershock.schemas.provenance import EXCERPT_BYTES, Reject

# Block of a stream that cannot be split, and rows of a document that travel together.
STREAM_BLOCK: Final = 8 << 20
# Parts of a range that stay in the cache of a processor while they are looked at.
_BLOCK_BYTES: Final = 4 << 20
DOCUMENT_ROWS: Final = 20_000

PARQUET_MAGIC: Final = b"PAR1"

Opener = Callable[[str], BinaryIO]


def open_local(path: str) -> BinaryIO:
    """A file of this machine, unbuffered: blocks are large."""
    return cast(BinaryIO, open(path, "rb", buffering=0))


@dataclass(frozen=True)
class SourceFile:
    """An input file.

    path: how to open it; source: its name in the tables; format: as the user stated; refused: why it is not opened.
    column_map: how it names the columns of a table, if the user stated that.
    folder: the format of a folder that is one input; names: the files in it, by their paths below it.
    """

    path: str
    source: str
    size: int | None = None
    format: str | None = None
    refused: str | None = None
    column_map: ColumnMap | None = None
    folder: str | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Opened:
    """A source after a look at its beginning."""

    file: SourceFile
    compression: str | None
    detected: Detected

    @property
    def splittable(self) -> bool:
        """Whether ranges of it can be read apart from each other."""
        return self.detected.how == "lines" and self.compression is None and bool(self.file.size)


def look(file: SourceFile, opener: Opener = open_local) -> Opened:
    """Read the beginning of a file and recognise it. An input that cannot be read is a refused one."""
    if file.folder:
        return Opened(file, None, rebuild("document", file.folder, forced=False))
    try:
        with opener(file.path) as raw:
            start = raw.read(HEAD_BYTES) or b""
            compression = compression_of(start)
            data = start
            if compression:
                raw.seek(0)
                data = _read_some(decompressed(raw, compression), HEAD_BYTES)
            elif start.startswith(PARQUET_MAGIC):
                data += _parquet_footer(raw)
    except StreamError as error:
        return Opened(file, compression, Detected("refused", reason=str(error)))
    except OSError as error:
        return Opened(file, None, Detected("refused", reason=f"cannot be read: {error.strerror or error}"))
    detected = detect(Head(base_name(file.source), data), file.format)
    return Opened(file, compression, detected.mapped(file.column_map).of_file(file.source))


def _parquet_footer(raw: BinaryIO) -> bytes:
    """The beginning of what stands at the end of a Parquet file: only there are the names of its columns."""
    end = raw.seek(0, io.SEEK_END)
    raw.seek(max(0, end - 8))
    size = int.from_bytes((raw.read(8) or b"")[:4], "little")
    if size > end - 8:
        return b""
    raw.seek(end - 8 - size)
    return raw.read(min(size, HEAD_BYTES)) or b""


def base_name(source: str) -> str:
    """The last part of a path, compression suffix and all."""
    return source.rstrip("/").rsplit("/", 1)[-1]


def read_range(
    opened: Opened,
    begin: int,
    stop: int,
    opener: Opener = open_local,
    gap: int | None = None,
    *,
    columns: bool = False,
) -> BlockResult:
    """The lines of a splittable source that start in [begin, stop). ``gap``, ``columns``: see :func:`read_block`."""
    scanner = scanner_for(opened.detected.formats)
    together = columns and any(form.read_lines is not None for form in scanner.formats)
    size = max(1, stop - begin) if together else _BLOCK_BYTES
    result, digest = BlockResult(), xxhash.xxh3_64()
    with opener(opened.file.path) as stream:
        buffer: bytearray | None = None
        for at in range(begin, max(stop, begin + 1), size):
            base = max(0, at - REACH)
            stream.seek(base)
            window = Window(stream, base, buffer)
            block = read_block(window, at, min(at + size, stop), scanner, gap, columns=columns, digest=digest)
            result.add(block)
            buffer = window.data
            if window.until < min(at + size, stop):
                break
    result.pieces.append((begin, digest.hexdigest()))
    if begin <= window.until < stop:
        # The plan cut the file by its size: what was there then is gone (copytruncate, or a writer that began again).
        reason = f"the file became shorter while it was read: {stop - window.until} bytes of this part are missing"
        result.refused.append((opened.detected.format or "", Refused(window.until, 0, reason)))
    return result


def read_whole(
    opened: Opened, opener: Opener = open_local, gap: int | None = None, *, columns: bool = False
) -> Iterator[BlockResult]:
    """All of a source, as a stream, in the order of its offsets. Damage ends it with a refusal, never with an error.

    ``columns``: rows may come as columns, where the format can read them so.
    """
    done = 0
    if opened.file.folder:
        yield from _read_folder(opened, opener)
        return
    try:
        with opener(opened.file.path) as raw:
            for block in read_stream(decompressed(raw, opened.compression), opened.detected, gap, columns=columns):
                done += block.bytes
                yield block
    except StreamError as error:
        yield _failed(opened, done, str(error))
    except OSError as error:
        yield _failed(opened, done, f"cannot be read: {error.strerror or error}")


def read_stream(
    stream: BinaryIO, detected: Detected, gap: int | None = None, *, columns: bool = False
) -> Iterator[BlockResult]:
    """All of an opened, decompressed stream. ``columns``: see :func:`read_whole`."""
    if detected.how == "document" and detected.document is not None:
        yield from _read_document(stream, detected.document, columns=columns)
    else:
        yield from read_blocks(stream, STREAM_BLOCK, scanner_for(detected.formats), gap, columns=columns)


def _read_folder(opened: Opened, opener: Opener) -> Iterator[BlockResult]:
    """The rows of a folder that is one input."""
    fmt = opened.detected.document
    if fmt is None or fmt.read_metrics is None:
        yield _failed(opened, 0, "a folder that nothing here reads as a whole")
        return
    path = opened.file.path.rstrip("/")
    source = MetricsSource(opened.file.source, lambda name: opener(f"{path}/{name}"), opened.file.names)
    result = BlockResult(bytes=opened.file.size or 0)
    for item in rows_of(fmt.read_metrics, source):
        _sort_in(item, fmt.name, result)
        if result.rows >= DOCUMENT_ROWS:
            yield result
            result = BlockResult()
    yield result


def reject_of(source: str, format_name: str | None, refused: Refused) -> Reject:
    """The row of ``rejects`` for a refusal."""
    return Reject(
        source=source,
        byte_offset=refused.offset,
        length=refused.length or None,
        format=format_name or None,
        reason=refused.reason,
        excerpt=redact_bytes(refused.excerpt[: 2 * EXCERPT_BYTES])[:EXCERPT_BYTES] or None,
    )


def _failed(opened: Opened, offset: int, reason: str) -> BlockResult:
    return BlockResult(refused=[(opened.detected.format or "", Refused(offset, 0, reason))])


def _read_some(stream: BinaryIO, size: int) -> bytes:
    """Up to ``size`` bytes; damage after the first byte is found again by the reader, which reports it."""
    parts: list[bytes] = []
    try:
        while size > 0 and (data := stream.read(min(size, 16 << 10))):
            parts.append(data)
            size -= len(data)
    except StreamError:
        if not parts:
            raise
    return b"".join(parts)


class _Tally(io.RawIOBase):
    """Counts the bytes and lines that a document reader took."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.bytes = 0
        self.lines = 0
        self.digest = xxhash.xxh3_64()
        self._open_line = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._stream.read(len(buffer)) or b""
        buffer[: len(data)] = data
        self.bytes += len(data)
        self.digest.update(data)
        self.lines += data.count(b"\n")
        if data:
            self._open_line = not data.endswith(b"\n")
        return len(data)

    def line_count(self) -> int:
        return self.lines + self._open_line


def _read_document(stream: BinaryIO, fmt: DocumentFormat, *, columns: bool) -> Iterator[BlockResult]:
    tally = _Tally(stream)
    buffered = io.BufferedReader(tally, buffer_size=1 << 20)
    items = fmt.read_columns(buffered) if columns and fmt.read_columns else fmt.read(buffered)
    lines = taken = 0
    while True:
        result = BlockResult()
        damage: StreamError | None = None
        ended = True
        try:
            for item in items:
                _sort_in(item, fmt.name, result)
                if result.rows + len(result.marks) >= DOCUMENT_ROWS:
                    ended = False
                    break
        except StreamError as error:
            damage = error  # what was read before it counts
        result.lines, lines = tally.line_count() - lines, tally.line_count()
        result.bytes, taken = tally.bytes - taken, tally.bytes
        ended = ended or damage is not None
        if ended:
            result.pieces.append((0, tally.digest.hexdigest()))
        yield result
        if damage:
            raise damage
        if ended:
            return


def _sort_in(item: Found | Refused | Mark | FoundColumns, format_name: str, result: BlockResult) -> None:
    if isinstance(item, Mark):
        result.marks.append(item)
        return
    if isinstance(item, FoundColumns):
        result.records += item.count
        result.columns.append((format_name, item))
        return
    result.records += 1
    if isinstance(item, Refused):
        result.refused.append((format_name, item))
    else:
        item.format = item.format or format_name
        redact_row(item.row)
        result.found.append(item)
