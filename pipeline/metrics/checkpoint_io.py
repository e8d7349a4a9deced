"""Saves and loads of checkpoints as the storage saw them.

While a model trains it writes little: more than a threshold written by all hosts together is a save. More than another
read while the GPUs of those who read are idle is a load. Both thresholds stand in the configuration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from aftershock.pipeline.metrics.storage_cells import (
    BACKLOG,
    BUSY,
    LOAD,
    RETRANSMITTED,
    SAVE,
    SENDS,
    StorageCells,
)
from aftershock.pipeline.metrics.storage_rules import StorageConfig
from aftershock.pipeline.metrics.window_join import Floats
from aftershock.schemas.training import Checkpoint

_US_PER_MS: Final = 1000


@dataclass(frozen=True)
class Moved:
    """An interval in which more than usual was read or written. Times in milliseconds; ``bytes`` by host."""

    kind: str
    begin: int
    end: int
    bytes: dict[str, float]


class ClusterIO:
    """What all hosts together read and wrote, and what each moved inside an interval."""

    def __init__(self, cells: StorageCells, rules: StorageConfig) -> None:
        self._cells = cells
        self._rules = rules
        self._hosts = cells.hosts()
        self.step_ms = cells.step_ms
        self._first, self._end = cells.span()
        self._total = {kind: self._sum(kind) for kind in (SAVE, LOAD)}

    def _sum(self, quantity: str, hosts: Sequence[str] | None = None) -> Floats:
        total = np.full(self._end - self._first, np.nan)
        for host in self._hosts if hosts is None else hosts:
            values = self._cells.of(quantity, host, self._first, self._end)
            total = np.where(np.isnan(total), values, total + np.nan_to_num(values))
        return total

    def intervals(self) -> list[Moved]:
        """All saves and loads, in the order of time."""
        found = [*self._above(SAVE, self._writing()), *self._above(LOAD, self._reading())]
        return sorted(found, key=lambda one: (one.begin, one.kind))

    def _writing(self) -> NDArray[np.bool_]:
        above: NDArray[np.bool_] = self._rate(SAVE) > self._rules.save_above_bytes_per_s
        return above

    def _reading(self) -> NDArray[np.bool_]:
        above = self._rate(LOAD) > self._rules.load_above_bytes_per_s
        if not above.any():
            return above
        # How busy the GPUs of those were who read, each as much as it read.
        busy, weight = np.zeros(len(above)), np.zeros(len(above))
        for host in self._hosts:
            share = self._cells.of(BUSY, host, self._first, self._end)
            read = np.nan_to_num(self._cells.of(LOAD, host, self._first, self._end))
            known = ~np.isnan(share)
            busy[known] += share[known] * read[known]
            weight[known] += read[known]
        # Where nobody knows how busy they were it may be the reading of training data.
        with np.errstate(divide="ignore", invalid="ignore"):
            idle: NDArray[np.bool_] = above & (busy / weight < self._rules.load_gpu_below)
        return idle

    def _rate(self, kind: str) -> Floats:
        rate: Floats = np.nan_to_num(self._total[kind]) / (self.step_ms / 1000)
        return rate

    def _above(self, kind: str, above: NDArray[np.bool_]) -> list[Moved]:
        edges = np.flatnonzero(np.diff(np.concatenate(([False], above, [False])).astype(np.int8)))
        runs: list[tuple[int, int]] = []
        for begin, end in zip(edges[0::2].tolist(), edges[1::2].tolist(), strict=True):
            if runs and (begin - runs[-1][1]) * self.step_ms <= self._rules.merge_gap_s * 1000:
                runs[-1] = (runs[-1][0], end)
            else:
                runs.append((begin, end))
        found = []
        for begin, end in runs:
            if (end - begin) * self.step_ms < self._rules.least_s * 1000:
                continue
            first, last = self._first + begin, self._first + end
            bytes_by_host = {host: float(np.nansum(self._cells.of(kind, host, first, last))) for host in self._hosts}
            found.append(Moved(kind, first * self.step_ms, last * self.step_ms, bytes_by_host))
        return found

    def _cut(self, begin: int, end: int) -> tuple[int, int]:
        first = max(begin // self.step_ms, self._first)
        return first, max(first, min(-(-end // self.step_ms), self._end))

    def fill(self, row: Checkpoint, kind: str, begin: int, end: int) -> None:
        """Write into a row what the storage of the cluster did in a span of time (milliseconds)."""
        first, last = self._cut(begin, end)
        part = self._total[kind][first - self._first : last - self._first]
        if not len(part) or np.isnan(part).all():
            return
        seconds = self.step_ms / 1000
        moved = float(np.nansum(part))
        row.bytes = round(moved) if row.bytes is None else row.bytes
        row.mean_bytes_per_s = moved / (len(part) * seconds)
        row.peak_bytes_per_s = float(np.nanmax(part)) / seconds
        row.ceiling_bytes_per_s = self.ceiling(kind)
        if row.ceiling_bytes_per_s:
            row.utilisation = row.peak_bytes_per_s / row.ceiling_bytes_per_s
        queue, request = self._within(f"queue_s:{kind}", first, last), self._within(f"request_s:{kind}", first, last)
        if request is None and queue is not None:
            response = self._within(f"response_s:{kind}", first, last)
            request = None if response is None else queue + response
        if queue is not None and request:
            row.rpc_queue_share = min(1.0, queue / request)
        backlog, sends = self._within(BACKLOG, first, last), self._within(SENDS, first, last)
        if backlog is not None and sends:
            row.rpc_backlog_mean = backlog / sends
        again = self._within(RETRANSMITTED, first, last)
        row.retransmissions = None if again is None else round(again)

    def ceiling(self, kind: str) -> float | None:
        """What the storage can give in a direction."""
        return self._rules.write_bytes_per_s if kind == SAVE else self._rules.read_bytes_per_s

    def _within(self, quantity: str, first: int, last: int) -> float | None:
        parts = [self._cells.of(quantity, host, first, last) for host in self._hosts]
        known = [float(np.nansum(part)) for part in parts if not np.isnan(part).all()]
        return sum(known) if known else None

    def peaks(self, kind: str, spans: Sequence[tuple[int, int]]) -> dict[str, float]:
        """The highest rate of each host inside spans of time, in bytes per second."""
        found = {}
        for host in self._hosts:
            best = [self._peak(kind, host, *self._cut(begin, end)) for begin, end in spans]
            known = [rate for rate in best if rate is not None]
            if known:
                found[host] = max(known)
        return found

    def _peak(self, kind: str, host: str, first: int, last: int) -> float | None:
        values = self._cells.of(kind, host, first, last)
        return None if np.isnan(values).all() else float(np.nanmax(values)) / (self.step_ms / 1000)


def checkpoint_of(moved: Moved, cluster: ClusterIO, session_id: str | None) -> Checkpoint:
    """A row for an interval that no log tells of."""
    row = Checkpoint(
        session_id=session_id,
        kind=moved.kind,
        start_time=moved.begin * _US_PER_MS,
        end_time=moved.end * _US_PER_MS,
        duration_s=(moved.end - moved.begin) / 1000,
        time_basis="epoch",
        time_error_s=cluster.step_ms / 1000,
        origin="metrics",
    )
    cluster.fill(row, moved.kind, moved.begin, moved.end)
    return row
