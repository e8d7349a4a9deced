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


# Of one event and kin, for each minute: how many peers, the sum of their values and of the squares.
_Sums = NDArray[np.float64]


@dataclass
class Peers:
    """Sums over the peers of each event, by kin and minute of its window."""

    asked: Sequence[Asked]
    rules: WindowRules
    _sums: dict[tuple[int, str], _Sums] = field(default_factory=dict)

    def within(self, begin: int, end: int) -> dict[str, list[int]]:
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

    def add(self, grid: Grid, known: Sequence[Known]) -> None:
        """Add cleaned samples of hosts that are peers."""
        if not len(grid.times):
            return
        by_host = self.within(int(grid.times.min()), int(grid.times.max()))
        for at, one in enumerate(known):
            for number in by_host.get(one.subject.host or "", ()):
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
                    sums = self._sums[number, one.kin] = np.zeros((3, bins))
                # Each peer counts once a minute, however often it was scraped.
                times = np.bincount(minute, minlength=bins)
                some = np.maximum(times, 1)
                sums[0] += times > 0
                sums[1] += np.bincount(minute, values, minlength=bins) / some
                sums[2] += np.bincount(minute, values * values, minlength=bins) / some

    def z_at(self, number: int, kin: str, time: int, value: float) -> float | None:
        """How far a value lies from those of the peers in the minute of a time, in their deviations."""
        sums = self._sums.get((number, kin))
        if sums is None:
            return None
        begin, bins = self.bins(self.asked[number])
        minute = min(max((time - begin) // BIN_MS, 0), bins - 1)
        count, total, squares = sums[:, minute].tolist()
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
