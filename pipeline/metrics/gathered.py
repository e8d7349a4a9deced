"""Samples that events asked for, gathered series by series over all sources and blocks, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from aftershock.parsers.prometheus.columns import NAME, Labels, SeriesBatch
from aftershock.pipeline.metrics.identity import HOST_LABELS, PCI_LABELS, UUID_LABELS, Subject, Subjects
from aftershock.pipeline.metrics.replicas import merged
from aftershock.pipeline.metrics.spans import Spans, inside
from aftershock.pipeline.metrics.spool import MOST_TOGETHER, Piece, Spool
from aftershock.pipeline.metrics.window_join import Ints
from aftershock.schemas.ids import stable_id

# What tells two replicas of one server apart, and nothing else.
_REPLICA_LABELS: Final = frozenset({"replica", "prometheus_replica", "__replica__", "prometheus"})
# What names a host or GPU, or whoever watched it: series that differ in nothing else are of one kin.
_NAMING: Final = frozenset(
    {*HOST_LABELS, *UUID_LABELS, *PCI_LABELS, *_REPLICA_LABELS}
    | {"pod", "pod_name", "container", "container_name", "serial", "serial_number", "job_id", "address", "endpoint"}
)

# Things in common that are held; beyond, they are looked for anew.
_MOST_HELD: Final = 1 << 15


@dataclass(frozen=True, slots=True)
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
    return Acquaintances(subjects).of(labels, time)


class Acquaintances:
    """Series by their labels. What many have in common (host and GPU, their kin) is looked for and held once."""

    def __init__(self, subjects: Subjects) -> None:
        self._subjects = subjects
        self._about: dict[tuple[Labels, str, int], Subject] = {}
        self._kins: dict[Labels, str] = {}

    def of(self, labels: Labels, time: int = 0) -> Known:
        """A series, as it was at a time (milliseconds)."""
        kept = tuple(pair for pair in labels if pair[0] not in _REPLICA_LABELS)
        kept = labels if len(kept) == len(labels) else kept
        return Known(
            stable_id("series", *(word for pair in kept for word in pair)),
            next((value for name, value in kept if name == NAME), ""),
            kept,
            self._subject(kept, time),
            self._kin(tuple(pair for pair in kept if pair[0] not in _NAMING)),
            "" if kept is labels else "|".join(value for name, value in labels if name in _REPLICA_LABELS),
        )

    def _subject(self, labels: Labels, time: int) -> Subject:
        # Of the name of the metric only the exporter matters.
        name = next((value for name, value in labels if name == NAME), "")
        key = (tuple(pair for pair in labels if pair[0] != NAME), name.partition("_")[0], time)
        found = self._about.get(key)
        if found is None:
            if len(self._about) >= _MOST_HELD:
                self._about.clear()
            found = self._about[key] = self._subjects.of(dict(labels), time * 1000)
        return found

    def _kin(self, labels: Labels) -> str:
        found = self._kins.get(labels)
        if found is None:
            if len(self._kins) >= _MOST_HELD:
                self._kins.clear()
            found = self._kins[labels] = stable_id("kin", *(word for pair in labels for word in pair))
        return found


@dataclass
class Gathered:
    """Samples of the series of some hosts, inside the times that are wanted of each (milliseconds).

    spool: where they wait; by default in memory, as far as that goes.
    """

    wanted: Mapping[str, Spans]
    everything: bool = False
    spool: Spool = field(default_factory=Spool)
    series: list[Known] = field(default_factory=list)
    _number: dict[str, int] = field(default_factory=dict)
    of_labels: dict[Labels, Known] = field(default_factory=dict)
    _origins: dict[tuple[str, str], int] = field(default_factory=dict)
    _acquaintances: Acquaintances | None = None

    def known(self, labels: Labels, subjects: Subjects, time: int = 0) -> Known:
        """A series by its labels. Equal series of two replicas are one."""
        known = self.of_labels.get(labels)
        if known is None:
            if self._acquaintances is None:
                self._acquaintances = Acquaintances(subjects)
            known = self.of_labels[labels] = self._acquaintances.of(labels, time)
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
            origin = self._origins.setdefault((one.replica, source), len(self._origins))
            self.spool.put(Piece(number, origin, times[keep], batch.values[begin:end][keep]), self._name_of)

    def _name_of(self, number: int) -> str:
        return self.series[number].series_id

    def keeps(self, known: Known, times: Ints) -> NDArray[np.bool_]:
        """Which samples of a series are wanted."""
        if self.everything:
            return np.ones(len(times), bool)
        return inside(times, self.wanted.get(known.subject.host or "", ()))

    def groups(self, together: int = MOST_TOGETHER) -> Iterator[tuple[list[Known], SeriesBatch]]:
        """Everything that was kept, sorted by series id and time, once: some series at a time."""
        replicas = [replica for replica, _ in self._origins]
        order = sorted(range(len(self.series)), key=self._name_of)
        for numbers, pieces in self.spool.groups(order, together):
            by_series: dict[int, list[Piece]] = {}
            for piece in pieces:
                by_series.setdefault(piece.series, []).append(piece)
            if not by_series:
                continue
            there = [number for number in numbers if number in by_series]
            found = [merged(by_series[number], replicas) for number in there]
            known = [self.series[number] for number in there]
            begins = np.cumsum([0, *(len(times) for times, _ in found)]).astype(np.int64)
            times, values = (np.concatenate(column) for column in zip(*found, strict=True))
            yield known, SeriesBatch([one.labels for one in known], begins, times, values)

    def inside_windows(self, batch: SeriesBatch, known: Sequence[Known]) -> SeriesBatch:
        """Of everything what is wanted of each host: what is said of an event does not hang on what else is kept."""
        if not self.everything:
            return batch
        parts = [slice(int(begin), int(end)) for begin, end in zip(batch.begins[:-1], batch.begins[1:], strict=True)]
        masks = [
            inside(batch.times[part], self.wanted.get(one.subject.host or "", ()))
            for one, part in zip(known, parts, strict=True)
        ]
        keep = np.concatenate([np.zeros(0, bool), *masks])
        begins = np.cumsum([0, *(int(mask.sum()) for mask in masks)]).astype(np.int64)
        return SeriesBatch(batch.labels, begins, batch.times[keep], batch.values[keep])
