"""Backend.AI's exports: the shapes they come in, histories, kernels, agents, and what must not be made of them."""

from __future__ import annotations

import io
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.detect import Detected
from aftershock.parsers.documents.backendai_export import FORMAT
from aftershock.parsers.formats import Head, Refused
from aftershock.parsers.resolve import ClockRules
from aftershock.parsers.settle import SourceRules, settle_source
from aftershock.parsers.source import read_stream
from aftershock.schemas.columns import Row
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.sessions import Session
from aftershock.schemas.topology import Host

S1 = "5f0c9d1e-8a77-4c33-b1d2-6e40aa120001"
S2 = "5f0c9d1e-8a77-4c33-b1d2-6e40aa120002"
K1 = "0d3b7e55-1f0a-4a6c-9c1b-c2d4ee330001"
K2 = "0d3b7e55-1f0a-4a6c-9c1b-c2d4ee330002"
HOUR = 3_600_000_000
DAY0 = 1772409600000000  # 2026-03-02T00:00:00Z


def at(hour: float) -> str:
    minutes = round(hour * 60)
    return f"2026-03-02T{minutes // 60:02d}:{minutes % 60:02d}:00+00:00"


def read(text: str | bytes) -> tuple[list[Row], list[Refused]]:
    data = text.encode() if isinstance(text, str) else text
    found, refused = [], []
    for block in read_stream(io.BytesIO(data), Detected("document", FORMAT.name, document=FORMAT)):
        found += block.found
        refused += [item for _, item in block.refused]
    rules = SourceRules(source="s.json", clock=ClockRules(zone="UTC", inferred=False))
    return settle_source(found, [], rules, lambda name: FORMAT).rows, refused


def rows(document: Any) -> list[Row]:
    found, refused = read(document if isinstance(document, (str, bytes)) else orjson.dumps(document))
    assert refused == []
    return found


def session(**members: Any) -> dict[str, Any]:
    given_members = {
        "id": S1,
        "name": "pretrain",
        "cluster_mode": "multi-node",
        "status": "TERMINATED",
        "result": "UNDEFINED",
        "agent_ids": ["i-a1", "i-a2"],
        "status_history": {"PENDING": at(1), "RUNNING": at(2), "TERMINATED": at(3)},
    }
    return given_members | members


def one(document: Any) -> Session:
    (row,) = rows(document)
    assert isinstance(row, Session)
    return row


@pytest.mark.parametrize(
    "wrap",
    [
        lambda s: s,
        lambda s: [s],
        lambda s: {"count": 1, "total_count": 1, "items": [s]},
        lambda s: {"data": {"compute_session_list": {"items": [s], "total_count": 1}}},
        lambda s: {"data": {"session_nodes": {"edges": [{"node": s, "cursor": "x"}], "count": 1}}},
        lambda s: {"sessions": [s], "kernels": [], "agents": []},
        lambda s: {"session": s},
    ],
)
def test_wrappings(wrap: Any) -> None:
    for indent in (None, orjson.OPT_INDENT_2):
        document = orjson.dumps(wrap(session()), option=indent)
        assert FORMAT.detects(Head("a.json", document)) > 0.5
        row = one(document)
        assert (row.job_id, row.raw_job_id, row.hosts) == (S1, S1, ["i-a1", "i-a2"])
        assert (row.submit_time, row.start_time, row.end_time) == (DAY0 + HOUR, DAY0 + 2 * HOUR, DAY0 + 3 * HOUR)


