"""Samples that wait in a file come back as they would from memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.hosts import HostNames
from aftershock.parsers.prometheus.columns import STALE_BITS
from aftershock.pipeline.metrics.gathered import Gathered
from aftershock.pipeline.metrics.identity import Subjects
from aftershock.pipeline.metrics.spool import Piece, Spool
from tests.pipeline.metrics.made import SECOND, STALE, batch, every, labels

SUBJECTS = Subjects(HostNames(), ["gpu001"], [])

Plain = list[tuple[int, int, list[int], list[int]]]
_PIECES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2), st.integers(1, 7)), max_size=40)


def given_back(pieces: list[tuple[int, int, int]], most: int, together: int) -> tuple[list[list[int]], Plain]:
    spool = Spool(most=most)
    numbers: dict[int, int] = {}
    names: list[str] = []
    for at, (series, origin, length) in enumerate(pieces):
        number = numbers.setdefault(series, len(numbers))
        if number == len(names):
            names.append(f"series-{series * 7 % 10}")
        values = np.full(length, at, np.float64)
        values[-1:] = STALE
        spool.put(Piece(number, origin, np.arange(length) + at, values), names.__getitem__)
    order = sorted(range(len(names)), key=names.__getitem__)
    groups: list[list[int]] = []
    found: Plain = []
    for group, got in spool.groups(order, together):
        groups.append(list(group))
        assert {piece.series for piece in got} == set(group)
        got.sort(key=lambda piece: order.index(piece.series))  # stable: of each series as they came
        found += [(p.series, p.origin, p.times.tolist(), p.values.view(np.uint64).tolist()) for p in got]
    spool.close()
    assert [number for group in groups for number in group] == order
    return groups, found


@given(_PIECES, st.integers(1, 30), st.integers(1, 30))
def test_pieces_come_back_in_order_and_bounded(pieces: list[tuple[int, int, int]], most: int, together: int) -> None:
    groups, found = given_back(pieces, most, together)
    assert found == given_back(pieces, 1 << 40, 1 << 40)[1]
    assert all(values[-1] == STALE_BITS for _, _, _, values in found)
    sizes: dict[int, int] = {}
    for series, _, times, _ in found:
        sizes[series] = sizes.get(series, 0) + len(times)
    assert all(len(group) == 1 or sum(sizes[one] for one in group) <= together for group in groups)


def test_runs_are_read_in_parts(tmp_path: Path) -> None:
    spool = Spool(tmp_path, most=1 << 40)
    names = [f"series-{at:05d}" for at in range(10_000)]
    for at in range(10_000):
        spool.put(Piece(at, 0, np.array([at]), np.array([0.5])), names.__getitem__)
    spool.put(Piece(0, 0, np.array([7]), np.array([0.5])), names.__getitem__)
    spool.most = 0
    spool.put(Piece(1, 0, np.array([8]), np.array([0.5])), names.__getitem__)
    assert spool.held == 0
    assert list(tmp_path.iterdir()) == []
    times = [piece.times.tolist() for _, group in spool.groups(range(10_000), 100) for piece in group]
    assert times == [[0], [7], [1], [8], *([at] for at in range(2, 10_000))]


def test_what_was_gathered_is_the_same_from_memory_and_from_a_file() -> None:
    def found(most: int, together: int) -> list[tuple[str, list[int], list[int]]]:
        gathered = Gathered({"gpu001": ((0, 1 << 60),)}, spool=Spool(most=most))
        for part in range(12):
            series = {
                labels("m", instance="gpu001:9100", n=str(n), replica="ab"[part % 2]): every(
                    30 * SECOND, [float(n)] * 9 + [STALE], part // 2 * 300 * SECOND
                )
                for n in range(15)
            }
            one = batch(series)
            gathered.add(one, [gathered.known(own, SUBJECTS) for own in one.labels], f"block {part}")
        return [
            (known.series_id, got.times[begin:end].tolist(), got.values[begin:end].view(np.uint64).tolist())
            for series_, got in gathered.groups(together)
            for known, begin, end in zip(series_, got.begins[:-1], got.begins[1:], strict=True)
        ]

    plain = found(1 << 40, 1 << 40)
    assert len(plain) == 15
    assert all(len(times) == 60 for _, times, _ in plain)
    assert found(100, 50) == found(7, 1) == plain
