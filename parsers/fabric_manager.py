"""NVIDIA fabric manager: the user-space service that watches the NVSwitches, with its own view of their errors.

    [Mar 03 2026 04:05:06] [ERROR] [tid 44] detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch pci bus id
    00000000:8A:00.0 physical id 2 port 41                                                        (one line)

Its codes are those of the SXid lines in the kernel log; the port is the link.
https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aftershock.parsers.formats import Found, Head, Line, LineFormat, Refused, Sample, expect
from aftershock.parsers.kernel.text import is_by
from aftershock.parsers.kernel.xid import INT32_MAX, pci_of
from aftershock.schemas.events import GpuError

_WRITERS: Final = ("nv-fabricmanager", "nv-fabric", "nvidia-fabric", "fabricmanager", "fabric-manager")
_ERROR: Final = re.compile(
    rb"""
    (?:\[[A-Z]{3,8}\]\ )?(?:\[tid\ \d{1,10}\]\ )?          # level and thread, in its own log file
    detected\ NVSwitch\ (?P<severity>fatal|non-fatal)\ error\ (?P<code>\d{1,12})\ on\ fid\ \d+
    (?:(?:\ on)?\ NVSwitch)?
    (?:\ pci\ bus\ id\ (?P<pci>[0-9a-fA-F:.]{7,16}))?
    (?:\ physical\ id\ \d+)?
    (?:\ port\ (?P<port>\d{1,4}))?
    """,
    re.VERBOSE,
)


def read(line: Line) -> Iterator[Found | Refused]:
    """The row of an NVSwitch error."""
    envelope = line.envelope
    found = _ERROR.match(envelope.message)
    if found is None or int(found["code"]) > INT32_MAX or not is_by(envelope, _WRITERS):
        return
    row = GpuError(
        family="fabric_manager",
        code=int(found["code"]),
        pci=pci_of(found["pci"]) if found["pci"] else None,
        pci_raw=found["pci"].decode("ascii") if found["pci"] else None,
        severity="nonfatal" if found["severity"] == b"non-fatal" else "fatal",
        link=int(found["port"]) if found["port"] else None,
        trust="relayed",
        host_raw=envelope.host,
        message=envelope.message.decode("utf-8", "backslashreplace"),
    )
    yield Found(row, envelope.reading, line.offset)


def detects(head: Head) -> float:
    """Its log file has level and thread behind a date with a year."""
    lines = head.lines()
    own = [line for line in lines if re.match(rb"\[[A-Z][a-z]{2} \d\d \d{4} [\d:]{8}\] \[[A-Z]+\] \[tid \d+\]", line)]
    return 0.9 * len(own) / len(lines) if own else 0.0


FORMAT = LineFormat(
    name="fabric_manager",
    doc="The log of the NVIDIA fabric manager: errors of NVSwitches, the twins of SXid lines in the kernel log.",
    url="https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/",
    tables=("gpu_errors",),
    detects=detects,
    signatures=(rb"NVSwitch (?:non-)?fatal error \d",),
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
    ),
    non_samples=(
        "[Mar 03 2026 04:05:06] [INFO] [tid 4411] Connected to 4 NVSwitches\n",
        "[Mar 03 2026 04:05:06] [INFO] [tid 4411] multi node topology: NVSwitch fatal error scope is node\n",
        "When you see detected NVSwitch fatal error 20034 on fid 0, restart the fabric manager.\n",
        'summary: "detected NVSwitch non-fatal error 12028 on fid 0"\n',
    ),
)
