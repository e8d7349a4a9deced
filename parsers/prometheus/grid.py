"""Whether samples are what was scraped, or what a server made up at the steps of a query.

An answer to ``query_range`` does not say that it is one: it has the same form as raw samples. Its times give it away.
All of its series stand on one grid, while every target is scraped at an offset of its own, and the grid begins at a
whole second as a rule. Values without a name of a metric were computed. The rest cannot be told: raw samples of one
target may be as regular.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from aftershock.parsers.prometheus.columns import NAME, Labels

RESAMPLED_NOTE: Final = (
    "looks resampled: values at the steps of a query, not those that were scraped; ask for raw ones with a range "
    "selector in an instant query: metric[1h]"
)
"""What to say about a source whose batches are ``resampled``."""

# No server is asked for finer steps over hours, and no two targets have the same offset to the millisecond.
_LEAST_STEP: Final = 1000
_LEAST_POINTS: Final = 3
_TARGET: Final = ("instance", "job")


class GridWatch:
    """Sees the times of all series of a source and says whether they look resampled."""

    def __init__(self) -> None:
        self._step = 0
        self._first: int | None = None
        self._most = 0
        self._targets: set[tuple[str, ...]] = set()
        self._computed = False

    def see(self, labels: Labels, times: NDArray[np.int64]) -> None:
        """Times of a series in milliseconds."""
        names = dict(labels) if len(self._targets) < 2 or not self._computed else None
        if names is not None:
            self._computed = self._computed or NAME not in names
            target = tuple(names.get(name, "") for name in _TARGET)
            # Values of rules stand at the times of their rule group.
            if any(target) and ":" not in names.get(NAME, "") and len(self._targets) < 2:
                self._targets.add(target)
        if not len(times):
            return
        if self._first is None:
            self._first = int(times[0])
        self._most = max(self._most, len(times))
        if self._step == 1:
            return
        steps = np.abs(times - self._first)
        self._step = math.gcd(self._step, int(np.gcd.reduce(steps)))

    def computed(self) -> None:
        """The values are those of an instant: the time is that of the question, not of the scrape."""
        self._computed = True

    @property
    def resampled(self) -> bool:
        """What it looks like so far."""
        if self._computed:
            return True
        if self._first is None or self._most < _LEAST_POINTS or self._step < _LEAST_STEP:
            return False
        return self._first % 1000 == 0 or len(self._targets) > 1
