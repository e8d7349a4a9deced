"""What links are made of, column by column: sessions on their way to their lineages, without what nothing can link.

Most owners of jobs lose no job to a fault in most of the time: what they ran is one chain with nothing, and is only
counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from aftershock.parsers.transit import lean_batch, rows_of
from aftershock.pipeline.attempts import US
from aftershock.pipeline.changes import MOST_SLACK_S, ChangeRules, mark_planned
from aftershock.pipeline.retry_rules import RetryRules
from aftershock.pipeline.same_work import FAILED_ENDS
from aftershock.schemas.changes import Change
from aftershock.schemas.columns import TIMESTAMP
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.sessions import Session

# What no link is made of.
_LEFT_BEHIND: Final = frozenset(
    {
        "partition",
        "exit_code",
        "exit_signal",
        "end_reason",
        "cancelled_by",
        "planned",
        "designated_hosts",
        "conflicts",
        "cause_class",
        "cause_event_id",
        "cause_confidence",
        "first_step",
        "last_saved_step",
        "gpu_seconds",
        "sources",
        "time_error_s",
    }
)


def linking_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The sessions of a batch with the columns that links are made of; the others are null."""
    columns = [
        pa.nulls(batch.num_rows, batch.schema.field(name).type) if name in _LEFT_BEHIND else batch.column(name)
        for name in batch.schema.names
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


@dataclass(frozen=True)
class Linkable:
    """Sessions of owners of whom anything may be linked or excluded. ``placed``, ``first``, ``last``: how many
    sessions of all owners got hosts, and the time that they cover."""

    batches: list[pa.RecordBatch]
    placed: int
    first: int | None
    last: int | None


def may_link(batches: Sequence[pa.RecordBatch], requeues: Iterable[SchedulerEvent], rules: RetryRules) -> Linkable:
    """Leave out the owners who had no failure, no requeue, no stated retry and no list of hosts to leave out."""
    ends = set(FAILED_ENDS) | {"REQUEUED"}
    ends |= {"CANCELLED"} if rules.factor_cancelled else set()
    ends |= {"COMPLETED"} if rules.factor_completed else set()
    telling = pa.array(sorted(ends))
    named = pa.array(sorted({event.session_id for event in requeues if event.session_id}), pa.string())
    marks = [_tells(batch, telling, named) for batch in batches]
    owners = [batch.column("user").filter(mark) for batch, mark in zip(batches, marks, strict=True)]
    wanted = pc.unique(pa.chunked_array([pc.fill_null(owner, "") for owner in owners], pa.string()))
    kept = []
    for batch in batches:
        found = batch.filter(pc.is_in(pc.fill_null(batch.column("user"), ""), value_set=wanted))
        if found.num_rows:
            kept.append(found)
    return Linkable(kept, sum(map(_placed, batches)), *_span(batches))


def _tells(batch: pa.RecordBatch, ends: pa.Array, named: pa.Array) -> pa.Array:
    marks = (
        pc.is_in(batch.column("state"), value_set=ends),
        pc.not_equal(batch.column("attempt"), 1),
        pc.is_valid(batch.column("retry_of")),
        pc.greater(pc.list_value_length(batch.column("excluded_hosts")), 0),
        pc.match_substring(batch.column("command"), "after"),
        pc.is_in(batch.column("session_id"), value_set=named),
    )
    found = pc.is_null(batch.column("attempt"))
    for mark in marks:
        found = pc.or_(found, pc.fill_null(mark, False))
    return found


def _placed(batch: pa.RecordBatch) -> int:
    started, numbered = pc.is_valid(batch.column("start_time")), pc.is_valid(batch.column("attempt"))
    return int(pc.sum(pc.or_(started, numbered)).as_py() or 0)


def _span(batches: Sequence[pa.RecordBatch]) -> tuple[int | None, int | None]:
    """The first start and the last end."""
    times = [
        time
        for batch in batches
        for name in ("start_time", "end_time")
        for time in pc.min_max(batch.column(name).cast(TIMESTAMP).cast(pa.int64())).as_py().values()
        if time is not None
    ]
    return min(times, default=None), max(times, default=None)


def marked_planned(batches: Iterable[pa.RecordBatch], changes: Sequence[object]) -> list[pa.RecordBatch]:
    """The sessions of batches, those marked that a change explains: only what ended about the time of one is looked
    at row by row."""
    told = [change for change in changes if isinstance(change, Change)]
    starts = [change.start_time for change in told if change.start_time is not None]
    marked = []
    slack = round((MOST_SLACK_S + ChangeRules().moment_s) * US)
    ends = [change.end_time if change.end_time is not None else change.start_time for change in told]
    last = max((end for end in ends if end is not None), default=0) + slack
    for batch in batches:
        if not starts:
            marked.append(batch)
            continue
        ended = batch.column("end_time").cast(TIMESTAMP).cast(pa.int64())
        near = pc.and_(pc.greater_equal(ended, min(starts) - slack), pc.less_equal(ended, last))
        near = pc.fill_null(near, False)
        rows = [row for row in rows_of(batch.filter(near)) if isinstance(row, Session)]
        if not rows:
            marked.append(batch)
            continue
        mark_planned(told, [], rows)
        marked.append(lean_batch(rows, Session.table))
        rest = batch.filter(pc.invert(near))
        marked += [rest] if rest.num_rows else []
    return marked
