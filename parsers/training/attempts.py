"""Attempts: where in a file a run of workers ends and the next one begins.

Launchers say that they start workers, or that those have ended; which of it is printed depends on the level of their
logs. Trainers say that they begin, and steps say that they go on. What is printed after an end belongs to the attempt
that ended, for victims speak late, until something begins.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from aftershock.parsers.clock import SECOND, micros_between
from aftershock.parsers.formats import Found
from aftershock.parsers.training.marks import ATTEMPT, ENDED, FIRST_EXIT, LATER_EXIT, SUCCESS
from aftershock.parsers.training.writers import mark_of, writer_of
from aftershock.schemas.events import TrainingEvent
from aftershock.schemas.training import TrainingStep

# Trainers say these once they are set up; each rank may.
_BEGINNINGS: Final = frozenset({"start", "resume", "init_start"})
_LOADS: Final = frozenset({"load_begin", "load_missing"})
# Beginnings of the ranks, or of the agents, of one attempt stand near each other.
_NEAR_US: Final = 120 * SECOND
_NEAR_BYTES: Final = 256 << 10


@dataclass
class Attempt:
    """The events and steps of one run of workers, each in the order of their offsets."""

    events: list[Found] = field(default_factory=list)
    steps: list[Found] = field(default_factory=list)


def attempts_of(events: Sequence[Found], steps: Sequence[Found]) -> list[Attempt]:
    """The attempts of one source."""
    cutter = _Cutter()
    for item in heapq.merge(events, steps, key=lambda item: item.offset):
        if isinstance(item.row, TrainingStep):
            cutter.step(item)
        else:
            cutter.event(item)
    return cutter.done()


def event_of(item: Found) -> TrainingEvent:
    """The row of an event."""
    assert isinstance(item.row, TrainingEvent)
    return item.row


class _Cutter:
    def __init__(self) -> None:
        self.attempts = [Attempt()]
        self._renew()

    def _renew(self) -> None:
        self.ended: Found | None = None  # where the attempt ended, or its end was told of
        self.began: Found | None = None  # the last beginning of it
        self.troubled = False  # whether anything went wrong in it
        self.since = False  # whether there was trouble, or a step, since the last beginning
        self.agents: dict[str, int] = {}  # where in the events each launcher saw its workers end
        self.largest: int | None = None  # the largest step

    def _cut(self, at: int | None = None) -> None:
        last = self.attempts[-1]
        late = [] if at is None else last.events[at:]
        if at is not None:
            del last.events[at:]
        self.attempts.append(Attempt(late))
        self._renew()

    def step(self, item: Found) -> None:
        assert isinstance(item.row, TrainingStep)
        number = item.row.step
        again = number is not None and self.largest is not None and number <= self.largest
        if again and self.ended is not None and mark_of(self.ended) == ENDED:
            # Lines of steps may come late: a step that goes on from the last one is no new attempt.
            self._cut()
        self.attempts[-1].steps.append(item)
        self.since = True
        if number is not None:
            self.largest = number if self.largest is None else max(number, self.largest)

    def event(self, item: Found) -> None:
        event, mark = event_of(item), mark_of(item)
        if mark == ATTEMPT:
            self._begin(item, new=self.troubled or self._has_gone())
        elif event.kind in _BEGINNINGS:
            self._begin(item, new=self._has_gone())
        elif event.kind in _LOADS and self.ended is not None:
            self._begin(item, new=True)
        self.attempts[-1].events.append(item)
        if event.kind in ("error", "exit", "restart"):
            self.troubled = self.since = True
        if mark in (ENDED, SUCCESS) or event.kind == "restart":
            self._end(item, mark)

    def _begin(self, item: Found, *, new: bool) -> None:
        """Workers begin: new ones, rather than those of another host or rank."""
        if new and not self._is_of_same_beginning(item):
            self._cut()
        self.began = item
        self.since = False

    def _has_gone(self) -> bool:
        """Whether there is anything after which a beginning is a new one."""
        return self.ended is not None or bool(self.attempts[-1].steps)

    def _is_of_same_beginning(self, item: Found) -> bool:
        """Whether the last beginning stands near, and nothing but beginnings in between."""
        if self.began is None or self.ended is not None or self.since:
            return False
        apart = micros_between(self.began.reading, item.reading)
        return abs(apart) <= _NEAR_US if apart is not None else item.offset - self.began.offset <= _NEAR_BYTES

    def _end(self, item: Found, mark: str) -> None:
        agent = writer_of(item) if mark == ENDED and event_of(item).kind == "exit" else ""
        attempt = self.attempts[-1]
        if agent and agent in self.agents:
            # The launcher saw workers end twice, and nobody said that they were started in between.
            at = self.agents[agent]
            while at < len(attempt.events) - 1 and _is_of_an_end(attempt.events[at]):
                at += 1
            self._cut(at)
            attempt = self.attempts[-1]
        if agent:
            self.agents[agent] = len(attempt.events)
        self.ended = item

    def done(self) -> list[Attempt]:
        return [attempt for attempt in self.attempts if attempt.events or attempt.steps]


def _is_of_an_end(item: Found) -> bool:
    """Whether a row only tells of workers that are stopped, or of the launcher that gives up."""
    event = event_of(item)
    return (
        mark_of(item) in (FIRST_EXIT, LATER_EXIT)
        or event.kind == "restart"
        or event.error_role == "teardown"
        or (event.kind == "exit" and event.error_role != "root" and mark_of(item) != ENDED)
    )
