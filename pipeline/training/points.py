"""Points of a series, and what an excursion in it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# No time.
NEVER: Final = np.iinfo(np.int64).min
# Values of an excursion that its level is the median of.
_LEVEL_OF: Final = 1024


class Points(NamedTuple):
    """Some values of a series, all arrays of one length.

    times: microseconds UTC, or ``NEVER``. offsets: of their lines. samples, tokens: since the beginning. rates: what
    times the value is the work of a step. These three are NaN where they are not known.
    """

    values: Floats
    steps: Ints
    times: Ints
    offsets: Ints
    samples: Floats
    tokens: Floats
    rates: Floats

    def cut(self, begin: int, end: int | None = None) -> Points:
        """Some of them in a row."""
        return Points._make(array[begin:end] for array in self)

    def then(self, other: Points) -> Points:
        """These and those behind them."""
        return Points._make(np.concatenate(both) for both in zip(self, other, strict=True))

    def work(self) -> Floats:
        """What was done for a step, in samples, in tokens, and by the rate; medians, NaN where it is not known."""
        apart = np.diff(self.steps)
        samples, tokens = np.diff(self.samples) / apart, np.diff(self.tokens) / apart
        return np.array([_median(samples), _median(tokens), _median(self.values * self.rates)])


@dataclass(frozen=True)
class Limits:
    """What makes an excursion. ``block``: values that tell what is usual. ``window``, ``need``: so many of so many in a
    row are above, or back.

    rise: its share of what is usual, and of the highest median of so many blocks as ``memory`` says.
    spreads, of_first: so many spreads, and the share of the first block's median.
    back: what is no higher than this share of the height of the threshold is back.
    check: after so many values it is looked at whether the work is still the same. longest: after so many it ends.
    same_work: by which share the work may differ.
    """

    block: int
    window: int
    need: int
    rise: float
    spreads: float
    memory: int = 2
    back: float = 0.5
    of_first: float = 0.0
    check: int = 1 << 62
    longest: int = 1 << 62
    same_work: float = 0.03


BACK, OPEN, LONGEST = "back", "open", "longest"


class Usual(NamedTuple):
    """What is usual: the median of a block, the highest of some, and the threshold of an excursion. ``back``: what is
    no more than this is usual again."""

    median: float
    highest: float
    threshold: float
    back: float


NOTHING: Final = Usual(np.nan, -np.inf, np.inf, np.nan)


@dataclass
class Excursion:
    """``end``: how it ended. ``before``: what was usual.

    first, last, peak: places in the series (step, time, offset), ``back_step``: of the first value that was back.
    """

    before: Usual
    work: Floats
    begin: int
    end: str = OPEN
    count: int = 0
    first_step: int = 0
    first_time: int = NEVER
    offset: int = 0
    last_step: int = 0
    last_time: int = NEVER
    back_step: int | None = None
    peak: float = -np.inf
    peak_step: int = 0
    checked: bool = False
    sample: list[Points] = field(default_factory=list)

    @property
    def usual(self) -> float:
        """The median before it."""
        return self.before.median

    @property
    def level(self) -> float:
        """The median of its first values."""
        return float(np.median(np.concatenate([points.values for points in self.sample])))

    def add(self, points: Points) -> None:
        """Take the values behind those that it has."""
        if not points.values.size:
            return
        if not self.count:
            self.first_step, self.first_time = int(points.steps[0]), int(points.times[0])
            self.offset = int(points.offsets[0])
        room = max(0, _LEVEL_OF - self.count)
        if room:
            self.sample.append(points.cut(0, room))
        self.count += points.values.size
        self.last_step = int(points.steps[-1])
        known = points.times[points.times != NEVER]
        self.last_time = int(known[-1]) if known.size else self.last_time
        highest = int(points.values.argmax())
        if points.values[highest] > self.peak:
            self.peak, self.peak_step = float(points.values[highest]), int(points.steps[highest])

    def same_work(self, most: float) -> bool:
        """Whether its steps did the same work as those before, as far as that is known."""
        before, now = self._works()
        return bool((np.abs(now - before) <= most * before).all())

    @property
    def knows_work(self) -> bool:
        """Whether it is known what its steps and those before did."""
        return self._works()[0].size > 0

    def _works(self) -> tuple[Floats, Floats]:
        """Kinds of work that are known before it and in it."""
        now = reduce(Points.then, self.sample).work()
        known = np.isfinite(now) & np.isfinite(self.work) & (self.work > 0)
        return self.work[known], now[known]


def _median(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else np.nan
