"""How long hosts were watched while they were healthy, and for how much of that they could be judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from aftershock.pipeline.metrics.alarm_scores import Looked
from aftershock.pipeline.metrics.spans import Spans, inside

_DAY_MS = 86_400_000


@dataclass(frozen=True)
class HealthyTime:
    """Days of hosts that were watched while healthy, of the cluster in which any was, of hosts that were judged."""

    host_days: float
    cluster_days: float
    judged_host_days: float


class Exposure:
    """Adds up what was looked at, cell by cell. Cells [first, end) are those of all metrics."""

    def __init__(self, first: int, end: int, step_ms: int, ill: Mapping[str, Spans]) -> None:
        self._first = first
        self._step_ms = step_ms
        self._ill = ill
        self._watched = np.zeros(end - first, np.int64)
        self._judged = np.zeros(end - first, np.int64)

    def add(self, looked: Iterable[Looked]) -> None:
        """Add stretches of hosts, each cell of a host once."""
        for one in looked:
            at = one.first - self._first
            times = (one.first + np.arange(len(one.judged))) * self._step_ms
            healthy = ~inside(times, self._ill.get(one.host, ()))
            self._watched[at : at + len(times)] += healthy
            self._judged[at : at + len(times)] += healthy & one.judged

    def between(self, first: int, end: int) -> HealthyTime:
        """The healthy time in cells [first, end)."""
        own = slice(max(0, first - self._first), max(0, end - self._first))
        days = self._step_ms / _DAY_MS
        watched = self._watched[own]
        return HealthyTime(
            float(watched.sum()) * days, float((watched > 0).sum()) * days, float(self._judged[own].sum()) * days
        )
