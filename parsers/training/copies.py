"""Prints of one error: in several words, by several ranks, in chains of exceptions, by those who only tell of it."""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Final

from aftershock.parsers.clock import SECOND, micros_between
from aftershock.parsers.formats import Found
from aftershock.parsers.training.attempts import event_of
from aftershock.parsers.training.marks import (
    ATTEMPT,
    CHAIN,
    ECHO,
    FIRST_EXIT,
    IGNORED,
    INIT,
    LATER_EXIT,
    LOGGED,
    OVERFLOW,
    QUOTE,
    RAISED_FROM,
    REPRINT,
    ROWLESS,
    UNQUOTE,
)
from aftershock.parsers.training.writers import mark_of, writer_of
from aftershock.schemas.events import TrainingEvent

# Prints of many ranks stand near each other: in time where they have a clock, else in the file.
_NEAR_US: Final = 120 * SECOND
_NEAR_BYTES: Final = 1 << 20
# How many errors back a further print of one may refer to.
_MOST_BACK: Final = 64
# How long a traceback, or the shown output of another program, may be: longer ones have lost their ends.
_MOST_TRACEBACK: Final = 64 << 10

_OF_SCHEDULER: Final = frozenset(
    {"scheduler_time_limit", "preemption", "node_failure", "requeue", "user_or_admin_cancel"}
)
# What an exception says that was handled on the way to the one that counts: a look into a cache, a network error of
# which only the caller knows what it was for.
_INCIDENTAL: Final = frozenset(
    {"user_code_exception", "rendezvous_failure", "peer_exit", "unknown", "collective_timeout"}
)
_PROCESS: Final = re.compile(r"\bpid=(\d{1,9})\b")
_NUMBERS: Final = re.compile(r"0x[0-9a-fA-F]+|\d+")
# How often an error must not be taken for the end, and was logged: the word before its row.
TOLD: Final = "told"


def join_copies(found: Sequence[Found]) -> list[Found]:
    """The events of one attempt, the prints of one error as one row."""
    _name_ranks(found)
    return _Ranks().join(_Prints().join(found))


def _name_ranks(found: Sequence[Found]) -> None:
    """The ranks of those whose lines name their process, where a launcher said which rank each process has."""
    ranks = {
        pid: int(rank)
        for item in found
        if mark_of(item) == ATTEMPT
        for pid, _, rank in (part.partition("=") for part in writer_of(item).split(","))
        if pid.isdigit() and rank.isdigit()
    }
    if not ranks:
        return
    for item in found:
        named = _PROCESS.search(writer_of(item))
        if named is not None and event_of(item).rank is None:
            event_of(item).rank = ranks.get(named[1])


def near(first: Found, later: Found) -> bool:
    """Whether two lines may be of one moment."""
    apart = micros_between(first.reading, later.reading)
    return abs(apart) <= _NEAR_US if apart is not None else later.offset - first.offset <= _NEAR_BYTES


def _who(item: Found) -> tuple[object, ...]:
    event = event_of(item)
    return writer_of(item), event.host_raw, event.rank, event.local_rank


class _Prints:
    """Further prints of an error by those who print it: no rows of their own."""

    def __init__(self) -> None:
        self.kept: list[Found] = []
        self.last: dict[tuple[object, ...], Found] = {}  # the last exception of each writer
        self.pending: dict[tuple[object, ...], Found] = {}  # a line that says what the next exception of its writer is
        self.in_init: set[tuple[object, ...]] = set()
        self.quoted: dict[tuple[object, ...], int] = {}  # since where each writer shows what another program printed

    def join(self, found: Sequence[Found]) -> list[Found]:
        for item in found:
            mark = mark_of(item)
            if mark in ROWLESS:
                self._note(item, mark)
            elif event_of(item).error_class is None:
                self.kept.append(item)
            elif event_of(item).kind == "error":
                self._error(item, mark)
            else:
                self._exit(item)
        return self.kept

    def _note(self, item: Found, mark: str) -> None:
        who = _who(item)
        if mark == INIT:
            self.in_init.add(who)
        elif mark == QUOTE:
            self.quoted[who] = item.offset
        elif mark == UNQUOTE:
            self.quoted.pop(who, None)
        elif mark == OVERFLOW:
            self.kept.append(item)
        elif who not in self.pending or mark not in (CHAIN, RAISED_FROM):
            # A chain within a traceback that nobody minds does not make it count.
            self.pending[who] = item

    def _error(self, item: Found, mark: str) -> None:
        event, who = event_of(item), _who(item)
        if item.offset - self.quoted.get(who, -_MOST_TRACEBACK) < _MOST_TRACEBACK:
            return
        told = self.pending.pop(who, None)
        said = "" if told is None or item.offset - told.offset > _MOST_TRACEBACK else mark_of(told)
        before = self.last.get(who)
        followed = said in (CHAIN, RAISED_FROM) and before is not None and mark_of(before) == IGNORED
        if said == IGNORED or followed:
            item.mark = f"{IGNORED}@{writer_of(item)}"
            self.last[who] = item
            return  # in effect nothing happened
        if (
            event.error_class == "user_gpu_oom"
            and who in self.in_init
            and "Tried to allocate" not in (event.error or "")
        ):
            # Nothing had been set up that could fill the memory.
            event.error_class = "gpu_unhealthy_suspect"
        self.in_init.discard(who)
        if said in (CHAIN, RAISED_FROM) and before is not None:
            self.last[who] = _chained(before, item, said)
            if mark_of(before) == TOLD:
                item.mark = f"{TOLD}@{writer_of(item)}"
            if not self._is_copy(item, mark):
                self.kept.append(item)
            return
        if mark == ECHO and any(
            event_of(other).kind == "error" and near(other, item) for other in self.kept[-_MOST_BACK:]
        ):
            return
        if said == LOGGED:
            item.mark = f"{TOLD}@{writer_of(item)}"
        if not self._is_copy(item, mark):
            self.last[who] = item
            self.kept.append(item)

    def _exit(self, item: Found) -> None:
        same = _last_of(self.kept, item, "exit")
        if same is None or not _is_told_twice(same, item):
            self.kept.append(item)

    def _is_copy(self, item: Found, mark: str) -> bool:
        event = event_of(item)
        same = _last_of(self.kept, item, "error")
        if same is None:
            return False
        first = event_of(same)
        if mark == REPRINT or _says_the_same(first, event) or _is_told_twice(same, item):
            add_ranks(first, event)
            if first.host_raw is None and first.rank is None:
                first.host_raw = event.host_raw
            if mark_of(same) == TOLD and mark_of(item) != TOLD:
                same.mark = f"@{writer_of(same)}"  # logged, and then raised all the same
            return True
        return False


