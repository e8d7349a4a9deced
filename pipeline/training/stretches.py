"""Stretches of steps: of millions of steps only those are kept in which the number goes up and nothing else happens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from aftershock.pipeline.attempts import ASSUMED, US
from aftershock.pipeline.step_files import StepFile
from aftershock.pipeline.training.staged import Staged

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Stretch(NamedTuple):
    """Steps in a row. ``first``, ``last``: step numbers, None where none is printed; ``printed``: how many lines.

    interval_s: usual time between two prints. step_time_s: usual time of a step as printed. ranks: who printed them.
    """

    begin: int
    end: int
    first: int | None
    last: int | None
    first_time: int | None
    last_time: int | None
    printed: int
    interval_s: float | None = None
    step_time_s: float | None = None
    total: int | None = None
    ranks: frozenset[int] = frozenset()
    assumed: bool = False


_STEP_COLUMNS: Final = (
    "source",
    "byte_offset",
    "step",
    "time",
    "step_time_s",
    "total_steps",
    "rank",
    "local_rank",
    "time_basis",
)


def read_stretches(staged: Staged, cuts: Mapping[str, Ints]) -> Iterator[tuple[str, Stretch]]:
    """The stretches of all sources, part by part. ``cuts``: by source, where something happened between steps."""
    for path in staged.parts("training_steps"):
        batch = _one_batch(staged.written(path, _STEP_COLUMNS))
        coded = batch.column("source").dictionary_encode()
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        # Rows of a part are in the order of source and offset.
        borders = np.flatnonzero(np.diff(codes, prepend=-2, append=-2))
        for begin, end in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
            if codes[begin] < 0:
                continue
            source = coded.dictionary[int(codes[begin])].as_py()
            rows = Rows.of(batch.slice(begin, end - begin))
            for stretch in rows.stretches(cuts.get(source, np.zeros(0, np.int64))):
                yield source, stretch
    for file in staged.step_files():
        for stretch in streamed_stretches(file, cuts.get(file.source, np.zeros(0, np.int64))):
            yield file.source, stretch


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    found = table.combine_chunks().to_batches()
    return found[0] if found else pa.RecordBatch.from_pylist([], schema=table.schema)


def _numbers(column: pa.Array) -> Floats:
    """A column of numbers with NaN for nulls; step numbers and offsets are far below 2**53."""
    values: Floats = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return values


@dataclass(frozen=True)
class Rows:
    """The steps of one source in one part, as arrays."""

    offsets: Ints
    steps: Floats
    times: Floats  # microseconds since the first of them
    base: int
    step_times: Floats
    totals: Floats
    ranks: Floats
    assumed: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, batch: pa.RecordBatch, base: int | None = None) -> Rows:
        """From a batch with the columns that are read of a part. ``base``: what times count from."""
        micros = batch.column("time").cast(pa.int64())
        base = int(pc.min(micros).as_py() or 0) if base is None else base
        ranks = pc.coalesce(batch.column("rank"), batch.column("local_rank"))
        basis = batch.column("time_basis")
        words = basis.dictionary.to_pylist()
        number = words.index(ASSUMED) if ASSUMED in words else -1
        assumed = pc.equal(basis.indices.fill_null(-2), number)
        return cls(
            batch.column("byte_offset").fill_null(0).to_numpy(zero_copy_only=False),
            _numbers(batch.column("step")),
            _numbers(pc.subtract(micros, base)),
            base,
            _numbers(batch.column("step_time_s")),
            _numbers(batch.column("total_steps")),
            _numbers(ranks),
            assumed.to_numpy(zero_copy_only=False),
        )

    def stretches(self, cuts: Ints) -> Iterator[Stretch]:
        """Cut where something happened, and where the number of the step goes back for good."""
        segments = np.searchsorted(cuts, self.offsets, side="right")
        numbered = np.isfinite(self.steps)
        for chosen in (np.flatnonzero(numbered), np.flatnonzero(~numbered)):
            if not chosen.size:
                continue
            begins = np.flatnonzero(_starts(segments[chosen], self.steps[chosen]))
            for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), chosen.size], strict=True):
                yield self.stretch(chosen[begin:end])

    def chosen(self, rows: npt.NDArray[np.intp]) -> Rows:
        """Some of them."""
        return Rows(
            self.offsets[rows],
            self.steps[rows],
            self.times[rows],
            self.base,
            self.step_times[rows],
            self.totals[rows],
            self.ranks[rows],
            self.assumed[rows],
        )

    def then(self, other: Rows) -> Rows:
        """These and those behind them, which count times from the same base."""
        return Rows(
            np.concatenate([self.offsets, other.offsets]),
            np.concatenate([self.steps, other.steps]),
            np.concatenate([self.times, other.times]),
            self.base,
            np.concatenate([self.step_times, other.step_times]),
            np.concatenate([self.totals, other.totals]),
            np.concatenate([self.ranks, other.ranks]),
            np.concatenate([self.assumed, other.assumed]),
        )

    def stretch(self, rows: npt.NDArray[np.intp]) -> Stretch:
        """Rows that follow each other, in short."""
        steps, times = self.steps[rows], self.times[rows]
        timed = times[np.isfinite(times)]
        apart = np.diff(timed)
        apart = apart[apart > 0]
        total = self.totals[rows[-1]]
        ranks = self.ranks[rows]
        return Stretch(
            begin=int(self.offsets[rows[0]]),
            end=int(self.offsets[rows[-1]]),
            first=_whole(steps[0]),
            last=_whole(steps.max()),
            first_time=self.base + int(timed[0]) if timed.size else None,
            last_time=self.base + int(timed[-1]) if timed.size else None,
            printed=int(rows.size),
            interval_s=float(np.median(apart)) / US if apart.size else None,
            step_time_s=_median(self.step_times[rows]),
            total=_whole(total),
            ranks=frozenset(np.unique(ranks[np.isfinite(ranks)]).astype(int).tolist()),
            assumed=bool(self.assumed[rows].any()),
        )


def _whole(value: Any) -> int | None:
    return int(value) if np.isfinite(value) else None


def _median(values: Floats) -> float | None:
    known = values[np.isfinite(values) & (values > 0)]
    return float(np.median(known)) if known.size else None


def _goes_back(steps: Floats) -> npt.NDArray[np.bool_]:
    """Where the number goes back and goes on from there. One late print of another rank is no restart."""
    found = np.zeros(steps.size, np.bool_)
    if steps.size < 2:
        return found
    apart = np.diff(steps)
    forward = apart[apart > 0]
    usual = float(np.median(forward)) if forward.size else 1.0
    drop = -apart
    after = np.append(steps[2:], np.nan)
    goes_on = (after > steps[1:]) & (after <= steps[:-1])
    alone = np.isnan(after) & (drop > 2 * usual)
    # Far back, and not at once up to where it was.
    far = (drop > 3 * usual) & ~(after > steps[:-1])
    found[1:] = (drop > 0) & (goes_on | alone | far)
    return found


def _starts(segments: npt.NDArray[np.intp], steps: Floats) -> npt.NDArray[np.bool_]:
    other_segment: npt.NDArray[np.bool_] = np.diff(segments, prepend=-1) != 0
    return other_segment | _goes_back(steps)


# Rows of a file that are looked at together. The medians of a longer stretch are those of its pieces.
_TOGETHER: Final = 1 << 18


def streamed_stretches(file: StepFile, cuts: Ints) -> Iterator[Stretch]:
    """The stretches of a source with many steps, of which no more than a piece is in memory."""
    streams = _Stream(cuts, numbered=True), _Stream(cuts, numbered=False)
    base: int | None = None
    for batch in _pieces(file):
        rows = Rows.of(batch, base)
        base = rows.base
        for stream in streams:
            yield from stream.take(rows)
    for stream in streams:
        yield from stream.rest()


def _pieces(file: StepFile) -> Iterator[pa.RecordBatch]:
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in file.batches(_STEP_COLUMNS):
        begin = 0
        while begin < batch.num_rows:
            part = batch.slice(begin, _TOGETHER - count)
            held.append(part)
            begin, count = begin + part.num_rows, count + part.num_rows
            if count == _TOGETHER:
                yield _with_all_columns(held)
                held, count = [], 0
    if held:
        yield _with_all_columns(held)


def _with_all_columns(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    batch = _one_batch(pa.Table.from_batches(batches))
    columns = {name: batch.column(name) for name in batch.schema.names}
    missing = [name for name in _STEP_COLUMNS if name not in columns and name != "source"]
    columns |= {name: pa.nulls(batch.num_rows, pa.int64()) for name in missing}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


class _Stream:
    """Cuts rows that come piece by piece into stretches: those with a number of the step, or those without."""

    def __init__(self, cuts: Ints, *, numbered: bool) -> None:
        self._cuts = cuts
        self._numbered = numbered
        # The last two rows: one for what goes before the next, and one whose turn it is when it is known what follows.
        self._held: Rows | None = None
        self._taken = 0
        self._open: list[Stretch] = []

    def take(self, rows: Rows) -> Iterator[Stretch]:
        """Add rows; give the stretches that have come to their end."""
        own = rows.chosen(np.flatnonzero(np.isfinite(rows.steps) == self._numbered))
        whole = own if self._held is None else self._held.then(own)
        yield from self._cut(whole, whole.offsets.size - 1)
        last = np.arange(max(0, whole.offsets.size - 2), whole.offsets.size)
        self._taken = max(0, last.size - 1)
        self._held = whole.chosen(last)

    def rest(self) -> Iterator[Stretch]:
        """Give the last stretch."""
        if self._held is not None:
            yield from self._cut(self._held, self._held.offsets.size)
        if self._open:
            yield _joined(self._open)

    def _cut(self, rows: Rows, end: int) -> Iterator[Stretch]:
        if end <= self._taken:
            return
        starts = _starts(np.searchsorted(self._cuts, rows.offsets, side="right"), rows.steps)
        begins = [at for at in np.flatnonzero(starts).tolist() if self._taken <= at < end]
        first = begins[0] if begins else end
        if first > self._taken:
            self._open.append(rows.stretch(np.arange(self._taken, first)))
        for begin, stop in pairwise([*begins, end]):
            if self._open:
                yield _joined(self._open)
            self._open = [rows.stretch(np.arange(begin, stop))]


def _joined(parts: list[Stretch]) -> Stretch:
    """Parts of one stretch as one."""
    if len(parts) == 1:
        return parts[0]
    lasts = [part.last for part in parts if part.last is not None]
    return Stretch(
        begin=parts[0].begin,
        end=parts[-1].end,
        first=parts[0].first,
        last=max(lasts, default=None),
        first_time=next((part.first_time for part in parts if part.first_time is not None), None),
        last_time=next((part.last_time for part in reversed(parts) if part.last_time is not None), None),
        printed=sum(part.printed for part in parts),
        interval_s=_usual([(part.interval_s, part.printed) for part in parts]),
        step_time_s=_usual([(part.step_time_s, part.printed) for part in parts]),
        total=parts[-1].total,
        ranks=frozenset().union(*(part.ranks for part in parts)),
        assumed=any(part.assumed for part in parts),
    )


def _usual(medians: list[tuple[float | None, int]]) -> float | None:
    """The median of medians, each counted as often as it stands for rows."""
    known = sorted((value, weight) for value, weight in medians if value is not None)
    passed, total = 0, sum(weight for _, weight in known)
    for value, weight in known:
        passed += weight
        if 2 * passed >= total:
            return value
    return None
