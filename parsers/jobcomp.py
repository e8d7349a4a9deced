"""jobcomp/filetxt: the log of finished jobs that the controller writes, a line of Key=Value for each.

    JobId=812 UserId=mira(4021) GroupId=ml(400) Name=bert large JobState=FAILED Partition=long TimeLimit=60
    StartTime=2025-02-03T08:12:31 EndTime=2025-02-03T09:12:31 NodeList=dgx[07,09] NodeCnt=2 ProcCnt=16
    WorkDir=/home/mira Tres=cpu=16,node=2,gres/gpu=16 SubmitTime=2025-02-03T08:10:05 ExitCode=1:0     (one line)

Documented at https://slurm.schedmd.com/slurm.conf.html (JobCompType); the format is in src/plugins/jobcomp/filetxt of
https://github.com/SchedMD/slurm. Old releases end after the nodes or after WorkDir. A job that is requeued has a line
for each of its placements. A name or a folder may hold anything, also ``Key=``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aftershock.parsers.documents.slurm_blocks import fields_of
from aftershock.parsers.documents.slurm_job import JobText, session_of
from aftershock.parsers.formats import Found, Head, Line, LineFormat, Refused, Sample, expect

_SIGNATURE: Final = rb"JobId=[0-9]{1,20} UserId="

# The name goes on to the state behind it, the folder to what follows it or to the end.
_LINE: Final = re.compile(
    r"""
    JobId= (?P<job>[0-9]{1,20}) [ ]
    UserId= (?P<user>[^()\n]{0,256}) \( (?P<uid>[0-9]{1,20}) \) [ ]
    (?: GroupId= [^()\n]{0,256} \( [0-9]{1,20} \) [ ] )?
    Name= (?P<name> .*? ) [ ] (?= JobState=[A-Z] )
    (?P<facts> [^\n]*? )
    (?: [ ] WorkDir= (?P<work_dir> .*? ) (?= [ ](?:ReservationName|Gres|Tres|Account)= | [ ]*\Z ) (?P<more> .* ) )?
    \Z""",
    re.VERBOSE | re.ASCII,
)


def detects(head: Head) -> float:
    """How much of the first lines is the log's."""
    lines = head.lines(10)
    ours = [line for line in lines if re.match(_SIGNATURE, line) and b" JobState=" in line]
    return 0.9 * len(ours) / len(lines) if lines else 0.0


def read(line: Line) -> Iterator[Found | Refused]:
    """The session of one line."""
    # The log has no envelope; a line of it within another log is somebody's text.
    if line.envelope.names != ("plain",) or not line.text.startswith(b"JobId="):
        return
    match = _LINE.match(line.text.decode("utf-8", "backslashreplace").rstrip())
    facts = fields_of(match["facts"]) if match else {}
    if match is None or "JobState" not in facts:
        reason = "jobcomp: the line breaks off, or has another order"
        yield Refused(line.offset, len(line.text), reason, line.text[:512])
        return
    # What stands behind the folder counts from its end: ids and times come last, and no free text follows them.
    yield from session_of(_job_text(match, {**_last(match["more"] or ""), **facts}), line.offset, line.text)


def _last(text: str) -> dict[str, str]:
    """The last value of each key."""
    words = (word.partition("=") for word in text.split())
    return {key: value for key, equals, value in words if equals}


def _job_text(match: re.Match[str], fields: dict[str, str]) -> JobText:
    raw = match["job"]
    name = match["user"].strip()
    return JobText(
        tool="jobcomp",
        job_id=_shown_id(raw, fields),
        raw_job_id=raw,
        cluster=_known(fields.get("Cluster")),
        name=_known(match["name"]),
        user=name if name.lower() not in ("", "(null)", "unknown", "nobody") else match["uid"],
        work_dir=_known(match["work_dir"]),
        partition=_known(fields.get("Partition")),
        nodes=fields.get("NodeList"),
        n_nodes=fields.get("NodeCnt"),
        tres=(fields.get("Tres"), _gres(fields.get("Gres"), fields.get("NodeCnt"))),
        submit=fields.get("SubmitTime"),
        start=fields.get("StartTime"),
        end=fields.get("EndTime"),
        state=fields.get("JobState"),
        exit=fields.get("ExitCode"),
    )