def _chained(first: Found, later: Found, how: str) -> Found:
    """Of two exceptions in a chain one is a by-product. Returns the one that counts."""
    one, other = event_of(first), event_of(later)
    if how == CHAIN and one.error_class in _INCIDENTAL and other.error_class not in _INCIDENTAL:
        if one.error_role == "root":
            one.error_role = "symptom"
        return later
    if one.error_class in _INCIDENTAL and other.error_class not in (*_INCIDENTAL, "user_config"):
        one.error_role = "symptom" if one.error_role == "root" else one.error_role
        return later
    if one.error_role == "root" or one.error_class == other.error_class:
        other.error_role = "symptom" if other.error_role == "root" else other.error_role
        return first
    return later


def _last_of(kept: Sequence[Found], item: Found, kind: str) -> Found | None:
    event = event_of(item)
    for other in reversed(kept[-_MOST_BACK:]):
        known = event_of(other)
        same_rank = event.rank is None or known.rank is None or event.rank == known.rank
        if known.error_class == event.error_class and known.kind == kind and same_rank and near(other, item):
            return other
    return None


def _says_the_same(first: TrainingEvent, again: TrainingEvent) -> bool:
    """Whether the words of one stand within those of the other: a wrapper repeats what it wraps."""
    one, other = _core(first.error), _core(again.error)
    return bool(one) and bool(other) and first.error != again.error and (one in other or other in one)


def _is_told_twice(first: Found, again: Found) -> bool:
    """Whether Slurm tells of one end for the step and for the job: with the same time, however many hosts print it."""
    told = first.reading.wall is not None and first.reading.wall == again.reading.wall
    return told and event_of(again).error_class in _OF_SCHEDULER


def _core(text: str | None) -> str:
    return (text or "").rpartition("Error: ")[2].strip()[:400]


def add_ranks(first: TrainingEvent, again: TrainingEvent) -> None:
    """The ranks of another row to those of the first; null while there is but one."""
    ranks = first.ranks if first.ranks is not None else [] if first.rank is None else [first.rank]
    for rank in (again.rank, *(again.ranks or ())):
        if rank is not None and not _holds(ranks, rank):
            insort(ranks, rank)
    if first.ranks is not None or len(ranks) > 1:
        first.ranks = ranks
    elif ranks:
        first.rank = ranks[0]


def _holds(ranks: list[int], rank: int) -> bool:
    at = bisect_left(ranks, rank)
    return at < len(ranks) and ranks[at] == rank


class _Ranks:
    """The same words of several ranks, or of several who do not say which they are: one row with all of them."""

    def __init__(self) -> None:
        self.kept: list[Found] = []
        self.open: dict[tuple[object, ...], Found] = {}

    def join(self, found: Sequence[Found]) -> list[Found]:
        for item in found:
            event = event_of(item)
            if (
                event.kind not in ("error", "rendezvous", "exit")
                or mark_of(item) in (FIRST_EXIT, LATER_EXIT)
                or event.step is not None
            ):
                self.kept.append(item)
                continue
            key = (event.kind, event.error_class, event.error_role, _words_of(event))
            first = self.open.get(key)
            if first is not None and near(first, item) and _is_another(event_of(first), event):
                self._add(first, item)
                continue
            self.open[key] = item
            self.kept.append(item)
        return self.kept

    @staticmethod
    def _add(first: Found, item: Found) -> None:
        one, again = event_of(first), event_of(item)
        add_ranks(one, again)
        one.count = (one.count or 1) + (again.count or 1)
        if again.host_raw is not None and one.host_raw is not None and again.host_raw != one.host_raw:
            one.host_raw = None  # it is about no single host
        first.last = item.reading if item.reading.wall is not None else first.last
        if mark_of(first) == TOLD and mark_of(item) != TOLD:
            first.mark = f"@{writer_of(first)}"


def _words_of(event: TrainingEvent) -> str:
    """The words of an error without its numbers; those of work that was enqueued are what it is about."""
    text = event.error or ""
    return text if text.startswith("last enqueued") else _NUMBERS.sub("#", text)


def _is_another(first: TrainingEvent, again: TrainingEvent) -> bool:
    if again.rank is not None and first.rank is not None:
        return again.rank != first.rank and not _holds(first.ranks or [], again.rank)
    if again.local_rank is not None and first.local_rank is not None:
        return again.local_rank != first.local_rank
    # Somebody who does not say who it is: one of many that print the same, or a launcher that shows it again.
    return again.kind == "error" and first.error_role != "teardown"
