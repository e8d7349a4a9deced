"""What follows from several lines of one file of training output.

Equal steps of many ranks are one row, begins and ends of saves are checkpoints, errors of many ranks are one event with
their ranks, and who is a victim is told by what stands around.
"""

from __future__ import annotations

from collections.abc import Sequence

from aftershock.parsers.formats import Found
from aftershock.parsers.training.errors import join_errors
from aftershock.parsers.training.evaluations import join_evaluations
from aftershock.parsers.training.saves import BEGINNINGS, event_of, join_saves
from aftershock.parsers.training.steps import join_steps
from aftershock.schemas.events import TrainingEvent
from aftershock.schemas.training import TrainingStep


def settle(found: list[Found]) -> list[Found]:
    """The rows of one source, in the order of their offsets, joined."""
    events = [item for item in found if isinstance(item.row, TrainingEvent)]
    steps = join_steps([item for item in found if isinstance(item.row, TrainingStep)], beginnings_of(events))
    return [*steps, *settle_events(events, steps)]


def beginnings_of(events: Sequence[Found]) -> list[int]:
    """Where the events of a source say that a run begins."""
    return [item.offset for item in events if event_of(item).kind in BEGINNINGS]


def settle_events(events: list[Found], steps: Sequence[Found]) -> list[Found]:
    """The events of one source and its checkpoints. ``steps``: joined, or those that stand in for them."""
    kept, checkpoints = join_saves(join_evaluations(join_errors(events, steps)), steps)
    return [*kept, *checkpoints]
