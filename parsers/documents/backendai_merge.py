"""Putting sessions together: rows of one session for each of its kernels, and kernels that come apart from sessions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import Final

from aftershock.parsers.clock import Reading
from aftershock.parsers.documents.backendai_sessions import OF_KERNEL, OF_SESSION
from aftershock.parsers.formats import Found
from aftershock.schemas.sessions import Session

# Of several kernels the one that fared worst tells how the session ended.
_WORST: Final = ("NODE_FAIL", "OUT_OF_MEMORY", "FAILED", "TIMEOUT", "PREEMPTED", "CANCELLED", "COMPLETED", "UNKNOWN")


def settle(found: list[Found]) -> list[Found]:
    """One row for each session that a source tells the same of, with what its kernels add."""
    kept: list[Found] = []
    sessions: dict[str | None, dict[Hashable, list[Found]]] = defaultdict(lambda: defaultdict(list))
    kernels: dict[str | None, list[Found]] = defaultdict(list)
    for item in found:
        row = item.row
        if isinstance(row, Session) and item.mark.startswith(OF_SESSION):
            sessions[row.raw_job_id][_told(row)].append(item)
        elif isinstance(row, Session) and item.mark.startswith(OF_KERNEL):
            kernels[row.raw_job_id].append(item)
        else:
            kept.append(item)
    for session_id, groups in sessions.items():
        merged = [_of_rows(group) for group in groups.values()]
        if len(merged) == 1 and session_id in kernels:
            _fill(merged[0], _of_kernels(kernels.pop(session_id)))
        kept += merged
        kernels.pop(session_id, None)
    kept += [_of_kernels(group) for group in kernels.values()]
    kept.sort(key=lambda item: item.offset)
    return _without_repeats(kept)


def _session(item: Found) -> Session:
    assert isinstance(item.row, Session)
    return item.row


def _told(row: Session) -> Hashable:
    """What all rows of one look at a session have in common."""
    return row.submit_time, row.start_time is None, row.end_time, row.state, row.name


def _rank(item: Found) -> tuple[str, int]:
    return item.mark, item.offset


def _of_rows(group: list[Found]) -> Found:
    """One row out of those for each kernel: the agents of all, the main one first."""
    first = min(group, key=lambda item: item.offset)
    if len(group) == 1:
        return first
    row = _session(first)
    rows = [_session(item) for item in sorted(group, key=_rank)]
    row.start_time = min((r.start_time for r in rows if r.start_time is not None), default=None)
    row.hosts = _all_hosts(rows)
    row.n_hosts = None if row.hosts is None else len(row.hosts)
    row.exit_code = next((r.exit_code for r in rows if r.exit_code is not None), None)
    return first


def _all_hosts(rows: Iterable[Session]) -> list[str] | None:
    known = [row.hosts for row in rows if row.hosts is not None]
    return list(dict.fromkeys(host for hosts in known for host in hosts)) if known else None


def _of_kernels(group: list[Found]) -> Found:
    """A session out of its kernels. It runs once all of them do, and is over when the last of them is."""
    group.sort(key=_rank)
    by_kernel = {(item.mark, *(_session(item).hosts or [])): item for item in group}
    members = list(by_kernel.values())
    first, rows = members[0], [_session(item) for item in members]
    main = rows[0]
    if len({item.reading.kind for item in members if item.reading.wall is not None}) > 1:
        return first  # their times cannot be set against each other
    timed = next((item.reading for item in members if item.reading.wall is not None), first.reading)
    states = {row.state for row in rows}
    worst = min(rows, key=lambda row: _WORST.index(row.state) if row.state in _WORST else len(_WORST))
    open_state = "RUNNING" if "RUNNING" in states else "PENDING" if "PENDING" in states else None
    starts, ends = [row.start_time for row in rows], [row.end_time for row in rows]
    submits = [row.submit_time for row in rows if row.submit_time is not None]
    counts = [row.n_gpus for row in rows if row.n_gpus is not None]
    main.name = next((row.name for row in rows if row.name), None)
    main.hosts = _all_hosts(rows)
    main.n_hosts = None if main.hosts is None else len(main.hosts)
    main.n_gpus = sum(counts) if counts else None
    main.submit_time = min(submits, default=None)
    main.start_time = max((t for t in starts if t is not None), default=None) if None not in starts else None
    main.end_time = max((t for t in ends if t is not None), default=None) if None not in ends else None
    main.exit_code = worst.exit_code if worst.exit_code is not None else main.exit_code
    main.state = open_state or worst.state
    main.end_reason = None if open_state == "RUNNING" else worst.end_reason or main.end_reason
    offset = min(item.offset for item in group)
    return Found(main, _moved(timed, main), offset, first.mark, format=first.format)


def _moved(reading: Reading, row: Session) -> Reading:
    moment = next((t for t in (row.end_time, row.start_time, row.submit_time) if t is not None), reading.wall)
    return reading._replace(wall=moment)


def _fill(item: Found, of_kernels: Found) -> None:
    """What a session does not say of itself and its kernels do."""
    row, told = _session(item), _session(of_kernels)
    if not row.hosts and told.hosts and row.state != "PENDING":
        row.hosts, row.n_hosts = told.hosts, told.n_hosts
    for name in ("n_gpus", "user", "partition", "command"):
        if getattr(row, name) is None:
            setattr(row, name, getattr(told, name))
    if row.state in ("RUNNING", "PENDING"):
        return
    if row.exit_code is None:
        row.exit_code = told.exit_code
    if row.end_reason is None:
        row.end_reason = told.end_reason
    if row.state == "UNKNOWN":
        row.state = told.state if told.state not in ("RUNNING", "PENDING", None) else row.state
    if row.start_time is None and item.reading.kind in ("none", of_kernels.reading.kind):
        row.start_time = told.start_time


def _without_repeats(found: list[Found]) -> list[Found]:
    """An event of the history once, although each row of a session has that history."""
    seen: set[Hashable] = set()
    kept = []
    for item in found:
        if isinstance(item.row, Session):
            kept.append(item)
            continue
        key = (item.row.table, item.reading, repr(item.row))
        if key not in seen:
            seen.add(key)
            kept.append(item)
    return kept
