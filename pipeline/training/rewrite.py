"""Parts written anew: the session of each row by its place in its source, and one row for copies in several files."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from aftershock.pipeline.step_files import StepFile
from aftershock.pipeline.training.staged import Staged, plain
from aftershock.schemas.tables import TABLES

Ints = npt.NDArray[np.int64]


class Range(NamedTuple):
    """From ``begin`` on, up to the next range, a source belongs to a session, and there to a run of workers."""

    begin: int
    session_id: str | None
    run: int  # a number for each run of workers of each session


@dataclass
class Places:
    """Which session the rows of each source belong to. ``shared``: runs of which several sources tell."""

    ranges: dict[str, list[Range]] = field(default_factory=dict)
    shared: set[int] = field(default_factory=set)

    def of(self, batch: pa.RecordBatch) -> tuple[pa.Array, Ints]:
        """For each row of a batch with ``source`` and ``byte_offset`` its session and its run (-1 for none)."""
        coded = batch.column("source").dictionary_encode()
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        offsets = batch.column("byte_offset").fill_null(0).to_numpy(zero_copy_only=False)
        sessions: list[str | None] = [None]
        chosen = np.zeros(len(codes), np.int64)
        runs = np.full(len(codes), -1, np.int64)
        order = np.argsort(codes, kind="stable")
        borders = np.searchsorted(codes[order], np.arange(len(coded.dictionary) + 1))
        for code, source in enumerate(coded.dictionary.to_pylist()):
            ranges = self.ranges.get(source)
            if not ranges:
                continue
            rows = order[borders[code] : borders[code + 1]]
            place = np.searchsorted([r.begin for r in ranges], offsets[rows], side="right") - 1
            known = place >= 0
            first = len(sessions)
            sessions += [r.session_id for r in ranges]
            chosen[rows[known]] = first + place[known]
            runs[rows[known]] = np.array([r.run for r in ranges], np.int64)[place[known]]
        return pa.array(sessions, pa.string()).take(pa.array(chosen)), runs

    def at(self, source: str, offsets: Ints) -> pa.Array:
        """The sessions of rows of one source, which are in the order of their offsets."""
        ranges = self.ranges.get(source) or [Range(0, None, -1)]
        place = np.searchsorted([r.begin for r in ranges], offsets, side="right") - 1
        sessions = pa.array([*(r.session_id for r in ranges), None], pa.string())
        if place.size and place[0] == place[-1]:
            return pa.repeat(sessions[int(place[0])], place.size)  # -1 is the last one, which is none
        return sessions.take(pa.array(np.where(place < 0, len(ranges), place)))

    def is_shared(self, source: str) -> bool:
        """Whether other sources tell of a run of this one, too."""
        return any(r.run in self.shared for r in self.ranges.get(source, ()))


def fill_sessions(staged: Staged, places: Places) -> None:
    """Write the session into events and steps, and steps of several files as one row."""
    for table in ("training_events", "checkpoints"):
        for path in staged.parts(table):
            batch = staged.read(table, path)
            sessions, runs = places.of(batch)
            batch = with_column(batch, "session_id", sessions)
            if table == "checkpoints":
                batch = _one_checkpoint_each(batch, runs, places.shared)
            staged.replace(table, path, batch)
    months = write_months(staged, places)
    for path in staged.parts(_STEPS):
        if path.name.split(".")[0] not in months:
            _fill_steps(staged, path, places)


_STEPS: Final = "training_steps"


def write_months(staged: Staged, places: Places) -> set[str]:
    """Write the parts of months in which a source has many steps, source by source. Returns those months."""
    by_month: dict[str, list[StepFile]] = defaultdict(list)
    for file in staged.step_files():
        by_month[file.month].append(file)
    for month, files in sorted(by_month.items()):
        few = next((path for path in staged.parts(_STEPS) if path.name.split(".")[0] == month), None)
        rows = None if few is None else staged.written(few, TABLES[_STEPS].column_names)
        names = [] if rows is None else rows.column("source").to_pylist()
        if any(places.is_shared(source) for source in {*names, *(file.source for file in files)}):
            _write_together(staged, month, files, rows, places)
        else:
            _write_one_by_one(staged, month, files, rows, places)
    return set(by_month)


def _write_one_by_one(
    staged: Staged, month: str, files: Sequence[StepFile], few: pa.Table | None, places: Places
) -> None:
    """Rows of a part are in the order of their sources: those of sources with few steps go between the files."""
    writer, place = staged.begin_part(_STEPS, month)
    begin, end = 0, 0 if few is None else few.num_rows
    names: list[str | None] = []
    if few is not None:
        few = with_sessions(few, places)
        names = few.column("source").to_pylist()
    for file in files:
        until = bisect.bisect_left(names, file.source, key=lambda name: name or "")
        if few is not None and until > begin:
            writer.write(few.slice(begin, until - begin))
            begin = until
        for batch in file.batches():
            writer.write(_typed(batch, file.source, places))
    if few is not None and end > begin:
        writer.write(few.slice(begin))
    staged.end_part(writer, place)


def _write_together(
    staged: Staged, month: str, files: Sequence[StepFile], few: pa.Table | None, places: Places
) -> None:
    """Where several files tell of one run its steps have to meet."""
    tables = [_typed(batch, file.source, places) for file in files for batch in file.batches()]
    tables += [] if few is None else [with_sessions(few, places)]
    batch = plain(pa.concat_tables(tables), _STEPS)
    _, runs = places.of(batch)
    writer, place = staged.begin_part(_STEPS, month)
    staged.end_part(writer, place)
    staged.replace(_STEPS, place, _one_row_each(batch, runs, places.shared))


def _typed(batch: pa.RecordBatch, source: str, places: Places) -> pa.Table:
    """Rows of a file with all columns as they are written."""
    there = set(batch.schema.names)
    columns = []
    schema = TABLES[_STEPS].written_schema
    for column in schema:
        if column.name == "source":
            columns.append(pa.repeat(pa.scalar(source), batch.num_rows))
        elif column.name == "session_id":
            columns.append(places.at(source, batch.column("byte_offset").to_numpy()))
        elif column.name in there:
            columns.append(batch.column(column.name))
        else:
            columns.append(pa.nulls(batch.num_rows, column.type))
    return pa.Table.from_arrays(columns, schema=schema)


def with_sessions(whole: pa.Table, places: Places) -> pa.Table:
    """A part as it is written with the sessions of its rows."""
    sessions, _ = places.of(plain(whole.select(["source", "byte_offset"]), _STEPS))
    at = whole.schema.get_field_index("session_id")
    return whole.set_column(at, whole.schema.field(at), sessions)


def _fill_steps(staged: Staged, path: Path, places: Places) -> None:
    """The same for a part of steps, of which there are many: most parts are put back with one column replaced."""
    whole = staged.written(path, TABLES[_STEPS].column_names)
    sessions, runs = places.of(plain(whole.select(["source", "byte_offset"]), _STEPS))
    if places.shared and np.isin(runs, np.array(sorted(places.shared), np.int64)).any():
        batch = with_column(plain(whole, _STEPS), "session_id", sessions)
        staged.replace(_STEPS, path, _one_row_each(batch, runs, places.shared))
    elif sessions.null_count < len(sessions):
        at = whole.schema.get_field_index("session_id")
        staged.rewrite(path, whole.set_column(at, whole.schema.field(at), sessions))


def with_column(batch: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    """The batch with one column replaced."""
    columns = [values if own == name else batch.column(own) for own in batch.schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _one_row_each(batch: pa.RecordBatch, runs: Ints, shared: set[int]) -> pa.RecordBatch:
    """Equal steps of one run in several files as one row: that of the first file with a loss, all copies counted."""
    if not shared:
        return batch
    known = batch.column("step").is_valid().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(np.isin(runs, np.array(sorted(shared), np.int64)) & known)
    if not rows.size:
        return batch
    picked = batch.take(pa.array(rows))
    steps = picked.column("step").to_numpy()
    bare = picked.column("loss").is_null().to_numpy(zero_copy_only=False)
    # Within one file a step that comes again was reached again, or told apart for another reason.
    again = _ordinals(runs[rows], picked.column("source"), steps)
    order = np.lexsort((rows, bare, again, steps, runs[rows]))
    key = np.stack([runs[rows][order], steps[order], again[order]])
    first = np.any(np.diff(key, axis=1, prepend=key[:, :1] - 1) != 0, axis=0)
    counts = picked.column("copies").fill_null(1).to_numpy(zero_copy_only=False)[order]
    starts = np.flatnonzero(first)
    copies = batch.column("copies").fill_null(1).to_numpy(zero_copy_only=False).copy()
    copies[rows[order[starts]]] = np.add.reduceat(counts, starts)
    keep = np.ones(batch.num_rows, np.bool_)
    keep[rows[order[~first]]] = False
    return with_column(batch, "copies", pa.array(copies, pa.int32())).filter(pa.array(keep))


def _ordinals(runs: Ints, sources: pa.Array, steps: Ints) -> Ints:
    """For each row how many of its step stand before it in its own file and run."""
    codes = sources.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    order = np.lexsort((np.arange(runs.size), steps, codes, runs))
    key = np.stack([runs[order], codes[order], steps[order]])
    first = np.any(np.diff(key, axis=1, prepend=key[:, :1] - 1) != 0, axis=0)
    at = np.arange(runs.size)
    since = np.maximum.accumulate(np.where(first, at, 0))
    ordinals = np.empty(runs.size, np.int64)
    ordinals[order] = at - since
    return ordinals


_TIMES: Final = ("start_time", "end_time")


def _one_checkpoint_each(batch: pa.RecordBatch, runs: Ints, shared: set[int]) -> pa.RecordBatch:
    """Equal saves and loads of one run in several files as one row: from the first begin to the last end."""
    if not shared:
        return batch
    rows = np.flatnonzero(np.isin(runs, np.array(sorted(shared), np.int64)))
    if not rows.size:
        return batch
    columns = {name: batch.column(name).to_pylist() for name in ("kind", "step", "path", "source", "complete")}
    micros = {name: batch.column(name).cast(pa.int64()).to_pylist() for name in _TIMES}
    firsts: dict[tuple[Any, ...], int] = {}
    keep = np.ones(batch.num_rows, np.bool_)
    for row in rows.tolist():
        key = runs[row], columns["kind"][row], columns["step"][row], columns["path"][row]
        first = firsts.setdefault(key, row)
        if first == row or columns["source"][first] == columns["source"][row] or columns["step"][row] is None:
            continue
        keep[row] = False
        for name, better in (("start_time", min), ("end_time", max)):
            known = [t for t in (micros[name][first], micros[name][row]) if t is not None]
            micros[name][first] = better(known) if known else None
        columns["complete"][first] = columns["complete"][first] or columns["complete"][row]
    for name in _TIMES:
        kind = batch.schema.field(name).type
        batch = with_column(batch, name, pa.array(micros[name], pa.int64()).cast(kind))
    batch = with_column(batch, "complete", pa.array(columns["complete"], pa.bool_()))
    return batch.filter(pa.array(keep))


def patched(batch: pa.RecordBatch, key: str, values: Mapping[str, Mapping[str, Any]]) -> pa.RecordBatch | None:
    """A batch with some values replaced: by key, column and value. None if no row of it has one of the keys."""
    wanted = pa.array(sorted(values), pa.string())
    place = pc.index_in(batch.column(key), value_set=wanted)
    rows = np.flatnonzero(place.is_valid().to_numpy(zero_copy_only=False))
    if not rows.size:
        return None
    names: Sequence[str] = sorted({name for row in values.values() for name in row})
    keys = batch.column(key).take(pa.array(rows)).to_pylist()
    for name in names:
        chosen = [n for n, one in enumerate(keys) if name in values[one]]
        if not chosen:
            continue
        mask = np.zeros(batch.num_rows, np.bool_)
        mask[rows[chosen]] = True
        kind = batch.schema.field(name).type
        given = pa.array(
            [values[keys[n]][name] for n in chosen], kind if not pa.types.is_timestamp(kind) else pa.int64()
        )
        picks = np.zeros(batch.num_rows, np.int64)
        picks[rows[chosen]] = np.arange(len(chosen))
        spread = given.cast(kind).take(pa.array(picks))
        batch = with_column(batch, name, pc.if_else(pa.array(mask), spread, batch.column(name)))
    return batch
