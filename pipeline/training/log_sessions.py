"""Sessions that only a log knows: one for each attempt, with the restarts between them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from aftershock.pipeline.attempts import ASSUMED, US
from aftershock.pipeline.links import Link
from aftershock.pipeline.training.attempts import LogAttempt
from aftershock.pipeline.training.causes import Cause
from aftershock.pipeline.training.logs import PROGRESS_WORDS
from aftershock.pipeline.training.lost_work import Progress
from aftershock.pipeline.training.taxonomy import STATE_OF, UNKNOWN
from aftershock.schemas.ids import stable_id
from aftershock.schemas.sessions import Session

_PROGRESS: Final = re.compile(r"Job ID: ([^\t]{0,80})\t# GPUs: (\d{1,7})\t")
_EXIT: Final = re.compile(r"exit ?code:? (-?\d{1,5})")


def progress_said(attempts: Sequence[LogAttempt]) -> tuple[str | None, int | None]:
    """Job id and number of GPUs that lines of a progress file tell."""
    for attempt in attempts:
        for said in attempt.said:
            if PROGRESS_WORDS in (said.message or "") and (found := _PROGRESS.search(said.message or "")):
                return found[1] or None, int(found[2])
    return None, None


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


def session_of(logs: Sequence[LogAttempt], number: int, run: LogRun, cause: Cause, progress: Progress) -> Session:
    """The session of attempt ``number`` of a run."""
    state = state_of(logs, cause)
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
