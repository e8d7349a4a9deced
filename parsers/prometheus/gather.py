"""Samples that come in pieces, put together to batches: series by series, in time order within each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from aftershock.parsers.prometheus.columns import NAME, Histogram, Labels, SeriesBatch, Wanted

# A batch of this many samples takes a few megabytes; series without many samples cost more than their samples.
_FULL_SAMPLES: Final = 1 << 18
_FULL_SERIES: Final = 1 << 13

Buckets = tuple[tuple[float, float, float], ...]


class Gather:
    """Takes pieces of series in any order; gives batches. What nobody wants is left out as it comes."""

    def __init__(self, wanted: Wanted) -> None:
        self._metrics = wanted.metrics
        self._spans = wanted.spans
        self._clear()

    def _clear(self) -> None:
        self._series: dict[Labels, int] = {}
        self._pieces: list[list[tuple[NDArray[np.int64], NDArray[np.float64]]]] = []
        self._histograms: list[Histogram] = []
        self._size = 0

    def wants(self, labels: Labels) -> bool:
        """Whether samples of this series are asked for."""
        if self._metrics is None:
            return True
        name = next((value for key, value in labels if key == NAME), "")
        return name in self._metrics

    @property
    def full(self) -> bool:
        """Whether it is time to take a batch."""
        return self._size >= _FULL_SAMPLES or len(self._series) >= _FULL_SERIES

    def add(self, labels: Labels, times: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Samples of one series: milliseconds and values, in any order."""
        if not self.wants(labels):
            return
        if self._spans is not None and len(times):
            times, values = self._within(times, values)
        if len(times):
            self._pieces[self._number(labels)].append((times, values))
            self._size += len(times)

    def add_histogram(self, labels: Labels, time: int, count: float, total: float, buckets: Buckets) -> None:
        """A native histogram: count and sum become samples of series of their own, named as those of classic ones."""
        if not self.wants(labels) or (self._spans is not None and not _is_in(time, self._spans)):
            return
        self._histograms.append(Histogram(self._number(labels), time, buckets))
        self._size += 8 + 3 * len(buckets)
        for suffix, value in (("_count", count), ("_sum", total)):
            own = tuple((key, text + suffix if key == NAME else text) for key, text in labels)
            self._pieces[self._number(own)].append((np.array([time]), np.array([value])))

    def _number(self, labels: Labels) -> int:
        number = self._series.get(labels)
        if number is None:
            number = self._series[labels] = len(self._pieces)
            self._pieces.append([])
        return number

    def _within(
        self, times: NDArray[np.int64], values: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        assert self._spans is not None
        if not self._spans:
            return times[:0], values[:0]
        begins = np.array([begin for begin, _ in self._spans])
        ends = np.array([end for _, end in self._spans])
        at = np.searchsorted(begins, times, side="right") - 1
        kept = (at >= 0) & (times < ends[at])
        return (times, values) if kept.all() else (times[kept], values[kept])

    def take(self, *, resampled: bool = False) -> SeriesBatch | None:
        """All that is here, as a batch; None if there is nothing."""
        if not self._series:
            return None
        times: list[NDArray[np.int64]] = []
        values: list[NDArray[np.float64]] = []
        for pieces in self._pieces:
            own_times, own_values = _joined(pieces)
            times.append(own_times)
            values.append(own_values)
        batch = SeriesBatch(
            labels=tuple(self._series),
            begins=np.cumsum([0, *(len(own) for own in times)], dtype=np.int64),
            times=np.concatenate(times),
            values=np.concatenate(values),
            resampled=resampled,
            histograms=tuple(self._histograms),
        )
        self._clear()
        return batch


def _is_in(time: int, spans: Sequence[tuple[int, int]]) -> bool:
    return any(begin <= time < end for begin, end in spans)


def _joined(
    pieces: list[tuple[NDArray[np.int64], NDArray[np.float64]]],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The samples of a series in time order; of those of one time the first comes first."""
    if not pieces:
        return np.empty(0, np.int64), np.empty(0, np.float64)
    times = pieces[0][0] if len(pieces) == 1 else np.concatenate([one for one, _ in pieces])
    values = pieces[0][1] if len(pieces) == 1 else np.concatenate([one for _, one in pieces])
    if len(times) > 1 and not (times[1:] >= times[:-1]).all():
        order = np.argsort(times, kind="stable")
        times, values = times[order], values[order]
    return times, values
