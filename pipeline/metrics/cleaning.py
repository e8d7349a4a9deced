"""Values that can be compared: without markers and sentinels, counters as rates, the last code as its changes.

A counter that falls was reset: what it shows then was counted since. DCGM says "no value" with numbers near the end of
its range. A scrape faster than the collector shows each value several times: it was measured once, and counts once.
Sums over series are never made here: each is cleaned by itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from aftershock.parsers.prometheus.columns import SeriesBatch
from aftershock.pipeline.metrics.window_join import Floats, Grid, Ints

GAUGE: Final = 0
COUNTER: Final = 1
LAST_CODE: Final = 2

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
    r"(?:_total|_sum|_count|_bucket)\Z|\Anode_vmstat_(?!nr_)\w+\Z|\Anode_netstat_(?!\w*CurrEstab\Z)\w+\Z"
    r"|\ADCGM_FI_DEV_(?:TOTAL_ENERGY_CONSUMPTION|PCIE_REPLAY_COUNTER"
    r"|ECC_\w+_TOTAL|NVLINK_\w+_(?:ERROR_COUNT|COUNT)_\w+|NVLINK_BANDWIDTH_TOTAL|\w+_VIOLATION|\w+_REMAPPED_ROWS)\Z"
)
# Gauges of the last code that was seen: they stay until another comes, and say nothing but when they change.
_LAST_CODE: Final = re.compile(r"\A(?:DCGM_FI_DEV_XID_ERRORS|nvidia_smi_xid_errors|nvml_xid_errors)\Z", re.IGNORECASE)

# A value is taken for a repeat only up to so many times: what stands still for longer did not change.
_MOST_REPEATS: Final = 4
# Fewer changes than this do not tell how often a collector collects.
_LEAST_RUNS: Final = 8


def kind_of(metric: str) -> int:
    """How the values of a metric are read, by the conventions of Prometheus and the names of DCGM."""
    if _LAST_CODE.match(metric):
        return LAST_CODE
    return COUNTER if _COUNTER.search(metric) else GAUGE


def is_counter(metric: str) -> bool:
    """Whether a metric only counts up."""
    return kind_of(metric) == COUNTER


def kinds_of(metrics: Sequence[str]) -> Ints:
    """The kinds of some metrics, as an array."""
    return np.array([kind_of(metric) for metric in metrics], np.int64)


def is_value(values: Floats) -> NDArray[np.bool_]:
    """Which samples are numbers that were measured: no markers, no other NaN, no infinities, no sentinels."""
    found: NDArray[np.bool_] = np.isfinite(values) & ~np.isin(values, _SENTINELS)
    return found


def cleaned(batch: SeriesBatch, kinds: Ints) -> Grid:
    """The samples of a batch as numbers. ``kinds``: of each series.

    Counters become rates per second, which stand at the time of the later of their two samples. The last code becomes
    the code where it changed, and 0 where it did not. Samples at the time of the one before them, and repeats of a
    value that was collected once, are left out.
    """
    number = np.repeat(np.arange(len(batch.labels), dtype=np.int64), np.diff(batch.begins))
    good = is_value(batch.values)
    number, times, values = number[good], batch.times[good], batch.values[good].astype(np.float64)
    again = np.zeros(len(number), bool)
    again[1:] = (number[1:] == number[:-1]) & (times[1:] <= times[:-1])
    number, times, values = number[~again], times[~again], values[~again]
    if len(values):
        once = ~_repeats(number, values, len(batch.labels))
        number, times, values = number[once], times[once], values[once]
        values, keep = _read(number, times, values, kinds)
        number, times, values = number[keep], times[keep], values[keep]
    begins = np.searchsorted(number, np.arange(len(batch.labels) + 1))
    return Grid(begins.astype(np.int64), times, values)


def _repeats(number: Ints, values: Floats, series: int) -> NDArray[np.bool_]:
    """Samples that show again what was collected once.

    In a series whose values never change twice within r samples, only every r-th of equal values is new.
    """
    starts = np.ones(len(values), bool)
    starts[1:] = (number[1:] != number[:-1]) | (values[1:] != values[:-1])
    at = np.flatnonzero(starts)
    length = np.diff(at, append=len(values))
    owner = number[at]
    # The first and the last run of a series may be cut.
    whole = np.zeros(len(at), bool)
    whole[1:-1] = (owner[1:-1] == owner[:-2]) & (owner[1:-1] == owner[2:])
    factor = np.ones(series, np.int64)
    runs = np.bincount(owner[whole], minlength=series)
    for repeats in range(2, _MOST_REPEATS + 1):
        long = np.bincount(owner[whole & (length >= repeats)], minlength=series)
        # Two clocks drift: now and then a scrape comes between two collections.
        factor[(runs >= _LEAST_RUNS) & (long >= 0.95 * runs)] = repeats
    place = np.arange(len(values)) - np.repeat(at, length)
    again: NDArray[np.bool_] = place % factor[number] != 0
    return again


def _read(number: Ints, times: Ints, values: Floats, kinds: Ints) -> tuple[Floats, NDArray[np.bool_]]:
    """Values as they are compared, and which of them there are: the first of a series has nothing before it."""
    kind = kinds[number]
    first = np.ones(len(number), bool)
    first[1:] = number[1:] != number[:-1]
    step = np.diff(values, prepend=values[:1])
    gone = np.where(step < 0, values, step)  # it was reset, and has counted to its value since
    span = np.diff(times, prepend=times[:1]) / _SECOND_MS
    with np.errstate(divide="ignore", invalid="ignore"):
        out = np.where(kind == COUNTER, gone / span, values)
    out = np.where(kind == LAST_CODE, np.where(step != 0, values, 0.0), out)
    return out, ~((kind != GAUGE) & first)
