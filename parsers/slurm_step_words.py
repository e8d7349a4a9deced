"""What slurmstepd says of a job or a step: in the log of the host's daemon, and in the output of the job itself.

    *** JOB 812 ON dgx07 CANCELLED AT 2025-02-03T08:10:05 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***
    *** STEP 812.0 STEPD TERMINATED ON dgx07 AT 2025-02-03T08:12:05 DUE TO JOB NOT ENDING WITH SIGNALS ***
    Detected 1 oom_kill event in StepId=812.0. Some of the step tasks have been OOM Killed.

The wording is in src/slurmd/slurmstepd (req.c, step_terminate_monitor.c), src/plugins/task/cgroup and
src/interfaces/jobacct_gather.c of https://github.com/SchedMD/slurm, read here for releases 20.02 to 26.05. The times
are local and have no zone. ``ON`` names the host of the daemon that speaks, not the one that failed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from aftershock.parsers.clock import NO_CLOCK, SECOND, Reading, micros_between
from aftershock.parsers.formats import Found
from aftershock.parsers.slurm_words import clock_of
from aftershock.schemas.events import EventRow, NodeEvent, SchedulerEvent

SCHEDULER: Final = "slurm"

# A job or a step as slurmd, slurmstepd and srun name it, as a pattern to be built into larger ones (verbose, ASCII):
#   job 812   JobId=812   JobId=812 SLUID=s0123456789ABC   812.0   StepId=812.batch   step 812.0
#   812+1.0 (StepId=813.0)
STEP: Final = r"""
    (?: (?:JobId|StepId)= | (?:job|step) [ ] (?:step [ ])? )?
    (?: (?P<job>[0-9]{1,20}) (?:_(?P<task>[0-9]{1,10}))? (?:\+[0-9]{1,10})? | (?P<sluid>s[0-9A-Z]{13}) )
    (?: [ ] SLUID=\w{1,64} )?
    (?: \. (?P<step>[\w+]{1,32}) )?
    (?: [ ] \( StepId=[\w.+]{1,64} \) )?
    (?![\w+])
