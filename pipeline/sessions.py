"""Sessions: all that accounting and scheduler logs say about one placement of a job, as one row.

Accounting rows come from `sacct` (with or without `--duplicates`), `sacct --json`, `scontrol show job` and the records
of other schedulers; log lines from controllers, hosts and job steps. `timeline.py` tells which of them are about the
same placement; here they become rows, each column from the source that is trusted most for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from aftershock.pipeline.attempts import (
    ASSUMED,
    OPEN_STATES,
    SLURM,
    US,
    Attempt,
    Record,
    SessionRules,
    as_meant,
    closing_event,
    copy_of,
    grouped,
    in_order,
    is_start,
    records_in_order,
    sorted_by,
)
from aftershock.pipeline.conflicts import conflicts_in, log_says, states_exclude
from aftershock.pipeline.ends import END_STATES, end_reason, state_in_log
from aftershock.pipeline.timeline import tell_apart
from aftershock.schemas.columns import Row
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.ids import stable_id
from aftershock.schemas.sessions import Session

__all__ = ["BuiltSessions", "SessionRules", "array_task_of", "build_sessions"]

# Accounting formats, the most complete first. Others follow in the order of their names, a look at the queue last.
_TRUST: Final = {"sacct": 0, "sacct_json": 1, "jobcomp": 2, "scontrol_job": 3, "squeue_json": 8, "squeue": 9}
_OTHERS: Final = 5
_SLURM_FORMATS: Final = frozenset(_TRUST)
# Times that are this wrong give way to those of another source: a job object says when its controller took it up, its
# pods when they ran.
_COARSE_S: Final = 60.0
# For exit codes the controller goes first (its log, then its own display): 22.05's accounting prints exit status 137
# as `9:0`, and its JSON prints 0 for every job.
_TRUST_EXIT: Final = {"jobcomp": 0, "scontrol_job": 1, "sacct": 2, "sacct_json": 9}
# What holds for the whole job, and may be taken from its other attempts.
_OF_JOB: Final = ("name", "user", "work_dir", "partition", "command", "job_id", "scheduler")
_TASK: Final = re.compile(r"\d+_(\d+)|\d+\[(\d+)\].*")
# What merging does not fill as it fills other columns.
_MERGED: Final = tuple(
    column.name
    for column in fields(Session)
    if column.name not in {"session_id", "cluster", "attempt", "sources", "conflicts", "exit_code", "exit_signal"}
)


@dataclass(frozen=True)
class BuiltSessions:
    """Sessions, and the log lines with the session that each belongs to."""

    sessions: list[Session]
    events: list[SchedulerEvent]


def build_sessions(
    accounting: Sequence[Record],
    events: Sequence[SchedulerEvent],
    rules: SessionRules,
    formats: Mapping[int, str] | None = None,
) -> BuiltSessions:
    """One row for each placement, from all rows of one raw job id. Order and repetition do not matter.

    ``accounting``: the format that a row was read from, and the row. Rows without a cluster join the one that is
    named; under two names there are two jobs, and rows without a name are of neither. Schedulers likewise; a line that
    names none is one of ``rules.scheduler``. ``formats``: by ``id`` of a line, the format that it was read from.
    """
    if len(accounting) == 1 and not events:
        return BuiltSessions([_alone(accounting[0], rules)], [])
    sessions: list[Session] = []
    owner: dict[int, str | None] = {}
    for (cluster, _), records, lines in _jobs(accounting, events, rules):
        for attempts in grouped(tell_apart(records, lines, rules), lambda attempt: attempt.generation).values():
            rows = _rows(attempts, cluster, rules, formats or {})
            sessions += rows
            for row, attempt in zip(rows, attempts, strict=True):
                owner.update({id(event): row.session_id for event in attempt.events})
    _tell_equal_ids_apart(sessions)
    told = []
    for event in in_order(events):
        belongs = copy_of(event)
        belongs.session_id = owner.get(id(event))
        told.append(belongs)
    return BuiltSessions(sorted(sessions, key=_row_order), told)


def array_task_of(job_id: str | None) -> str | None:
    """The task of a job id as it is shown: `2` for `9_2` and `9[2].server`; none for a plain job and for a set such
    as `9_[0-3]`."""
    if not job_id or job_id.isdigit():
        return None
    found = _TASK.fullmatch(job_id)
    return (found.group(1) or found.group(2)) if found else None


_Jobs = Iterator[tuple[tuple[str | None, str | None], list[Record], list[SchedulerEvent]]]


def _jobs(accounting: Sequence[Record], events: Sequence[SchedulerEvent], rules: SessionRules) -> _Jobs:
    """Rows by cluster and scheduler, and within them by array task where ids alone do not tell tasks apart."""
    cluster_of_row = _named((row.cluster for _, row in accounting), (event.cluster for event in events))
    scheduler_of_row = _named(
        (row.scheduler for _, row in accounting), (event.scheduler or rules.scheduler for event in events)
    )
    records = grouped(accounting, lambda r: (cluster_of_row(r[1].cluster), scheduler_of_row(r[1].scheduler)))
    lines = grouped(events, lambda e: (cluster_of_row(e.cluster), scheduler_of_row(e.scheduler or rules.scheduler)))
    for key in sorted({*records, *lines}, key=lambda key: tuple((name is None, name or "") for name in key)):
        for task in _tasks(records.get(key, []), lines.get(key, [])):
            yield (key, *task)


def _named(*names: Iterable[str | None]) -> Callable[[str | None], str | None]:
    """Which name a row without one stands under: the only one, or none where there are several."""
    known = {name for some in names for name in some if name}
    only = next(iter(known)) if len(known) == 1 else None
    return lambda name: name or only


def _tasks(
    records: Sequence[Record], events: Sequence[SchedulerEvent]
) -> Iterable[tuple[list[Record], list[SchedulerEvent]]]:
    tasks = {array_task_of(row.job_id) for _, row in records} | {event.array_task for event in events}
    named = sorted(task for task in tasks if task is not None and "[" not in task)
    if len(named) < 2:
        yield list(records), list(events)
        return
    own_records = grouped(records, lambda r: array_task_of(r[1].job_id))
    own_events = grouped(events, lambda e: e.array_task if e.array_task in named else None)
    for task in (*named, None):
        yield own_records.get(task, []), own_events.get(task, [])


def _alone(record: Record, rules: SessionRules) -> Session:
    """The row of a job with one record and no log lines: what most jobs are."""
    meant = (record[0], as_meant(record[1]))
    row = _own_copy(meant[1])
    attempt = Attempt([meant], [], row.start_time, row.submit_time)
    _finish(row, attempt, [meant], rules)
    _complete(row, [record[0]], rules)
    row.attempt = 1 if attempt.placed else None
    row.session_id = _session_id(row)
    return row


def _rows(
    attempts: Sequence[Attempt], cluster: str | None, rules: SessionRules, formats: Mapping[int, str]
) -> list[Session]:
    """The rows of one job, numbered by placement; what never got hosts, or stands nowhere in time, has no number."""
    rows = [_row(attempt, cluster, rules, formats) for attempt in attempts]
    for name in _OF_JOB if len(rows) > 1 else ():
        said = next((value for row in rows if (value := getattr(row, name))), None)
        for row in rows if said is not None else ():
            if not getattr(row, name):
                setattr(row, name, said)
    number = 0
    for position, (row, attempt) in enumerate(zip(rows, attempts, strict=True)):
        if attempt.placed and (attempt.moment is not None or len(attempts) == 1):
            number += 1
            row.attempt = number
        if row.state == "RUNNING" and position + 1 < len(rows):
            row.state = "UNKNOWN"  # a later attempt proves that it ended, nobody says how
        logged = bool(attempt.events) or not attempt.records
        _complete(row, [SLURM] if logged else [origin for origin, _ in attempt.records], rules)
        row.session_id = _session_id(row)
    return rows


def _complete(row: Session, origins: Iterable[str], rules: SessionRules) -> None:
    """The scheduler, where it goes without saying: log lines and Slurm's own tools do not print it."""
    if not row.scheduler and any(origin == SLURM or origin in _SLURM_FORMATS for origin in origins):
        row.scheduler = rules.scheduler


