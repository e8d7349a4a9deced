"""Sessions, retries and exclusions in Beam: each a shuffle by partition around a pure function."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from aftershock.parsers.transit import lean_batch, origin_of, rows_of, table_name
from aftershock.pipeline.attempts import grouped
from aftershock.pipeline.episodes import EpisodeRules, link_episodes
from aftershock.pipeline.exclusion_evidence import is_fault, looks_at
from aftershock.pipeline.exclusion_rules import ExclusionRules
from aftershock.pipeline.exclusions import find_exclusions, soft_exclusions
from aftershock.pipeline.gather import GATHERED, placements_in, together
from aftershock.pipeline.host_table import merge_hosts
from aftershock.pipeline.identity import identify, merge_gpus
from aftershock.pipeline.keys import DONE, partitioned, partitioned_batches, typed_outputs
from aftershock.pipeline.linkable import linking_columns, marked_planned, may_link
from aftershock.pipeline.links import History
from aftershock.pipeline.lone_sessions import lone_sessions, split_lone
from aftershock.pipeline.occurrences import check_names, give_ids, merge_occurrences
from aftershock.pipeline.quick_beam import beam
from aftershock.pipeline.retries import RetryRules, link
from aftershock.pipeline.sensitivity import tallies
from aftershock.pipeline.sessions import BuiltSessions, SessionRules, build_sessions
from aftershock.pipeline.shared_work import SharedWork
from aftershock.pipeline.waiting import opened, waiting
from aftershock.pipeline.window import Window
from aftershock.pipeline.write import as_shards
from aftershock.schemas.changes import Change
from aftershock.schemas.columns import Row
from aftershock.schemas.events import EventRow, GpuError, HealthCheck, NodeEvent, SchedulerEvent
from aftershock.schemas.sessions import Session
from aftershock.schemas.topology import Gpu, Host

LINEAGES: Final = "lineages"


def _done(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Finished rows as one batch for each table."""
    for _, batch in partitioned(rows, lambda row: "", 1):
        yield batch


def _rows(batches: Iterable[pa.RecordBatch]) -> list[Any]:
    return [row for batch in batches for row in rows_of(batch)]


class MergeOccurrences(beam.PTransform):  # type: ignore[misc]
    """What hosts said, by host, to events that stand once, with ids and episodes; hosts, GPUs and exclusions."""

    def __init__(self, burst_gap: int, exclusions: ExclusionRules, window: Window) -> None:
        super().__init__()
        self._burst_gap = burst_gap
        self._exclusions = exclusions
        self._window = window

    def expand(self, keyed: Any) -> Any:
        """PCollection[Partition] to the outputs ``done`` (batches) and ``gathered`` (Partition: under one key)."""
        merge = beam.FlatMap(_merge_partition, self._burst_gap, self._exclusions, self._window)
        merged = merge.with_outputs(DONE, GATHERED)
        return typed_outputs(keyed | "GroupHost" >> beam.GroupByKey() | "MergeOccurrence" >> merged, DONE, GATHERED)


def _merge_partition(
    keyed: tuple[int, Iterable[pa.RecordBatch]], burst_gap: int, rules: ExclusionRules, window: Window
) -> Iterator[Any]:
    rows = _rows(keyed[1])
    events: list[EventRow] = [row for row in rows if isinstance(row, EventRow)]
    check_names(events)
    merged = merge_occurrences(events, burst_gap)
    said = [row for row in merged if isinstance(row, NodeEvent)]
    gpus = merge_gpus([row for row in rows if isinstance(row, Gpu)], said)
    hosts = merge_hosts([row for row in rows if isinstance(row, Host)], said)
    identify([row for row in merged if isinstance(row, (GpuError, HealthCheck))], gpus)
    give_ids(merged)
    link_episodes(merged, EpisodeRules(burst_gap=burst_gap))
    told = [row for row in merged if isinstance(row, SchedulerEvent)]
    exclusions = [*find_exclusions(told, rules), *soft_exclusions(told, rules)]
    others = [row for row in merged if not isinstance(row, GpuError)]
    for batch in _done([*window.kept(others), *gpus, *hosts]):
        yield beam.pvalue.TaggedOutput(DONE, batch)
    errors = [row for row in merged if isinstance(row, GpuError)]
    faults = [row for row in said if is_fault(row)]
    changes = [row for row in rows if isinstance(row, Change)]
    for part in together([*errors, *faults, *exclusions, *hosts, *looks_at(merged), *changes]):
        yield beam.pvalue.TaggedOutput(GATHERED, part)