"""

# The two lines of one cancel, of the job and of its step, follow each other within seconds.
_NEAR: Final = 5 * SECOND

# How a message begins that is one of the lines between stars.
STARS_BEGIN: Final = re.compile(r"\*\*\*[ ](?:JOB|STEP)[ ][0-9s]")
_STARS: Final = re.compile(
    r"""
    \*\*\* [ ] (?P<what>JOB|STEP) [ ] <STEP>
    (?:
        (?: [ ] ON [ ] (?P<host>[\w.-]{1,253}) )?           # releases before 15.08 do not say where
        (?: [ ] CANCELLED [ ] AT [ ] (?P<time>\S{1,64})
            (?: [ ] D(?:UE|ue) [ ] [Tt][Oo] [ ] (?P<why> [^*]{1,128}? ) )?
        | [ ] (?P<failed>FAILED) [ ] \( [^)]{1,128} \) )
    |
        [ ] STEPD [ ] TERMINATED [ ] ON [ ] (?P<stuck>[\w.-]{1,253}) [ ] AT [ ] (?P<then>\S{1,64})
        [ ] DUE [ ] TO [ ] (?P<because> [^*]{1,128}? )
    )
    [ ] \*\*\*
    """.replace("<STEP>", STEP),
    re.VERBOSE | re.ASCII,
)
# What stands behind DUE TO: kind, state, and the reason in the words of the table.
_CAUSES: Final = (
    ("TIME LIMIT", "time_limit", "TIMEOUT", "time limit"),
    ("PREEMPTION", "preempted", "PREEMPTED", "preemption"),
    ("NODE FAILURE", "ended", "NODE_FAIL", "node failure"),
    ("JOB REQUEUE", "requeued", "REQUEUED", "job requeue"),
    ("TASK FAILURE", "ended", "FAILED", "task failure"),
)

# 20.02: "oom-kill event(s) in step 812.0 cgroup."; 21.08: "oom-kill event(s) in StepId=812.0."
_OOM: Final = re.compile(
    r"Detected [ ] (?P<count>[0-9]{1,18}) [ ] oom[-_]kill [ ] events? (?:\(s\))? [ ] in [ ] <STEP>".replace(
        "<STEP>", STEP
    ),
    re.VERBOSE | re.ASCII,
)
# 20.02: "Job 812 exceeded memory limit (900 > 800), being killed"; slurmd: "(900>800), cancelling it"
_MEMORY: Final = re.compile(
    r"""
    (?:[Jj]ob[ ]|[Ss]tep[ ]|(?=StepId=|JobId=)) <STEP> [ ] exceeded [ ] (?P<which>(?:virtual[ ])?memory[ ]limit) [ ]
    \( [0-9]{1,20} [ ]?>[ ]? [0-9]{1,20} \), [ ] (?:being[ ]killed|cancelling[ ]it)
    """.replace("<STEP>", STEP),
    re.VERBOSE | re.ASCII,
)


class Told(NamedTuple):
    """A row, the clock that the message itself prints, and a mark for :func:`join_steps`."""

    row: EventRow
    reading: Reading = NO_CLOCK
    mark: str = ""
    lost_time: str | None = None


def job_event(kind: str, match: re.Match[str]) -> SchedulerEvent:
    """A row about the job that the groups of :data:`STEP` name."""
    return SchedulerEvent(
        scheduler=SCHEDULER,
        kind=kind,
        job_id=match["job"],
        array_task=match["task"],
        raw_job_id=match["job"] or match["sluid"],
    )


def told(message: str) -> Iterator[Told]:
    """The rows of a message of slurmstepd that begins where its level ends; none if it says something else."""
    stars = _STARS.match(message)
    if stars is not None:
        yield _stars(stars)
        return
    oom = _OOM.match(message)
    if oom is not None:
        yield Told(NodeEvent(kind="oom_kill", process=_step(oom), value=float(oom["count"]), unit="kills"))
        row = job_event("oom_kill", oom)
        row.state, row.reason = "OUT_OF_MEMORY", f"{_step(oom)}: {oom['count']} oom_kill"
        yield Told(row)
        return
    memory = _MEMORY.match(message)
    if memory is not None:
        row = job_event("oom_kill", memory)
        row.state, row.reason = "OUT_OF_MEMORY", f"exceeded {memory['which']}"
        yield Told(row)


def _stars(match: re.Match[str]) -> Told:
    row = job_event("cancelled", match)
    row.state = "CANCELLED"
    why = match["why"]
    if match["stuck"]:
        # The processes of the job do not die: the host is taken out for it ("Kill task failed").
        row.kind, row.state, row.reason = "kill_failed", None, match["because"].lower()
    elif match["failed"]:
        row.kind, row.state = "step_aborted", "FAILED"
    elif why is not None:
        known = next((cause for cause in _CAUSES if why.startswith(cause[0])), None)
        if known is not None:
            row.kind, row.state, row.reason = known[1:]
            if row.state == "FAILED" and match["what"] == "STEP":
                row.kind = "cancelled"  # the script of the job may go on
        else:
            row.reason = why.lower() if why.isupper() else why
    host = match["host"] or match["stuck"]
    row.hosts = [host] if host else None
    if match["what"] == "STEP":
        row.reason = "; ".join(filter(None, (row.reason, _step(match))))
    if match["stuck"]:
        row.host_raw = host
    printed = match["time"] or match["then"]
    reading, lost = reading_of(printed)
    mark = "" if match["stuck"] else match["what"].lower()
    return Told(row, reading, mark, lost)


def _step(match: re.Match[str]) -> str:
    job, step = match["job"] or match["sluid"], match["step"]
    return f"step {job}.{step}" if step else f"job {job}"


def reading_of(printed: str | None) -> tuple[Reading, str | None]:
    """The clock of a printed time; and, where there is one that cannot be read, what is wrong with it."""
    if printed is None:
        return NO_CLOCK, None
    try:
        clock = clock_of(printed)
    except ValueError as error:
        return Reading(text=printed), str(error)
    if clock is None:
        return NO_CLOCK, None
    return Reading(clock.kind, clock.wall, None, None, SECOND, printed), None


def join_steps(items: Iterable[Found]) -> list[Found]:
    """The line of a job and that of its step tell of one cancel: one row, where the first of them stands."""
    kept: list[Found] = []
    latest: dict[tuple[str | None, str | None], Found] = {}
    hosts: dict[int, set[str]] = defaultdict(set)  # of each row that stays
    for item in items:
        row = item.row
        if item.mark not in ("job", "step") or not isinstance(row, SchedulerEvent):
            kept.append(item)
            continue
        key = (row.raw_job_id, row.kind)
        before = latest.get(key)
        if before is not None and "job" in (before.mark, item.mark) and _near(before, item):
            first = before.row
            assert isinstance(first, SchedulerEvent)
            new = [host for host in row.hosts or () if host not in hosts[id(first)]]
            if new:
                hosts[id(first)].update(new)
                first.hosts = first.hosts or []
                first.hosts += new
            if before.mark == "step" and item.mark == "job":
                first.reason, before.mark = row.reason, "job"
            continue
        latest[key] = item
        hosts[id(row)].update(row.hosts or ())
        kept.append(item)
    return kept


def _near(earlier: Found, later: Found) -> bool:
    apart = micros_between(earlier.reading, later.reading)
    return apart is not None and abs(apart) <= _NEAR
