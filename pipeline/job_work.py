"""What all sources said of the jobs of a partition, brought together. No Beam here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from aftershock.parsers.transit import lean_batch, origin_of, rows_of, table_name
from aftershock.pipeline.attempts import grouped
from aftershock.pipeline.exclusion_rules import ExclusionRules
from aftershock.pipeline.exclusions import soft_exclusions
from aftershock.pipeline.keys import DONE, partitioned, partitioned_batches
from aftershock.pipeline.linkable import linking_columns, marked_planned
from aftershock.pipeline.lone_sessions import lone_sessions, split_lone
from aftershock.pipeline.meeting import GATHERED, placements_in, together
from aftershock.pipeline.occurrences import give_ids, merge_occurrences
from aftershock.pipeline.sessions import BuiltSessions, SessionRules, build_sessions
from aftershock.pipeline.shards import as_shards
from aftershock.pipeline.waiting import opened, waiting
from aftershock.pipeline.window import Window
from aftershock.pipeline.work import Tagged, finished, rows_in
from aftershock.schemas.changes import Change
from aftershock.schemas.events import EventRow, SchedulerEvent
from aftershock.schemas.sessions import Session

# The output with what links sessions, by user.
LINEAGES: Final = "lineages"


def build_partition(
    keyed: tuple[int, Iterable[pa.RecordBatch]],
    rules: SessionRules,
    exclusions: ExclusionRules,
    partitions: int,
    window: Window,
    aside: str,
) -> Iterator[Tagged]:
    """Sessions and their scheduler events, what links sessions, and placements."""
    batches = [opened(batch) for batch in keyed[1]]
    changes = [batch for batch in batches if table_name(batch) == Change.table]
    split = split_lone([batch for batch in batches if table_name(batch) != Change.table])
    built = _built(split.others, rules)
    give_ids(list[EventRow](built.events))
    sessions = [lone_sessions(batch, rules) for batch in split.lone]
    sessions += [lean_batch(built.sessions, Session.table)] if built.sessions else []
    if changes:
        sessions = marked_planned(sessions, rows_in(changes))
    for _, batch in waiting(as_shards(map(window.kept_sessions, sessions)), aside):
        yield Tagged(DONE, batch)
    for batch in finished(window.kept(built.events)):
        yield Tagged(DONE, batch)
    placements = (part for batch in sessions if (part := placements_in(batch)) is not None)
    for part in waiting(placements, aside):
        yield Tagged(GATHERED, part)
    for part in together(soft_exclusions(built.events, exclusions)):
        yield Tagged(GATHERED, part)
    users = {session.session_id: session.user for session in built.sessions}
    requeues = [event for event in built.events if event.kind == "requeued"]
    for part in partitioned(requeues, lambda event: users.get(event.session_id) or "", partitions):
        yield Tagged(LINEAGES, part)
    linkable = map(linking_columns, sessions)
    for part in waiting(partitioned_batches(linkable, lambda batch: batch.column("user"), partitions), aside):
        yield Tagged(LINEAGES, part)


def _built(batches: Iterable[pa.RecordBatch], rules: SessionRules) -> BuiltSessions:
    """The sessions of jobs with several records or with log lines."""
    found = BuiltSessions([], [])
    records: list[tuple[str, Any]] = [(origin_of(batch), row) for batch in batches for row in rows_of(batch)]
    formats = {id(row): origin for origin, row in records if origin}
    for group in grouped(records, lambda record: record[1].raw_job_id or record[1].job_id).values():
        accounting = [(origin, row) for origin, row in group if isinstance(row, Session)]
        said = merge_occurrences([row for _, row in group if isinstance(row, SchedulerEvent)], -1)
        lines = [row for row in said if isinstance(row, SchedulerEvent)]
        built = build_sessions(accounting, lines, rules, formats)
        found.sessions.extend(built.sessions)
        found.events.extend(built.events)
    return found
