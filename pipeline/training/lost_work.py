"""Work that did not survive the end of an attempt: what was done since the last complete checkpoint.

A checkpoint holds what was there when the save began. Without any the whole attempt is lost. An attempt that came to
its end loses nothing, and of one that runs still nobody knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from aftershock.pipeline.attempts import US
from aftershock.pipeline.training.attempts import LogAttempt
from aftershock.pipeline.training.logs import Save
from aftershock.pipeline.training.stretches import Stretch


class Progress(NamedTuple):
    """Steps of one run in all its logs. ``lost_s``: seconds of work that did not survive; None if it is not known."""

    first_step: int | None
    last_step: int | None
    last_saved_step: int | None
    lost_s: float | None


def last_save(attempts: Sequence[LogAttempt]) -> Save | None:
    """The last complete save of an attempt, in all its logs."""
    saves = [save for attempt in attempts for save in attempt.saves if save.kind == "save" and save.complete]
    return max(
        saves, key=lambda save: (save.step is not None, save.step or 0, save.end or save.start or 0), default=None
    )


def progress_of(
    attempts: Sequence[Sequence[LogAttempt]], start: int | None, end: int | None, *, survived: bool | None
) -> Progress:
    """What a session did and lost. ``attempts``: in order, each with its logs. ``start``, ``end``: of the session.

    survived: whether the last attempt came to its end; None if nobody knows.
    """
    firsts = [a.first_step for logs in attempts for a in logs if a.first_step is not None]
    last: int | None = None
    saved: int | None = None
    lost: list[float | None] = []
    for number, logs in enumerate(attempts):
        reached = max((a.last_step for a in logs if a.last_step is not None), default=None)
        last = reached if reached is not None else last
        save = last_save(logs)
        saved = save.step if save is not None and save.step is not None else saved
        is_last = number == len(attempts) - 1
        if is_last and survived is not False:
            lost.append(0.0 if survived else None)
            continue
        begins = start if number == 0 else None
        lost.append(_lost(logs, save, begins, end if is_last else None))
    known = [value for value in lost if value is not None]
    whole = sum(known) if len(known) == len(lost) and known else None
    return Progress(firsts[0] if firsts else None, last, saved, whole)


def _lost(logs: Sequence[LogAttempt], save: Save | None, start: int | None, end: int | None) -> float | None:
    times = [time for attempt in logs for time in (attempt.first_time, attempt.last_time) if time is not None]
    end = end if end is not None else max(times, default=None)
    since = start if start is not None else min(times, default=None)
    if save is not None:
        since = saved_at(logs, save)
    if since is not None and end is not None:
        return max(0, end - since) / US
    return _by_steps(logs, save)


def saved_at(logs: Sequence[LogAttempt], save: Save) -> int | None:
    """The moment whose state a save holds: its begin, or when its step was printed, or its end."""
    if save.start is not None:
        return save.start
    stretches = [stretch for attempt in logs for stretch in attempt.stretches]
    reached = next((moment for s in stretches if (moment := _reached(s, save.step)) is not None), None)
    return reached if reached is not None else save.end


def _reached(stretch: Stretch, step: int | None) -> int | None:
    """When a stretch came to a step, as if its steps were evenly spread."""
    if step is None or stretch.first is None or stretch.last is None or not stretch.first <= step <= stretch.last:
        return None
    if stretch.first_time is None or stretch.last_time is None:
        return None
    steps = stretch.last - stretch.first
    share = (step - stretch.first) / steps if steps else 0.0
    return stretch.first_time + round((stretch.last_time - stretch.first_time) * share)


def _by_steps(logs: Sequence[LogAttempt], save: Save | None) -> float | None:
    """The lost steps at their usual time, where no line has a clock."""
    last = max((a.last_step for a in logs if a.last_step is not None), default=None)
    usual = next((s.step_time_s for a in logs for s in a.stretches if s.step_time_s is not None), None)
    first = min((a.first_step for a in logs if a.first_step is not None), default=None)
    since = save.step if save is not None else first - 1 if first is not None else None
    if last is None or usual is None or since is None:
        return None
    return max(0, last - since) * usual
