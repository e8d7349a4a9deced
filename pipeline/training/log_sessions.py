"""Sessions that only a log knows: one for each attempt, with the restarts between them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from aftershock.parsers.training.launchers.world import gpus_said
from aftershock.pipeline.attempts import ASSUMED, US
from aftershock.pipeline.links import Link
from aftershock.pipeline.retry_rules import RetryRules
from aftershock.pipeline.same_work import FAILED_ENDS
from aftershock.pipeline.training.attempts import LogAttempt
from aftershock.pipeline.training.causes import Cause
from aftershock.pipeline.training.logs import PROGRESS_WORDS
from aftershock.pipeline.training.lost_work import Progress, last_save
from aftershock.pipeline.training.taxonomy import STATE_OF, UNKNOWN
from aftershock.schemas.ids import stable_id
from aftershock.schemas.sessions import Session

_PROGRESS: Final = re.compile(r"Job ID: ([^\t]{0,80})\t# GPUs: (\d{1,7})\t")
_EXIT: Final = re.compile(r"exit ?code:? (-?\d{1,5})")


def progress_said(attempts: Sequence[LogAttempt]) -> tuple[str | None, int | None]:
    """Job id and number of GPUs that lines of a progress file tell; else the latter by what processes began with."""
    for attempt in attempts:
        for said in attempt.said:
            if PROGRESS_WORDS in (said.message or "") and (found := _PROGRESS.search(said.message or "")):
                return found[1] or None, int(found[2])
    begun = (said.message or "" for attempt in attempts for said in attempt.said if said.kind == "init_start")
    return None, gpus_said(begun)


@dataclass(frozen=True)
class LogRun:
    """What is known of a run that has no scheduler's record, besides its lines."""

    cluster: str | None = None
    job_id: str | None = None
    hosts: tuple[str, ...] = ()
    n_gpus: int | None = None


def state_of(logs: Sequence[LogAttempt], cause: Cause) -> str:
    """How an attempt ended, as its logs tell it."""
    if any(attempt.succeeded for attempt in logs):
        return "COMPLETED"
    if (named := STATE_OF.get(cause.error_class or "")) is not None:
        return named
    # Without a hint at an end it may still have been running when the log was taken.
    return "FAILED" if cause.error_class is not None else "UNKNOWN"


def session_of(
    logs: Sequence[LogAttempt], number: int, run: LogRun, state: str, cause: Cause, progress: Progress
) -> Session:
    """The session of attempt ``number`` of a run."""
    times = [time for attempt in logs for time in attempt.times]
    start, last = min(times, default=None), max(times, default=None)
    end = last if state != "UNKNOWN" else None
    duration = (end - start) / US if start is not None and end is not None else None
    first = logs[0]
    code = _exit_of(logs) if state not in ("COMPLETED", "UNKNOWN") else None
    assumed = any(attempt.assumed for attempt in logs)
    errors = [s.error_s for a in logs for s in a.said if s.error_s is not None and s.time in (start, last)]
    row = Session(
        session_id=session_id_of(logs, number, run),
        cluster=run.cluster,
        job_id=run.job_id,
        attempt=number,
        hosts=sorted(run.hosts) or None,
        n_hosts=len(run.hosts) or None,
        n_gpus=run.n_gpus,
        start_time=start,
        end_time=end,
        duration_s=duration,
        state=state,
        exit_code=code if code is not None and code >= 0 else None,
        exit_signal=-code if code is not None and code < 0 else None,
        sources=sorted(f"{attempt.source}:{attempt.begin}" for attempt in logs),
        log_evidence=[f"{attempt.source}: no scheduler record" for attempt in logs],
        time_basis=ASSUMED if assumed else _basis_of(logs, start),
        time_error_s=max(errors, default=None),
    )
    if duration is not None and run.n_gpus is not None:
        row.gpu_seconds = duration * run.n_gpus
    tell(row, cause, progress)
    assert first.source
    return row