class BuildSessions(beam.PTransform):  # type: ignore[misc]
    """Job records by job to sessions and their scheduler events, to what links sessions, and to placements.

    partitions: of lineages. aside: folder for batches that wait for the next step.
    """

    def __init__(
        self, rules: SessionRules, exclusions: ExclusionRules, partitions: int, window: Window, aside: str
    ) -> None:
        super().__init__()
        self._rest = rules, exclusions, partitions, window, aside

    def expand(self, keyed: Any) -> Any:
        """PCollection[Partition] to the outputs ``done`` (batches), ``lineages`` and ``gathered`` (Partition)."""
        build = beam.ParDo(SharedWork(_build_partition, *self._rest))
        built = build.with_outputs(DONE, LINEAGES, GATHERED)
        return typed_outputs(
            keyed | "GroupJob" >> beam.GroupByKey() | "BuildSession" >> built, DONE, LINEAGES, GATHERED
        )


def _build_partition(
    keyed: tuple[int, Iterable[pa.RecordBatch]],
    rules: SessionRules,
    exclusions: ExclusionRules,
    partitions: int,
    window: Window,
    aside: str,
) -> Iterator[Any]:
    batches = [opened(batch) for batch in keyed[1]]
    changes = [batch for batch in batches if table_name(batch) == Change.table]
    split = split_lone([batch for batch in batches if table_name(batch) != Change.table])
    built = _built(split.others, rules)
    give_ids(list[EventRow](built.events))
    sessions = [lone_sessions(batch, rules) for batch in split.lone]
    sessions += [lean_batch(built.sessions, Session.table)] if built.sessions else []
    if changes:
        sessions = marked_planned(sessions, _rows(changes))
    for _, batch in waiting(as_shards(map(window.kept_sessions, sessions)), aside):
        yield beam.pvalue.TaggedOutput(DONE, batch)
    for batch in _done(window.kept(built.events)):
        yield beam.pvalue.TaggedOutput(DONE, batch)
    placements = (part for batch in sessions if (part := placements_in(batch)) is not None)
    for part in waiting(placements, aside):
        yield beam.pvalue.TaggedOutput(GATHERED, part)
    for part in together(soft_exclusions(built.events, exclusions)):
        yield beam.pvalue.TaggedOutput(GATHERED, part)
    users = {session.session_id: session.user for session in built.sessions}
    requeues = [event for event in built.events if event.kind == "requeued"]
    for part in partitioned(requeues, lambda event: users.get(event.session_id) or "", partitions):
        yield beam.pvalue.TaggedOutput(LINEAGES, part)
    linkable = map(linking_columns, sessions)
    for part in waiting(partitioned_batches(linkable, lambda batch: batch.column("user"), partitions), aside):
        yield beam.pvalue.TaggedOutput(LINEAGES, part)


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


class LinkRetries(beam.PTransform):  # type: ignore[misc]
    """Sessions by lineage to retries, chains and the exclusions that follow from them, and to tallies of them."""

    def __init__(self, rules: RetryRules, window: Window) -> None:
        super().__init__()
        self._rules = rules
        self._window = window

    def expand(self, keyed: Any) -> Any:
        """PCollection[Partition] to the outputs ``done`` (batches) and ``gathered`` (Partition: under one key)."""
        link = beam.ParDo(SharedWork(_link_partition, self._rules, self._window))
        linked = link.with_outputs(DONE, GATHERED)
        return typed_outputs(keyed | "GroupLineage" >> beam.GroupByKey() | "LinkRetry" >> linked, DONE, GATHERED)


def _link_partition(keyed: tuple[int, Iterable[pa.RecordBatch]], rules: RetryRules, window: Window) -> Iterator[Any]:
    batches = [opened(batch) for batch in keyed[1]]
    told = [batch for batch in batches if table_name(batch) == SchedulerEvent.table]
    requeues = [row for row in _rows(told) if isinstance(row, SchedulerEvent)]
    some = may_link([batch for batch in batches if table_name(batch) == Session.table], requeues, rules)
    sessions = [row for row in _rows(some.batches) if isinstance(row, Session)]
    history = History(sessions, requeues, rules, some.names)
    linked = link(history)
    for batch in _done([*window.retries(linked.retries, sessions), *window.kept(linked.chains)]):
        yield beam.pvalue.TaggedOutput(DONE, batch)
    counted = tallies(history, some.placed, some.first, some.last)
    for part in together([*linked.exclusions, *counted]):
        yield beam.pvalue.TaggedOutput(GATHERED, part)
