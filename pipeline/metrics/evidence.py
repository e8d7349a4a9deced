"""Evidence: what each series of a host did around an event, against its own past and against its peers.

The baseline is the time before the window. Its scale is the median absolute deviation, and never less than the
resolution of the series: a gauge that never moved would make a crossing of any change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from aftershock.pipeline.metrics.asked import Asked, window_ms
from aftershock.pipeline.metrics.gathered import Known
from aftershock.pipeline.metrics.peers import Peers
from aftershock.pipeline.metrics.rules import WindowRules
from aftershock.pipeline.metrics.window_join import Floats, Grid, Ints, medians
from aftershock.schemas.metrics import Evidence

# Of a normal distribution the standard deviation is this many median absolute deviations.
_SCALE: Final = 1.4826
# Fewer samples than this are no baseline.
_LEAST: Final = 5


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
    scale = np.maximum(spread * _SCALE, _resolution(middle))
    rows: list[Evidence] = []
    for at, (number, place) in enumerate(pairs):
        n = int(base_end[at] - base_begin[at])
        row = _row(asked[number], known[place], n)
        if n >= _LEAST and end[at] > begin[at]:
            inside = slice(int(begin[at]), int(end[at]))
            _fill(row, asked[number], grid.times[inside], grid.values[inside], middle[at], spread[at], scale[at], rules)
            _against_peers(row, number, known[place], grid.times[inside], grid.values[inside], middle[at], peers)
        elif n:
            row.baseline_median, row.baseline_mad = float(middle[at]), float(spread[at])
        rows.append(row)
    return rows


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
    if event.gpu_uuid and subject.gpu_uuid:
        return event.gpu_uuid == subject.gpu_uuid
    if event.pci and subject.pci:
        return event.pci == subject.pci
    if event.gpu_index is not None and subject.gpu_index is not None:
        return event.gpu_index == subject.gpu_index
    return True


def _resolution(middle: Floats) -> Floats:
    """Less than this around a level is no deviation, however still the series was."""
    floor: NDArray[np.float64] = np.maximum(np.abs(np.nan_to_num(middle)) * 1e-3, 1e-6)
    return floor


def _row(one: Asked, series: Known, n: int) -> Evidence:
    return Evidence(
        event_id=one.event_id,
        series_id=series.series_id,
        metric=series.metric,
        host=one.host,
        gpu_uuid=series.subject.gpu_uuid,
        n_baseline=n,
    )


def _fill(
    row: Evidence,
    one: Asked,
    times: Ints,
    values: Floats,
    middle: float,
    spread: float,
    scale: float,
    rules: WindowRules,
) -> None:
    away = (values - middle) / scale
    peak = int(np.argmax(np.abs(away)))
    row.baseline_median, row.baseline_mad = float(middle), float(spread)
    row.peak_value = float(values[peak])
    row.robust_z = float(away[peak])
    crossing = _first_crossing(np.abs(away) >= rules.crossing_z, int(rules.persistence))
    if crossing is not None:
        row.first_crossing_time = int(times[crossing]) * 1000
        row.lead_s = (one.time - row.first_crossing_time) / 1e6


def _first_crossing(beyond: NDArray[np.bool_], persistence: int) -> int | None:
    """The first of as many samples in a row that lie beyond; at the end of the window fewer will do."""
    run = 0
    for at, is_beyond in enumerate(beyond):
        run = run + 1 if is_beyond else 0
        if run >= persistence:
            return at - run + 1
    return len(beyond) - run if run else None


def _against_peers(
    row: Evidence, number: int, series: Known, times: Ints, values: Floats, middle: float, peers: Peers
) -> None:
    peak = int(np.argmax(np.abs(values - middle)))
    row.peer_z = peers.z_at(number, series.metric, int(times[peak]), float(values[peak]))
