"""Scored resubmissions: what speaks for a pair and against it, sweeps, stated retries, who retried."""

from __future__ import annotations

from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.pipeline.links import History
from aftershock.pipeline.pairing import MOST_TOGETHER, best_pairs
from aftershock.pipeline.retries import RetryRules, link_retries
from aftershock.pipeline.same_work import MOST_COMPARED, work_of
from aftershock.schemas.sessions import Retry, Session
from tests.pipeline.test_retries import link, pairs, ran, requeued


def confidence(earlier: dict[str, Any], later: dict[str, Any], start: float = 200, **rules: Any) -> Retry | None:
    found = link(ran("6", 1, 100, **earlier), ran("7", start, start + 100, "COMPLETED", **later), **rules).retries
    return found[0] if found else None


@pytest.mark.parametrize(
    ("earlier", "later", "rule", "sure"),
    [
        ({"command": "a.sh"}, {"command": "a.sh"}, "same_name_and_folder+same_command", 0.94),
        ({"command": "a.sh 1"}, {"command": "a.sh 2"}, "same_name_and_folder+like_command", 0.92),
        ({"command": "a.sh"}, {"command": "b.sh"}, "same_name_and_folder", 0.72),
        ({"n_gpus": 16}, {"n_gpus": 8}, "same_name_and_folder", 0.81),
        ({}, {"hosts": ["n3"]}, "same_name_and_folder", 0.7695),  # one host instead of two, and none of them
        ({}, {"hosts": ["n3", "n4"]}, "same_name_and_folder", 0.855),
        ({"user": None}, {"user": None}, "same_name_and_folder", 0.63),
    ],
)
def test_what_speaks_for_a_pair(earlier: dict[str, Any], later: dict[str, Any], rule: str, sure: float) -> None:
    retry = confidence(earlier, later)
    assert retry is not None
    assert (retry.rule, retry.confidence) == (rule, pytest.approx(sure, abs=0.001))


def test_a_long_gap_makes_it_less_sure() -> None:
    sure = [retry.confidence for start in (1800, 4500, 7300) if (retry := confidence({}, {}, start))]
    assert sure == [0.9, pytest.approx(0.81, abs=0.01), pytest.approx(0.72, abs=0.001)]


def test_same_folder_is_too_little_where_something_speaks_against_it() -> None:
    assert confidence({}, {"name": None}) is not None
    assert confidence({}, {"name": None, "hosts": ["n3", "n4"]}) is None
    assert confidence({}, {"name": None, "hosts": ["n3", "n4"]}, min_confidence=0.4) is not None


def test_weights_and_factors_are_rules() -> None:
    assert confidence({}, {"work_dir": "/w/b"}, weight_name=0.4) is None
    rows = ran("6", 1, 100, "CANCELLED"), ran("7", 200, 300)
    assert link(*rows).retries == []
    assert link(*rows, factor_cancelled=0.7).retries[0].confidence == pytest.approx(0.63)


def test_options_of_a_submit_line_may_change() -> None:
    line = "sbatch -N3 --parsable --job-name=a --exclude=n1,n4 train.sh --lr 0.1"
    assert work_of(line) == "sbatch train.sh --lr 0.1" == work_of("sbatch  train.sh --lr 0.1")
    assert work_of("python train.py -N3") == "python train.py -N3"


def sweep(count: int, **more: Any) -> list[Session]:
    """Jobs of one name on hosts of their own that fail within a minute, and the same again in another order."""
    first = [ran(str(n), 10, 60 + n % 7, hosts=[f"n{n}"], submit=1, **more) for n in range(count)]
    again = [
        ran(str(10_000 + n), 300 + place, 900, "COMPLETED", submit=200, hosts=[f"n{n}"], **more)
        for place, n in enumerate(sorted(range(count), key=lambda n: (n * 7919) % count))
    ]
    return [*first, *again]