def test_groups_and_names_of_the_newer_api() -> None:
    node = {
        "id": "U2Vzc2lvblYyOjVmMGM5ZDFlLThhNzctNGMzMy1iMWQyLTZlNDBhYTEyMDAwMQ==",
        "metadata": {"name": "n", "sessionType": "BATCH", "clusterMode": "MULTI_NODE", "accessKey": "site-key-77"},
        "resource": {
            "allocation": {"used": {"entries": [{"resourceType": "cuda.device", "quantity": "8"}]}},
            "resourceGroupName": "b200",
            "agentIds": ["i-a1"],
        },
        "lifecycle": {"status": "TERMINATED", "result": "SUCCESS", "createdAt": at(1), "terminatedAt": at(2)},
    }
    row = one({"data": {"adminSessionsV2": {"edges": [{"node": node}]}}})
    assert (row.job_id, row.name, row.partition, row.n_gpus) == (S1, "n", "b200", 8)
    assert (row.state, row.hosts, row.end_time) == ("COMPLETED", ["i-a1"], DAY0 + 2 * HOUR)
    assert "site-key-77" not in repr(row)


@pytest.mark.parametrize(
    "agents",
    ['["i-a1", "i-a2"]', "['i-a1', 'i-a2']", "{i-a1,i-a2}", '{"i-a1","i-a2"}', "i-a1,i-a2", "i-a1 i-a2"],
)
def test_lists_of_agents_in_every_spelling(agents: str) -> None:
    assert one(session(agent_ids=agents)).hosts == ["i-a1", "i-a2"]


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"result": "SUCCESS", "status_info": "self-terminated"}, ("COMPLETED", "self-terminated")),
        ({"result": "failure", "status_info": "agent-termination"}, ("FAILED", "agent-termination")),
        ({"status_info": "AGENT_LOST"}, ("NODE_FAIL", "agent-lost")),
        ({"status_info": "user_requested"}, ("CANCELLED", "user-requested")),
        ({"status_info": "idle-utilization"}, ("TIMEOUT", "idle-utilization")),
        ({"status_info": "preempted-by-reservation"}, ("PREEMPTED", "preempted-by-reservation")),
        ({"status_info": "self-terminated"}, ("UNKNOWN", "self-terminated")),
        (
            {"status_info": "self-terminated", "status_data": {"kernel": {"exit_code": 139}}},
            ("FAILED", "self-terminated"),
        ),
        ({"status": "ERROR", "status_info": None}, ("FAILED", None)),
        (
            {"status": "ERROR", "status_info": "", "status_data": '{"error": {"repr": "NoSuchImage(\'a\')"}}'},
            ("FAILED", "NoSuchImage('a')"),
        ),
        ({"status": "CANCELLED", "status_info": "pending-timeout"}, ("CANCELLED", "pending-timeout")),
        ({"status": "TERMINATED", "status_info": "triggered-by-scheduler"}, ("UNKNOWN", None)),
        ({"status": "RUNNING", "status_info": "triggered-by-scheduler"}, ("RUNNING", None)),
        ({"status": "TERMINATING", "status_info": "user-requested"}, ("RUNNING", None)),
        ({"status": "PENDING", "status_info": "no-available-instances"}, ("PENDING", None)),
    ],
)
def test_states_and_reasons(members: dict[str, Any], expected: tuple[str, str | None]) -> None:
    row = one(session(**members))
    assert (row.state, row.end_reason) == expected
    if row.state in ("RUNNING", "PENDING"):
        assert row.end_time is None


def test_a_session_that_never_got_agents() -> None:
    history = {"PENDING": at(1), "CANCELLED": at(2)}
    for agents in ([], None):
        row = one(session(status="CANCELLED", agent_ids=agents, status_history=history))
        assert (row.hosts, row.start_time, row.end_time) == ([], None, DAY0 + 2 * HOUR)


def test_a_requeue_shows_as_pending_after_the_rest() -> None:
    history = {"PENDING": at(4), "SCHEDULED": at(4.5), "PREPARING": at(1.5), "RUNNING": at(2), "TERMINATED": at(6)}
    found = rows(session(status_history=history, created_at=at(1)))
    events = [(row.kind, row.time) for row in found if isinstance(row, SchedulerEvent)]
    assert events == [
        ("submitted", DAY0 + HOUR),
        ("started", DAY0 + 2 * HOUR),
        ("requeued", DAY0 + 4 * HOUR),
    ]
    (last,) = [row for row in found if isinstance(row, Session)]
    assert (last.submit_time, last.start_time) == (DAY0 + 4 * HOUR, DAY0 + int(4.5 * HOUR))
    assert last.hosts == ["i-a1", "i-a2"]


