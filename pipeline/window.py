"""The period that was asked for with ``--since`` and ``--until``.

It is applied to what comes out, not to what is read: a session, a chain or an exclusion is made of lines that may lie
long before the period that it reaches into.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from aftershock.schemas.batches import column_values
from aftershock.schemas.changes import Change
from aftershock.schemas.columns import Row
from aftershock.schemas.events import EventRow
from aftershock.schemas.sessions import Chain, Exclusion, Retry, Session

RowT = TypeVar("RowT", bound=Row)


@dataclass(frozen=True)
class Window:
    """A period in microseconds UTC; an end that is None is open."""

    since: int | None = None
    until: int | None = None

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return self.since is None and self.until is None

    def kept(self, rows: Iterable[RowT]) -> list[RowT]:
        """The rows that touch the period. What has no known time stays."""
        return list(rows) if self.is_all else [row for row in rows if self._touches(*_span(row))]

    def kept_sessions(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The same for a batch of sessions."""
        if self.is_all:
            return batch
        first = pc.coalesce(batch.column("submit_time"), batch.column("start_time"))
        spans = zip(column_values(first), column_values(batch.column("end_time")), strict=True)
        return batch.filter(pa.array([self._touches(*span) for span in spans], pa.bool_()))

    def retries(self, retries: Iterable[Retry], sessions: Sequence[Session]) -> list[Retry]:
        """The retries of which a session touches the period."""
        if self.is_all:
            return list(retries)
        kept = {session.session_id for session in self.kept(sessions)}
        return [retry for retry in retries if retry.from_session_id in kept or retry.to_session_id in kept]

    def _touches(self, first: int | None, last: int | None) -> bool:
        early = self.since is not None and last is not None and last < self.since
        late = self.until is not None and first is not None and first >= self.until
        return not (early or late)


def _span(row: Row) -> tuple[int | None, int | None]:
    """First and last moment of a row; None where it is open or unknown."""
    if isinstance(row, EventRow):
        return row.time, row.last_time
    if isinstance(row, Session):
        return row.submit_time if row.submit_time is not None else row.start_time, row.end_time
    if isinstance(row, (Chain, Exclusion, Change)):
        return row.start_time, row.end_time
    return None, None
