"""What one source says of its run, in short: events that matter, stretches of steps, and checkpoints.

Steps may be millions: of them only stretches are kept, in which the number goes up and nothing else happens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from aftershock.pipeline.attempts import ASSUMED, US
from aftershock.pipeline.training.staged import Staged
from aftershock.schemas.batches import column_values

# Events with which a run of workers begins.
BEGINNINGS: Final = frozenset({"init_start", "start", "resume", "rendezvous", "load_missing", "load_begin", "load_end"})
# Events behind which the count of steps may begin anew.
_TELLING: Final = BEGINNINGS | {"restart", "exit", "error"}
# With these words Megatron-LM begins, in an event that otherwise only tells the time.
_BEGINS: Final = "[after megatron is initialized]"
# The progress file of Megatron-LM tells of many jobs in one file; its lines are known by these words.
PROGRESS_WORDS: Final = "\t# GPUs: "

_EVENT_COLUMNS: Final = (
    "byte_offset",
    "kind",
    "time",
    "time_error_s",
    "time_basis",
    "step",
    "rank",
    "local_rank",
    "ranks",
    "host",
    "error_class",
    "error_role",
    "error",
    "message",
    "event_id",
)

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Said(NamedTuple):
    """One event of a log. Times are microseconds UTC, errors seconds."""

    offset: int
    kind: str
    time: int | None = None
    error_s: float | None = None
    basis: str | None = None
    step: int | None = None
    rank: int | None = None
    local_rank: int | None = None
    ranks: list[int] | None = None
    host: str | None = None
    error_class: str | None = None
    role: str | None = None
    error: str | None = None
    message: str | None = None
    event_id: str | None = None

    @property
    def writer(self) -> tuple[str | None, int | None, int | None]:
        """Who said it, as far as it is known."""
        return self.host, self.rank, self.local_rank

    @property
    def who(self) -> set[int]:
        """The ranks that said it: global ones, or local ones where no others are printed."""
        own = self.rank if self.rank is not None else self.local_rank
        return {*(self.ranks or ()), *(() if own is None else (own,))}

    @property
    def begins(self) -> bool:
        """Whether a run of workers begins with it."""
        return self.kind in BEGINNINGS or (self.kind == "clock" and (self.message or "").startswith(_BEGINS))

    @property
    def is_success(self) -> bool:
        """Whether a run says that it has come to its end."""
        if self.kind != "exit" or self.error_class is not None or self.error is not None:
            return False
        return "SIG" not in (self.message or "")

    @property
    def is_failure(self) -> bool:
        """Whether a launcher says that workers have failed, rather than that they are told to end."""
        return self.kind == "exit" and self.error_class is not None and self.role not in ("teardown", "noise")


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


class Save(NamedTuple):
    """A checkpoint that a log tells of; ``kind`` is ``save`` or ``load``."""

    offset: int
    kind: str
    step: int | None
    path: str | None
    start: int | None
    end: int | None
    complete: bool | None


@dataclass
class Log:
    """One source of training output. ``format``: what it was recognised as."""

    source: str
    format: str | None = None
    said: list[Said] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)
    saves: list[Save] = field(default_factory=list)

    @property
    def is_progress(self) -> bool:
        """Whether it is a file of progress: a line for each start and save of many jobs, and nothing else."""
        return bool(self.said) and not self.stretches and all(PROGRESS_WORDS in (s.message or "") for s in self.said)


def read_logs(staged: Staged) -> dict[str, Log]:
    """All sources that have rows in a table of training output, in the order of their names."""
    logs: dict[str, Log] = {}

    def of(source: str) -> Log:
        return logs.setdefault(source, Log(source))

    for batch in staged.batches("training_events", ["source", *_EVENT_COLUMNS]):
        for source, said in _said(batch):
            of(source).said.append(said)
    for batch in staged.batches("checkpoints", ["source", "byte_offset", "kind", "step", "path", *_SPAN, "complete"]):
        sources, *columns = (column_values(column) for column in batch.columns)
        for source, *values in zip(sources, *columns, strict=True):
            if source is not None:
                of(source).saves.append(Save(*values))
    for log in logs.values():
        log.said.sort(key=lambda said: said.offset)
        log.saves.sort(key=lambda save: save.offset)
    cuts = {
        source: np.array([s.offset for s in log.said if s.kind in _TELLING], np.int64) for source, log in logs.items()
    }
    for source, stretch in read_stretches(staged, cuts):
        of(source).stretches.append(stretch)
    for log in logs.values():
        log.stretches.sort(key=lambda stretch: stretch.begin)
    for batch in staged.batches("sources", ["source", "format"]):
        for source, name in zip(*(column_values(column) for column in batch.columns), strict=True):
            if source in logs:
                logs[source].format = name
    return dict(sorted(logs.items()))


_SPAN: Final = ("start_time", "end_time")


def _said(batch: pa.RecordBatch) -> Iterator[tuple[str, Said]]:
    sources = column_values(batch.column("source"))
    columns = [column_values(batch.column(name)) for name in _EVENT_COLUMNS]
    for source, values in zip(sources, zip(*columns, strict=True), strict=True):
        if source is not None:
            yield source, Said(*values)


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
            rows = _Rows.of(batch.slice(begin, end - begin))
            for stretch in rows.stretches(cuts.get(source, np.zeros(0, np.int64))):
                yield source, stretch


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    found = table.combine_chunks().to_batches()
    return found[0] if found else pa.RecordBatch.from_pylist([], schema=table.schema)


def _numbers(column: pa.Array) -> Floats:
    """A column of numbers with NaN for nulls; step numbers and offsets are far below 2**53."""
    values: Floats = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return values


@dataclass(frozen=True)
class _Rows:
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
    def of(cls, batch: pa.RecordBatch) -> _Rows:
        """From a batch with the columns that are read of a part."""
        micros = batch.column("time").cast(pa.int64())
        base = int(pc.min(micros).as_py() or 0)
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
            starts = np.diff(segments[chosen], prepend=-1) != 0
            starts |= _goes_back(self.steps[chosen])
            begins = np.flatnonzero(starts)
            for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), chosen.size], strict=True):
                yield self._stretch(chosen[begin:end])

    def _stretch(self, rows: npt.NDArray[np.intp]) -> Stretch:
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
