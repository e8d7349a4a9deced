"""What alarms are made of: for each host and metric the lowest and the highest value in each cell of time.

Of the GPUs of a host the odd one out is the lowest or the highest, so that no array is held for each GPU. Beside them
stands how many samples came, and how many series ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from aftershock.parsers.prometheus.columns import SeriesBatch
from aftershock.pipeline.metrics.cells import ADD, HIGH, LOW, MOST_CELLS, Cells
from aftershock.pipeline.metrics.cleaning import COUNTER, LAST_CODE, kind_of
from aftershock.pipeline.metrics.families import ABSENCE, FAMILY_OF, MARKERS, UP
from aftershock.pipeline.metrics.gathered import Known
from aftershock.pipeline.metrics.stitched import Stitched
from aftershock.pipeline.metrics.window_join import Floats, Ints

# No scrape is as seldom as this.
_LONGEST_MS: Final = 600_000

Feature = tuple[str, str]
"""Metric and side of it: ``low`` or ``high``."""


class SignalCells:
    """Extremes over the series of each host and metric, by cell of time."""

    def __init__(self, step_ms: int, most: int = MOST_CELLS) -> None:
        self._cells = {how: Cells(how, step_ms, most // 3) for how in (LOW, HIGH, ADD)}
        self._stitched = Stitched()

    def take(self, batch: SeriesBatch, known: Sequence[Known]) -> None:
        """Add the samples of a batch."""
        stale = batch.stale()
        for at, one in enumerate(known):
            host = one.subject.host
            if host is None or one.metric not in FAMILY_OF:
                continue
            own = slice(int(batch.begins[at]), int(batch.begins[at + 1]))
            times = batch.times[own]
            if one.metric != UP and stale[own].any():
                ended = times[stale[own]]
                self._cells[ADD].put((MARKERS, host), ended, np.ones(len(ended)))
            for piece_times, values in self._levels(one, times, batch.values[own]):
                self._cells[LOW].put((one.metric, host), piece_times, values)
                self._cells[HIGH].put((one.metric, host), piece_times, values)
                if one.metric != UP:
                    self._cells[ADD].put((ABSENCE, host), piece_times, np.ones(len(piece_times)))

    def _levels(self, one: Known, times: Ints, values: Floats) -> list[tuple[Ints, Floats]]:
        kind = kind_of(one.metric)
        if kind == COUNTER:
            return [
                (piece.end, piece.by * 1000 / (piece.end - piece.begin))
                for piece in self._stitched.counted(one.series_id, times, values)
                if len(piece.end)
            ]
        if kind != LAST_CODE:
            return [piece for piece in self._stitched.levels(one.series_id, times, values) if len(piece[0])]
        found = []
        for piece_times, codes, _, _ in self._stitched.fresh(one.series_id, times, values):
            changed = np.where(np.diff(codes) != 0, codes[1:], 0.0)
            if len(changed):
                found.append((piece_times[1:], (changed > 0).astype(np.float64)))
        return found

    def settle(self) -> int:
        """Bring all cells to one length, in milliseconds: no shorter than what lies between two scrapes."""
        step = max(cells.step_ms for cells in self._cells.values())
        self._coarsen(step)
        while step < _LONGEST_MS and self._is_sparse():
            step *= 2
            self._coarsen(step)
        return step

    def _coarsen(self, step: int) -> None:
        for cells in self._cells.values():
            cells.coarsen_to(step)

    def _is_sparse(self) -> bool:
        """Whether most hosts often have no sample in a cell and one in the next."""
        first, end = self.span()
        far = []
        for host in self.hosts():
            some = np.flatnonzero(self.counts(ABSENCE, host, first, end))
            if len(some) > 1:
                far.append(float(np.quantile(np.diff(some), 0.9)))
        return bool(far) and float(np.median(far)) > 1

    def hosts(self) -> list[str]:
        """Hosts of which anything is known, sorted."""
        return sorted({host for _, host in self._cells[ADD].held()})

    def span(self) -> tuple[int, int]:
        """First cell, and the one behind the last."""
        return self._cells[ADD].span()

    def features(self) -> list[Feature]:
        """Everything that there is of any host, sorted, but what is counted over all metrics."""
        metrics = sorted({metric for metric, _ in self._cells[LOW].held()})
        return [(metric, side) for metric in metrics for side in (LOW, HIGH)]

    def of(self, feature: Feature, host: str, first: int, end: int) -> Floats:
        """A feature of a host in cells [first, end)."""
        return self._cells[feature[1]].values((feature[0], host), first, end)

    def counts(self, name: str, host: str, first: int, end: int) -> Floats:
        """Samples that came (``absence``), or series that ended (``markers``); 0 where there were none."""
        return np.nan_to_num(self._cells[ADD].values((name, host), first, end))
