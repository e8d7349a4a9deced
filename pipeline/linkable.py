"""What links are made of, column by column: sessions on their way to their lineages, without what nothing can link.

Most sessions follow no failure, and are one chain with nothing: they are only counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aftershock.parsers.transit import lean_batch, rows_of
from aftershock.pipeline.attempts import ASSUMED, US
from aftershock.pipeline.changes import MOST_SLACK_S, ChangeRules, mark_planned
from aftershock.pipeline.links import dependencies_in
from aftershock.pipeline.near_failures import Bools, Near, near_failures
from aftershock.pipeline.retry_rules import RetryRules
from aftershock.schemas.batches import column_values
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
    """Sessions of which anything may be linked or excluded. ``placed``, ``first``, ``last``: how many of all sessions
    got hosts, and the time that they cover. ``names``: how many names the jobs of each folder have, by lineage."""

    batches: list[pa.RecordBatch]
    placed: int
    first: int | None
    last: int | None
    names: dict[Hashable, dict[str, int]]


def may_link(batches: Sequence[pa.RecordBatch], requeues: Iterable[SchedulerEvent], rules: RetryRules) -> Linkable:
    """Leave out sessions that are near no failure of the same work, of jobs that were placed once, and left no host
    out."""
    if not batches:
        return Linkable([], 0, None, None, {})
    table = pa.Table.from_batches([batch.replace_schema_metadata(None) for batch in batches])
    named = pa.array(sorted({event.session_id for event in requeues if event.session_id}), pa.string())
    near = near_failures(table, rules)
    kept = table.filter(pa.array(near.rows | _tells(table, named)))
    rows = [batch.replace_schema_metadata(batches[0].schema.metadata) for batch in kept.to_batches() if batch.num_rows]
    return Linkable(rows, sum(map(_placed, batches)), *_span(batches), _names(table, near))


def _tells(table: pa.Table, named: pa.Array) -> Bools:
    """Rows of which something follows by themselves."""
    jobs = pc.coalesce(table["raw_job_id"], table["job_id"]).combine_chunks()
    counted = pc.value_counts(jobs)
    several = counted.field("values").filter(pc.greater(counted.field("counts"), 1))
    marks = [
        pc.is_in(table["state"], value_set=pa.array(["REQUEUED"])),
        pc.not_equal(table["attempt"], 1),
        pc.is_null(table["attempt"]),
        pc.is_in(jobs, value_set=several),
        pc.is_valid(table["retry_of"]),
        pc.greater(pc.list_value_length(table["excluded_hosts"]), 0),
        pc.match_substring(table["command"], "after"),
        pc.is_in(table["session_id"], value_set=named),
    ]
    stated = pc.unique(table["retry_of"]).drop_null().to_pylist()
    stated += [name for line in pc.unique(table["command"]).to_pylist() for name in dependencies_in(line)]
    names = pa.array(sorted(set(stated)), pa.string())
    marks += [pc.is_in(table[column], value_set=names) for column in ("session_id", "raw_job_id", "job_id")]
    found = np.zeros(table.num_rows, np.bool_)
    for mark in marks:
        found |= np.asarray(pc.fill_null(mark, False).to_numpy(zero_copy_only=False)).astype(np.bool_)
    return found


def _names(table: pa.Table, near: Near) -> dict[Hashable, dict[str, int]]:
    """How many names each folder has, of lineages with any row that is near a failure."""
    columns = [table[name].filter(pa.array(near.rows)) for name in ("cluster", "scheduler", "user", "work_dir")]
    assumed = pc.equal(pc.fill_null(table["time_basis"].filter(pa.array(near.rows)), ""), ASSUMED)
    names: dict[Hashable, dict[str, int]] = defaultdict(dict)
    values = [column_values(column.combine_chunks()) for column in (*columns[:3], assumed, columns[3])]
    for *lineage, folder, count in zip(*values, near.names[near.rows].tolist(), strict=True):
        if folder:
            names[tuple(lineage)][folder] = count
    return names


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
