"""Steps of one source as columns, piece by piece: what joining them means for the rows of each piece.

``steps`` joins row by row. Here most rows are passed over: as long as numbers of steps grow, or a step is printed again
at once with the same values, it is known without a look at each row which rows stay; so it is as long as values that
have no step, and no bar that knows it, differ from those before. Only where the number falls, or other ranks print
between each other, rows are made and joined as ever, and what has changed in them is noted.
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
from aftershock.parsers.training.arrays import Bools, Ints, close, floats, given, numbers, with_column, words
from aftershock.parsers.training.merging import Merged, merge
from aftershock.parsers.training.steps import OPEN_STEPS, ROUNDED, SAME, VALUES, WEAK, StepJoiner
from aftershock.parsers.transit import completed, found_of, pack_found
from aftershock.schemas.tables import TABLES
from aftershock.schemas.training import TrainingStep

# Kinds of rows by their marks: those of a step, those that accompany them, and values that may lack a step.
_STEP, _WEAK, _VALUES, _OTHER = range(4)
_KINDS: Final = {"": _STEP, WEAK: _WEAK, VALUES: _VALUES}

# Rows that are made at a time, where rows are needed.
_LEAST_WINDOW, _WINDOW = 4, 256


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

    gone: rows that are copies of others. copies: by row, where some stand for several. together: copies that say more
    than the rows that stay. changed: rows with new values.
    """

    piece: Piece
    gone: Bools | None = None
    together: Bools | None = None
    copies: Ints | None = None
    changed: dict[int, Found] = field(default_factory=dict)

    @property
    def begin(self) -> int:
        """Offset of its first row."""
        return self.piece.begin

    def read(self) -> pa.RecordBatch:
        """The rows that stay."""
        batch = self.piece.read()
        if self.together is not None:
            batch = merge(batch, self.together).of(batch)
        if self.copies is not None:
            batch = with_column(batch, "copies", pa.array(self.copies, pa.int32()))
        if self.changed:
            batch = self._with_changes(batch)
        return batch if self.gone is None else batch.filter(pa.array(~self.gone))

    def _with_changes(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = sorted(self.changed)
        which = np.zeros(batch.num_rows, np.bool_)
        which[rows] = True
        new = pack_found([self.changed[row] for row in rows], TABLES[TrainingStep.table])
        few = plain(batch.take(pa.array(rows)))
        for name in new.schema.names:
            column = new.column(name)
            if (name.startswith("@") and name not in _CHANGING) or few.column(name).equals(column):
                continue
            old = batch.column(name) if name in batch.schema.names else pa.nulls(batch.num_rows, column.type)
            old = old.dictionary_decode() if pa.types.is_dictionary(old.type) else old
            batch = with_column(batch, name, pc.replace_with_mask(old, pa.array(which), column.cast(old.type)))
        return batch


# What may change of a step beside the columns of its table: the time and the writer of another print.
_CHANGING: Final = ("@kind", "@wall", "@boot", "@epoch", "@resolution", "@text", "@mark")


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
        made = _made(batch, joined, columns.likely())
        gone = np.zeros(batch.num_rows, np.bool_)
        together = np.zeros(batch.num_rows, np.bool_)
        copies: Ints | None = None
        if columns.merged is not None:
            copies = numbers(batch, "copies", 1)
        row = 0
        while row < batch.num_rows:
            self._take(made(row), gone, row, joined)
            row += 1
            last = columns.bare_end(row) - 1
            if last > row and not gone[row - 1] and (columns.kinds[row] != _VALUES or not self._rows.bars):
                self._rows.skip_bare(last - row, columns.totals(row, last))
                row = last
                continue
            end = columns.run_end(row)
            behind = columns.tail(row, end)
            if behind <= row or not self._rows.is_behind(int(columns.steps[row]), columns.lasts(row, end)):
                continue
            self._rows.skip(columns.groups(row, behind), columns.lasts(row, behind))
            if copies is not None:
                columns.collapse(row, behind, together, copies)
            for number in range(behind, end):
                self._take(made(number), gone, number, joined)
            row = end
        gone |= together
        joined.gone = gone if gone.any() else None
        if columns.merged is not None and columns.merged.says_more():
            joined.together = together
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


def _made(batch: pa.RecordBatch, joined: Joined, likely: Ints) -> Callable[[int], _Placed]:
    """Makes rows of a piece; they are asked for in order, each once. ``likely``: rows that may be, in order."""
    window: dict[int, _Placed] = {}
    size, last = _LEAST_WINDOW, -1

    def made(row: int) -> _Placed:
        nonlocal size, last
        if row not in window:
            place = int(np.searchsorted(likely, row))
            # Few where rows are asked for here and there, many where all that may be are.
            size = min(2 * size, _WINDOW) if place - 1 == last else _LEAST_WINDOW
            rows = likely[place : place + size]
            if not rows.size or rows[0] != row:
                rows = np.array([row])
            window.clear()
            last = place + rows.size - 1
            for number, found in zip(rows.tolist(), found_of(plain(batch.take(pa.array(rows)))), strict=True):
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

    marks: by row, numbers of ``writers``. again: rows that are copies of one before, as ``merged`` says. breaks: rows
    that do not go on from the row before, by a larger step or by the same one. others: rows that are not such as have
    no step, are of the same kind as the row before, and differ from it. total_steps: of the batch.
    """

    steps: Ints
    kinds: npt.NDArray[np.int8]
    others: Ints
    total_steps: pa.Array | None
    marks: Ints
    writers: Sequence[str]
    again: Bools
    merged: Merged | None
    heads: Ints
    breaks: Ints

    @classmethod
    def of(cls, batch: pa.RecordBatch, beginnings: Ints) -> _Columns:
        """From a piece. ``beginnings``: of runs in the whole source."""
        steps = numbers(batch, "step", 0)
        offsets = numbers(batch, "@offset", 0)
        names, marks = words(batch, "@mark", "")
        kinds = np.array([_KINDS.get(word.partition("@")[0], _OTHER) for word in names], np.int8)[marks]
        numbered = given(batch, "step")
        usual = (kinds < _VALUES) & numbered
        run = np.searchsorted(beginnings, offsets, side="right")
        joins = usual[1:] & usual[:-1] & (run[1:] == run[:-1])
        apart = np.diff(steps)
        again = np.zeros(batch.num_rows, np.bool_)
        again[1:] = joins & (apart == 0)
        merged = merge(batch, again) if again.any() else None
        again = again if merged is None else merged.copies
        goes_on = np.zeros(batch.num_rows, np.bool_)
        goes_on[1:] = joins & (apart > 0)
        bare = (kinds != _OTHER) & ~numbered
        differ = np.zeros(batch.num_rows, np.bool_)
        if bare.any():
            differ[1:] = bare[1:] & bare[:-1] & (kinds[1:] == kinds[:-1]) & (run[1:] == run[:-1]) & _differ(batch)
        writers = [word.partition("@")[2] for word in names]
        breaks = np.flatnonzero(~(goes_on | again))
        totals = batch.column("total_steps") if "total_steps" in batch.schema.names else None
        others = np.flatnonzero(~differ)
        return cls(steps, kinds, others, totals, marks, writers, again, merged, np.flatnonzero(~again), breaks)

    def bare_end(self, row: int) -> int:
        """Where rows without a step end that differ from each other, if this one does from the row before."""
        place = int(np.searchsorted(self.others, row))
        return int(self.others[place]) if place < self.others.size else self.steps.size

    def likely(self) -> Ints:
        """Rows that may have to be taken one by one: those that :meth:`bare_end` does not pass over."""
        chosen = np.zeros(self.steps.size, np.bool_)
        for near in (-1, 0, 1):
            chosen[np.clip(self.others + near, 0, self.steps.size - 1)] = True
        return np.flatnonzero(chosen)

    def totals(self, row: int, end: int) -> dict[str, int | None]:
        """The last number of all steps that each writer of values prints in [row, end)."""
        if self.kinds[row] != _VALUES:
            return {}
        places = self._last_rows(row, end)
        return {w: None if self.total_steps is None else self.total_steps[at].as_py() for w, at in places.items()}

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
        return {writer: int(self.steps[at]) for writer, at in self._last_rows(row, end).items()}

    def _last_rows(self, row: int, end: int) -> dict[str, int]:
        """The last row of each writer in [row, end), in order."""
        if len(self.writers) == 1:
            return {self.writers[0]: end - 1}
        last = np.full(len(self.writers), -1, np.int64)
        np.maximum.at(last, self.marks[row:end], np.arange(row, end))
        pairs = sorted((at, writer) for at, writer in zip(last.tolist(), self.writers, strict=True) if at >= 0)
        return {writer: at for at, writer in pairs}

    def collapse(self, row: int, end: int, together: Bools, copies: Ints) -> None:
        """Let the first row of each step in [row, end) stand for all of them."""
        first, last = np.searchsorted(self.heads, (row, end)).tolist()
        heads = self.heads[first:last]
        copies[heads] = np.add.reduceat(copies[:end], heads)
        together[row:end] = self.again[row:end]


def _differ(batch: pa.RecordBatch) -> Bools:
    """For each row but the first whether it prints another value than the row before, of what both print."""
    differ = np.zeros(batch.num_rows - 1, np.bool_)
    for name in SAME:
        values, valid = floats(batch, name), given(batch, name)
        differ |= valid[1:] & valid[:-1] & ~close(values[:-1], values[1:], ROUNDED)
    return differ
