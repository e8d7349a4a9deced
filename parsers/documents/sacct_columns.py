"""sacct's table column by column: the plain lines of a block at once, the others by :mod:`.sacct` one by one.

A line is plain if it has as many cells as the header, each of the shape that its column asks for, ids and times in
their usual form, and the line after it is plain too: then it is a whole record, whatever stands around it. Accounting
of years has millions of such lines. The rows are the same as those that :func:`.sacct.read` makes of the text; they
leave as batches in the layout in which rows travel (:mod:`aftershock.parsers.transit`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv

from aftershock.parsers.documents.sacct_record import COLUMNS, rows_of_record
from aftershock.parsers.documents.sacct_sessions import Cells, sessions_of
from aftershock.parsers.documents.slurm_header import REWRITTEN, Header
from aftershock.parsers.documents.slurm_table import MAX_RECORD, Record, TableReader
from aftershock.parsers.formats import Found, FoundColumns, Refused

_BLOCK: Final = 4 << 20
# Headers within one block for which it is looked through again; a table has one.
_MOST_HEADERS: Final = 8

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Item = Found | Refused | FoundColumns


def read_columns(stream: BinaryIO) -> Iterator[Item]:
    """The sessions of a table: batches of the plain lines, single rows and refusals for the others."""
    reader = TableReader(COLUMNS, "sacct")
    for offset, data, below in _blocks(stream):
        yield from _read_block(reader, offset, _Lines(data, below))
    yield from _rows(reader.finish())


def _blocks(stream: BinaryIO) -> Iterator[tuple[int, bytes, bytes]]:
    """(offset, whole lines, the line below them) of blocks; of a line beyond reason only the beginning."""
    offset = 0
    rest = b""
    skipping = False
    while chunk := stream.read(_BLOCK):
        data = rest + chunk
        if skipping:
            begin = data.find(b"\n") + 1 or len(data)
            skipping = data[begin - 1 : begin] != b"\n"
            offset, data = offset + begin, data[begin:]
        # One line stays behind: it says what the last line of the block is.
        end = data.rfind(b"\n", 0, max(0, data.rfind(b"\n"))) + 1
        rest = data[end:]
        if end:
            yield offset, data[:end], rest[: rest.find(b"\n") + 1]
            offset += end
        cut = rest.rfind(b"\n") + 1
        if len(rest) - cut > MAX_RECORD:
            if cut:
                yield offset, rest[:cut], b""
            yield offset + cut, rest[cut:], b""
            offset, rest, skipping = offset + len(rest), b"", True
    if rest:
        yield offset, rest, b""


def _read_block(reader: TableReader, offset: int, lines: _Lines) -> Iterator[Item]:
    at = turns = 0
    while at < lines.count:
        header = reader.header
        turns += 1
        plain = lines.plain(header, at) if header is not None and turns <= _MOST_HEADERS else None
        taken: list[tuple[int, int]] = []
        for first, end in [*(plain.runs if plain else ()), (lines.count, lines.count)]:
            # Up to the run line by line, unless a header changes the columns.
            while at < first and reader.header == header:
                yield from _rows(reader.take(offset + lines.begins[at], lines.line(at), lines.line(at + 1)))
                at += 1
            if reader.header != header or first == end:
                break
            yield from _rows(reader.flush())
            # The last line of a run may go on in the lines behind it.
            at = end
            yield from _rows(reader.take(offset + lines.begins[at - 1], lines.line(at - 1), lines.line(at)))
            taken.append((first, end))
        if plain is not None and taken:
            yield from plain.sessions(taken, offset)


def _rows(records: Iterator[Record | Refused]) -> Iterator[Found | Refused]:
    for record in records:
        if isinstance(record, Refused):
            yield record
        else:
            yield from rows_of_record(record)


class _Lines:
    """The lines of a block."""

    def __init__(self, data: bytes, below: bytes) -> None:
        self._data = data
        self._below = below
        self._bytes = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(self._bytes == 10).astype(np.int64) + 1
        if not data.endswith(b"\n"):
            ends = np.append(ends, len(data))
        self._ends = ends
        self._starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        self.begins: list[int] = self._starts.tolist()
        self.count = len(ends)

    def line(self, number: int) -> bytes:
        """A line with its end; behind the last one that below the block."""
        return self._data[self._starts[number] : self._ends[number]] if number < self.count else self._below

    def plain(self, header: Header, first: int) -> _Plain | None:
        """The lines from a number on that are plain under a header."""
        if len(header.delimiter) != 1 or header.delimiter == b",":
            return None
        mark = header.delimiter[0]
        begin = int(self._starts[first])
        body = self._bytes[begin:]
        ends = self._ends[first:] - begin
        counts = np.diff(np.searchsorted(np.flatnonzero(body == mark), ends), prepend=0)
        fit: Bools = counts == header.delimiters
        last = ends - 1 if self._data.endswith(b"\n") else np.append(ends[:-1] - 1, ends[-1])
        if header.closed:
            fit &= body[np.maximum(last - 1, 0)] == mark
        # Lines with a carriage return go one by one, and those with quotes that another tool may have set.
        odd = np.flatnonzero((body == 13) | (body == 34) if header.delimiter in REWRITTEN else body == 13)
        if len(odd):
            fit[np.searchsorted(ends, odd, side="right")] = False
        if not fit.any():
            return _Plain(np.zeros(0, np.int64), fit, first, self._starts, None)
        kept = body if fit.all() else body[np.repeat(fit, np.diff(ends, prepend=0))]
        cells = _cells(kept.tobytes(), header)
        if cells is None:
            return None
        fit[np.flatnonzero(fit)[~cells.plain]] = False
        return _Plain(np.flatnonzero(cells.plain), fit, first, self._starts, cells)


class _Plain:
    """Which lines of a block are plain, in runs, and what they hold.

    chosen: numbers of the plain lines among the cells.
    """

    def __init__(self, chosen: Ints, fit: Bools, first: int, starts: Ints, cells: Cells | None) -> None:
        self._chosen = chosen
        self._cells = cells
        self._numbers = np.flatnonzero(fit) + first
        self._starts = starts
        edges = np.flatnonzero(np.diff(np.concatenate([[False], fit, [False]]).astype(np.int8)))
        self.runs: list[tuple[int, int]] = [
            (int(begin) + first, int(end) + first) for begin, end in zip(edges[::2], edges[1::2], strict=True)
        ]

    def sessions(self, runs: list[tuple[int, int]], offset: int) -> Iterator[FoundColumns]:
        """The sessions of the lines of some runs but the last line of each."""
        if self._cells is None:
            return
        lasts = np.array([end - 1 for _, end in runs], np.int64)
        wanted = (self._numbers < runs[-1][1]) & ~np.isin(self._numbers, lasts)
        found = sessions_of(self._cells, self._chosen[wanted], self._starts[self._numbers[wanted]] + offset)
        if found is not None:
            yield found


def _cells(data: bytes, header: Header) -> Cells | None:
    """The cells of lines that all have as many as the header; None for text that is no UTF-8."""
    width = len(header.names) + header.closed
    names = [str(i) for i in range(width)]
    used = [i for i, name in enumerate(header.names) if name in Cells.USED]
    try:
        table = csv.read_csv(
            pa.BufferReader(data),
            read_options=csv.ReadOptions(column_names=names, block_size=max(1 << 20, len(data) + 1), use_threads=False),
            parse_options=csv.ParseOptions(
                delimiter=header.delimiter.decode("ascii"),
                quote_char=False,
                double_quote=False,
                escape_char=False,
                newlines_in_values=False,
                ignore_empty_lines=False,
            ),
            convert_options=csv.ConvertOptions(
                column_types={str(i): pa.string() for i in used},
                include_columns=[str(i) for i in used],
                strings_can_be_null=False,
            ),
        )
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
    columns = [column.combine_chunks() for column in table.columns]
    return Cells([header.names[i] for i in used], columns, table.num_rows)
