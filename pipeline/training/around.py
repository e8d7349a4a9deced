"""What stands around the logs: rows of their sessions, faults on the hosts of these, and what the scheduler said."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from aftershock.parsers.transit import rows_of
from aftershock.pipeline.occurrences import give_ids
from aftershock.pipeline.training.attempts import LogAttempt
from aftershock.pipeline.training.flight_votes import KIND as FLIGHT_RECORD
from aftershock.pipeline.training.flight_votes import suspects_of
from aftershock.pipeline.training.staged import Staged
from aftershock.pipeline.training.taxonomy import NODE_KINDS
from aftershock.pipeline.training.ties import Hints
from aftershock.schemas.columns import Row
from aftershock.schemas.events import EventRow, GpuError, NodeEvent, SchedulerEvent, TrainingEvent
from aftershock.schemas.sessions import Session

_FAULTS: Final = (GpuError.table, NodeEvent.table)


@dataclass(frozen=True)
class Around:
    """``sessions``: by id. ``faults``, ``told`` (by session): in time. ``seen``: hosts with words of their kernel.
    ``flights``: what flight recorders told, by source."""

    sessions: dict[str, Session]
    faults: list[EventRow]
    told: dict[str, list[SchedulerEvent]]
    seen: frozenset[str]
    flights: dict[str, list[TrainingEvent]]

    @classmethod
    def of(
        cls,
        staged: Staged,
        attempts: Mapping[str, Sequence[LogAttempt]],
        session_ids: set[str],
        hints: Mapping[tuple[str, int], Hints],
    ) -> Around:
        """Read what the logs and the sessions with these ids may have to do with."""
        sessions = {
            row.session_id or "": row
            for row in _where(staged, Session.table, "session_id", session_ids)
            if isinstance(row, Session)
        }
        hosts = {host for row in sessions.values() for host in row.hosts or ()}
        hosts |= {host for own in attempts.values() for attempt in own for host in hints[attempt.name].hosts}
        found: list[EventRow] = []
        for table in _FAULTS:
            found += [row for row in _where(staged, table, "host", hosts) if isinstance(row, EventRow)]
        faults = [row for row in found if not isinstance(row, NodeEvent) or row.kind in NODE_KINDS]
        faults.sort(key=_place)
        told: dict[str, list[SchedulerEvent]] = defaultdict(list)
        events = _where(staged, SchedulerEvent.table, "session_id", session_ids)
        for row in sorted((row for row in events if isinstance(row, SchedulerEvent)), key=_place):
            told[row.session_id or ""].append(row)
        seen = {
            host
            for table in _FAULTS
            for batch in staged.batches(table, ["host"])
            for host in pc.unique(batch.column("host")).to_pylist()
            if host
        }
        flights: dict[str, list[TrainingEvent]] = defaultdict(list)
        for dump in _where(staged, TrainingEvent.table, "kind", {FLIGHT_RECORD}):
            if isinstance(dump, TrainingEvent):
                flights[dump.source or ""].append(dump)
        return cls(sessions, faults, told, frozenset(seen), flights)

    def votes_on(self, logs: Sequence[LogAttempt], session_id: str | None) -> list[TrainingEvent]:
        """Who held up the others in an attempt, by the flight recorders among what tells of it."""
        dumps = [
            event
            for attempt in logs
            for event in self.flights.get(attempt.source, ())
            if attempt.begin <= (event.byte_offset or 0) < attempt.end
        ]
        votes = suspects_of(dumps) if dumps else []
        for vote in votes:
            vote.session_id = session_id
        give_ids(votes)
        return votes


def _where(staged: Staged, table: str, column: str, values: set[str]) -> Iterator[Row]:
    if not values:
        return
    wanted = pa.array(sorted(values), pa.string())
    for batch in staged.batches(table):
        yield from rows_of(batch.filter(pc.fill_null(pc.is_in(batch.column(column), value_set=wanted), False)))


def _place(row: EventRow) -> tuple[int, str, int, str]:
    return row.time or 0, row.source or "", row.byte_offset or 0, row.event_id or ""
