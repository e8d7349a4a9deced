"""Joining the lines of Backend.AI's logs that tell one thing, and tying kernels to their sessions.

The manager prints ``start-session(...): started`` when it has asked all agents for their containers, which some may
have refused, and ``handle_session_started`` when all of them run. Only where nothing tells of the second is the first
the start of the session.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from aftershock.parsers.clock import MINUTE, SECOND, micros_between
from aftershock.parsers.formats import Found
from aftershock.schemas.events import SchedulerEvent

# An agent that joins is told by its heartbeat and by its event, within moments.
_ONE_JOIN: Final = 10 * SECOND
# One call of start-session: the agents that failed are recorded right before it says that it is done.
_ONE_CALL: Final = MINUTE


def settle(found: list[Found]) -> list[Found]:
    """The rows of a source, one for each thing that happened."""
    return _join_joins(_tell_starts_apart(_tie_kernels(found)))


def _event(item: Found) -> SchedulerEvent:
    assert isinstance(item.row, SchedulerEvent)
    return item.row


def _near(earlier: Found, later: Found, limit: int) -> bool:
    apart = micros_between(earlier.reading, later.reading)
    return apart is not None and abs(apart) <= limit


def _tie_kernels(found: list[Found]) -> list[Found]:
    """Give kernels the sessions that the agent created them for, and the host of the agent whose log it is."""
    sessions = {_event(item).array_task: _event(item).job_id for item in found if item.mark == "created"}
    kept = []
    host: str | None = None
    for item in found:
        row = _event(item)
        if item.mark == "node_id":
            host = row.host_raw
        if item.mark in ("node_id", "created"):
            continue
        if item.mark == "kernel":
            session = sessions.get(row.raw_job_id)
            if session is not None:
                row.job_id = row.raw_job_id = session
            if host is not None:
                row.host_raw, row.hosts = host, [host]
        kept.append(item)
    return kept


def _tell_starts_apart(found: list[Found]) -> list[Found]:
    """``launching`` for a start that was only asked for: it is told again once it is true, or agents refused it."""
    confirmed = {_event(item).job_id for item in found if item.mark == "session_started"}
    refused: dict[str | None, list[Found]] = defaultdict(list)
    for item in found:
        row = _event(item)
        if item.mark == "hosts_failed":
            refused[row.job_id].append(item)
        elif item.mark == "start_session" and (
            row.job_id in confirmed or any(_near(earlier, item, _ONE_CALL) for earlier in refused[row.job_id][-1:])
        ):
            row.kind = "launching"
    return found


def _join_joins(found: list[Found]) -> list[Found]:
    """An agent that joins twice within moments has joined once; the event says more than the heartbeat."""
    kept: list[Found] = []
    latest: dict[str | None, Found] = {}
    for item in found:
        row = _event(item)
        if item.mark == "joined":
            before = latest.get(row.host_raw)
            if before is not None and _near(before, item, _ONE_JOIN):
                if _event(before).reason == "via heartbeat":
                    _event(before).reason = row.reason
                continue
            latest[row.host_raw] = item
        elif row.kind == "node_down":
            latest.pop(row.hosts[0] if row.hosts else None, None)
        kept.append(item)
    return kept
