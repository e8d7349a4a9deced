"""The lines of slurmctld, each with the row that it gives.

A line of Slurm's source stands above each pattern, as it is printed. Patterns begin where the message begins, so that
a line which merely quotes another one is not taken for it, and each of them is linear: no repetition stands within
another. What several lines tell together is joined in :mod:`aftershock.parsers.slurmctld_joins`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from aftershock.parsers.hostlist import expand_hosts
from aftershock.parsers.slurm_words import JOB, LAST_SIGNAL, job_ref
from aftershock.schemas.events import SchedulerEvent

_Make = Callable[[re.Match[str]], SchedulerEvent]

# One of these stands in every line that is read.
SIGNATURES: Final = (
    rb"slurmctld version ",
    rb" InitPrio=",
    rb"_slurm_rpc_allocate_resources ",
    rb"Allocate (?:JobI[dD]|SLUID)=",
    rb"Started (?:JobI[dD]|SLUID)=",
    rb"job_complete: ",
    rb"[Rr]equeue (?:het )?job ",
    rb"Requeuing (?:JobI[dD]|SLUID)=",
    rb"missing from batch node ",
    rb"preempted (?:JobI[dD]|SLUID)=",
    rb"REQUEST_KILL_JOB (?:JobI[dD]|SLUID)=",
    rb"job_str_signal\(\) uid=",
    rb"job_signal: [0-9]",
    rb"dependency can't be satisfied, cancelling",
    rb"ime limit (?:exhausted|reached) for ",
    rb"Killing (?:JobI[dD]|SLUID)=",
    rb"Removing failed node ",
    rb"not responding, ",
    rb"not resumed by ResumeTimeout",
    rb"unexpectedly rebooted boot_time=",
    rb"now responding",
    rb"returned to service",
    rb"update_node: node ",
    rb"drain_nodes: node ",
    rb"Setting node ",
    rb", set to state DRAIN",
    rb"draining the node",
    rb"pilog error ",
    rb"Epilog failure on host ",
    rb"(?:Created|Updated) reservation=",
    rb"_slurm_rpc_resv_delete complete for ",
)

# Before each message: its level, the part of the controller that speaks, and the function.
_LEAD: Final = r"""
    (?: (?:error|fatal|warning|info|verbose|debug[2-5]?|sched) : \s{0,4} )?
    (?: (?:sched|sched/backfill|backfill|sched/builtin) : \s{0,4} )?
    (?: (?P<function>\w{1,64}) :? [ ] )??
