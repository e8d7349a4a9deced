"""Values that can be compared: without markers and sentinels, counters as rates.

A counter that falls was reset: what it shows then was counted since. DCGM says "no value" with numbers near the end of
its range. Sums over series are never made here: each is cleaned by itself.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from aftershock.parsers.prometheus.columns import SeriesBatch
from aftershock.pipeline.metrics.window_join import Grid

_SECOND_MS: Final = 1000.0

# What DCGM prints where it has no value: blank, not found, not supported, no permission.
_SENTINELS: Final = np.array(
    [
        *(float(0x7FFF_FFF0 + i) for i in range(4)),
        float(0x7FFF_FFFF_FFFF_FFF0),
        *(float(2**47 + i) for i in range(4)),
    ]
)
_COUNTER: Final = re.compile(
    r"(?:_total|_sum|_count|_bucket)\Z|\ADCGM_FI_DEV_(?:TOTAL_ENERGY_CONSUMPTION|PCIE_REPLAY_COUNTER"
    r"|ECC_\w+_TOTAL|NVLINK_\w+_(?:ERROR_COUNT|COUNT)_\w+|NVLINK_BANDWIDTH_TOTAL|\w+_VIOLATION|ROW_REMAP\w*|\w+_REMAPPED_ROWS)\Z"
)


def is_counter(metric: str) -> bool:
    """Whether a metric only counts up, by the conventions of Prometheus and the names of DCGM."""
    return _COUNTER.search(metric) is not None


def cleaned(batch: SeriesBatch, counters: NDArray[np.bool_]) -> Grid:
    """The samples of a batch as numbers; the series that ``counters`` marks as rates per second.

    A rate stands at the time of the later of its two samples. Samples at the time of the one before them are left
    out: two replicas, or a server that keeps both.
    """
    number = np.repeat(np.arange(len(batch.labels), dtype=np.int64), np.diff(batch.begins))
    good = np.isfinite(batch.values) & ~np.isin(batch.values, _SENTINELS)
    again = np.zeros(len(good), bool)
    again[1:] = (number[1:] == number[:-1]) & (batch.times[1:] <= batch.times[:-1])
    keep = good & ~again
    number, times, values = number[keep], batch.times[keep], batch.values[keep].astype(np.float64)
    if counters.any() and len(values):
        number, times, values = _rates(number, times, values, counters)
    begins = np.searchsorted(number, np.arange(len(batch.labels) + 1))
    return Grid(begins.astype(np.int64), times, values)


def _rates(
    number: NDArray[np.int64], times: NDArray[np.int64], values: NDArray[np.float64], counters: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    counted = counters[number]
    first = np.ones(len(number), bool)
    first[1:] = number[1:] != number[:-1]
    step = np.diff(values, prepend=values[:1])
    step = np.where(step < 0, values, step)  # it was reset, and has counted to its value since
    span = np.diff(times, prepend=times[:1]) / _SECOND_MS
    with np.errstate(divide="ignore", invalid="ignore"):
        out = np.where(counted, step / span, values)
    keep = ~(counted & first)
    return number[keep], times[keep], out[keep]
