"""Series of numbers for these tests, and what is found in them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from aftershock.pipeline.training.excursions import Finder
from aftershock.pipeline.training.number_events import Numbers
from aftershock.pipeline.training.number_rules import TrainingRules
from aftershock.pipeline.training.points import Excursion, Floats, Points
from aftershock.pipeline.training.step_series import Risen, limits_of

RULES: Final = TrainingRules()
LIMITS: Final = limits_of(RULES)


def points(values: Floats, samples: Floats | None = None, rates: Floats | None = None) -> Points:
    """A series whose steps count from 0, in seconds."""
    place = np.arange(values.size)
    unknown = np.full(values.size, np.nan)
    return Points(
        values,
        place,
        place * 1_000_000,
        place * 100,
        unknown if samples is None else samples,
        unknown,
        unknown if rates is None else rates,
    )


def found(what: str, series: Points, cuts: Sequence[int] = ()) -> list[Excursion]:
    """What counts in a series that comes in pieces."""
    finder = Finder(LIMITS[what])
    places = [0, *sorted(cuts), series.values.size]
    rises = [rise for begin, end in pairwise(places) for rise in finder.take(series.cut(begin, end))]
    rises += finder.rest()
    numbers = Numbers({}, RULES)
    return [rise for rise in rises if numbers.counts(Risen(what, ("log", 1), rise, None, None))]
