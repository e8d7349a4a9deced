"""Samples that were asked for, series by series: over sources, replicas and the order of batches."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from aftershock.parsers.hosts import HostNames
from aftershock.parsers.prometheus.columns import Labels, SeriesBatch
from aftershock.pipeline.metrics.gathered import Gathered, known_of
from aftershock.pipeline.metrics.identity import Subjects
from tests.pipeline.metrics.made import MINUTE, SECOND, STALE, START, batch, every, labels

SUBJECTS = Subjects(HostNames(), ["gpu001", "gpu002"], [])
ALWAYS = {"gpu001": ((0, 1 << 60),)}


def gathered(wanted: dict[str, tuple[tuple[int, int], ...]], *batches: tuple[SeriesBatch, str]) -> Gathered:
    found = Gathered(wanted)
    for one, source in batches:
        found.add(one, [found.known(own, SUBJECTS) for own in one.labels], source)
    return found


def whole(found: Gathered) -> SeriesBatch:
    groups = list(found.groups())
    assert len(groups) <= 1
    return groups[0][1] if groups else batch({})


def samples(found: Gathered) -> dict[Labels, list[tuple[int, float]]]:
    got = whole(found)
    return {
        own: [
            (int(got.times[at]) - START, float(got.values[at]))
            for at in range(got.begins[number], got.begins[number + 1])
        ]
        for number, own in enumerate(got.labels)
    }


def test_only_what_lies_inside_the_times_of_its_host() -> None:
    a, b = labels("up", instance="gpu001:9100"), labels("up", instance="gpu002:9100")
    both = batch({a: every(SECOND, range(10)), b: every(SECOND, range(10))})
    wanted = {"gpu001": ((START + 2000, START + 4000), (START + 8000, START + 9000))}
    assert samples(gathered(wanted, (both, "x"))) == {a: [(2000, 2.0), (3000, 3.0), (8000, 8.0)]}


def test_series_and_times_stand_in_order_whatever_the_order_of_batches() -> None:
    own = labels("up", instance="gpu001:9100")
    other = labels("node_load1", instance="gpu001:9100")
    parts = [
        (batch({own: every(SECOND, range(5))}), "a"),
        (batch({other: every(SECOND, range(3)), own: every(SECOND, range(5, 9), 5 * SECOND)}), "b"),
        (batch({own: every(SECOND, range(9, 12), 9 * SECOND)}), "c"),
    ]
    results = [samples(gathered(ALWAYS, *order)) for order in permutations(parts)]
    assert all(result == results[0] and list(result) == list(results[0]) for result in results)
    assert [value for _, value in results[0][own]] == list(range(12))


def test_of_replicas_that_scrape_in_turns_one_is_kept() -> None:
    a = labels("node_intr_total", instance="gpu001:9100", prometheus_replica="a")
    b = labels("node_intr_total", instance="gpu001:9100", prometheus_replica="b")
    first = every(30 * SECOND, range(0, 3000, 30))
    second = every(30 * SECOND, range(7, 3000, 30), 8 * SECOND)
    found = gathered(ALWAYS, (batch({a: first, b: second[:-1]}), "x"))
    assert list(samples(found).values()) == [first]
    assert found.series[0].labels == labels("node_intr_total", instance="gpu001:9100")


def test_a_replica_fills_the_gap_of_another() -> None:
    a = labels("up", instance="gpu001:9100", replica="a")
    b = labels("up", instance="gpu001:9100", replica="b")
    first = every(30 * SECOND, [1.0] * 40)
    second = every(30 * SECOND, [0.0] * 40, 10 * SECOND)
    del first[10:30]
    (got,) = samples(gathered(ALWAYS, (batch({a: first, b: second}), "x"))).values()
    # The one that saw more leads.
    assert [value for _, value in got] == [0.0] * 40
    del second[15:]
    (got,) = samples(gathered(ALWAYS, (batch({a: first, b: second}), "x"))).values()
    assert [value for _, value in got[:15]] == [1.0] * 10 + [0.0] * 5
    assert [value for _, value in got[15:]] == [1.0] * 10


def test_two_copies_of_one_server_are_one() -> None:
    own = labels("up", instance="gpu001:9100")
    rows = every(30 * SECOND, [1.0, STALE, 1.0, 1.0])
    got = whole(gathered(ALWAYS, (batch({own: rows}), "block"), (batch({own: rows}), "dump")))
    assert len(got.times) == 4
    assert got.stale().tolist() == [False, True, False, False]


def test_a_copy_that_lost_the_markers_does_not_hide_them() -> None:
    own = labels("up", instance="gpu001:9100")
    dump = batch({own: every(30 * SECOND, [1.0, float("nan"), 1.0])})
    block = batch({own: every(30 * SECOND, [1.0, STALE, 1.0])})
    assert whole(gathered(ALWAYS, (dump, "a"), (block, "b"))).stale().tolist() == [False, True, False]


def test_nothing_gives_nothing() -> None:
    got = whole(gathered({}, (batch({labels("up", instance="gpu001"): every(MINUTE, [1.0])}), "x")))
    assert len(got.times) == 0
    assert np.array_equal(got.begins, [0])


def test_the_like_of_a_series_on_other_hosts_is_its_kin() -> None:
    def kin(**own: str) -> str:
        return known_of(labels("m", **own), SUBJECTS).kin

    assert kin(Hostname="gpu001", UUID="GPU-1", gpu="0") == kin(Hostname="gpu002", UUID="GPU-2", gpu="0")
    assert kin(Hostname="gpu001", gpu="0") != kin(Hostname="gpu001", gpu="1")
    assert kin(instance="gpu001:9100", mode="idle") != kin(instance="gpu001:9100", mode="user")
