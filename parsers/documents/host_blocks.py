"""The output of one command on many hosts, gathered under a line that names the host.

    ---------------
    gpu[021-022]                         clush -b, dshbak: hosts with the same output together
    ---------------
    [  77.000001] NVRM: ...

    gpu021 | CHANGED | rc=0 >>           ansible, ad hoc
    [  77.000001] NVRM: ...

    [1] 07:15:42 [SUCCESS] gpu021        parallel-ssh
    [  77.000001] NVRM: ...

The output of each host is read as the file that it is, and its rows are on that host; where hosts are listed together,
each of them printed it. Labels before every line (``gpu021: ...``) are envelopes of lines.
https://clustershell.readthedocs.io/en/latest/tools/clush.html, https://linux.die.net/man/1/dshbak,
https://docs.ansible.com/ansible/latest/command_guide/intro_adhoc.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final

from aftershock.parsers.documents.sections import Item, Section, read_sections
from aftershock.parsers.formats import DocumentFormat, Head, Sample, expect
from aftershock.parsers.hostlist import HostListError, expand_hosts

_DASHES: Final = re.compile(rb"-{8,80}\s*")
# One word with a number in it, brackets of a host list, maybe how many there are.
_HOSTS: Final = re.compile(
    rb"(?=[^\s]*\d)([A-Za-z][\w.-]*(?:\[[\d,-]{1,400}\][\w.-]*)*(?:,[A-Za-z][\w.,\[\]-]*)?)(?: \(\d{1,6}\))?\s*"
)
_ANSIBLE: Final = re.compile(
    rb"([A-Za-z0-9][A-Za-z0-9._-]{0,252}) \| (?:CHANGED|SUCCESS|FAILED|UNREACHABLE!?)"
    rb"(?: \| rc=-?\d{1,3} >>| => \{.*)\s*"
)
_PSSH: Final = re.compile(
    rb"\[\d{1,6}\] \d\d:\d\d:\d\d \[(?:SUCCESS|FAILURE)\] ([A-Za-z0-9][A-Za-z0-9._@-]{0,252})(?: Exited with .*)?\s*"
)
# More hosts than any cluster has under one line are a mistake.
_MOST_HOSTS: Final = 10_000


class _Cutter:
    """Finds the lines that name hosts. The frame of dshbak has three of them."""

    def __init__(self) -> None:
        self._above: list[bytes] = []

    def cut(self, line: bytes, behind: int) -> Section | None:
        """The section that begins behind this line."""
        single = _ANSIBLE.fullmatch(line) or _PSSH.fullmatch(line)
        if single is not None:
            self._above = []
            return Section(behind, hosts=(_text(single[1]).rsplit("@", 1)[-1],))
        framed = _DASHES.fullmatch(line) is not None
        if framed and len(self._above) == 2 and len(self._above[0].rstrip()) == len(line.rstrip()):
            named = _HOSTS.fullmatch(self._above[1])
            hosts = _expanded(_text(named[1])) if named is not None else ()
            self._above = [line]
            return Section(behind, hosts=hosts) if hosts else None
        self._above = [line] if framed else ([*self._above, line] if len(self._above) == 1 else [])
        return None


def _text(printed: bytes) -> str:
    return printed.decode("utf-8", "backslashreplace")


def _expanded(printed: str) -> tuple[str, ...]:
    try:
        return tuple(expand_hosts(printed, _MOST_HOSTS))
    except HostListError:
        return ()


def read(stream: BinaryIO) -> Iterator[Item]:
    """The rows of every host's output."""
    yield from read_sections(stream, _Cutter().cut)


def detects(head: Head) -> float:
    """A line that names hosts stands at the beginning."""
    cutter = _Cutter()
    for line in head.lines(5):
        if cutter.cut(line + b"\n", 1) is not None:
            return 0.8
    return 0.0


_XID: Final = "NVRM: Xid (PCI:0000:9d:00): 48, pid=7, name=a.out, DBE (double bit error) ECC Error"

_SAMPLES: Final = (
    Sample(
        f"----------------\ngpu[021-022]\n----------------\n[   77.000001] {_XID}\n"
        f"----------------\ngpu023\n----------------\n[   12.000001] usb 1-1: new device\n[  88.000001] {_XID}\n",
        (
            expect("gpu_errors", code=48, host="gpu021", time_local="77.000001"),
            expect("gpu_errors", code=48, host="gpu022", time_local="77.000001"),
            expect("gpu_errors", code=48, host="gpu023", time_local="88.000001"),
        ),
    ),
    Sample(
        f"gpu021 | CHANGED | rc=0 >>\n[Tue Mar  3 07:15:42 2026] {_XID}\ngpu022 | UNREACHABLE! => {{\n"
        '    "changed": false,\n    "msg": "Failed to connect",\n    "unreachable": true\n}\n'
        f"gpu023.cluster | SUCCESS | rc=0 >>\n[Tue Mar  3 07:20:00 2026] {_XID}\n",
        (
            expect("gpu_errors", code=48, host="gpu021", time_local="Tue Mar  3 07:15:42 2026"),
            expect("gpu_errors", code=48, host="gpu023", time_local="Tue Mar  3 07:20:00 2026"),
        ),
    ),
    Sample(
        f"[1] 07:30:00 [SUCCESS] root@gpu021\n[   77.000001] {_XID}\n"
        "[2] 07:30:01 [FAILURE] gpu022 Exited with error code 1\n",
        (expect("gpu_errors", code=48, host="gpu021"),),
    ),
)

FORMAT: Final = DocumentFormat(
    name="host_blocks",
    doc="The output of one command on many hosts under lines that name them: clush -b, dshbak, ansible, parallel-ssh.",
    url="https://clustershell.readthedocs.io/en/latest/tools/clush.html",
    tables=("gpu_errors", "node_events", "gpus", "health_checks"),
    detects=detects,
    read=read,
    samples=_SAMPLES,
    non_samples=(
        "----------------\ngpu021\n----------------\nNVRM: Xid (PCI:0000:9d:00): 79 is what we look for.\n",
        "gpu021 | CHANGED | rc=0 >>\nNVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07\n",
        "----------------\nresults\n----------------\nloss 2.5\n",
        "[1] 07:30:00 [SUCCESS] gpu021\nuptime 9001\n",
    ),
    holds_files=True,
)
