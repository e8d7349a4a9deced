"""nvidia-bug-report.log(.gz): what NVIDIA's script collects on a host, the kernel's log among it.

    ____________________________________________

    Start of NVIDIA bug report log file.  Please include this file, along
    ...
    Date: Tue Mar  3 07:30:00 UTC 2026
    uname: Linux gpu021 5.15.0-105-generic #115-Ubuntu SMP ... x86_64 GNU/Linux
    ____________________________________________

    dmesg:

    [    0.000000] Linux version 5.15.0-105-generic ...

Sections are divided by a line of underscores and begin with the name of a file (``*** /var/log/...``) or of a command.
The same record usually stands in several of them (in dmesg by the clock since boot, in the journal by the wall clock):
each is a row. Sections of other boots and logs have clocks of their own. The host is that of ``uname``; the date of the
report, where its zone is certain, tells year and zone of the clocks that print neither.

https://docs.nvidia.com/deploy/gpu-debug-guidelines/index.html#nvidia-bug-report
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final

from aftershock.parsers.clock import MONTHS, SECOND, Reading, wall_micros, zone_offset_micros
from aftershock.parsers.documents.sections import Item, Section, read_sections
from aftershock.parsers.formats import DocumentFormat, Head, Mark, Sample, expect

_RULE: Final = re.compile(rb"_{40,100}\s*")
# The messages of several log files follow each other under a line with the name of each.
_LOG_FILE: Final = re.compile(rb"\s{0,4}(/var/log/[\w./-]+|journalctl[^:]{0,80}):\s*")
_TITLE: Final = re.compile(rb"\*\*\* |/\S*/\w|[\w. -]{1,60}(?::|\(\))\s*\Z|Running |Skipping |\s*\Z")
_MOST_TITLE_LINES: Final = 4

_UNAME: Final = re.compile(rb"uname: Linux (\S{1,255}) ")
_DATE: Final = re.compile(
    rb"Date: \w{3} (?P<month>[A-Z][a-z]{2}) {1,2}(?P<day>\d{1,2}) "
    rb"(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)(?: (?P<half>AM|PM))? "
    rb"(?P<zone>UTC|GMT|[+-]\d{2}(?:\d\d)?) (?P<year>\d{4})\s*"
)
_START: Final = b"Start of NVIDIA bug report log file"


class _Cutter:
    """Finds the sections of one report, and the host and the date in its first."""

    def __init__(self) -> None:
        self.host: str | None = None
        self.date: Mark | None = None
        self._title_lines = 0
        self._prologue = True

    def cut(self, line: bytes, behind: int) -> Section | None:
        """The section whose text begins behind this line."""
        if _RULE.fullmatch(line):
            self._title_lines = _MOST_TITLE_LINES
            return Section(behind)
        log_file = _LOG_FILE.fullmatch(line)
        if log_file is not None:
            self._title_lines = 0
            return Section(behind, _name(log_file[1]))
        if self._title_lines and _TITLE.match(line):
            # The title is not part of the text: what begins behind it is recognised by its own beginning.
            self._title_lines -= bool(line.strip())
            return Section(behind, _name(line))
        self._title_lines = 0
        if self._prologue:
            self._read_prologue(line, behind - len(line))
        return None

    def _read_prologue(self, line: bytes, offset: int) -> None:
        uname = _UNAME.match(line)
        if uname is not None:
            self.host = uname[1].decode("utf-8", "backslashreplace")
            self._prologue = False
        date = _DATE.fullmatch(line)
        reading = None if date is None else _reading(date)
        if reading is not None:
            self.date = Mark(offset, reading, "nvidia_bug_report")


def _name(printed: bytes) -> str:
    return printed.strip(b"* :\r\n").rsplit(b"/", 1)[-1].decode("utf-8", "replace")[:255]


def _reading(date: re.Match[bytes]) -> Reading | None:
    """The local time of the report with its UTC beside it: an anchor."""
    hour = int(date["h"])
    if date["half"] is not None:
        hour = hour % 12 + (12 if date["half"] == b"PM" else 0)
    month = MONTHS.get(date["month"].decode("ascii"))
    if month is None:
        return None
    wall = wall_micros(int(date["year"]), month, int(date["day"]), hour, int(date["m"]), int(date["s"]))
    offset = 0 if date["zone"] in (b"UTC", b"GMT") else zone_offset_micros(date["zone"])
    if wall is None or offset is None:
        return None
    return Reading("local", wall, None, wall - offset, SECOND, date.group().strip().decode("ascii", "replace"))


def read(stream: BinaryIO) -> Iterator[Item]:
    """The rows of all sections."""
    cutter = _Cutter()
    told = False
    for item in read_sections(stream, cutter.cut, lambda: cutter.host):
        if cutter.date is not None and not told:
            told = True
            yield cutter.date
        yield item


def detects(head: Head) -> float:
    """The script's own first words, under its first line."""
    return 0.99 if head.data.lstrip()[:20] == b"_" * 20 and _START in head.data[:4096] else 0.0


