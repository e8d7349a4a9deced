"""Series made by hand, as a reader gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from aftershock.parsers.prometheus.columns import NAME, STALE_BITS, Labels, SeriesBatch

STALE = float(np.array([STALE_BITS], np.uint64).view(np.float64)[0])
SECOND = 1000
MINUTE = 60 * SECOND
# Some moment, in milliseconds since 1970.
START = 1_772_366_400_000


def labels(metric: str, **others: str) -> Labels:
    return tuple(sorted({NAME: metric, **others}.items()))


def batch(series: Mapping[Labels, Sequence[tuple[int, float]]]) -> SeriesBatch:
    """Times are milliseconds after ``START``."""
    rows = list(series.values())
    begins = np.cumsum([0, *(len(samples) for samples in rows)]).astype(np.int64)
    flat = [sample for samples in rows for sample in samples]
    times = np.array([START + time for time, _ in flat], np.int64)
    # Through whole numbers, so that the bits of a marker stay as they are.
    values = np.array([value for _, value in flat], np.float64)
    return SeriesBatch(list(series), begins, times, values)


def every(step: int, values: Sequence[float], begin: int = 0) -> list[tuple[int, float]]:
    """A sample each ``step`` milliseconds."""
    return [(begin + at * step, value) for at, value in enumerate(values)]
