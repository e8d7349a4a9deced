"""Silent hangs: a run that stood still while its session went on, and said nothing of it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final, NamedTuple

from aftershock.pipeline.attempts import US
from aftershock.pipeline.training.attempts import LogAttempt
from aftershock.pipeline.training.logs import Said

# Longer than so many usual gaps between two step lines, and longer than so many seconds, is no pause of training.
TIMES_USUAL: Final = 10.0
LEAST_S: Final = 600.0


class Hang(NamedTuple):
    """``since``: the last sign of progress, microseconds UTC. ``silent_s``: from it to the end. ``usual_s``: between
    two step lines before. ``phase``: what it had begun last."""

    since: int
    silent_s: float
    usual_s: float | None
    phase: str


def limit_s(usual_s: float | None) -> float:
    """The longest silence that may still be a pause."""
    return max(TIMES_USUAL * (usual_s or 0.0), LEAST_S)


def usual_gap_s(logs: Sequence[LogAttempt]) -> float | None:
    """The usual time between two step lines."""
    gaps = [s.interval_s for a in logs for s in a.stretches if s.interval_s is not None]
    if not gaps:
        gaps = [s.step_time_s for a in logs for s in a.stretches if s.step_time_s is not None]
    return median(gaps) if gaps else None


def find_hang(logs: Sequence[LogAttempt], end: int | None) -> Hang | None:
    """The hang at the end of an attempt, seen in all its logs. ``end``: of its session, microseconds UTC."""
    since = max((a.last_progress for a in logs if a.last_progress is not None), default=None)
    if since is None or end is None:
        return None
    # A save or load that ended is a sign of life too.
    ends = [save.end for a in logs for save in a.saves if save.end is not None and save.complete]
    since = max([since, *(time for time in ends if time <= end)])
    usual = usual_gap_s(logs)
    silent = (end - since) / US
    if silent <= limit_s(usual):
        return None
    return Hang(since, silent, usual, _phase(logs, since))


def _phase(logs: Sequence[LogAttempt], since: int) -> str:
    open_saves = [
        s for a in logs for s in a.saves if not s.complete and (s.start is None or s.start >= since - 60 * US)
    ]
    if open_saves:
        return open_saves[-1].kind
    said: list[Said] = [s for a in logs for s in a.said if s.time is not None and s.time >= since]
    return max(said, key=lambda s: s.offset).kind if said else "steps"
