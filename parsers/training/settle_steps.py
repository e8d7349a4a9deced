"""Settling a source with many steps column by column: what :mod:`aftershock.parsers.settle` does row by row.

Steps are taken piece by piece, so that no more than a piece is in memory: joined, given their times, and handed on. The
events among them are rows as ever, and are judged by those steps that stand in for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from aftershock.parsers.blocks import Mark
from aftershock.parsers.clock import SECOND, Reading
from aftershock.parsers.fold import fold
from aftershock.parsers.formats import SECTION, Format, Found
from aftershock.parsers.neighbours import fill_checkpoints, fill_rows
from aftershock.parsers.resolve import HOUR, SourceClock
from aftershock.parsers.settle import Settled, SourceRules, describe_source, joined_rows, resolved_row
from aftershock.parsers.shifts import source_shifts
from aftershock.parsers.step_times import NOT_KNOWN, Neighbours, StepPiece
from aftershock.parsers.training.arrays import Bools, Ints, floats, given, numbers, words
from aftershock.parsers.training.settle import beginnings_of, settle_events
from aftershock.parsers.training.stand_ins import stand_ins
from aftershock.parsers.training.step_columns import Joined, Piece, join_pieces
from aftershock.schemas.columns import TIMESTAMP, Row
from aftershock.schemas.events import TIME_BASES

# The format of which steps and events are settled here.
TRAINING: Final = "training"

# Columns of the table that a settled piece has: what is null for all of them may stay away, and so does the source.
COLUMNS: Final = ("rank", "local_rank", "step", "total_steps", "loss", "grad_norm", "learning_rate", "step_time_s")
COLUMNS_BEHIND: Final = ("tflops_per_gpu", "samples", "tokens", "skipped", "nan", "copies")

Sink = Callable[[pa.RecordBatch], None]


@dataclass
class _Clocks:
    """What clocks the steps of a source have. first: the first that has one, and its offset."""

    kinds: set[str] = field(default_factory=set)
    first: tuple[int, Reading] | None = None

    @classmethod
    def of(cls, pieces: Sequence[Piece]) -> _Clocks:
        """A look at all pieces."""
        seen = cls()
        for piece in pieces:
            batch = piece.read()
            names, kinds = words(batch, "@kind", "none")
            seen.kinds |= {names[kind] for kind in np.unique(kinds).tolist()}
            timed = np.flatnonzero(given(batch, "@wall"))
            if seen.first is None and timed.size:
                at = int(timed[0])
                offset, wall, resolution = (
                    int(numbers(batch, name, 0)[at]) for name in ("@offset", "@wall", "@resolution")
                )
                seen.first = offset, Reading(names[int(kinds[at])], wall, resolution=resolution)  # type: ignore[arg-type]
        return seen


def can_be_columns(pieces: Sequence[Piece]) -> bool:
    """Whether the steps have clocks that can be resolved together: local ones, or absolute ones, or none at all."""
    kinds = _Clocks.of(pieces).kinds - {"none"}
    return kinds <= {"local"} or kinds <= {"epoch", "zoned"}


@dataclass
class _Steps:
    """The joined steps of a source, and how their clocks are read."""

    pieces: list[Joined]
    clock: SourceClock
    rules: SourceRules

    def times(self, batch: pa.RecordBatch) -> tuple[Ints, Any, Ints]:
        """Times (or ``NOT_KNOWN``), their errors in seconds (or NaN), and numbers of their bases."""
        names, kinds = words(batch, "@kind", "none")
        there, wall = given(batch, "@wall"), numbers(batch, "@wall", 0)
        zone = self.clock.zone_basis or "none"
        local = np.array([name == "local" for name in names], np.bool_)[kinds]
        lost = {"none"} if self.clock.zone_basis else {"none", "local"}
        known = there & np.array([name not in lost for name in names], np.bool_)[kinds]
        shift, twice = source_shifts(self.clock, numbers(batch, "@offset", 0), wall, local & known, self.rules.clock)
        errors = numbers(batch, "@resolution", 1) / SECOND + np.where(twice, HOUR / SECOND, 0.0)
        bases = np.array([_BASIS[zone if name == "local" else name] for name in names], np.int32)[kinds]
        return (
            np.where(known, wall - shift, NOT_KNOWN),
            np.where(known, errors, np.nan),
            np.where(known, bases, _BASIS["none"]).astype(np.int32),
        )

    def all_timed(self) -> bool:
        """Whether no step is without time."""
        return all((self.times(piece.read())[0] != NOT_KNOWN).all() for piece in self.pieces)

    def settled(self, around: Neighbours | None) -> Iterator[pa.RecordBatch]:
        """The steps with their times. ``around``: where they get them from if their lines have none."""
        for piece in self.pieces:
            batch = piece.read()
            times, errors, bases = self.times(batch)
            if around is not None:
                known = times != NOT_KNOWN
                times, found = around.fill(self._piece(batch, times, errors))
                errors = np.where(known, errors, found)
                bases = np.where(known | (times == NOT_KNOWN), bases, _BASIS[around.basis]).astype(np.int32)
            yield _settled(batch, times, errors, bases)

    def shown_to(self, around: Neighbours) -> None:
        """Let steps tell the times around them."""
        for show in (around.scan, around.look, around.lead):
            for piece in self.pieces:
                batch = piece.read()
                times, errors, _ = self.times(batch)
                show(self._piece(batch, times, errors))
            if show != around.scan:
                show(None)  # type: ignore[arg-type]

    def _piece(self, batch: pa.RecordBatch, times: Ints, errors: Any) -> StepPiece:
        assumed = self.clock.zone_basis == "assumed_zone" and bool(((times != NOT_KNOWN) & given(batch, "@wall")).any())
        return StepPiece(
            numbers(batch, "@offset", 0),
            times,
            np.nan_to_num(errors, nan=0.0),
            np.where(given(batch, "step"), numbers(batch, "step", 0), np.nan),
            floats(batch, "step_time_s"),
            assumed,
        )


_BASIS: Final = {name: number for number, name in enumerate(TIME_BASES)}
_BASES: Final = pa.array(TIME_BASES)


def _settled(batch: pa.RecordBatch, times: Ints, errors: Any, bases: Ints) -> pa.RecordBatch:
    known = times != NOT_KNOWN
    there = set(batch.schema.names)
    columns = {
        "time": pa.array(times, pa.int64(), mask=~known).cast(TIMESTAMP),
        "time_basis": pa.DictionaryArray.from_arrays(pa.array(bases), _BASES),
        "time_error_s": pa.array(errors, mask=~known),
        **{name: batch.column(name) for name in (*COLUMNS, *COLUMNS_BEHIND) if name in there},
        "byte_offset": batch.column("@offset"),
    }
    settled = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    offsets = numbers(batch, "@offset", 0)
    if (offsets[1:] > offsets[:-1]).all():
        return settled
    steps = np.where(given(batch, "step"), numbers(batch, "step", 0), np.iinfo(np.int64).max)
    return settled.take(pa.array(np.lexsort((steps, offsets))))


@dataclass(frozen=True)
class _LocalSteps:
    """Steps with a local clock, where other lines of their file may tell its zone; without the first of them."""

    pieces: Sequence[Piece]
    first: int

    def parts(self) -> Iterator[tuple[Ints, Ints]]:
        """Offsets and wall clocks."""
        for piece in self.pieces:
            batch = piece.read()
            names, kinds = words(batch, "@kind", "none")
            offsets = numbers(batch, "@offset", 0)
            local: Bools = np.array([name == "local" for name in names], np.bool_)[kinds] & (offsets != self.first)
            yield offsets[local], numbers(batch, "@wall", 0)[local]


def settle_steps(
    pieces: Sequence[Piece],
    found: Sequence[Found],
    marks: Sequence[Mark],
    rules: SourceRules,
    format_named: Callable[[str], Format | None],
    sink: Sink,
) -> Settled:
    """Bring the records of one source together, as :func:`.settle_source` does.

    pieces: its steps, in the order of their offsets; :func:`can_be_columns` is true of them. found: all other records.
    sink: takes the settled steps; the rows that are returned are the others.
    """
    items = sorted(found, key=lambda item: item.offset)
    if rules.burst_gap is not None:
        items = fold(items, rules.burst_gap)
    events = [item for item in items if item.format == TRAINING]
    joined = join_pieces(pieces, beginnings_of(events))
    few = stand_ins(joined, [item.offset for item in events])
    others = joined_rows([item for item in items if item.format != TRAINING], format_named)
    items = sorted([*settle_events(events, few), *others], key=lambda item: item.offset)
    clock = _clock_of(joined, items, marks, rules)
    rows = [resolved_row(item, clock, rules) for item in items]
    clocks = [(item.reading, item.last or item.reading) for item in items]
    steps = _Steps(joined, clock, rules)
    anchors = [(mark.offset, clock.resolve(mark.offset, mark.reading)) for mark in marks]
    around = None
    if rules.neighbours and not steps.all_timed():
        around = Neighbours(rows, anchors)
        steps.shown_to(around)
    elif rules.neighbours:
        near: list[Row] = [resolved_row(item, clock, rules) for item in few]
        fill_rows([*rows, *near], anchors)
    count = 0
    for batch in steps.settled(around):
        count += batch.num_rows
        if batch.num_rows:
            sink(batch)
    if around is not None:
        around.fill(None)
        fill_checkpoints(rows, around.spans)
    source = describe_source(rows, marks, clock, rules)
    source.events = len(rows) + count
    return Settled(rows, source, clocks)


def _clock_of(
    pieces: Sequence[Joined], items: Sequence[Found], marks: Sequence[Mark], rules: SourceRules
) -> SourceClock:
    readings = [(item.offset, item.reading) for item in items] + [(mark.offset, mark.reading) for mark in marks]
    first = _Clocks.of(pieces).first
    crowd = None
    if first is not None:
        readings.append(first)
        crowd = _LocalSteps(pieces, first[0])
    return SourceClock(readings, rules.clock, [m.offset for m in marks if m.envelope == SECTION], crowd)
