"""The numbers of steps as series, one for each attempt of each source: what rose in them, and stayed for a while.

A step that is printed late, or once more, belongs to no series: numbers of steps only grow in one. Where an attempt
prints none at all, its prints are counted instead. A loss that is
missing, no number, or of a step that was skipped is left out, and a time that is not printed is taken from the clocks
of two lines, where these are exact enough.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from aftershock.pipeline.attempts import US
from aftershock.pipeline.step_files import UNKNOWN
from aftershock.pipeline.training.attempts import LogAttempt
from aftershock.pipeline.training.excursions import Finder
from aftershock.pipeline.training.number_rules import TrainingRules
from aftershock.pipeline.training.points import NEVER, Excursion, Floats, Ints, Limits, Points
from aftershock.pipeline.training.staged import Staged

LOSS, TIME = "loss", "time"

_COLUMNS: Final = (
    "source",
    "byte_offset",
    "step",
    "time",
    "time_basis",
    "time_error_s",
    "loss",
    "step_time_s",
    "samples",
    "tokens",
    "tflops_per_gpu",
    "skipped",
)
# Clocks of two lines tell how long a step took if they are wrong by no more than this share of it together.
_EXACT: Final = 0.02
# Times that were not printed with their lines.
_NOT_PRINTED: Final = frozenset({"neighbour", "none"})
# Larger numbers than this are none that a run could have.
_LARGEST: Final = 1e100
# Rows that are looked at together.
_TOGETHER: Final = 1 << 17


class Risen(NamedTuple):
    """An excursion of the ``loss`` or of the ``time`` of steps, in an attempt. ``basis``, ``error_s``: of its times.

    numbered: whether its steps are numbers of steps, rather than of prints.
    """

    what: str
    attempt: tuple[str, int]
    excursion: Excursion
    basis: str | None
    error_s: float | None
    numbered: bool = True


def limits_of(rules: TrainingRules) -> dict[str, Limits]:
    """How the two kinds of series are looked at."""
    need = max(1, min(rules.slow_window, round(rules.slow_share * rules.slow_window)))
    return {
        LOSS: Limits(
            block=rules.spike_usual,
            window=rules.spike_confirmed,
            need=rules.spike_confirmed,
            rise=rules.spike_rise,
            spreads=rules.spike_spreads,
            of_first=rules.spike_of_first,
            longest=rules.spike_longest,
            same_work=rules.same_work,
        ),
        TIME: Limits(
            block=rules.slow_usual,
            window=rules.slow_window,
            need=need,
            rise=rules.slow_rise,
            spreads=rules.slow_spreads,
            memory=rules.slow_memory,
            back=1.0,
            check=4 * rules.slow_usual,
            same_work=rules.same_work,
        ),
    }


def read_risen(
    staged: Staged, attempts: Mapping[str, Sequence[LogAttempt]], rules: TrainingRules
) -> dict[tuple[str, int], list[Risen]]:
    """What rose in the numbers of all sources, by attempt."""
    found: dict[tuple[str, int], list[Risen]] = defaultdict(list)
    for risen in _risen(staged, attempts, limits_of(rules)):
        found[risen.attempt].append(risen)
    return found


def _risen(
    staged: Staged, attempts: Mapping[str, Sequence[LogAttempt]], limits: Mapping[str, Limits]
) -> Iterator[Risen]:
    # Fewer steps than tell what is usual tell nothing.
    least = min(2 * each.block + each.need for each in limits.values())
    long = {source for source, own in attempts.items() if any(_printed(attempt) >= least for attempt in own)}
    files = defaultdict(list)
    for file in staged.step_files():
        if file.source in long:
            files[file.source].append(file)
    for source, own in sorted(files.items()):
        series = _Source(attempts[source], limits)
        for file in sorted(own, key=lambda file: (file.month == UNKNOWN, file.month)):
            for batch in file.batches(_COLUMNS):
                yield from series.take(batch)
        yield from series.rest()
    # A source that goes on in the next month is in the next part.
    going: dict[str, _Source] = {}
    for path in staged.parts("training_steps") if long - files.keys() else ():
        now: dict[str, _Source] = {}
        for source, batch in _of_part(staged.written(path, _COLUMNS), long - files.keys()):
            now[source] = going.pop(source) if source in going else _Source(attempts[source], limits)
            yield from now[source].take(batch)
        for series in going.values():
            yield from series.rest()
        going = now
    for series in going.values():
        yield from series.rest()


def _printed(attempt: LogAttempt) -> int:
    return sum(stretch.printed for stretch in attempt.stretches)


def _of_part(table: pa.Table, wanted: set[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of some sources in a part, which are in their order."""
    for batch in table.combine_chunks().to_batches():
        coded = batch.column("source").dictionary_encode()
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        borders = np.flatnonzero(np.diff(codes, prepend=-2, append=-2))
        for begin, end in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
            source = coded.dictionary[int(codes[begin])].as_py() if codes[begin] >= 0 else None
            if source in wanted:
                yield source, batch.slice(begin, end - begin)


