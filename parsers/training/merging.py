"""Prints of one step that follow each other, many steps at once: which of them are copies, and what they say together.

This is what ``steps`` does row by row, where steps grow from one to the next: the first print of a step takes from the
others what it does not say itself. Here the prints of all steps are gone through side by side, first all second ones,
then all third ones. What becomes of a row is told by the rows from which its values come.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from aftershock.parsers.training.arrays import Bools, Ints, close, floats, given, numbers, with_column, words
from aftershock.parsers.training.steps import FIELDS, NEAR_BYTES, NEAR_US, ROUNDED, SAME, WEAK

# Prints of one step that are gone through like this.
MOST_PRINTS: Final = 4096

_CLOCK, _MARK = "clock", "mark"
_CLOCKS: Final = ("@kind", "@wall", "@boot", "@epoch", "@resolution", "@text")


@dataclass
class Merged:
    """Prints that were brought together. copies: rows that are copies of the print above them that is none.

    sources: by what is taken, for each row the row that it is taken from.
    """

    copies: Bools
    sources: dict[str, Ints] = field(default_factory=dict)

    def says_more(self) -> bool:
        """Whether any print takes something from its copies."""
        return any((rows != np.arange(rows.size)).any() for rows in self.sources.values())

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with what the prints say together; copies are still there."""
        for name, rows in self.sources.items():
            columns = _CLOCKS if name == _CLOCK else ("@mark",) if name == _MARK else (name,)
            for column in columns:
                if column in batch.schema.names and (rows != np.arange(rows.size)).any():
                    batch = with_column(batch, column, batch.column(column).take(pa.array(rows)))
        return batch


@dataclass
class _Prints:
    """The rows of a batch, as far as joining asks for them."""

    batch: pa.RecordBatch

    def __post_init__(self) -> None:
        batch = self.batch
        there = [name for name in FIELDS if name in batch.schema.names]
        self.there = {name: given(batch, name) for name in there}
        self.values = {name: floats(batch, name) for name in there if name in SAME}
        self.wall, self.timed = numbers(batch, "@wall", 0), given(batch, "@wall")
        names, kinds = words(batch, "@kind", "none")
        # What is since 1970 and what has a zone have one clock.
        self.clock = np.array([0 if name in ("epoch", "zoned") else 1 + number for number, name in enumerate(names)])[
            kinds
        ]
        self.offsets = numbers(batch, "@offset", 0)
        marks, places = words(batch, "@mark", "")
        parts = [mark.partition("@") for mark in marks]
        self.weak = np.array([kind == WEAK for kind, _, _ in parts])[places]
        writers = [writer for _, _, writer in parts]
        self.writer = np.array([1 + writers.index(writer) if writer else 0 for writer in writers])[places]


def merge(batch: pa.RecordBatch, again: Bools) -> Merged:
    """Bring prints together. again: rows of the step of the row above, that may be copies of its first print."""
    prints = _Prints(batch)
    own = np.arange(batch.num_rows)
    head = np.maximum.accumulate(np.where(again, 0, own))
    place = own - head
    sources = {name: own.copy() for name in (*prints.there, _CLOCK, _MARK)}
    copies = np.zeros(batch.num_rows, np.bool_)
    rows = np.flatnonzero(again & (place <= MOST_PRINTS))
    rows = rows[np.argsort(place[rows], kind="stable")]
    fresh = _fresh(head, prints.writer)
    for now in np.split(rows, np.flatnonzero(np.diff(place[rows])) + 1):
        # Behind a print that is no copy all are looked at one by one.
        after = now[copies[now - 1] | (now - 1 == head[now])]
        found = after[_are_copies(prints, sources, head[after], after, fresh)]
        copies[found] = True
        _take(prints, sources, head[found], found)
    return Merged(copies, sources)


def _fresh(head: Ints, writer: Ints) -> Bools:
    """Rows whose writer is known, and did not print the step before. head: the first print of the step of each row."""
    order = np.lexsort((writer, head))
    fresh = np.ones(head.size, np.bool_)
    fresh[order[1:]] = (np.diff(head[order]) != 0) | (np.diff(writer[order]) != 0)
    return fresh & (writer > 0)


def _are_copies(prints: _Prints, sources: dict[str, Ints], heads: Ints, rows: Ints, fresh: Bools) -> Bools:
    """Whether rows are copies of the first prints of their steps, as these are by now."""
    clocks = sources[_CLOCK][heads]
    both = prints.timed[clocks] & prints.timed[rows]
    apart = np.abs(prints.wall[rows] - prints.wall[clocks])
    comparable = prints.clock[clocks] == prints.clock[rows]
    near = np.where(both, (apart <= NEAR_US) & comparable, prints.offsets[rows] - prints.offsets[heads] <= NEAR_BYTES)
    agree = np.ones(rows.size, np.bool_)
    for name, values in prints.values.items():
        there, first = prints.there[name], sources[name][heads]
        agree &= ~(there[first] & there[rows]) | close(values[first], values[rows], ROUNDED)
    # Ranks may print values of their own.
    return np.asarray(near & (agree | fresh[rows]))


def _take(prints: _Prints, sources: dict[str, Ints], heads: Ints, rows: Ints) -> None:
    """Let first prints take what their copies say, and they do not; with a print of another kind whatever it says."""
    over = prints.weak[sources[_MARK][heads]] & ~prints.weak[rows]
    for name, there in prints.there.items():
        more = there[rows] & (over | ~there[sources[name][heads]])
        sources[name][heads[more]] = rows[more]
    untimed = ~prints.timed[sources[_CLOCK][heads]]
    sources[_CLOCK][heads[untimed]] = rows[untimed]
    sources[_MARK][heads[over]] = rows[over]
