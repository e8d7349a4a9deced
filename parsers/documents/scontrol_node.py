"""scontrol show node: the hosts that the controller knows, as blocks of Key=Value, or with ``-o`` one per line.

    NodeName=dgx07 Arch=x86_64 CoresPerSocket=56
       NodeAddr=dgx07 NodeHostName=dgx07 Version=23.11.4
       OS=Linux 6.8.0-45-generic #45-Ubuntu SMP PREEMPT_DYNAMIC
       State=DOWN*+DRAIN ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
       Partitions=long,debug
       BootTime=2025-02-01T07:00:00 SlurmdStartTime=2025-02-01T07:02:11
       Reason=fell off the bus, slot 4 [mira@2025-02-03T08:00:05]

Documented at https://slurm.schedmd.com/scontrol.html. A reason may have several lines; its stamp is at the end of the
first one. Each host gives a row of ``hosts`` (kernel and partitions, when it was so is not printed) and, if it takes no
work, the event that took it out. A boot is told by the log of the host, which knows it better than BootTime.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final

from aftershock.parsers.clock import NO_CLOCK
from aftershock.parsers.documents.slurm_blocks import blocks_of, fields_of
from aftershock.parsers.documents.slurm_nodes import NodeText, event_of
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.parsers.hostlist import HostListError, expand_hosts
from aftershock.schemas.topology import Host

_BEGIN: Final = b"NodeName="

# Free text comes last: the reason, then what an administrator noted. With -o only their names tell them apart.
_REASON: Final = re.compile(r"(?:\n[ ]{3}|[ ])Reason=")
_STAMP: Final = re.compile(r"[ ]\[(?P<user>[^\[\]@\n]{0,256})@(?P<since>[^\[\]\n]{1,64})\](?=[ \n]|\Z)")
_BEHIND: Final = re.compile(
    r"\n[ ]{3}(?=[A-Z])|[ ](?=(?:Comment|Extra|Instance(?:Id|Type)|ReservationName|TLSCert\w+|Topology|Parameters)=)"
)
# What only a running controller prints: slurm.conf names hosts and their states too.
_LIVE: Final = re.compile(
    rb"(?:\A|\s)(?:Arch|CPUAlloc|CPUTot|CPULoad|MCS_label|BootTime|SlurmdStartTime|Partitions|AllocMem)="
    rb"|Reason=[^\n]*@\d{4}-"
)
_KERNEL: Final = re.compile(r"(?:\n[ ]{3}|[ ])OS=Linux[ ](?P<release>[^\s=]{1,128})")


def detects(head: Head) -> float:
    """Sure where a line begins a host, and what follows is said of one that runs."""
    lines = head.lines(40)
    for i, line in enumerate(lines):
        if line.removeprefix(b"\xef\xbb\xbf").startswith(_BEGIN):
            follows = b"\n".join(lines[i : i + 12])
            return 0.95 if b" State=" in follows and _LIVE.search(follows) else 0.0
    return 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """Hosts and events of the blocks."""
    for block in blocks_of(stream, _BEGIN, "scontrol_node"):
        if isinstance(block, Refused):
            yield block
        else:
            yield from _rows(*block)


def _rows(offset: int, block: bytes) -> Iterator[Found | Refused]:
    if not _LIVE.search(block):
        return
    text = block.decode("utf-8-sig", "backslashreplace").replace("\r\n", "\n").rstrip()
    begin = _REASON.search(text)
    facts, behind = (text, "") if begin is None else (text[: begin.start()], text[begin.end() :])
    fields = fields_of(facts)
    try:
        hosts = expand_hosts(fields["NodeName"])
    except (HostListError, KeyError) as error:
        yield Refused(offset, len(block), f"scontrol_node: NodeName is not read: {error}", block[:512])
        return
    if "State" not in fields:
        yield Refused(offset, len(block), "scontrol_node: record without a state", block[:512])
        return
    kernel = _KERNEL.search(facts)
    partition = fields.get("Partitions", "")
    for host in hosts:
        row = Host(
            host=host,
            kernel=kernel["release"] if kernel else None,
            partition=partition if partition not in ("", "(null)") else None,
        )
        yield Found(row, NO_CLOCK, offset)
    reason, user, since = _reason(behind)
    message = f"State={fields['State']}" if begin is None else f"Reason={behind[: _length(behind)].strip()}"
    node = NodeText(
        tool="scontrol_node",
        hosts=hosts,
        state=fields["State"],
        reason=reason,
        user=user,
        since=since,
        message=message,
    )
    yield from event_of(node, offset, block)


def _stamp(behind: str) -> re.Match[str] | None:
    """The stamp of a reason: on its first line."""
    return _STAMP.search(behind.split("\n", 1)[0])


def _length(behind: str) -> int:
    """How far the reason goes on: to the next key; what stands before its stamp is reason, whatever it looks like."""
    stamp = _stamp(behind)
    match = _BEHIND.search(behind, stamp.end() if stamp else 0)
    return match.start() if match else len(behind)


def _reason(behind: str) -> tuple[str, str | None, str | None]:
    """(reason, user, time) of what stands behind ``Reason=``; lines of a longer reason are joined by a blank."""
    stamp = _stamp(behind)
    whole = behind[: _length(behind)]
    if stamp is None:
        return " ".join(whole.split()), None, None
    reason = f"{whole[: stamp.start()]} {whole[stamp.end() :]}"
    return " ".join(reason.split()), stamp["user"], stamp["since"]


_SAMPLES: Final = (
    # One that works, one that is drained and does not answer, and one with a reason over two lines.
    Sample(
        "NodeName=dgx07 Arch=x86_64 CoresPerSocket=56 \n"
        "   CPUAlloc=0 CPUEfctv=224 CPUTot=224 CPULoad=0.10\n"
        "   AvailableFeatures=h100\n"
        "   ActiveFeatures=h100\n"
        "   Gres=gpu:h100:8\n"
        "   NodeAddr=10.1.0.7 NodeHostName=r1u07 Version=23.11.4\n"
        "   OS=Linux 6.8.0-45-generic #45-Ubuntu SMP PREEMPT_DYNAMIC Fri Aug 30 12:02:04 UTC 2024 \n"
        "   RealMemory=2000000 AllocMem=0 FreeMem=1933300 Sockets=2 Boards=1\n"
        "   State=MIXED+PLANNED ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A\n"
        "   Partitions=long,debug \n"
        "   BootTime=2025-02-01T07:00:00 SlurmdStartTime=2025-02-01T07:02:11\n"
        "   LastBusyTime=2025-02-03T07:17:24 ResumeAfterTime=None\n"
        "   CfgTRES=cpu=224,mem=2000000M,billing=224,gres/gpu=8\n"
        "   AllocTRES=\n"
        "\n"
        "NodeName=dgx08 Arch=x86_64 CoresPerSocket=56 \n"
        "   CPUAlloc=0 CPUEfctv=224 CPUTot=224 CPULoad=N/A\n"
        "   State=DOWN*+DRAIN ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A\n"
        "   Partitions=long \n"
        "   BootTime=2025-02-01T07:00:00 SlurmdStartTime=2025-02-01T07:02:11\n"
        "   Reason=fell off the bus, slot 4 [mira@2025-02-03T08:00:05]\n"
        "   Comment=seen twice State=IDLE\n"
        "\n"
        "NodeName=dgx09 Arch=x86_64 CoresPerSocket=56 \n"
        "   CPUAlloc=0 CPUEfctv=224 CPUTot=224 CPULoad=0.00\n"
        "   State=DOWN ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A\n"
        "   BootTime=None SlurmdStartTime=None\n"
        "   Reason=Not responding [slurm@2025-02-03T09:10:00]\n"
        "          ticket 4711\n",
        (
            expect("hosts", host="dgx07", partition="long,debug", kernel="6.8.0-45-generic", valid_from=None),
            expect("hosts", host="dgx08", partition="long", kernel=None),
            expect(
                "scheduler_events",
                kind="node_drain",
                host="dgx08",
                hosts=["dgx08"],
                state="DOWN*+DRAIN",
                reason="fell off the bus, slot 4",
                user="mira",
                time_local="2025-02-03T08:00:05",
                message="Reason=fell off the bus, slot 4 [mira@2025-02-03T08:00:05]",
            ),
            expect("hosts", host="dgx09", partition=None),
            expect("scheduler_events", kind="node_down", host="dgx09", reason="Not responding ticket 4711"),
        ),
    ),
    # -o: one line.
    Sample(
        "NodeName=dgx10 Arch=x86_64 CoresPerSocket=56 CPUAlloc=0 CPUTot=224 CPULoad=0.01 AvailableFeatures=(null) "
        "ActiveFeatures=(null) Gres=gpu:8 NodeAddr=dgx10 NodeHostName=dgx10 Version=20.11.8 "
        "OS=Linux 5.15.0-25-generic #25-Ubuntu SMP RealMemory=1 AllocMem=0 FreeMem=1 Sockets=2 Boards=1 "
        "State=IDLE+DRAIN ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=long "
        "BootTime=2025-02-01T07:00:00 SlurmdStartTime=2025-02-01T07:02:11 CfgTRES=cpu=224 AllocTRES= CapWatts=n/a "
        "Reason=Extra=1 cable [root@2025-02-03T08:00:05] Comment=to be swapped\n",
        (
            expect("hosts", host="dgx10", partition="long", kernel="5.15.0-25-generic"),
            expect("scheduler_events", kind="node_drain", host="dgx10", reason="Extra=1 cable", user="root"),
        ),
    ),
)

FORMAT: Final = DocumentFormat(
    name="scontrol_node",
    doc="Hosts as `scontrol show node` prints them, also with `-o`: their kernel and partitions, and since when and "
    "why they take no work.",
    url="https://slurm.schedmd.com/scontrol.html#OPT_node",
    tables=("hosts", "scheduler_events"),
    detects=detects,
    read=read,
    samples=_SAMPLES,
    non_samples=(
        "NodeName=dgx[01-64] CPUs=224 Boards=1 SocketsPerBoard=2 CoresPerSocket=56 Gres=gpu:8 State=UNKNOWN\n",
        "JobId=812 JobName=bert\n   UserId=mira(4021) GroupId=ml(400) MCS_label=N/A\n   NodeList=dgx07\n",
        "Node dgx99 not found\n",
        "PartitionName=long\n   AllowGroups=ALL\n   Nodes=dgx[07-08]\n   State=UP TotalCPUs=8\n",
    ),
)
