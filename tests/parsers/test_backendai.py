"""Backend.AI's logs: shapes of the line, words of the manager and the agents, kernels and their sessions."""

from __future__ import annotations

import io
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.backendai import FORMAT
from aftershock.parsers.backendai_words import REASONS, STATUSES, reason_of, state_of, status_of
from aftershock.parsers.detect import Detected
from aftershock.parsers.resolve import ClockRules
from aftershock.parsers.settle import SourceRules, settle_source
from aftershock.parsers.source import read_stream
from aftershock.schemas.events import SchedulerEvent

S1 = "5f0c9d1e-8a77-4c33-b1d2-6e40aa120001"
S2 = "5f0c9d1e-8a77-4c33-b1d2-6e40aa120002"
K1 = "0d3b7e55-1f0a-4a6c-9c1b-c2d4ee330001"
K2 = "0d3b7e55-1f0a-4a6c-9c1b-c2d4ee330002"
START = f"start-session(s:{S1}, type:batch, name:pretrain.v2, ak:site-key-77, cluster_mode:multi-node): "


def rows(text: str | bytes, zone: str | None = "UTC") -> list[SchedulerEvent]:
    stream = io.BytesIO(text.encode() if isinstance(text, str) else text)
    found, refused = [], []
    for block in read_stream(stream, Detected("lines", "backendai", formats=(FORMAT,))):
        found += block.found
        refused += block.refused
    rules = SourceRules(source="m.log", clock=ClockRules(zone=zone, inferred=False))
    settled = settle_source(found, [], rules, lambda name: FORMAT)
    assert all(isinstance(row, SchedulerEvent) for row in settled.rows)
    return [row for row in settled.rows if isinstance(row, SchedulerEvent)] + [r for _, r in refused]  # type: ignore[misc]


def console(*messages: str, name: str = "ai.backend.manager.registry", second: int = 10) -> str:
    return "".join(
        f"2026-03-02 07:08:{second + i:02d}.123 INFO {name} [2211] {message}\n" for i, message in enumerate(messages)
    )


def record(message: str, **members: Any) -> str:
    entry = {
        "timestamp": "2026-03-02T07:08:09.123456Z",
        "level": "INFO",
        "name": "ai.backend.manager.registry",
        "processName": "manager-0",
        "message": message,
    }
    return orjson.dumps(entry | members).decode() + "\n"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "instance_lifecycle: ag:i-gpu012 joined (via event, revived)",
            {"kind": "node_up", "host": "i-gpu012", "reason": "revived"},
        ),
        (
            "instance_lifecycle: agent i-gpu012 joined (via heartbeat)!",
            {"kind": "node_up", "host": "i-gpu012", "reason": "via heartbeat"},
        ),
        ("agent i-gpu012 heartbeat timeout detected.", {"kind": "node_down", "hosts": ["i-gpu012"], "state": "LOST"}),
        ("agent i-GPU012.lab.example has terminated.", {"kind": "node_down", "host": "i-gpu012"}),
        ("agent@i-gpu012 restarting for maintenance.", {"kind": "node_state", "state": "RESTARTING"}),
        (f"handle_session_started: ev:session_started s:{S1}", {"kind": "started", "job_id": S1}),
        (f"handle_session_cancelled: ev:session_cancelled s:{S1.upper()}", {"kind": "cancelled", "job_id": S1}),
        (f"handle_session_creation_lifecycle: ev:session_started s:{S1}", {"kind": "started", "job_id": S1}),
        (START + "started", {"kind": "started", "job_id": S1}),
        (START + "failed-starting", {"kind": "start_failed", "job_id": S1}),
        (f"start-session(s:{S1}): failed with unhandled exception", {"kind": "start_failed", "job_id": S1}),
        (START + "recording failed agents: ['i-a1']", {"kind": "hosts_failed", "hosts": ["i-a1"], "job_id": S1}),
        (f"handle_kernel_started: ev:kernel_started k:{K1}", {"kind": "kernel_state", "state": "RUNNING"}),
        (f"handle_kernel_cancelled: ev:kernel_cancelled k:{K1}", {"kind": "kernel_state", "state": "CANCELLED"}),
        (f"Handling termination of kernel {K1}", {"kind": "kernel_state", "raw_job_id": K1, "job_id": None}),
        (f"Handling destroy event for kernel {K1} with container 0a1b", {"state": "TERMINATING", "job_id": None}),
        (f"detected dead container during lifeycle sync (k:{K1}, c:0a1b)", {"state": "TERMINATED", "job_id": None}),
    ],
)
@pytest.mark.parametrize("shape", [console, record])
def test_a_line_on_the_console_and_in_json(shape: Any, message: str, expected: dict[str, Any]) -> None:
    (row,) = rows(shape(message))
    assert {name: getattr(row, name) for name in expected} == expected
    assert row.scheduler == "backendai"


@pytest.mark.parametrize(
    "message",
    [
        "Retried 4 stuck CREATING sessions",
        "Swept 2 sessions with lost agent kernels",
        START + "try-starting",
        START + "cleanup-start-failure: begin",
        f"Handled clean event for kernel {K1} with container None",
        "agent has terminated.",
        "the agent i-gpu012 heartbeat timeout detected.",
        f"handle_session_creation_lifecycle: ev:session_terminated s:{S1}",
    ],
)
def test_other_lines_are_none(message: str) -> None:
    assert rows(console(message)) == []


