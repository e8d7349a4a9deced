"""How ill the metrics of each host look in each cell of time.

Each metric is held against its own past in the same job and, where there are peers, against what they do in the same
cell; the smaller distance of both counts, so that phases of a job and a host that always was different cancel out. A
signal must stay for some cells, and several families of metrics must show one at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from aftershock.pipeline.metrics.alarm_rules import AlarmRules
from aftershock.pipeline.metrics.cells import LOW
from aftershock.pipeline.metrics.families import ABSENCE, MARKERS, OCCURRENCES, STRUCTURE, UP, family_of
from aftershock.pipeline.metrics.segments import Segment
from aftershock.pipeline.metrics.signal_cells import Feature, SignalCells
from aftershock.pipeline.metrics.window_join import Floats, Ints

_SCALE: Final = 1.4826
_OFTEN: Final = 0.1
# Peers fewer than this show nothing of what is usual.
_PEERS: Final = 4
# Cells that are looked at in one step: what is held is a matrix of hosts, metrics and these.
_CHUNK: Final = 4096
# More deviations than this are no more certain.
_MOST: Final = 1e4
# Where nothing came for so long nobody was watched, in seconds: it is no gap in what is watched.
_DARK_S: Final = 86_400
# So many of the series of a host must end at once to say something.
_ENDED: Final = 0.05


@dataclass(frozen=True)
class Candidates:
    """Cells of a host in which at least one signal stays in enough families. ``scores``: by cell and feature."""

    host: str
    cells: Ints
    scores: NDArray[np.float32]


@dataclass(frozen=True)
class Looked:
    """Which cells of a host could be judged, from its first cell on."""

    host: str
    first: int
    judged: NDArray[np.bool_]


class Scorer:
    """Scores of all hosts. ``features``: what stands in the columns of scores."""

    def __init__(self, signals: SignalCells, rules: AlarmRules) -> None:
        self._signals = signals
        self._rules = rules
        self.step_ms = signals.settle()
        self.first, self.end = signals.span()
        metrics = [one for one in signals.features() if one[0] != UP or one[1] == LOW]
        self.features: list[Feature] = [*metrics, (ABSENCE, LOW), (MARKERS, "high")]
        self.families = [family_of(name) for name, _ in self.features]
        self._baseline = max(10, round(rules.baseline_s * 1000 / self.step_ms))
        self._block = max(1, self._baseline // 4)
        self._least = max(10, self._baseline // 4)
        self._alive = self._counted_alive()
        self._dark = self._dark_times()

    def watched(self) -> dict[str, tuple[int, int]]:
        """From the first cell of each host to the end of all metrics: a host that is gone is still expected."""
        found = {}
        for host in self._signals.hosts():
            some = np.flatnonzero(self._signals.counts(ABSENCE, host, self.first, self.end))
            if len(some):
                found[host] = (self.first + int(some[0]), self.end)
        return found

    def _counted_alive(self) -> Floats:
        """The share of hosts of which anything came, among those that were ever heard of before."""
        alive, heard = np.zeros(self.end - self.first), np.zeros(self.end - self.first)
        for host in self._signals.hosts():
            came = self._signals.counts(ABSENCE, host, self.first, self.end) > 0
            alive += came
            heard += np.maximum.accumulate(came) if len(came) else came
        return alive / np.maximum(heard, 1)

    def scored(self, segments: Iterable[Segment]) -> Iterator[Candidates | Looked]:
        """The candidates of all segments, and which cells were judged."""
        size = max(1, _CHUNK // self._block) * self._block
        for segment in segments:
            for first, end in self._seen(segment.first, segment.end):
                at = first
                while at < end:
                    until = min(end, (at // size + 1) * size)
                    yield from self._chunk(segment, at, until)
                    at = until

    def _dark_times(self) -> list[tuple[int, int]]:
        """Cells in which nothing at all came for a long time: between two histories nobody was watched."""
        some = self.first + np.flatnonzero(self._alive)
        longest = _DARK_S * 1000 // self.step_ms
        return [(int(some[at]) + 1, int(some[at + 1])) for at in np.flatnonzero(np.diff(some) > longest).tolist()]

    def _seen(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts of [first, end) that are not dark."""
        for low, high in self._dark:
            if first < min(low, end):
                yield first, min(low, end)
            first = max(first, min(high, end))
        if first < end:
            yield first, end

    def _chunk(self, segment: Segment, at: int, until: int) -> Iterator[Candidates | Looked]:
        """Cells [at, until) of a segment, with what lies before them in it."""
        earliest = at - self._baseline - self._block - self._rules.of_cells
        # What is missing is missing after the end of a job, too: it may have ended for that.
        within, anyway = max(segment.first, earliest), max(self.first, earliest)
        shown = np.zeros((len(self.features), len(segment.hosts), until - at), np.float32)
        judged = np.zeros((len(segment.hosts), until - at), np.int64)
        for number, feature in enumerate(self.features):
            name = feature[0]
            begin = anyway if name in STRUCTURE else within
            if name in (ABSENCE, MARKERS):
                scores = self._structure(name, segment.hosts, begin, until)
            elif segment.works or name == UP:
                rows = [self._signals.of(feature, host, begin, until) for host in segment.hosts]
                scores = self._against(np.stack(rows), begin, peers=name != UP)
            else:
                continue
            stays = self._staying(np.nan_to_num(scores), self.families[number])
            shown[number] = stays[:, at - begin :]
            if name not in STRUCTURE:
                judged += ~np.isnan(scores[:, at - begin :])
        together = combined(shown, self.families, self._rules.families)
        for row, host in enumerate(segment.hosts):
            yield Looked(host, at, judged[row] > 0)
            cells = np.flatnonzero(together[row] >= self._rules.least_score)
            if len(cells):
                yield Candidates(host, at + cells, np.ascontiguousarray(shown[:, row, cells].T))

    def _against(self, values: Floats, begin: int, *, peers: bool) -> Floats:
        """Distances of values (hosts, cells) from their own past, or from the peers if that is less."""
        finest = _finest(values)
        away = np.full(values.shape, np.nan)
        cells = values.shape[1]
        start = 0
        while start < cells:
            stop = min(cells, ((begin + start) // self._block + 1) * self._block - begin)
            past = values[:, max(0, start - self._baseline) : start]
            middle, spread, count = _middles(past, 1)
            scale = _floored(middle, spread, finest)
            part = np.abs(values[:, start:stop] - middle[:, None]) / scale[:, None]
            part[count < self._least] = np.nan
            away[:, start:stop] = part
            start = stop
        if peers and len(values) >= _PEERS:
            middle, spread, count = _middles(values, 0)
            beside = np.abs(values - middle) / _floored(middle, spread, finest)
            beside[:, count < _PEERS] = np.inf
            away = np.minimum(away, beside)
        capped: Floats = np.minimum(away, _MOST)
        return capped

    def _structure(self, name: str, hosts: Sequence[str], begin: int, until: int) -> Floats:
        """Scores of what is missing: samples that did not come, and series that ended together."""
        counts = np.stack([self._signals.counts(ABSENCE, host, begin, until) for host in hosts])
        usual, spread, known = _middles(counts[:, : self._baseline], 1)
        usual = np.where(known < self._least, np.nan, usual)
        # Where most hosts are silent nobody looked.
        asked = self._alive[begin - self.first : until - self.first] >= 0.5
        if name == MARKERS:
            ended = np.stack([self._signals.counts(MARKERS, host, begin, until) for host in hosts])
            return np.where((ended > 0) & (ended >= _ENDED * np.nan_to_num(usual)[:, None]) & asked, _MOST, 0.0)
        scale = np.maximum(np.nan_to_num(spread) * _SCALE, np.maximum(np.nan_to_num(usual) * 0.01, 1e-9))
        fewer = np.nan_to_num((usual[:, None] - counts) / scale[:, None])
        silent = counts == 0
        # After a while silence is nothing new.
        longest = max(self._rules.of_cells, round(self._rules.refractory_s * 1000 / self.step_ms))
        fresh = silent & (_since(silent) < longest) & (np.nan_to_num(usual)[:, None] > 0)
        score = np.where(fresh, _MOST, np.where(silent, 0.0, np.clip(fewer, 0.0, _MOST)))
        return np.where(asked, score, 0.0)

    def _staying(self, scores: Floats, family: str) -> Floats:
        """The score that was reached in enough of the last cells: of occurrences, in one of them."""
        width = self._rules.of_cells
        padded = np.concatenate((np.zeros((len(scores), width - 1)), scores), axis=1)
        windows = sliding_window_view(padded, width, axis=1)
        if family in OCCURRENCES:
            return np.asarray(windows.max(axis=2), np.float64)
        kept = min(self._rules.persistence, width)
        return np.asarray(np.partition(windows, width - kept, axis=2)[:, :, width - kept], np.float64)


def combined(scores: NDArray[np.float32], families: Sequence[str], needed: int) -> NDArray[np.float32]:
    """The score that so many families reach, of scores with features along the first axis."""
    names = sorted(set(families))
    by_family = np.stack([scores[[at for at, own in enumerate(families) if own == name]].max(axis=0) for name in names])
    if needed > len(names):
        return np.zeros(by_family.shape[1:], np.float32)
    found: NDArray[np.float32] = np.partition(by_family, len(names) - needed, axis=0)[len(names) - needed]
    return found


def _middles(values: Floats, axis: int) -> tuple[Floats, Floats, Ints]:
    """Median and median absolute deviation along an axis, and of how many numbers."""
    count = np.sum(~np.isnan(values), axis=axis)
    middle = _median(values, axis, count)
    spread = _median(np.abs(values - np.expand_dims(middle, axis)), axis, count)
    return middle, spread, count


def _median(values: Floats, axis: int, count: Ints) -> Floats:
    if not values.shape[axis]:
        return np.full(count.shape, np.nan)
    ordered = np.sort(values, axis=axis)  # what is not a number comes last
    low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, values.shape[axis] - 1)
    pick = [np.take_along_axis(ordered, np.expand_dims(at, axis), axis).squeeze(axis) for at in (low, high)]
    return (pick[0] + pick[1]) / 2


def _finest(values: Floats) -> float:
    """The least step that a metric often makes."""
    steps = np.abs(np.diff(values, axis=1))
    moved = steps[steps > 0]
    return float(moved.min()) if len(moved) and len(moved) >= _OFTEN * np.sum(~np.isnan(steps)) else 0.0


def _floored(middle: Floats, spread: Floats, finest: float) -> Floats:
    scale: Floats = np.maximum(np.maximum(spread * _SCALE, finest), np.maximum(np.abs(middle) * 1e-3, 1e-9))
    return scale


def _since(silent: NDArray[np.bool_]) -> Ints:
    """For each cell how many cells of silence lie before it without a break."""
    at = np.arange(silent.shape[1])
    last: Ints = np.maximum.accumulate(np.where(silent, -1, at), axis=1)
    return at - last - 1