@pytest.mark.parametrize("count", [10, 10 * MOST_COMPARED])
def test_sweep_is_paired_by_hosts(count: int) -> None:
    found = pairs(link(*sweep(count)))
    assert len(found) == count
    assert all(str(10_000 + int(one.split("@")[0])) == other.split("@")[0] for one, other in found if one and other)


@pytest.mark.parametrize("count", [8, 5 * MOST_COMPARED])
def test_sweep_is_paired_by_what_it_varies(count: int) -> None:
    rows = []
    for n in range(count):
        other = count - 1 - n
        rows.append(ran(str(n), 10, 60, submit=1, command=f"sbatch train.sh --lr {n}"))
        rows.append(ran(str(1000 + other), 300 + n, 900, submit=200, command=f"sbatch train.sh --lr {other}"))
    assert sorted(pairs(link(*rows))) == sorted((f"{n}@10", f"{1000 + n}@{300 + count - 1 - n}") for n in range(count))


def test_sweep_is_paired_by_size() -> None:
    rows = [ran(str(n), 10, 60, submit=1, n_gpus=8 * (n + 1)) for n in range(5)]
    rows += [ran(str(100 + n), 310 - n, 900, submit=200, n_gpus=8 * (n + 1)) for n in range(5)]
    assert sorted(pairs(link(*rows))) == [(f"{n}@10", f"{100 + n}@{310 - n}") for n in range(5)]


def test_host_of_an_older_failure_does_not_break_a_chain() -> None:
    """The second try ran elsewhere, the third where the first had been: still one after the other."""
    rows = [
        ran("1", 1, 100),
        ran("2", 200, 300, hosts=["n3", "n4"]),
        ran("3", 400, 500, "COMPLETED"),
    ]
    assert pairs(link(*rows)) == [("1@1", "2@200"), ("2@200", "3@400")]


def test_every_failure_of_a_large_sweep_is_paired() -> None:
    count = 6 * MOST_COMPARED
    rows = sweep(count)
    for row in rows:
        row.hosts = None
    found = pairs(link(*rows))
    assert len({one for one, _ in found}) == len({other for _, other in found}) == count


@pytest.mark.parametrize("name", ["6", "6@1"])
def test_stated_retry_is_certain(name: str) -> None:
    later = ran("7", 90_000, 90_100, "COMPLETED", name="other", work_dir="/x", retry_of=name)
    (retry,) = link(ran("6", 1, 100, "CANCELLED"), later).retries
    assert (retry.rule, retry.confidence, retry.mode, retry.mode_evidence) == ("stated", 1.0, "auto", "stated")


def test_retries_that_all_name_the_first_are_one_chain() -> None:
    rows = [ran("6", 1, 100), *(ran(str(n), 100 * n, 100 * n + 50, retry_of="6") for n in (7, 8, 9))]
    assert pairs(link(*rows)) == [("6@1", "7@700"), ("7@700", "8@800"), ("8@800", "9@900")]
    assert link(ran("7", 1, 2, retry_of="7"), ran("9", 5, 6, name="b", work_dir="/x", retry_of="77")).retries == []


def test_dependency_on_a_failed_job_is_a_retry() -> None:
    line = "sbatch --dependency=afternotok:6 train.sh"
    rows = ran("6", 1, 100), ran("7", 110, 300, "COMPLETED", submit=50, name="b", work_dir="/x", command=line)
    (retry,) = link(*rows).retries
    assert (retry.rule, retry.mode, retry.mode_evidence) == ("dependency", "auto", "dependency")
    rows[0].state = "COMPLETED"
    assert link(*rows).retries == []


def test_restart_in_place() -> None:
    rows = [ran("5", 1, 100), ran("5", 103, 900, "COMPLETED", attempt=2, submit=None)]
    for row in rows:
        row.scheduler, row.submit_time = "kubernetes", None
    (retry,) = link(*rows).retries
    assert (retry.trigger, retry.mode, retry.mode_evidence) == ("restart_in_place", "auto", "restart_in_place")
    assert retry.requeue_interval_s is None
    rows[1].hosts = ["n9"]
    assert link(*rows).retries[0].trigger == "requeue"


