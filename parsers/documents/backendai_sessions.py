"""One session or kernel of an export of Backend.AI as a session row, and what its history tells of earlier placements.

``status_history`` is a map from status to time, so that a second pass through a status overwrites the first: PENDING
that is later than PREPARING proves that the session went back to the queue, not how often. What is older than that
PENDING belongs to the placement before, whose agents nobody recorded. Some answers have a list instead, with every
pass.

A session was placed when it began to run; one that never ran but had agents, when those were chosen. Retries are new
sessions; only ``parent_session_id`` and the like tie them together. ``attempts`` and ``retries`` of the scheduler count
its tries, not those of the session.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from aftershock.parsers.backendai_words import (
    ACTIVE,
    OVER,
    STARTING,
    WAITING,
    is_end_reason,
    reason_of,
    state_of,
    status_of,
)
from aftershock.parsers.clock import MINUTE, NO_CLOCK, SECOND, ClockKind, Reading
from aftershock.parsers.documents.backendai_records import Record, flattened, uuid_of
from aftershock.parsers.documents.backendai_values import (
    clock_of,
    gpus_in,
    history_of,
    names_of,
    object_of,
    objects_of,
    structure_of,
    text_of,
    whole_of,
)
from aftershock.parsers.formats import Found, Refused
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.sessions import Session

SCHEDULER: Final = "backendai"
# Marks for the step that puts sessions together; behind them stands the rank of a kernel.
OF_SESSION, OF_KERNEL = "session", "kernel"

_USER: Final = ("user_email", "user_username", "username", "user_name", "created_user_email", "email")
_USER_ID: Final = ("user_uuid", "user_id", "user")
_PARTITION: Final = ("scaling_group_name", "scaling_group", "resource_group_name", "resource_group")
_PARENT: Final = ("parent_session_id", "parent_session", "retry_parent_id", "retry_of", "retried_from")
_HELD: Final = ("occupying_slots", "occupied_slots", "resources_used", "resource_used", "used")
_ASKED: Final = ("requested_slots", "resources_requested", "resource_requested", "requested")
_KERNELS: Final = ("containers", "kernels", "compute_containers", "kernel_nodes")
_AGENT: Final = re.compile(r"[A-Za-z0-9_][\w.:-]{0,252}\Z", re.ASCII)
# A session runs when the last of its kernels does, a turn of the scheduler later.
_OF_KERNEL_ERROR: Final = MINUTE


class _Step(NamedTuple):
    """A status of the history and when it was entered."""

    status: str
    wall: int
    text: str | None


@dataclass
class _Clocks:
    """Reads the times of a record, all of one kind, and keeps what could not be read."""

    kind: ClockKind = "none"
    text: str | None = None
    problems: list[str] = field(default_factory=list)

    def wall(self, name: str, value: Any) -> int | None:
        """Microseconds of a time; None if there is none, or it cannot be read."""
        try:
            clock = clock_of(value)
        except ValueError as error:
            self.problems.append(f"{name} is not read: {error}: {str(value)[:64]}")
            return None
        if clock is None:
            return None
        if self.kind not in ("none", clock.kind):
            self.problems.append(f"{name} is not read: its clock is not that of the other times")
            return None
        self.kind, self.text = clock.kind, text_of(value)
        return clock.wall

    def reading(self, wall: int | None, resolution: int = 1, text: str | None = None) -> Reading:
        """The reading of one of these times."""
        return NO_CLOCK if wall is None else Reading(self.kind, wall, None, None, resolution, text)


def session_rows(record: Record) -> list[Found | Refused]:
    """The row of a session, of one kernel of it where the record has both, and the events of earlier placements."""
    members, clocks = record.members, _Clocks()
    session_id = next((found for key in ("session_id", "row_id", "id") if (found := uuid_of(members.get(key)))), None)
    if session_id is None:
        return [Refused(record.offset, len(record.raw), "session without an id", record.raw)]
    kernels = [flattened(kernel) for key in _KERNELS for kernel in objects_of(members.get(key))]
    kernels.sort(key=_rank)
    passes = _passes(members, clocks)
    row = _row(members, session_id, passes, clocks)
    _place(row, members, kernels, passes)
    if row.exit_code is None and row.start_time is not None:
        row.exit_code = next((code for kernel in kernels if (code := _exit_code(kernel)) is not None), None)
        if row.state == "UNKNOWN":
            row.state = state_of("TERMINATED", None, row.end_reason, row.exit_code)
    if row.n_gpus is None:
        row.n_gpus = _sum(gpus_in(_first(kernel, _HELD), _first(kernel, _ASKED)) for kernel in kernels)
    mark = OF_SESSION
    if "kernel_agent" in members:
        mark += f" {_rank_text({'cluster_role': members.get('kernel_role')})}"
    moment = next((t for t in (row.end_time, row.start_time, row.submit_time) if t is not None), None)
    rows: list[Found | Refused] = _earlier(row, members, passes, clocks, record.offset)
    rows.append(Found(row, clocks.reading(moment), record.offset, mark))
    return rows + [Refused(record.offset, len(record.raw), problem, record.raw) for problem in clocks.problems]


def kernel_rows(record: Record) -> list[Found | Refused]:
    """The part of its session that a kernel tells: its agent, its GPUs, its exit, and times that are near."""
    members, clocks = record.members, _Clocks()
    session_id = uuid_of(members.get("session_id"))
    if session_id is None:
        return [Refused(record.offset, len(record.raw), "kernel without a session", record.raw)]
    passes = _passes(members, clocks)
    row = _row(members, session_id, passes, clocks)
    row.name = text_of(members.get("session_name"))
    row.retry_of = row.designated_hosts = None
    _place(row, members, [members], passes)
    row.duration_s = None  # that of the session is not known here
    moment = next((t for t in (row.end_time, row.start_time, row.submit_time) if t is not None), None)
    reading = clocks.reading(moment, _OF_KERNEL_ERROR)
    found: list[Found | Refused] = [Found(row, reading, record.offset, f"{OF_KERNEL} {_rank_text(members)}")]
    return found + [Refused(record.offset, len(record.raw), problem, record.raw) for problem in clocks.problems]


def _row(members: Mapping[str, Any], session_id: str, passes: list[list[_Step]], clocks: _Clocks) -> Session:
    """All but the hosts and what hangs on them."""
    status = status_of(text_of(_first(members, ("status", "kernel_status")))) or (
        passes[-1][-1].status if passes and passes[-1] else None
    )
    data = object_of(members.get("status_data"))
    reason = reason_of(text_of(members.get("status_info"))) or _error_in(data)
    code = _exit_code(members)
    created = clocks.wall("created_at", _first(members, ("created_at", "kernel_created_at")))
    terminated = clocks.wall("terminated_at", _first(members, ("terminated_at", "kernel_terminated_at")))
    queued = _time_of(passes[-1], WAITING) if passes else None
    start = _time_of(passes[-1], frozenset({"RUNNING"})) if passes else None
    if start is None and not passes and status not in WAITING:
        # A status that nobody kept the history of: in releases before 26 the time may be that of a reservation.
        start = clocks.wall("starts_at", members.get("starts_at"))
        start = None if start is not None and created is not None and start < created else start
    ended = _time_of(passes[-1], OVER) if passes else None
    over = status in OVER if status is not None else False
    state = state_of(status, text_of(members.get("result")), reason, code)
    end = (terminated if terminated is not None else ended) if over else None
    return Session(
        scheduler=SCHEDULER,
        job_id=session_id,
        raw_job_id=session_id,
        name=text_of(_first(members, ("name", "session_name"))),
        user=_user(members),
        partition=text_of(_first(members, _PARTITION)),
        n_gpus=gpus_in(_first(members, _HELD), _first(members, _ASKED)),
        submit_time=queued if len(passes) > 1 else created if created is not None else queued,
        start_time=start,
        end_time=end,
        state=state,
        exit_code=code if over else None,
        end_reason=reason if is_end_reason(reason) and (over or state == "PENDING") else None,
        designated_hosts=names_of(_first(members, ("designated_agent_ids", "designated_agents"))) or None,
        command=text_of(members.get("startup_command")),
        retry_of=_parent(members, session_id),
    )


def _place(
    row: Session, members: Mapping[str, Any], kernels: Sequence[Mapping[str, Any]], passes: list[list[_Step]]
) -> None:
    """The hosts, and whether it was placed at all. What cannot be the id of an agent is none."""
    stated = names_of(_first(members, ("agent_ids", "agents", "agent_list")))
    if not stated:
        agents = (text_of(_first(kernel, ("agent", "agent_id", "kernel_agent"))) for kernel in kernels)
        stated = list(dict.fromkeys(agent for agent in agents if agent)) or stated
    if not stated and (agent := text_of(members.get("kernel_agent"))):
        stated = [agent]
    if stated:
        stated = [name for name in stated if _AGENT.match(name)] or None
    chosen = _time_of(passes[-1], STARTING | ACTIVE) if passes else None
    if row.start_time is None and stated and row.state != "PENDING":
        row.start_time = chosen
    ran = row.start_time is not None or chosen is not None or row.state == "RUNNING"
    if row.state == "PENDING" or (not stated and not ran and row.state == "CANCELLED"):
        row.hosts = []
    else:
        row.hosts = stated or (None if ran or stated is None else [])
    if row.hosts is not None:
        row.n_hosts = len(row.hosts)
    if row.start_time is not None and row.end_time is not None and row.end_time >= row.start_time:
        row.duration_s = (row.end_time - row.start_time) / SECOND


def _passes(members: Mapping[str, Any], clocks: _Clocks) -> list[list[_Step]]:
    """The history in the order of time, cut where the session went back to the queue."""
    steps = []
    for printed, time in history_of(members.get("status_history")):
        status = status_of(printed)
        wall = clocks.wall(f"status_history {printed[:32]}", time) if status is not None else None
        if status is not None and wall is not None:
            steps.append(_Step(status, wall, text_of(time)))
    steps.sort(key=lambda step: step.wall)
    passes: list[list[_Step]] = []
    placed = False
    for step in steps:
        if not passes or (step.status == "PENDING" and placed):
            passes.append([])
            placed = False
        passes[-1].append(step)
        placed = placed or step.status in STARTING or step.status in ACTIVE
    return passes


def _time_of(steps: list[_Step], statuses: frozenset[str]) -> int | None:
    return next((step.wall for step in steps if step.status in statuses), None)


def _earlier(
    row: Session, members: Mapping[str, Any], passes: list[list[_Step]], clocks: _Clocks, offset: int
) -> list[Found | Refused]:
    """What the history tells of placements before the last: submitted, started and put back into the queue."""
    found: list[Found | Refused] = []

    def add(kind: str, wall: int, text: str | None, message: str, **fields: Any) -> None:
        event = SchedulerEvent(
            scheduler=SCHEDULER, kind=kind, job_id=row.job_id, raw_job_id=row.raw_job_id, message=message, **fields
        )
        found.append(Found(event, clocks.reading(wall, 1, text), offset))

    for number, (steps, following) in enumerate(itertools.pairwise(passes)):
        started = next((step for step in steps if step.status == "RUNNING"), None)
        if number == 0 and started is not None:
            created = clocks.wall("created_at", members.get("created_at"))
            if created is not None and created <= started.wall:
                add("submitted", created, text_of(members.get("created_at")), "created_at", user=row.user)
        if started is not None:
            add("started", started.wall, started.text, "RUNNING before it was PENDING again", state="RUNNING")
        preempted = any(step.status in ("PREEMPTED", "RESCHEDULING") for step in steps)
        said = f"PENDING after {steps[-1].status}"
        add("requeued", following[0].wall, following[0].text, said, reason="preempted" if preempted else said)
    return found


def _first(members: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    """The first of several members that says something."""
    return next((value for key in keys if (value := members.get(key)) is not None and value not in ("", {}, [])), None)


def _sum(counts: Any) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _user(members: Mapping[str, Any]) -> str | None:
    """Who owns it: by mail or name, else by id. The access key is a credential and is never taken."""
    named = next((said for key in _USER if (said := text_of(members.get(key)))), None)
    return named or next((said for key in _USER_ID if (said := text_of(members.get(key)))), None)


def _parent(members: Mapping[str, Any], own: str) -> str | None:
    """The session that this one retries, if the record says so."""
    for key in _PARENT:
        value = structure_of(members.get(key))
        parent = uuid_of(value.get("id") if isinstance(value, dict) else value)
        if parent is not None and parent != own:
            return parent
    chain = names_of(members.get("retry_chain")) or []
    ids = [uuid_of(name) for name in chain]
    return ids[ids.index(own) - 1] if own in ids[1:] else None


def _exit_code(members: Mapping[str, Any]) -> int | None:
    data = object_of(members.get("status_data"))
    places = (object_of(data.get("kernel")), data, object_of(data.get("error")), members)
    code = next((code for place in places if (code := whole_of(place.get("exit_code"))) is not None), None)
    return code if code is not None and -(1 << 31) <= code < 1 << 31 else None


def _error_in(data: Mapping[str, Any]) -> str | None:
    """What an error in ``status_data`` says, where ``status_info`` is silent."""
    error = object_of(data.get("error"))
    several = objects_of(error.get("collection"))
    error = several[0] if several else error
    return reason_of(next((text for key in ("message", "repr", "name") if (text := text_of(error.get(key)))), None))


def _rank(kernel: Mapping[str, Any]) -> tuple[bool, int]:
    """The main kernel first, the others by their index."""
    role = text_of(_first(kernel, ("cluster_role", "role", "kernel_role"))) or ""
    return role.lower() not in ("main", "master"), whole_of(kernel.get("cluster_idx")) or 0


def _rank_text(kernel: Mapping[str, Any]) -> str:
    other, index = _rank(kernel)
    return f"{int(other)}{max(0, index):09d}"
