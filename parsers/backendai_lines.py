"""The messages of Backend.AI's manager and agents that are read, each with its pattern and the row that it gives."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from aftershock.parsers.backendai_words import UUID
from aftershock.parsers.patterns import later
from aftershock.schemas.events import SchedulerEvent

# Ids of agents are at most 64 characters long; by default they are the host name behind `i-`.
_AGENT: Final = r"(?P<agent>[A-Za-z0-9][\w.-]{0,63})"
_SESSION: Final = rf"(?P<session>{UUID})"
_KERNEL: Final = rf"(?P<kernel>{UUID})"
# name: a session's name has no blanks or commas; ak: the access key of its owner, a credential.
_START: Final = rf"start-session\(s:{_SESSION}(?:, [\w.-]{{1,40}}:[^,()]{{0,200}}){{0,8}}\): "
ACCESS_KEY: Final = re.compile(r"(?<=[ (,]ak:)[^,)\s]+")


class Shape(NamedTuple):
    """A line: its pattern, how a row is made of it, its mark for ``settle``, and whether no other program prints it."""

    pattern: re.Pattern[str]
    make: Callable[[re.Match[str]], SchedulerEvent]
    mark: str = ""
    own: bool = True


def _event(kind: str, **fields: Any) -> SchedulerEvent:
    return SchedulerEvent(scheduler="backendai", kind=kind, **fields)


def _of_agent(kind: str, state: str, reason: str | None = None) -> Callable[[re.Match[str]], SchedulerEvent]:
    def make(match: re.Match[str]) -> SchedulerEvent:
        agent = match["agent"].rstrip(".")
        said = match.groupdict().get("reason") or reason
        return _event(kind, host_raw=agent, hosts=[agent], state=state, reason=said)

    return make


def _of_session(kind: str, state: str | None = None) -> Callable[[re.Match[str]], SchedulerEvent]:
    def make(match: re.Match[str]) -> SchedulerEvent:
        session = match["session"].lower()
        return _event(kind, job_id=session, raw_job_id=session, state=state)

    return make


def _of_kernel(state: str, reason: str | None = None) -> Callable[[re.Match[str]], SchedulerEvent]:
    def make(match: re.Match[str]) -> SchedulerEvent:
        return _event("kernel_state", raw_job_id=match["kernel"].lower(), state=state, reason=reason)

    return make


_KERNEL_EVENTS: Final = {
    "preparing": "PREPARING",
    "pulling": "PULLING",
    "creating": "CREATING",
    "started": "RUNNING",
    "cancelled": "CANCELLED",
}
_AGENT_EVENTS: Final = {"start": "RUNNING", "destroy": "TERMINATING", "clean": "TERMINATED"}


def _kernel_event(match: re.Match[str]) -> SchedulerEvent:
    return _of_kernel(_KERNEL_EVENTS[match["what"]])(match)


def _agent_event(match: re.Match[str]) -> SchedulerEvent:
    return _of_kernel(_AGENT_EVENTS[match["what"]])(match)


def _failed_agents(match: re.Match[str]) -> SchedulerEvent:
    row = _of_session("hosts_failed")(match)
    row.hosts = list(dict.fromkeys(re.findall(r"[A-Za-z0-9][\w.-]{0,63}", match["agents"])))
    row.reason = "failed to create kernels"
    return row


def _created(match: re.Match[str]) -> SchedulerEvent:
    """The tie between a kernel and its session: for ``settle`` only."""
    row = _of_session("kernel_state")(match)
    row.array_task = match["kernel"].lower()
    return row


def _shape(pattern: str, make: Callable[[re.Match[str]], SchedulerEvent], mark: str = "", *, own: bool = True) -> Shape:
    return Shape(later(pattern, re.ASCII), make, mark, own)


SHAPES: Final = (
    _shape(
        rf"instance_lifecycle: (?:ag:|agent ){_AGENT} joined \((?:via event, )?(?P<reason>[^)]{{1,60}})\)!?\Z",
        _of_agent("node_up", "ALIVE"),
        "joined",
    ),
    _shape(rf"agent {_AGENT} heartbeat timeout detected\.?\Z", _of_agent("node_down", "LOST", "heartbeat timeout")),
    _shape(rf"agent {_AGENT} has terminated\.?\Z", _of_agent("node_down", "TERMINATED", "terminated"), own=False),
    _shape(rf"agent@{_AGENT} restarting for maintenance\.?\Z", _of_agent("node_state", "RESTARTING", "maintenance")),
    _shape(
        rf"handle_session_started: ev:\w{{1,40}} s:{_SESSION}\Z", _of_session("started", "RUNNING"), "session_started"
    ),
    _shape(rf"handle_session_cancelled: ev:\w{{1,40}} s:{_SESSION}\Z", _of_session("cancelled", "CANCELLED")),
    # Until 25.14 one line told both; the name of the event says which it was.
    _shape(
        rf"handle_session_creation_lifecycle: ev:session_started s:{_SESSION}\Z",
        _of_session("started", "RUNNING"),
        "session_started",
    ),
    _shape(
        rf"handle_session_creation_lifecycle: ev:session_cancelled s:{_SESSION}\Z",
        _of_session("cancelled", "CANCELLED"),
    ),
    _shape(_START + r"started\Z", _of_session("started"), "start_session"),
    _shape(_START + r"failed-starting\Z", _of_session("start_failed"), "start_failed"),
    _shape(_START + r"failed with unhandled exception\Z", _of_session("start_failed"), "start_failed"),
    _shape(_START + r"recording failed agents: \[(?P<agents>[^\[\]]{1,60000})\]\Z", _failed_agents, "hosts_failed"),
    _shape(
        rf"handle_kernel_(?P<what>preparing|pulling|creating|started|cancelled): ev:\w{{1,40}} k:{_KERNEL}\Z",
        _kernel_event,
        "kernel",
    ),
    _shape(
        rf"handle_kernel_creation_lifecycle: ev:kernel_(?P<what>preparing|pulling|creating|started|cancelled) "
        rf"k:{_KERNEL}\Z",
        _kernel_event,
        "kernel",
    ),
    _shape(rf"Handling termination of kernel {_KERNEL}\Z", _of_kernel("TERMINATED"), "kernel"),
    _shape(
        rf"Handling (?P<what>start|destroy|clean) event for kernel {_KERNEL} with container \S{{1,100}}\Z",
        _agent_event,
        "kernel",
    ),
    # The misspelling is the program's; a later release may mend it.
    _shape(
        rf"detected dead container (?:during lifec?ycle sync|while agent is down) \(k:{_KERNEL}, c:[^)]{{1,100}}\)\Z",
        _of_kernel("TERMINATED", "dead container"),
        "kernel",
    ),
    _shape(
        rf"create_kernel\(kernel:{_KERNEL}, session:{_SESSION}(?:, container:[^)\s]{{1,100}})?\)(?:\s.{{0,2000}})?\Z",
        _created,
        "created",
    ),
    _shape(
        rf"Node ID: {_AGENT} \(machine-type: [^,]{{0,100}}, host: [^)]{{0,300}}\)\Z",
        _of_agent("node_state", "ALIVE"),
        "node_id",
        own=False,
    ),
)

# What begins like one of the lines above and is none of them: it broke off, or is worded in a way that is not known.
BEGINNINGS: Final = re.compile(
    r"instance_lifecycle: (?:ag:|agent )|handle_session_(?:started|cancelled): "
    r"|start-session\(s:.{0,1000}recording failed"
)
