"""Tables as text with one character between the columns (RFC 4180): a header, then records, in quotes where needed.

The delimiter is the one that makes a header of one of the first lines: comma, semicolon, tab or bar. A cell in quotes
may hold the delimiter, line ends and doubled quotes. Where a quote is never closed, or closes so that the record does
not fit its header, only the line that opened it is refused, and reading goes on behind it.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Final, NamedTuple

from aftershock.parsers.formats import Refused

# A record, however many lines it has: commands and tickets stay far below both.
MAX_RECORD: Final = 256 << 10
MAX_LINES: Final = 100

DELIMITERS: Final = (",", ";", "\t", "|")
# Lines before the header: a title, comments.
_PREAMBLE: Final = 20
_CHUNK: Final = 64 << 10
_EXCERPT: Final = 512
_BOM: Final = b"\xef\xbb\xbf"

IsHeader = Callable[[Sequence[str]], bool]
"""Whether the names of columns are those of the table that is looked for."""


class CsvRecord(NamedTuple):
    """A record: its cells by the names of the header (the first of each name), its place, its bytes."""

    cells: dict[str, str]
    offset: int
    raw: bytes


class Header(NamedTuple):
    """The names of the columns and what stands between them."""

    names: tuple[str, ...]
    delimiter: str


def header_of(line: bytes, is_header: IsHeader) -> Header | None:
    """The header that a line is, or None."""
    if len(line) > _CHUNK:
        return None
    text = line.removeprefix(_BOM)
    for delimiter in DELIMITERS:
        cells = _cells(text, delimiter)
        names = tuple(cell.strip() for cell in cells or ())
        if len(names) > 1 and is_header(names):
            return Header(names, delimiter)
    return None


def csv_records(stream: BinaryIO, is_header: IsHeader, tool: str) -> Iterator[CsvRecord | Refused]:
    """The records under the header, in order. A header that comes again (joined files) is no record."""
    lines = _lines(stream)
    header: Header | None = None
    seen = 0
    for offset, line, length in lines:
        if line is not None and line.strip() and not line.startswith(b"#"):
            header = header_of(line, is_header)
            seen += 1
        elif line is None:
            yield Refused(offset, length, f"{tool}: line of more than {MAX_RECORD} bytes")
        if header is not None or seen >= _PREAMBLE:
            break
    if header is None:
        yield Refused(0, 0, f"{tool}: no header that names the columns")
        return
    yield from _Cutter(header, is_header, tool).records(lines)


class _Cutter:
    """Cuts the lines under a header into records."""

    def __init__(self, header: Header, is_header: IsHeader, tool: str) -> None:
        self._header = header
        self._is_header = is_header
        self._tool = tool
        self._again: deque[tuple[int, bytes]] = deque()  # lines that have to be looked at once more

    def records(self, lines: Iterator[tuple[int, bytes | None, int]]) -> Iterator[CsvRecord | Refused]:
        """The records, and what is none."""
        while True:
            piece = self._next(lines)
            if piece is None:
                return
            if isinstance(piece, Refused):
                yield piece
                continue
            offset, line = piece
            if line.strip():
                yield from self._record(offset, line, lines)

    def _next(self, lines: Iterator[tuple[int, bytes | None, int]]) -> tuple[int, bytes] | Refused | None:
        if self._again:
            return self._again.popleft()
        following = next(lines, None)
        if following is None:
            return None
        offset, line, length = following
        if line is None:
            return Refused(offset, length, f"{self._tool}: line of more than {MAX_RECORD} bytes")
        return offset, line

    def _record(
        self, offset: int, line: bytes, lines: Iterator[tuple[int, bytes | None, int]]
    ) -> Iterator[CsvRecord | Refused]:
        """The record that begins with a line: it takes more lines while a quote is open."""
        parts = [(offset, line)]
        size = len(line)
        is_open = self._ends_open(line, is_open=False)
        late: Refused | None = None
        while is_open and len(parts) < MAX_LINES and size <= MAX_RECORD:
            piece = self._next(lines)
            if piece is None or isinstance(piece, Refused):
                late = piece
                break
            parts.append(piece)
            size += len(piece[1])
            is_open = self._ends_open(piece[1], is_open=True)
        raw = b"".join(part for _, part in parts)
        cells = None if is_open else _cells(raw, self._header.delimiter)
        if cells is not None and self._fits(cells):
            yield from self._made(cells, offset, raw)
        else:
            why = "a quote is never closed" if is_open else "cells do not fit the header"
            yield Refused(offset, len(line), f"{self._tool}: {why}", line[:_EXCERPT])
            self._again.extendleft(reversed(parts[1:]))
        if late is not None:
            yield late

    def _ends_open(self, line: bytes, *, is_open: bool) -> bool:
        """Whether a cell in quotes is open at the end of a line. Only a quote that begins a cell opens it."""
        if b'"' not in line:
            return is_open
        delimiter = self._header.delimiter.encode("ascii")
        at = 0
        while at <= len(line):
            if is_open:
                at = line.find(b'"', at)
                if at < 0:
                    return True
                if line[at + 1 : at + 2] == b'"':
                    at += 2
                    continue
                is_open = False
            elif line[at : at + 1] == b'"':
                is_open, at = True, at + 1
                continue
            at = line.find(delimiter, at)
            if at < 0:
                return False
            at += 1
        return is_open

    def _fits(self, cells: list[str]) -> bool:
        extra = cells[len(self._header.names) :]
        return len(cells) >= len(self._header.names) and not any(cell.strip() for cell in extra)

    def _made(self, cells: list[str], offset: int, raw: bytes) -> Iterator[CsvRecord]:
        names = self._header.names
        if cells[0].strip() in names and self._is_header_again(tuple(cell.strip() for cell in cells[: len(names)])):
            return
        named = dict(zip(names, cells, strict=False))
        if len(named) < len(names):  # of columns with one name the first counts
            named = {name: cells[names.index(name)] for name in named}
        yield CsvRecord(named, offset, raw)

    def _is_header_again(self, cells: tuple[str, ...]) -> bool:
        """Whether a record is the header of another table, which has the same columns in any order."""
        if set(cells) != set(self._header.names) or not self._is_header(cells):
            return False
        self._header = Header(cells, self._header.delimiter)
        return True


def _cells(data: bytes, delimiter: str) -> list[str] | None:
    """The cells of a record, None where quotes stand as they must not."""
    text = data.decode("utf-8", "backslashreplace").rstrip("\r\n")
    if '"' not in text:
        return None if "\n" in text or "\r" in text else text.split(delimiter)
    try:
        rows = list(csv.reader([text], delimiter=delimiter, strict=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None


def _lines(stream: BinaryIO) -> Iterator[tuple[int, bytes | None, int]]:
    """(offset, line with its end, length); None for a line that is longer than a record may be."""
    begin = 0
    held: list[bytes] = []
    size = 0
    while chunk := stream.read(_CHUNK):
        at = 0
        while (end := chunk.find(b"\n", at)) >= 0:
            piece = chunk[at : end + 1]
            length = size + len(piece)
            yield begin, b"".join([*held, piece]) if length <= MAX_RECORD else None, length
            begin, held, size, at = begin + length, [], 0, end + 1
        if at < len(chunk):
            size += len(chunk) - at
            held = [*held, chunk[at:]] if size <= MAX_RECORD else []
    if size:
        yield begin, b"".join(held) if size <= MAX_RECORD else None, size
