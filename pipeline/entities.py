"""Sessions, retries and exclusions in Beam: each a shuffle by partition around a pure function."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import pyarrow as pa

from aftershock.parsers.transit import origin_of, rows_of, table_name
from aftershock.pipeline.episodes import EpisodeRules, link_episodes
from aftershock.pipeline.exclusions import find_exclusions
from aftershock.pipeline.host_table import merge_hosts
from aftershock.pipeline.identity import identify, merge_gpus
from aftershock.pipeline.keys import DONE, partition_of, partitioned, partitioned_batches
from aftershock.pipeline.lone_sessions import lone_sessions, of_several_hosts, split_lone
from aftershock.pipeline.occurrences import check_names, give_ids, merge_occurrences
from aftershock.pipeline.quick_beam import beam
from aftershock.pipeline.retries import RetryRules, link_retries
from aftershock.pipeline.sessions import SessionRules, build_sessions
from aftershock.pipeline.teardown import mark_teardown, placements_of
from aftershock.pipeline.window import Window
from aftershock.schemas.columns import Row
from aftershock.schemas.events import EventRow, GpuError, HealthCheck, NodeEvent, SchedulerEvent
from aftershock.schemas.sessions import Session
from aftershock.schemas.topology import Gpu, Host

LINEAGES: Final = "lineages"
ERRORS: Final = "errors"
PLACEMENTS: Final = "placements"

T = TypeVar("T")


def _grouped(rows: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    groups: dict[Hashable, list[T]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return list(groups.values())


def _done(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Finished rows as one batch for each table."""
    for _, batch in partitioned(rows, lambda row: "", 1):
        yield batch


def _rows(batches: Iterable[pa.RecordBatch]) -> list[Any]:
    return [row for batch in batches for row in rows_of(batch)]


class MergeOccurrences(beam.PTransform):  # type: ignore[misc]
    """What hosts said, by host, to events that stand once, with ids and episodes; hosts, GPUs and exclusions."""

    def __init__(self, burst_gap: int, window: Window) -> None:
        super().__init__()
        self._burst_gap = burst_gap
        self._window = window

    def expand(self, keyed: Any) -> Any:
        """PCollection[Partition] to the outputs ``done`` (batches) and ``errors`` (Partition: under one key)."""
        merge = beam.FlatMap(_merge_partition, self._burst_gap, self._window)
        return keyed | "GroupHost" >> beam.GroupByKey() | "MergeOccurrence" >> merge.with_outputs(DONE, ERRORS)


def _merge_partition(keyed: tuple[int, Iterable[pa.RecordBatch]], burst_gap: int, window: Window) -> Iterator[Any]:
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
    exclusions = find_exclusions([row for row in merged if isinstance(row, SchedulerEvent)])
    others = [row for row in merged if not isinstance(row, GpuError)]
    for batch in _done([*window.kept(others), *window.kept(exclusions), *gpus, *hosts]):
        yield beam.pvalue.TaggedOutput(DONE, batch)
    for part in partitioned((row for row in merged if isinstance(row, GpuError)), _all_together, 1):
        yield beam.pvalue.TaggedOutput(ERRORS, part)


def _all_together(_row: Row) -> str:
    return ""


class FollowTeardown(beam.PTransform):  # type: ignore[misc]
    """GPU errors and placements to errors that know which of them only took down after a fault on another host.

    After folding both are few: they meet under one key.
    """

    def __init__(self, window: Window) -> None:
        super().__init__()
        self._window = window

    def expand(self, errors_and_placements: Any) -> Any:
        """Two PCollections of Partition to PCollection[RecordBatch]."""
        follow = beam.FlatMap(_follow_teardown, self._window).with_output_types(pa.RecordBatch)
        return (
            errors_and_placements
            | "ErrorsAndPlacements" >> beam.Flatten()
            | "GroupCluster" >> beam.GroupByKey()
            | "FollowFault" >> follow
        )


def _follow_teardown(keyed: tuple[int, Iterable[pa.RecordBatch]], window: Window) -> Iterator[pa.RecordBatch]:
    batches = list(keyed[1])
    if window.is_all and all(table_name(batch) == GpuError.table for batch in batches):
        yield from batches  # nobody worked together: there is nothing to follow
        return
    if not any(table_name(batch) == GpuError.table for batch in batches):
        return
    rows = _rows(batches)
    errors = [row for row in rows if isinstance(row, GpuError)]
    mark_teardown(errors, placements_of(row for row in rows if isinstance(row, Session)))
    yield from _done(window.kept(errors))


