"""What follows from rows of many hosts, jobs and lineages: evidence, complements, planned changes, tallies."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.transit import lean_batch
from aftershock.pipeline.exclusion_evidence import Evidence, looks_at
from aftershock.pipeline.exclusion_rules import ExclusionRules
from aftershock.pipeline.gather import GatherRules, gather_rows
from aftershock.pipeline.links import History
from aftershock.pipeline.retry_rules import RetryRules, variants
from aftershock.pipeline.roster import Roster, complements
from aftershock.pipeline.sensitivity import findings_of, tallies, wilson
from aftershock.schemas.changes import Change
from aftershock.schemas.columns import Row
from aftershock.schemas.events import GpuError, HealthCheck, NodeEvent
from aftershock.schemas.incidents import Finding
from aftershock.schemas.sessions import Exclusion, Session
from aftershock.schemas.topology import Coverage, Host
from tests.pipeline.test_retries import DAY0, US, at, ran

HOUR = 3600


def xid(seconds: float, host: str = "n1", name: str = "e-1", **more: Any) -> GpuError:
    columns = {"family": "xid", "code": 79, "fault_class": "hardware", "trust": "kernel"} | more
    return GpuError(event_id=name, host=host, time=at(seconds), last_time=at(seconds), **columns)


def out(start: float, host: str = "n1", how: str = "drain", **more: Any) -> Exclusion:
    return Exclusion(exclusion_id=f"x-{host}-{how}-{start}", host=host, how=how, start_time=at(start), **more)


def marked(exclusion: Exclusion, *events: Any, **rules: Any) -> tuple[bool | None, list[str] | None]:
    Evidence(events, looks_at(events), ExclusionRules(**rules)).mark([exclusion])
    return exclusion.evidenced, exclusion.evidence_event_ids


def test_a_fault_before_the_exclusion_speaks_for_it() -> None:
    assert marked(out(HOUR), xid(10), xid(20, name="e-2"), xid(30, "n2")) == (True, ["e-1", "e-2"])
    assert marked(out(25 * HOUR), xid(10)) == (None, None)
    assert marked(out(25 * HOUR), xid(10), evidence_window_s=26 * HOUR) == (True, ["e-1"])
    assert marked(out(HOUR), xid(HOUR + 30)) == (True, ["e-1"])
    assert marked(out(HOUR), xid(HOUR + 90)) == (None, None)


@pytest.mark.parametrize(
    "event",
    [
        xid(10, fault_class="application"),
        xid(10, trust="user"),
        xid(10, trust="injected"),
        xid(10, severity="correctable"),
        NodeEvent(kind="oom_kill", host="n1", time=at(10), event_id="e-1"),
        NodeEvent(kind="machine_check", severity="correctable", host="n1", time=at(10), event_id="e-1"),
    ],
)
def test_what_is_no_fault_of_the_host(event: Any) -> None:
    looked = NodeEvent(kind="boot", host="n1", time=at(0), event_id="b")
    assert marked(out(HOUR), event, looked) == (False, [])


def test_nobody_looked_is_not_the_same_as_nothing_seen() -> None:
    boot = NodeEvent(kind="boot", host="n1", time=at(0), event_id="b")
    check = HealthCheck(checker="nhc", result="pass", host="n1", time=at(0), event_id="h")
    assert marked(out(HOUR), boot) == marked(out(HOUR), check) == (False, [])
    assert marked(out(HOUR, "n2"), boot) == (None, None)
    assert marked(out(50 * HOUR), boot) == (None, None)
    assert marked(Exclusion(host="n1", how="cordon"), boot, xid(1)) == (None, None)
    memory = NodeEvent(kind="memory_error", host="n1", time=at(5), event_id="m")
    assert marked(out(HOUR), boot, memory) == (True, ["m"])


def test_errors_that_last_into_the_window() -> None:
    long = xid(10)
    long.last_time = at(30 * HOUR)
    assert marked(out(31 * HOUR), long) == (True, ["e-1"])


def chosen(**more: Any) -> Session:
    columns = {"designated_hosts": ["n1", "n2"], "partition": "a", "scheduler": "backendai", "submit": 50} | more
    return ran("6", 100, 900, **columns)


def left_out(session: Session, *hosts: Host, **roster: Any) -> list[str | None]:
    return [row.host for row in complements([session], Roster(hosts, **roster))]


def host(name: str, since: float | None = None, until: float | None = None, group: str = "a") -> Host:
    return Host(cluster="sun", host=name, partition=group, valid_from=at(since), valid_to=at(until))


def test_complement_is_who_else_was_there() -> None:
    hosts = [host(f"n{n}") for n in (1, 2, 3)]
    hosts += [host("n4", until=99), host("n5", since=101), host("n6", 0, 200), host("n7", group="b")]
    (third, sixth) = complements([chosen()], Roster(hosts))
    assert (third.host, sixth.host) == ("n3", "n6")
    assert (third.how, third.start_time, third.end_time, third.by) == ("designated_complement", at(50), at(900), "ada")
    assert third.session_id == "6@100"
    down = [out(0, "n3", "down", end_time=at(60)), out(90, "n6", "down"), out(0, "n3", "drain")]
    assert left_out(chosen(), *hosts, down=down) == ["n3"]


def test_complement_where_the_group_is_unknown() -> None:
    roster = ["n1", "n8", "n9"]
    assert left_out(chosen(partition="c"), host("n7", group="b"), configured=roster) == ["n8", "n9"]
    assert left_out(chosen(partition="c"), host("n7", group="b")) == []
    assert left_out(chosen(), Host(cluster="sun", host="n3")) == ["n3"]
    assert left_out(chosen(), seen=[("sun", "a", "n1"), ("sun", "a", "n4"), ("sun", "b", "n5")]) == ["n4"]
    assert left_out(chosen(hosts=["n3"]), host("n1"), host("n3")) == []
    assert left_out(chosen(designated_hosts=None), host("n3")) == []


def test_list_of_wanted_hosts_of_slurm_leaves_nobody_out() -> None:
    assert left_out(chosen(scheduler="slurm"), host("n3")) == []


def tables(*rows: Row) -> dict[str, list[pa.RecordBatch]]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.table].append(row)
    return {name: [lean_batch(members, name)] for name, members in groups.items()}


def test_all_meet() -> None:
    drain = out(HOUR)
    drain.cluster = "sun"
    change = Change(
        change_id="c", cluster="sun", host="n1", kind="maintenance", start_time=at(HOUR - 9), end_time=at(2 * HOUR)
    )
    look = Coverage(cluster="sun", host="n3", kind="kernel", start_time=at(0), end_time=at(99), state="present")
    rows = list(
        gather_rows(tables(xid(100), drain, change, look, chosen(), host("n1"), host("n2"), host("n3")), GatherRules())
    )
    found = {row.how: row for row in rows if isinstance(row, Exclusion)}
    assert found.keys() == {"drain", "designated_complement"}
    assert (found["drain"].evidenced, found["drain"].planned) == (True, True)
    assert (found["designated_complement"].host, found["designated_complement"].evidenced) == ("n3", False)
    assert [row.event_id for row in rows if isinstance(row, GpuError)] == ["e-1"]
    assert not any(isinstance(row, Finding) for row in rows)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 99), st.sampled_from(["n1", "n2"])), max_size=5),
    st.lists(st.tuples(st.integers(0, 99), st.sampled_from(["n1", "n2"])), max_size=5),
    st.randoms(use_true_random=False),
)
def test_order_does_not_matter(errors: Any, outs: Any, chance: Any) -> None:
    def rows() -> list[Row]:
        found: list[Row] = [xid(HOUR * t, name, f"e-{n}") for n, (t, name) in enumerate(errors)]
        found += [out(HOUR * t, name) for t, name in outs]
        return [*found, *looks_at(row for row in found if isinstance(row, GpuError))]

    first, again = rows(), rows()
    chance.shuffle(again)

    def text(given: list[Row]) -> list[str]:
        return sorted(repr(row) for row in gather_rows(tables(*given), GatherRules()))

    assert text(first) == text(again)


def numbers(sessions: list[Session], rules: RetryRules | None = None) -> dict[tuple[str, str, str], Finding]:
    rules = rules or RetryRules()
    parts = [sessions[::2], sessions[1::2]]
    owners: dict[str | None, list[Session]] = defaultdict(list)
    for session in sessions:
        owners[session.user].append(session)
    parts = list(owners.values())
    partials = [row for part in parts for row in tallies(History(part, [], rules), len(part), at(0), at(9000))]
    found = findings_of(partials[::-1], rules)
    return {(row.finding or "", row.subject or "", row.unit or ""): row for row in found}


def test_how_the_numbers_depend_on_a_threshold() -> None:
    sessions = [
        ran("1", 1, 100),
        ran("2", 200, 300, "COMPLETED"),  # 100 s later
        ran("3", 1, 100, user="eve"),
        ran("4", 5100, 6000, "COMPLETED", user="eve"),  # 5000 s later
        ran("5", 1, 100, user="bob"),
        ran("6", 10_100, 10_200, "FAILED", user="bob"),  # 10,000 s later
    ]
    found = numbers(sessions)
    counts = {subject: row.value for (name, subject, _), row in found.items() if name == "chains"}
    assert counts["all"] == 2
    assert (counts["max_gap_s=3600"], counts["max_gap_s=14400"]) == (1, 3)
    share = found["retry_success_share", "max_gap_s=14400", "chains"]
    assert (share.numerator, share.denominator, share.value) == (2, 3, pytest.approx(2 / 3))
    assert (share.ci_low, share.ci_high) == wilson(2, 3)
    median = found["retry_interval_median_s", "all", "s"]
    assert (median.value, median.denominator, median.ci_low) == (2550.0, 2, None)
    assert found["requeue_interval_median_s", "all", "s"].value is None
    assert json.loads(share.parameters or "")["max_gap_s"] == 14400
    assert (share.exposure, share.window_start, share.window_end) == (6.0, at(0), at(9000))
    assert {subject for _, subject, _ in found} == {"all", *(name for name, _ in variants(RetryRules()))}


def test_success_by_running_long_depends_on_how_long() -> None:
    sessions = [ran("1", 1, 100), ran("2", 200, 200 + 50_000, "CANCELLED", last_step=7)]
    found = numbers(sessions)
    assert found["retry_success_share", "all", "chains"].value == 0
    assert found["retry_success_share", "success_min_runtime_s=43200", "chains"].value == 1
    assert found["retry_success_share", "success_min_runtime_s=43200", "attempts"].denominator == 1


def test_chains_that_run_still_are_not_decided() -> None:
    found = numbers([ran("1", 1, 100), ran("2", 200, None, "RUNNING")])
    share = found["retry_success_share", "all", "chains"]
    assert (share.value, share.denominator, found["chains", "all", "chains"].value) == (None, 0, 1)


def test_interval_of_a_share() -> None:
    low, high = wilson(4, 12)
    assert (low, high) == (pytest.approx(0.138, abs=0.001), pytest.approx(0.609, abs=0.001))
    assert wilson(0, 0) == (None, None)
    assert wilson(0, 5)[0] == 0.0


def test_limits_of_a_median_need_six_values() -> None:
    rows = [ran(f"{n}", 1000 * n, 1000 * n + 900 - n) for n in range(1, 9)]
    found = numbers(rows)["retry_interval_median_s", "all", "s"]
    assert (found.denominator, found.ci_low, found.ci_high) == (7, 101.0, 107.0)
    assert found.value == 104.0
    assert DAY0 % US == 0
