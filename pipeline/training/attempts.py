"""Attempts in a log: where one run of workers ends and the next one begins.

A launcher says that it restarts, workers load a checkpoint or start anew, step numbers go back: each of these opens an
attempt, if the one before has come as far as to print steps or to end. Ranks do not write in step: a start that only
another rank repeats opens none.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from aftershock.pipeline.attempts import ASSUMED
from aftershock.pipeline.training.logs import PROGRESS_WORDS, Log, Said, Save
from aftershock.pipeline.training.stretches import Stretch

# What is said when workers that begin do not come together, whatever stopped them.
_MEETING: Final = re.compile(r"[Rr]endezvous|connectFullMesh|init_process_group|client socket has (?:timed out|failed)")

# Behind the last line of a file.
FILE_END: Final = 1 << 62


@dataclass
class LogAttempt:
    """One run of workers in one log: what stands at [begin, end) of it. ``number``: from 1, within the log.

    followed: whether the log goes on with another attempt. told: the jobs that it names.
    """

    source: str
    number: int
    begin: int
    end: int
    followed: bool = False
    said: list[Said] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)
    saves: list[Save] = field(default_factory=list)

    @property
    def name(self) -> tuple[str, int]:
        """What tells it from all others."""
        return self.source, self.number

    @property
    def times(self) -> list[int]:
        """All times that are known in it."""
        found = [said.time for said in self.said]
        found += [time for stretch in self.stretches for time in (stretch.first_time, stretch.last_time)]
        found += [time for save in self.saves for time in (save.start, save.end)]
        return [time for time in found if time is not None]

    @property
    def first_time(self) -> int | None:
        """The earliest time in it."""
        return min(self.times, default=None)

    @property
    def last_time(self) -> int | None:
        """The latest time in it."""
        return max(self.times, default=None)

    @property
    def assumed(self) -> bool:
        """Whether its times rest on an assumed zone."""
        return any(said.basis == ASSUMED for said in self.said) or any(s.assumed for s in self.stretches)

    @property
    def first_step(self) -> int | None:
        """The first step that it printed."""
        return next((s.first for s in self.stretches if s.first is not None), None)

    @property
    def last_step(self) -> int | None:
        """The last step that it printed."""
        return max((s.last for s in self.stretches if s.last is not None), default=None)

    @property
    def last_progress(self) -> int | None:
        """When it last printed a step."""
        return max((s.last_time for s in self.stretches if s.last_time is not None), default=None)

    @property
    def succeeded(self) -> bool:
        """Whether it says that it came to its end, or did all the steps that it meant to do."""
        last = max((s.end for s in self.stretches), default=-1)
        if any(said.is_success and said.offset >= last for said in self.said):
            return True
        total = next((s.total for s in reversed(self.stretches) if s.total is not None), None)
        if total is None or (self.last_step or 0) < total:
            return False
        return not self.followed and not any(said.role == "root" or said.is_failure for said in self.said)

    @property
    def is_training(self) -> bool:
        """Whether anything in it is said by a run of training, rather than only by what broke."""
        return bool(self.stretches or self.saves) or any(said.kind != "error" for said in self.said)


class _At(NamedTuple):
    """A thing in a log at its place; of two at one place the event goes first."""

    offset: int
    order: int
    item: Said | Stretch | Save


def attempts_of(log: Log) -> list[LogAttempt]:
    """The attempts of a log, in order. There is at least one."""
    items = [_At(said.offset, 0, said) for said in log.said]
    items += [_At(save.offset, 1, save) for save in log.saves]
    items += [_At(stretch.begin, 2, stretch) for stretch in log.stretches]
    items.sort(key=lambda at: at[:2])
    begins = [0, *_openings(items)]
    attempts = [
        LogAttempt(log.source, number, begin, end, followed=end != FILE_END)
        for number, (begin, end) in enumerate(zip(begins, [*begins[1:], FILE_END], strict=True), start=1)
    ]
    for at in items:
        own = attempts[bisect_right(begins, at.offset) - 1]
        if isinstance(at.item, Said):
            own.said.append(at.item)
        elif isinstance(at.item, Save):
            own.saves.append(at.item)
        else:
            own.stretches.append(at.item)
    return attempts


class _Now:
    """The attempt that is being read."""

    def __init__(self) -> None:
        self.last: int | None = None  # step
        self.saved = False
        self.broken = False  # something was said to be wrong
        self.failed = False
        self.done = False
        self.restarting = False
        self.begun: set[object] = set()

    @property
    def alive(self) -> bool:
        """Whether it has come so far that what begins now is another one."""
        return self.last is not None or self.saved or self.failed or self.done or self.restarting


def _openings(items: Sequence[_At]) -> Iterable[int]:
    now = _Now()
    opened = 0
    for place, at in enumerate(items):
        if now.alive and at.offset > opened and _opens(now, at.item, items, place):
            now, opened = _Now(), at.offset
            yield at.offset
        _take(now, at.item)


def _take(now: _Now, item: Said | Stretch | Save) -> None:
    if isinstance(item, Save):
        now.saved = now.saved or item.kind == "save"
    elif isinstance(item, Stretch):
        if item.last is not None:
            now.last = item.last if now.last is None else max(now.last, item.last)
        elif item.printed:
            now.last = now.last or 0
    elif item.kind == "restart":
        now.restarting = True
    elif item.begins:
        now.begun.add((item.kind, item.writer))
    else:
        now.done = now.done or item.is_success
        # A task that fails before anything has begun was an auxiliary one.
        begun = now.last is not None or now.begun or now.broken
        now.failed = now.failed or bool(item.is_failure and begun) or item.error_class == "requeue"
        now.broken = now.broken or (item.kind == "error" and item.role != "noise")


def _opens(now: _Now, item: Said | Stretch | Save, items: Sequence[_At], place: int) -> bool:
    """Whether an attempt begins with this, rather than goes on."""
    if isinstance(item, Save):
        return False
    if isinstance(item, Stretch):
        if now.restarting and not _is_late(item, items, place):
            return True
        return item.first is not None and now.last is not None and item.first <= now.last and _lasts(item, now.last)
    if item.kind == "error":
        # Workers that cannot find each other have been started anew.
        return now.failed and (
            item.error_class == "rendezvous_failure" or _MEETING.search(item.error or "") is not None
        )
    if not item.begins:
        return False
    if now.failed or now.done or now.restarting or PROGRESS_WORDS in (item.message or ""):
        return True
    if now.last is None:
        return False
    if item.step is not None and item.step < now.last:
        return True
    if (item.kind, item.writer) in now.begun:
        return True
    after = next((at.item.first for at in items[place:] if isinstance(at.item, Stretch)), None)
    return after is not None and after <= now.last


def _lasts(item: Stretch, last: int) -> bool:
    """Whether steps that begin below the last one are a new count, rather than a late print."""
    return item.printed > 1 or last - (item.first or 0) > 1


def _is_late(item: Stretch, items: Sequence[_At], place: int) -> bool:
    """Whether a single step behind a restart was printed late: what follows is the real beginning."""
    if item.printed > 1 or place + 1 >= len(items):
        return False
    after = items[place + 1].item
    return isinstance(after, Said) and after.begins
