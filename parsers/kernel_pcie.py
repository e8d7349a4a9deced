"""PCI Express errors: advanced error reporting (AER), told over several lines, and firmware-first error records.

    pcieport 0000:3a:00.0: AER: Corrected error received: 0000:3b:00.0
    nvidia 0000:3b:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)
    nvidia 0000:3b:00.0:   device [10de:2330] error status/mask=00000001/0000a000
    nvidia 0000:3b:00.0:    [ 0] RxErr

A port reports, and a device (the port itself, or one below it) has the error: one occurrence.
https://docs.kernel.org/PCI/pcieaer-howto.html
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from typing import Final

from aftershock.parsers.clock import SECOND, micros_between
from aftershock.parsers.formats import Found
from aftershock.schemas.events import NodeEvent

# Marks by which ``settle`` knows the report of a port and the error of a device.
REPORT, ERROR = "aer_report", "aer_error"

SIGNATURES: Final = (rb"AER: .{0,40}rror ", rb"PCIe Bus Error: ", rb"from APEI Generic Hardware Error Source")

_BDF: Final = rb"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_REPORT: Final = re.compile(
    rb"\S{1,40} (?P<port>" + _BDF + rb"): AER: (?:Multiple )?(?:Correct|Uncorrect)[a-z]{2,4}(?: \([A-Za-z-]+\))? "
    rb"error (?:message )?received(?: from|:) (?P<source>" + _BDF + rb")"
)
_ERROR: Final = re.compile(rb"\S{1,40} (?P<device>" + _BDF + rb"): (?:AER: )?PCIe Bus Error: severity=")
_FIRMWARE: Final = re.compile(
    rb"(?:\{\d+\})?\[Hardware Error\]: Hardware error from APEI Generic Hardware Error Source"
)
_SECTION: Final = re.compile(rb"section_type: ([A-Za-z ]{3,40})")
_DEVICE_ID: Final = re.compile(rb"device_id: (" + _BDF + rb")")
# A record of the firmware has some twenty lines.
_FIRMWARE_BYTES: Final = 3000

# Ports that do not know who failed report this address.
_NOBODY: Final = b"0000:00:00.0"
_BLOCK_WITHIN: Final = SECOND
_BLOCK_BYTES: Final = 2048


def read_pcie_line(message: bytes, following: bytes) -> tuple[NodeEvent, str] | None:
    """The row of a PCIe error line and its mark; None if it is none (details of a block are none)."""
    report = _REPORT.match(message)
    if report is not None:
        device = report["source"] if report["source"] != _NOBODY else report["port"]
        return NodeEvent(kind="pcie_error", device=device.decode("ascii")), REPORT
    error = _ERROR.match(message)
    if error is not None:
        return NodeEvent(kind="pcie_error", device=error["device"].decode("ascii")), ERROR
    if _FIRMWARE.match(message):
        return _read_firmware(following[:_FIRMWARE_BYTES]), ""
    return None


def _read_firmware(below: bytes) -> NodeEvent:
    section = _SECTION.search(below)
    word = section[1].lower() if section else b""
    if b"pcie" in word:
        device = _DEVICE_ID.search(below)
        return NodeEvent(kind="pcie_error", device=device[1].decode("ascii") if device else None)
    return NodeEvent(kind="memory_error" if b"memory" in word else "machine_check")


def join_reports(found: list[Found]) -> list[Found]:
    """One row for a report and the error that it announces: the error's text at the place and time of the report."""
    reports: dict[str | None, deque[Found]] = defaultdict(lambda: deque(maxlen=8))
    gone: set[int] = set()
    for item in found:
        row = item.row
        if not isinstance(row, NodeEvent):
            continue
        if item.mark == REPORT:
            reports[row.host_raw].append(item)
        elif item.mark == ERROR:
            announced = next((r for r in reversed(reports[row.host_raw]) if _announces(r, item, row)), None)
            if announced is not None and isinstance(announced.row, NodeEvent):
                gone.add(id(announced))
                reports[row.host_raw].remove(announced)
                row.count = max(row.count or 1, announced.row.count or 1)
                item.reading, item.offset = announced.reading, announced.offset
    joined = [item for item in found if id(item) not in gone]
    joined.sort(key=lambda item: item.offset)
    return joined


def _announces(report: Found, error: Found, row: NodeEvent) -> bool:
    message = report.row.message if isinstance(report.row, NodeEvent) else None
    if row.device is None or message is None or row.device not in message:
        return False
    apart = micros_between(report.reading, error.reading)
    if apart is None:
        return error.offset - report.offset <= _BLOCK_BYTES
    return 0 <= apart <= _BLOCK_WITHIN