class _Source:
    """Takes the steps of one source in order."""

    def __init__(self, attempts: Sequence[LogAttempt], limits: Mapping[str, Limits]) -> None:
        self._attempts = attempts
        self._begins = np.array([attempt.begin for attempt in attempts], np.int64)
        self._limits = limits
        self._number = 0
        self._series = _Series(attempts[0], limits)

    def take(self, batch: pa.RecordBatch) -> Iterator[Risen]:
        """Add steps; give what has come to its end."""
        for begin in range(0, batch.num_rows, _TOGETHER):
            rows = _Rows.of(batch.slice(begin, _TOGETHER))
            cuts = np.searchsorted(rows.offsets, self._begins, side="left").tolist()
            for number in range(self._number, len(self._attempts)):
                end = cuts[number + 1] if number + 1 < len(cuts) else rows.offsets.size
                if end <= cuts[number]:
                    continue
                if number != self._number:
                    yield from self._series.rest()
                    self._number, self._series = number, _Series(self._attempts[number], self._limits)
                yield from self._series.take(rows.cut(cuts[number], end))

    def rest(self) -> Iterator[Risen]:
        """Give what is left."""
        yield from self._series.rest()


class _Rows(NamedTuple):
    """Columns of some steps; ``bases``: words, and by row their numbers."""

    offsets: Ints
    steps: Floats
    times: Ints
    errors: Floats
    losses: Floats
    took: Floats
    samples: Floats
    tokens: Floats
    rates: Floats
    skipped: Floats
    bases: npt.NDArray[np.int32]
    words: Sequence[str | None]

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> _Rows:
        """From a batch; columns that are null throughout may be missing."""
        basis = batch.column("time_basis")
        return cls(
            batch.column("byte_offset").fill_null(0).to_numpy(zero_copy_only=False),
            _numbers(batch, "step"),
            pc.fill_null(batch.column("time").cast(pa.int64()), NEVER).to_numpy(zero_copy_only=False),
            _numbers(batch, "time_error_s"),
            _numbers(batch, "loss"),
            _numbers(batch, "step_time_s"),
            _numbers(batch, "samples"),
            _numbers(batch, "tokens"),
            _numbers(batch, "tflops_per_gpu"),
            _numbers(batch, "skipped"),
            basis.indices.fill_null(len(basis.dictionary)).to_numpy(zero_copy_only=False),
            [*basis.dictionary.to_pylist(), None],
        )

    def cut(self, begin: int, end: int) -> _Rows:
        """Some of them in a row."""
        return _Rows._make((*(array[begin:end] for array in self[:-1]), self.words))

    def chosen(self, rows: npt.NDArray[np.bool_]) -> _Rows:
        """Some of them."""
        return self if rows.all() else _Rows._make((*(array[rows] for array in self[:-1]), self.words))

    def points(self, values: Floats, kept: npt.NDArray[np.bool_], *, rates: bool) -> Points:
        """These as values of a series, but for those that are not kept."""
        own = self.chosen(kept)
        return Points(
            values if own is self else values[kept],
            own.steps.astype(np.int64),
            own.times,
            own.offsets,
            own.samples,
            own.tokens,
            own.rates if rates else np.broadcast_to(np.nan, own.steps.shape),
        )


