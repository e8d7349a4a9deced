"""All pairs of a history as columns: which of them the rules let through, and the best pairing of those.

The same pairs are weighed under many rules, to see what depends on which threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from aftershock.pipeline.attempts import US
from aftershock.pipeline.pairing import best_pairs
from aftershock.pipeline.retry_rules import RetryRules
from aftershock.pipeline.same_work import Pair

# A pair that is barely sure enough still counts for more than none; what it fits by decides between equals.
_BASE_GAIN: Final = 10_000
_FIT_GAIN: Final = 40_000

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class PairTable:
    """Pairs and their columns. Sessions are named by their place in time."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        # In one order, whatever the order in which lineages came.
        self._pairs = sorted(pairs, key=lambda pair: (pair.later.number, pair.earlier.number))
        self._later: Ints = np.array([pair.later.number for pair in self._pairs], np.int64)
        self._earlier: Ints = np.array([pair.earlier.number for pair in self._pairs], np.int64)
        self._likeness: Floats = np.array([pair.likeness for pair in self._pairs], np.float64)
        self._gap: Floats = np.array([pair.gap for pair in self._pairs], np.float64) / US
        self._early: Floats = np.array([pair.early for pair in self._pairs], np.float64) / US
        self._names: Ints = np.array([pair.names for pair in self._pairs], np.int64)
        self._fit: Floats = np.array([pair.fit for pair in self._pairs], np.float64)
        self._paired: dict[tuple[bytes, bytes], list[int]] = {}

    def confidences(self, rules: RetryRules) -> Floats:
        """How sure each pair is under the rules, as :meth:`.Pair.confidence` says it; 0 if they do not allow it."""
        allowed = (self._gap <= rules.max_gap_s) & (self._early <= rules.early_submit_s)
        allowed &= self._names <= rules.names_per_folder
        late = np.ones(len(self._pairs))
        if rules.max_gap_s > rules.near_gap_s:
            beyond = np.maximum(self._gap - rules.near_gap_s, 0.0) / (rules.max_gap_s - rules.near_gap_s)
            late = 1 - (1 - rules.factor_late) * beyond
        return np.where(allowed, np.round(self._likeness * late, 6), 0.0)

    def best(self, rules: RetryRules, taken: set[int], used: set[int]) -> list[tuple[Pair, float]]:
        """The best pairing with how sure each pair is, in the order of the later sessions. ``taken``: earlier sessions
        that have their retry; ``used``: later ones that are one."""
        sure = self.confidences(rules)
        open_pairs = (sure >= rules.min_confidence) & (sure > 0)
        open_pairs &= ~np.isin(self._earlier, list(taken)) & ~np.isin(self._later, list(used))
        places = np.flatnonzero(open_pairs)
        gains = np.round(1e6 * (sure[places] - rules.min_confidence)).astype(np.int64) + _BASE_GAIN
        gains += np.round(_FIT_GAIN * self._fit[places]).astype(np.int64)
        same = places.tobytes(), gains.tobytes()
        chosen = self._paired.get(same)
        if chosen is None:
            chosen = self._paired[same] = self._chosen(places, gains)
        return [(self._pairs[place], float(sure[place])) for place in chosen]

    def _chosen(self, places: Ints, gains: Ints) -> list[int]:
        later, earlier = self._later[places], self._earlier[places]
        alone = _single(later) & _single(earlier)  # there is nothing to weigh
        rivals = np.flatnonzero(~alone)
        edges = list(zip(later[rivals].tolist(), earlier[rivals].tolist(), gains[rivals].tolist(), strict=True))
        at = {edge[:2]: place for edge, place in zip(edges, places[rivals].tolist(), strict=True)}
        weighed = [at[pair] for pair in best_pairs(edges).items()]
        return sorted([*places[alone].tolist(), *weighed])


def _single(numbers: Ints) -> Bools:
    """Whether each number stands only once among them."""
    counts = np.bincount(numbers, minlength=1)
    single: Bools = counts[numbers] == 1
    return single
