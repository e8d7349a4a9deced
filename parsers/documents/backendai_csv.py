"""Records of a CSV file with quotes and a header, one at a time, however the columns are ordered.

Backend.AI's export begins with a byte order mark and quotes cells that hold JSON; other exports of the same data use
semicolons or tabs. A record goes on over lines while a quote is open. One whose quote never closes ends where a line is
a whole record by itself.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Final, NamedTuple

from aftershock.parsers.formats import Refused

MAX_RECORD: Final = 1 << 20
_CHUNK: Final = 1 << 16
_BOM: Final = b"\xef\xbb\xbf"
_DELIMITERS: Final = (",", ";", "\t")


class Header(NamedTuple):
    """Names in the order of the columns, and what stands between them."""

    names: tuple[str, ...]
    delimiter: str


class CsvRecord(NamedTuple):
    """A record: its cells by the names of the header, where it stands, its bytes."""

    cells: dict[str, str]
    offset: int
    raw: bytes


def header_of(line: bytes, knows: Callable[[Sequence[str]], bool]) -> Header | None:
    """The header that a line is, if ``knows`` says so of its names."""
    text = line.removeprefix(_BOM).rstrip(b"\r\n")
    if len(text) > MAX_RECORD >> 4:
        return None
    for delimiter in _DELIMITERS:
        names = _cells(text, delimiter) if delimiter.encode() in text else None
        if names and knows(names):
            return Header(tuple(names), delimiter)
    return None


def csv_records(
    stream: BinaryIO, knows: Callable[[Sequence[str]], bool], stands_alone: Callable[[dict[str, str]], bool]
) -> Iterator[CsvRecord | Refused]:
    """The records under each header, in order.

    knows: whether names are those of a header that is read. stands_alone: whether cells make sense as a record that
        begins on a line where a quote is still open.
    """
    header: Header | None = None
    offset = begin = size = 0
    lines: list[bytes] = []
    quotes = 0
    for line in _lines(stream):
        here, offset = offset, offset + len(line)
        if lines and header and quotes % 2:
            alone = _record(header, line, here)
            if isinstance(alone, CsvRecord) and not line.count(b'"') % 2 and stands_alone(alone.cells):
                yield Refused(begin, size, "a quote that is not closed", b"".join(lines)[:512])
                lines, quotes, size = [], 0, 0
        if not lines:
            begin = here
            found = header_of(line, knows)
            header = found or header
            if found or not line.strip():
                continue
        if size <= MAX_RECORD:
            lines.append(line)
        size += len(line)
        quotes += line.count(b'"')
        if quotes % 2 and size <= MAX_RECORD:
            continue
        if size > MAX_RECORD:
            if not line.endswith(b"\n"):
                continue  # of a line without an end only the beginning is kept
            yield Refused(begin, size, f"record of more than {MAX_RECORD} bytes", lines[0][:512])
        elif header:
            yield _record(header, b"".join(lines), begin)
        lines, quotes, size = [], 0, 0
    if lines and header:
        reason = "a quote that is not closed" if quotes % 2 else "record is cut short"
        yield Refused(begin, size, reason, lines[0][:512])


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Lines with their ends; one that is longer than a record may be comes in several parts."""
    rest = b""
    while chunk := stream.read(_CHUNK):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line + b"\n"
        if len(rest) > MAX_RECORD:
            yield rest
            rest = b""
    if rest:
        yield rest


def _record(header: Header, raw: bytes, offset: int) -> CsvRecord | Refused:
    cells = _cells(raw.rstrip(b"\r\n"), header.delimiter)
    if cells is None or len(cells) != len(header.names):
        return Refused(offset, len(raw), "fields do not fit the columns", raw[:512])
    named: dict[str, str] = {}
    for name, cell in zip(header.names, cells, strict=True):
        named.setdefault(name, cell)
    return CsvRecord(named, offset, raw)


def _cells(raw: bytes, delimiter: str) -> list[str] | None:
    text = raw.decode("utf-8", "backslashreplace")
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None