def _session_id(row: Session, ordinal: int = 0) -> str:
    """The id of a session: by its start in whole seconds, else by its submit, else by its end."""
    task, start = array_task_of(row.job_id), row.start_time
    if start is not None and not ordinal:
        return stable_id("s", row.cluster, row.scheduler, row.raw_job_id, task, start // US)
    submit, end = (t // US if t is not None else None for t in (row.submit_time, row.end_time))
    parts = [row.cluster, row.scheduler, row.raw_job_id, task, start // US if start is not None else None]
    if start is None:
        parts += [submit] if submit is not None else [None, end]
    return stable_id("s", *parts, *([ordinal] if ordinal else []))


def _tell_equal_ids_apart(sessions: Sequence[Session]) -> None:
    """Rows without any time would have equal ids: all but the first get an ordinal, in the order of what they say."""
    for equals in grouped(sessions, lambda row: row.session_id).values():
        if len(equals) > 1:
            for ordinal, row in enumerate(sorted(equals, key=repr)):
                row.session_id = _session_id(row, ordinal)


def _row_order(row: Session) -> tuple[bool, int, str]:
    moment = next((t for t in (row.start_time, row.submit_time, row.end_time) if t is not None), None)
    return moment is None, moment or 0, row.session_id or ""


def _own_copy(record: Session) -> Session:
    """A copy in which nothing stands that is ours to say; empty lists are no answer."""
    row = copy_of(record)
    row.session_id = row.attempt = row.conflicts = None
    row.hosts, row.designated_hosts = row.hosts or None, row.designated_hosts or None
    row.excluded_hosts = row.excluded_hosts or None
    row.raw_job_id = row.raw_job_id or None
    row.job_id = row.job_id or row.raw_job_id
    row.sources = sorted(set(row.sources)) if row.sources else None
    return row


def _row(attempt: Attempt, cluster: str | None, rules: SessionRules, formats: Mapping[int, str]) -> Session:
    records = by_trust(attempt.records)
    rows = [row for _, row in records]
    if len(rows) == 1:
        row = _own_copy(rows[0])
    else:
        row = Session()
        for name in _MERGED if rows else ():
            setattr(row, name, next((v for r in rows if (v := getattr(r, name)) not in (None, [])), None))
        row.exit_code, row.exit_signal = _exit(by_trust(attempt.records, _TRUST_EXIT))
        _set_finer_start(row, rows)
    row.cluster = cluster
    if attempt.events or len(rows) > 1:
        row.raw_job_id, row.job_id = _ids(rows, attempt.events)
        row.scheduler = row.scheduler or next((e.scheduler for e in attempt.events if e.scheduler), None)
        row.sources = sorted({place for seen in (*rows, *attempt.events) for place in _places(seen)}) or None
    row.start_time = row.start_time if row.start_time is not None else attempt.start
    row.submit_time = row.submit_time if row.submit_time is not None else attempt.submit
    _finish(row, attempt, records, rules)
    if attempt.events:
        _set_exit_from_log(row, attempt.events)
    _set_basis(row, attempt, rows)
    if len(records) + len(attempt.events) > 1:
        _set_conflicts(row, attempt, records, rules, formats)
    return row


def _started(rows: Sequence[Session]) -> Session | None:
    """The record whose start is taken: the first, unless another one knows better."""
    known = [row for row in rows if row.start_time is not None]
    if known and (known[0].time_error_s or 0.0) >= _COARSE_S:
        return min(known, key=lambda row: row.time_error_s or 0.0)
    return known[0] if known else None


def _set_finer_start(row: Session, rows: Sequence[Session]) -> None:
    started = _started(rows)
    if started is not None and row.start_time != started.start_time:
        row.start_time = started.start_time
        over = started.end_time is not None and started.end_time == row.end_time
        row.duration_s = started.duration_s if over else None
        if row.duration_s is None and row.end_time is not None and row.start_time is not None:
            row.duration_s = max(0, row.end_time - row.start_time) / US


def by_trust(records: Sequence[Record], trust: Mapping[str, int] = _TRUST) -> list[Record]:
    """Closed records before open ones, known times before assumed ones, then by format; of two looks the newer."""

    def rank(record: Record) -> tuple[Any, ...]:
        origin, row = record
        return (
            row.state is None or row.state in OPEN_STATES,
            row.time_basis == ASSUMED,
            trust.get(origin, _OTHERS),
            origin,
            -(row.duration_s or 0.0),
        )

    def rank_exit(record: Record) -> tuple[Any, ...]:
        return trust.get(record[0], _OTHERS), *rank(record)

    if len(records) < 2:
        return list(records)
    return sorted_by(records_in_order(records), rank if trust is _TRUST else rank_exit)


def _ids(rows: Sequence[Session], events: Sequence[SchedulerEvent]) -> tuple[str | None, str | None]:
    """Raw and shown id. A set of pending array tasks, `9_[0-3]`, and an id without its task are the last resort."""
    lines = sorted(events, key=lambda event: event.array_task is None)
    shown = [row.job_id for row in rows if row.job_id]
    shown += [f"{e.job_id}_{e.array_task}" if e.array_task else e.job_id for e in lines if e.job_id]
    raw = next((name for name in [*(r.raw_job_id for r in rows), *(e.raw_job_id for e in lines)] if name), None)
    return raw, next((name for name in shown if "[" not in name), shown[0] if shown else raw)


def _places(row: Row) -> Iterable[str]:
    if isinstance(row, Session):
        return row.sources or ()
    if isinstance(row, SchedulerEvent):
        return row.sources or ([f"{row.source}:{row.byte_offset or 0}"] if row.source else ())
    return ()


def _finish(row: Session, attempt: Attempt, records: Sequence[Record], rules: SessionRules) -> None:
    """Hosts, end and durations: what follows from the columns that were merged and from the log."""
    placed = attempt.placed
    if not placed:
        # None, although accounting prints how many it asked for.
        row.hosts, row.n_hosts, row.n_gpus = [], 0, None
    else:
        row.hosts = row.hosts or _hosts_in_log(attempt.events)
        row.n_hosts = len(row.hosts) if row.hosts else row.n_hosts
    if row.n_gpus is None and row.n_hosts is not None and rules.gpus_per_host is not None:
        row.n_gpus = row.n_hosts * rules.gpus_per_host
    if row.excluded_hosts is None and any(r.excluded_hosts is not None for _, r in records):
        row.excluded_hosts = []
    closing = closing_event(attempt.events) if attempt.events else None
    if row.end_time is None and closing is not None:
        row.end_time = None if closing.time is None else closing.time - attempt.offset
    if row.state not in END_STATES and (closing is not None or row.state in (None, "PENDING")):
        row.state = state_in_log(attempt, closing, rules)
    if row.state == "CANCELLED" and row.cancelled_by is None:
        row.cancelled_by = next((e.user for e in attempt.events if e.kind == "cancelled" and e.user), None)
    row.end_reason = end_reason(attempt, row, records, closing, rules)
    if not placed:
        row.duration_s = row.gpu_seconds = None  # nothing ran: Elapsed is printed as 0
        return
    start, end = row.start_time, row.end_time
    told = any(r.end_time is not None and r.duration_s is not None for _, r in records)
    if start is not None and end is not None and not told:
        row.duration_s = max(0, end - start) / US
    if row.gpu_seconds is None and row.duration_s is not None and row.n_gpus is not None:
        row.gpu_seconds = row.duration_s * row.n_gpus


def _hosts_in_log(events: Sequence[SchedulerEvent]) -> list[str] | None:
    """Hosts by the lines of the start. Slurm names all of them at once; elsewhere each container names its own."""
    told = [event for event in events if is_start(event) and event.hosts]
    if told and told[0].scheduler in (None, SLURM):
        return told[0].hosts
    return sorted({host for event in told for host in event.hosts or ()}) or None


def _exit(records: Sequence[Record]) -> tuple[int | None, int | None]:
    """Exit status and signal, both from one source."""
    said = next((r for _, r in records if r.exit_code is not None or r.exit_signal is not None), None)
    return (said.exit_code, said.exit_signal) if said else (None, None)


def _set_exit_from_log(row: Session, events: Sequence[SchedulerEvent]) -> None:
    """A controller's log is trusted more than accounting; what only a step or a host printed fills a gap."""
    for event in events:
        if event.kind == "ended" and (event.exit_code is not None or event.exit_signal is not None):
            row.exit_code, row.exit_signal = event.exit_code, event.exit_signal
            return


def _set_basis(row: Session, attempt: Attempt, rows: Sequence[Session]) -> None:
    """How the times are known: as what gave the start, or what else gave the first time that is known."""
    started = _started(rows)
    timed = [started] if started is not None else [r for r in rows if r.submit_time is not None]
    lines = sorted(attempt.events, key=lambda event: not is_start(event))
    known: list[Session | SchedulerEvent] = [*timed, *lines, *rows]
    given = known[0] if known else None
    row.time_basis = given.time_basis if given else None
    row.time_error_s = given.time_error_s if given else None
    if attempt.offset:
        row.time_error_s = max(row.time_error_s or 0.0, abs(attempt.offset) / US)
    if row.time_basis == ASSUMED and attempt.confirmed:
        row.time_basis = "inferred_zone"


def _set_conflicts(
    row: Session, attempt: Attempt, records: Sequence[Record], rules: SessionRules, formats: Mapping[int, str]
) -> None:
    def origin(event: SchedulerEvent) -> str:
        return formats.get(id(event)) or ("slurmctld" if event.scheduler in (None, SLURM) else event.scheduler or "")

    closing = closing_event(attempt.events) if attempt.events else None
    logged = state_in_log(attempt, closing, rules) if closing is not None else None
    told = log_says(attempt.events, closing, logged if states_exclude(row.state, logged) else None, origin)
    for event in attempt.events:
        if event.kind == "ended" and event.exit_code is not None:
            told.append(("exit_code", origin(event), event.exit_code, 0))
    row.conflicts = conflicts_in(row, records, told, rules.tolerance_us)