def test_a_history_as_a_list_keeps_every_pass() -> None:
    times = [("PENDING", 1), ("RUNNING", 2), ("PENDING", 3), ("RUNNING", 4), ("PENDING", 5), ("RUNNING", 6)]
    history = [{"status": status, "timestamp": at(hour)} for status, hour in times]
    found = rows(session(status="RUNNING", status_history=history))
    assert [row.kind for row in found if isinstance(row, SchedulerEvent)] == [
        "started",
        "requeued",
        "started",
        "requeued",
    ]
    assert [row.start_time for row in found if isinstance(row, Session)] == [DAY0 + 6 * HOUR]


def test_waiting_anew_is_no_requeue_without_a_placement() -> None:
    history = {"DEPRIORITIZING": at(1), "PENDING": at(2), "SCHEDULED": at(3), "RUNNING": at(4), "TERMINATED": at(5)}
    assert one(session(status_history=history)).start_time == DAY0 + 4 * HOUR


def test_retries_and_designated_agents() -> None:
    row = one(session(parent_session_id=S2.upper(), retry_count=1, designated_agent_ids=["i-a1", "i-a2", "i-a3"]))
    assert (row.retry_of, row.designated_hosts) == (S2, ["i-a1", "i-a2", "i-a3"])
    row = one(session(retry_chain=[S2, S1], designated_agent_ids=[]))
    assert (row.retry_of, row.designated_hosts) == (S2, None)
    assert one(session(parent_session_id=S1)).retry_of is None
    assert one(session(designated_agent_ids=["i-A1.lab.example"])).designated_hosts == ["i-a1"]


@pytest.mark.parametrize(
    ("slots", "count"),
    [
        ({"occupying_slots": {"cpu": "8", "cuda.device": "8"}}, 8),
        ({"occupying_slots": {"cuda.shares": "2.0"}}, 2),
        ({"occupying_slots": {"cuda.shares": "0.5"}}, None),
        ({"occupying_slots": {}, "requested_slots": '{"cuda.device": 16}'}, 16),
        ({"occupying_slots": {"cpu": "8"}}, 0),
        ({}, None),
    ],
)
def test_gpus(slots: dict[str, Any], count: int | None) -> None:
    assert one(session(**slots)).n_gpus == count


def kernel(number: str, role: str, agent: str | None, **members: Any) -> dict[str, Any]:
    given_members = {
        "id": number,
        "session_id": S1,
        "cluster_role": role,
        "cluster_idx": 1,
        "agent": agent,
        "status": "TERMINATED",
        "status_info": "self-terminated",
        "occupied_slots": {"cuda.device": "8"},
        "status_history": {"PENDING": at(1), "RUNNING": at(2), "TERMINATED": at(3)},
    }
    return given_members | members


def test_kernels_make_their_session() -> None:
    failed = {"status_data": {"kernel": {"exit_code": 1}}}
    document = [kernel(K2, "sub", "i-a2", **failed), kernel(K1, "main", "i-a1"), kernel(K2, "sub", "i-a2", **failed)]
    row = one(document)
    assert (row.hosts, row.n_gpus, row.exit_code, row.state) == (["i-a1", "i-a2"], 16, 1, "FAILED")
    assert (row.start_time, row.end_time) == (DAY0 + 2 * HOUR, DAY0 + 3 * HOUR)
    running = one([kernel(K1, "main", "i-a1"), kernel(K2, "sub", "i-a2", status="RUNNING")])
    assert (running.state, running.end_time, running.end_reason) == ("RUNNING", None, None)