def session_id_of(logs: Sequence[LogAttempt], number: int, run: LogRun) -> str:
    """Stable for the same logs: nothing but their place names such a session."""
    return stable_id("s", run.cluster, None, run.job_id, logs[0].source, logs[0].begin, number)


def tell(row: Session, cause: Cause, progress: Progress) -> None:
    """Write cause and progress into a session."""
    row.first_step, row.last_step = progress.first_step, progress.last_step
    row.last_saved_step = progress.last_saved_step
    if progress.lost_s is not None and row.n_gpus is not None:
        row.gpu_seconds_lost = progress.lost_s * row.n_gpus
    row.cause_class, row.cause_event_id, row.cause_confidence = cause.error_class, cause.event_id, cause.confidence
    row.cause_evidence, row.suspects, row.victims = (
        cause.evidence or None,
        cause.suspects or None,
        cause.victims or None,
    )
    row.missing_evidence = cause.missing or None
    if row.end_reason is None and cause.error_class not in (None, UNKNOWN) and cause.evidence:
        row.end_reason = cause.evidence[0]


def restarts_between(sessions: Sequence[Session]) -> list[Link]:
    """The restarts of a run, whose sessions are in order."""
    return [
        Link(earlier, later, "restart_in_place", "next_attempt_in_log", 1.0) for earlier, later in pairwise(sessions)
    ]


class Run(NamedTuple):
    """The sessions of a run that only logs know, in order, each with its logs."""

    sessions: list[Session]
    logs: list[list[LogAttempt]]


def resumptions(runs: Sequence[Run], rules: RetryRules) -> list[Link]:
    """Runs in other logs that go on from a checkpoint which a run that failed had saved last, soon after it ended."""
    saved: dict[tuple[str, int], list[Run]] = defaultdict(list)
    for run in runs:
        save = last_save(run.logs[-1])
        if save is not None and save.path and save.step is not None and run.sessions[-1].state in FAILED_ENDS:
            saved[save.path, save.step].append(run)
    links: list[Link] = []
    taken: set[str | None] = set()
    for run in sorted(runs, key=lambda run: (run.sessions[0].start_time or 0, run.sessions[0].session_id or "")):
        later = run.sessions[0]
        loads = [save for attempt in run.logs[0] for save in attempt.saves if save.kind == "load" and save.complete]
        earlier = [
            other.sessions[-1]
            for load in loads
            for other in saved.get((load.path or "", load.step if load.step is not None else -1), ())
            if other is not run
            and _soon(other.sessions[-1], later, rules)
            and other.sessions[-1].session_id not in taken
        ]
        if earlier:
            last = max(earlier, key=lambda session: (session.end_time or 0, session.session_id or ""))
            taken.add(last.session_id)
            links.append(Link(last, later, "resubmit", "resumed_checkpoint", _RESUMED))
    return links


# Two runs may go on from one checkpoint, but mostly it is the next try.
_RESUMED: Final = 0.8


def _soon(earlier: Session, later: Session, rules: RetryRules) -> bool:
    if earlier.end_time is None or later.start_time is None:
        return False
    if (earlier.time_basis == ASSUMED) != (later.time_basis == ASSUMED):
        return False
    return 0 <= later.start_time - earlier.end_time <= rules.max_gap_s * US


def _basis_of(logs: Sequence[LogAttempt], start: int | None) -> str | None:
    """How the first time of an attempt is known."""
    bases = [s.basis for a in logs for s in a.said if s.time is not None and s.time == start]
    return next((basis for basis in bases if basis), "neighbour" if start is not None else "none")


def _exit_of(logs: Sequence[LogAttempt]) -> int | None:
    """The exit status that a launcher prints first; negative for a signal."""
    for attempt in logs:
        for said in attempt.said:
            if said.is_failure and (found := _EXIT.search(said.error or "")):
                return int(found[1])
    return None