_LINE: Final = "_" * 44
_PROLOGUE: Final = (
    f"{_LINE}\n\nStart of NVIDIA bug report log file.  Please include this file, along\nwith a detailed description of "
    "your problem, when reporting a graphics\ndriver bug via the NVIDIA Linux forum.\n\n"
    "nvidia-bug-report.sh Version: 35120001\n\nDate: Tue Mar  3 07:30:00 UTC 2026\n"
    "uname: Linux gpu021 5.15.0-105-generic #115-Ubuntu SMP x86_64 GNU/Linux\ncommand line flags: \n\n"
)
_XID: Final = "NVRM: Xid (PCI:0000:9d:00): 48, pid=7, name=a.out, DBE (double bit error) ECC Error"

_SAMPLES: Final = (
    Sample(
        f"{_PROLOGUE}{_LINE}\n\n*** /proc/driver/nvidia/./version\n*** ls: -r--r--r-- 1 root root 0 "
        "2026-03-03 07:30:00 +0000 /proc/driver/nvidia/./version\n"
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07\n\n"
        f"{_LINE}\n\nScanning kernel log files for NVRM messages:\n\n  /var/log/kern.log:\n"
        f"Mar  3 07:15:42 gpu021 kernel: [ 9001.250000] {_XID}\n\n"
        f"{_LINE}\n\ndmesg:\n\n[    0.000000] Linux version 5.15.0-105-generic (builder@lab)\n"
        f"[ 9001.250000] {_XID}\n\n",
        (
            expect("gpu_errors", code=48, host="gpu021", time_local="Mar  3 07:15:42"),
            expect("node_events", kind="boot", host="gpu021", time_local="0.000000"),
            expect("gpu_errors", code=48, host="gpu021", time=None, time_local="9001.250000"),
        ),
    ),
)

FORMAT: Final = DocumentFormat(
    name="nvidia_bug_report",
    doc="The report that nvidia-bug-report.sh writes: each section is read as the file that it is.",
    url="https://docs.nvidia.com/deploy/gpu-debug-guidelines/index.html#nvidia-bug-report",
    tables=("gpu_errors", "node_events", "gpus", "health_checks"),
    detects=detects,
    read=read,
    samples=_SAMPLES,
    non_samples=(
        f'{_PROLOGUE}{_LINE}\n\n/usr/bin/lspci -d "10de:*" -v -xxx\n\n9d:00.0 3D controller: NVIDIA Corporation\n',
        f"{_PROLOGUE}{_LINE}\n\n*** /etc/motd\nNVRM: Xid (PCI:0000:9d:00): 79 means that a GPU is gone.\n",
        f"{_PROLOGUE}{_LINE}\n\n*** /var/log/nvidia-installer.log does not exist\n\n",
    ),
    holds_files=True,
)
