"""The lines of slurmctld about hosts, reservations and the controller itself, each with the row that it gives.

A line of Slurm's source stands above each pattern, as it is printed (src/slurmctld/node_mgr.c, ping_nodes.c, agent.c,
power_save.c, reservation.c, proc_req.c, controller.c, releases 20.02 to 26.05).
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.slurmctld_shapes import SCHEDULER, Shapes, job_row, node_row
from aftershock.schemas.events import SchedulerEvent

# One of these stands in every line that is read.
SIGNATURES: Final = (
    rb"slurmctld version ",
    rb"Terminate signal ",
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
    rb"reboot request queued for nodes ",
    rb"owering (?:up|down) node ",
    rb"(?:Created|Updated) reservation=",
    rb"_slurm_rpc_(?:resv_delete|delete_reservation) complete for ",
    rb"Purging vestigial reservation ",
    rb" has no more jobs for ",
)

SHAPES: Final = Shapes()


# slurmctld version 23.11.4 started on cluster alpha        (26.05: alpha(2051))
@SHAPES.shape(
    r"slurmctld [ ] version [ ] (?P<version>\S{1,64}) [ ] started [ ] on [ ] cluster [ ] (?P<cluster>[^\s(]{1,128})"
)
def _controller_start(match: re.Match[str]) -> SchedulerEvent:
    return SchedulerEvent(
        scheduler=SCHEDULER, kind="controller_start", cluster=match["cluster"], reason=f"version {match['version']}"
    )


# error: Nodes dgx[08-09] not responding, setting DOWN          (without the end it is only a warning)
# node dgx08 not resumed by ResumeTimeout(300), setting DOWN and POWERED_DOWN
# validate_node_specs: Node dgx08 unexpectedly rebooted boot_time=1738570000 last response=1738569000
@SHAPES.shape(
    r"Nodes [ ] (?P<hosts>\S+) [ ] (?P<reason> not [ ] responding ), [ ] setting [ ] DOWN",
    r"node [ ] (?P<hosts>\S+) [ ] (?P<reason> not [ ] resumed [ ] by [ ] ResumeTimeout ) .{0,32}"
    r"(?: setting [ ] DOWN | marking [ ] down )",
    r"Node [ ] (?P<hosts>\S+) [ ] (?P<reason> unexpectedly [ ] rebooted ) [ ] boot_time=",
)
def _node_down(match: re.Match[str]) -> SchedulerEvent:
    row = node_row("node_down", match["hosts"])
    row.reason, row.state = match["reason"], "DOWN"
    return row


# Node dgx08 now responding
# node_did_resp: node dgx08 returned to service                 (or without the function)
@SHAPES.shape(r"[Nn]ode [ ] (?P<hosts>\S+) [ ] (?P<reason> now [ ] responding | returned [ ] to [ ] service ) \Z")
def _node_up(match: re.Match[str]) -> SchedulerEvent:
    row = node_row("node_up", match["hosts"])
    row.reason = match["reason"]
    return row


# update_node: node dgx08 reason set to: Xid 79
@SHAPES.shape(r"(?<=update_node:[ ]) node [ ] (?P<hosts>\S+) [ ] reason [ ] set [ ] to: [ ]? (?P<reason>.*)")
def _node_reason(match: re.Match[str]) -> SchedulerEvent:
    row = node_row("node_state", match["hosts"])
    row.reason = match["reason"].strip() or None
    return row


# update_node: node dgx08 state set to DRAINED
# drain_nodes: node dgx08 state set to DRAIN
# error: Setting node dgx08 state to INVAL with reason:gres/gpu count reported lower than configured (7 < 8)
@SHAPES.shape(
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
    row = node_row(_NODE_KINDS.get(re.split(r"[^A-Z_]", state, maxsplit=1)[0], "node_state"), match["hosts"])
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
@SHAPES.shape(
    r"<JOB> [ ] epilog [ ] error [ ] on [ ] (?P<hosts>[^\s,]+ (?:,[^\s,]+)* ) (?P<reason>)",
    r"epilog [ ] error [ ] <JOB> [ ] Node=(?P<hosts>\S+) [ ] Err=(?P<reason> [^\n]{1,256}? ) (?: [ ] usec=[0-9]+ )? \Z",
)
def _epilog_error(match: re.Match[str]) -> SchedulerEvent:
    row = job_row("epilog_error", match, match["hosts"])
    row.host = row.host_raw = row.hosts[0] if row.hosts else None
    row.reason = match["reason"] or "Epilog error"
    return row


# error: Epilog failure on host dgx08, setting DOWN
@SHAPES.shape(
    r"Epilog [ ] failure [ ] on [ ] host [ ] (?P<hosts>[^\s,]+), [ ] setting [ ] DOWN",
)
def _epilog_failure(match: re.Match[str]) -> SchedulerEvent:
    row = node_row("epilog_error", match["hosts"])
    row.reason = "Epilog failure"
    return row


# sched: Created reservation=fix1 users=root nodes=dgx[07-08] cores=0 start=2025-02-03T12:00:00 end=2025-02-03T18:00:00
# sched: Updated reservation=fix1 start=2025-02-03T12:00:00 end=2025-02-03T18:00:00 nodes=dgx07 users=root     (25.11)
# _slurm_rpc_resv_delete complete for fix1 usec=90                      (until 22.05: _slurm_rpc_delete_reservation)
# Reservation fix1 has no more jobs for 00:05:00, ending it
@SHAPES.shape(
    r"(?P<state>Created|Updated) [ ] reservation=(?P<name>\S{1,128}) (?P<rest>.*)",
    r"(?:(?<=_slurm_rpc_resv_delete[ ])|(?<=_slurm_rpc_delete_reservation[ ]))"
    r"complete [ ] for [ ] (?P<name>\S{1,128}) (?P<rest>) (?P<state>)",
    r"Reservation [ ] (?P<name>\S{1,128}) [ ] has [ ] no [ ] (?:more [ ] jobs | nodes [ ] left) .{0,64} , [ ]"
    r"(?:ending|deleting) [ ] it (?P<rest>) (?P<state>)",
    r"Purging [ ] vestigial [ ] reservation [ ] (?P<name>\S{1,128}) (?P<rest>) (?P<state>)",
)
def _reservation(match: re.Match[str]) -> SchedulerEvent:
    said = re.split(r"[ ][Cc]omment=", match["rest"], maxsplit=1)[0]
    fields = dict(re.findall(r"(?:\A|[ ])(users|nodes)=(\S+)", said))
    row = node_row("reservation", fields.get("nodes", ""))
    row.user, row.reason, row.state = fields.get("users"), match["name"], (match["state"] or "deleted").upper()
    return row


# Terminate signal SIGTERM received                     (until 24.05: (SIGINT or SIGTERM))
@SHAPES.shape(r"Terminate [ ] signal [ ] (?P<reason> SIG\w{2,5} | \(SIGINT[ ]or[ ]SIGTERM\) ) [ ] received")
def _controller_stop(match: re.Match[str]) -> SchedulerEvent:
    return SchedulerEvent(scheduler=SCHEDULER, kind="controller_stop", reason=match["reason"].strip("()"))


# reboot request queued for nodes dgx[07-08]            (scontrol reboot)
@SHAPES.shape(r"(?P<reason> reboot [ ] request ) [ ] queued [ ] for [ ] nodes [ ] (?P<hosts>\S+)")
def _node_reboot(match: re.Match[str]) -> SchedulerEvent:
    row = node_row("node_reboot", match["hosts"])
    row.reason = match["reason"]
    return row


# powering down node dgx07
# powering up node dgx07
@SHAPES.shape(r"powering [ ] (?P<way>up|down) [ ] node [ ] (?P<hosts>\S+)")
def _node_power(match: re.Match[str]) -> SchedulerEvent:
    row = node_row("node_state", match["hosts"])
    row.state = f"POWERING_{match['way'].upper()}"
    return row
