"""Retries, chains and the exclusions that follow from sessions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.pipeline.retries import Linked, RetryRules, link_retries, stem_of
from aftershock.pipeline.sessions import SessionRules, build_sessions
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.sessions import Session

US = 1_000_000
DAY0 = 1_780_000_000 * US  # the times below are seconds after this
DAY = 86_400


def at(seconds: float | None) -> int | None:
    return None if seconds is None else DAY0 + round(seconds * US)


def ran(
    job: str, start: float | None, end: float | None, state: str = "FAILED", *, submit: float | None = None, **more: Any
) -> Session:
    """A session of one job; its id is the job and the start. Submitted a second before it started unless told."""
    placed = start is not None
    before = start - 1 if start is not None else None
    columns: dict[str, Any] = {
        "session_id": f"{job}@{start if placed else submit}",
        "cluster": "sun",
        "scheduler": "slurm",
        "job_id": job,
        "raw_job_id": job,
        "attempt": 1 if placed else None,
        "name": "glm",
        "user": "ada",
        "work_dir": "/w/glm",
        "hosts": ["n1", "n2"] if placed else [],
        "submit_time": at(submit if submit is not None else before),
        "duration_s": float(end - start) if start is not None and end is not None else None,
    }
    return Session(start_time=at(start), end_time=at(end), state=state, **(columns | more))


def requeued(session: Session, seconds: float) -> SchedulerEvent:
    return SchedulerEvent(kind="requeued", time=at(seconds), session_id=session.session_id)


def link(*sessions: Session, requeues: list[SchedulerEvent] | None = None, **rules: Any) -> Linked:
    return link_retries(sessions, requeues or [], RetryRules(**rules))


def pairs(linked: Linked) -> list[tuple[str | None, str | None]]:
    return [(retry.from_session_id, retry.to_session_id) for retry in linked.retries]


def test_requeued_job() -> None:
    first = ran("5", 1, 100, "NODE_FAIL", hosts=["n1", "n2"])
    second = ran("5", 160, 900, "COMPLETED", attempt=2, submit=100, hosts=["n2", "n3"])
    linked = link(second, first, requeues=[requeued(first, 100.4), requeued(first, 100.2)])
    (retry,) = linked.retries
    assert (retry.trigger, retry.mode, retry.rule, retry.confidence, retry.attempt) == (
        "requeue", "auto", "requeue", 1.0, 2,
    )  # fmt: skip
    assert (retry.interval_s, retry.requeue_interval_s) == (60.0, pytest.approx(59.8))
    assert (retry.hosts_kept, retry.hosts_dropped, retry.hosts_added) == (["n2"], ["n1"], ["n3"])
    (chain,) = linked.chains
    assert (chain.n_attempts, chain.mode, chain.outcome, chain.median_interval_s) == (2, "auto", "succeeded", 60.0)
    assert (chain.start_time, chain.end_time, chain.hosts_dropped) == (at(1), at(900), ["n1"])
    assert (chain.first_session_id, chain.last_session_id, retry.chain_id) == ("5@1", "5@160", chain.chain_id)
    (swap,) = linked.exclusions
    assert (swap.how, swap.host, swap.session_id, swap.chain_id) == ("swapped_out", "n1", "5@160", chain.chain_id)
    assert (swap.start_time, swap.end_time) == (at(100), at(900))


def test_without_a_log_the_reset_submit_tells_of_the_requeue() -> None:
    first, second = ran("5", 1, 100, "NODE_FAIL"), ran("5", 160, None, "RUNNING", attempt=2, submit=101)
    assert link(first, second).retries[0].requeue_interval_s == 59.0
    second.submit_time = at(0)
    assert link(first, second).retries[0].requeue_interval_s is None


def test_five_attempts_are_one_chain() -> None:
    rows = [ran("5", 100 * n + 1, 100 * n + 90, "NODE_FAIL", attempt=n + 1) for n in range(5)]
    linked = link(*rows)
    assert [retry.attempt for retry in linked.retries] == [2, 3, 4, 5]
    (chain,) = linked.chains
    assert (chain.n_attempts, chain.outcome) == (5, "failed")


def test_reused_id_is_another_job() -> None:
    rows = [ran("5", 1, 90, "NODE_FAIL"), ran("5", 90_000, 90_100, name="bert", work_dir="/w/bert")]
    assert link(*rows) == Linked([], [], [])


@pytest.mark.parametrize(("state", "end"), [("CANCELLED", 150), ("PENDING", None)])
def test_requeued_and_never_placed_again(state: str, end: float | None) -> None:
    first, waits = ran("5", 1, 100, "NODE_FAIL"), ran("5", None, end, state, submit=100)
    linked = link(first, waits)
    assert linked.retries == []
    (chain,) = linked.chains
    assert (chain.n_attempts, chain.outcome, chain.mode) == (1, "never_restarted", "auto")
    assert (chain.first_session_id, chain.last_session_id, chain.end_time) == ("5@1", "5@100", at(end))
    assert chain.median_interval_s is None


def test_last_of_three_requeues_was_never_placed() -> None:
    rows = [ran("5", 1, 100, "NODE_FAIL"), ran("5", 160, 200, "NODE_FAIL", attempt=2, submit=100)]
    (chain,) = link(*rows, ran("5", None, 300, "CANCELLED", submit=200)).chains
    assert (chain.n_attempts, chain.outcome, chain.last_session_id) == (2, "never_restarted", "5@200")


def test_requeue_that_only_the_state_or_the_log_knows() -> None:
    assert link(ran("5", 1, 100, "REQUEUED")).chains[0].outcome == "never_restarted"
    lost = ran("5", 1, 100, "NODE_FAIL")
    assert link(lost).chains == []
    assert link(lost, requeues=[requeued(lost, 100)]).chains[0].outcome == "never_restarted"


def test_cancelled_while_pending_is_no_chain() -> None:
    assert link(ran("5", None, 90, "CANCELLED", submit=1)) == Linked([], [], [])


@pytest.mark.parametrize(
    ("last", "outcome"),
    [
        (ran("7", 200, 300, "COMPLETED"), "succeeded"),
        (ran("7", 200, 300, "FAILED"), "failed"),
        (ran("7", 200, 300, "CANCELLED"), "cancelled"),
        (ran("7", 200, None, "RUNNING"), "running"),
        (ran("7", 200, 200 + DAY, "TIMEOUT", last_step=9), "succeeded"),
        (ran("7", 200, 200 + DAY, "CANCELLED", last_step=9), "succeeded"),
        (ran("7", 200, 200 + DAY, "TIMEOUT"), "failed"),
        (ran("7", 200, 300, "TIMEOUT", last_step=9), "failed"),
        (ran("7", 200, None, "UNKNOWN"), None),
    ],
)
def test_outcome_is_read_from_the_last_session(last: Session, outcome: str | None) -> None:
    (chain,) = link(ran("6", 1, 100), last).chains
    assert chain.outcome == outcome


@pytest.mark.parametrize(
    ("change", "rule", "confidence"),
    [
        ({}, "same_name_and_folder", 0.9),
        ({"work_dir": None}, "same_name", 0.8),
        ({"work_dir": "/w/elsewhere"}, "same_name", 0.8),
        ({"name": "glm-retry2"}, "same_folder_and_stem", 0.7),
        ({"name": None}, "same_folder", 0.5),
        ({"name": "evaluate"}, "same_folder", 0.5),
    ],
)
def test_resubmission_rules(change: dict[str, Any], rule: str, confidence: float) -> None:
    (retry,) = link(ran("6", 1, 100), ran("7", 200, 300, **change)).retries
    assert (retry.rule, retry.confidence, retry.trigger, retry.mode) == (rule, confidence, "resubmit", "unknown")
    assert (retry.interval_s, retry.requeue_interval_s) == (100.0, None)


@pytest.mark.parametrize(
    "later",
    [
        ran("7", 200, 300, user="eve"),
        ran("7", 200, 300, cluster="moon"),
        ran("7", 200, 300, name="bert", work_dir="/w/bert"),
        ran("7", 101 + 7200, 9000),
        ran("7", 200, 300, submit=50),
        ran("7", 60, 300),
        ran("7", 200, 300, attempt=2),
        ran("7", 200, 300, job_id="7_3"),
        ran("7", 200, 300, time_basis="assumed_zone"),
        ran("7", None, 300, "CANCELLED", submit=150),
    ],
    ids=["user", "cluster", "work", "too late", "submitted before", "overlap", "requeued", "task", "zone", "no hosts"],
)
def test_no_resubmission(later: Session) -> None:
    assert link(ran("6", 1, 100), later).retries == []


@pytest.mark.parametrize("state", ["COMPLETED", "CANCELLED", "REQUEUED", "RUNNING", "UNKNOWN"])
def test_only_failures_are_retried(state: str) -> None:
    assert link(ran("6", 1, 100, state), ran("7", 200, 300)).retries == []


def test_shared_folder_says_nothing_by_itself() -> None:
    shared = [ran("1", 1, 20, name="alpha"), ran("2", 100, 120, name="beta"), ran("3", 200, 220, name="gamma")]
    assert link(*shared).retries == []
    nameless = ran("4", 300, 320, name=None)
    assert link(*shared, nameless).retries == []
    assert pairs(link(*shared, ran("4", 300, 320, name="beta.2"))) == [("2@100", "4@300")]


def test_sweep_is_no_chain() -> None:
    sweep = [ran(str(n), 10, 60 + n, "FAILED" if n == 3 else "COMPLETED", submit=1) for n in range(6)]
    throttled = [ran(str(10 + n), 70 + n, 900, "COMPLETED", submit=1) for n in range(6)]
    assert link(*sweep, *throttled).retries == []


def test_same_task_of_a_further_array() -> None:
    first = [ran(f"4{n}", 10, 60, job_id=f"40_{n}") for n in range(3)]
    second = [ran(f"5{n}", 100, 160, job_id=f"50_{n}") for n in range(3)]
    assert pairs(link(*first, *second)) == [(f"4{n}@10", f"5{n}@100") for n in range(3)]


def test_one_predecessor_and_one_successor() -> None:
    rows = [ran("1", 1, 50), ran("2", 5, 80), ran("3", 100, 150, "COMPLETED"), ran("4", 200, 250, "COMPLETED")]
    assert sorted(pairs(link(*rows))) == [("1@1", "4@200"), ("2@5", "3@100")]


@pytest.mark.parametrize(("first", "second"), [("1", "2"), ("2", "1")])
def test_failure_and_retry_within_one_second(first: str, second: str) -> None:
    rows = [ran(first, 5, 5, submit=3), ran(second, 5, 6, "COMPLETED", submit=5)]
    assert pairs(link(*rows)) == [(f"{first}@5", f"{second}@5")]


def test_the_more_specific_rule_goes_first() -> None:
    rows = [ran("1", 1, 50), ran("2", 60, 90, "COMPLETED", work_dir="/w/b"), ran("3", 100, 150, "COMPLETED")]
    assert pairs(link(*rows)) == [("1@1", "3@100")]


def test_job_cancelled_after_its_requeue_and_submitted_again() -> None:
    lost, waits = ran("5", 1, 100, "NODE_FAIL"), ran("5", None, 150, "CANCELLED", submit=100, excluded_hosts=["n7"])
    again = ran("6", 200, 300, "COMPLETED")
    linked = link(lost, waits, again)
    assert pairs(linked) == [("5@1", "6@200")]
    (chain,) = linked.chains
    assert (chain.n_attempts, chain.outcome) == (2, "succeeded")
    assert [x.chain_id for x in linked.exclusions] == [chain.chain_id]
    waits.state = "PENDING"
    assert link(lost, waits, again).retries == []


def test_requeues_and_resubmissions_in_one_chain() -> None:
    rows = [
        ran("5", 1, 100, "NODE_FAIL"),
        ran("5", 160, 200, "FAILED", attempt=2, submit=100, gpu_seconds_lost=10.0),
        ran("6", 300, 400, "COMPLETED", gpu_seconds_lost=5.0),
    ]
    linked = link(*rows)
    assert [(r.trigger, r.attempt) for r in linked.retries] == [("requeue", 2), ("resubmit", 3)]
    (chain,) = linked.chains
    assert (chain.mode, chain.n_attempts, chain.median_interval_s, chain.gpu_seconds_lost) == ("unknown", 3, 80.0, 15.0)


def test_exclude_lists_are_rows_per_host_and_session() -> None:
    failed = ran("6", 1, 100)
    later = ran("7", 200, None, "RUNNING", submit=150, excluded_hosts=["n2", "n1", "n2"], hosts=["n1", "n2"])
    linked = link(failed, later)
    rows = [(x.how, x.host, x.start_time, x.end_time, x.chain_id, x.by) for x in linked.exclusions]
    chain = linked.chains[0].chain_id
    assert rows == [("exclude_list", host, at(150), None, chain, "ada") for host in ("n1", "n2")]
    (alone,) = link(ran("8", 1, 9, "COMPLETED", excluded_hosts=["n1"])).exclusions
    assert alone.chain_id is None


def test_unknown_hosts_and_times_stay_unknown() -> None:
    first, second = ran("5", 1, None, "UNKNOWN", hosts=None), ran("5", 160, 900, attempt=2)
    (retry,) = link(first, second).retries
    assert (retry.interval_s, retry.requeue_interval_s) == (None, None)
    assert retry.hosts_kept is retry.hosts_dropped is retry.hosts_added is None
    assert link(first, second).chains[0].hosts_dropped == []


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("glm", "glm"),
        ("glm-retry2", "glm"),
        ("glm_retry_2", "glm"),
        ("glm_v3", "glm"),
        ("glm.2", "glm"),
        ("glm (3)", "glm"),
        ("glm-resume", "glm"),
        ("glm-attempt-12", "glm"),
        ("poetry", "poetry"),
        ("conv", "conv"),
        ("retry", "retry"),
        ("pre-a", "pre-a"),
    ],
)
def test_stem(name: str, stem: str) -> None:
    assert stem_of(name) == stem


def test_records_of_a_small_cluster() -> None:
    """The kinds of job of a real six minutes: what was done is known, so is what must come out."""

    def record(job: str, submit: float, start: float | None, end: float, state: str, **more: Any) -> Session:
        return ran(
            job, start, end, state, submit=submit, **({"work_dir": "/all", "sources": [f"{job}:{submit}"]} | more)
        )

    rows = [
        record("41", 0, 1, 9, "COMPLETED", name="warm"),
        record("42", 0, 1, 6, "FAILED", name="warm"),
        record("43", 0, 1, 79, "TIMEOUT", name="warm"),
        record("45", 23, 24, 65, "NODE_FAIL", name="big-x", hosts=["h1", "h2", "h3", "h4"]),
        record("45", 65, None, 175, "CANCELLED", name="big-x"),
        record("46", 175, 176, 181, "FAILED", name="big-y", hosts=["h1", "h2", "h3"]),
        record("47", 187, 188, 192, "FAILED", name="big-y", hosts=["h1", "h2", "h3"]),
        record("48", 199, 200, 204, "COMPLETED", name="big-y", hosts=["h5", "h6", "h7"], excluded_hosts=["h1", "h4"]),
        *(
            record(str(50 + n), 211, 212 + 5 * (n // 2), 216, "COMPLETED", name="set", job_id=f"49_{n}")
            for n in range(4)
        ),
        record("60", 226, 227, 234, "REQUEUED", name="big-z"),
        record("60", 234, None, 272, "CANCELLED", name="big-z"),
        record("61", 272, 273, 349, "TIMEOUT", name="short"),
        record("62", 272, None, 352, "CANCELLED", name="wide"),
        record("63", 352, 356, 362, "COMPLETED", name="all"),
    ]
    sessions: list[Session] = []
    for job in sorted({row.raw_job_id or "" for row in rows}):
        records = [("sacct", row) for row in rows if row.raw_job_id == job]
        sessions += build_sessions(records, [], SessionRules()).sessions
    linked = link(*sessions)
    chains = {c.name: (c.n_attempts, c.outcome, c.mode, c.hosts_dropped) for c in linked.chains}
    assert chains == {
        "big-x": (1, "never_restarted", "auto", []),
        "big-y": (3, "succeeded", "unknown", ["h1", "h2", "h3"]),
        "big-z": (1, "never_restarted", "auto", []),
    }
    assert [(r.attempt, r.trigger, r.interval_s) for r in linked.retries] == [
        (2, "resubmit", 7.0),
        (3, "resubmit", 8.0),
    ]
    left_out = sorted((x.how or "", x.host or "") for x in linked.exclusions)
    assert left_out == [("exclude_list", "h1"), ("exclude_list", "h4")] + [("swapped_out", f"h{n}") for n in (1, 2, 3)]


_STATES = ["FAILED", "NODE_FAIL", "TIMEOUT", "COMPLETED", "CANCELLED", "RUNNING", "REQUEUED", "UNKNOWN"]


@st.composite
def _histories(draw: Any) -> tuple[list[Session], list[SchedulerEvent]]:
    """Jobs of one user with one to three attempts each, some put back and never placed again."""
    rows: list[Session] = []
    requeues: list[SchedulerEvent] = []
    for job in range(draw(st.integers(0, 6))):
        now = draw(st.integers(0, 60))
        name = draw(st.sampled_from(["glm", "glm-2", "bert", None]))
        folder = draw(st.sampled_from(["/w/a", "/w/b", None]))
        for attempt in range(1, draw(st.integers(1, 3)) + 1):
            start = now + draw(st.integers(0, 9))
            end = start + draw(st.integers(0, 30))
            hosts = draw(st.sampled_from([["n1"], ["n1", "n2"], ["n3"], None]))
            state = draw(st.sampled_from(_STATES))
            row = ran(f"{job}", start, end, state, submit=now, attempt=attempt, name=name, work_dir=folder, hosts=hosts)
            rows.append(
                replace(row, session_id=f"{job}.{attempt}", excluded_hosts=draw(st.sampled_from([None, ["n4"]])))
            )
            now = end
        if draw(st.booleans()):
            waits = ran(f"{job}", None, now + 5, "CANCELLED", submit=now, name=name, work_dir=folder)
            rows.append(replace(waits, session_id=f"{job}.w"))
            requeues.append(requeued(rows[-2], now))
    return rows, requeues


@settings(max_examples=300, deadline=None)
@given(_histories(), st.randoms(use_true_random=False))
def test_chains_are_the_paths_of_the_retries(history: tuple[list[Session], list[SchedulerEvent]], chance: Any) -> None:
    rows, requeues = history
    linked = link(*rows, requeues=requeues)
    shuffled = rows + rows[:2]
    chance.shuffle(shuffled)
    assert link(*shuffled, requeues=requeues[::-1]) == linked

    graph = nx.DiGraph(pairs(linked))
    assert all(degree <= 1 for _, degree in graph.in_degree())
    assert all(degree <= 1 for _, degree in graph.out_degree())
    assert nx.is_directed_acyclic_graph(graph)
    parts = sorted(len(part) for part in nx.weakly_connected_components(graph))
    assert parts == sorted(c.n_attempts or 0 for c in linked.chains if (c.n_attempts or 0) > 1)
    by_id = {row.session_id: row for row in rows}
    for retry in linked.retries:
        earlier, later = by_id[retry.from_session_id], by_id[retry.to_session_id]
        assert (earlier.end_time or 0) <= (later.start_time or 0)
        assert retry.trigger == "requeue" or earlier.raw_job_id != later.raw_job_id
    assert {retry.chain_id for retry in linked.retries} <= {chain.chain_id for chain in linked.chains}
    ids = [x.exclusion_id for x in linked.exclusions]
    assert len(set(ids)) == len(ids)
