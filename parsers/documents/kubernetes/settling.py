"""Settling: what the objects of one source mean together.

Pods become the sessions of their jobs, a job object completes the session of its last attempt, events find the job that
they are about, and what was looked at several times is told once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from aftershock.parsers.clock import NO_CLOCK, Reading
from aftershock.parsers.documents.kubernetes.attempts import Run, sessions_of
from aftershock.parsers.documents.kubernetes.marks import EventMark, JobMark, RunMark, mark_in
from aftershock.parsers.documents.kubernetes.pods import session_reading
from aftershock.parsers.formats import Found
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.sessions import Session
from aftershock.schemas.topology import Host

_OVER: Final = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"})


class _Known(NamedTuple):
    """A job as the objects of a source name it: full name and name."""

    raw: str
    name: str


def settle(found: list[Found]) -> list[Found]:
    """The rows of one source, in the order of their offsets."""
    marked = [(item, mark_in(item.mark) if item.mark else None) for item in found]
    jobs = [(item, mark) for item, mark in marked if isinstance(mark, JobMark)]
    runs = [(item, mark) for item, mark in marked if isinstance(mark, RunMark)]
    events = [(item, mark) for item, mark in marked if isinstance(mark, EventMark)]
    roots = _roots(jobs)
    by_job: dict[str, list[Run]] = defaultdict(list)
    pods: dict[str, _Known] = {}
    for item, mark in runs:
        row = _as_session(item)
        known = roots.get(row.raw_job_id or "")
        if known is not None:
            row.raw_job_id, row.job_id, row.name = known.raw, known.name, known.name
        by_job[row.raw_job_id or ""].append(Run(mark, row, item.offset))
        if row.raw_job_id != mark.name:
            pods[mark.name] = _Known(row.raw_job_id or "", row.job_id or "")
    sessions = {raw: sessions_of(of_job) for raw, of_job in by_job.items()}
    settled = [*_told_once(item for item, mark in marked if mark is None), *_job_rows(jobs, sessions)]
    settled += [session for of_job in sessions.values() for session in of_job]
    for item, event in _latest_events(events):
        settled.append(_with_job(item, event, pods, roots))
    for item in settled:
        item.mark, item.format = "", found[0].format
    return sorted(settled, key=lambda item: item.offset)


def _as_session(item: Found) -> Session:
    assert isinstance(item.row, Session)
    return item.row


def _roots(jobs: Iterable[tuple[Found, JobMark]]) -> dict[str, _Known]:
    """The job that each part of a job belongs to, by the part's full name; of jobs that are no part, themselves."""
    roots: dict[str, _Known] = {}
    for _, mark in jobs:
        if mark.root:
            for name in (mark.name, *mark.parts):
                roots[name] = _Known(mark.root, mark.root_name)
    # A job of a job of a job.
    return {name: roots.get(known.raw, known) for name, known in roots.items()}


def _job_rows(jobs: Sequence[tuple[Found, JobMark]], sessions: dict[str, list[Found]]) -> list[Found]:
    """Rows of job objects that stand for themselves: the others complete the session of their last attempt."""
    latest: dict[str, tuple[Found, JobMark]] = {}
    rows: list[Found] = []
    for item, mark in jobs:
        if not isinstance(item.row, Session):
            rows.append(item)
        elif mark.name not in latest or item.row.state in _OVER or _as_session(latest[mark.name][0]).state not in _OVER:
            latest[mark.name] = item, mark
    for item, mark in latest.values():
        own = sessions.get(mark.name)
        if own:
            _complete(own, _as_session(item))
        elif _as_session(item).state == "REQUEUED":
            continue  # the event that goes with it says so
        elif mark.restarts == 0:
            rows.append(item)
        else:
            rows += _last_attempt(item)
    return _told_once(rows)


def _complete(own: Sequence[Found], job: Session) -> None:
    """What a job object says about its last attempt, and about all of them."""
    for item in own:
        row = _as_session(item)
        row.user, row.partition = row.user or job.user, row.partition or job.partition
    first, last = _as_session(own[0]), _as_session(own[-1])
    first.submit_time = job.submit_time if first.start_time is None or _before(job.submit_time, first) else None
    if job.state in _OVER:
        open_still = last.state in ("RUNNING", "PENDING", "UNKNOWN", None)
        if open_still or (last.state == "FAILED") is (job.state != "COMPLETED"):
            last.end_time = last.end_time if last.end_time is not None else job.end_time
        if open_still or job.state in ("COMPLETED", "TIMEOUT"):
            last.state = job.state
        last.end_reason = "; ".join(dict.fromkeys(w for w in (last.end_reason, job.end_reason) if w)) or None
    own[-1].reading = session_reading(last)
    own[0].reading = session_reading(first)


def _before(submit: int | None, row: Session) -> bool:
    return submit is not None and row.start_time is not None and submit <= row.start_time


def _last_attempt(item: Found) -> list[Found]:
    """A job that began anew and whose pods are not here: of its last attempt only the end is known, if it has one."""
    row = _as_session(item)
    over = row.state in _OVER
    event = SchedulerEvent(
        scheduler=row.scheduler,
        kind="ended" if over else "job_state",
        job_id=row.job_id,
        raw_job_id=row.raw_job_id,
        user=row.user,
        state=row.state,
        reason=row.end_reason,
        message=row.end_reason,
    )
    when = item.reading if over and row.end_time is not None else NO_CLOCK
    return [replace(item, row=event, reading=when)]


def _latest_events(events: Iterable[tuple[Found, EventMark]]) -> list[tuple[Found, EventMark]]:
    """Each event once: the look at it that counts most."""
    best: dict[Hashable, tuple[Found, EventMark]] = {}
    for item, mark in events:
        key: Hashable = (mark.kind, mark.about, mark.uid) if mark.uid else item.offset
        if key not in best or _weight(item) >= _weight(best[key][0]):
            best[key] = item, mark
    return list(best.values())


def _weight(item: Found) -> tuple[int, int]:
    last = item.last.wall if item.last is not None else item.reading.wall
    return getattr(item.row, "count", None) or 1, last or 0


def _with_job(item: Found, mark: EventMark, pods: dict[str, _Known], roots: dict[str, _Known]) -> Found:
    """An event with the job that objects of the same source say it is about."""
    row = item.row
    if not isinstance(row, SchedulerEvent) or mark.kind == "Node":
        return item
    known = pods.get(mark.about) if mark.kind == "Pod" else roots.get(mark.about)
    if known is None or (row.raw_job_id is not None and row.raw_job_id == known.raw):
        return item
    part = mark.kind == "Job" and known.raw != mark.about
    row.job_id, row.raw_job_id = known.name, known.raw
    if part and row.kind == "ended":
        row.kind = "task_ended"  # a job of a job: the whole may go on
    return item


def _told_once(items: Iterable[Found]) -> list[Found]:
    """States of nodes and jobs that were looked at several times, each once."""
    seen: set[Hashable] = set()
    kept: list[Found] = []
    for item in items:
        key = _fact(item)
        if key is None or key not in seen:
            kept.append(item)
            seen.add(key)
    return kept


def _fact(item: Found) -> Hashable:
    row = item.row
    if isinstance(row, SchedulerEvent):
        when: Reading = item.reading
        return row.kind, row.state, row.reason, row.host_raw, row.raw_job_id, row.job_id, row.user, when.wall
    if isinstance(row, Host):
        return row.host, row.driver, row.kernel, row.partition, row.rack, row.role
    return None
