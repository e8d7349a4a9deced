"""Attempts that only failed to connect behind one that failed: they follow from that one, and its cause is theirs.

A launcher that starts workers again after a fault may start them into what is left of it: peers that are gone refuse
connections, stores of the attempt before time out. What such an attempt prints says nothing new.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from aftershock.pipeline.training.attempts import LogAttempt
from aftershock.pipeline.training.causes import Cause
from aftershock.pipeline.training.taxonomy import SYMPTOMS, UNKNOWN

# What workers say that cannot find each other, and what their launcher says of them.
_NOT_MET: Final = frozenset({"rendezvous_failure", UNKNOWN, *SYMPTOMS})
# Kinds of events that only workers print that have found each other.
_MET: Final = frozenset({"start", "resume", "save_begin", "save_end", "load_begin", "load_end", "validation"})


def only_failed_to_connect(logs: Sequence[LogAttempt], cause: Cause) -> bool:
    """Whether nothing came of an attempt, and nothing is known to have been wrong with it but that.

    cause: what it had by itself.
    """
    if cause.error_class not in (UNKNOWN, "rendezvous_failure"):
        return False
    if any(attempt.stretches or attempt.saves for attempt in logs):
        return False
    said = [one for attempt in logs for one in attempt.said]
    if any(one.kind in _MET for one in said):
        return False
    wrong = [one for one in said if one.error_class is not None and one.role != "noise"]
    errors = {one.error_class for one in wrong if one.kind == "error"}
    return bool(errors) and errors <= _NOT_MET - {UNKNOWN} and {one.error_class for one in wrong} <= _NOT_MET


def following(cause: Cause, number: int) -> Cause:
    """The cause of an attempt that follows from another one. ``number``: of that one, from 1."""
    words = f"it only failed to connect: follows from attempt {number}"
    return replace(cause, evidence=[*cause.evidence, words])
