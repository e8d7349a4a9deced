"""How far many local clocks are ahead of UTC, all at once: what :mod:`aftershock.parsers.resolve` does one by one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from aftershock.parsers.clock import MINUTE
from aftershock.parsers.resolve import HOUR, ClockRules, SourceClock, offset_at

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


def zone_shifts(wall: Ints, where: Bools, rules: ClockRules) -> tuple[Ints, Bools]:
    """How far local clocks are ahead of UTC, and which of them come twice or never.

    Zones change at whole minutes, and not twice within an hour: only in an hour that begins and ends differently is
    every minute looked at.
    """
    shift = np.zeros(len(wall), np.int64)
    twice = np.zeros(len(wall), np.bool_)
    zone = rules.zone or "UTC"
    at = np.flatnonzero(where)
    hours, hour_of = np.unique(wall[at] // HOUR, return_inverse=True)
    minutes = HOUR // MINUTE
    ends = [(offset_at(zone, hour * minutes), offset_at(zone, hour * minutes + minutes - 1)) for hour in hours.tolist()]
    shift[at] = np.array([first[0] for first, _ in ends], np.int64)[hour_of]
    odd = np.array([first != last or first[1] for first, last in ends], np.bool_)[hour_of]
    for i in at[odd].tolist():
        shift[i], twice[i] = offset_at(zone, int(wall[i]) // MINUTE)
    return shift, twice


def source_shifts(clock: SourceClock, offsets: Ints, wall: Ints, where: Bools, rules: ClockRules) -> tuple[Ints, Bools]:
    """The same for lines of one source, in the zone that is stated or that other lines of it tell.

    offsets: of the lines, in the source.
    """
    anchors = clock.anchors
    if clock.zone_basis != "inferred_zone" or not anchors:
        return zone_shifts(wall, where, rules)
    places = np.array([offset for offset, _ in anchors], np.int64)
    shifts = np.array([shift for _, shift in anchors], np.int64)
    after = np.searchsorted(places, offsets)
    one, other = np.maximum(after - 1, 0), np.minimum(after, places.size - 1)
    nearer = np.abs(places[one] - offsets) <= np.abs(places[other] - offsets)
    return np.where(where, shifts[np.where(nearer, one, other)], 0), np.zeros(len(wall), np.bool_)
