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
from aftershock.pipeline.metrics.spool import Spool
from aftershock.pipeline.metrics.window_join import Ints
from aftershock.schemas.metrics import Evidence

# Samples that are held of healthy times.
MOST_SAMPLES: Final = 1 << 23


class HealthySlots(Gathered):
    """Samples of the hosts of events in slots of time without a fault."""

    def __init__(
        self, asked: Sequence[Asked], ill: Mapping[str, Spans], rules: WindowRules, most: int = MOST_SAMPLES
    ) -> None:
        super().__init__({one.host: () for one in asked}, spool=Spool(most=1 << 62))
        self._ill = ill
        self._rules = rules
        self._most = most
        self._length = round(1000 * (rules.baseline_s + rules.before_s + rules.after_s))
        self.divisor = 1
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
        super().add(batch, known, source)
        while self.spool.held > self._most:
            self.divisor *= 2
            self._slots = defaultdict(set)
            self.spool.keep(lambda piece: self.keeps(self.series[piece.series], piece.times))

    def peaks(self) -> dict[tuple[str, ...], list[float]]:
        """Heights of the peaks in slots: by series, by host and metric, and by metric."""
        middle = round(1e6 * (self._rules.baseline_s + self._rules.before_s))
        slots = [
            Asked(f"{host} {slot}", host, slot * self._length * 1000 + middle, 0)
            for host in sorted(self._slots)
            for slot in sorted(self._slots[host])
        ]
        found: dict[tuple[str, ...], list[float]] = defaultdict(list)
        nobody = Peers((), self._rules)
        for known, batch in self.groups():
            grid = cleaned(batch, kinds_of([one.metric for one in known]))
            for row in evidence_of(slots, known, grid, nobody, self._rules):
                if row.robust_z is not None:
                    for pool in pools_of(row):
                        found[pool].append(abs(row.robust_z))
        return found


def pools_of(row: Evidence) -> tuple[tuple[str, ...], ...]:
    """Where the heights of the like of a row stand: the nearest first."""
    metric = row.metric or ""
    return ("series", row.series_id or ""), ("host", row.host or "", metric), ("metric", metric)
