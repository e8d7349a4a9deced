"""Sessions: all that accounting and controller logs say about one placement of a job, as one row.

Accounting rows come from `sacct` (with or without `--duplicates`), `sacct --json` and `scontrol show job`; log lines
from slurmctld.log. `attempts.py` tells which of them are about the same placement; here they become rows.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, TypeVar

from aftershock.pipeline.attempts import (
    ASSUMED,
    ENDINGS,
    OPEN_STATES,
    US,
    Attempt,
    Record,
    SessionRules,
    closing_event,
    event_order,
    tell_apart,
)
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.ids import stable_id
from aftershock.schemas.sessions import SESSION_STATES, Session

__all__ = ["BuiltSessions", "SessionRules", "array_task_of", "build_sessions"]

# Accounting formats, the most complete first. Others follow in the order of their names.
_TRUST: Final = {"sacct": 0, "sacct_json": 1, "scontrol_job": 2}
# For exit codes the controller goes first (its log, then its own display): 22.05's accounting prints exit status 137
# as `9:0`, and its JSON prints 0 for every job.
_TRUST_EXIT: Final = {"scontrol_job": 0, "sacct": 1, "sacct_json": 2}
# What holds for the whole job, and may be taken from its other attempts.
_OF_JOB: Final = ("name", "user", "work_dir", "partition")
_END_STATES: Final = frozenset(SESSION_STATES) - OPEN_STATES - {"UNKNOWN"}
_NO_REASON: Final = frozenset({"", "none", "unknown", "n/a", "(null)", "null", "begintime"})
# Reasons of Slurm that say why a job ended. The accounting of a job that ran keeps the reason why it had waited.
_END_REASONS: Final = re.compile(
    r"Time_?Limit|Deadline|NonZeroExitCode|RaisedSignal|OutOfMemory|NodeDown|NodeFail|SystemFailure|LaunchFail"
    r"|InactiveLimit|Prolog|Preempt|Cancel|Boot|fail",
    re.IGNORECASE,
)
_NODE_FAILURE: Final = re.compile(r"node[ _]?fail|failure of node|failed node", re.IGNORECASE)
_TASK: Final = re.compile(r"\d+_(\d+)")

Member = TypeVar("Member", Record, SchedulerEvent)


@dataclass(frozen=True)
class BuiltSessions:
    """Sessions, and the log lines with the session that each belongs to."""

    sessions: list[Session]
    events: list[SchedulerEvent]


def build_sessions(
    accounting: Sequence[Record], events: Sequence[SchedulerEvent], rules: SessionRules
) -> BuiltSessions:
    """One row for each placement, from all rows of one raw job id. Order and repetition do not matter.

    ``accounting``: the format that a row was read from, and the row. Rows without a cluster join the one that is
    named; under two names there are two jobs, and rows without a name are of neither.
    """
    sessions: list[Session] = []
    owner: dict[int, str | None] = {}
    for cluster, records, lines in _jobs(accounting, events):
        for attempts in _generations(tell_apart(records, lines, rules)):
            rows = _rows(attempts, cluster, rules)
            sessions += rows
            for row, attempt in zip(rows, attempts, strict=True):
                owner.update({id(event): row.session_id for event in attempt.events})
    _tell_equal_ids_apart(sessions)
    told = [replace(event, session_id=owner.get(id(event))) for event in sorted(events, key=event_order)]
    return BuiltSessions(sorted(sessions, key=_row_order), told)


def array_task_of(job_id: str | None) -> str | None:
    """The task of a job id as it is shown: `2` for `9_2`; none for a plain job and for a set such as `9_[0-3]`."""
    found = _TASK.fullmatch(job_id or "")
    return found.group(1) if found else None


def _jobs(
    accounting: Sequence[Record], events: Sequence[SchedulerEvent]
) -> Iterable[tuple[str | None, list[Record], list[SchedulerEvent]]]:
    """Rows by cluster, and within it by array task where ids alone do not tell tasks apart."""
    names = sorted({row.cluster for _, row in accounting if row.cluster} | {e.cluster for e in events if e.cluster})
    if len(names) < 2:
        yield from ((next(iter(names), None), *task) for task in _tasks(accounting, events))
        return
    for cluster in (*names, None):
        records = [record for record in accounting if record[1].cluster == cluster]
        lines = [event for event in events if event.cluster == cluster]
        yield from ((cluster, *task) for task in _tasks(records, lines))


def _tasks(
    records: Sequence[Record], events: Sequence[SchedulerEvent]
) -> Iterable[tuple[list[Record], list[SchedulerEvent]]]:
    tasks = {array_task_of(row.job_id) for _, row in records} | {event.array_task for event in events}
    named = sorted(task for task in tasks if task is not None and "[" not in task)
    if len(named) < 2:
        yield list(records), list(events)
        return
    for task in (*named, None):
        own_records = [r for r in records if array_task_of(r[1].job_id) == task]
        own_events = [e for e in events if (e.array_task if e.array_task in named else None) == task]
        yield own_records, own_events


def _generations(attempts: Sequence[Attempt]) -> list[list[Attempt]]:
    groups: dict[int, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        groups[attempt.generation].append(attempt)
    return [groups[number] for number in sorted(groups)]


def _rows(attempts: Sequence[Attempt], cluster: str | None, rules: SessionRules) -> list[Session]:
    """The rows of one job, numbered by placement; what never got hosts, or stands nowhere in time, has no number."""
    rows = [_row(attempt, cluster, rules) for attempt in attempts]
    for name in (*_OF_JOB, "job_id", "scheduler"):
        said = next((value for row in rows if (value := getattr(row, name))), None)
        for row in rows:
            setattr(row, name, getattr(row, name) or said)
    number = 0
    for position, (row, attempt) in enumerate(zip(rows, attempts, strict=True)):
        if attempt.placed and (attempt.moment is not None or len(attempts) == 1):
            number += 1
            row.attempt = number
        if row.state == "RUNNING" and position + 1 < len(rows):
            row.state = "UNKNOWN"  # a later attempt proves that it ended, nobody says how
        row.scheduler = row.scheduler or rules.scheduler
        row.session_id = _session_id(row)
    return rows


def _session_id(row: Session, ordinal: int = 0) -> str:
    """The id of a session: by its start in whole seconds, else by its submit, else by its end."""
    start, submit, end = (t // US if t is not None else None for t in (row.start_time, row.submit_time, row.end_time))
    parts = [row.cluster, row.scheduler, row.raw_job_id, array_task_of(row.job_id), start]
    if start is None:
        parts += [submit] if submit is not None else [None, end]
    return stable_id("s", *parts, *([ordinal] if ordinal else []))


def _tell_equal_ids_apart(sessions: Sequence[Session]) -> None:
    """Rows without any time would have equal ids: all but the first get an ordinal, in the order of what they say."""
    by_id: dict[str | None, list[Session]] = defaultdict(list)
    for row in sessions:
        by_id[row.session_id].append(row)
    for equals in by_id.values():
        for ordinal, row in enumerate(sorted(equals, key=repr)):
            row.session_id = _session_id(row, ordinal)


def _row_order(row: Session) -> tuple[bool, int, str]:
    moment = next((t for t in (row.start_time, row.submit_time, row.end_time) if t is not None), None)
    return moment is None, moment or 0, row.session_id or ""


def _row(attempt: Attempt, cluster: str | None, rules: SessionRules) -> Session:
    records = sorted(attempt.records, key=_by_trust)
    rows = [row for _, row in records]
    row = Session()
    for column in fields(Session):
        setattr(row, column.name, next((v for r in rows if (v := getattr(r, column.name)) not in (None, [])), None))
    row.cluster, row.attempt = cluster, None
    row.raw_job_id, row.job_id = _ids(rows, attempt.events)
    row.start_time = row.start_time if row.start_time is not None else attempt.start
    row.submit_time = row.submit_time if row.submit_time is not None else attempt.submit
    seen: list[Session | SchedulerEvent] = [*rows, *attempt.events]
    row.sources = sorted({place for r in seen for place in _places(r)}) or None
    _set_hosts(row, attempt, rows, rules)
    _set_end(row, attempt, rules)
    _set_exit(row, attempt)
    _set_basis(row, attempt, rows)
    return row


def _by_trust(record: Record) -> tuple[bool, bool, int, str, float, str]:
    """Closed records before open ones, known times before assumed ones, then by format; of two looks the newer."""
    origin, row = record
    return (
        row.state is None or row.state in OPEN_STATES,
        row.time_basis == ASSUMED,
        _TRUST.get(origin, len(_TRUST)),
        origin,
        -(row.duration_s or 0.0),
        repr(row),
    )


def _ids(rows: Sequence[Session], events: Sequence[SchedulerEvent]) -> tuple[str | None, str | None]:
    """Raw and shown id. A set of pending array tasks, `9_[0-3]`, and an id without its task are the last resort."""
    lines = sorted(events, key=lambda event: (event.array_task is None, *event_order(event)))
    shown = [row.job_id for row in rows if row.job_id]
    shown += [f"{e.job_id}_{e.array_task}" if e.array_task else e.job_id for e in lines if e.job_id]
    raw = next((name for name in [*(r.raw_job_id for r in rows), *(e.raw_job_id for e in lines)] if name), None)
    return raw, next((name for name in shown if "[" not in name), shown[0] if shown else raw)


def _places(row: Session | SchedulerEvent) -> list[str]:
    if row.sources or isinstance(row, Session):
        return row.sources or []
    return [f"{row.source}:{row.byte_offset or 0}"] if row.source else []


def _set_hosts(row: Session, attempt: Attempt, rows: Sequence[Session], rules: SessionRules) -> None:
    """Hosts and their number: for what was never placed none, although accounting prints how many it asked for."""
    if not attempt.placed:
        row.hosts, row.n_hosts, row.n_gpus = [], 0, None
    else:
        started = (event.hosts for event in attempt.events if event.kind == "started" and event.hosts)
        row.hosts = row.hosts or next(started, None)
        row.n_hosts = len(row.hosts) if row.hosts else row.n_hosts
    if row.n_gpus is None and row.n_hosts is not None and rules.gpus_per_host is not None:
        row.n_gpus = row.n_hosts * rules.gpus_per_host
    if row.excluded_hosts is None and any(r.excluded_hosts is not None for r in rows):
        row.excluded_hosts = []


def _set_end(row: Session, attempt: Attempt, rules: SessionRules) -> None:
    """State, end, reason and durations; from the log where accounting has not seen the end."""
    closing = closing_event(attempt.events)
    if row.end_time is None and closing is not None:
        row.end_time = closing.time
    if row.state not in _END_STATES:
        said = _state_in_log(attempt, closing, rules)
        row.state = said if closing is not None or row.state in (None, "PENDING") else row.state
    if row.state == "CANCELLED" and row.cancelled_by is None:
        row.cancelled_by = next((e.user for e in attempt.events if e.kind == "cancelled" and e.user), None)
    row.end_reason = _end_reason(attempt, row, closing, rules)
    if not attempt.placed:
        row.duration_s = row.gpu_seconds = None  # nothing ran: Elapsed is printed as 0
        return
    closed = any(r.end_time is not None and r.duration_s is not None for _, r in attempt.records)
    if row.start_time is not None and row.end_time is not None and not closed:
        row.duration_s = max(0, row.end_time - row.start_time) / US
    if row.gpu_seconds is None and row.duration_s is not None and row.n_gpus is not None:
        row.gpu_seconds = row.duration_s * row.n_gpus


def _state_in_log(attempt: Attempt, closing: SchedulerEvent | None, rules: SessionRules) -> str:
    if closing is None:
        return "RUNNING" if attempt.start is not None else "UNKNOWN" if attempt.placed else "PENDING"
    near = _near_end(attempt, closing, rules)
    if any(event.state == "NODE_FAIL" or _NODE_FAILURE.search(event.reason or "") for event in near):
        return "NODE_FAIL"
    if closing.kind == "time_limit":
        return "TIMEOUT"
    if closing.kind == "cancelled":
        return "CANCELLED"
    if closing.kind == "requeued":
        return "PREEMPTED" if "preempt" in f"{closing.state} {closing.reason}".lower() else "REQUEUED"
    ends = _END_STATES - {"COMPLETED", "FAILED"}
    implied = [event.state for event in near if event.kind != "cancelled" and event.state in ends and event.state]
    if implied:
        return implied[0]
    exits = next((e for e in near if e.exit_code is not None or e.exit_signal is not None), None)
    if exits is not None and not exits.exit_code and not exits.exit_signal:
        return "COMPLETED"
    if _cancel_before(attempt, closing, rules):
        return "CANCELLED"
    if exits is not None:
        return "FAILED"
    return closing.state if closing.state in _END_STATES else "UNKNOWN"


def _near_end(attempt: Attempt, closing: SchedulerEvent, rules: SessionRules) -> list[SchedulerEvent]:
    """The lines that tell of one end: the first and what follows at once."""
    last = (closing.time or 0) + round(rules.slack_s * US)
    endings = [e for e in attempt.events if e.kind in (*ENDINGS, "cancelled") and e.time is not None]
    return sorted((e for e in endings if (closing.time or 0) <= (e.time or 0) <= last), key=event_order)


def _cancel_before(attempt: Attempt, closing: SchedulerEvent, rules: SessionRules) -> bool:
    since = (closing.time or 0) - round(rules.cancel_grace_s * US)
    cancels = [event.time for event in attempt.events if event.kind == "cancelled" and event.time is not None]
    return any(since <= time <= (closing.time or 0) for time in cancels)


def _end_reason(attempt: Attempt, row: Session, closing: SchedulerEvent | None, rules: SessionRules) -> str | None:
    reasons = [r.end_reason for _, r in sorted(attempt.records, key=_by_trust) if r.end_reason]
    reasons = [reason for reason in reasons if reason.strip().lower() not in _NO_REASON]
    if attempt.placed and row.scheduler in (None, "slurm"):
        reasons = [reason for reason in reasons if _END_REASONS.search(reason)]
    if closing is not None:
        reasons += [event.reason for event in _near_end(attempt, closing, rules) if event.reason]
    return next(iter(reasons), None)


def _set_exit(row: Session, attempt: Attempt) -> None:
    """Exit status and signal, both from one source."""
    ends = [event for event in sorted(attempt.events, key=event_order) if event.kind == "ended"]
    rank: Callable[[Record], Any] = lambda r: (_TRUST_EXIT.get(r[0], len(_TRUST_EXIT)), *_by_trust(r))  # noqa: E731
    told: list[Session | SchedulerEvent] = [*ends, *(r for _, r in sorted(attempt.records, key=rank))]
    said = next((t for t in told if t.exit_code is not None or t.exit_signal is not None), None)
    row.exit_code, row.exit_signal = (said.exit_code, said.exit_signal) if said else (None, None)


def _set_basis(row: Session, attempt: Attempt, rows: Sequence[Session]) -> None:
    """How the times are known: as what gave the start, or what else gave the first time that is known."""
    lines = sorted(attempt.events, key=lambda event: (event.kind != "started", *event_order(event)))
    timed = [r for r in rows if r.start_time is not None] or [r for r in rows if r.submit_time is not None]
    known: list[Session | SchedulerEvent] = [*timed, *lines, *rows]
    given = next(iter(known), None)
    row.time_basis = given.time_basis if given else None
    row.time_error_s = given.time_error_s if given else None
    if row.time_basis == ASSUMED and attempt.confirmed:
        row.time_basis = "inferred_zone"
