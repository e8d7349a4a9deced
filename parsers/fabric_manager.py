"""NVIDIA fabric manager: the user-space service that watches the NVSwitches, with its own view of their errors.

    [Mar 03 2026 04:05:06] [ERROR] [tid 44] detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch pci bus id
    00000000:8A:00.0 physical id 2 port 41                                                        (one line)
    [2026-03-03 04:05:06] [ERROR] [tid 44] NVSwitch non-fatal error 12028 on fid 2 physical id 3 port 61

Its codes are those of the SXid lines in the kernel log; the port is the link. What it says without such a code are
results of a check: that it does not start, that a GPU is missing in the fabric, and, on a switch tray of a rack, that a
link failed: which one stands in the lines below (``gpuGuid : 0x...``).
https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aftershock.parsers.envelopes.syslog import iso_reading
from aftershock.parsers.formats import Found, Head, Line, LineFormat, Refused, Sample, expect
from aftershock.parsers.kernel.text import is_by, lines_below
from aftershock.parsers.kernel.xid import INT32_MAX, pci_of
from aftershock.schemas.events import GpuError, HealthCheck

_CHECKER: Final = "fabric_manager"
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

# Faults without a code: what is checked, and how the line goes on.
_LEVEL: Final = re.compile(rb"(?:\[(?P<level>[A-Z]{3,8})\] )?(?:\[tid \d{1,10}\] )?")
_FAULTS: Final = (
    ("start", re.compile(rb"request to query NVSwitch device information from NVSwitch driver failed with error:")),
    ("start", re.compile(rb"[A-Za-z][^\[\]\"`]{4,200}, aborting fabric manager\b")),
    ("multicast", re.compile(rb"failed to find the GPU handle \d{1,20} in the multicast team request setup \d")),
    ("gpu_nvlink", re.compile(rb"Fabric Manager detected (?:stale )?GPU NVL (?P<mild>Non )?Fatal error on\b")),
    ("trunk_link", re.compile(rb"Trunk port failure detected for switch GUID 0x[0-9a-fA-F]{1,16}\b")),
)
_PART: Final = re.compile(
    rb"(?P<key>moduleId|nodeId|partitionId|gpuGuid|portNum|portStatus|errorCode|errorSubcode|portDownReasonCode"
    rb"|isErrorFirst|errorStatus) : (?P<value>0x[0-9a-fA-F]{1,16}|\d{1,10})\b"
)
_HAS_PARTS: Final = "gpu_nvlink"
_MOST_PARTS: Final = 16

_SEVERITIES: Final = {b"fatal": "fatal", b"non-fatal": "nonfatal"}
_OWN_LOG: Final = re.compile(
    rb"\[(?:[A-Z][a-z]{2} \d\d \d{4}|\d{4}-\d\d-\d\d) [\d:]{8}\] \[[A-Z]{3,8}\] \[tid \d{1,10}\]"
)
_PCI: Final = re.compile(rb"pci bus id ([0-9a-fA-F:.]{7,16})")
_PORT: Final = re.compile(rb"port (\d{1,4})")


def read(line: Line) -> Iterator[Found | Refused]:
    """The row of an NVSwitch error, or of a fault without a code."""
    envelope = line.envelope
    found = _ERROR.match(envelope.message)
    if found is None:
        yield from _fault(line)
        return
    if int(found["code"]) > INT32_MAX or not is_by(envelope, _WRITERS):
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


def _fault(line: Line) -> Iterator[Found]:
    """A fault that has no code: of the service by its name, or by level and thread."""
    envelope = line.envelope
    level = _LEVEL.match(envelope.message)
    assert level is not None  # every part of it may be missing
    named = envelope.tag is not None and envelope.tag.startswith(_WRITERS)
    if not (named or level["level"]) or not is_by(envelope, _WRITERS):
        return
    said_bytes = envelope.message[level.end() :]
    for check, pattern in _FAULTS:
        found = pattern.match(said_bytes)
        if found is None:
            continue
        mild = level["level"] in (b"WARNING", b"INFO") or bool(found.groupdict().get("mild"))
        text = said_bytes.decode("utf-8", "backslashreplace").strip().removesuffix(" :")
        row = HealthCheck(checker=_CHECKER, check=check, result="warn" if mild else "fail", detail=text)
        row.host_raw, row.message = envelope.host, envelope.message.decode("utf-8", "backslashreplace")
        if check == _HAS_PARTS:
            _add_parts(row, line)
        yield Found(row, envelope.reading, line.offset)
        return


def _add_parts(row: HealthCheck, line: Line) -> None:
    """Which GPU and port a fault of a link is about stands in the lines below it."""
    parts = [row.detail or ""]
    for below in lines_below(line, _MOST_PARTS):
        part = _PART.match(below)
        if part is None:
            break
        key, value = part["key"].decode("ascii"), part["value"].decode("ascii")
        parts.append(f"{key} {value}")
        if key == "gpuGuid":
            row.device = f"GPU {value}"
        elif key == "portNum" and row.device:
            row.device += f" port {value}"
    row.detail = "; ".join(parts)


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
    doc="The log of the NVIDIA fabric manager: errors of NVSwitches, the twins of SXid lines in the kernel log, links "
    "that failed, and that it does not start.",
    url="https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/",
    tables=("gpu_errors", "health_checks"),
    detects=detects,
    signatures=(
        rb"NVSwitch (?:non-)?fatal error \d",
        rb" on fid \d",
        rb"request to query NVSwitch device ",
        rb", aborting fabric manager",
        rb" in the multicast team request setup ",
        rb"detected (?:stale )?GPU NVL (?:Non )?Fatal ",
        rb"Trunk port failure detected ",
    ),
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
        Sample(
            "Mar  3 04:05:06 gpu021 nv-fabricmanager[1802]: request to query NVSwitch device information from NVSwitch "
            "driver failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]\n"
            "Mar  3 04:05:07 gpu021 nv-fabricmanager[1802]: detected number of NVSwitches don't match with any "
            "supported system topology, aborting fabric manager\n",
            (
                expect("health_checks", checker="fabric_manager", check="start", result="fail", host="gpu021"),
                expect("health_checks", checker="fabric_manager", check="start", result="fail", host="gpu021"),
            ),
        ),
        Sample(
            "[Mar 03 2026 04:05:06] [ERROR] [tid 202] Fabric Manager detected GPU NVL Fatal error on :\n"
            "moduleId : 3\n"
            "nodeId : 7\n"
            "partitionId : 4137\n"
            "gpuGuid : 0x1A2B3C4D5E6F7081\n"
            "portNum : 4\n"
            "errorCode : 0x06\n"
            "[Mar 03 2026 04:05:07] [WARNING] [tid 202] Trunk port failure detected for switch GUID 0xfc6a1c0300a1b2c3 "
            "and switch chassis sn 1820, slot 1 port number 7 port GUID 0xfc6a1c0300a1b2c4 cage 4.\n"
            "[Mar 03 2026 04:05:08] [ERROR] [tid 202] failed to find the GPU handle 1018786 in the multicast team "
            "request setup 5653964.\n",
            (
                expect(
                    "health_checks",
                    check="gpu_nvlink",
                    result="fail",
                    device="GPU 0x1A2B3C4D5E6F7081 port 4",
                    detail="Fabric Manager detected GPU NVL Fatal error on; moduleId 3; nodeId 7; partitionId 4137; "
                    "gpuGuid 0x1A2B3C4D5E6F7081; portNum 4; errorCode 0x06",
                ),
                expect("health_checks", check="trunk_link", result="warn"),
                expect("health_checks", check="multicast", result="fail"),
            ),
        ),
    ),
    non_samples=(
        "moduleId : 3\nnodeId : 7\nportNum : 4\n",
        "detected number of NVSwitches don't match with any supported system topology, aborting fabric manager\n",
        "[Mar 03 2026 04:05:06] [INFO] [tid 4411] Fabric Manager detected 4 GPUs\n",
        "error 20034 on fid 0 port 61\n",
        "NVSwitch fatal error 20034 on fid 0 port 61 means that the trunk is gone\n",
        "[Mar 03 2026 04:05:06] [INFO] [tid 4411] Connected to 4 NVSwitches\n",
        "[Mar 03 2026 04:05:06] [INFO] [tid 4411] multi node topology: NVSwitch fatal error scope is node\n",
        "When you see detected NVSwitch fatal error 20034 on fid 0, restart the fabric manager.\n",
        'summary: "detected NVSwitch non-fatal error 12028 on fid 0"\n',
    ),
)
