"""Rows of evidence as they come, series after series: how rare each is, and all of them in their table.

How often a peak comes without an event is known from healthy times. What is corrected for the number of series that
were looked at hangs on all rows of an event, so that it is told last. Many rows wait on disk until then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from aftershock.parsers.transit import lean_batch
from aftershock.pipeline.metrics.healthy import pools_of
from aftershock.pipeline.metrics.window_join import Floats, Ints
from aftershock.pipeline.training.staged import Staged
from aftershock.pipeline.waiting import opened, waiting
from aftershock.schemas.metrics import Evidence

# Fewer heights than this tell nothing of what is rare.
_LEAST: Final = 19
_HELD_ROWS: Final = 1 << 17
_WAITING: Final = ".evidence"


class EvidenceRows:
    """Rows of evidence.

    peaks: heights in healthy times. incident: that of each event, if it has one. folder: where many rows wait.
    """

    def __init__(
        self,
        peaks: Mapping[tuple[str, ...], Sequence[float]],
        incident: Mapping[str, str | None],
        folder: Path | None = None,
    ) -> None:
        self._peaks = {pool: np.sort(np.array(heights)) for pool, heights in peaks.items() if len(heights) >= _LEAST}
        self._incident = incident
        self._looks: dict[tuple[str, str], int] = {}
        self._look_of: list[Ints] = []
        self._p_values: list[Floats] = []
        self._held: list[pa.RecordBatch] = []
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._folder = None if folder is None else folder / _WAITING

    def add(self, rows: Sequence[Evidence]) -> None:
        """Add rows, with what can be told of each by itself."""
        if not rows:
            return
        for row in rows:
            row.incident_id = self._incident.get(row.event_id or "")
            row.p_value = self._p_value(row)
        looks = [(row.event_id or "", row.host or "") for row in rows]
        self._look_of.append(np.array([self._looks.setdefault(look, len(self._looks)) for look in looks], np.int64))
        self._p_values.append(np.array([np.nan if row.p_value is None else row.p_value for row in rows]))
        self._held.append(lean_batch(rows, "evidence"))
        self._rows += len(rows)
        if self._rows >= _HELD_ROWS:
            self._waiting += self._put_aside(iter(self._held))
            self._held, self._rows = [], 0

    def _p_value(self, row: Evidence) -> float | None:
        heights = next((self._peaks[pool] for pool in pools_of(row) if pool in self._peaks), None)
        if row.robust_z is None or heights is None:
            return None
        higher = len(heights) - int(np.searchsorted(heights, abs(row.robust_z)))
        return (1 + higher) / (1 + len(heights))

    def _q_values(self) -> Floats:
        """For each row the chance of such a peak, corrected for the number of series at its event and host."""
        p = np.concatenate(self._p_values)
        look = np.concatenate(self._look_of)
        q = np.full(len(p), np.nan)
        order = np.argsort(look, kind="stable")
        for own in np.split(order, np.flatnonzero(np.diff(look[order])) + 1):
            some = own[~np.isnan(p[own])]
            q[some] = false_discovery(p[some])
        return q

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, in batches, with everything that can be told of them."""
        if not self._p_values:
            return
        q = self._q_values()
        begin = 0
        for batch in map(opened, [*self._waiting, *self._held]):
            own = q[begin : begin + batch.num_rows]
            begin += batch.num_rows
            at = batch.schema.get_field_index("q_value")
            yield batch.set_column(at, batch.schema.field(at), pa.array(own, pa.float64(), mask=np.isnan(own)))

    def _put_aside(self, batches: Iterator[pa.RecordBatch]) -> list[pa.RecordBatch]:
        return [batch for _, batch in waiting(((0, batch) for batch in batches), str(self._folder or ""))]

    def write(self, staged: Staged) -> None:
        """Write all rows to their table."""
        found = self._put_aside(self.batches())
        if found:
            staged.put("evidence", "all", found)


def false_discovery(p_values: Floats) -> Floats:
    """The share of false ones among all that are at least as rare, by Benjamini and Hochberg."""
    order = np.argsort(-p_values, kind="stable")
    ranks = np.arange(len(p_values), 0, -1)
    corrected = np.empty(len(p_values))
    corrected[order] = np.minimum.accumulate(np.minimum(1.0, p_values[order] * len(p_values) / ranks))
    # p * n / n may be less than p by its last bit.
    found: Floats = np.maximum(corrected, p_values)
    return found