def _numbers(batch: pa.RecordBatch, name: str) -> Floats:
    """A column with NaN for nulls; numbers of steps are far below 2**53."""
    if name not in batch.schema.names:
        return np.broadcast_to(np.nan, batch.num_rows)
    values: Floats = batch.column(name).cast(pa.float64()).to_numpy(zero_copy_only=False)
    return values


class _Series:
    """The steps of one attempt."""

    def __init__(self, attempt: LogAttempt, limits: Mapping[str, Limits]) -> None:
        self._attempt = attempt.name
        self._numbered = attempt.first_step is not None
        self._count = 0
        self._finders = {what: Finder(each) for what, each in limits.items()}
        self._last: tuple[float, int, float] = (-np.inf, NEVER, np.nan)  # step, time and error of the last row
        self._clock: tuple[str, float | None] | None = None

    def take(self, rows: _Rows) -> Iterator[Risen]:
        """Add steps."""
        rows = rows.chosen(self._forward(rows.steps)) if self._numbered else self._counted(rows)
        if not rows.steps.size:
            return
        if self._clock is None and (timed := np.flatnonzero(rows.times != NEVER)).size:
            at = int(timed[0])
            error = float(rows.errors[at])
            self._clock = rows.words[int(rows.bases[at])] or "none", error if np.isfinite(error) else None
        good = (np.abs(rows.losses) < _LARGEST) & ~(rows.skipped > 0)
        took = self._took(rows)
        self._last = float(rows.steps[-1]), int(rows.times[-1]), float(rows.errors[-1])
        yield from self._told(LOSS, self._finders[LOSS].take(rows.points(rows.losses, good, rates=False)))
        yield from self._told(TIME, self._finders[TIME].take(rows.points(took, np.abs(took) < _LARGEST, rates=True)))

    def rest(self) -> Iterator[Risen]:
        """Give what has not come to its end."""
        for what, finder in self._finders.items():
            yield from self._told(what, finder.rest())

    def _told(self, what: str, found: Iterator[Excursion]) -> Iterator[Risen]:
        basis, error = self._clock or (None, None)
        for excursion in found:
            yield Risen(what, self._attempt, excursion, basis, error, self._numbered)

    def _counted(self, rows: _Rows) -> _Rows:
        first, self._count = self._count + 1, self._count + rows.steps.size
        return rows._replace(steps=np.arange(first, self._count + 1, dtype=np.float64))

    def _forward(self, steps: Floats) -> npt.NDArray[np.bool_]:
        """Which steps are larger than all before."""
        known = np.nan_to_num(steps, nan=-np.inf)
        before = np.maximum.accumulate(np.concatenate([[self._last[0]], known]))[:-1]
        return known > before

    def _took(self, rows: _Rows) -> Floats:
        """How long each step took: as printed, or by the clocks of its line and of the one before."""
        printed = np.isfinite(rows.took)
        if printed.all():
            return rows.took
        steps = np.diff(rows.steps, prepend=self._last[0])
        times = np.concatenate([[self._last[1]], rows.times])
        known = (times[1:] != NEVER) & (times[:-1] != NEVER)
        lost = np.array([word is None or word in _NOT_PRINTED for word in rows.words], np.bool_)
        known &= ~lost[rows.bases]
        apart = np.where(known, np.diff(np.where(times == NEVER, 0, times)), 0) / US
        errors = np.concatenate([[self._last[2]], rows.errors])
        exact = errors[1:] + errors[:-1] <= _EXACT * apart
        by_clock = np.where(known & exact & (apart > 0) & np.isfinite(steps), apart / steps, np.nan)
        return np.where(printed, rows.took, by_clock)
