"""Events in HTCondor's log of jobs: a header with code, job and time, and lines below it.

https://htcondor.readthedocs.io/en/latest/codes-other-values/job-event-log-codes.html. See :mod:`.htcondor`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from aftershock.parsers.clock import SECOND, ClockKind, Reading, wall_micros
from aftershock.parsers.slurm_words import LAST_SIGNAL

HEADER: Final = re.compile(
    rb"(?P<code>0[0-9]{2}) \((?P<cluster>[0-9]{3,10})\.(?P<proc>[0-9]{3,10})\.[0-9]{3}\) "
    rb"(?:(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})[ T]|(?P<month2>[0-9]{2})/(?P<day2>[0-9]{2}) )"
    rb"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})(?:\.(?P<milli>[0-9]{3}))?(?P<utc>Z)? "
    rb"(?P<text>[A-Z].*)\Z",
    re.DOTALL,
)
_YEARLESS: Final = 1972
_SLOT: Final = re.compile(r"\s*SlotName: \S{1,128}@(?P<host>[\w.-]{1,253})\s*\Z")
_ALIAS: Final = re.compile(r"[?&]alias=(?P<host>[\w.-]{1,253})")
_ADDRESS: Final = re.compile(r"<(?P<host>[0-9.]{7,15}):[0-9]{1,5}[?>]")
_NORMAL: Final = re.compile(r"\s*\(1\) Normal termination \(return value (?P<code>-?[0-9]{1,10})\)")
_ABNORMAL: Final = re.compile(r"\s*\(0\) Abnormal termination \(signal (?P<signal>[0-9]{1,3})\)")
_USAGE: Final = re.compile(r"\s*(?:\(\d\) |Usr |[0-9]+  -  |Partitionable Resources|\w+ (?:\(\w+\) )?+ *:|Code [0-9])")
_LONGEST: Final = 4096


@dataclass(slots=True)
class JobEvent:
    """An event of a job: its code, and its lines, of which the first is the header's text."""

    code: int
    job: str
    offset: int
    clock: Reading
    lines: list[str]

    @property
    def message(self) -> str:
        """All that it says."""
        return "\n".join(self.lines)[:_LONGEST]

    def find(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """What a pattern finds at the beginning of a line below the header."""
        return next((found for line in self.lines[1:] if (found := pattern.match(line))), None)

    @property
    def reason(self) -> str | None:
        """The first line below the header that is neither a count nor a code."""
        told = (line.strip() for line in self.lines[1:] if not _USAGE.match(line))
        return next((line.removeprefix("Reason: ") for line in told if line), None)


def event_of(header: re.Match[bytes], offset: int) -> JobEvent | None:
    """The event that begins with a header; None for a date that does not exist."""
    year = int(header["year"] or _YEARLESS)
    month, day = int(header["month"] or header["month2"]), int(header["day"] or header["day2"])
    hour, minute, second = (int(header[name]) for name in ("hour", "minute", "second"))
    wall = wall_micros(year, month, day, hour, minute, second, int(header["milli"] or 0) * 1000)
    if wall is None:
        return None
    kind: ClockKind = "zoned" if header["utc"] and header["year"] else "local" if header["year"] else "yearless"
    stamp = header[0][header.end("proc") + 6 : header.start("text") - 1].decode("ascii")
    reading = Reading(kind, wall, resolution=1000 if header["milli"] else SECOND, text=stamp)
    job = f"{int(header['cluster'])}.{int(header['proc'])}"
    return JobEvent(int(header["code"]), job, offset, reading, [header["text"].decode("utf-8", "backslashreplace")])


def hosts_of(event: JobEvent) -> list[str]:
    """The host that an event names: by its slot, its alias or its address."""
    slot = event.find(_SLOT)
    found = slot or _ALIAS.search(event.lines[0]) or _ADDRESS.search(event.lines[0])
    return [found["host"]] if found else []


def exit_of(event: JobEvent) -> tuple[int | None, int | None]:
    """Exit code and signal."""
    normal, abnormal = event.find(_NORMAL), event.find(_ABNORMAL)
    if normal:
        code = int(normal["code"])
        return (code if abs(code) < 1 << 31 else None), None
    signal = int(abnormal["signal"]) if abnormal else 0
    return None, signal if 0 < signal <= LAST_SIGNAL else None
