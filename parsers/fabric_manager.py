"""NVIDIA fabric manager: the user-space service that watches the NVSwitches, with its own view of their errors.

    [Mar 03 2026 04:05:06] [ERROR] [tid 44] detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch pci bus id
    00000000:8A:00.0 physical id 2 port 41                                                        (one line)
    [2026-03-03 04:05:06] [ERROR] [tid 44] NVSwitch non-fatal error 12028 on fid 2 physical id 3 port 61

Its codes are those of the SXid lines in the kernel log; the port is the link.
https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aftershock.parsers.envelopes.syslog import iso_reading
from aftershock.parsers.formats import Found, Head, Line, LineFormat, Refused, Sample, expect
from aftershock.parsers.kernel.text import is_by
from aftershock.parsers.kernel.xid import INT32_MAX, pci_of
from aftershock.schemas.events import GpuError

_WRITERS: Final = ("nv-fabricmanager", "nv-fabric", "nvidia-fabric", "fabricmanager", "fabric-manager")
_ERROR: Final = re.compile(
    rb"""
    (?:\[(?P<time>\d{4}-\d\d-\d\d\ \d\d:\d\d:\d\d)\]\ )?    # date, level and thread, in its own log file
    (?P<said>)(?P<level>\[[A-Z]{3,8}\]\ )?(?:\[tid\ \d{1,10}\]\ )?
    (?P<detected>detected\ )?(?:NVSwitch\ (?P<severity>fatal|non-fatal)\ )?
    error\ (?P<code>\d{1,12})\ on\ fid\ \d{1,9}
    (?P<where>(?:
        \ (?:on\ )?NVSwitch\b|\ pci\ bus\ id\ [0-9a-fA-F:.]{7,16}|\ physical\ id\ \d{1,9}|\ port\ \d{1,4}\b
    ){0,8})
    (?P<rest>.{0,8})
    """,
    re.VERBOSE,
)

_SEVERITIES: Final = {b"fatal": "fatal", b"non-fatal": "nonfatal"}
_OWN_LOG: Final = re.compile(
    rb"\[(?:[A-Z][a-z]{2} \d\d \d{4}|\d{4}-\d\d-\d\d) [\d:]{8}\] \[[A-Z]{3,8}\] \[tid \d{1,10}\]"
)
_PCI: Final = re.compile(rb"pci bus id ([0-9a-fA-F:.]{7,16})")
_PORT: Final = re.compile(rb"port (\d{1,4})")


def read(line: Line) -> Iterator[Found | Refused]:
    """The row of an NVSwitch error."""
    envelope = line.envelope
    found = _ERROR.match(envelope.message)
    if found is None or int(found["code"]) > INT32_MAX or not is_by(envelope, _WRITERS):
        return
    if not found["detected"] and not _is_whole(found, named=envelope.tag is not None and envelope.tag in _WRITERS):
        return
    pci, port = _PCI.search(found["where"]), _PORT.search(found["where"])
    own = iso_reading(found["time"]) if found["time"] else None
    row = GpuError(
        family="fabric_manager",
        code=int(found["code"]),
        pci=pci_of(pci[1]) if pci else None,
        pci_raw=pci[1].decode("ascii") if pci else None,
        severity=_SEVERITIES.get(found["severity"]),
        link=int(port[1]) if port else None,
        trust="relayed",
        host_raw=envelope.host,
        message=envelope.message[found.start("said") :].decode("utf-8", "backslashreplace"),
    )
    yield Found(row, own or envelope.reading, line.offset)


def _is_whole(found: re.Match[bytes], *, named: bool) -> bool:
    """Whether a line that does not say ``detected`` is one of the service: with its level or name, and where it was."""
    if not found["where"] or (found["severity"] is None and not (named or found["level"])):
        return False
    return not found["rest"].strip() or found["level"] is not None or named


def detects(head: Head) -> float:
    """Its log file has level and thread behind a date with a year."""
    lines = head.lines()
    own = [line for line in lines if _OWN_LOG.match(line)]
    return 0.9 * len(own) / len(lines) if own else 0.0


FORMAT = LineFormat(
    name="fabric_manager",
    doc="The log of the NVIDIA fabric manager: errors of NVSwitches, the twins of SXid lines in the kernel log.",
    url="https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/",
    tables=("gpu_errors",),
    detects=detects,
    signatures=(rb"NVSwitch (?:non-)?fatal error \d", rb" on fid \d"),
    read=read,
    samples=(
        Sample(
            "[Mar 03 2026 04:05:06] [ERROR] [tid 4411] detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch "
            "pci bus id 00000000:8A:00.0 physical id 2 port 41\n",
            (
                expect(
                    "gpu_errors",
                    family="fabric_manager",
                    code=12028,
                    pci="0000:8a:00.0",
                    pci_raw="00000000:8A:00.0",
                    severity="nonfatal",
                    link=41,
                    time_local="Mar 03 2026 04:05:06",
                ),
            ),
        ),
        Sample(
            "Mar  3 04:05:06 gpu021 nv-fabricmanager[1802]: detected NVSwitch fatal error 20034 on fid 0 on NVSwitch "
            "pci bus id 00000000:8B:00.0 physical id 3 port 7\n",
            (expect("gpu_errors", code=20034, severity="fatal", link=7, host="gpu021"),),
        ),
        Sample(
            "[2026-03-03 04:05:06] [ERROR] [tid 4411] detected NVSwitch non-fatal error 10003 on fid 0 on NVSwitch "
            "pci bus id 00000000:8A:00.0 physical id 4 port 2\n"
            "[2026-03-03 04:05:07] [ERROR] [tid 4411] NVSwitch non-fatal error 12028 on fid 2 physical id 3 port 61\n"
            "[2026-03-03 04:05:08] [ERROR] [tid 4411] NVSwitch fatal error 20034 on fid 0 port 61 on NVSwitch pci bus "
            "id 00000000:8B:00.0\n"
            "[2026-03-03 04:05:09] [ERROR] [tid 4411] error 20034 on fid 0 port 60\n",
            (
                expect("gpu_errors", code=10003, pci="0000:8a:00.0", link=2, time=1772510706000000),
                expect("gpu_errors", code=12028, pci=None, link=61, severity="nonfatal", time=1772510707000000),
                expect("gpu_errors", code=20034, pci="0000:8b:00.0", link=61, severity="fatal"),
                expect("gpu_errors", code=20034, pci=None, link=60, severity=None),
            ),
        ),
    ),
    non_samples=(
        "error 20034 on fid 0 port 61\n",
        "NVSwitch fatal error 20034 on fid 0 port 61 means that the trunk is gone\n",
        "[Mar 03 2026 04:05:06] [INFO] [tid 4411] Connected to 4 NVSwitches\n",
        "[Mar 03 2026 04:05:06] [INFO] [tid 4411] multi node topology: NVSwitch fatal error scope is node\n",
        "When you see detected NVSwitch fatal error 20034 on fid 0, restart the fabric manager.\n",
        'summary: "detected NVSwitch non-fatal error 12028 on fid 0"\n',
    ),
)
