"""Agents, scheduling history and audit log of an export of Backend.AI.

An agent is a host of its resource group since it first reported, until it was lost or terminated. ``schedulable:
false`` keeps it from new sessions; since when nobody records.

A row of ``session_scheduling_history`` is a phase of the scheduler. Only one that says what the session became is an
event; ``attempts`` counts equal tries of the scheduler that were merged into the row. An entry of the audit log about
the end of a session says who asked for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aftershock.parsers.backendai_words import ACTIVE, STARTING, status_of
from aftershock.parsers.clock import NO_CLOCK, Reading
from aftershock.parsers.documents.backendai_records import Record, uuid_of
from aftershock.parsers.documents.backendai_sessions import SCHEDULER
from aftershock.parsers.documents.backendai_values import clock_of, names_of, object_of, text_of, truth_of
from aftershock.parsers.formats import Found, Refused
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.topology import Host

_GONE: Final = frozenset({"LOST", "TERMINATED"})
_CANCELS: Final = frozenset({"delete", "destroy", "purge", "terminate", "cancel", "force_terminate"})
# Transitions that are what became of the session; the results of tries that lead to none have no status.
_REAL: Final = frozenset({"SUCCESS", "EXPIRED", "GIVE_UP", "STALE", "FAILURE"})
_LEAVES: Final = STARTING | ACTIVE | {"RESCHEDULING"}


class _Times:
    """Reads the times of a record and keeps what could not be read."""

    def __init__(self, members: Mapping[str, Any]) -> None:
        self._members = members
        self.problems: list[str] = []

    def of(self, *names: str) -> Reading:
        """The first of these times that is there."""
        for name in names:
            value = self._members.get(name)
            try:
                clock = clock_of(value)
            except ValueError as error:
                self.problems.append(f"{name} is not read: {error}: {str(value)[:64]}")
                continue
            if clock is not None:
                return Reading(clock.kind, clock.wall, None, None, 1, text_of(value))
        return NO_CLOCK


def agent_rows(record: Record) -> list[Found | Refused]:
    """The host that an agent is, that it is gone or was, and that it takes no new sessions."""
    members, times = record.members, _Times(record.members)
    agent = text_of(members.get("row_id")) or text_of(members.get("id"))
    agent = uuid_of(agent) if agent and len(agent) > 40 else agent
    if agent is None:
        return [Refused(record.offset, len(record.raw), "agent without an id", record.raw)]
    status = status_of(text_of(members.get("status")))
    first, lost, changed = times.of("first_contact"), times.of("lost_at"), times.of("status_changed")
    gone = lost if lost.wall is not None else changed
    host = Host(
        host=agent,
        partition=text_of(members.get("scaling_group")) or text_of(members.get("resource_group_name")),
        driver=_driver(members.get("compute_plugins")),
        # The other end is resolved with the zone of the source, this one is not: without a zone it is unknown.
        valid_to=gone.wall if status in _GONE and gone.kind == "zoned" else None,
    )
    rows: list[Found | Refused] = [Found(host, first, record.offset)]

    def add(kind: str, state: str | None, reading: Reading, reason: str) -> None:
        event = SchedulerEvent(
            scheduler=SCHEDULER,
            kind=kind,
            host_raw=agent,
            hosts=[agent],
            state=state,
            reason=reason,
            message=f"agent {agent}: {reason}",
        )
        rows.append(Found(event, reading, record.offset))

    if status in _GONE:
        add("node_down", status, gone, "lost_at" if gone is lost else f"status {status}")
    elif lost.wall is not None:
        add("node_down", "LOST", lost, "lost_at")
        if status == "ALIVE" and changed.kind == lost.kind and (changed.wall or 0) > lost.wall:
            add("node_up", "ALIVE", changed, "status ALIVE")
    if status == "RESTARTING":
        add("node_state", status, changed, "status RESTARTING")
    if truth_of(members.get("schedulable")) is False:
        add("node_cordon", status, NO_CLOCK, "schedulable is false")
    return rows + [Refused(record.offset, len(record.raw), problem, record.raw) for problem in times.problems]


def history_rows(record: Record) -> list[Found | Refused]:
    """The event that a phase of the scheduler is, if it changed what the session is."""
    members, times = record.members, _Times(record.members)
    session_id = uuid_of(members.get("session_id"))
    before, after = status_of(text_of(members.get("from_status"))), status_of(text_of(members.get("to_status")))
    result = (text_of(members.get("result")) or "").upper()
    if session_id is None or text_of(members.get("kernel_id")) or after in (None, before) or result not in _REAL:
        return []
    kind, state = None, None
    if after == "RUNNING" and result == "SUCCESS":
        kind, state = "started", "RUNNING"
    elif after in ("TERMINATED", "ERROR"):
        kind, state = "ended", "FAILED" if after == "ERROR" else None
    elif after == "CANCELLED":
        kind, state = "cancelled", "CANCELLED"
    elif after == "PENDING" and before in _LEAVES:
        kind = "requeued"
    if kind is None:
        return []
    row = SchedulerEvent(
        scheduler=SCHEDULER,
        kind=kind,
        job_id=session_id,
        raw_job_id=session_id,
        state=state,
        reason=text_of(members.get("error_code")),
        message=f"{text_of(members.get('phase'))}: {before} to {after}: {text_of(members.get('message')) or result}",
    )
    reading = times.of("created_at", "updated_at")
    rows: list[Found | Refused] = [Found(row, reading, record.offset)]
    return rows + [Refused(record.offset, len(record.raw), problem, record.raw) for problem in times.problems]


def audit_rows(record: Record) -> list[Found | Refused]:
    """Who asked for the end of a session; a request that destroyed several names them all."""
    members, times = record.members, _Times(record.members)
    operation = (text_of(members.get("operation")) or "").lower().replace("-", "_")
    entity = (text_of(members.get("entity_type")) or "").lower()
    if entity not in ("session", "compute_session") or operation not in _CANCELS:
        return []
    if (text_of(members.get("status")) or "").lower() != "success":
        return []
    reading = times.of("created_at")
    rows: list[Found | Refused] = []
    for name in names_of(members.get("entity_id")) or []:
        session_id = uuid_of(name)
        if session_id is None or session_id == "(unknown)":
            continue
        row = SchedulerEvent(
            scheduler=SCHEDULER,
            kind="cancelled",
            job_id=session_id,
            raw_job_id=session_id,
            user=text_of(members.get("triggered_by")),
            message=f"{entity} {operation}: {text_of(members.get('description')) or ''}".rstrip(": "),
        )
        rows.append(Found(row, reading, record.offset))
    return rows + [Refused(record.offset, len(record.raw), problem, record.raw) for problem in times.problems]


def _driver(plugins: Any) -> str | None:
    """The version of the GPU driver that a plugin of an agent reports (``nvidia_version`` of ``cuda``)."""
    for name, plugin in sorted(object_of(plugins).items()):
        stated = object_of(plugin)
        version = text_of(stated.get("nvidia_version")) or text_of(stated.get("driver_version"))
        if version is not None and name.startswith(("cuda", "rocm")):
            return version
    return None
