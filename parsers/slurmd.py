"""slurmd: the log of the daemon on each host, with what its children, slurmstepd, write into it.

    [2025-02-03T07:59:01.234] slurmd version 23.11.4 started
    [2025-02-03T08:00:05.301] launch task StepId=812.0 request from UID:4021 GID:4021 HOST:10.0.0.1 PORT:50156
    [2025-02-03T08:10:05.120] [812.0] error: Detected 1 oom_kill event in StepId=812.0. Some of the step tasks have ...
    [2025-02-03T08:10:05.220] [812.batch] error: *** JOB 812 ON dgx07 CANCELLED AT 2025-02-03T08:10:05 DUE TO ... ***

The wording is in src/slurmd of https://github.com/SchedMD/slurm, read here for releases 20.02 to 26.05. The log does
not name its host but in the lines between stars: where all of these name one host, every line is about that one.
Results of health checks, and scripts that fail, are read by the format ``nhc`` too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from aftershock.parsers.clock import NO_CLOCK
from aftershock.parsers.formats import Envelope, Found, Head, Line, LineFormat, Refused, Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.slurm_step_words import SCHEDULER, STARS_BEGIN, STEP, Told, job_event, join_steps, told
from aftershock.parsers.slurm_words import LAST_SIGNAL
from aftershock.schemas.events import NodeEvent, SchedulerEvent

_Make = Callable[[re.Match[str]], SchedulerEvent]
_SHAPES: Final[list[tuple[re.Pattern[str], _Make]]] = []

# Before each message: who in the foreground (a container), the step, the level, plugin and function.
_LEAD: Final = re.compile(
    r"""
    (?P<who> (?:slurmd|slurmstepd)(?:-[\w.-]{1,64})? : [ ]+ )?
    (?P<child>
        \[ (?: (?P<job>[0-9]{1,20}) | (?P<sluid>s[0-9A-Z]{13}) )
        (?: \. (?P<step>[\w+]{1,32}) (?:[ ]stepmgr)? )? \] [ ]                   # before 17.11 none of a batch script
    )?
    (?: (?:error|fatal|warning|info|verbose|debug[2-5]?) : [ ]{1,2} )?
    (?: [a-z_]{1,32} / [\w-]{1,32} : [ ] )?
    (?: [a-z_]\w{2,63} : [ ] )?
    """,
    re.VERBOSE | re.ASCII,
)

# Beginnings that no other program prints, for lines without an envelope that names the daemon.
_UNMISTAKABLE: Final = re.compile(
    r"slurmd version \S{1,64} started|Slurmd shutdown completing|[Ll]aunch(?:ing)? (?:batch|task) |\*\*\* (?:JOB|STEP) "
    r"|(?:Detected [0-9]{1,18} oom)"
)


def _shape(*patterns: str) -> Callable[[_Make], _Make]:
    def tie(make: _Make) -> _Make:
        for pattern in patterns:
            _SHAPES.append((later(pattern.replace("<STEP>", STEP), re.VERBOSE | re.ASCII), make))
        return make

    return tie


def _bare(kind: str, reason: str) -> SchedulerEvent:
    return SchedulerEvent(scheduler=SCHEDULER, kind=kind, reason=reason)


# slurmd version 23.11.4 started
@_shape(r"slurmd [ ] (?P<version>version [ ] \S{1,64}) [ ] started \s*\Z")
def _daemon_start(match: re.Match[str]) -> SchedulerEvent:
    return _bare("daemon_start", match["version"])


# Slurmd shutdown completing
@_shape(r"Slurmd [ ] (?P<reason> shutdown [ ] completing)")
def _daemon_stop(match: re.Match[str]) -> SchedulerEvent:
    return _bare("daemon_stop", match["reason"])


# Launching batch job 812 for UID 4021                  (25.11: Launching batch JobId=812 SLUID=s... for UID 4021)
# launch task StepId=812.0 request from UID:4021 GID:4021 HOST:10.0.0.1 PORT:50156      (20.02: launch task 812.0)
# launch task 812.0 request from 4021.4021@10.0.0.1 (port 50156)                        (before 17.11)
@_shape(
    r"Launching [ ] batch [ ] <STEP> [ ] for [ ] UID [ ] (?P<user>[0-9]{1,10})",
    r"launch [ ] task [ ] <STEP> [ ] request [ ] from [ ] (?:UID:)? (?P<user>[0-9]{1,10}) (?=[ ]|\.[0-9]+@)",
)
def _launched(match: re.Match[str]) -> SchedulerEvent:
    row = job_event("launched", match)
    row.user, row.reason = match["user"], f"step {match['step'] or 'batch'}"
    return row


# error: [job 812] prolog failed status=1:0             (25.11: JobId=812 SLUID=s... prolog failed status=1:0)
@_shape(
    r"\[? <STEP> \]? [ ] (?P<script>prolog|epilog) [ ] failed [ ]"
    r"status= (?P<code>[0-9]{1,5}) (?: : (?P<signal>[0-9]{1,3}) )?"
)
def _script_failed(match: re.Match[str]) -> SchedulerEvent:
    row = job_event(f"{match['script']}_error", match)
    row.reason = f"{match['script'].capitalize()} error"
    row.exit_code = int(match["code"])
    row.exit_signal = int(match["signal"] or 0) or None
    return row


# Could not launch job 812 and not able to requeue it, cancelling job
# error: Could not confirm batch launch for job 812, aborting request
@_shape(
    r"(?P<reason> Could [ ] not [ ] launch ) [ ] <STEP>",
    r"(?P<reason> Could [ ] not [ ] confirm [ ] batch [ ] launch ) [ ] for [ ] <STEP>",
)
def _launch_failed(match: re.Match[str]) -> SchedulerEvent:
    row = job_event("launch_failed", match)
    row.reason = match["reason"].lower()
    return row


# error: timed out waiting for job 812 to complete
@_shape(r"(?P<reason> timed [ ] out [ ] waiting ) [ ] for [ ] <STEP> [ ] to [ ] complete")
def _kill_failed(match: re.Match[str]) -> SchedulerEvent:
    row = job_event("kill_failed", match)
    row.reason = "timed out waiting for the job to complete"
    return row


# Node reboot request being processed
# Node reboot request with features numa being processed
@_shape(r"Node [ ] (?P<reason> reboot [ ] request ) [ ] (?:with [ ] features [ ] \S{1,256} [ ])? being [ ] processed")
def _reboot(match: re.Match[str]) -> SchedulerEvent:
    return _bare("node_reboot", match["reason"])


# error: Node configuration differs from hardware: CPUs=64:128(hw) Boards=1:1(hw) ...
@_shape(r"Node [ ] (?P<reason> configuration [ ] differs [ ] from [ ] hardware : [ ] .{1,512} )")
def _node_config(match: re.Match[str]) -> SchedulerEvent:
    return _bare("node_config", match["reason"].strip())


# error: Munge decode failed: Expired credential        (the clocks of two hosts differ, or the daemon was too slow)
@_shape(r"Munge [ ] decode [ ] failed : [ ] (?P<reason> .{1,128} )")
def _credential(match: re.Match[str]) -> SchedulerEvent:
    return _bare("credential_error", match["reason"].strip())


# [812.0] task 3 (17124) exited with exit code 137.
# [812.0] task 3 (17124) exited. Killed by signal 11 (core dumped).
# [812.0] task 3 (17124) Out Of Memory (OOM)
_TASK: Final = re.compile(
    r"""
    (?P<task> task [ ] [0-9]{1,10} ) [ ] \( [0-9]{1,10} \) [ ]
    (?: exited [ ] with [ ] exit [ ] code [ ] (?P<code>[0-9]{1,5}) \.
      | exited\. [ ] Killed [ ] by [ ] signal [ ] (?P<signal>[0-9]{1,3})
      | (?P<memory> Out [ ] Of [ ] Memory ) )
    """,
    re.VERBOSE | re.ASCII,
)
# [812.batch] job 812 completed with slurm_rc = 0, job_rc = 256           (25.11: JobId=812 SLUID=s... completed)
_BATCH: Final = re.compile(
    STEP + r"[ ] completed [ ] with [ ] slurm_rc [ ] = [ ] (?P<slurm>-?[0-9]{1,6}) ,"
    r"[ ] job_rc [ ] = [ ] (?P<rc>[0-9]{1,6})",
    re.VERBOSE | re.ASCII,
)


def _of_child(lead: re.Match[str], said: str) -> SchedulerEvent | None:
    """What the daemon of one step says of its tasks; nothing of those that ended well."""
    task = _TASK.match(said)
    if task is not None:
        if task["code"] is not None and not int(task["code"]):
            return None
        job = lead["job"]
        row = SchedulerEvent(scheduler=SCHEDULER, kind="task_ended", job_id=job, raw_job_id=job or lead["sluid"])
        row.reason = f"{task['task']} of step {lead['job'] or lead['sluid']}.{lead['step'] or 'batch'}"
        if task["memory"]:
            row.state = "OUT_OF_MEMORY"
        elif task["code"]:
            row.exit_code, row.state = int(task["code"]), "FAILED"
        else:
            row.exit_signal = _linux_signal(int(task["signal"]))
        return row
    batch = _BATCH.match(said)
    if batch is None or lead["step"] not in ("batch", None):
        return None
    row = job_event("batch_ended", batch)
    status = int(batch["rc"])  # as wait(2) gives it
    row.exit_code, row.exit_signal = (status >> 8) & 0xFF, _linux_signal(status & 0x7F)
    row.state = "COMPLETED" if not status else "FAILED"
    if int(batch["slurm"]):
        row.reason = f"slurm_rc = {batch['slurm']}"
    return row


def _linux_signal(number: int) -> int | None:
    return number if 0 < number <= LAST_SIGNAL else None


def read(line: Line) -> Iterator[Found | Refused]:
    """The rows of a line; a refusal where a line between stars breaks off."""
    message = line.envelope.message.decode("utf-8", "backslashreplace").strip()
    lead = _LEAD.match(message)
    assert lead is not None  # every part of it may be missing
    said = message[lead.end() :]
    if not _is_slurmd(line.envelope, lead, said):
        return
    items = list(_rows(lead, said))
    for row, reading, mark, lost in items:
        row.message = message
        if lost is not None:
            yield Refused(line.offset, len(line.text), f"slurmd: {lost}: {reading.text}", line.text[:512])
        # A cancel is about its job, not about the host that carries it out.
        row.host_raw = row.host_raw or (None if mark else line.envelope.host)
        # The stamp of the log is finer than the time within the message, and may have a zone.
        own = reading if line.envelope.reading is NO_CLOCK else line.envelope.reading
        yield Found(row, own, line.offset, mark)
    if not items and STARS_BEGIN.match(said):
        reason = "slurmd: the line breaks off, or says it in a way that is not known"
        yield Refused(line.offset, len(line.text), reason, line.text[:512])


def _is_slurmd(envelope: Envelope, lead: re.Match[str], said: str) -> bool:
    if envelope.tag is not None:
        return envelope.tag in ("slurmd", "slurmstepd")
    if "slurm" in envelope.names:
        return True
    # In the foreground the daemon names itself, which slurmstepd does in the output of a job too.
    named = lead["who"] is not None and lead["who"].startswith("slurmd")
    return envelope.names == ("plain",) and (named or lead["child"] is not None) and bool(_UNMISTAKABLE.match(said))


def _rows(lead: re.Match[str], said: str) -> Iterator[Told]:
    if lead["child"] is not None:
        row = _of_child(lead, said)
        if row is not None:
            yield Told(row)
            return
    known = list(told(said))
    if known:
        yield from known
        return
    for pattern, make in _SHAPES:
        match = pattern.match(said)
        if match is not None:
            yield Told(make(match))
            return


def settle(found: list[Found]) -> list[Found]:
    """One row for each cancel; the host of the log, where its lines between stars name one."""
    named = {
        name
        for item in found
        if item.mark in ("job", "step") and isinstance(item.row, SchedulerEvent)
        for name in item.row.hosts or ()
    }
    if len(named) == 1:
        host = named.pop()
        for item in found:
            if isinstance(item.row, SchedulerEvent | NodeEvent) and not item.mark:
                item.row.host_raw = item.row.host_raw or host
    return join_steps(found)


def detects(head: Head) -> float:
    """How much of the head is the daemon's: its name in the file's name, its own lines."""
    lines = head.lines(200)
    texts = [line.decode("utf-8", "replace")[:512] for line in lines]
    own = sum(_OWN.search(text) is not None for text in texts)
    if "slurmd" in head.name and "slurmdbd" not in head.name and (own or not lines):
        return 0.9
    return 0.8 if own >= _ENOUGH else 0.0


_ENOUGH: Final = 2
_OWN: Final = re.compile(
    r"slurmd version \S+ started|launch task (?:StepId=)?[0-9]+\.[0-9]+ request from (?:UID:|[0-9]+\.[0-9]+@)"
    r"|Launching batch (?:job |JobId=)[0-9]|\] \[(?:[0-9]{1,20}|s[0-9A-Z]{13})\.(?:[0-9]+|batch|extern)\] "
    r"|\] \[[0-9]{1,20}\] (?:error: \*\*\* JOB |job [0-9]+ completed with |sending REQUEST_COMPLETE_BATCH_SCRIPT)"
    r"|Slurmd shutdown completing",
    re.ASCII,
)


def _log(*lines: str) -> str:
    return "".join(f"[2025-02-03T{line}\n" for line in lines)


_SAMPLES: Final = (
    Sample(
        _log(
            "07:59:01.234] slurmd version 23.11.4 started",
            "08:00:05.120] Launching batch job 812 for UID 4021",
            "08:00:05.301] launch task StepId=812.0 request from UID:4021 GID:4021 HOST:10.0.0.1 PORT:50156",
            "08:10:05.100] [812.0] task 3 (17124) exited. Killed by signal 9.",
            "08:10:05.110] [812.0] task 4 (17125) exited with exit code 0.",
            "08:10:05.120] [812.0] error: Detected 1 oom_kill event in StepId=812.0. Some of the step tasks have been "
            "OOM Killed.",
            "08:10:05.220] [812.batch] error: *** JOB 812 ON dgx07 CANCELLED AT 2025-02-03T08:10:05 DUE TO TIME "
            "LIMIT ***",
            "08:10:05.221] [812.0] error: *** STEP 812.0 ON dgx07 CANCELLED AT 2025-02-03T08:10:05 DUE TO TIME "
            "LIMIT ***",
            "08:10:35.400] [812.batch] job 812 completed with slurm_rc = 0, job_rc = 15",
            "08:12:05.000] [812.0] error: *** STEP 812.0 STEPD TERMINATED ON dgx07 AT 2025-02-03T08:12:05 DUE TO JOB "
            "NOT ENDING WITH SIGNALS ***",
        ),
        (
            expect("scheduler_events", kind="daemon_start", reason="version 23.11.4", host="dgx07"),
            expect("scheduler_events", kind="launched", job_id="812", user="4021", reason="step batch"),
            expect("scheduler_events", kind="launched", job_id="812", reason="step 0", host="dgx07"),
            expect("scheduler_events", kind="task_ended", job_id="812", exit_signal=9, state=None),
            expect("node_events", kind="oom_kill", host="dgx07", value=1.0),
            expect("scheduler_events", kind="oom_kill", job_id="812", state="OUT_OF_MEMORY"),
            expect("scheduler_events", kind="time_limit", job_id="812", hosts=["dgx07"]),
            expect("scheduler_events", kind="batch_ended", job_id="812", exit_signal=15, exit_code=0, state="FAILED"),
            expect("scheduler_events", kind="kill_failed", host="dgx07", job_id="812"),
        ),
    ),
    Sample(
        _log(
            "09:00:00.100] error: [job 813] prolog failed status=1:0",
            "09:00:00.200] Could not launch job 813 and not able to requeue it, cancelling job",
            "09:00:01.000] error: Node configuration differs from hardware: CPUs=64:128(hw) Boards=1:1(hw) "
            "SocketsPerBoard=2:2(hw) CoresPerSocket=32:32(hw) ThreadsPerCore=1:2(hw)",
            "09:00:02.000] error: Munge decode failed: Expired credential",
            "09:10:00.000] error: [job 814] epilog failed status=0:15",
            "09:20:00.000] Node reboot request being processed",
            "09:20:01.000] Slurmd shutdown completing",
        ),
        (
            expect("scheduler_events", kind="prolog_error", job_id="813", exit_code=1, exit_signal=None),
            expect("scheduler_events", kind="launch_failed", job_id="813"),
            expect("scheduler_events", kind="node_config"),
            expect("scheduler_events", kind="credential_error", reason="Expired credential"),
            expect("scheduler_events", kind="epilog_error", job_id="814", exit_signal=15),
            expect("scheduler_events", kind="node_reboot"),
            expect("scheduler_events", kind="daemon_stop"),
        ),
    ),
    # Before 17.11 a batch script has no step, and whoever launches stands in another way.
    Sample(
        _log(
            "08:00:05.120] Launching batch job 815 for UID 4021",
            "08:00:05.301] launch task 815.0 request from 4021.4022@10.0.0.1 (port 50156)",
            "08:10:05.120] [815] error: *** JOB 815 ON dgx07 CANCELLED AT 2025-02-03T08:10:05 DUE TO TIME LIMIT ***",
            "08:10:05.130] [815.0] error: *** STEP 815.0 ON dgx07 CANCELLED AT 2025-02-03T08:10:05 DUE TO TIME "
            "LIMIT ***",
            "08:10:06.120] [815] sending REQUEST_COMPLETE_BATCH_SCRIPT, error:0 status 15",
            "08:12:05.120] [816] job 816 completed with slurm_rc = 0, job_rc = 256",
        ),
        (
            expect("scheduler_events", kind="launched", job_id="815", user="4021", reason="step batch"),
            expect("scheduler_events", kind="launched", job_id="815", user="4021", reason="step 0", host="dgx07"),
            expect("scheduler_events", kind="time_limit", job_id="815", hosts=["dgx07"], reason="time limit"),
            expect("scheduler_events", kind="batch_ended", job_id="816", exit_code=1, state="FAILED"),
        ),
    ),
)

FORMAT: Final = LineFormat(
    name="slurmd",
    doc="The log of Slurm's daemon on a host: launches, scripts that fail, tasks that exit, kills for memory, cancels.",
    url="https://slurm.schedmd.com/slurmd.html",
    tables=("scheduler_events", "node_events"),
    detects=detects,
    signatures=(
        rb"slurmd version ",
        rb"Slurmd shutdown ",
        rb"Launching batch ",
        rb"launch task ",
        rb"log failed status=",
        rb"Could not (?:launch|confirm batch launch) ",
        rb"timed out waiting for ",
        rb"reboot request ",
        rb"Node configuration differs ",
        rb"Munge decode failed",
        rb"[0-9]\) (?:exited|Out)",
        rb"completed with slurm_rc = ",
        rb"\*\*\* (?:JOB|STEP) [0-9s]",
        rb"[0-9] oom[_-]kill event",
        rb"exceeded (?:virtual )?memory limit \(",
    ),
    read=read,
    settle=settle,
    samples=_SAMPLES,
    non_samples=(
        "[2025-02-03T08:00:05.120] [812.0] task 3 (17124) started 2025-02-03T08:00:05\n",
        "[2025-02-03T08:00:05.120] [812.0] task 3 (17124) exited with exit code 0.\n",
        "[2025-02-03T08:00:05.120] [812.0] done with job\n",
        "[2025-02-03T08:00:05.120] slurmd started on Mon, 03 Feb 2025 08:00:05 +0000\n",
        "[2025-02-03T08:00:05.120] job_step_signal: JobId=812 is in state COMPLETING, cannot signal steps\n",
        "python: launch task StepId=812.0 request from UID:4021\n",
        "Slurmd shutdown completing\n",
        "Feb  3 08:00:05 dgx07 trainer[99]: error: *** JOB 812 ON dgx07 CANCELLED AT 2025-02-03T08:00:05 ***\n",
    ),
)