"""


class Shape(NamedTuple):
    """A shape of a line. ``mark`` tells the joining step which shape it was; ``make`` may raise HostListError."""

    mark: str
    pattern: re.Pattern[str]
    make: _Make


_SHAPES: list[Shape] = []


def _shape(*patterns: str) -> Callable[[_Make], _Make]:
    """Ties patterns to the function that makes a row of them; the mark is the name of the function."""

    def tie(make: _Make) -> _Make:
        for pattern in patterns:
            compiled = re.compile(_LEAD + pattern.replace("<JOB>", JOB), re.VERBOSE | re.ASCII)
            _SHAPES.append(Shape(make.__name__.removeprefix("_"), compiled, make))
        return make

    return tie


def shape_of(message: str) -> tuple[Shape, re.Match[str]] | None:
    """The first shape that a message has, and its match."""
    for shape in _SHAPES:
        match = shape.pattern.match(message)
        if match:
            return shape, match
    return None


# How lines begin that say something in every case: one of these that has no shape is a record that was not read.
_BEGINNING: Final = re.compile(
    _LEAD
    + r"""(?: (?<=job_complete:[ ]) <JOB> | Allocate [ ] <JOB> | requeue [ ] job [ ] <JOB> | Requeuing [ ] <JOB>
    | Nodes [ ] \S+ [ ] not [ ] responding, | (?<=update_node:[ ]) node [ ] \S+ [ ] (?:state|reason) [ ] set
    | REQUEST_KILL_JOB [ ] <JOB> )""".replace("<JOB>", r"(?:JobI[dD]|SLUID)=\S+"),
    re.VERBOSE | re.ASCII,
)


def breaks_off(message: str) -> bool:
    """Whether a message that has no shape began as a record."""
    return _BEGINNING.match(message) is not None


def _job_row(kind: str, match: re.Match[str], hosts: str | None = None) -> SchedulerEvent:
    ref = job_ref(match)
    return SchedulerEvent(
        kind=kind,
        job_id=ref.job_id,
        array_task=ref.array_task,
        raw_job_id=ref.raw_job_id,
        hosts=None if hosts is None else expand_hosts(hosts),
    )


def _node_row(kind: str, hosts: str) -> SchedulerEvent:
    names = expand_hosts(hosts)
    alone = names[0] if len(names) == 1 else None
    return SchedulerEvent(kind=kind, host=alone, host_raw=alone, hosts=names)


# slurmctld version 23.11.4 started on cluster alpha        (26.05: alpha(2051))
@_shape(
    r"slurmctld [ ] version [ ] (?P<version>\S{1,64}) [ ] started [ ] on [ ] cluster [ ] (?P<cluster>[^\s(]{1,128})"
)
def _controller_start(match: re.Match[str]) -> SchedulerEvent:
    return SchedulerEvent(kind="controller_start", cluster=match["cluster"], reason=f"version {match['version']}")


# _slurm_rpc_submit_batch_job: JobId=812 InitPrio=4294901 usec=310
@_shape(r"<JOB> [ ] InitPrio=[0-9]")
def _submitted(match: re.Match[str]) -> SchedulerEvent:
    return _job_row("submitted", match)


# sched: _slurm_rpc_allocate_resources JobId=813 NodeList=dgx07 usec=1204       (salloc, srun; no hosts: it waits)
@_shape(r"(?<=_slurm_rpc_allocate_resources[ ]) <JOB> [ ] NodeList=(?P<hosts>\S+) [ ]")
def _allocated(match: re.Match[str]) -> SchedulerEvent:
    row = _job_row("started", match, match["hosts"])
    row.kind = "started" if row.hosts else "submitted"
    return row


# sched: Allocate JobId=812 NodeList=dgx[07-08] #CPUs=16 Partition=long
# sched/backfill: _start_job: Started JobId=812 in long on dgx[07-08]           (20.02: backfill: Started ...)
@_shape(
    r"Allocate [ ] <JOB> [ ] (?:Partition=\S+ [ ])? NodeList=(?P<hosts>\S+) [ ] \#CPUs=",
    r"Started [ ] <JOB> [ ] in [ ] \S+ [ ] on [ ] (?P<hosts>\S+) \Z",
)
def _started(match: re.Match[str]) -> SchedulerEvent:
    return _job_row("started", match, match["hosts"])


# _job_complete: JobId=812 WEXITSTATUS 1
@_shape(r"(?<=job_complete:[ ]) <JOB> [ ] WEXITSTATUS [ ] (?P<status>[0-9]{1,9}) \Z")
def _exited(match: re.Match[str]) -> SchedulerEvent:
    row = _job_row("ended", match)
    row.exit_code = int(match["status"])
    row.state = "FAILED" if row.exit_code else "COMPLETED"
    return row


# _job_complete: JobId=812 WTERMSIG 9
@_shape(r"(?<=job_complete:[ ]) <JOB> [ ] WTERMSIG [ ] (?P<signal>[0-9]{1,9}) \Z")
def _signalled(match: re.Match[str]) -> SchedulerEvent:
    row = _job_row("ended", match)
    signal = int(match["signal"])
    # 126 is what Slurm prints where there is no exit status: the next line says why.
    row.exit_signal = signal if signal <= LAST_SIGNAL else None
    row.state = "FAILED" if signal <= LAST_SIGNAL else None
    return row


# _job_complete: JobId=812 OOM failure
# _job_complete: JobId=812 cancelled by interactive user
# _job_complete: JobId=812 cancelled by node failure
@_shape(
    r"(?<=job_complete:[ ]) <JOB> [ ]"
    r"(?P<reason> OOM [ ] failure | cancelled [ ] by [ ] (?: interactive [ ] user | node [ ] failure ) ) \Z"
)
def _cut_off(match: re.Match[str]) -> SchedulerEvent:
    row = _job_row("ended", match)
    row.reason = match["reason"]
    row.state = {"OOM": "OUT_OF_MEMORY", "interactive user": "CANCELLED"}.get(
        "OOM" if row.reason.startswith("OOM") else row.reason.removeprefix("cancelled by "), "NODE_FAIL"
    )
    return row


# _job_complete: JobId=812 done                 (closes whichever of the lines above came first)
@_shape(r"(?<=job_complete:[ ]) <JOB> [ ] done \Z")
def _done(match: re.Match[str]) -> SchedulerEvent:
    return _job_row("ended", match)


# Killing JobId=812 on failed node dgx08        (at a start of the controller: on DOWN node)
# Killing JobId=812 on defunct partition long
@_shape(
    r"Killing [ ] <JOB> [ ] on [ ] (?P<reason> (?:failed|DOWN) [ ] node ) [ ] (?P<hosts>\S+)",
    r"Killing [ ] <JOB> [ ] on [ ] (?P<reason> defunct [ ] partition [ ] \S+ ) (?P<hosts>)",
)
def _killed(match: re.Match[str]) -> SchedulerEvent:
    row = _job_row("ended", match, match["hosts"] or None)
    row.reason = f"{match['reason']} {match['hosts']}".strip()
    row.state = "NODE_FAIL"
    return row


# requeue job JobId=812 due to failure of node dgx08
# Requeue job JobId=812 due to node failure     (at a start of the controller; also: Requeue het job leader)
# _job_complete: requeue JobId=812 due to node failure
# _job_complete: requeue JobId=812 per user/system request
# Requeuing JobId=812
@_shape(
    r"requeue [ ] (?:job [ ])? <JOB> [ ] due [ ] to [ ] (?P<reason> failure [ ] of [ ] node [ ] (?P<hosts>\S+) )",
    r"[Rr]equeue [ ] (?:job [ ] | het [ ] job [ ] leader [ ])? <JOB> [ ] (?:due [ ] to | per) [ ]"
    r"(?P<reason> node [ ] failure | user/system [ ] request ) (?P<hosts>)",
    r"Requeuing [ ] <JOB> (?P<reason>) (?P<hosts>) \Z",
)
def _requeued(match: re.Match[str]) -> SchedulerEvent:
    row = _job_row("requeued", match, match["hosts"] or None)
    row.reason = match["reason"] or None
    row.state = "NODE_FAIL" if "node" in match["reason"] else None
    return row


# Batch JobId=812 missing from batch node dgx07 (not found BatchStartTime after startup), Requeuing job
@_shape(
    r"Batch [ ] <JOB> [ ] (?P<reason> missing [ ] from [ ] batch [ ] node [ ] (?P<hosts>\S+) ) [ ]"
    r"\( [^)]{0,128} \) (?P<again> ,[ ]Requeuing[ ]job )?"
)
def _missing(match: re.Match[str]) -> SchedulerEvent:
    row = _job_row("requeued" if match["again"] else "ended", match, match["hosts"])
    row.reason, row.state = match["reason"], "NODE_FAIL"
    return row


# preempted JobId=812 has been requeued to reclaim resources for JobId=900
# preempted JobId=812 has been killed           (also: had to be killed)
@_shape(
    r"preempted [ ] <JOB> [ ] (?:has [ ] been | had [ ] to [ ] be) [ ] (?P<how>requeued|killed)"
    r"(?P<why> [ ] to [ ] reclaim [^\n]{0,256} )?"
)
def _preempted(match: re.Match[str]) -> SchedulerEvent:
    row = _job_row("requeued" if match["how"] == "requeued" else "preempted", match)
    row.reason, row.state = f"preempted{match['why'] or ''}", "PREEMPTED"
    return row


# _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=812 uid 4021
# fit_dependency: Job dependency can't be satisfied, cancelling JobId=812
@_shape(
    r"REQUEST_KILL_JOB [ ] <JOB> [ ] uid [ ] (?P<user>[0-9]{1,10}) (?P<reason>) \Z",
    r"Job [ ] (?P<reason> dependency [ ] can't [ ] be [ ] satisfied ), [ ] cancelling [ ] <JOB> (?P<user>)",
)
def _cancelled(match: re.Match[str]) -> SchedulerEvent:
    row = _job_row("cancelled", match)
    row.user, row.reason, row.state = match["user"] or None, match["reason"] or None, "CANCELLED"
    return row


# _slurm_rpc_kill_job: job_str_signal() uid=4021 JobId=812 sig=9 returned: Invalid job id specified
# job_signal: 10 of running JobId=812 successful 0x8004
# Neither is a row: they say that a REQUEST_KILL_JOB was refused, or only delivered a signal.
@_shape(
    r"job_str_signal\(\) [ ] uid=[0-9]+ [ ] <JOB> [ ] sig=(?P<signal>[0-9]{1,9}) [ ] returned: [ ]",
    r"(?<=job_signal:[ ]) (?P<signal>[0-9]{1,9}) [ ] of [ ] \w+ [ ] <JOB> [ ] successful",
)
def _not_killed(match: re.Match[str]) -> SchedulerEvent:
    row = _job_row("", match)
    row.exit_signal = int(match["signal"])
    row.reason = "refused" if "returned" in match[0] else None
    return row


# Time limit exhausted for JobId=812
# job_time_limit: inactivity time limit reached for JobId=812
@_shape(r"(?P<reason> Time [ ] limit [ ] exhausted | inactivity [ ] time [ ] limit [ ] reached ) [ ] for [ ] <JOB>")
def _time_limit(match: re.Match[str]) -> SchedulerEvent:
    row = _job_row("time_limit", match)
    row.reason, row.state = match["reason"], "TIMEOUT"
    return row


# error: Removing failed node dgx08 from JobId=812              (--no-kill: the job goes on without it)
@_shape(r"Removing [ ] (?P<reason> failed [ ] node ) [ ] (?P<hosts>\S+) [ ] from [ ] <JOB>")
def _resized(match: re.Match[str]) -> SchedulerEvent:
    row = _job_row("resized", match, match["hosts"])
    row.reason = match["reason"]
    return row


# error: Nodes dgx[08-09] not responding, setting DOWN          (without the end it is only a warning)
# node dgx08 not resumed by ResumeTimeout(300), setting DOWN and POWERED_DOWN
# validate_node_specs: Node dgx08 unexpectedly rebooted boot_time=1738570000 last response=1738569000
@_shape(
    r"Nodes [ ] (?P<hosts>\S+) [ ] (?P<reason> not [ ] responding ), [ ] setting [ ] DOWN",
    r"node [ ] (?P<hosts>\S+) [ ] (?P<reason> not [ ] resumed [ ] by [ ] ResumeTimeout ) .{0,32}"
    r"(?: setting [ ] DOWN | marking [ ] down )",
    r"Node [ ] (?P<hosts>\S+) [ ] (?P<reason> unexpectedly [ ] rebooted ) [ ] boot_time=",
)
def _node_down(match: re.Match[str]) -> SchedulerEvent:
    row = _node_row("node_down", match["hosts"])
    row.reason, row.state = match["reason"], "DOWN"
    return row


# Node dgx08 now responding
# node_did_resp: node dgx08 returned to service                 (or without the function)
@_shape(r"[Nn]ode [ ] (?P<hosts>\S+) [ ] (?P<reason> now [ ] responding | returned [ ] to [ ] service ) \Z")
def _node_up(match: re.Match[str]) -> SchedulerEvent:
    row = _node_row("node_up", match["hosts"])
    row.reason = match["reason"]
    return row


# update_node: node dgx08 reason set to: Xid 79
@_shape(r"(?<=update_node:[ ]) node [ ] (?P<hosts>\S+) [ ] reason [ ] set [ ] to: [ ]? (?P<reason>.*)")
def _node_reason(match: re.Match[str]) -> SchedulerEvent:
    row = _node_row("node_state", match["hosts"])
    row.reason = match["reason"].strip() or None
    return row


# update_node: node dgx08 state set to DRAINED
# drain_nodes: node dgx08 state set to DRAIN
# error: Setting node dgx08 state to INVAL with reason:gres/gpu count reported lower than configured (7 < 8)
@_shape(
    r"(?<=update_node:[ ]) node [ ] (?P<hosts>\S+) [ ] state [ ] set [ ] to [ ] (?P<state>\S+) (?P<reason>)",
    r"(?<=drain_nodes:[ ]) node [ ] (?P<hosts>\S+) [ ] state [ ] set [ ] to [ ] (?P<state>\S+) (?P<reason>)",
    r"Setting [ ] node [ ] (?P<hosts>\S+) [ ] state [ ] to [ ] (?P<state>DRAIN|DOWN|INVAL)"
    r"(?: [ ] with [ ] reason: (?P<reason>.*) )?",
    r"(?P<reason> Prolog/Epilog [ ] failure | Duplicate [ ] jobid"
    r"| Prolog [ ] or [ ] job [ ] env [ ] setup [ ] failure )"
    r"[ ] on [ ] nodes? [ ] (?P<hosts>\S+), [ ]"
    r"(?: set [ ] to [ ] state [ ] (?P<state>DRAIN) | draining [ ] the [ ] node )",
)
def _node_state(match: re.Match[str]) -> SchedulerEvent:
    state = match["state"] or "DRAIN"
    row = _node_row(_NODE_KINDS.get(re.split(r"[^A-Z_]", state, maxsplit=1)[0], "node_state"), match["hosts"])
    row.state, row.reason = state, (match["reason"] or "").strip() or None
    return row


# States that a person or a script gives a node; signs that follow (DRAINED*, IDLE~) tell of power and contact. A node
# that reports less than its configuration (INVAL) is drained by the controller.
_NODE_KINDS: Final = {
    **dict.fromkeys(("DRAIN", "DRAINED", "DRAINING", "INVAL"), "node_drain"),
    "DOWN": "node_down",
    **dict.fromkeys(("IDLE", "ALLOCATED", "MIXED", "RESUME", "UNDRAIN"), "node_resume"),
}


# error: job_epilog_complete: JobId=812 epilog error on dgx08, draining the node
# error: _slurm_rpc_epilog_complete: epilog error JobId=812 Node=dgx08 Err=Job epilog failed usec=210
@_shape(
    r"<JOB> [ ] epilog [ ] error [ ] on [ ] (?P<hosts>[^\s,]+ (?:,[^\s,]+)* ) (?P<reason>)",
    r"epilog [ ] error [ ] <JOB> [ ] Node=(?P<hosts>\S+) [ ] Err=(?P<reason> [^\n]{1,256}? ) (?: [ ] usec=[0-9]+ )? \Z",
)
def _epilog_error(match: re.Match[str]) -> SchedulerEvent:
    row = _job_row("epilog_error", match, match["hosts"])
    row.host = row.host_raw = row.hosts[0] if row.hosts else None
    row.reason = match["reason"] or "Epilog error"
    return row


# error: Epilog failure on host dgx08, setting DOWN
@_shape(
    r"Epilog [ ] failure [ ] on [ ] host [ ] (?P<hosts>[^\s,]+), [ ] setting [ ] DOWN",
)
def _epilog_failure(match: re.Match[str]) -> SchedulerEvent:
    row = _node_row("epilog_error", match["hosts"])
    row.reason = "Epilog failure"
    return row


# sched: Created reservation=fix1 users=root nodes=dgx[07-08] cores=0 start=2025-02-03T12:00:00 end=2025-02-03T18:00:00
# _slurm_rpc_resv_delete complete for fix1 usec=90
@_shape(
    r"(?P<state>Created|Updated) [ ] reservation=(?P<name>\S{1,128}) (?P<rest>.*)",
    r"(?<=_slurm_rpc_resv_delete[ ]) complete [ ] for [ ] (?P<name>\S{1,128}) (?P<rest>) (?P<state>)",
)
def _reservation(match: re.Match[str]) -> SchedulerEvent:
    fields = dict(re.findall(r"(?:\A|[ ])(users|nodes)=(\S+)", match["rest"].split(" comment='", 1)[0]))
    row = _node_row("reservation", fields.get("nodes", ""))
    row.user, row.reason, row.state = fields.get("users"), match["name"], (match["state"] or "deleted").upper()
    return row
