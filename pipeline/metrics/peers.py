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
from numpy.typing import NDArray

from aftershock.pipeline.metrics.asked import Asked, window_ms
from aftershock.pipeline.metrics.gathered import Known
from aftershock.pipeline.metrics.rules import WindowRules
from aftershock.pipeline.metrics.window_join import Grid

BIN_MS: Final = 60_000
# Fewer peers than this show nothing of what is usual.
_LEAST: Final = 3


@dataclass
class _Sums:
    count: NDArray[np.float64]
    total: NDArray[np.float64]
    squares: NDArray[np.float64]


@dataclass
class Peers:
    """Sums over the peers of each event, by kin and minute of its window."""

    asked: Sequence[Asked]
    rules: WindowRules
    _by_host: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    _sums: dict[tuple[int, str], _Sums] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number, one in enumerate(self.asked):
            for host in one.peers:
                self._by_host[host].append(number)

    @property
    def hosts(self) -> frozenset[str]:
        """Hosts that are anybody's peers."""
        return frozenset(self._by_host)

    def bins(self, one: Asked) -> tuple[int, int]:
        """Where the minutes of a window begin (milliseconds), and how many there are."""
        _, begin, _, end = window_ms(one, self.rules)
        return begin, -(-(end - begin) // BIN_MS)

    def add(self, grid: Grid, known: Sequence[Known]) -> None:
        """Add cleaned samples of hosts that are peers."""
        for at, one in enumerate(known):
            for number in self._by_host.get(one.subject.host or "", ()):
                event = self.asked[number]
                if not _same_place(event, one):
                    continue
                begin, bins = self.bins(event)
                low, high = int(grid.begins[at]), int(grid.begins[at + 1])
                first = low + int(np.searchsorted(grid.times[low:high], begin))
                last = low + int(np.searchsorted(grid.times[low:high], begin + bins * BIN_MS))
                if first == last:
                    continue
                minute = (grid.times[first:last] - begin) // BIN_MS
                values = grid.values[first:last]
                sums = self._sums.get((number, one.kin))
                if sums is None:
                    sums = self._sums[number, one.kin] = _Sums(np.zeros(bins), np.zeros(bins), np.zeros(bins))
                # Each peer counts once a minute, however often it was scraped.
                times = np.bincount(minute, minlength=bins)
                some = np.maximum(times, 1)
                sums.count += times > 0
                sums.total += np.bincount(minute, values, minlength=bins) / some
                sums.squares += np.bincount(minute, values * values, minlength=bins) / some

    def z_at(self, number: int, kin: str, time: int, value: float) -> float | None:
        """How far a value lies from those of the peers in the minute of a time, in their deviations."""
        sums = self._sums.get((number, kin))
        if sums is None:
            return None
        begin, bins = self.bins(self.asked[number])
        minute = min(max((time - begin) // BIN_MS, 0), bins - 1)
        count = sums.count[minute]
        if count < _LEAST:
            return None
        mean = sums.total[minute] / count
        spread = max(0.0, sums.squares[minute] / count - mean * mean) ** 0.5
        floor = max(abs(mean) * 1e-3, 1e-9)
        return float((value - mean) / max(spread, floor))


def _same_place(event: Asked, series: Known) -> bool:
    """Whether a peer's series is about the like of what the event is about: the GPU in the same place, or the host."""
    if event.gpu_index is None or series.subject.gpu_index is None:
        return True
    return event.gpu_index == series.subject.gpu_index
