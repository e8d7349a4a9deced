"""Where the few rows of a whole cluster meet: faults, placements, exclusions, hosts, and tallies of retries.

What follows from several of them is said here: teardown that follows a fault on another host, the hosts that a list of
allowed ones left out, what speaks for an exclusion, what was planned, and the numbers of all retries together. After
folding all of these are few, so that they meet under one key.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from aftershock.parsers.transit import rows_of, table_name
from aftershock.pipeline.attempts import US
from aftershock.pipeline.changes import mark_planned
from aftershock.pipeline.exclusion_evidence import Evidence
from aftershock.pipeline.exclusion_rules import ExclusionRules
from aftershock.pipeline.keys import Partition
from aftershock.pipeline.meeting import together
from aftershock.pipeline.outputs import typed
from aftershock.pipeline.quick_beam import beam
from aftershock.pipeline.retry_rules import RetryRules
from aftershock.pipeline.roster import Roster, complements
from aftershock.pipeline.sensitivity import findings_of
from aftershock.pipeline.teardown import mark_teardown, placements_of
from aftershock.pipeline.waiting import opened
from aftershock.pipeline.window import Window
from aftershock.schemas.changes import Change
from aftershock.schemas.columns import TIMESTAMP, Row
from aftershock.schemas.events import GpuError, NodeEvent
from aftershock.schemas.incidents import Finding
from aftershock.schemas.sessions import Exclusion, Session
from aftershock.schemas.topology import Coverage, Host

# How far from a session a fault may lie that has to do with it: more than any rule about teardown asks for.
_NEAR: Final = 3600 * US


@dataclass(frozen=True)
class GatherRules:
    """``hosts``: the roster of the configuration."""

    hosts: tuple[str, ...] = ()
    chains: RetryRules = field(default_factory=RetryRules)
    exclusions: ExclusionRules = field(default_factory=ExclusionRules)


class GatherCluster(beam.PTransform):  # type: ignore[misc]
    """What was gathered by hosts, jobs and lineages to finished errors, exclusions and findings."""

    def __init__(self, rules: GatherRules, window: Window) -> None:
        super().__init__()
        self._rules = rules
        self._window = window

    def expand(self, gathered: Any) -> Any:
        """PCollections of Partition to PCollection[RecordBatch]."""
        gather = beam.FlatMap(_gather, self._rules, self._window).with_output_types(pa.RecordBatch)
        at_hand = typed(gathered | "Gathered" >> beam.Flatten(), Partition)
        return typed(at_hand | "GroupCluster" >> beam.GroupByKey() | "Gather" >> gather, pa.RecordBatch)


def _gather(
    keyed: tuple[int, Iterable[pa.RecordBatch]], rules: GatherRules, window: Window
) -> Iterator[pa.RecordBatch]:
    tables: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    for batch in keyed[1]:
        tables[table_name(batch)].append(batch)
    if window.is_all and tables.keys() <= {GpuError.table, Host.table, Coverage.table}:
        yield from tables[GpuError.table]  # nobody worked together, and nothing was left out
        return
    for _, batch in together(gather_rows(tables, rules, window)):
        yield batch


def gather_rows(
    tables: dict[str, list[pa.RecordBatch]], rules: GatherRules, window: Window | None = None
) -> Iterator[Row]:
    """The finished rows, from batches by table. The order of batches and of their rows does not matter."""
    window = window or Window()
    errors: list[Any] = _rows(tables, GpuError.table)
    sessions: list[pa.RecordBatch] = tables.get(Session.table, [])
    if errors:
        near = [row for batch in sessions for row in rows_of(_near(opened(batch), errors))]
        mark_teardown(errors, placements_of(row for row in near if isinstance(row, Session)))
        yield from window.kept(errors)
    exclusions = _exclusions(tables, rules, errors)
    yield from window.kept(exclusions)
    partials: list[Any] = _rows(tables, Finding.table)
    yield from findings_of(partials, rules.chains)


def _exclusions(
    tables: dict[str, list[pa.RecordBatch]], rules: GatherRules, errors: Sequence[GpuError]
) -> list[Exclusion]:
    exclusions: list[Any] = _rows(tables, Exclusion.table)
    choosy = [row for batch in tables.get(Session.table, []) for row in rows_of(_choosy(opened(batch)))]
    if choosy:
        hosts: list[Any] = _rows(tables, Host.table)
        seen = [] if hosts or rules.hosts else _seen(tables)
        roster = Roster(hosts, rules.hosts, seen, exclusions)
        exclusions += complements((row for row in choosy if isinstance(row, Session)), roster)
    if not exclusions:
        return []
    faults: list[Any] = _rows(tables, NodeEvent.table)
    looks: list[Any] = _rows(tables, Coverage.table)
    Evidence([*errors, *faults], looks, rules.exclusions).mark(exclusions)
    changes: list[Any] = _rows(tables, Change.table)
    if changes:
        mark_planned(changes, exclusions, [])
    return exclusions


def _rows(tables: dict[str, list[pa.RecordBatch]], name: str) -> list[Row]:
    return [row for batch in tables.get(name, []) for row in rows_of(opened(batch))]


def _near(batch: pa.RecordBatch, errors: Sequence[GpuError]) -> pa.RecordBatch:
    """The sessions that ran about the time of any of the errors."""
    times = [error.time for error in errors if error.time is not None]
    if not times:
        return batch.slice(0, 0)
    last = max(*times, max((error.last_time or 0 for error in errors), default=0))
    since, until = (pa.scalar(time, pa.int64()).cast(TIMESTAMP) for time in (min(times) - _NEAR, last + _NEAR))
    begun = pc.less_equal(batch.column("start_time").cast(TIMESTAMP), until)
    ended = pc.less(batch.column("end_time").cast(TIMESTAMP), since)
    return batch.filter(pc.and_(pc.fill_null(begun, False), pc.invert(pc.fill_null(ended, False))))


def _choosy(batch: pa.RecordBatch) -> pa.RecordBatch:
    named = pc.greater(pc.list_value_length(batch.column("designated_hosts")), 0)
    return batch.filter(pc.fill_null(named, False))


def _seen(tables: dict[str, list[pa.RecordBatch]]) -> Iterator[tuple[str | None, str | None, str]]:
    """Where hosts were seen at work."""
    for batch in tables.get(Session.table, []):
        for row in rows_of(opened(batch)):
            if isinstance(row, Session):
                for host in row.hosts or ():
                    yield row.cluster, row.partition, host