def chain(gaps: list[float], first: int = 1) -> list[Session]:
    """One job after the other, each so long after the last."""
    rows, now = [], float(first)
    for n, gap in enumerate([0.0, *gaps]):
        rows.append(ran(str(n), now + gap, now + gap + 100, submit=now + gap - 0.5))
        now += gap + 100
    return rows


@pytest.mark.parametrize(
    ("gaps", "modes"),
    [
        ([660, 661, 660, 659], [("auto", "constant_gap")] * 4),
        ([660, 661, 3000, 659], [("auto", "constant_gap")] * 2 + [("unknown", None), ("auto", "constant_gap")]),
        ([660, 661], [("unknown", None)] * 2),
        ([60, 3000, 700, 6000], [("manual", "irregular_gaps")] * 4),
        ([4, 900], [("auto", "submitted_at_end"), ("unknown", None)]),
        ([4, 4, 4], [("auto", "submitted_at_end+constant_gap")] * 3),
    ],
)
def test_who_retried(gaps: list[float], modes: list[tuple[str, str | None]]) -> None:
    linked = link(*chain(gaps))
    assert [(retry.mode, retry.mode_evidence) for retry in linked.retries] == modes
    kinds = {mode for mode, _ in modes}
    assert [c.mode for c in linked.chains] == [kinds.pop() if len(kinds) == 1 else "unknown"]


def test_requeue_by_hand() -> None:
    first, second = ran("5", 1, 100, "REQUEUED"), ran("5", 160, 900, attempt=2, submit=100)
    by_hand = requeued(first, 100)
    by_hand.user = "4021"
    assert [(r.mode, r.mode_evidence) for r in link(first, second, requeues=[by_hand]).retries] == [
        ("manual", "requeued_by_user")
    ]
    by_hand.user = "root"
    assert [r.mode for r in link(first, second, requeues=[by_hand]).retries] == ["auto"]


_EDGES = st.dictionaries(st.tuples(st.integers(0, 7), st.integers(0, 7)), st.integers(1, 60), min_size=1, max_size=24)


@settings(max_examples=300, deadline=None)
@given(_EDGES, st.randoms(use_true_random=False))
def test_pairing_is_the_best_there_is(edges: dict[tuple[int, int], int], chance: Any) -> None:
    listed = [(later, earlier, gain) for (later, earlier), gain in edges.items()]
    found = best_pairs(listed)
    assert len(set(found.values())) == len(found)
    graph = nx.Graph()
    for later, earlier, gain in listed:
        graph.add_edge(("later", later), ("earlier", earlier), weight=gain)
    best = sum(graph.edges[edge]["weight"] for edge in nx.max_weight_matching(graph))
    assert sum(edges[pair] for pair in found.items()) == best
    chance.shuffle(listed)
    assert best_pairs(listed) == found


def test_long_chains_are_paired_in_parts() -> None:
    count = 3 * MOST_TOGETHER
    edges = [(n + 1 + ahead, n, 100 - ahead) for n in range(count) for ahead in range(3)]
    assert len(best_pairs(edges)) >= count - 3


def test_retries_of_many_owners_are_those_of_each() -> None:
    rows = [
        ran(f"{owner}{n}", 100 * n, 100 * n + 50, user=owner) for owner in ("ada", "eve", "bob") for n in range(1, 6)
    ]
    alone = [pairs(link(*(row for row in rows if row.user == owner))) for owner in ("ada", "eve", "bob")]
    assert sorted(pairs(link(*rows))) == sorted(pair for found in alone for pair in found)
    assert link_retries(rows, [], RetryRules()) == link_retries(rows[::-1], [], RetryRules())
    assert len(History(rows, [], RetryRules()).ordered) == 15
