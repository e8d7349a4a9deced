"""What a shape of a line of slurmctld is, and what all shapes share: what stands before a message, rows about jobs and
about hosts.

Patterns begin where the message begins, so that a line which merely quotes another one is not taken for it, and each of
them is linear: no repetition stands within another. What several lines tell together is joined in
:mod:`aftershock.parsers.slurmctld_joins`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from aftershock.parsers.hostlist import expand_hosts
from aftershock.parsers.patterns import later
from aftershock.parsers.slurm_words import JOB, job_ref
from aftershock.schemas.events import SchedulerEvent

Make = Callable[[re.Match[str]], SchedulerEvent]

SCHEDULER: Final = "slurm"

# Before each message: its level, the part of the controller that speaks, the function, and the DebugFlag that a line
# needs to be printed.
LEAD: Final = r"""
    (?: (?:error|fatal|warning|info|verbose|debug[2-5]?|sched) : \s{0,4} )?
    (?: (?:sched|sched/backfill|backfill|sched/builtin) : \s{0,4} )?
    (?: (?P<function>\w{1,64}) :? [ ] )??
    (?: [A-Z][A-Z_]{1,32} : [ ] )?
"""


class Shape(NamedTuple):
    """A shape of a line. ``mark`` tells the joining step which shape it was; ``make`` may raise HostListError."""

    mark: str
    pattern: re.Pattern[str]
    make: Make


class Shapes(list[Shape]):
    """The shapes of one family, in the order in which they are tried."""

    def shape(self, *patterns: str) -> Callable[[Make], Make]:
        """Ties patterns to the function that makes a row of them; the mark is the name of the function."""

        def tie(make: Make) -> Make:
            for pattern in patterns:
                compiled = later(LEAD + pattern.replace("<JOB>", JOB), re.VERBOSE | re.ASCII)
                self.append(Shape(make.__name__.removeprefix("_"), compiled, make))
            return make

        return tie


def first_of(shapes: Sequence[Shape], message: str) -> tuple[Shape, re.Match[str]] | None:
    """The first shape that a message has, and its match."""
    for shape in shapes:
        match = shape.pattern.match(message)
        if match:
            return shape, match
    return None


def job_row(kind: str, match: re.Match[str], hosts: str | None = None) -> SchedulerEvent:
    """A row about the job that a match names."""
    ref = job_ref(match)
    return SchedulerEvent(
        scheduler=SCHEDULER,
        kind=kind,
        job_id=ref.job_id,
        array_task=ref.array_task,
        raw_job_id=ref.raw_job_id,
        hosts=None if hosts is None else expand_hosts(hosts),
    )


def node_row(kind: str, hosts: str) -> SchedulerEvent:
    """A row about hosts; ``host`` is set if it is one."""
    names = expand_hosts(hosts)
    alone = names[0] if len(names) == 1 else None
    return SchedulerEvent(scheduler=SCHEDULER, kind=kind, host=alone, host_raw=alone, hosts=names)
