"""Errors of one file: the same error of many ranks is one event, and what only follows is told from what came first.

A run of workers from one start to the next is an attempt (``attempts``). Within an attempt the prints of one error are
one row (``copies``), and one error at most is the root (``roles``). Steps say what no line says: that a run went on
after an error, that its numbers went bad, that nothing happened any more (``progress``).
"""

from __future__ import annotations

from collections.abc import Sequence

from aftershock.parsers.formats import Found
from aftershock.parsers.training.attempts import attempts_of
from aftershock.parsers.training.copies import join_copies
from aftershock.parsers.training.marks import ROWLESS
from aftershock.parsers.training.progress import divergence_of, overflows_of
from aftershock.parsers.training.roles import give_roles
from aftershock.parsers.training.writers import mark_of


def join_errors(found: list[Found], steps: Sequence[Found] = ()) -> list[Found]:
    """The events of one source, in the order of their offsets. ``steps``: the steps of the same source, likewise."""
    kept: list[Found] = []
    failed_before = False
    for attempt in attempts_of(found, steps):
        events = join_copies(attempt.events)
        events += overflows_of(attempt) + divergence_of(attempt)
        events.sort(key=lambda item: item.offset)
        events, failed = give_roles(events, attempt.steps, after_failure=failed_before)
        failed_before = failed_before or failed
        kept += events
    return [item for item in kept if mark_of(item) not in ROWLESS]
