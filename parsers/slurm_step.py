"""slurm_step: what Slurm writes into the output of a job, between the lines of the job.

    slurmstepd: error: *** JOB 812 ON dgx07 CANCELLED AT 2025-02-03T08:10:05 DUE TO TIME LIMIT ***
    srun: error: dgx[07-08]: tasks 8-15: Exited with exit code 137
    0: slurmstepd: error: Detected 1 oom_kill event in StepId=812.0. Some of the step tasks have been OOM Killed.

Written by slurmstepd to the standard error of the batch script and of each step, by srun, salloc and sbatch to that of
whoever calls them; the wording is in src/slurmd/slurmstepd, src/srun, src/api and src/salloc of
https://github.com/SchedMD/slurm, releases 20.02 to 26.05. Such a line may stand behind a label of ``srun --label``, on
the same line as a progress bar, or behind another one. Only cancels print a time: local, without a zone.

A task that exits is no end of its job (its kind is ``task_ended``): srun may start it again. Which job it is about is
taken from the other lines of the same file, if all of them name one job.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from aftershock.parsers.envelopes.layer import clocks_together
from aftershock.parsers.formats import Envelope, Found, Head, Line, LineFormat, Refused, Sample, expect
from aftershock.parsers.hostlist import HostListError, expand_hosts
from aftershock.parsers.patterns import later
from aftershock.parsers.slurm_step_words import SCHEDULER, STARS_BEGIN, STEP, Told, job_event, join_steps, told
from aftershock.schemas.events import NodeEvent, SchedulerEvent

# Who speaks. A quote or a letter before the name: somebody else's words, or another name.
_SPEAKER: Final = re.compile(
    r"""
    (?<![A-Za-z_/"'`\\-])
    (?: (?P<daemon>slurmstepd) (?:-(?P<node>[\w.-]{1,64}))? | slurmd\[[\w.-]{1,64}\] | (?P<tool>srun|salloc|sbatch) )
    : [ ] (?: (?:error|fatal|warning) : [ ] )?
    """,
    re.VERBOSE | re.ASCII,
)
_SUBMITTED: Final = re.compile(
    r"(?:\s{0,8}[0-9]{1,6}:[ ])?Submitted batch job (?P<job>[0-9]{1,20})(?: on cluster \S+)?\s*\Z"
)

# Names of signals as the C library prints them.
_SIGNALS: Final = {
    "Hangup": 1,
    "Interrupt": 2,
    "Quit": 3,
    "Illegal instruction": 4,
    "Trace/breakpoint trap": 5,
    "Aborted": 6,
    "Bus error": 7,
    "Floating point exception": 8,
    "Killed": 9,
    "User defined signal 1": 10,
    "Segmentation fault": 11,
    "User defined signal 2": 12,
    "Broken pipe": 13,
    "Alarm clock": 14,
    "Terminated": 15,
    "Stack fault": 16,
    "CPU time limit exceeded": 24,
    "File size limit exceeded": 25,
    "Bad system call": 31,
}
_FROM_OUTSIDE: Final = (None, 1, 2, 9, 15)

_Make = Callable[[re.Match[str]], SchedulerEvent]
_SHAPES: Final[list[tuple[re.Pattern[str], _Make]]] = []


def _shape(*patterns: str) -> Callable[[_Make], _Make]:
    def tie(make: _Make) -> _Make:
        for pattern in patterns:
            _SHAPES.append((later(pattern.replace("<STEP>", STEP), re.VERBOSE | re.ASCII), make))
        return make

    return tie


def _bare(kind: str, reason: str | None = None) -> SchedulerEvent:
    return SchedulerEvent(scheduler=SCHEDULER, kind=kind, reason=reason)


def _set_hosts(row: SchedulerEvent, printed: str) -> None:
    row.hosts = expand_hosts(printed)
    row.host_raw = row.hosts[0] if len(row.hosts) == 1 else None


# srun: error: dgx[07-08]: tasks 8-15: Exited with exit code 137
# srun: error: dgx07: task 3: Segmentation fault (core dumped)
# srun: error: dgx07: task 3: Out Of Memory
@_shape(
    r"""(?P<hosts>[\w\[\],.-]{1,4096}) : [ ] (?P<tasks>tasks?[ ][0-9\[\],-]{1,4096}) : [ ]
    (?P<how> Exited [ ] with [ ] exit [ ] code [ ] (?P<code>[0-9]{1,5}) | Out [ ] Of [ ] Memory
        | (?P<signal>[A-Z][A-Za-z/ ]{2,40}[A-Za-z0-9]) (?: [ ] \(core[ ]dumped\) )? ) \s*\Z"""
)
def _task_ended(match: re.Match[str]) -> SchedulerEvent:
    row = _bare("task_ended", f"{match['tasks']}: {match['how']}")
    _set_hosts(row, match["hosts"])
    if match["code"]:
        row.exit_code = int(match["code"])
        row.state = "FAILED" if row.exit_code else "COMPLETED"
    elif match["signal"]:
        row.exit_signal = _SIGNALS.get(match["signal"])
        # What was killed from outside did not fail: it may be the end of another task that did.
        row.state = None if row.exit_signal in _FROM_OUTSIDE else "FAILED"
    else:
        row.state = "OUT_OF_MEMORY"
    return row


# srun: error: Node failure on dgx08
@_shape(r"Node [ ] failure [ ] on [ ] (?P<hosts>[\w\[\],.-]{1,4096})")
def _node_failure(match: re.Match[str]) -> SchedulerEvent:
    row = _bare("node_down", "node failure")
    _set_hosts(row, match["hosts"])
    row.state = "DOWN"
    return row


# srun: Job step aborted: Waiting up to 32 seconds for job step to finish.
# srun: Terminating StepId=812.0                        (20.02: job step 812.0)
@_shape(r"(?P<reason> Job [ ] step [ ] aborted ) :")
def _aborted(match: re.Match[str]) -> SchedulerEvent:
    return _bare("step_aborted", match["reason"])


@_shape(r"(?P<reason> Terminating ) [ ] <STEP>")
def _terminating(match: re.Match[str]) -> SchedulerEvent:
    row = job_event("step_aborted", match)
    row.reason = f"{match['reason']} {match['step'] or ''}".strip()
    return row


# srun: Force Terminated StepId=812.0                   (20.02: job 812; job step 812.0)
@_shape(r"(?P<reason> Force [ ] Terminated ) [ ] <STEP>")
def _forced(match: re.Match[str]) -> SchedulerEvent:
    row = job_event("step_aborted" if match["step"] else "ended", match)
    row.reason = match["reason"]
    return row


# srun: sending Ctrl-C to StepId=812.0
@_shape(r"sending [ ] (?P<reason> Ctrl-C ) [ ] to [ ] <STEP>")
def _interrupted(match: re.Match[str]) -> SchedulerEvent:
    row = job_event("cancelled", match)
    row.reason, row.state, row.exit_signal = match["reason"], "CANCELLED", 2
    return row


# srun: job 812 queued and waiting for resources
# salloc: Pending job allocation 812
@_shape(
    r"job [ ] (?=[0-9]) <STEP> [ ] queued [ ] and [ ] waiting [ ] for [ ] resources",
    r"Pending [ ] job [ ] allocation [ ] (?=[0-9]) <STEP>",
)
def _queued(match: re.Match[str]) -> SchedulerEvent:
    return job_event("submitted", match)


# srun: job 812 has been allocated resources
# salloc: Granted job allocation 812
@_shape(
    r"job [ ] (?=[0-9]) <STEP> [ ] has [ ] been [ ] allocated [ ] resources",
    r"Granted [ ] job [ ] allocation [ ] (?=[0-9]) <STEP>",
)
def _granted(match: re.Match[str]) -> SchedulerEvent:
    return job_event("started", match)


# salloc: Relinquishing job allocation 812
@_shape(r"Relinquishing [ ] job [ ] allocation [ ] (?=[0-9]) <STEP>")
def _relinquished(match: re.Match[str]) -> SchedulerEvent:
    row = job_event("ended", match)
    row.reason = "allocation relinquished"
    return row


# srun: Job allocation 812 has been revoked
# salloc: error: Allocation was revoked for job 812 before command could be run
@_shape(
    r"Job [ ] allocation [ ] (?=[0-9]) <STEP> [ ] has [ ] been [ ] revoked",
    r"Allocation [ ] was [ ] revoked [ ] for [ ] <STEP>",
)
def _revoked(match: re.Match[str]) -> SchedulerEvent:
    row = job_event("cancelled", match)
    row.reason, row.state = "allocation revoked", "CANCELLED"
    return row


# salloc: Job 812 has exceeded its time limit and its allocation has been revoked.
@_shape(r"Job [ ] (?=[0-9]) <STEP> [ ] has [ ] exceeded [ ] its [ ] time [ ] limit")
def _time_limit(match: re.Match[str]) -> SchedulerEvent:
    row = job_event("time_limit", match)
    row.reason, row.state = "time limit", "TIMEOUT"
    return row


# srun: error: Task launch for StepId=812.0 failed on node dgx08: Communication connection failure
# srun: error: Unable to create step for job 812: Job/step already completing or completed
# srun: error: Application launch failed: Invalid job credential
@_shape(
    r"Task [ ] launch [ ] for [ ] <STEP> [ ] failed [ ] on [ ] node [ ] (?P<hosts>[\w.-]{1,253}) : [ ]"
    r"(?P<reason>.{1,256})",
    r"Unable [ ] to [ ] create [ ] step [ ] for [ ] <STEP> : [ ] (?P<reason>.{1,256}) (?P<hosts>)",
)
def _launch_failed(match: re.Match[str]) -> SchedulerEvent:
    row = job_event("launch_failed", match)
    row.reason = match["reason"].strip()
    if match["hosts"]:
        _set_hosts(row, match["hosts"])
    return row


@_shape(r"(?:Application [ ] launch | task [ ] [0-9]{1,9} [ ] launch) [ ] failed : [ ] (?P<reason>.{1,256})")
def _not_launched(match: re.Match[str]) -> SchedulerEvent:
    return _bare("launch_failed", match["reason"].strip())


# sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified
# srun: error: Unable to allocate resources: Requested node configuration is not available
@_shape(
    r"(?: Batch [ ] job [ ] submission [ ] failed | Unable [ ] to [ ] allocate [ ] resources ) : [ ]"
    r"(?P<reason>.{1,256})"
)
def _not_submitted(match: re.Match[str]) -> SchedulerEvent:
    return _bare("submit_failed", match["reason"].strip())


# A line of srun about tasks that has no shape is a record that was not read.
_TASKS: Final = re.compile(r"[\w\[\],.-]{1,4096}: tasks? [0-9\[\],-]{1,4096}: ", re.ASCII)
_CUT: Final = "slurm_step: the line breaks off, or says it in a way that is not known"


def detects(head: Head) -> float:
    """Only a file of which these lines are most: output of a job is told by its other lines."""
    lines = head.lines(200)
    own = sum(_SPEAKER.search(line.decode("utf-8", "replace")[:4096]) is not None for line in lines)
    return 0.3 if lines and 2 * own > len(lines) else 0.0


def _is_output(envelope: Envelope) -> bool:
    """Whether the line may be output of a job: not one of the kernel's, nor of a log of Slurm's daemons."""
    if envelope.facility == 0 or envelope.tag in ("kernel", "slurmctld", "slurmd", "slurmstepd", "slurmdbd"):
        return False
    return "slurm" not in envelope.names


def read(line: Line) -> Iterator[Found | Refused]:
    """The rows of a line: several records may stand in it, one behind the other."""
    if not _is_output(line.envelope):
        return
    message = line.envelope.message.decode("utf-8", "backslashreplace")
    submitted = _SUBMITTED.match(message)
    if submitted is not None:
        job = submitted["job"]
        row = SchedulerEvent(scheduler=SCHEDULER, kind="submitted", job_id=job, raw_job_id=job)
        row.message = message.strip()
        yield Found(row, line.envelope.reading, line.offset, mark="other_job")
        return
    speakers = list(_SPEAKER.finditer(message))
    for number, speaker in enumerate(speakers):
        end = speakers[number + 1].start() if number + 1 < len(speakers) else len(message)
        yield from _record(line, message[speaker.start() : end].strip(), message[speaker.end() : end], speaker)


def _record(line: Line, whole: str, said: str, speaker: re.Match[str]) -> Iterator[Found | Refused]:
    try:
        items = list(_told_by(said, speaker))
    except HostListError as error:
        yield Refused(line.offset, len(line.text), f"slurm_step: {error}", line.text[:512])
        return
    for row, reading, mark, lost in items:
        row.message = whole
        if lost is not None:
            yield Refused(line.offset, len(line.text), f"slurm_step: {lost}: {reading.text}", line.text[:512])
        if isinstance(row, NodeEvent | SchedulerEvent) and row.kind == "oom_kill":
            row.host_raw = row.host_raw or speaker["node"]  # of a cancel it only is who tells it
        yield Found(row, clocks_together(line.envelope.reading, reading), line.offset, mark)
    begun = STARS_BEGIN.match(said) if not speaker["tool"] else _TASKS.match(said)
    if not items and begun:
        yield Refused(line.offset, len(line.text), _CUT, line.text[:512])


def _told_by(said: str, speaker: re.Match[str]) -> Iterator[Told]:
    if not speaker["tool"]:
        yield from told(said)
        return
    for pattern, make in _SHAPES:
        match = pattern.match(said)
        if match is not None:
            yield Told(make(match))
            return


def settle(found: list[Found]) -> list[Found]:
    """One row for each cancel, and the job of the lines that name none."""
    rows = [(item, item.row) for item in found if isinstance(item.row, SchedulerEvent) and item.mark != "other_job"]
    jobs = {(row.job_id, row.raw_job_id) for _, row in rows if row.raw_job_id}
    if len(jobs) == 1:
        job_id, raw_job_id = jobs.pop()
        for _, row in rows:
            if row.raw_job_id is None and row.kind != "submit_failed":
                row.job_id, row.raw_job_id = job_id, raw_job_id
    return join_steps(found)


_SAMPLES: Final = (
    Sample(
        "step 480: loss 2.113\n"
        "slurmstepd: error: *** JOB 812 ON dgx07 CANCELLED AT 2025-02-03T08:10:05 DUE TO TIME LIMIT ***\n"
        "slurmstepd: error: *** STEP 812.0 ON dgx07 CANCELLED AT 2025-02-03T08:10:05 DUE TO TIME LIMIT ***\n"
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
        "srun: error: dgx[07-08]: tasks 8-15: Exited with exit code 137\n"
        "srun: error: dgx07: task 3: Segmentation fault (core dumped)\n"
        "srun: Force Terminated StepId=812.0\n",
        (
            expect("scheduler_events", kind="time_limit", job_id="812", hosts=["dgx07"], state="TIMEOUT"),
            expect("scheduler_events", kind="step_aborted", job_id="812"),
            expect("scheduler_events", kind="task_ended", exit_code=137, hosts=["dgx07", "dgx08"], job_id="812"),
            expect("scheduler_events", kind="task_ended", exit_signal=11, host="dgx07"),
            expect("scheduler_events", kind="step_aborted", reason="Force Terminated"),
        ),
        title="The end of a job in its own output",
    ),
    Sample(
        "0: slurmstepd: error: *** JOB 813 ON dgx07 CANCELLED AT 2025-02-03T08:10:05 DUE TO PREEMPTION ***\n"
        "Epoch 3:  12%|#2   | 12/100 [00:08<01:01]slurmstepd: error: *** STEP 814.0 ON dgx08 CANCELLED AT "
        "2025-02-03T08:11:05 DUE TO JOB REQUEUE ***\n"
        "slurmstepd: error: *** JOB 815 ON dgx07 CANCELLED AT 2025-02-03T09:10:05 DUE TO NODE FAILURE, SEE SLURMCTLD "
        "LOG FOR DETAILS ***\n"
        "slurmstepd: error: *** STEP 816.1 ON dgx07 CANCELLED AT 2025-02-03T09:20:05 DUE TO TASK FAILURE ***\n"
        "slurmstepd: error: *** JOB 817 ON dgx07 CANCELLED AT 2025-02-03T09:30:05 ***\n"
        "slurmstepd: error: *** JOB 818 ON dgx07 CANCELLED AT 2025-02-03T09:40:05 DUE to SIGNAL Terminated ***\n"
        "slurmstepd: error: *** STEP 819.0 ON dgx07 FAILED (non-zero exit code or other failure mode) ***\n",
        (
            expect("scheduler_events", kind="preempted", job_id="813", state="PREEMPTED"),
            expect("scheduler_events", kind="requeued", job_id="814", reason="job requeue; step 814.0"),
            expect("scheduler_events", kind="ended", job_id="815", state="NODE_FAIL"),
            expect("scheduler_events", kind="cancelled", job_id="816", state="FAILED"),
            expect("scheduler_events", kind="cancelled", job_id="817", reason=None),
            expect("scheduler_events", kind="cancelled", job_id="818", reason="SIGNAL Terminated"),
            expect("scheduler_events", kind="step_aborted", job_id="819", state="FAILED", time_local=None),
        ),
        title="Why slurmstepd cancels",
    ),
    Sample(
        "srun: job 820 queued and waiting for resources\n"
        "srun: job 820 has been allocated resources\n"
        "slurmstepd: error: Detected 2 oom_kill events in StepId=820.0. Some of the step tasks have been OOM Killed.\n"
        "srun: error: dgx07: task 3: Out Of Memory\n"
        "srun: error: Node failure on dgx08\n"
        "Submitted batch job 821\n"
        "srun: error: Task launch for StepId=820.1 failed on node dgx08: Communication connection failure\n",
        (
            expect("scheduler_events", kind="submitted", job_id="820"),
            expect("scheduler_events", kind="started", job_id="820"),
            expect("node_events", kind="oom_kill", value=2.0),
            expect("scheduler_events", kind="oom_kill", job_id="820", state="OUT_OF_MEMORY"),
            expect("scheduler_events", kind="task_ended", job_id="820", state="OUT_OF_MEMORY", exit_code=None),
            expect("scheduler_events", kind="node_down", host="dgx08", job_id="820"),
            expect("scheduler_events", kind="submitted", job_id="821"),
            expect("scheduler_events", kind="launch_failed", host="dgx08", reason="Communication connection failure"),
        ),
        title="srun and sbatch",
    ),
)

FORMAT: Final = LineFormat(
    name="slurm_step",
    doc="What slurmstepd, srun, salloc and sbatch write into the output of a job: cancels, exits of tasks, lost hosts.",
    url="https://slurm.schedmd.com/srun.html",
    tables=("scheduler_events", "node_events"),
    everywhere=False,
    aliases=("training",),
    detects=detects,
    signatures=(
        rb"\*\*\* (?:JOB|STEP) ",
        rb": error: Detected ",
        rb": error: (?:[Ss]tep|[Jj]ob)",
        rb"srun: (?:error: |job [0-9]|Job |Force |Terminating |sending )",
        rb"salloc: (?:error: |Granted |Pending |Relinq|Job )",
        rb"sbatch: error: ",
        rb"Submitted batch job [0-9]",
    ),
    read=read,
    settle=settle,
    samples=_SAMPLES,
    non_samples=(
        "srun: got SIGCONT\n",
        "srun: forcing job termination\n",
        "srun: warning: can't run 1 processes on 2 nodes, setting nnodes to 1\n",
        "srun: error: _half_duplex: read error -1 Connection reset by peer\n",
        "slurmstepd: error: couldn't chdir to `/runs': No such file or directory: going to /tmp instead\n",
        'expected = "slurmstepd: error: *** JOB 812 ON dgx07 CANCELLED AT 2025-02-03T08:10:05 DUE TO TIME LIMIT ***"\n',
        "python train.py  # ends with `srun: error: dgx07: task 3: Killed`\n",
        "mysrun: error: dgx07: task 3: Killed\n",
        "We have Submitted batch job 12 times this week\n",
        "[2025-02-03T08:10:05.220] [812.batch] error: *** JOB 812 ON dgx07 CANCELLED AT 2025-02-03T08:10:05 ***\n",
    ),
)
