"""Checkpoints of one file: a begin and an end become an interval; a begin without an end is incomplete.

    saving checkpoint at iteration      20 to /ckpt ...
      scheduled an async checkpoint save at iteration      20 to /ckpt
      successfully saved checkpoint from iteration      20 to /ckpt

The end may come long after training has gone on (async), may leave out step and path (torchtitan, OLMo-core), or may
never be printed (DeepSpeed, Hugging Face): such a save is known to be complete once training has gone on behind it.
Timers that stop when an async save is scheduled say nothing about it and are taken back.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from aftershock.parsers.clock import SECOND, micros_between
from aftershock.parsers.formats import Found
from aftershock.parsers.training.steps import step_of
from aftershock.parsers.training.writers import mark_of, writer_of
from aftershock.schemas.events import TrainingEvent
from aftershock.schemas.training import Checkpoint

# Marks of a rule: no end is printed of what it begins; its step is the last that was printed; its duration is that of a
# timer, not of the line itself.
NO_END, LAST_STEP, TIMER = "no_end", "last_step", "timer"
NO_END_LAST_STEP: Final = f"{NO_END}+{LAST_STEP}"

_PARTS: Final = {
    "save_begin": ("save", "begin"),
    "save_scheduled": ("save", "scheduled"),
    "save_end": ("save", "end"),
    "load_begin": ("load", "begin"),
    "load_end": ("load", "end"),
}
CHECKPOINT_KINDS: Final = frozenset(_PARTS)

# Events behind which a run begins: what was open before stays as it is.
BEGINNINGS: Final = frozenset({"start", "resume", "restart", "rendezvous", "load_missing", "load_begin", "load_end"})
_ENDS_ALL: Final = frozenset({"start", "resume", "restart", "rendezvous", "load_missing"})
# Events of a run that has come through what was begun before.
_GOES_ON: Final = frozenset({"exit", "validation"})

# Prints of one save by several ranks stand near each other.
_NEAR_US: Final = 60 * SECOND
_NEAR_BYTES: Final = 64 << 10
# Saves and loads that are kept in mind: more than are ever on the way at a time.
_MOST_OPEN: Final = 32


@dataclass
class _Held:
    """A save or load on the way."""

    item: Found
    row: Checkpoint
    begins: int | None = None
    ended: bool = False
    ends_are_printed: bool = True
    scheduled: bool = False
    writers: set[str] = field(default_factory=set)
    events: list[TrainingEvent] = field(default_factory=list)


def join_saves(events: list[Found], steps: Sequence[Found]) -> tuple[list[Found], list[Found]]:
    """The events and the checkpoints of one source; both it and its ``steps`` are in the order of their offsets.

    Steps and paths that the lines of a save leave out are filled in from its other lines. The same line of several
    ranks is one event.
    """
    return _Saves(steps).join(events)


def event_of(item: Found) -> TrainingEvent:
    """The row of an event."""
    assert isinstance(item.row, TrainingEvent)
    return item.row


class _Saves:
    def __init__(self, steps: Sequence[Found]) -> None:
        self.steps = [(item.offset, step_of(item).step) for item in steps if step_of(item).step is not None]
        self.offsets = [offset for offset, _ in self.steps]
        self.kept: list[Found] = []
        self.open: list[_Held] = []
        self.done: list[_Held] = []

    def join(self, events: list[Found]) -> tuple[list[Found], list[Found]]:
        for item in events:
            event = event_of(item)
            if event.kind in _PARTS:
                if self._take(item, event):
                    self.kept.append(item)
                continue
            self.kept.append(item)
            if event.kind in _GOES_ON and event.error_class is None:
                self._gone_on(item.offset)
            if event.kind in _ENDS_ALL:
                self._resumed(item, event)
        for held in self.open:
            self._close(held, None)
        self.done.sort(key=lambda held: held.item.offset)
        return self.kept, [held.item for held in self.done]

    def _take(self, item: Found, event: TrainingEvent) -> bool:
        """Put one line to its save or load. False if another rank has said the same."""
        kind, part = _PARTS[event.kind or ""]
        marks = mark_of(item).split("+")
        if LAST_STEP in marks and event.step is None and kind == "save":
            event.step = self._last_step(item.offset)
        held = self._find(kind, part, item, event)
        if held is None:
            held = self._begin(kind, item, event)
        elif self._is_copy(held, part, item, event):
            return False
        held.writers.add(f"{part}@{writer_of(item)}")
        held.events.append(event)
        self._fill(held, event)
        self._clock(held, part, item, event, timed=TIMER in marks)
        if part == "begin":
            held.ends_are_printed = NO_END not in marks
        elif part == "scheduled":
            held.scheduled = True
        if part == "end":
            held.ended = True
            held.row.complete = True
            if kind == "load":
                self._proved(held.row)
        return True

    def _find(self, kind: str, part: str, item: Found, event: TrainingEvent) -> _Held | None:
        """The save or load that a line belongs to."""
        mine = [held for held in self.open if held.row.kind == kind and _same_place(held.row.path, event.path)]
        for held in reversed(mine):
            if event.step is not None and held.row.step == event.step:
                if part == "begin" and (held.ended or not self._near(held, item)):
                    continue
                return held
        if part == "begin":
            # One line says that a save begins, the next one of what step.
            last = mine[-1] if mine else None
            if last is not None and not last.ended and last.row.step is None and self._near(last, item):
                return None if event.step is None and self._again(last, part, item) else last
            return None
        for held in reversed(mine):
            if not held.ended and (event.step is None or held.row.step is None):
                return held
        # One more rank has ended what the first one ended, or a further line tells its step.
        last = mine[-1] if mine else None
        if last is None or not last.ended or not self._near_end(last, item):
            return None
        known = last.row.path is not None and last.row.path == event.path
        return last if event.step is None or (last.row.step is None and known) else None

    def _is_copy(self, held: _Held, part: str, item: Found, event: TrainingEvent) -> bool:
        """Whether another rank (or the same line once more) says what is known; its time counts if it is an end."""
        said = [mark for mark in held.writers if mark.startswith(f"{part}@")]
        if not said:
            return False
        if part == "begin" and held.row.step is None and event.step is not None:
            return False  # it tells more
        first = next((one for one in held.events if one.kind == event.kind), None)
        if first is not None:
            first.count = (first.count or 1) + (event.count or 1)
            if event.rank is not None and first.rank is not None and event.rank != first.rank:
                first.ranks = sorted({*(first.ranks or [first.rank]), event.rank})
            self._fill(held, event)
        held.writers.add(f"{part}@{writer_of(item)}")
        if part == "end":
            self._clock(held, part, item, event, timed=True)
        return True

    def _again(self, held: _Held, part: str, item: Found) -> bool:
        """Whether this writer has said this of the save before: then it is another one."""
        writer = writer_of(item)
        return bool(writer) and f"{part}@{writer}" in held.writers

    def _near(self, held: _Held, item: Found) -> bool:
        apart = micros_between(held.item.reading, item.reading)
        if apart is not None:
            return abs(apart) <= _NEAR_US
        return item.offset - held.item.offset <= _NEAR_BYTES

    def _near_end(self, held: _Held, item: Found) -> bool:
        wall = item.reading.wall
        if held.row.end_time is not None and wall is not None and item.reading.kind == held.item.reading.kind:
            return abs(wall - held.row.end_time) <= _NEAR_US
        return self._near(held, item)

    def _begin(self, kind: str, item: Found, event: TrainingEvent) -> _Held:
        row = Checkpoint(kind=kind, step=event.step, path=event.path, origin="log", complete=False)
        held = _Held(Found(row, item.reading, item.offset), row)
        if kind == "save":
            self._gone_on(item.offset)
        still = []
        for other in self.open:
            if other.row.kind == kind and other.ended:
                self._close(other, item.offset)
            else:
                still.append(other)
        self.open = [*still, held]
        if len(self.open) > _MOST_OPEN:
            self._close(self.open.pop(0), item.offset)
        return held

    def _fill(self, held: _Held, event: TrainingEvent) -> None:
        row = held.row
        row.step = row.step if row.step is not None else event.step
        row.path = row.path or event.path
        for one in held.events:
            one.step = one.step if one.step is not None else row.step
            one.path = one.path or row.path

    def _clock(self, held: _Held, part: str, item: Found, event: TrainingEvent, *, timed: bool) -> None:
        row, item_of = held.row, held.item
        if item_of.reading.wall is None and item.reading.wall is not None:
            item_of.reading = item.reading
        wall = item.reading.wall if item.reading.kind == item_of.reading.kind else None
        if part == "begin":
            row.start_time = row.start_time if row.start_time is not None else wall
            held.begins = item.offset if held.begins is None else held.begins
        elif part == "scheduled":
            row.scheduled_time = row.scheduled_time if row.scheduled_time is not None else wall
        else:
            row.end_time = wall if row.end_time is None or wall is None else max(row.end_time, wall)
            if timed and held.scheduled:
                event.duration_s = None  # this timer stopped when the save was scheduled
            elif event.duration_s is not None:
                row.duration_s = max(event.duration_s, row.duration_s or 0.0)
        if row.start_time is not None and row.end_time is not None and row.end_time >= row.start_time:
            span = (row.end_time - row.start_time) / SECOND
            if timed or row.duration_s is None or event.duration_s is None:
                row.duration_s = span

    def _gone_on(self, offset: int) -> None:
        """Training has gone on behind what was begun before: saves of which no end is printed have come to it."""
        for held in self.open:
            if not held.ends_are_printed and not held.ended and held.item.offset < offset:
                held.row.complete = True

    def _resumed(self, item: Found, event: TrainingEvent) -> None:
        """A run begins: an open load has come to its end if the line says from where; saves that are open stay so."""
        if event.kind == "resume":
            loads = [held for held in self.open if held.row.kind == "load" and not held.ended]
            if loads:
                self._fill(loads[-1], event)
                loads[-1].ended = loads[-1].row.complete = True
                self._clock(loads[-1], "end", item, event, timed=False)
                self._proved(loads[-1].row)
            elif event.step is not None:
                self._proved(Checkpoint(kind="load", step=event.step, path=event.path))
        still = []
        for held in self.open:
            if held.row.kind == "load":
                still.append(held)
            else:
                self._close(held, item.offset)
        self.open = still

    def _proved(self, load: Checkpoint) -> None:
        """What has been loaded had been saved."""
        for held in reversed([*self.done[-_MOST_OPEN:], *self.open]):
            if held.row.kind == "save" and not held.ends_are_printed and held.row.step == load.step is not None:
                held.row.complete = True
                return

    def _close(self, held: _Held, offset: int | None) -> None:
        """Nothing more will be said of a save or load. ``offset``: where that is known."""
        if not held.ended and not held.ends_are_printed and not held.row.complete:
            begun = held.begins if held.begins is not None else held.item.offset
            later = self._steps_between(begun, offset)
            step = held.row.step
            held.row.complete = True if any(step is None or one > step for one in later) else None
        self.done.append(held)

    def _steps_between(self, begin: int, end: int | None) -> list[int]:
        first = bisect_left(self.offsets, begin + 1)
        last = len(self.offsets) if end is None else bisect_left(self.offsets, end)
        return [step for _, step in self.steps[first:last] if step is not None]

    def _last_step(self, offset: int) -> int | None:
        before = bisect_left(self.offsets, offset)
        return self.steps[before - 1][1] if before else None


def _same_place(one: str | None, other: str | None) -> bool:
    """Whether two printed paths may be of one checkpoint: the same, or one within the other, or not said."""
    if one is None or other is None or one == other:
        return True
    return one.rstrip("/") in other or other.rstrip("/") in one
