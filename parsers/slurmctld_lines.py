"""The lines of slurmctld: the shapes of all families, and how a line is recognised that was cut off."""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers import slurmctld_hosts, slurmctld_jobs
from aftershock.parsers.slurmctld_shapes import LEAD, Shape, first_of

# One of these stands in every line that is read.
SIGNATURES: Final = (*slurmctld_jobs.SIGNATURES, *slurmctld_hosts.SIGNATURES)

_SHAPES: Final = (*slurmctld_jobs.SHAPES, *slurmctld_hosts.SHAPES)


def shape_of(message: str) -> tuple[Shape, re.Match[str]] | None:
    """The first shape that a message has, and its match."""
    return first_of(_SHAPES, message)


# How lines begin that say something in every case: one of these that has no shape is a record that was not read.
_BEGINNING: Final = re.compile(
    LEAD
    + r"""(?: (?<=job_complete:[ ]) <JOB> | Allocate [ ] <JOB> | requeue [ ] job [ ] <JOB> | Requeuing [ ] <JOB>
    | Nodes [ ] \S+ [ ] not [ ] responding, | (?<=update_node:[ ]) node [ ] \S+ [ ] (?:state|reason) [ ] set
    | REQUEST_KILL_JOB [ ] <JOB> )""".replace("<JOB>", r"(?:JobI[dD]|SLUID)=\S+"),
    re.VERBOSE | re.ASCII,
)


def breaks_off(message: str) -> bool:
    """Whether a message that has no shape began as a record."""
    return _BEGINNING.match(message) is not None
