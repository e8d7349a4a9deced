"""Sessions, retries and exclusions in Beam: each a shuffle by partition around a pure function."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import pyarrow as pa

from aftershock.parsers.transit import origin_of, rows_of
from aftershock.pipeline.exclusions import find_exclusions
from aftershock.pipeline.keys import partitioned
from aftershock.pipeline.occurrences import check_names, give_ids, merge_occurrences
from aftershock.pipeline.quick_beam import beam
from aftershock.pipeline.retries import RetryRules, link_retries
from aftershock.pipeline.sessions import SessionRules, build_sessions
from aftershock.schemas.columns import Row
from aftershock.schemas.events import EventRow, SchedulerEvent
from aftershock.schemas.sessions import Session

DONE: Final = "done"
LINEAGES: Final = "lineages"

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
    """Events by host to events that stand once, with ids, and the exclusions of each host."""

    def __init__(self, burst_gap: int) -> None:
        super().__init__()
        self._burst_gap = burst_gap

    def expand(self, keyed: Any) -> Any:
        """PCollection[Partition] to PCollection[RecordBatch]."""
        return (
            keyed
            | "GroupHost" >> beam.GroupByKey()
            | "MergeOccurrence" >> beam.FlatMap(_merge_partition, self._burst_gap).with_output_types(pa.RecordBatch)
        )


def _merge_partition(keyed: tuple[int, Iterable[pa.RecordBatch]], burst_gap: int) -> Iterator[pa.RecordBatch]:
    rows: list[EventRow] = _rows(keyed[1])
    check_names(rows)
    merged = merge_occurrences(rows, burst_gap)
    give_ids(merged)
    exclusions = find_exclusions([row for row in merged if isinstance(row, SchedulerEvent)])
    yield from _done([*merged, *exclusions])


class BuildSessions(beam.PTransform):  # type: ignore[misc]
    """Job records by job to sessions and their scheduler events, and what links sessions, by lineage."""

    def __init__(self, rules: SessionRules, partitions: int) -> None:
        super().__init__()
        self._rules = rules
        self._partitions = partitions

    def expand(self, keyed: Any) -> Any:
        """PCollection[Partition] to the outputs ``done`` (batches) and ``lineages`` (Partition)."""
        return (
            keyed
            | "GroupJob" >> beam.GroupByKey()
            | "BuildSession"
            >> beam.FlatMap(_build_partition, self._rules, self._partitions).with_outputs(DONE, LINEAGES)
        )


def _build_partition(
    keyed: tuple[int, Iterable[pa.RecordBatch]], rules: SessionRules, partitions: int
) -> Iterator[Any]:
    sessions: list[Session] = []
    events: list[SchedulerEvent] = []
    records: list[tuple[str, Any]] = [(origin_of(batch), row) for batch in keyed[1] for row in rows_of(batch)]
    for group in _grouped(records, lambda record: _job_of(record[1])):
        accounting = [(origin, row) for origin, row in group if isinstance(row, Session)]
        said = merge_occurrences([row for _, row in group if isinstance(row, SchedulerEvent)], -1)
        built = build_sessions(accounting, [row for row in said if isinstance(row, SchedulerEvent)], rules)
        sessions += built.sessions
        events += built.events
    give_ids(list[EventRow](events))
    for batch in _done([*sessions, *events]):
        yield beam.pvalue.TaggedOutput(DONE, batch)
    users = {session.session_id: session.user for session in sessions}
    requeues = [event for event in events if event.kind == "requeued"]
    linked: list[Any] = [*sessions, *requeues]
    for part in partitioned(linked, lambda row: _lineage(row, users), partitions):
        yield beam.pvalue.TaggedOutput(LINEAGES, part)


def _job_of(row: Session | SchedulerEvent) -> str | None:
    return row.raw_job_id or row.job_id


def _lineage(row: Session | SchedulerEvent, users: dict[str | None, str | None]) -> str:
    """The owner of a session: sessions of two users are never one chain."""
    user = row.user if isinstance(row, Session) else users.get(row.session_id)
    return user or ""


class LinkRetries(beam.PTransform):  # type: ignore[misc]
    """Sessions by lineage to retries, chains and the exclusions that follow from them."""

    def __init__(self, rules: RetryRules) -> None:
        super().__init__()
        self._rules = rules

    def expand(self, keyed: Any) -> Any:
        """PCollection[Partition] to PCollection[RecordBatch]."""
        return (
            keyed
            | "GroupLineage" >> beam.GroupByKey()
            | "LinkRetry" >> beam.FlatMap(_link_partition, self._rules).with_output_types(pa.RecordBatch)
        )


def _link_partition(keyed: tuple[int, Iterable[pa.RecordBatch]], rules: RetryRules) -> Iterator[pa.RecordBatch]:
    rows = _rows(keyed[1])
    sessions: Sequence[Session] = [row for row in rows if isinstance(row, Session)]
    requeues: Sequence[SchedulerEvent] = [row for row in rows if isinstance(row, SchedulerEvent)]
    linked = link_retries(sessions, requeues, rules)
    yield from _done([*linked.retries, *linked.chains, *linked.exclusions])
