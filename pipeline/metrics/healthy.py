"""How often a peak as high as that of an event is there without one: the same look at healthy times of the same host.

Time is cut into slots as long as baseline and window together. What a series did in a slot without a fault is what it
does by chance. Where there are more slots than memory holds, every second one is left out, and again: which ones hangs
on the slot alone, not on the order of reading.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from aftershock.parsers.prometheus.columns import SeriesBatch
from aftershock.pipeline.metrics.asked import Asked
from aftershock.pipeline.metrics.cleaning import cleaned, kinds_of
from aftershock.pipeline.metrics.evidence import evidence_of
from aftershock.pipeline.metrics.gathered import Gathered, Known
from aftershock.pipeline.metrics.peers import Peers
from aftershock.pipeline.metrics.rules import WindowRules
from aftershock.pipeline.metrics.spans import Spans, meets
from aftershock.pipeline.metrics.window_join import Ints
from aftershock.schemas.metrics import Evidence

# Samples that are held of healthy times.
MOST_SAMPLES: Final = 1 << 23
# Fewer slots than this tell nothing of what is rare.
_LEAST: Final = 19


class HealthySlots(Gathered):
    """Samples of the hosts of events in slots of time without a fault."""

    def __init__(
        self, asked: Sequence[Asked], ill: Mapping[str, Spans], rules: WindowRules, most: int = MOST_SAMPLES
    ) -> None:
        super().__init__({one.host: () for one in asked})
        self._ill = ill
        self._rules = rules
        self._most = most
        self._length = round(1000 * (rules.baseline_s + rules.before_s + rules.after_s))
        self.divisor = 1
        self._held = 0
        self._slots: dict[str, set[int]] = defaultdict(set)

    def spans(self, begin: int, end: int, divisor: int) -> Spans:
        """The slots between two times, if only one of so many is to be read."""
        self.divisor = max(self.divisor, divisor)
        slots = range(begin // self._length, end // self._length + 1)
        return tuple((at * self._length, (at + 1) * self._length) for at in slots if self._is_chosen(at))

    def _is_chosen(self, slot: int) -> bool:
        return zlib.crc32(b"%d" % slot) % self.divisor == 0

    def keeps(self, known: Known, times: Ints) -> NDArray[np.bool_]:
        """Which samples lie in slots that are held."""
        host = known.subject.host or ""
        if host not in self.wanted:
            return np.zeros(len(times), bool)
        slot = times // self._length
        there = np.unique(slot)
        ill = self._ill.get(host, ())
        chosen = [
            at
            for at in there.tolist()
            if self._is_chosen(at) and not meets(ill, at * self._length, (at + 1) * self._length)
        ]
        self._slots[host].update(chosen)
        found: NDArray[np.bool_] = np.isin(slot, np.array(chosen, np.int64))
        return found

    def add(self, batch: SeriesBatch, known: Sequence[Known], source: str = "") -> None:
        """Keep of a batch what lies in slots; fewer slots, if they are too many."""
        before = len(self._pieces)
        super().add(batch, known, source)
        self._held += sum(len(piece[2]) for piece in self._pieces[before:])
        while self._held > self._most:
            self.divisor *= 2
            self._slots = defaultdict(set)
            kept = ((piece, self.keeps(self.series[piece[0]], piece[2])) for piece in self._pieces)
            self._pieces = [
                (number, replica, times[mask], values[mask])
                for (number, replica, times, values), mask in kept
                if mask.any()
            ]
            self._held = sum(len(piece[2]) for piece in self._pieces)

    def peaks(self) -> dict[tuple[str, ...], list[float]]:
        """Heights of the peaks in slots: by series, by host and metric, and by metric."""
        batch = self.batch()
        grid = cleaned(batch, kinds_of([one.metric for one in self.series]))
        middle = round(1e6 * (self._rules.baseline_s + self._rules.before_s))
        slots = [
            Asked(f"{host} {slot}", host, slot * self._length * 1000 + middle, 0)
            for host in sorted(self._slots)
            for slot in sorted(self._slots[host])
        ]
        found: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for row in evidence_of(slots, self.series, grid, Peers(slots, self._rules), self._rules):
            if row.robust_z is not None:
                for pool in _pools(row):
                    found[pool].append(abs(row.robust_z))
        return found


def _pools(row: Evidence) -> tuple[tuple[str, ...], ...]:
    metric = row.metric or ""
    return ("series", row.series_id or ""), ("host", row.host or "", metric), ("metric", metric)


def tell_chances(rows: Sequence[Evidence], peaks: Mapping[tuple[str, ...], Sequence[float]]) -> None:
    """Write into evidence how often its peaks come without an event, and that corrected for the number of series."""
    ordered = {pool: np.sort(np.array(heights)) for pool, heights in peaks.items() if len(heights) >= _LEAST}
    by_event: dict[str, list[Evidence]] = defaultdict(list)
    for row in rows:
        heights = next((ordered[pool] for pool in _pools(row) if pool in ordered), None)
        if row.robust_z is None or heights is None:
            continue
        higher = len(heights) - int(np.searchsorted(heights, abs(row.robust_z)))
        row.p_value = (1 + higher) / (1 + len(heights))
        by_event[f"{row.event_id} {row.host}"].append(row)
    for own in by_event.values():
        corrected = false_discovery([row.p_value or 0.0 for row in own])
        for row, q in zip(own, corrected, strict=True):
            row.q_value = q


def false_discovery(p_values: Sequence[float]) -> list[float]:
    """The share of false ones among all that are at least as rare, by Benjamini and Hochberg."""
    p = np.array(p_values, np.float64)
    order = np.argsort(-p, kind="stable")
    ranks = np.arange(len(p), 0, -1)
    corrected = np.empty(len(p))
    corrected[order] = np.minimum.accumulate(np.minimum(1.0, p[order] * len(p) / ranks))
    # p * n / n may be less than p by its last bit.
    return [float(q) for q in np.maximum(corrected, p)]
