"""Settling sources in Beam: all batches of a source come together, resolved rows leave for their partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from aftershock.parsers.hosts import HostNames
from aftershock.parsers.registry import format_named
from aftershock.parsers.resolve import ClockRules
from aftershock.parsers.settle import Settled, SourceRules, settle_source
from aftershock.parsers.settle_sessions import are_alone, settle_sessions
from aftershock.parsers.transit import Unpacked, is_found, table_name, unpack
from aftershock.pipeline.config import Config
from aftershock.pipeline.keys import DONE, job_keys, partitioned, partitioned_batches
from aftershock.pipeline.outputs import typed_outputs
from aftershock.pipeline.quick_beam import beam
from aftershock.pipeline.step_files import StepWriter
from aftershock.pipeline.waiting import Opened, is_waiting, waiting
from aftershock.schemas.changes import Change
from aftershock.schemas.columns import Row
from aftershock.schemas.events import EventRow, SchedulerEvent
from aftershock.schemas.provenance import Reject, Source
from aftershock.schemas.sessions import Session
from aftershock.schemas.topology import Gpu, Host
from aftershock.schemas.training import TrainingStep

if TYPE_CHECKING:
    from aftershock.parsers.training.settle_steps import Sink

# Outputs: events by host, job records by job, rows that are done.
EVENTS: Final = "events"
JOBS: Final = "jobs"

# Steps of a source from which they are settled as columns, and written without meeting those of other sources.
MANY_STEPS: Final = 4096

# The format of training output.
TRAINING: Final = "training"

NO_ROWS: Final = "its format is known, and no rows are made of it"


@dataclass(frozen=True)
class SettleRules:
    """What a run knows about all its sources.

    timezone, year: of the command line, before the configuration's own. machine_zone: used where nothing else says
    which zone, and marked as assumed. staging: folder for the parts of a run, and for steps of sources that have many.
    aside: folder for batches that wait for the next step.
    """

    config: Config
    timezone: str | None = None
    year: int | None = None
    machine_zone: str = "UTC"
    burst_gap: int = 0
    partitions: int = 1
    job_partitions: int = 1
    staging: str = ""
    aside: str = ""

    def for_source(self, source: str, format_name: str | None) -> SourceRules:
        """The rules of one source: its own section of the configuration, then the command line, then the cluster."""
        config, section = self.config, self.config.source_for(source)
        zone = (section.timezone if section else None) or self.timezone or config.cluster.timezone
        year = (section.year if section else None) or self.year or config.cluster.year
        return SourceRules(
            source=source,
            format=format_name,
            host=section.host_of(source) if section else None,
            cluster=config.cluster.name,
            clock=ClockRules(
                zone or self.machine_zone, assumed=zone is None, year=year, nearby=format_name == TRAINING
            ),
            names=HostNames(config.aliases),
            burst_gap=self.burst_gap,
            neighbours=True,
        )


@dataclass(frozen=True)
class SettledBatches:
    """What one source gave: resolved rows, sessions that stayed in batches, and its rows of two other tables.

    ``described`` is complete when the batches of sessions have been taken.
    """

    rows: list[Row]
    sessions: Iterator[pa.RecordBatch]
    described: Source
    rejects: list[Reject]


def settle_batches(source: str, batches: Iterable[pa.RecordBatch], rules: SettleRules, sink: Sink) -> SettledBatches:
    """Bring the batches of one source together. ``sink``: takes the settled steps of a source that has many."""
    kept = list(batches)
    found = Opened(batch for batch in kept if is_waiting(batch) or is_found(batch))
    got = unpack(batch for batch in kept if not (is_waiting(batch) or is_found(batch)))
    own_rules = rules.for_source(source, got.format)
    own_format = format_named(got.format) if got.format else None
    if found and not got.marks and are_alone(found, own_format):
        described = Source(source=source, format=got.format)
        rows, sessions = list[Row](), settle_sessions(found, own_rules, described)
    else:
        by_row = _by_row(list(found), got, own_rules, sink)
        rows, sessions, described = by_row.rows, iter(()), by_row.source
    if own_format is not None and own_format.tables == (Source.table,):
        got.note = got.note or NO_ROWS
    rejects = list(got.rejects)
    if got.refused:
        rejects.append(Reject(source=source, reason=got.refused))
    elif got.format is None and not rows:
        reason = "no known format: no record of any format was found in it"
        rejects.append(Reject(source=source, reason=reason))
        got.note = got.note or reason
    _count(described, got, len(rejects))
    return SettledBatches(rows, sessions, described, rejects)


def _by_row(found: list[pa.RecordBatch], got: Unpacked, rules: SourceRules, sink: Sink) -> Settled:
    """Settle rows, or where there are many steps those as columns and the others as rows."""
    steps = [batch for batch in found if table_name(batch) == TrainingStep.table]
    if got.aside or sum(batch.num_rows for batch in steps) >= MANY_STEPS:
        # Formats of training take a while to load, and many a run has none.
        from aftershock.parsers.training.settle_steps import can_be_columns, settle_steps  # noqa: PLC0415
        from aftershock.pipeline.step_pieces import are_usual, pieces_of, rows_of_pieces  # noqa: PLC0415

        pieces = pieces_of(got.aside, steps)
        if are_usual(steps, TRAINING) and can_be_columns(pieces):
            others = unpack(batch for batch in found if table_name(batch) != TrainingStep.table).found
            return settle_steps(pieces, others, got.marks, rules, format_named, sink)
        got.found = rows_of_pieces(pieces_of(got.aside, []))
    got.found += unpack(found).found
    return settle_source(got.found, got.marks, rules, format_named)


def _count(described: Source, got: Unpacked, rejects: int) -> None:
    described.bytes, described.lines, described.records = got.bytes, got.lines, got.records
    described.digest = got.digest
    described.rejects = rejects
    notes = (got.refused or got.note, described.note)
    described.note = "; ".join(note for note in notes if note) or None


class SettleSources(beam.PTransform):  # type: ignore[misc]
    """(source, unsettled batch) to three outputs: events by host, job records by job, rows that are done."""

    def __init__(self, rules: SettleRules) -> None:
        super().__init__()
        self._rules = rules

    def expand(self, keyed: Any) -> Any:
        """PCollection[tuple[str, RecordBatch]] to tagged outputs of (partition, batch) and batches."""
        tags = (EVENTS, JOBS, DONE)
        settle = beam.ParDo(_Settle(self._rules)).with_outputs(*tags)
        return typed_outputs(keyed | "GroupSource" >> beam.GroupByKey() | "SettleSource" >> settle, *tags)


class _Settle(beam.DoFn):  # type: ignore[misc]
    def __init__(self, rules: SettleRules) -> None:
        self._rules = rules

    def process(self, keyed: tuple[str, Iterable[pa.RecordBatch]]) -> Iterator[Any]:
        source, batches = keyed
        steps = StepWriter(self._rules.staging, source)
        settled = settle_batches(source, batches, self._rules, steps.write)
        steps.close()
        rows, described = settled.rows, settled.described
        n = self._rules.partitions
        said = (row for row in rows if isinstance(row, (EventRow, Gpu, Host)) and not _of_job(row))
        jobs = (row for row in rows if isinstance(row, Session) or _of_job(row))
        done = [row for row in rows if not isinstance(row, (EventRow, Gpu, Host, Session))]
        for part in partitioned(said, _host_key, n):
            yield beam.pvalue.TaggedOutput(EVENTS, part)
        for part in partitioned(jobs, _job_key, self._rules.job_partitions, origin=described.format):
            yield beam.pvalue.TaggedOutput(JOBS, part)
        many = partitioned_batches(settled.sessions, job_keys, self._rules.job_partitions, origin=described.format)
        for part in waiting(many, self._rules.aside):
            yield beam.pvalue.TaggedOutput(JOBS, part)
        # Changes are few, and may explain the end of any session and any exclusion.
        for _, batch in partitioned((row for row in rows if isinstance(row, Change)), lambda row: "", 1):
            yield beam.pvalue.TaggedOutput(EVENTS, (0, batch))
            for number in range(self._rules.job_partitions):
                yield beam.pvalue.TaggedOutput(JOBS, (number, batch))
        for _, batch in partitioned([*done, described, *settled.rejects], lambda row: "", 1):
            yield beam.pvalue.TaggedOutput(DONE, batch)


def _of_job(row: Row) -> bool:
    # An epilog that fails names its job, but what follows from it follows for the host.
    return isinstance(row, SchedulerEvent) and row.raw_job_id is not None and row.kind != "epilog_error"


def _host_key(row: EventRow | Gpu | Host) -> str:
    # What a scheduler says of hosts is little, and one line may name many of them or none: it stays together.
    return "" if isinstance(row, SchedulerEvent) else row.host or ""


def _job_key(row: Any) -> str:
    return row.raw_job_id or row.job_id or ""
