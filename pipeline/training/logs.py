"""What one source says of its run, in short: events that matter, stretches of steps, and checkpoints.

Steps may be millions: of them only stretches are kept, in which the number goes up and nothing else happens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from aftershock.pipeline.training.staged import Staged
from aftershock.pipeline.training.stretches import Stretch, read_stretches
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
