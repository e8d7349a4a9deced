"""Tables that Slurm's tools print with a delimiter: a header, then records whose cells may hold anything.

Slurm quotes nothing in these tables; tools that write them again, with commas, may. A comment or a submit line may hold
line ends and the delimiter itself, so a record goes on until its number of delimiters is reached, and delimiters too
many are given to the free-text column that makes sense of the others.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from itertools import chain, pairwise
from typing import BinaryIO, Final, NamedTuple, Protocol

from aftershock.parsers.documents.slurm_header import REWRITTEN, Columns, Header, header_of, laid_out_header_of
from aftershock.parsers.documents.slurm_layout import LONGEST, Layout, is_date, is_rule
from aftershock.parsers.formats import Refused

# A record, however many lines it has. Batch scripts pasted into a comment stay below it by far.
MAX_RECORD: Final = 1 << 20
# More lines than any submit line or comment has: past them the record has lost its end.
MAX_LINES: Final = 1000


class Record(NamedTuple):
    """A record: its cells by lower-case column name (the first of each name), where it stands, its bytes."""

    cells: dict[str, str]
    offset: int
    raw: bytes


class _Table:
    """Reads the records under one header."""

    def __init__(self, header: Header, columns: Columns) -> None:
        self.header = header
        self._joint = header.delimiter.decode("ascii")
        self._columns = columns
        self._shapes = [columns.shapes.get(name) for name in header.names]
        self._free = [i for i, name in enumerate(header.names) if name in columns.free]
        self._last_is_free = not header.closed and header.names[-1] in columns.free

    def count(self, data: bytes) -> int:
        return data.count(self.header.delimiter)

    def ends(self, line: bytes, delimiters: int) -> bool:
        """Whether a record that has so many delimiters ends with this line."""
        closed = not self.header.closed or line.rstrip(b"\r\n").endswith(self.header.delimiter)
        return closed and delimiters >= self.header.delimiters

    def stands_alone(self, line: bytes) -> bool:
        """Whether a line is a whole record by itself."""
        return self.count(line) == self.header.delimiters and self.cells(line) is not None

    def goes_on_with(self, record: bytes, rest: bytes) -> bool:
        """Whether ``rest`` can be nothing but more of the last cell of a record."""
        if not self._last_is_free:
            return False
        begun = self._parts(rest)
        shapes = zip(self._shapes, begun, strict=False)
        if any(shape is not None for shape in self._shapes[: len(begun)]) and all(_fits(s, cell) for s, cell in shapes):
            return False
        return self.cells(record + rest) is not None

    def cells(self, data: bytes) -> dict[str, str] | None:
        """The cells of a record, or None if there is no way, or more than one, to make sense of it.

        Free-text cells that could be cut in several ways are left empty.
        """
        quoted = self._unquoted(data)
        if quoted is not None:
            return self._named(quoted)
        parts = self._parts(data)
        extra = len(parts) - len(self.header.names)
        if extra == 0:
            return self._named(parts) if self._all_fit(parts) else None
        if extra < 0:
            return None
        tries = ([*parts[:i], self._joint.join(parts[i : i + extra + 1]), *parts[i + extra + 1 :]] for i in self._free)
        fitting = [tried for tried in tries if self._all_fit(tried)]
        if not fitting:
            return None
        ways = [set(cells) for cells in zip(*fitting, strict=True)]
        if any(len(cells) > 1 and i not in self._free for i, cells in enumerate(ways)):
            return None
        return self._named([cells.pop() if len(cells) == 1 else "" for cells in ways])

    def _unquoted(self, data: bytes) -> list[str] | None:
        """The cells of a record that another tool wrote with quotes around some, or None."""
        if b'"' not in data or self.header.delimiter not in REWRITTEN or self.header.closed:
            return None
        text = data.rstrip(b"\r\n").decode("utf-8", "backslashreplace")
        try:
            records = list(csv.reader([text], delimiter=self._joint, strict=True))
        except csv.Error:
            return None
        fits = len(records) == 1 and len(records[0]) == len(self.header.names) and self._all_fit(records[0])
        return records[0] if fits else None

    def _parts(self, data: bytes) -> list[str]:
        text = data.rstrip(b"\r\n").decode("utf-8", "backslashreplace")
        parts = text.split(self._joint)
        parts = parts[:-1] if self.header.closed and not parts[-1] else parts
        return list(_whole_lists(parts)) if self._joint == "," else parts

    def _all_fit(self, parts: list[str]) -> bool:
        return all(_fits(shape, cell) for shape, cell in zip(self._shapes, parts, strict=True))

    def _named(self, parts: list[str]) -> dict[str, str]:
        named: dict[str, str] = {}
        for name, cell in zip(self.header.names, parts, strict=True):
            named.setdefault(name, cell if name in self._columns.free else cell.strip())
        return named


_RESOURCE: Final = re.compile(r"[a-z][\w/:.-]*=[0-9.]+[A-Za-z]?")


def _whole_lists(parts: list[str]) -> Iterator[str]:
    """Parts of a line that was cut at every comma, with host lists and resources whole again."""
    kept: list[str] = []
    is_open = False  # a bracket of what is kept
    for part in parts:
        goes_on = is_open or (kept and _RESOURCE.fullmatch(part) and _RESOURCE.fullmatch(kept[-1]))
        if kept and not goes_on:
            yield ",".join(kept)
            kept, is_open = [], False
        kept.append(part)
        opened, closed = part.rfind("["), part.rfind("]")
        is_open = opened > closed if max(opened, closed) >= 0 else is_open
    if kept:
        yield ",".join(kept)


def _fits(shape: re.Pattern[str] | None, cell: str) -> bool:
    stripped = cell.strip()
    return shape is None or not stripped or shape.fullmatch(stripped) is not None


class _Piece(NamedTuple):
    offset: int
    raw: bytes


class _Cutter:
    """Cuts the lines under one header into records.

    held: a whole record, kept back because its last cell may go on in the lines that follow.
    open: lines of a record that has not got all its delimiters.
    """

    def __init__(self, table: _Table, tool: str) -> None:
        self._table = table
        self._tool = tool
        self._held: _Piece | None = None
        self._open: list[_Piece] = []
        self._open_bytes = self._open_delimiters = 0

    def take(self, offset: int, line: bytes) -> Iterator[Record | Refused]:
        if not self._open and not line.strip():
            return
        if self._open and self._table.stands_alone(line):
            # What is open never got its delimiters: it belongs to the record before, or is torn.
            yield from self.finish()
        self._open.append(_Piece(offset, line))
        self._open_bytes += len(line)
        self._open_delimiters += self._table.count(line)
        if self._table.ends(line, self._open_delimiters):
            whole = self._opened()
            yield from self._release()
            self._held = whole
        elif len(self._open) >= MAX_LINES or self._open_bytes > MAX_RECORD:
            yield from self.finish()

    def finish(self) -> Iterator[Record | Refused]:
        """Everything that is left."""
        rest = self._opened() if self._open else None
        if rest and not rest.raw.strip():
            rest = None
        if rest and self._held and self._table.goes_on_with(self._held.raw, rest.raw):
            self._held, rest = _Piece(self._held.offset, self._held.raw + rest.raw), None
        yield from self._release()
        if rest:
            yield Refused(rest.offset, len(rest.raw), f"{self._tool}: record is cut short", rest.raw[:512])

    def _opened(self) -> _Piece:
        piece = _Piece(self._open[0].offset, b"".join(piece.raw for piece in self._open))
        self._open, self._open_bytes, self._open_delimiters = [], 0, 0
        return piece

    def _release(self) -> Iterator[Record | Refused]:
        piece, self._held = self._held, None
        if piece is None:
            return
        cells = self._table.cells(piece.raw)
        if cells is None:
            reason = f"{self._tool}: fields do not fit the columns"
            yield Refused(piece.offset, len(piece.raw), reason, piece.raw[:512])
        else:
            yield Record(cells, piece.offset, piece.raw)


class _Rows:
    """Reads the lines under a header without delimiters: each is a record, or the time above the next table."""

    def __init__(self, layout: Layout, tool: str) -> None:
        self._layout = layout
        self._tool = tool

    def take(self, offset: int, line: bytes) -> Iterator[Record | Refused]:
        if not line.strip() or is_date(line) or is_rule(line):
            return
        cells = self._layout.cells(line) if len(line) <= LONGEST else None
        if cells is None:
            reason = f"{self._tool}: fields do not fit the columns"
            yield Refused(offset, len(line), reason, line[:512])
        else:
            kept = {name: "" if self._layout.is_cut(name, cell) else cell for name, cell in cells.items()}
            yield Record(kept, offset, line)

    def finish(self) -> Iterator[Record | Refused]:
        """Nothing is kept back."""
        return iter(())


class _Taker(Protocol):
    def take(self, offset: int, line: bytes) -> Iterator[Record | Refused]: ...

    def finish(self) -> Iterator[Record | Refused]: ...


def has_header(lines: list[bytes], columns: Columns) -> bool:
    """Whether one of some lines is a header."""
    return any(
        header_of(line, columns) or laid_out_header_of(line, below, columns) for line, below in pairwise([*lines, b""])
    )


class TableReader:
    """Takes the lines of a table one by one; a header may come again, and may change."""

    def __init__(self, columns: Columns, tool: str) -> None:
        self._columns = columns
        self._tool = tool
        self._taker: _Taker | None = None
        self.header: Header | None = None  # under which the lines stand, if they have a delimiter

    def take(self, offset: int, line: bytes, below: bytes) -> Iterator[Record | Refused]:
        """The records that end above a line; ``below`` is the line after it."""
        if len(line) > MAX_RECORD:
            yield Refused(offset, 0, f"{self._tool}: line of more than {MAX_RECORD} bytes")
            return
        following, header = self._taker_of(line, below)
        if following:
            yield from self.flush()
            self._taker, self.header = following, header
        elif self._taker:
            yield from self._taker.take(offset, line)

    def flush(self) -> Iterator[Record | Refused]:
        """What is kept back because it may go on: before a line of which it is known that it begins a record."""
        if self._taker:
            yield from self._taker.finish()

    def finish(self) -> Iterator[Record | Refused]:
        """Everything that is left."""
        yield from self.flush()
        if not self._taker:
            yield Refused(0, 0, f"{self._tool}: no header that names the columns")

    def _taker_of(self, line: bytes, below: bytes) -> tuple[_Taker | None, Header | None]:
        """What reads the records under a line, if it is a header."""
        if header := header_of(line, self._columns):
            return _Cutter(_Table(header, self._columns), self._tool), header
        layout = laid_out_header_of(line, below, self._columns)
        return (_Rows(layout, self._tool) if layout else None), None


def read_table(stream: BinaryIO, columns: Columns, tool: str) -> Iterator[Record | Refused]:
    """The records of a table, in order."""
    reader = TableReader(columns, tool)
    for (offset, line), (_, below) in pairwise(chain(_lines(stream), [(0, b"")])):
        yield from reader.take(offset, line, below)
    yield from reader.finish()


def _lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """(offset, line with its end) of each line; of one that is longer than a record may be, the beginning."""
    offset = 0
    while line := stream.readline(MAX_RECORD + 1):
        yield offset, line
        offset += len(line)
        while not line.endswith(b"\n") and (line := stream.readline(MAX_RECORD)):
            offset += len(line)