def test_clocks_the_console_is_local_and_json_is_utc() -> None:
    (local,) = rows(console("agent i-a1 heartbeat timeout detected."), zone=None)
    assert (local.time, local.time_local) == (None, "2026-03-02 07:08:10.123")
    (seoul,) = rows(console("agent i-a1 heartbeat timeout detected."), zone="Asia/Seoul")
    (utc,) = rows(record("agent i-a1 heartbeat timeout detected."), zone="Asia/Seoul")
    assert utc.time == 1772435289123456
    assert seoul.time == 1772435290123000 - 9 * 3600 * 1_000_000


def test_colours_compose_and_syslog_stand_around_a_line() -> None:
    line = console("agent i-a1 heartbeat timeout detected.")
    coloured = line.replace("2026-03-02", "\x1b[38;5;240m2026-03-02").replace(" INFO", "\x1b[0m \x1b[1mINFO\x1b[0m")
    for text in (coloured, "manager-1  | " + line, "Mar  2 07:08:11 mgr01 python[99]: " + line):
        assert [(row.kind, row.host, row.time) for row in rows(text)] == [("node_down", "i-a1", 1772435290123000)]


def test_the_simple_format_names_agents_as_they_are_by_default() -> None:
    assert [row.host for row in rows("INFO agent i-a1 has terminated.\n")] == ["i-a1"]
    assert rows("INFO agent smith has terminated.\n") == []
    assert rows("agent i-a1 heartbeat timeout detected.\n") == []


def test_the_access_key_stands_nowhere() -> None:
    for text in (
        console(START + "started"),
        record(START + "recording failed agents: ['i-a1']"),
        "INFO " + START + "started\n",
    ):
        (row,) = rows(text)
        assert "site-key-77" not in repr(row)
        assert "ak:***" in (row.message or "")
    (refused,) = rows(console(START + "recording failed agents: ['i-a1'"))
    assert "site-key-77" not in repr(refused)


def test_what_only_asked_for_a_start_is_none() -> None:
    begun = START + "started"
    started = f"handle_session_started: ev:session_started s:{S1}"
    assert [row.kind for row in rows(console(begun, started))] == ["launching", "started"]
    other = started.replace(S1, S2)
    assert [row.kind for row in rows(console(begun, other))] == ["started", "started"]
    refused = START + "recording failed agents: ['i-a1', 'i-a2']"
    assert [row.kind for row in rows(console(refused, begun))] == ["hosts_failed", "launching"]


def test_kernels_belong_to_the_session_that_the_agent_created_them_for() -> None:
    text = console(
        "Node ID: i-gpu012 (machine-type: (unknown), host: 10.0.0.12)",
        f"create_kernel(kernel:{K1}, session:{S1}) semaphore acquired",
        f"create_kernel(kernel:{K1}, session:{S1}, container:0a1b) done",
        f"Handling start event for kernel {K1} with container 0a1b",
        f"Handling clean event for kernel {K2} with container None",
        name="ai.backend.agent.agent",
    )
    told = [(row.kind, row.job_id, row.raw_job_id, row.host, row.state) for row in rows(text)]
    assert told == [
        ("kernel_state", S1, S1, "i-gpu012", "RUNNING"),
        ("kernel_state", None, K2, "i-gpu012", "TERMINATED"),
    ]


def test_an_agent_joins_once_though_it_is_told_twice() -> None:
    beat, event = (
        "instance_lifecycle: agent i-a1 joined (via heartbeat)!",
        "instance_lifecycle: ag:i-a1 joined (via event, self-started)",
    )
    assert [row.reason for row in rows(console(beat, event))] == ["self-started"]
    lost = "agent i-a1 heartbeat timeout detected."
    assert [row.kind for row in rows(console(beat, lost, event))] == ["node_up", "node_down", "node_up"]


def test_a_traceback_is_no_event_and_gives_the_reason() -> None:
    trace = (
        "Traceback (most recent call last):\n"
        '  File "launcher.py", line 3, in start\n'
        "    agent i-a1 heartbeat timeout detected.\n"
        "asyncio.exceptions.TimeoutError\n"
        "\n"
        "During handling of the above exception, another exception occurred:\n"
        "\n"
        "Traceback (most recent call last):\n"
        '  File "launcher.py", line 9, in start\n'
        "ai.backend.errors.AgentError: i-a1 said no\n"
    )
    (row,) = rows(console(START + "failed-starting") + trace + console("bye"))
    assert (row.kind, row.reason) == ("start_failed", "ai.backend.errors.AgentError: i-a1 said no")


def test_reasons_have_one_spelling() -> None:
    for printed in ("agent-termination", "AGENT_TERMINATION", "KernelLifecycleEventReason.AGENT_TERMINATION"):
        assert reason_of(printed) == "agent-termination"
    assert reason_of(" Image pull failed: no such tag ") == "Image pull failed: no such tag"
    assert reason_of("") is reason_of(None) is None
    assert len(REASONS) >= 30


@given(st.sampled_from(sorted(STATUSES)), st.sampled_from(["success", "FAILURE", "UNDEFINED", None]), st.text())
def test_every_status_has_a_state(status: str, result: str | None, reason: str) -> None:
    state = state_of(status_of(f"SessionStatus.{status}"), result, reason_of(reason), None)
    assert state in {"PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT"} | {"UNKNOWN"}
    assert (state == "CANCELLED") or status != "CANCELLED"


def test_a_long_line_takes_time_in_proportion() -> None:
    """A grammar that went back and forth would not end."""
    for filler in ("x" * 200_000, ", a:" * 50_000, "['" * 100_000):
        assert all(not isinstance(r, SchedulerEvent) for r in rows(console(f"start-session(s:{S1}{filler}")))