class BuildSessions(beam.PTransform):  # type: ignore[misc]
    """Job records by job to sessions and their scheduler events, to what links sessions, and to placements."""

    def __init__(self, rules: SessionRules, partitions: int, window: Window) -> None:
        super().__init__()
        self._rules = rules
        self._partitions = partitions
        self._window = window

    def expand(self, keyed: Any) -> Any:
        """PCollection[Partition] to the outputs ``done`` (batches), ``lineages`` and ``placements`` (Partition)."""
        build = beam.FlatMap(_build_partition, self._rules, self._partitions, self._window)
        return (
            keyed | "GroupJob" >> beam.GroupByKey() | "BuildSession" >> build.with_outputs(DONE, LINEAGES, PLACEMENTS)
        )


def _build_partition(
    keyed: tuple[int, Iterable[pa.RecordBatch]], rules: SessionRules, partitions: int, window: Window
) -> Iterator[Any]:
    sessions: list[Session] = []
    events: list[SchedulerEvent] = []
    split = split_lone(list(keyed[1]))
    lone = [lone_sessions(batch, rules) for batch in split.lone]
    records: list[tuple[str, Any]] = [(origin_of(batch), row) for batch in split.others for row in rows_of(batch)]
    for group in _grouped(records, lambda record: _job_of(record[1])):
        accounting = [(origin, row) for origin, row in group if isinstance(row, Session)]
        said = merge_occurrences([row for _, row in group if isinstance(row, SchedulerEvent)], -1)
        built = build_sessions(accounting, [row for row in said if isinstance(row, SchedulerEvent)], rules)
        sessions += built.sessions
        events += built.events
    give_ids(list[EventRow](events))
    for batch in [*_done([*window.kept(sessions), *window.kept(events)]), *map(window.kept_sessions, lone)]:
        yield beam.pvalue.TaggedOutput(DONE, batch)
    together = [session for session in sessions if session.hosts and len(session.hosts) > 1]
    for part in partitioned(together, _all_together, 1):
        yield beam.pvalue.TaggedOutput(PLACEMENTS, part)
    for batch in lone:
        yield beam.pvalue.TaggedOutput(PLACEMENTS, (partition_of("", 1), of_several_hosts(batch)))
    users = {session.session_id: session.user for session in sessions}
    requeues = [event for event in events if event.kind == "requeued"]
    linked: list[Any] = [*sessions, *requeues]
    for part in partitioned(linked, lambda row: _lineage(row, users), partitions):
        yield beam.pvalue.TaggedOutput(LINEAGES, part)
    for part in partitioned_batches(lone, lambda batch: batch.column("user"), partitions):
        yield beam.pvalue.TaggedOutput(LINEAGES, part)


def _job_of(row: Session | SchedulerEvent) -> str | None:
    return row.raw_job_id or row.job_id


def _lineage(row: Session | SchedulerEvent, users: dict[str | None, str | None]) -> str:
    """The owner of a session: sessions of two users are never one chain."""
    user = row.user if isinstance(row, Session) else users.get(row.session_id)
    return user or ""


class LinkRetries(beam.PTransform):  # type: ignore[misc]
    """Sessions by lineage to retries, chains and the exclusions that follow from them."""

    def __init__(self, rules: RetryRules, window: Window) -> None:
        super().__init__()
        self._rules = rules
        self._window = window

    def expand(self, keyed: Any) -> Any:
        """PCollection[Partition] to PCollection[RecordBatch]."""
        link = beam.FlatMap(_link_partition, self._rules, self._window)
        return keyed | "GroupLineage" >> beam.GroupByKey() | "LinkRetry" >> link.with_output_types(pa.RecordBatch)


def _link_partition(
    keyed: tuple[int, Iterable[pa.RecordBatch]], rules: RetryRules, window: Window
) -> Iterator[pa.RecordBatch]:
    rows = _rows(keyed[1])
    sessions: Sequence[Session] = [row for row in rows if isinstance(row, Session)]
    requeues: Sequence[SchedulerEvent] = [row for row in rows if isinstance(row, SchedulerEvent)]
    linked = link_retries(sessions, requeues, rules)
    retries = window.retries(linked.retries, sessions)
    yield from _done([*retries, *window.kept(linked.chains), *window.kept(linked.exclusions)])
