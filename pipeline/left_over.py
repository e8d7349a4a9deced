"""What is left over when the best pairs are made: sessions that had more before them than were compared one by one.

Each gets the last session under a key of its own that failed before it and has no retry yet.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence

from aftershock.pipeline.same_work import Candidates, Look, Pair


class LeftOver:
    """Sessions without a retry, by key and in the order of their ends; what is taken is skipped in constant time."""

    def __init__(self, candidates: Candidates, taken: Callable[[Look], bool]) -> None:
        self._candidates = candidates
        self._free = {
            key: _Free([look for look in members if not taken(look)]) for key, members in candidates.index.items()
        }

    def pairs_of(self, later: Look) -> list[Pair]:
        """The pair with the last free session under each key."""
        earliest, last = self._candidates.span(later.session)
        pairs = {}
        for key in self._candidates.keys(later):
            free = self._free.get(key)
            earlier = free.latest(last, later.number) if free else None
            if earlier is not None and (earlier.session.end_time or 0) >= earliest and earlier.number not in pairs:
                pairs[earlier.number] = self._candidates.pair(earlier, later)
        return [pair for pair in pairs.values() if pair is not None]

    def take(self, earlier: Look) -> None:
        """It has a retry by now."""
        for key in self._keys(earlier):
            if key in self._free:
                self._free[key].take(earlier)

    def _keys(self, look: Look) -> Sequence[Hashable]:
        return list(self._candidates.keys(look))


class _Free:
    """Looks in the order of their ends. Place 0 stands before the first of them."""

    def __init__(self, looks: Sequence[Look]) -> None:
        self._looks = looks
        self._ends = [look.session.end_time or 0 for look in looks]
        self._place = {look.number: place for place, look in enumerate(looks, start=1)}
        self._before = list(range(len(looks) + 1))  # the nearest free place at or before each

    def latest(self, last: int, number: int) -> Look | None:
        """The last one that ended by then, and stands before that number."""
        place = self._find(bisect_right(self._ends, last))
        while place and self._looks[place - 1].number >= number:
            place = self._find(place - 1)
        return self._looks[place - 1] if place else None

    def take(self, look: Look) -> None:
        place = self._place.get(look.number)
        if place is not None:
            self._before[place] = place - 1

    def _find(self, place: int) -> int:
        root = place
        while self._before[root] != root:
            root = self._before[root]
        while self._before[place] != root:
            self._before[place], place = root, self._before[place]
        return root