def test_kernels_fill_in_what_their_session_does_not_say() -> None:
    bare = session(status_info="self-terminated")
    del bare["agent_ids"]
    kernels = [kernel(K1, "main", "i-a1", status_data={"kernel": {"exit_code": 0}}), kernel(K2, "sub", "i-a2")]
    for document in ({"sessions": [bare], "kernels": kernels}, {"items": [bare | {"containers": kernels}]}):
        row = one(document)
        assert (row.hosts, row.exit_code, row.state, row.n_gpus) == (["i-a1", "i-a2"], 0, "COMPLETED", 16)


def test_agents_are_hosts_of_their_group() -> None:
    alive = {"id": "i-a1", "status": "ALIVE", "scaling_group": "b200", "schedulable": "f", "first_contact": at(1)}
    lost = {"id": "i-a2", "status": "LOST", "scaling_group": "b200", "schedulable": True, "lost_at": at(2)}
    back = alive | {"id": "i-a3", "schedulable": True, "lost_at": at(2), "status_changed": at(3)}
    found = rows({"items": [alive, lost, back]})
    hosts = [(row.host, row.partition, row.valid_from, row.valid_to) for row in found if isinstance(row, Host)]
    assert hosts == [
        ("i-a1", "b200", DAY0 + HOUR, None),
        ("i-a2", "b200", None, DAY0 + 2 * HOUR),
        ("i-a3", "b200", DAY0 + HOUR, None),
    ]
    events = [(row.kind, row.host, row.time) for row in found if isinstance(row, SchedulerEvent)]
    assert events == [
        ("node_cordon", "i-a1", None),
        ("node_down", "i-a2", DAY0 + 2 * HOUR),
        ("node_down", "i-a3", DAY0 + 2 * HOUR),
        ("node_up", "i-a3", DAY0 + 3 * HOUR),
    ]


@pytest.mark.parametrize(
    ("before", "after", "result", "kind"),
    [
        ("CREATING", "RUNNING", "SUCCESS", "started"),
        ("TERMINATING", "TERMINATED", "SUCCESS", "ended"),
        ("PENDING", "CANCELLED", "EXPIRED", "cancelled"),
        ("CREATING", "PENDING", "GIVE_UP", "requeued"),
        ("PREPARED", None, "NEED_RETRY", None),
        ("CREATING", "PENDING", "NEED_RETRY", None),
        ("PENDING", "SCHEDULED", "SUCCESS", None),
        ("PENDING", None, "SKIPPED", None),
        ("DEPRIORITIZING", "PENDING", "SUCCESS", None),
    ],
)
def test_scheduling_history(before: str, after: str | None, result: str, kind: str | None) -> None:
    record = {
        "session_id": S1,
        "phase": "p",
        "from_status": before,
        "to_status": after,
        "result": result,
        "attempts": 5,
        "created_at": at(1),
        "updated_at": at(2),
    }
    assert [row.kind for row in rows(record) if isinstance(row, SchedulerEvent)] == ([kind] if kind else [])
    assert rows(record | {"kernel_id": K1}) == []


def test_times_of_two_kinds_are_not_mixed() -> None:
    found, refused = read(orjson.dumps(session(terminated_at="2026-03-02T05:00:00")))
    (row,) = found
    assert isinstance(row, Session)
    assert "its clock is not that of the other times" in refused[0].reason
    found, refused = read(orjson.dumps(session(status_history={"RUNNING": "2026-02-31T00:00:00Z"})))
    assert "a date that does not exist" in refused[0].reason


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["id", "status", "agent_ids", "status_history", "status_data", "result", "created_at"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
            max_leaves=8,
        ),
    )
)
def test_whatever_stands_in_a_member_nothing_raises(members: dict[str, Any]) -> None:
    try:
        document = orjson.dumps(session(**members))
    except TypeError:  # more than 64 bits
        return
    read(document)
