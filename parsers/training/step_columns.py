"""Steps of one source as columns, piece by piece: what joining them means for the rows of each piece.

``steps`` joins row by row. Here most rows are passed over: as long as numbers of steps grow, or a step is printed again
at once with the same values, it is known without a look at each row which rows stay. Only where the number falls, or
other ranks print between each other, rows are made and joined as ever, and what has changed in them is noted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from aftershock.parsers.formats import Found
from aftershock.parsers.training.steps import FIELDS, NEAR_BYTES, NEAR_US, OPEN_STEPS, SAME, StepJoiner
from aftershock.parsers.transit import completed, found_of, pack_found
from aftershock.schemas.tables import TABLES
from aftershock.schemas.training import TrainingStep

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# Rows that are made at a time, where rows are needed.
_WINDOW: Final = 256


class Piece(Protocol):
    """Steps that follow each other in a source, unsettled, as they travel: in the order of their offsets."""

    @property
    def begin(self) -> int:
        """Offset of the first of them."""

    def read(self) -> pa.RecordBatch:
        """All of them. Columns that are null may be missing, words may be dictionaries."""


@dataclass(frozen=True)
class InMemory:
    """A piece that is in memory."""

    batch: pa.RecordBatch

    @property
    def begin(self) -> int:
        """Offset of its first row."""
        return int(self.batch.column("@offset")[0].as_py())

    def read(self) -> pa.RecordBatch:
        """All of it."""
        return self.batch


@dataclass
class Joined:
    """A piece, and what has become of its rows.

    gone: rows that are copies of others. copies: by row, where some stand for several. changed: rows with new values.
    """

    piece: Piece
    gone: Bools | None = None
    copies: Ints | None = None
    changed: dict[int, Found] = field(default_factory=dict)

    @property
    def begin(self) -> int:
        """Offset of its first row."""
        return self.piece.begin

    def read(self) -> pa.RecordBatch:
        """The rows that stay."""
        batch = self.piece.read()
        if self.copies is not None:
            batch = _with_column(batch, "copies", pa.array(self.copies, pa.int32()))
        if self.changed:
            batch = self._with_changes(plain(batch))
        return batch if self.gone is None else batch.filter(pa.array(~self.gone))

    def _with_changes(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = sorted(self.changed)
        new = pack_found([self.changed[row] for row in rows], TABLES[TrainingStep.table])
        both = pa.Table.from_batches([batch, new]).combine_chunks().to_batches()[0]
        order = np.arange(batch.num_rows)
        order[rows] = batch.num_rows + np.arange(len(rows))
        return both.take(pa.array(order))


def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A piece with all columns that travel, words as strings."""
    columns = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in batch.columns
    ]
    names = list(batch.schema.names)
    if "@format" not in names:
        names.append("@format")
        columns.append(pa.repeat(pa.scalar("training"), batch.num_rows))
    return completed(pa.RecordBatch.from_arrays(columns, names=names).replace_schema_metadata(_TABLE))


_TABLE: Final = {"table": TrainingStep.table}


def _with_column(batch: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    columns: dict[str, pa.Array] = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns[name] = values
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)).replace_schema_metadata(_TABLE)


def join_pieces(pieces: Sequence[Piece], beginnings: Sequence[int]) -> list[Joined]:
    """All pieces of a source, in order, joined as :func:`.join_steps` does. ``beginnings``: as there."""
    joiner = _Joiner(beginnings)
    return [joiner.join(piece) for piece in pieces]


@dataclass(slots=True)
class _Placed(Found):
    """A row that was made of a piece, and its place there."""

    joined: Any = None
    row_number: int = 0


