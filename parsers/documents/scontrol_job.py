"""scontrol show job: the jobs that the controller still remembers, as blocks of Key=Value, or with ``-o`` one per line.

    JobId=812 JobName=bert
       UserId=mira(4021) GroupId=ml(400) MCS_label=N/A
       JobState=FAILED Reason=NonZeroExitCode Dependency=(null)
       Requeue=1 Restarts=1 BatchFlag=1 Reboot=0 ExitCode=1:0
       SubmitTime=2025-02-03T08:10:05 EligibleTime=2025-02-03T08:12:06
       StartTime=2025-02-03T08:12:31 EndTime=2025-02-03T09:12:31 Deadline=N/A
       ReqNodeList=(null) ExcNodeList=dgx08
       NodeList=dgx[07,09]

Documented at https://slurm.schedmd.com/scontrol.html. A job that was requeued (``Restarts`` above 0) is shown with its
last placement only: the earlier ones are in accounting. What it does have, and accounting has not, is ``ExcNodeList``.
The start of a job that waits, and the end of one that runs, are guesses of the scheduler and are not taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import BinaryIO, Final

from aftershock.parsers.documents.slurm_blocks import blocks_of, fields_of
from aftershock.parsers.documents.slurm_job import JobText, session_of
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect

# The name of a job may hold anything, so it is cut off first: it goes on to the line end, or with -o to the user.
_FIRST: Final = re.compile(
    r"""
    JobId= (?P<job>[0-9]{1,20}) [ ]
    (?P<ids> (?: [A-Z]\w{0,32}=\S{0,4096} [ ] ){0,8}? )       # ArrayJobId, ArrayTaskId, HetJobId, HetJobOffset
    JobName= (?P<name> [^\n]*? )
    (?: \n | [ ] (?=UserId=) )
    (?P<rest> .* )""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)

_WORK_DIR: Final = re.compile(r"(?:\A|(?<=\s))WorkDir=(?P<value>[^\n]*?)(?= [A-Z][A-Za-z]{1,31}=|\n|\Z)")
# The one stands before the other, and the folder behind them.
_COMMAND: Final = re.compile(r"(?:\A|(?<=\s))Command=(?P<value>[^\n]*?)(?= SubmitLine=| WorkDir=|\n|\Z)")
_SUBMIT_LINE: Final = re.compile(r"(?:\A|(?<=\s))SubmitLine=(?P<value>[^\n]*?)(?= WorkDir=|\n|\Z)")
_USER: Final = re.compile(r"(?P<name>\(null\)|[^()]*)\((?P<uid>[0-9]+)\)\Z")


