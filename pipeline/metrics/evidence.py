"""Evidence: what each series of a host did around an event, against its own past and against its peers.

The baseline is the time before the window. Its scale is the median absolute deviation, and never less than the
resolution of the series: in a gauge of whole numbers one more is no deviation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from aftershock.pipeline.metrics.asked import Asked, window_ms
from aftershock.pipeline.metrics.cleaning import GAUGE, kind_of
from aftershock.pipeline.metrics.gathered import Known
from aftershock.pipeline.metrics.peers import Peers
from aftershock.pipeline.metrics.rules import WindowRules
from aftershock.pipeline.metrics.window_join import Floats, Grid, Ints, medians
from aftershock.schemas.metrics import Evidence

# Of a normal distribution the standard deviation is this many median absolute deviations.
_SCALE: Final = 1.4826
# Fewer samples than this are no baseline.
_LEAST: Final = 5
# A series that moves in at least this share of its steps shows how fine its values are.
_OFTEN: Final = 0.1


def evidence_of(
    asked: Sequence[Asked], known: Sequence[Known], grid: Grid, peers: Peers, rules: WindowRules
) -> list[Evidence]:
    """A row for each event and series of its host (of its GPU, where both are known), in that order."""
    pairs = _pairs(asked, known)
    if not pairs:
        return []
    event = np.array([pair[0] for pair in pairs], np.int64)
    series = np.array([pair[1] for pair in pairs], np.int64)
    windows = np.array([window_ms(one, rules) for one in asked], np.int64)[event]
    base_begin, base_end = grid.slices(series, windows[:, 0], windows[:, 1])
    middle, spread = medians(grid.values, base_begin, base_end)
    begin, end = grid.slices(series, windows[:, 1], windows[:, 3])
    rows: list[Evidence] = []
    for at, (number, place) in enumerate(pairs):
        n = int(base_end[at] - base_begin[at])
        row = _row(asked[number], known[place], n)
        if n:
            row.baseline_median, row.baseline_mad = float(middle[at]), float(spread[at])
        if n >= _LEAST and end[at] > begin[at]:
            base = Baseline.of(grid.values[base_begin[at] : base_end[at]], float(middle[at]), float(spread[at]))
            inside = slice(int(begin[at]), int(end[at]))
            _fill(row, asked[number], grid.times[inside], grid.values[inside], base, rules)
            row.peer_z = _against_peers(number, known[place], grid.times[inside], grid.values[inside], base, peers)
        rows.append(row)
    return rows


@dataclass(frozen=True)
class Baseline:
    """What is usual in a series. ``scale``: a deviation of one. ``still``: it never moved."""

    middle: float
    scale: float
    still: bool

    @classmethod
    def of(cls, values: Floats, middle: float, spread: float) -> Baseline:
        """The baseline of some values whose median and median absolute deviation are known."""
        steps = np.abs(np.diff(values))
        moved = steps[steps > 0]
        # Less than the least step that it often makes is no deviation. One that hardly moved may have any resolution.
        least = float(moved.min()) if len(moved) >= _OFTEN * len(steps) and len(moved) else 0.0
        floor = max(abs(middle) * 1e-3, 1e-6)
        return cls(middle, max(spread * _SCALE, least, floor), not len(moved))

    def away(self, values: Floats) -> Floats:
        """How far values lie from it, in deviations."""
        away: Floats = (values - self.middle) / self.scale
        return away


def _pairs(asked: Sequence[Asked], known: Sequence[Known]) -> list[tuple[int, int]]:
    by_host: dict[str, list[int]] = defaultdict(list)
    for place, one in enumerate(known):
        if one.subject.host:
            by_host[one.subject.host].append(place)
    return [
        (number, place)
        for number, one in enumerate(asked)
        for place in by_host.get(one.host, ())
        if is_about(one, known[place])
    ]


def is_about(event: Asked, series: Known) -> bool:
    """Whether a series of the host is about the GPU of the event, or about the host; if either is unknown it may be."""
    subject = series.subject
    uuid = subject.uuid_at(event.time)
    if event.gpu_uuid and uuid:
        return event.gpu_uuid == uuid
    if event.pci and subject.pci:
        return event.pci == subject.pci
    if event.gpu_index is not None and subject.gpu_index is not None:
        return event.gpu_index == subject.gpu_index
    return True


def _row(one: Asked, series: Known, n: int) -> Evidence:
    return Evidence(
        event_id=one.event_id,
        series_id=series.series_id,
        metric=series.metric,
        host=one.host,
        gpu_uuid=series.subject.uuid_at(one.time),
        n_baseline=n,
    )


def _fill(row: Evidence, one: Asked, times: Ints, values: Floats, base: Baseline, rules: WindowRules) -> None:
    away = base.away(values)
    peak = int(np.argmax(np.abs(away)))
    row.peak_value = float(values[peak])
    row.robust_z = float(away[peak])
    # What counts occurrences shows each of them in one sample; levels that are noisy must stay for some.
    once = base.still and base.middle == 0 and kind_of(row.metric or "") != GAUGE
    crossing = first_crossing(np.abs(away) >= rules.crossing_z, 1 if once else int(rules.persistence))
    if crossing is not None:
        row.first_crossing_time = int(times[crossing]) * 1000
        row.lead_s = (one.time - row.first_crossing_time) / 1e6


def first_crossing(beyond: NDArray[np.bool_], persistence: int) -> int | None:
    """The first of as many samples in a row that lie beyond; at the end of the window fewer will do."""
    # Behind the end everything is beyond, but no run begins there.
    padded = np.concatenate((beyond, np.ones(persistence, bool))).astype(np.int64)
    sums = np.concatenate(([0], np.cumsum(padded)))
    at = np.flatnonzero(sums[persistence : persistence + len(beyond)] - sums[: len(beyond)] == persistence)
    return int(at[0]) if len(at) else None


def _against_peers(
    number: int, series: Known, times: Ints, values: Floats, base: Baseline, peers: Peers
) -> float | None:
    peak = int(np.argmax(np.abs(base.away(values))))
    return peers.z_at(number, series.kin, int(times[peak]), float(values[peak]))