def _gres(gres: str | None, nodes: str | None) -> str | None:
    """``gpu:8`` for each host, as releases before 19.05 print it, as resources of the whole job."""
    match = re.fullmatch(r"gpu(?::[a-zA-Z]\w{0,63})?:([0-9]{1,6})", gres or "")
    if match is None or not (nodes or "").isdecimal() or len(nodes or "") > 6:
        return None
    return f"gres/gpu={int(match[1]) * int(nodes or 0)}"


def _shown_id(raw: str, fields: dict[str, str]) -> str:
    """The id as sacct shows it: ``9_2``, ``123+1``, or the plain number."""
    array, task = fields.get("ArrayJobId"), fields.get("ArrayTaskId")
    if array and task and task.isdecimal():
        return f"{array}_{task}"
    het = fields.get("HetJobId") or fields.get("PackJobId")
    component = fields.get("HetJobOffset") or fields.get("PackJobOffset")
    return f"{het}+{component}" if het and component else raw


def _known(text: str | None) -> str | None:
    stripped = (text or "").strip()
    return None if stripped in ("(null)", "N/A", "") else stripped


_SAMPLES: Final = (
    Sample(
        "JobId=812 UserId=mira(4021) GroupId=ml(400) Name=bert large #2 JobState=FAILED Partition=long "
        "TimeLimit=1440 StartTime=2025-02-03T08:12:31 EndTime=2025-02-03T09:12:31 NodeList=dgx[07,09] NodeCnt=2 "
        "ProcCnt=16 WorkDir=/home/mira/my runs ReservationName= Tres=cpu=16,node=2,gres/gpu=16 Account=ml QOS=normal "
        "WcKey= Cluster=alpha SubmitTime=2025-02-03T08:10:05 EligibleTime=2025-02-03T08:10:05 DerivedExitCode=1:0 "
        "ExitCode=1:0 \n"
        "JobId=816 UserId=ines(4022) GroupId=ml(400) Name=sweep JobState=CANCELLED Partition=long TimeLimit=UNLIMITED "
        "StartTime=2025-02-03T10:00:00 EndTime=2025-02-03T10:00:00 NodeList=(null) NodeCnt=0 ProcCnt=0 "
        "WorkDir=/home/ines ReservationName= Tres=cpu=8 Account=ml QOS=normal WcKey= Cluster=alpha "
        "SubmitTime=2025-02-03T09:00:00 EligibleTime=2025-02-03T09:00:00 ArrayJobId=814 ArrayTaskId=2 "
        "DerivedExitCode=0:0 ExitCode=0:0 \n",
        (
            expect(
                "sessions",
                job_id="812",
                cluster="alpha",
                name="bert large #2",
                user="mira",
                work_dir="/home/mira/my runs",
                partition="long",
                hosts=["dgx07", "dgx09"],
                n_gpus=16,
                state="FAILED",
                exit_code=1,
            ),
            expect(
                "sessions",
                job_id="814_2",
                raw_job_id="816",
                state="CANCELLED",
                hosts=[],
                start_time=None,
                exit_code=None,
            ),
        ),
    ),
    # 2.x: ends after the processors or the folder.
    Sample(
        "JobId=77 UserId=mira(4021) GroupId=ml(400) Name=a JobState=COMPLETED Partition=long TimeLimit=60 "
        "StartTime=2012-02-03T08:12:31 EndTime=2012-02-03T08:13:31 NodeList=n[1-2] NodeCnt=2 ProcCnt=4 "
        "WorkDir=/home/mira\n",
        (expect("sessions", job_id="77", hosts=["n1", "n2"], state="COMPLETED", submit_time=None, exit_code=None),),
    ),
)

FORMAT: Final = LineFormat(
    name="jobcomp",
    doc="Slurm's log of finished jobs, as jobcomp/filetxt writes it: a line for each placement of a job.",
    url="https://slurm.schedmd.com/slurm.conf.html#OPT_JobCompType",
    tables=("sessions",),
    detects=detects,
    signatures=(rb" UserId=",),
    read=read,
    samples=_SAMPLES,
    non_samples=(
        "the line JobId=812 UserId=mira(4021) GroupId=ml(400) Name=a JobState=FAILED was found\n",
        "[2025-02-03T08:00:00.000] JobId=812 UserId=mira(4021) Name=a JobState=FAILED\n",
        "JobId=812 JobName=bert\n   UserId=mira(4021) GroupId=ml(400)\n",
        "JobId=812 UserId=mira(4021) GroupId=ml(400) Name=bert\n",
    ),
)