class _Joiner:
    def __init__(self, beginnings: Sequence[int]) -> None:
        self._beginnings = np.array(beginnings, np.int64)
        self._rows = StepJoiner(beginnings)

    def join(self, piece: Piece) -> Joined:
        joined = Joined(piece)
        batch = piece.read()
        columns = _Columns.of(batch, self._beginnings)
        made = _made(batch, joined)
        gone = np.zeros(batch.num_rows, np.bool_)
        copies: Ints | None = None
        if columns.again.any():
            copies = numbers(batch, "copies", 1)
        row = 0
        while row < batch.num_rows:
            self._take(made(row), gone, row, joined)
            row += 1
            end = columns.run_end(row)
            behind = columns.tail(row, end)
            if behind <= row or not self._rows.is_behind(int(columns.steps[row]), columns.lasts(row, end)):
                continue
            self._rows.skip(columns.groups(row, behind), columns.lasts(row, behind))
            if copies is not None:
                columns.collapse(row, behind, gone, copies)
            for number in range(behind, end):
                self._take(made(number), gone, number, joined)
            row = end
        joined.gone = gone if gone.any() else None
        joined.copies = copies if copies is not None and (copies > 1).any() else None
        return joined

    def _take(self, item: _Placed, gone: Bools, row: int, joined: Joined) -> None:
        before = item.row.step if isinstance(item.row, TrainingStep) else None
        kept = self._rows.take(item)
        if kept is not item:
            gone[row] = True
            if isinstance(kept, _Placed):
                kept.joined.changed[kept.row_number] = kept
        elif item.mark[:1] not in ("", "@") or item.row.step != before:  # type: ignore[attr-defined]
            joined.changed[row] = item


def _made(batch: pa.RecordBatch, joined: Joined) -> Callable[[int], _Placed]:
    """Makes rows of a piece; they are asked for in order, each once."""
    window: dict[int, _Placed] = {}

    def made(row: int) -> _Placed:
        if row not in window:
            window.clear()
            for number, found in enumerate(found_of(plain(batch.slice(row, _WINDOW))), start=row):
                window[number] = _Placed(
                    found.row,
                    found.reading,
                    found.offset,
                    found.mark,
                    format=found.format,
                    joined=joined,
                    row_number=number,
                )
        return window.pop(row)

    return made


@dataclass(frozen=True)
class _Columns:
    """What joining has to know of the rows of a piece.

    marks: by row, numbers of ``writers``. again: rows that only repeat the step of the row before. breaks: rows that
    do not go on from the row before, by a larger step or by the same one.
    """

    steps: Ints
    marks: Ints
    writers: Sequence[str]
    again: Bools
    heads: Ints
    breaks: Ints

    @classmethod
    def of(cls, batch: pa.RecordBatch, beginnings: Ints) -> _Columns:
        """From a piece. ``beginnings``: of runs in the whole source."""
        steps = numbers(batch, "step", 0)
        offsets = numbers(batch, "@offset", 0)
        names, marks = words(batch, "@mark", "")
        usual = np.array([word[:1] in ("", "@") for word in names], np.bool_)[marks]
        usual &= given(batch, "step")
        run = np.searchsorted(beginnings, offsets, side="right")
        joins = usual[1:] & usual[:-1] & (run[1:] == run[:-1])
        apart = np.diff(steps)
        again = np.zeros(batch.num_rows, np.bool_)
        if (joins & (apart == 0)).any():
            again[1:] = joins & (apart == 0) & _repeats(batch)
            again &= _is_near(batch, again, offsets)
        goes_on = np.zeros(batch.num_rows, np.bool_)
        goes_on[1:] = joins & (apart > 0)
        writers = [word.partition("@")[2] for word in names]
        return cls(steps, marks, writers, again, np.flatnonzero(~again), np.flatnonzero(~(goes_on | again)))

    def run_end(self, row: int) -> int:
        """Where the rows from this one on no longer go on from each other."""
        place = int(np.searchsorted(self.breaks, row))
        return int(self.breaks[place]) if place < self.breaks.size else self.steps.size

    def tail(self, row: int, end: int) -> int:
        """The first of the last rows of a run, which have to be taken one by one."""
        first, last = np.searchsorted(self.heads, (row, end)).tolist()
        return row if last - first <= OPEN_STEPS else int(self.heads[last - OPEN_STEPS])

    def groups(self, row: int, end: int) -> int:
        """How many different steps there are in [row, end)."""
        first, last = np.searchsorted(self.heads, (row, end)).tolist()
        return int(last - first)

    def lasts(self, row: int, end: int) -> dict[str, int]:
        """The last step of each writer in [row, end)."""
        if len(self.writers) == 1:
            return {self.writers[0]: int(self.steps[end - 1])}
        last = np.full(len(self.writers), -1, np.int64)
        np.maximum.at(last, self.marks[row:end], np.arange(row, end))
        pairs = sorted((at, writer) for at, writer in zip(last.tolist(), self.writers, strict=True) if at >= 0)
        return {writer: int(self.steps[at]) for at, writer in pairs}

    def collapse(self, row: int, end: int, gone: Bools, copies: Ints) -> None:
        """Let the first row of each step in [row, end) stand for all of them."""
        first, last = np.searchsorted(self.heads, (row, end)).tolist()
        heads = self.heads[first:last]
        copies[heads] = np.add.reduceat(copies[:end], heads)
        gone[row:end] = self.again[row:end]


