"""Samples that events asked for, gathered series by series over all sources and blocks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from aftershock.parsers.prometheus.columns import NAME, STALE_BITS, Labels, SeriesBatch
from aftershock.pipeline.metrics.identity import HOST_LABELS, PCI_LABELS, UUID_LABELS, Subject, Subjects
from aftershock.pipeline.metrics.spans import Spans, inside
from aftershock.pipeline.metrics.window_join import Floats, Ints
from aftershock.schemas.ids import stable_id

# What tells two replicas of one server apart, and nothing else.
_REPLICA_LABELS: Final = frozenset({"replica", "prometheus_replica", "__replica__", "prometheus"})
# What names a host or GPU, or whoever watched it: series that differ in nothing else are of one kin.
_NAMING: Final = frozenset(
    {*HOST_LABELS, *UUID_LABELS, *PCI_LABELS, *_REPLICA_LABELS}
    | {"pod", "pod_name", "container", "container_name", "serial", "serial_number", "job_id", "address", "endpoint"}
)
# A replica fills in for another where that has nothing for as many of its own intervals.
_GAP: Final = 3.0

_Piece = tuple[int, int, Ints, Floats]


@dataclass(frozen=True)
class Known:
    """A series: its id, the name of its metric, its labels without those of replicas, and what it is about.

    kin: the same for the like of it on other hosts. replica: which of several servers scraped it.
    """

    series_id: str
    metric: str
    labels: Labels
    subject: Subject
    kin: str = ""
    replica: str = ""


def known_of(labels: Labels, subjects: Subjects, time: int = 0) -> Known:
    """A series by its labels, as it was at a time (milliseconds)."""
    kept = tuple((name, value) for name, value in labels if name not in _REPLICA_LABELS)
    values = dict(kept)
    return Known(
        stable_id("series", *(word for pair in kept for word in pair)),
        values.get(NAME, ""),
        kept,
        subjects.of(values, time * 1000),
        stable_id("kin", *(word for pair in kept if pair[0] not in _NAMING for word in pair)),
        "|".join(value for name, value in labels if name in _REPLICA_LABELS),
    )


@dataclass
class Gathered:
    """Samples of the series of some hosts, inside the times that are wanted of each (milliseconds)."""

    wanted: Mapping[str, Spans]
    everything: bool = False
    series: list[Known] = field(default_factory=list)
    _number: dict[str, int] = field(default_factory=dict)
    of_labels: dict[Labels, Known] = field(default_factory=dict)
    _replicas: dict[tuple[str, str], int] = field(default_factory=dict)
    _pieces: list[_Piece] = field(default_factory=list)

    def known(self, labels: Labels, subjects: Subjects, time: int = 0) -> Known:
        """A series by its labels. Equal series of two replicas are one."""
        known = self.of_labels.get(labels)
        if known is None:
            known = self.of_labels[labels] = known_of(labels, subjects, time)
        return known

    def add(self, batch: SeriesBatch, known: Sequence[Known], source: str = "") -> None:
        """Keep of a batch what is wanted. ``known``: its series, in their order. ``source``: where it was read."""
        for at, one in enumerate(known):
            if not self.everything and (one.subject.host or "") not in self.wanted:
                continue
            begin, end = int(batch.begins[at]), int(batch.begins[at + 1])
            times = batch.times[begin:end]
            keep = self.keeps(one, times)
            if not keep.any():
                continue
            number = self._number.get(one.series_id)
            if number is None:
                number = self._number[one.series_id] = len(self.series)
                self.series.append(one)
            replica = self._replicas.setdefault((one.replica, source), len(self._replicas))
            self._pieces.append((number, replica, times[keep], batch.values[begin:end][keep]))

    def keeps(self, known: Known, times: Ints) -> NDArray[np.bool_]:
        """Which samples of a series are wanted."""
        if self.everything:
            return np.ones(len(times), bool)
        return inside(times, self.wanted.get(known.subject.host or "", ()))

    def batch(self) -> SeriesBatch:
        """Everything that was kept, sorted by series id and time, once; ``series`` is in that order."""
        order = sorted(range(len(self.series)), key=lambda number: self.series[number].series_id)
        pieces: dict[int, list[_Piece]] = defaultdict(list)
        for piece in self._pieces:
            pieces[piece[0]].append(piece)
        self._pieces = []
        merged = [_merged(pieces[number]) for number in order]
        self.series = [self.series[number] for number in order]
        self._number = {one.series_id: number for number, one in enumerate(self.series)}
        begins = np.cumsum([0, *(len(times) for times, _ in merged)]).astype(np.int64)
        times = np.concatenate([np.zeros(0, np.int64), *(piece[0] for piece in merged)])
        values = np.concatenate([np.zeros(0), *(piece[1] for piece in merged)])
        return SeriesBatch([one.labels for one in self.series], begins, times, values)

    def inside_windows(self, batch: SeriesBatch) -> SeriesBatch:
        """Of everything what is wanted of each host: what is said of an event does not hang on what else is kept."""
        if not self.everything:
            return batch
        parts = [slice(int(begin), int(end)) for begin, end in zip(batch.begins[:-1], batch.begins[1:], strict=True)]
        masks = [
            inside(batch.times[part], self.wanted.get(one.subject.host or "", ()))
            for one, part in zip(self.series, parts, strict=True)
        ]
        keep = np.concatenate([np.zeros(0, bool), *masks])
        begins = np.cumsum([0, *(int(mask.sum()) for mask in masks)]).astype(np.int64)
        return SeriesBatch(batch.labels, begins, batch.times[keep], batch.values[keep])


def _merged(pieces: Sequence[_Piece]) -> tuple[Ints, Floats]:
    """The samples of one series in the order of time, equal times once.

    Of several replicas the one that saw most is kept, and the others where it has a gap: two that scrape in turns
    would double what was measured, and make resets of counters.
    """
    by_replica: dict[int, list[_Piece]] = defaultdict(list)
    for piece in pieces:
        by_replica[piece[1]].append(piece)
    sorted_ones = [_in_order(own) for own in by_replica.values()]
    # Of copies that saw the same, the one that still tells markers of staleness from other NaN.
    sorted_ones.sort(key=lambda one: (-len(one[0]), -int(np.sum(one[1].view(np.uint64) == STALE_BITS))))
    times, values = sorted_ones[0]
    for others, their_values in sorted_ones[1:]:
        usual = float(np.median(np.diff(times))) if len(times) > 2 else 0.0
        after = np.searchsorted(times, others, side="right")
        padded = np.concatenate(([-(1 << 62)], times, [1 << 62]))
        # Samples in a gap, and not so near to its edges that they are the other's own.
        near = np.minimum(others - padded[after], padded[after + 1] - others)
        fills = (padded[after + 1] - padded[after] > _GAP * usual) & (near > usual / 2)
        times, values = _in_order([(0, 0, times, values), (0, 0, others[fills], their_values[fills])])
    return times, values


def _in_order(pieces: Sequence[_Piece]) -> tuple[Ints, Floats]:
    times = np.concatenate([piece[2] for piece in pieces])
    values = np.concatenate([piece[3] for piece in pieces])
    order = np.argsort(times, kind="stable")
    times, values = times[order], values[order]
    first = np.ones(len(times), bool)
    first[1:] = times[1:] != times[:-1]
    return times[first], values[first]
