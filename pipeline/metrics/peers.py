"""What the peers of a host did at the same moments: sums by minute, so that their number does not matter.

Peers are the other hosts of the session that ran there. The phases of a job (a checkpoint, an evaluation) hit all of
them at once and cancel out. Like is compared with like: the GPU in the same place, the same mode of a CPU.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from aftershock.parsers.prometheus.columns import SeriesBatch
from aftershock.parsers.prometheus.ragged import begins_of, positions
from aftershock.pipeline.metrics.asked import Asked, window_ms
from aftershock.pipeline.metrics.cleaning import cleaned, kinds_of
from aftershock.pipeline.metrics.gathered import Known
from aftershock.pipeline.metrics.rules import WindowRules
from aftershock.pipeline.metrics.window_join import Floats, Grid, Ints

BIN_MS: Final = 60_000
# Fewer peers than this show nothing of what is usual.
_LEAST: Final = 3


class _Sums:
    """Of one event, for each kin and minute: how many peers, the sum of their values, and that of the squares."""

    def __init__(self, bins: int) -> None:
        self._place: dict[str, int] = {}
        self._sums = np.zeros((3, 0, bins))

    def add(self, kins: Sequence[str], parts: Sequence[Floats]) -> None:
        """Add numbers by row and minute; several rows may be of one kin."""
        places = np.array([self._place.setdefault(kin, len(self._place)) for kin in kins], np.int64)
        if len(self._place) > self._sums.shape[1]:
            grown = np.zeros((3, max(len(self._place), 2 * self._sums.shape[1]), self._sums.shape[2]))
            grown[:, : self._sums.shape[1]] = self._sums
            self._sums = grown
        for into, part in zip(self._sums, parts, strict=True):
            np.add.at(into, places, part)

    def at(self, kin: str, minute: int) -> tuple[float, float, float]:
        """The three numbers of a kin in a minute."""
        place = self._place.get(kin)
        if place is None:
            return 0.0, 0.0, 0.0
        count, total, squares = self._sums[:, place, minute].tolist()
        return count, total, squares


@dataclass
class Peers:
    """Sums over the peers of each event, by kin and minute of its window, however often was scraped."""

    asked: Sequence[Asked]
    rules: WindowRules
    _sums: dict[int, _Sums] = field(default_factory=dict)

    def _within(self, begin: int, end: int) -> dict[str, list[int]]:
        """The events whose window meets a span of time (milliseconds, both ends in it), by the hosts of their peers."""
        found: dict[str, list[int]] = defaultdict(list)
        for number, one in enumerate(self.asked):
            first, bins = self.bins(one)
            if one.peers and first <= end and begin < first + bins * BIN_MS:
                for host in one.peers:
                    found[host].append(number)
        return found

    def bins(self, one: Asked) -> tuple[int, int]:
        """Where the minutes of a window begin (milliseconds), and how many there are."""
        _, begin, _, end = window_ms(one, self.rules)
        return begin, -(-(end - begin) // BIN_MS)

    def take(self, batch: SeriesBatch, known: Sequence[Known]) -> None:
        """Add the samples of hosts that are peers. ``known``: the series of the batch."""
        if not len(batch.times):
            return
        by_host = self._within(int(batch.times.min()), int(batch.times.max()))
        rows: dict[int, list[int]] = defaultdict(list)
        for at, one in enumerate(known):
            for number in by_host.get(one.subject.host or "", ()):
                if _same_place(self.asked[number], one):
                    rows[number].append(at)
        if not rows:
            return
        chosen = np.unique(np.concatenate([np.array(own, np.int64) for own in rows.values()]))
        counts = np.diff(batch.begins)[chosen]
        at_samples = positions(batch.begins[chosen], counts)
        labels = [batch.labels[at] for at in chosen.tolist()]
        part = SeriesBatch(labels, begins_of(counts), batch.times[at_samples], batch.values[at_samples])
        grid = cleaned(part, kinds_of([known[at].metric for at in chosen.tolist()]))
        for number, own in rows.items():
            self._add(number, grid, np.searchsorted(chosen, own), [known[at].kin for at in own])

    def _add(self, number: int, grid: Grid, own: Ints, kins: Sequence[str]) -> None:
        """Add some series of cleaned samples to what the peers of an event did."""
        begin, bins = self.bins(self.asked[number])
        counts = np.diff(grid.begins)[own]
        at = positions(grid.begins[own], counts)
        minute = (grid.times[at] - begin) // BIN_MS
        inside = (minute >= 0) & (minute < bins)
        cell = (np.repeat(np.arange(len(own)) * bins, counts) + minute)[inside]
        values = grid.values[at][inside]
        if not len(values):
            return
        size, shape = len(own) * bins, (len(own), bins)
        # Each peer counts once a minute, however often it was scraped.
        times = np.bincount(cell, minlength=size)
        some = np.maximum(times, 1)
        sums = self._sums.setdefault(number, _Sums(bins))
        parts = (times > 0, np.bincount(cell, values, size) / some, np.bincount(cell, values * values, size) / some)
        sums.add(kins, [part.reshape(shape).astype(np.float64) for part in parts])

    def z_at(self, number: int, kin: str, time: int, value: float) -> float | None:
        """How far a value lies from those of the peers in the minute of a time, in their deviations."""
        sums = self._sums.get(number)
        if sums is None:
            return None
        begin, bins = self.bins(self.asked[number])
        minute = min(max((time - begin) // BIN_MS, 0), bins - 1)
        count, total, squares = sums.at(kin, minute)
        if count < _LEAST:
            return None
        mean = total / count
        spread = max(0.0, squares / count - mean * mean) ** 0.5
        floor = max(abs(mean) * 1e-3, 1e-9)
        return float((value - mean) / max(spread, floor))


def _same_place(event: Asked, series: Known) -> bool:
    """Whether a peer's series is about the like of what the event is about: the GPU in the same place, or the host."""
    if event.gpu_index is None or series.subject.gpu_index is None:
        return True
    return event.gpu_index == series.subject.gpu_index
