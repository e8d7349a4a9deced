"""Marks: what a row of one object has to tell the settling, where rows of one job meet.

A mark travels as text beside its row. Pods come one by one, and a job is all of them; an event comes as often as
anybody looked at it; and which job an event of a pod is about may stand in an object far behind it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import orjson

_EVENT: Final = "event"
_RUN: Final = "run"
_JOB: Final = "job"


class EventMark(NamedTuple):
    """An event: the kind and full name of its object, and its own id."""

    kind: str
    about: str
    uid: str | None


class RunMark(NamedTuple):
    """One run of a pod's main container, or a pod that has not run.

    group: what its attempt is told by, beside the job: the restarts or the cluster that a label names, and the id of
        the job. restarts: attempts before, as a label counts them. pod: id or name. name: full name.
    slot: its place in the job, which a pod that replaces it takes over.
    ordinal: how many runs of this container went before; -1 if it has not run.
    """

    group: str
    restarts: int | None
    pod: str
    name: str
    slot: str | None
    ordinal: int


class JobMark(NamedTuple):
    """A job object, or what a queue keeps for one.

    root, root_name: full and plain name of the job that it is a part of; its own if of none. restarts: how many
        attempts went before this one. parts: full names of what was made for it, and is named in its pods instead.
    """

    kind: str
    name: str
    root: str
    root_name: str
    restarts: int
    parts: list[str]


def event_mark(kind: str, about: str, uid: str | None) -> str:
    """The mark of an event."""
    return _packed(_EVENT, EventMark(kind, about, uid))


def run_mark(mark: RunMark) -> str:
    """The mark of a run."""
    return _packed(_RUN, mark)


def job_mark(mark: JobMark) -> str:
    """The mark of a job."""
    return _packed(_JOB, mark)


def mark_in(text: str) -> EventMark | RunMark | JobMark | None:
    """The mark that a text holds, if it holds one."""
    if not text.startswith("["):
        return None
    kind, *values = orjson.loads(text)
    if kind == _EVENT:
        return EventMark(*values)
    return RunMark(*values) if kind == _RUN else JobMark(*values)


def _packed(kind: str, mark: tuple[object, ...]) -> str:
    return orjson.dumps([kind, *mark]).decode()