def _repeats(batch: pa.RecordBatch) -> Bools:
    """For each row but the first whether it prints the same values as the row before."""
    same = np.ones(batch.num_rows - 1, np.bool_)
    for name in FIELDS:
        if name not in batch.schema.names:
            continue
        column = batch.column(name)
        valid = given(batch, name)
        same &= valid[1:] == valid[:-1]
        if name in SAME:
            values = column.to_numpy(zero_copy_only=False)
            if pa.types.is_integer(column.type):
                values = numbers(batch, name, 0)
            same &= (values[1:] == values[:-1]) | ((values[1:] != values[1:]) & (values[:-1] != values[:-1]))
    _, kinds = words(batch, "@kind", "none")
    timed = given(batch, "@wall")
    same &= kinds[1:] == kinds[:-1]
    same &= timed[1:] == timed[:-1]
    return same


def _is_near(batch: pa.RecordBatch, again: Bools, offsets: Ints) -> Bools:
    """Whether each row stands near the first one that it repeats."""
    rows = np.arange(batch.num_rows)
    head = np.maximum.accumulate(np.where(again, 0, rows))
    walls = numbers(batch, "@wall", 0)
    timed = given(batch, "@wall")
    near = np.abs(walls - walls[head]) <= NEAR_US
    return np.where(timed, near, offsets - offsets[head] <= NEAR_BYTES)


def numbers(batch: pa.RecordBatch, name: str, nothing: int) -> Ints:
    """A column of whole numbers, with a number for nulls, as an array of its own."""
    if name not in batch.schema.names:
        return np.full(batch.num_rows, nothing, np.int64)
    column = batch.column(name).cast(pa.int64())
    return np.array(pc.fill_null(column, nothing).to_numpy(zero_copy_only=False))


def floats(batch: pa.RecordBatch, name: str) -> npt.NDArray[np.float64]:
    """A column with NaN for nulls."""
    if name not in batch.schema.names:
        return np.full(batch.num_rows, np.nan)
    return np.asarray(batch.column(name).to_numpy(zero_copy_only=False), np.float64)


def given(batch: pa.RecordBatch, name: str) -> Bools:
    """Which rows have a value in a column."""
    if name not in batch.schema.names:
        return np.zeros(batch.num_rows, np.bool_)
    return np.asarray(batch.column(name).is_valid().to_numpy(zero_copy_only=False))


def words(batch: pa.RecordBatch, name: str, nothing: str) -> tuple[list[str], Ints]:
    """The different words of a column, and for each row the number of its word."""
    if name not in batch.schema.names:
        return [nothing], np.zeros(batch.num_rows, np.int64)
    column = batch.column(name)
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    found = [nothing if word is None else word for word in coded.dictionary.to_pylist()]
    if coded.null_count:
        found.append(nothing)
    places = pc.fill_null(coded.indices.cast(pa.int64()), len(found) - 1)
    return found, places.to_numpy(zero_copy_only=False)