def detects(head: Head) -> float:
    """Sure where a line begins a job the way only scontrol does: the jobcomp log has Name= where this has JobName=."""
    lines = head.lines(40)
    for i, line in enumerate(lines):
        if line.startswith(b"JobId=") and b" JobName=" in line:
            follows = line + b"\n" + (lines[i + 1] if i + 1 < len(lines) else b"")
            return 0.95 if b"UserId=" in follows or b"JobState=" in follows else 0.3
    return 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The sessions of the blocks."""
    for block in blocks_of(stream, b"JobId=", "scontrol_job"):
        if isinstance(block, Refused):
            yield block
        else:
            yield from _rows(*block)


def _rows(offset: int, block: bytes) -> Iterator[Found | Refused]:
    text = block.decode("utf-8-sig", "backslashreplace").replace("\r\n", "\n").rstrip()
    first = _FIRST.match(text)
    fields = fields_of(first["ids"] + first["rest"]) if first else {}
    if first is None or "JobState" not in fields:
        yield Refused(offset, len(block), "scontrol_job: record without a name or a state", block[:512])
        return
    job = _job_text(first["job"], fields, first["name"], first["rest"])
    yield from session_of(job, offset, block)


def _job_text(raw: str, fields: Mapping[str, str], name: str, rest: str) -> JobText:
    user = _USER.match(fields.get("UserId", ""))
    return JobText(
        tool="scontrol_job",
        job_id=_shown_id(raw, fields),
        raw_job_id=raw,
        name=_known(name),
        user=(user["name"] if user["name"] not in ("", "(null)", "nobody") else user["uid"]) if user else None,
        work_dir=_found(_WORK_DIR, rest),
        partition=_known(fields.get("Partition")),
        nodes=fields.get("NodeList"),
        n_nodes=fields.get("NumNodes", "").split("-", 1)[0],
        tres=(fields.get("AllocTRES"), fields.get("TRES"), fields.get("ReqTRES")),
        submit=fields.get("SubmitTime"),
        start=fields.get("StartTime"),
        end=fields.get("EndTime"),
        elapsed=fields.get("RunTime"),
        state=fields.get("JobState"),
        exit=fields.get("ExitCode"),
        reason=fields.get("Reason"),
        excluded=fields.get("ExcNodeList"),
        wanted=fields.get("ReqNodeList"),
        submit_line=_found(_SUBMIT_LINE, rest),
        command=_found(_COMMAND, rest),
    )


def _shown_id(raw: str, fields: Mapping[str, str]) -> str:
    """The id as sacct shows it: ``9_2``, ``9_[0-3%2]`` for tasks that wait, ``123+1``, or the plain number."""
    array, task = fields.get("ArrayJobId"), fields.get("ArrayTaskId")
    if array and task:
        return f"{array}_{task}" if task.isdecimal() else f"{array}_[{task}]"
    het, component = fields.get("HetJobId"), fields.get("HetJobOffset")
    return f"{het}+{component}" if het and component else raw


def _found(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return _known(match["value"]) if match else None


def _known(text: str | None) -> str | None:
    stripped = (text or "").strip()
    return None if stripped in ("(null)", "N/A", "") else stripped


_SAMPLES: Final = (
    # A job that failed, with hosts left out; then one that waits, and has no hosts and no start.
    Sample(
        "JobId=812 JobName=bert large\n"
        "   UserId=mira(4021) GroupId=ml(400) MCS_label=N/A\n"
        "   JobState=FAILED Reason=NonZeroExitCode Dependency=(null)\n"
        "   Requeue=1 Restarts=1 BatchFlag=1 Reboot=0 ExitCode=1:0\n"
        "   RunTime=01:00:00 TimeLimit=1-00:00:00 TimeMin=N/A\n"
        "   SubmitTime=2025-02-03T08:10:05 EligibleTime=2025-02-03T08:12:06\n"
        "   StartTime=2025-02-03T08:12:31 EndTime=2025-02-03T09:12:31 Deadline=N/A\n"
        "   Partition=long AllocNode:Sid=login1:1454\n"
        "   ReqNodeList=(null) ExcNodeList=dgx[08,10]\n"
        "   NodeList=dgx[07,09]\n"
        "   NumNodes=2 NumCPUs=16 NumTasks=2 CPUs/Task=8 ReqB:S:C:T=0:0:*:*\n"
        "   ReqTRES=cpu=16,node=2,gres/gpu=16\n"
        "   AllocTRES=cpu=16,node=2,gres/gpu=16\n"
        "   Command=/home/mira/train.sh\n"
        "   WorkDir=/home/mira/runs\n"
        "\n"
        "JobId=90 ArrayJobId=90 ArrayTaskId=0-7%2 JobName=sweep\n"
        "   UserId=ines(4022) GroupId=ml(400) MCS_label=N/A\n"
        "   JobState=PENDING Reason=Priority Dependency=(null)\n"
        "   SubmitTime=2025-02-03T08:00:00 EligibleTime=2025-02-03T08:00:00\n"
        "   StartTime=2025-02-04T00:00:00 EndTime=2025-02-05T00:00:00 Deadline=N/A\n"
        "   ReqNodeList=(null) ExcNodeList=(null)\n"
        "   NodeList=\n",
        (
            expect(
                "sessions",
                job_id="812",
                name="bert large",
                user="mira",
                work_dir="/home/mira/runs",
                state="FAILED",
                hosts=["dgx07", "dgx09"],
                n_gpus=16,
                excluded_hosts=["dgx08", "dgx10"],
                exit_code=1,
                end_reason="NonZeroExitCode",
                duration_s=3600.0,
            ),
            expect(
                "sessions",
                job_id="90_[0-7%2]",
                raw_job_id="90",
                state="PENDING",
                start_time=None,
                end_time=None,
                hosts=[],
                excluded_hosts=[],
                end_reason="Priority",
            ),
        ),
    ),
    # -o: one line.
    Sample(
        "JobId=815 ArrayJobId=814 ArrayTaskId=3 JobName=eval UserId=ines(4022) GroupId=ml(400) JobState=RUNNING "
        "Reason=None RunTime=00:10:00 SubmitTime=2025-02-03T08:00:00 "
        "StartTime=2025-02-03T08:00:10 EndTime=2025-02-04T08:00:10 Partition=long "
        "ReqNodeList=(null) ExcNodeList=(null) NodeList=dgx07 NumNodes=1 TRES=cpu=8,gres/gpu=8 "
        "Command=/home/ines/a.sh WorkDir=/home/ines\n",
        (
            expect(
                "sessions",
                job_id="814_3",
                raw_job_id="815",
                state="RUNNING",
                end_time=None,
                hosts=["dgx07"],
                n_gpus=8,
                work_dir="/home/ines",
            ),
        ),
    ),
)

FORMAT: Final = DocumentFormat(
    name="scontrol_job",
    doc="Jobs as `scontrol show job` prints them, also with `-o`: the last placement of each, and the hosts that its "
    "request left out.",
    url="https://slurm.schedmd.com/scontrol.html",
    tables=("sessions",),
    detects=detects,
    read=read,
    samples=_SAMPLES,
    non_samples=(
        "NodeName=dgx07 Arch=x86_64 CoresPerSocket=32\n   State=IDLE ThreadsPerCore=2\n",
        "JobId=812 UserId=mira(4021) GroupId=ml(400) Name=bert JobState=FAILED Partition=long TimeLimit=60 "
        "StartTime=2025-02-03T08:12:31 EndTime=2025-02-03T09:12:31 NodeList=dgx[07,09] NodeCnt=2\n",
        "slurm_load_jobs error: Invalid job id specified\n",
        "No jobs in the system\n",
    ),
)
