"""The lines of slurmctld about jobs, each with the row that it gives.

A line of Slurm's source stands above each pattern, as it is printed (src/slurmctld/job_mgr.c, job_scheduler.c,
proc_req.c, agent.c, gang.c, preempt.c, acct_policy.c, slurmscriptd.c and src/plugins/sched, releases 20.02 to 26.05).
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.slurm_words import LAST_SIGNAL
from aftershock.parsers.slurmctld_shapes import SCHEDULER, Shapes, job_row
from aftershock.schemas.events import SchedulerEvent

# One of these stands in every line that is read.
SIGNATURES: Final = (
    rb" InitPrio=",
    rb"from crontab entry ",
    rb"_slurm_rpc_allocate_resources ",
    rb"Allocate (?:JobI[dD]|SLUID)=",
    rb"Started (?:JobI[dD]|SLUID)=",
    rb"job_complete: ",
    rb"[Rr]equeue (?:job |het job |JobI|SLUID)",
    rb"Requeuing (?:JobI[dD]|SLUID)=",
    rb"missing from batch node ",
    rb"preempted (?:JobI[dD]|SLUID)=",
    rb"REQUEST_KILL_JOB (?:JobI[dD]=|SLUID=|job [0-9])",
    rb"job_str_signal\(\) ",
    rb"job_signal: [0-9]",
    rb"dependency can't be satisfied, cancelling",
    rb" exceeded deadline ",
    rb"ime limit (?:exhausted|reached) for ",
    rb" timed out, (?:the job|assoc)",
    rb"Reservation ended for ",
    rb"Killing (?:JobI[dD]=|SLUID=|job_id [0-9])",
    rb"Killing (?:interactive|non-startable batch) ",
    rb"lurmd error running ",
    rb"rolog launch failure",
    rb"abort launch of ",
    rb"removed pending request for ",
    rb"due to nodes not responding",
    rb"slurm_cred_create failure for ",
    rb" lost, state set to FAILED",
    rb"Aborting (?:JobI[dD]|SLUID)=",
    rb"log(?:_slurmctld)? exit status [0-9]",
    rb"hold on (?:JobI[dD]|SLUID)=",
    rb"setting exc_nodes to ",
    rb"_slurm_rpc_suspend\(",
    rb"Resending TERMINATE_JOB ",
    rb"Removing failed node ",
)

SHAPES: Final = Shapes()


# _slurm_rpc_submit_batch_job: JobId=812 InitPrio=4294901 usec=310
@SHAPES.shape(r"<JOB> [ ] InitPrio=[0-9]")
def _submitted(match: re.Match[str]) -> SchedulerEvent:
    return job_row("submitted", match)


# sched: _slurm_rpc_allocate_resources JobId=813 NodeList=dgx07 usec=1204       (salloc, srun; no hosts: it waits)
@SHAPES.shape(r"(?<=_slurm_rpc_allocate_resources[ ]) <JOB> [ ] NodeList=(?P<hosts>\S+) [ ]")
def _allocated(match: re.Match[str]) -> SchedulerEvent:
    row = job_row("started", match, match["hosts"])
    row.kind = "started" if row.hosts else "submitted"
    return row


# sched: Allocate JobId=812 NodeList=dgx[07-08] #CPUs=16 Partition=long
# sched/backfill: _start_job: Started JobId=812 in long on dgx[07-08]           (20.02: backfill: Started ...)
@SHAPES.shape(
    r"Allocate [ ] <JOB> [ ] (?:Partition=\S+ [ ])? NodeList=(?P<hosts>\S+) [ ] \#CPUs=",
    r"Started [ ] <JOB> [ ] in [ ] \S+ [ ] on [ ] (?P<hosts>\S+) \Z",
)
def _started(match: re.Match[str]) -> SchedulerEvent:
    return job_row("started", match, match["hosts"])


# _job_complete: JobId=812 WEXITSTATUS 1        (before 19.05: JobID=812 State=0x1 NodeCnt=2 WEXITSTATUS 1)
@SHAPES.shape(r"(?<=job_complete:[ ]) <JOB> [ ] WEXITSTATUS [ ] (?P<status>[0-9]{1,9}) \Z")
def _exited(match: re.Match[str]) -> SchedulerEvent:
    row = job_row("ended", match)
    row.exit_code = int(match["status"])
    row.state = "FAILED" if row.exit_code else "COMPLETED"
    return row


# _job_complete: JobId=812 WTERMSIG 9
@SHAPES.shape(r"(?<=job_complete:[ ]) <JOB> [ ] WTERMSIG [ ] (?P<signal>[0-9]{1,9}) \Z")
def _signalled(match: re.Match[str]) -> SchedulerEvent:
    row = job_row("ended", match)
    signal = int(match["signal"])
    # 126 is what Slurm prints where there is no exit status: the next line says why.
    row.exit_signal = signal if signal <= LAST_SIGNAL else None
    row.state = "FAILED" if signal <= LAST_SIGNAL else None
    return row


# _job_complete: JobId=812 OOM failure
# _job_complete: JobId=812 cancelled by interactive user
# _job_complete: JobId=812 cancelled by node failure
@SHAPES.shape(
    r"(?<=job_complete:[ ]) <JOB> [ ]"
    r"(?P<reason> OOM [ ] failure | cancelled [ ] by [ ] (?: interactive [ ] user | node [ ] failure ) ) \Z"
)
def _cut_off(match: re.Match[str]) -> SchedulerEvent:
    row = job_row("ended", match)
    row.reason = match["reason"]
    row.state = {"OOM": "OUT_OF_MEMORY", "interactive user": "CANCELLED"}.get(
        "OOM" if row.reason.startswith("OOM") else row.reason.removeprefix("cancelled by "), "NODE_FAIL"
    )
    return row


# _job_complete: JobId=812 done                 (closes whichever of the lines above came first)
@SHAPES.shape(r"(?<=job_complete:[ ]) <JOB> [ ] done \Z")
def _done(match: re.Match[str]) -> SchedulerEvent:
    return job_row("ended", match)


# Killing JobId=812 on failed node dgx08        (at a start of the controller: on DOWN node)
# Killing JobId=812 on defunct partition long
@SHAPES.shape(
    r"Killing [ ] (?:job_id [ ])? <JOB> [ ] on [ ] (?P<reason> (?:failed|DOWN) [ ] node ) [ ] (?P<hosts>\S+)",
    r"Killing [ ] <JOB> [ ] on [ ] (?P<reason> defunct [ ] partition [ ] \S+ ) (?P<hosts>)",
)
def _killed(match: re.Match[str]) -> SchedulerEvent:
    row = job_row("ended", match, match["hosts"] or None)
    row.reason = f"{match['reason']} {match['hosts']}".strip()
    row.state = "NODE_FAIL"
    return row


# requeue job JobId=812 due to failure of node dgx08      (before 19.05: requeue job 812 due to ...)
# Requeue job JobId=812 due to node failure     (at a start of the controller; also: Requeue het job leader)
# _job_complete: requeue JobId=812 due to node failure
# _job_complete: requeue JobId=812 per user/system request
# Requeuing JobId=812
@SHAPES.shape(
    r"requeue [ ] (?:job [ ])? <JOB> [ ] due [ ] to [ ] (?P<reason> failure [ ] of [ ] node [ ] (?P<hosts>\S+) )",
    r"[Rr]equeue [ ] (?:job [ ] | het [ ] job [ ] leader [ ])? <JOB> [ ] (?:due [ ] to | per) [ ]"
    r"(?P<reason> node [ ] failure | user/system [ ] request ) (?P<hosts>)",
    r"Requeuing [ ] <JOB> (?P<reason>) (?P<hosts>) \Z",
)
def _requeued(match: re.Match[str]) -> SchedulerEvent:
    row = job_row("requeued", match, match["hosts"] or None)
    row.reason = match["reason"] or None
    row.state = "NODE_FAIL" if "node" in match["reason"] else None
    return row


# Batch JobId=812 missing from batch node dgx07 (not found BatchStartTime after startup), Requeuing job
@SHAPES.shape(
    r"Batch [ ] <JOB> [ ] (?P<reason> missing [ ] from [ ] batch [ ] node [ ] (?P<hosts>\S+) ) [ ]"
    r"\( [^)]{0,128} \) (?P<again> ,[ ]Requeuing[ ]job )?"
)
def _missing(match: re.Match[str]) -> SchedulerEvent:
    row = job_row("requeued" if match["again"] else "ended", match, match["hosts"])
    row.reason, row.state = match["reason"], "NODE_FAIL"
    return row


# preempted JobId=812 has been requeued to reclaim resources for JobId=900
# preempted JobId=812 has been killed           (also: had to be killed)
@SHAPES.shape(
    r"preempted [ ] <JOB> [ ] (?:has [ ] been | had [ ] to [ ] be) [ ] (?P<how>requeued|killed)"
    r"(?P<why> [ ] to [ ] reclaim [^\n]{0,256} )?"
)
def _preempted(match: re.Match[str]) -> SchedulerEvent:
    row = job_row("requeued" if match["how"] == "requeued" else "preempted", match)
    row.reason, row.state = f"preempted{match['why'] or ''}", "PREEMPTED"
    return row


# _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=812 uid 4021
# fit_dependency: Job dependency can't be satisfied, cancelling JobId=812
@SHAPES.shape(
    r"REQUEST_KILL_JOB [ ] (?:job [ ])? <JOB> [ ] uid [ ] (?P<user>[0-9]{1,10}) (?P<reason>) \Z",
    r"Job [ ] (?P<reason> dependency [ ] can't [ ] be [ ] satisfied ), [ ] cancelling [ ] <JOB> (?P<user>)",
)
def _cancelled(match: re.Match[str]) -> SchedulerEvent:
    row = job_row("cancelled", match)
    row.user, row.reason, row.state = match["user"] or None, match["reason"] or None, "CANCELLED"
    return row


# _slurm_rpc_kill_job: job_str_signal() uid=4021 JobId=812 sig=9 returned: Invalid job id specified
# job_signal: 10 of running JobId=812 successful 0x8004
# Neither is a row: they say that a REQUEST_KILL_JOB was refused, or only delivered a signal.
@SHAPES.shape(
    r"job_str_signal\(\) [ ] (?:uid=[0-9]+ [ ])? <JOB> [ ] sig[= ](?P<signal>[0-9]{1,9}) [ ] returned:? [ ]",
    r"(?<=job_signal:[ ]) (?P<signal>[0-9]{1,9}) [ ] of [ ] \w+ [ ] <JOB> [ ] successful",
)
def _not_killed(match: re.Match[str]) -> SchedulerEvent:
    row = job_row("", match)
    row.exit_signal = int(match["signal"])
    row.reason = "refused" if "returned" in match[0] else None
    return row


# Time limit exhausted for JobId=812
# job_time_limit: inactivity time limit reached for JobId=812
# Reservation ended for JobId=812
# JobId=812 timed out, the job is at or exceeds QOS long's group wall limit of 600 with 601
@SHAPES.shape(
    r"(?P<reason> Time [ ] limit [ ] exhausted | inactivity [ ] time [ ] limit [ ] reached | Reservation [ ] ended )"
    r"[ ] for [ ] <JOB>",
    r"<JOB> [ ] timed [ ] out, [ ] (?: the [ ] job [ ] )? (?P<reason> (?:is [ ] at|assoc [ ]) .{1,256} )",
)
def _time_limit(match: re.Match[str]) -> SchedulerEvent:
    row = job_row("time_limit", match)
    row.reason, row.state = match["reason"].strip(), "TIMEOUT"
    return row


# error: Removing failed node dgx08 from JobId=812              (--no-kill: the job goes on without it)
@SHAPES.shape(r"Removing [ ] (?P<reason> failed [ ] node ) [ ] (?P<hosts>\S+) [ ] from [ ] <JOB>")
def _resized(match: re.Match[str]) -> SchedulerEvent:
    row = job_row("resized", match, match["hosts"])
    row.reason = match["reason"]
    return row


# Added JobId=812 from crontab entry from uid=4021, next start is 1738570000
@SHAPES.shape(
    r"Added [ ] (?:JobId=(?=JobI))? <JOB> [ ] from [ ] crontab [ ] entry [ ] from [ ] uid=(?P<user>[0-9]{1,10})"
)
def _crontab(match: re.Match[str]) -> SchedulerEvent:
    row = job_row("submitted", match)
    row.user, row.reason = match["user"], "crontab entry"
    return row


# _delete_job_deadline: JobId=812 with time_limit 60 exceeded deadline 2025-02-03T09:00:00 and cancelled
@SHAPES.shape(r"<JOB> [ ] with [ ] time_\w{3,5} [ ] [0-9]+ [ ] (?P<reason> exceeded [ ] deadline [ ] \S+ )")
def _past_deadline(match: re.Match[str]) -> SchedulerEvent:
    row = job_row("cancelled", match)
    row.reason, row.state = match["reason"], "DEADLINE"
    return row


# Killing non-startable batch JobId=812: Header lengths are longer than data received
# error: slurmd error running JobId=812 on Node(s)=dgx07: Job prolog failed          (the host is drained for it)
# error: Slurmd error running JobId=812 on Node(s)=dgx07: User not found on host     (it is not)
# error: Prolog launch failure, JobId=812
# error: agent waited too long for nodes to respond, abort launch of JobId=812
# error: agent(batch_launch) removed pending request for JobId=812, missing node dgx07
# error: _job_queue_rec: Revoking job JobId=812 due to nodes not responding
# error: launch_job: slurm_cred_create failure for JobId=812, holding job
@SHAPES.shape(
    r"Killing [ ] (?:interactive|non-startable [ ] batch) [ ] <JOB> : [ ] (?P<reason>.{1,256}) (?P<hosts>)",
    r"[Ss]lurmd [ ] error [ ] running [ ] <JOB> [ ] on [ ] (?:Node\(s\)|\w{1,16})=(?P<hosts>[^\s:]+) : [ ]"
    r"(?P<reason>.{1,256})",
    r"(?P<reason> Prolog [ ] launch [ ] failure ), [ ] <JOB> (?P<hosts>)",
    r"agent [ ] (?P<reason> waited [ ] too [ ] long [ ] for [ ] nodes [ ] to [ ] respond ), [ ]"
    r"abort [ ] launch [ ] of [ ] <JOB> (?P<hosts>)",
    r"agent\(batch_launch\) [ ] removed [ ] pending [ ] request [ ] for [ ] <JOB>, [ ]"
    r"(?P<reason> missing [ ] node [ ] (?P<hosts>\S+) )",
    r"Revoking [ ] job [ ] <JOB> [ ] due [ ] to [ ] (?P<reason> nodes [ ] not [ ] responding ) (?P<hosts>)",
    r"(?P<reason> slurm_cred_create [ ] failure ) [ ] for [ ] <JOB> (?P<hosts>)",
)
def _launch_failed(match: re.Match[str]) -> SchedulerEvent:
    row = job_row("launch_failed", match, match["hosts"] or None)
    row.host_raw = row.hosts[0] if row.hosts and len(row.hosts) == 1 else None
    row.reason = match["reason"].strip()
    return row


# error: Script for JobId=812 lost, state set to FAILED
# error: Aborting JobId=812 due to change in socket/core configuration of allocated nodes
@SHAPES.shape(
    r"(?P<reason> Script ) [ ] for [ ] <JOB> [ ] lost, [ ] state [ ] set [ ] to [ ] FAILED",
    r"Aborting [ ] <JOB> [ ] due [ ] to [ ] (?P<reason>.{1,128})",
)
def _lost(match: re.Match[str]) -> SchedulerEvent:
    row = job_row("ended", match)
    row.reason = "script lost" if match["reason"] == "Script" else match["reason"].strip()
    row.state = "FAILED"
    return row


# error: prolog_slurmctld JobId=812 prolog exit status 1:0
# error: _run_script: JobId=812 epilog_slurmctld exit status 0:9
@SHAPES.shape(
    r"<JOB> [ ] (?P<script>prolog|epilog)(?:_slurmctld)? [ ] exit [ ] status [ ]"
    r"(?P<status>[0-9]{1,3}) : (?P<signal>[0-9]{1,3})"
)
def _script_failed(match: re.Match[str]) -> SchedulerEvent:
    row = job_row(f"{match['script']}_error", match)
    row.reason = f"{match['script'].capitalize()}Slurmctld"
    row.exit_code, row.exit_signal = int(match["status"]), int(match["signal"]) or None
    return row


# sched: _update_job: hold on JobId=812 by uid 0
# sched: _update_job: release hold on JobId=812 by uid 0
@SHAPES.shape(r"(?P<release> release [ ] )? hold [ ] on [ ] <JOB> [ ] by [ ] uid [ ] (?P<user>[0-9]{1,10})")
def _held(match: re.Match[str]) -> SchedulerEvent:
    row = job_row("released" if match["release"] else "held", match)
    row.user = match["user"]
    return row


# sched: _update_job: setting exc_nodes to dgx[07-08] for JobId=812        (scontrol update ExcNodeList=)
@SHAPES.shape(r"setting [ ] exc_nodes [ ] to [ ] (?P<hosts>\S*) [ ] for [ ] <JOB>")
def _exclude_list(match: re.Match[str]) -> SchedulerEvent:
    return job_row("exclude_list", match, match["hosts"])


# _slurm_rpc_suspend(suspend) for 812 usec=310
@SHAPES.shape(
    r"_slurm_rpc_suspend\((?P<what>suspend|resume)\) [ ] for [ ]"
    r"(?P<job>[0-9]{1,20}) (?: _ (?P<task>[0-9]{1,10}) )? [ ] usec="
)
def _suspended(match: re.Match[str]) -> SchedulerEvent:
    return SchedulerEvent(
        scheduler=SCHEDULER,
        kind="suspended" if match["what"] == "suspend" else "resumed",
        job_id=match["job"],
        array_task=match["task"],
        raw_job_id=None if match["task"] else match["job"],
    )


# Resending TERMINATE_JOB request JobId=812 Nodelist=dgx07         (its processes do not die)
@SHAPES.shape(r"(?P<reason> Resending [ ] TERMINATE_JOB [ ] request ) [ ] <JOB> [ ] Nodelist=(?P<hosts>\S+)")
def _kill_resent(match: re.Match[str]) -> SchedulerEvent:
    row = job_row("kill_resent", match, match["hosts"])
    row.reason = match["reason"]
    return row
