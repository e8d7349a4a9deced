"""Samples that events asked for, gathered series by series over all sources and blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from aftershock.parsers.prometheus.columns import NAME, Labels, SeriesBatch
from aftershock.pipeline.metrics.identity import Subject, Subjects
from aftershock.schemas.ids import stable_id

# What tells two replicas of one server apart, and nothing else.
_REPLICA_LABELS: Final = frozenset({"replica", "prometheus_replica", "__replica__", "prometheus"})

Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Known:
    """A series: its id, the name of its metric, its labels without those of replicas, and what it is about."""

    series_id: str
    metric: str
    labels: Labels
    subject: Subject


@dataclass
class Gathered:
    """Samples of the series of some hosts, inside the times that are wanted of each (milliseconds)."""

    wanted: Mapping[str, Spans]
    everything: bool = False
    series: list[Known] = field(default_factory=list)
    unmatched: int = 0
    _number: dict[str, int] = field(default_factory=dict)
    _of_labels: dict[Labels, Known] = field(default_factory=dict)
    _pieces: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]] = field(default_factory=list)

    def known(self, labels: Labels, subjects: Subjects) -> Known:
        """A series by its labels. Equal series of two replicas are one."""
        known = self._of_labels.get(labels)
        if known is None:
            kept = tuple((name, value) for name, value in labels if name not in _REPLICA_LABELS)
            values = dict(kept)
            subject = subjects.of(values)
            flat = [word for pair in kept for word in pair]
            known = Known(stable_id("series", *flat), values.get(NAME, ""), kept, subject)
            self._of_labels[labels] = known
            self.unmatched += subject.host is None
        return known

    def add(self, batch: SeriesBatch, known: Sequence[Known]) -> None:
        """Keep of a batch what is wanted. ``known``: its series, in their order."""
        for at, one in enumerate(known):
            spans = self.wanted.get(one.subject.host or "")
            if spans is None and not self.everything:
                continue
            begin, end = int(batch.begins[at]), int(batch.begins[at + 1])
            times = batch.times[begin:end]
            keep = np.ones(len(times), bool) if self.everything else _inside(times, spans or ())
            if not keep.any():
                continue
            number = self._number.get(one.series_id)
            if number is None:
                number = self._number[one.series_id] = len(self.series)
                self.series.append(one)
            kept = times[keep]
            self._pieces.append((np.full(len(kept), number, np.int64), kept, batch.values[begin:end][keep]))

    def batch(self) -> SeriesBatch:
        """Everything that was kept, sorted by series id and time, equal times once; ``series`` is in that order."""
        order = sorted(range(len(self.series)), key=lambda number: self.series[number].series_id)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        self.series = [self.series[number] for number in order]
        self._number = {one.series_id: number for number, one in enumerate(self.series)}
        if not self._pieces:
            nothing = np.zeros(0, np.int64)
            return SeriesBatch((), np.zeros(1, np.int64), nothing, np.zeros(0))
        number = place[np.concatenate([piece[0] for piece in self._pieces])]
        times = np.concatenate([piece[1] for piece in self._pieces])
        values = np.concatenate([piece[2] for piece in self._pieces])
        self._pieces = []
        by = np.lexsort((times, number))
        number, times, values = number[by], times[by], values[by]
        first = np.ones(len(times), bool)
        first[1:] = (number[1:] != number[:-1]) | (times[1:] != times[:-1])
        number, times, values = number[first], times[first], values[first]
        begins = np.searchsorted(number, np.arange(len(self.series) + 1)).astype(np.int64)
        return SeriesBatch([one.labels for one in self.series], begins, times, values)


def _inside(times: NDArray[np.int64], spans: Spans) -> NDArray[np.bool_]:
    begins = np.array([span[0] for span in spans], np.int64)
    ends = np.array([span[1] for span in spans], np.int64)
    at = np.searchsorted(begins, times, side="right") - 1
    inside: NDArray[np.bool_] = (at >= 0) & (times < ends[np.maximum(at, 0)])
    return inside
