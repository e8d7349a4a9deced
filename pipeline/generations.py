"""Generations: jobs that got the same id one after the other, told apart by what lies between their attempts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from aftershock.pipeline.attempts import REQUEUE_ENDS, Attempt, SessionRules


def number_generations(attempts: Sequence[Attempt], rules: SessionRules) -> None:
    """Tell jobs apart that got the same id one after the other."""
    said: tuple[str | None, ...] = (None, None, None)
    for before, after in pairwise(attempts):
        said = tuple(new or old for new, old in zip(identity_of(before), said, strict=True))
        after.generation = before.generation
        if differ(said, identity_of(after)) or _submitted_anew(before, after, rules):
            after.generation += 1
            said = (None, None, None)


def identity_of(attempt: Attempt) -> tuple[str | None, ...]:
    """User, name and shown id: what a requeue does not change. A bare user id may be the number of a named user."""
    rows = [row for _, row in attempt.records]
    shown = [row.job_id for row in rows if row.job_id and "[" not in row.job_id]
    return (
        next((row.user for row in rows if row.user and not row.user.isdigit()), None),
        next((row.name for row in rows if row.name), None),
        next(iter(shown), None),
    )


def differ(one: Sequence[str | None], other: Sequence[str | None]) -> bool:
    return any(a and b and a != b for a, b in zip(one, other, strict=True))


def _submitted_anew(before: Attempt, after: Attempt, rules: SessionRules) -> bool:
    """Whether another submit lies between two attempts: a requeue prints no submit line, and resets Submit to its
    own moment, which is the end of the attempt before."""
    if before.moment is None or after.moment is None:
        return False
    if any(e.kind == "submitted" and (e.time or 0) > before.moment for e in after.events):
        return True
    if any(event.kind == "requeued" for event in before.events):
        return False
    if any(row.state in REQUEUE_ENDS for _, row in before.records):
        return False
    end, submit = before.end, after.submit
    return end is not None and submit is not None and submit > end + rules.tolerance_us
