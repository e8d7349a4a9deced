"""slurmctld: the log of Slurm's controller, in its own file or through syslog and the journal.

    [2025-02-03T08:00:05.101] sched: Allocate JobId=812 NodeList=dgx[07-08] #CPUs=16 Partition=long
    [2025-02-03T08:10:05.220] requeue job JobId=812 due to failure of node dgx08
    [2025-02-03T08:10:05.221] error: Nodes dgx08 not responding, setting DOWN

Slurm documents the place and the levels of the log at https://slurm.schedmd.com/slurm.conf.html (SlurmctldLogFile);
the wording is in src/slurmctld of https://github.com/SchedMD/slurm, read here for releases 18.08 to 26.05. Times are
local unless LogTimeFormat gives them a zone. What the log lacks: from 26.05 on it does not tell of jobs that backfill
starts, and no release tells of ``--exclude``; accounting has both.

The lines are in :mod:`aftershock.parsers.slurmctld_jobs` and :mod:`aftershock.parsers.slurmctld_hosts`; several of them
tell one thing, and :mod:`aftershock.parsers.slurmctld_joins` joins them.

With ``LogTimeFormat=clock`` a line begins with the processor time of the controller, and with ``omit`` with nothing:
such a line without the number of a job is taken only where other lines of its source show whose log it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aftershock.parsers.formats import Found, Head, Line, LineFormat, Refused, Sample, expect
from aftershock.parsers.hostlist import HostListError
from aftershock.parsers.slurmctld_joins import UNSIGNED, settle
from aftershock.parsers.slurmctld_lines import SIGNATURES, breaks_off, shape_of

# Without an envelope that names the controller these beginnings are its own, and so is any of its lines that names a
# job: no other program prints them.
_UNMISTAKABLE: Final = (
    b"_slurm_rpc_",
    b"_job_complete: ",
    b"sched: Allocate JobId=",
    b"sched: Allocate SLUID=",
    b"sched: _slurm_rpc_",
    b"sched/backfill: _start_job: ",
    b"update_node: node ",
    b"drain_nodes: node ",
    b"slurmctld version ",
)
_NAMES_JOB: Final = re.compile(rb"\b(?:JobI[dD]|SLUID)=\w")
# LogTimeFormat=clock: microseconds of processor time.
_PROCESSOR_TIME: Final = re.compile(rb"\[[0-9]{1,19}\] ")

# How many of the first lines have to be the controller's before a file is called its log.
_ENOUGH: Final = 2


def detects(head: Head) -> float:
    """How much of the head is the controller's: its name in the file's name, its own lines."""
    marks = [mark for mark in _UNMISTAKABLE if mark in head.data]
    own = sum(any(mark in line for mark in marks) for line in head.lines(200)) if marks else 0
    if "slurmctld" in head.name:
        return 0.9
    return 0.8 if own >= _ENOUGH else 0.4 * own


def read(line: Line) -> Iterator[Found | Refused]:
    """The row of a line; a refusal where its host list cannot be read."""
    envelope = line.envelope
    # In the foreground, as in a container, the controller puts its name before each line.
    text = envelope.message.removeprefix(b"slurmctld: ")
    known = envelope.tag == "slurmctld" or text is not envelope.message
    if not known and "slurm" not in envelope.names:
        if envelope.names != ("plain",):
            return
        stamp = _PROCESSOR_TIME.match(text)
        text = text[stamp.end() :] if stamp else text
    message = text.decode("utf-8", "backslashreplace").strip()
    found = shape_of(message)
    signed = known or "slurm" in envelope.names or text.startswith(_UNMISTAKABLE)
    if found is None:
        if signed and breaks_off(message):
            reason = "slurmctld: the line breaks off, or says it in a way that is not known"
            yield Refused(line.offset, len(line.text), reason, line.text[:512])
        return
    shape, match = found
    signed = signed or _NAMES_JOB.search(text) is not None
    try:
        row = shape.make(match)
    except HostListError as error:
        if signed:
            yield Refused(line.offset, len(line.text), f"slurmctld: {error}", line.text[:512])
        return
    row.message = message
    # Who stops on a signal, any daemon of Slurm's may say.
    sure = signed and (known or shape.mark != "controller_stop")
    yield Found(row, envelope.reading, line.offset, mark=shape.mark if sure else UNSIGNED + shape.mark)


def _log(*lines: str) -> str:
    return "".join(f"[2025-02-03T{line}\n" for line in lines)


_SAMPLES: Final = (
    Sample(
        _log(
            "07:59:00.001] slurmctld version 23.11.4 started on cluster alpha",
            "08:00:00.010] _slurm_rpc_submit_batch_job: JobId=812 InitPrio=4294901700 usec=310",
            "08:00:05.101] sched: Allocate JobId=812 NodeList=dgx[07-08] #CPUs=16 Partition=long",
            "08:09:10.000] error: Nodes dgx08 not responding",
            "08:10:05.220] requeue job JobId=812 due to failure of node dgx08",
            "08:10:05.221] error: Nodes dgx08 not responding, setting DOWN",
            "08:10:35.400] Requeuing JobId=812",
            "08:12:31.900] sched/backfill: _start_job: Started JobId=812 in long on dgx[07,09]",
            "09:12:31.950] _job_complete: JobId=812 WEXITSTATUS 139",
            "09:12:31.951] _job_complete: JobId=812 done",
        ),
        (
            expect("scheduler_events", kind="controller_start", cluster="alpha", reason="version 23.11.4"),
            expect("scheduler_events", kind="submitted", cluster="alpha", job_id="812", raw_job_id="812"),
            expect("scheduler_events", kind="started", job_id="812", hosts=["dgx07", "dgx08"]),
            expect("scheduler_events", kind="requeued", job_id="812", hosts=["dgx08"], reason="failure of node dgx08"),
            expect("scheduler_events", kind="node_down", host="dgx08", hosts=["dgx08"], state="DOWN", job_id=None),
            expect("scheduler_events", kind="started", job_id="812", hosts=["dgx07", "dgx09"]),
            expect("scheduler_events", kind="ended", exit_code=139, exit_signal=None, state="FAILED"),
        ),
    ),
    Sample(
        _log(
            "10:00:00.100] update_node: node dgx08 reason set to: fell off the bus",
            "10:00:00.100] update_node: node dgx08 state set to DRAINED",
            "10:30:00.500] update_node: node dgx08 state set to IDLE",
            "10:30:01.000] Node dgx08 now responding",
            "11:00:00.000] sched: Created reservation=fix7 users=root nodes=dgx[07-08] cores=0 licenses=(null) "
            "start=2025-02-03T12:00:00 end=2025-02-03T18:00:00 MaxStartDelay=",
            "11:00:30.000] error: job_epilog_complete: JobId=55_3(61) epilog error on dgx09, draining the node",
            "11:00:30.001] drain_nodes: node dgx09 state set to DRAIN",
        ),
        (
            expect("scheduler_events", kind="node_drain", host="dgx08", reason="fell off the bus", state="DRAINED"),
            expect("scheduler_events", kind="node_resume", host="dgx08", state="IDLE"),
            expect("scheduler_events", kind="node_up", host="dgx08"),
            expect("scheduler_events", kind="reservation", hosts=["dgx07", "dgx08"], user="root", reason="fix7"),
            expect("scheduler_events", kind="epilog_error", job_id="55", array_task="3", raw_job_id="61", host="dgx09"),
            expect("scheduler_events", kind="node_drain", host="dgx09", reason="Epilog error"),
        ),
    ),
    Sample(
        _log(
            "12:00:00.000] _job_complete: JobId=70 OOM failure",
            "12:00:00.001] _job_complete: JobId=70 done",
            "12:10:00.000] Time limit exhausted for JobId=71",
            "12:20:00.000] _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=72_[3-9] uid 4021",
            "12:30:00.000] _job_complete: JobId=73+1(74) WTERMSIG 126",
            "12:30:00.000] _job_complete: JobId=73+1(74) cancelled by interactive user",
            "12:30:00.001] _job_complete: JobId=73+1(74) done",
        ),
        (
            expect("scheduler_events", kind="ended", job_id="70", state="OUT_OF_MEMORY"),
            expect("scheduler_events", kind="time_limit", job_id="71", state="TIMEOUT"),
            expect("scheduler_events", kind="cancelled", job_id="72", array_task="[3-9]", user="4021"),
            expect(
                "scheduler_events", kind="ended", job_id="73+1", raw_job_id="74", state="CANCELLED", exit_signal=None
            ),
        ),
    ),
)

FORMAT: Final = LineFormat(
    name="slurmctld",
    doc="Slurm's controller log: what happened to jobs and hosts. Lines that tell one thing together are one row.",
    url="https://slurm.schedmd.com/slurm.conf.html#OPT_SlurmctldLogFile",
    tables=("scheduler_events",),
    detects=detects,
    signatures=SIGNATURES,
    read=read,
    settle=settle,
    samples=_SAMPLES,
    non_samples=(
        "[2025-02-03T08:00:00.000] error: Nodes dgx08 not responding\n",
        "[2025-02-03T08:00:00.000] _slurm_rpc_requeue: Requeue of JobId=812 returned an error: Job is pending\n",
        "[2025-02-03T08:00:00.000] _pick_best_nodes: JobId=812 never runnable in partition long\n",
        "[2025-02-03T08:00:00.000] error: Batch completion for JobId=812 sent from wrong node "
        "(dgx07 rather than dgx08). Was the job requeued due to node failure?\n",
        "[2025-02-03T08:00:00.000] Invalid node state transition requested for node dgx08 from=IDLE to=RESUME\n",
        "[2025-02-03T08:00:00.000] error: preempted JobId=812 could not be requeued: Job is pending execution\n",
        "[2025-02-03T08:00:00.000] _update_node_weight: nodes dgx08 weight set to: 10\n",
        "[2025-02-03T08:00:00.000] error: Unable to requeue JobId=812: Requested operation is disabled\n",
        "step 10: the dead node dgx08 now responding\n",
    ),
)
