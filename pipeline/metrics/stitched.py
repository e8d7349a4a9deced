"""Series over the borders of batches, files and replicas: each stretch of time once, and counters without a break.

What several servers or files hold of one series would count twice in a sum. The stretch of time that was seen of a
series is kept as its two ends; what a later batch holds inside it is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from aftershock.pipeline.metrics.cleaning import is_value
from aftershock.pipeline.metrics.window_join import Floats, Ints

# A counter that was not seen for so long may have counted at any time in between.
LONGEST_MS: Final = 600_000


@dataclass
class _Seen:
    first: int
    first_value: float
    last: int
    last_value: float


@dataclass(frozen=True)
class Counted:
    """What a counter counted between two times (milliseconds), each after the other: not inside gaps."""

    begin: Ints
    end: Ints
    by: Floats


@dataclass
class Stitched:
    """What was seen of each series so far."""

    _seen: dict[str, _Seen] = field(default_factory=dict)

    def fresh(self, series_id: str, times: Ints, values: Floats) -> list[tuple[Ints, Floats, bool, bool]]:
        """Samples that were not seen before: after the stretch that was seen, and before it.

        Times, values, and whether the first and the last of them are the ends of that stretch, which were seen.
        """
        good = is_value(values)
        good[1:] &= np.diff(times) > 0
        times, values = times[good], values[good]
        if not len(times):
            return []
        seen = self._seen.get(series_id)
        if seen is None:
            self._seen[series_id] = _Seen(int(times[0]), float(values[0]), int(times[-1]), float(values[-1]))
            return [(times, values, False, False)]
        pieces: list[tuple[Ints, Floats, bool, bool]] = []
        after, before = times > seen.last, times < seen.first
        if after.any():
            more, their_values = times[after], values[after]
            pieces.append(
                (np.concatenate(([seen.last], more)), np.concatenate(([seen.last_value], their_values)), True, False)
            )
            seen.last, seen.last_value = int(more[-1]), float(their_values[-1])
        if before.any():
            more, their_values = times[before], values[before]
            pieces.append(
                (np.concatenate((more, [seen.first])), np.concatenate((their_values, [seen.first_value])), False, True)
            )
            seen.first, seen.first_value = int(more[0]), float(their_values[0])
        return pieces

    def counted(self, series_id: str, times: Ints, values: Floats) -> list[Counted]:
        """What a counter counted in what was not seen before. One that falls was reset, and counted to its value."""
        found = []
        for piece_times, piece_values, _, _ in self.fresh(series_id, times, values):
            step = np.diff(piece_values)
            by = np.where(step < 0, piece_values[1:], step)
            near = np.diff(piece_times) <= LONGEST_MS
            found.append(Counted(piece_times[:-1][near], piece_times[1:][near], by[near]))
        return found

    def levels(self, series_id: str, times: Ints, values: Floats) -> list[tuple[Ints, Floats]]:
        """Samples of a gauge that were not seen before."""
        found = []
        for piece_times, piece_values, begins_seen, ends_seen in self.fresh(series_id, times, values):
            own = slice(int(begins_seen), len(piece_times) - int(ends_seen))
            found.append((piece_times[own], piece_values[own]))
        return found
