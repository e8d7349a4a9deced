"""One accounting record of Slurm as a session, whatever tool printed it.

The tools agree on the words (see :mod:`aftershock.parsers.slurm_words`) and differ in how they lay them out, so each
format turns its record into a :class:`JobText` and this module turns that into the row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from aftershock.parsers.clock import NO_CLOCK, SECOND, ClockKind, Reading
from aftershock.parsers.formats import Found, Refused
from aftershock.parsers.hostlist import HostListError, expand_hosts
from aftershock.parsers.slurm_words import (
    clock_of,
    elapsed_seconds,
    exit_pair,
    gpu_count,
    host_options_in,
    job_state,
)
from aftershock.schemas.sessions import Session

EXCERPT: Final = 512

# Reasons that say why a job ended. The others say why it waited, and Slurm leaves the last of them standing.
_END_REASON: Final = re.compile(
    r"(?:NonZeroExitCode|RaisedSignal.*|TimeLimit|InactiveLimit|DeadLine|OutOfMemory|NodeDown|NodeFail|SystemFailure"
    r"|JobLaunchFailure|PartitionDown|BadConstraints|Constraints|InvalidAccount|InvalidQOS|BurstBuffer\w*"
    r"|DependencyNeverSatisfied|JobHoldMaxRequeue|launch failed.*)\Z",
    re.IGNORECASE | re.DOTALL,
)
_NO_REASON: Final = frozenset({"", "none", "(null)", "n/a", "unknown", "null"})
_SPECIAL_ENDS: Final = frozenset({"REVOKED", "LAUNCH_FAILED", "RECONFIG_FAIL", "REQUEUE_FED"})
_WHOLE: Final = re.compile(r"[0-9]{1,9}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobText:
    """A record as printed. None: the tool does not print that at all; an empty text: it prints nothing there.

    tool: name of the format, for its refusals.
    nodes: host list. tres: trackable resources, the allocated ones first. excluded: host list.
    submit, start, end: as :func:`clock_of` reads them. exit: ``code:signal``.
    wanted: hosts that it asked for, which Slurm gives it beside others if it needs more.
    submit_line: with its options; command: where there is no such line, the script or program alone.
    """

    tool: str
    job_id: str
    raw_job_id: str | None = None
    cluster: str | None = None
    name: str | None = None
    user: str | None = None
    work_dir: str | None = None
    partition: str | None = None
    nodes: str | None = None
    n_nodes: str | None = None
    tres: tuple[str | None, ...] = ()
    submit: str | None = None
    start: str | None = None
    end: str | None = None
    elapsed: str | None = None
    state: str | None = None
    cancelled_by: str | None = None
    exit: str | None = None
    reason: str | None = None
    excluded: str | None = None
    wanted: str | None = None
    submit_line: str | None = None
    command: str | None = None


def session_of(job: JobText, offset: int, record: bytes) -> list[Found | Refused]:
    """The session of a record, and a refusal for each of its fields that cannot be read (that field is then null)."""
    problems: list[str] = []
    state, cancelled_by = job_state(job.state)
    hosts = _hosts(job.nodes, "NodeList", problems)
    options = host_options_in(job.submit_line)
    excluded = _excluded(job, options.excluded, problems)
    n_nodes = whole_number(job.n_nodes)
    times, kind = _times(job, problems)
    elapsed = elapsed_seconds(job.elapsed)

    # Where no hosts were given, what stands for a start is the time of the cancel, or a guess of the scheduler.
    # Hosts that were given are given, also where the start cannot be read.
    started = not (job.start is not None and times["start"] is None)
    placed = state != "PENDING" and (bool(elapsed) or bool(hosts) or (hosts is None and started))
    ended = times["end"] is not None if state is None else state not in ("PENDING", "RUNNING")
    if not placed:
        hosts = []
    code, signal = exit_pair(job.exit) if placed and ended else (None, None)
    row = Session(
        scheduler="slurm",
        cluster=job.cluster or None,
        job_id=job.job_id,
        raw_job_id=job.raw_job_id or job.job_id,
        name=job.name or None,
        user=job.user or None,
        work_dir=job.work_dir or None,
        partition=job.partition or None,
        hosts=hosts,
        n_hosts=n_nodes if hosts is None else len(hosts),
        n_gpus=next((count for tres in job.tres if (count := gpu_count(tres)) is not None), None),
        submit_time=times["submit"],
        start_time=times["start"] if placed else None,
        # The end of a job that still runs is where its time limit will end it.
        end_time=times["end"] if ended else None,
        duration_s=elapsed if placed else None,
        state=state,
        exit_code=code,
        exit_signal=signal,
        end_reason=_end_reason(job, placed=placed),
        cancelled_by=(cancelled_by or job.cancelled_by or None) if state == "CANCELLED" else None,
        excluded_hosts=excluded,
        designated_hosts=designated_hosts(job.wanted or options.wanted, n_nodes),
        command=command_of(job.submit_line or job.command),
    )
    found = Found(row, _reading(row, job, kind), offset)
    return [found, *(Refused(offset, len(record), f"{job.tool}: {problem}", record[:EXCERPT]) for problem in problems)]


def _hosts(text: str | None, column: str, problems: list[str]) -> list[str] | None:
    if text is None:
        return None
    try:
        return expand_hosts(text)
    except HostListError as error:
        problems.append(f"{column} is not read: {error}")
        return None


def _excluded(job: JobText, line: str | None, problems: list[str]) -> list[str] | None:
    """Hosts left out by the request. A submit line without ``--exclude`` does not say that the script had none."""
    column = _hosts(job.excluded, "ExcNodeList", problems)
    if column:
        return column
    return _hosts(line, "--exclude", problems) if line is not None else column


def designated_hosts(wanted: str | None, n_nodes: int | None) -> list[str] | None:
    """The only hosts that a request allowed: those it named, where it needs no more than these."""
    if not wanted or not n_nodes:
        return None
    try:
        hosts = expand_hosts(wanted)
    except HostListError:
        return None
    return hosts if len(hosts) == n_nodes else None


def _times(job: JobText, problems: list[str]) -> tuple[dict[str, int | None], ClockKind]:
    """The times of a record, all of one kind, and that kind."""
    times: dict[str, int | None] = {}
    kind: ClockKind = "none"
    for name, text in (("end", job.end), ("start", job.start), ("submit", job.submit)):
        times[name] = None
        try:
            clock = clock_of(text)
        except ValueError as error:
            problems.append(f"{name.capitalize()} is not read: {error}: {(text or '')[:64]}")
            continue
        if clock is None:
            continue
        if kind not in ("none", clock.kind):
            problems.append(f"{name.capitalize()} is not read: its clock is not that of the other times")
            continue
        kind, times[name] = clock.kind, clock.wall
    return times, kind


def _reading(row: Session, job: JobText, kind: ClockKind) -> Reading:
    for wall, text in ((row.end_time, job.end), (row.start_time, job.start), (row.submit_time, job.submit)):
        if wall is not None:
            return Reading(kind, wall, resolution=SECOND, text=(text or "").strip())
    return NO_CLOCK


def _end_reason(job: JobText, *, placed: bool) -> str | None:
    reason, end_reason = reason_words(job.reason)
    return (end_reason if placed else reason) or state_reason(job.state)


def reason_words(text: str | None) -> tuple[str | None, str | None]:
    """A printed reason as (what it is for a job that was never placed, what it is for one that was)."""
    reason = (text or "").strip()
    if reason.lower() in _NO_REASON:
        return None, None
    return reason, reason if _END_REASON.match(reason) else None


def state_reason(text: str | None) -> str | None:
    """A state without a counterpart among those of a session: it would be lost otherwise."""
    printed = (text or "").strip().upper()
    return printed if job_state(text)[0] == "UNKNOWN" or printed in _SPECIAL_ENDS else None


def command_of(text: str | None) -> str | None:
    """A submit line or a command, None where nothing is printed."""
    stripped = (text or "").strip()
    return None if stripped in ("", "(null)", "N/A") else stripped


def whole_number(text: str | None) -> int | None:
    """A count, None where there is none."""
    word = (text or "").strip()
    return int(word) if _WHOLE.match(word) else None
