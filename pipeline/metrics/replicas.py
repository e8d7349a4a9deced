"""One series as several servers, files and blocks hold it: what one of them has, and of others what it lacks.

Two replicas that scrape in turns would double what was measured, and make resets of counters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np

from aftershock.parsers.prometheus.columns import STALE_BITS
from aftershock.pipeline.metrics.spool import Piece
from aftershock.pipeline.metrics.window_join import Floats, Ints

# A replica fills in for another where that has nothing for as many of its own intervals.
_GAP: Final = 3.0

_Samples = tuple[Ints, Floats]


def merged(pieces: Sequence[Piece], replicas: Sequence[str]) -> _Samples:
    """The samples of one series in the order of time, equal times once. ``replicas``: by origin, who scraped it.

    Of several replicas the one that saw most is kept, and the others where it has a gap.
    """
    by_origin: dict[int, list[Piece]] = defaultdict(list)
    for piece in pieces:
        by_origin[piece.origin].append(piece)
    by_replica: dict[str, list[_Samples]] = defaultdict(list)
    for origin, own in by_origin.items():
        by_replica[replicas[origin]].append(_in_order([(piece.times, piece.values) for piece in own]))
    ones = [chain for own in by_replica.values() for chain in _chained(own)]
    # Of copies that saw the same, the one that still tells markers of staleness from other NaN.
    ones.sort(key=lambda one: (-len(one[0]), -int(np.sum(one[1].view(np.uint64) == STALE_BITS))))
    times, values = ones[0]
    for others, their_values in ones[1:]:
        usual = float(np.median(np.diff(times))) if len(times) > 2 else 0.0
        after = np.searchsorted(times, others, side="right")
        padded = np.concatenate(([-(1 << 62)], times, [1 << 62]))
        # Samples in a gap, and not so near to its edges that they are the other's own.
        near = np.minimum(others - padded[after], padded[after + 1] - others)
        fills = (padded[after + 1] - padded[after] > _GAP * usual) & (near > usual / 2)
        times, values = _in_order([(times, values), (others[fills], their_values[fills])])
    return times, values


def _chained(ones: list[_Samples]) -> list[_Samples]:
    """What one replica has in several files, put together where they follow each other, as blocks do."""
    chains: list[list[_Samples]] = []
    for one in sorted(ones, key=lambda one: (int(one[0][0]), -len(one[0]))):
        times = one[0]
        usual = (int(times[-1]) - int(times[0])) / (len(times) - 1) if len(times) > 1 else 0.0
        chain = next((own for own in chains if times[0] - own[-1][0][-1] > usual / 2), None)
        if chain is None:
            chains.append([one])
        else:
            chain.append(one)
    return [
        chain[0]
        if len(chain) == 1
        else (np.concatenate([one[0] for one in chain]), np.concatenate([one[1] for one in chain]))
        for chain in chains
    ]


def _in_order(ones: Sequence[_Samples]) -> _Samples:
    if len(ones) == 1:
        times, values = ones[0]
    else:
        times, values = np.concatenate([one[0] for one in ones]), np.concatenate([one[1] for one in ones])
    steps = np.diff(times)
    if not len(steps) or steps.min() > 0:
        return times, values
    order = np.argsort(times, kind="stable")
    times, values = times[order], values[order]
    first = np.ones(len(times), bool)
    first[1:] = times[1:] != times[:-1]
    return times[first], values[first]
