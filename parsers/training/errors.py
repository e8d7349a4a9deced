"""Errors of one file: the same error of many ranks is one event, and what only follows is told from what came first.

A run of workers from one start to the next is an attempt. Within an attempt one error at most is the root, and others
that might have been roots by themselves are symptoms of it. Hardware that names itself goes before all else; then the
earliest counts, for whatever is raised later may come of it. A run that came to its end has no root.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from aftershock.parsers.clock import SECOND, micros_between
from aftershock.parsers.formats import Found
from aftershock.parsers.training.marks import ATTEMPT, CHAIN, FIRST_EXIT, REPRINT, SUCCESS
from aftershock.schemas.events import TrainingEvent

# Errors of many ranks stand near each other: in time where they have a clock, else in the file.
_NEAR_US: Final = 120 * SECOND
_NEAR_BYTES: Final = 1 << 20
# Where a launcher restarts, an attempt ends.
_RESTARTS: Final = frozenset({"restart"})

# Classes that are roots wherever they are named, and before whatever came earlier.
_HARDWARE: Final = frozenset(
    {"gpu_memory_ecc", "nvlink_fault", "gpu_hang_or_gsp", "silent_data_corruption", "node_failure"}
)
# Said by the scheduler after everything else: they are the root only if nothing failed before.
_LATE: Final = frozenset({"user_or_admin_cancel"})
_OF_SCHEDULER: Final = frozenset(
    {"scheduler_time_limit", "preemption", "node_failure", "requeue", "user_or_admin_cancel"}
)
_NUMBERS: Final = re.compile(r"0x[0-9a-fA-F]+|\d+")


def join_errors(found: list[Found]) -> list[Found]:
    """The events of one source, in the order of their offsets."""
    kept = _ranks_together(_without_reprints(found))
    for attempt in _attempts(kept):
        _give_roles(attempt)
    return [item for item in kept if item.mark != CHAIN]


def _event(item: Found) -> TrainingEvent:
    assert isinstance(item.row, TrainingEvent)
    return item.row


def _near(first: Found, later: Found) -> bool:
    apart = micros_between(first.reading, later.reading)
    return abs(apart) <= _NEAR_US if apart is not None else later.offset - first.offset <= _NEAR_BYTES


def _writer(event: TrainingEvent) -> tuple[object, ...]:
    return event.host_raw, event.rank, event.local_rank


def _without_reprints(found: Sequence[Found]) -> list[Found]:
    """One fault in several words is one row: an exception that C++ prints again, the clean-up that a watchdog tells of.

    The exception that was raised while another one was handled is a by-product of that.
    """
    kept: list[Found] = []
    chained: set[tuple[object, ...]] = set()
    for item in found:
        event = _event(item)
        if item.mark == CHAIN:
            chained.add(_writer(event))
            continue
        if event.error_class is not None and event.kind == "error":
            same = _last_of(kept, event.error_class, item)
            if same is not None and (
                item.mark == REPRINT or _says_the_same(_event(same), event) or _is_told_twice(same, item)
            ):
                _event(same).ranks = _ranks(_event(same), event)
                continue
            if _writer(event) in chained:
                chained.discard(_writer(event))
                event.error_role = "symptom"
        kept.append(item)
    return kept


def _last_of(kept: Sequence[Found], error_class: str, item: Found) -> Found | None:
    for other in reversed(kept[-64:]):
        event = _event(other)
        if event.error_class == error_class and event.kind == "error" and _near(other, item):
            mine, theirs = _event(item).rank, event.rank
            if mine is None or theirs is None or mine == theirs:
                return other
    return None


def _says_the_same(first: TrainingEvent, again: TrainingEvent) -> bool:
    """Whether the words of one stand within those of the other: a wrapper repeats what it wraps."""
    one, other = _core(first.error), _core(again.error)
    return bool(one) and bool(other) and one != other and (one in other or other in one)


def _is_told_twice(first: Found, again: Found) -> bool:
    """Whether Slurm tells of one end for the step and for the job: with the same time, however many hosts print it."""
    told = first.reading.wall is not None and first.reading.wall == again.reading.wall
    return told and _event(again).error_class in _OF_SCHEDULER


def _core(text: str | None) -> str:
    return (text or "").rpartition("Error: ")[2].strip()[:400]


def _ranks(first: TrainingEvent, again: TrainingEvent) -> list[int] | None:
    named = {rank for event in (first, again) for rank in (event.rank, *(event.ranks or ())) if rank is not None}
    return sorted(named) if len(named) > 1 or first.ranks else None


def _ranks_together(found: Sequence[Found]) -> list[Found]:
    """The same words of several ranks are one event with all of them."""
    kept: list[Found] = []
    open_rows: dict[tuple[object, ...], Found] = {}
    for item in found:
        event = _event(item)
        if event.kind not in ("error", "rendezvous", "exit") or item.mark == FIRST_EXIT:
            kept.append(item)
            continue
        words = _NUMBERS.sub("#", event.error or "")
        key = (event.kind, event.error_class, event.error_role, words)
        first = open_rows.get(key)
        if first is not None and _near(first, item) and _other_rank(_event(first), event):
            _event(first).ranks = _ranks(_event(first), event)
            _event(first).count = (_event(first).count or 1) + (event.count or 1)
            first.last = item.reading if item.reading.wall is not None else first.last
            continue
        open_rows[key] = item
        kept.append(item)
    return kept


def _other_rank(first: TrainingEvent, again: TrainingEvent) -> bool:
    if again.rank is not None:
        return first.rank is not None and again.rank != first.rank and again.rank not in (first.ranks or ())
    return again.local_rank is not None and first.local_rank is not None and again.local_rank != first.local_rank


def _attempts(found: Sequence[Found]) -> list[list[Found]]:
    attempts: list[list[Found]] = [[]]
    for item in found:
        event = _event(item)
        begins = item.mark == ATTEMPT and any(_event(other).kind in ("error", "exit") for other in attempts[-1])
        if begins and not any(other.mark == ATTEMPT and _near(other, item) for other in attempts[-1][-8:]):
            attempts.append([])
        attempts[-1].append(item)
        if event.kind in _RESTARTS:
            attempts.append([])
    return attempts


def _give_roles(attempt: Sequence[Found]) -> None:
    """At most one root of an attempt; none of a run that came to its end."""
    ended = any(item.mark == SUCCESS for item in attempt)
    roots = [item for item in attempt if _event(item).error_role == "root"]
    if ended:
        for item in attempt:
            if _event(item).error_role in ("root", "symptom"):
                _event(item).error_role = "noise"
        return
    if len(roots) < 2:
        return
    hardware = [item for item in roots if _event(item).error_class in _HARDWARE]
    timely = [item for item in roots if _event(item).error_class not in _LATE]
    root = (hardware or timely or roots)[0]
    chosen = _event(root)
    for item in roots:
        event = _event(item)
        if item is root:
            continue
        same = event.error_class == chosen.error_class and _same_kind(event, chosen)
        event.error_role = "root" if same else "symptom"


def _same_kind(one: TrainingEvent, other: TrainingEvent) -> bool:
    """Whether two errors of a class are the same by their first words: each rank may have its own numbers and paths."""
    return _NUMBERS.sub("#", (one.error or "")[:40]) == _NUMBERS.sub("#", (other.error or "")[:40])
