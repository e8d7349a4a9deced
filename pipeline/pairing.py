"""The best pairing: each earlier session with at most one later one and the reverse, the sum of the gains the largest.

Successive shortest paths (the Hungarian method on a sparse graph), one later session after the other in the order of
time. Gains are whole numbers, so the result depends on nothing but them and on that order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Final

# Later sessions that are weighed against each other; what was paired before them stays.
MOST_TOGETHER: Final = 256

# Later, earlier, gain (more than 0).
Edge = tuple[int, int, int]


def best_pairs(edges: Iterable[Edge]) -> dict[int, int]:
    """The earlier one of each later one that gets one."""
    ordered = sorted(edges)
    rivals = Counter(later for later, _, _ in ordered), Counter(earlier for _, earlier, _ in ordered)
    # Most stand alone: there is nothing to weigh.
    pairs = {later: earlier for later, earlier, _ in ordered if rivals[0][later] == rivals[1][earlier] == 1}
    for part in _parts([edge for edge in ordered if edge[0] not in pairs]):
        taken: set[int] = set()
        rows = sorted({later for later, _, _ in part})
        for begin in range(0, len(rows), MOST_TOGETHER):
            together = set(rows[begin : begin + MOST_TOGETHER])
            found = _assign([e for e in part if e[0] in together and e[1] not in taken])
            taken.update(found.values())
            pairs.update(found)
    return pairs


def _parts(edges: Sequence[Edge]) -> Iterator[list[Edge]]:
    """Edges that hang together, in order."""
    parent: dict[tuple[str, int], tuple[str, int]] = {}

    def root(node: tuple[str, int]) -> tuple[str, int]:
        parent.setdefault(node, node)
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for later, earlier, _ in edges:
        parent[root(("later", later))] = root(("earlier", earlier))
    groups: dict[tuple[str, int], list[Edge]] = defaultdict(list)
    for edge in edges:
        groups[root(("later", edge[0]))].append(edge)
    yield from groups.values()


def _assign(edges: Sequence[Edge]) -> dict[int, int]:
    costs: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for later, earlier, gain in edges:
        costs[later].append((earlier, -gain))
    matching = _Matching(costs)
    for later in sorted(costs):
        matching.insert(later)
    return {later: earlier for later, earlier in matching.of_row.items() if earlier is not None}


class _Matching:
    """Rows are later sessions, columns earlier ones. A row may also stay alone, at no cost."""

    def __init__(self, costs: dict[int, list[tuple[int, int]]]) -> None:
        self._costs = costs
        self._row_price: dict[int, int] = {}
        self._column_price: dict[int, int] = defaultdict(int)
        self.of_row: dict[int, int | None] = {}
        self._of_column: dict[int, int] = {}

    def insert(self, new: int) -> None:
        """Add a row along the cheapest way: to a free column, or to a row on the way that stays alone instead."""
        self._row_price[new] = min(0, *(cost - self._column_price[column] for column, cost in self._costs[new]))
        distance: dict[int, int] = {}  # to columns
        came: dict[int, int] = {}  # the row before a column
        reached: dict[int, int] = {new: 0}  # rows
        done: set[int] = set()
        heap: list[tuple[int, int]] = []
        alone, shortest = new, -self._row_price[new]
        row, base = new, 0
        end: int | None = None
        while True:
            for column, cost in self._costs[row]:
                way = base + cost - self._row_price[row] - self._column_price[column]
                if column not in done and way < distance.get(column, way + 1):
                    distance[column], came[column] = way, row
                    heappush(heap, (way, column))
            while heap and (heap[0][1] in done or heap[0][0] > distance[heap[0][1]]):
                heappop(heap)
            if not heap or heap[0][0] >= shortest:
                break
            base, column = heappop(heap)
            if column not in self._of_column:
                end, shortest = column, base
                break
            done.add(column)
            row = self._of_column[column]
            reached[row] = base
            if base - self._row_price[row] < shortest:
                alone, shortest = row, base - self._row_price[row]
        for row, way in reached.items():
            self._row_price[row] += shortest - way
        for column in done:
            self._column_price[column] -= shortest - distance[column]
        self._augment(new, alone, end, came)

    def _augment(self, new: int, alone: int, end: int | None, came: dict[int, int]) -> None:
        column: int | None = end
        if end is None:
            column = self.of_row.get(alone)  # which it gives up
            self.of_row[alone] = None
            if alone == new:
                return
        while column is not None:
            row = came[column]
            before = self.of_row.get(row)
            self.of_row[row], self._of_column[column] = column, row
            column = before if row != new else None
