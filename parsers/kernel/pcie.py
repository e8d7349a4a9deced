"""PCI Express errors: advanced error reporting (AER) and containment (DPC), told over several lines.

    pcieport 0000:3a:00.0: AER: Corrected error received: 0000:3b:00.0
    nvidia 0000:3b:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)
    nvidia 0000:3b:00.0:   device [10de:2330] error status/mask=00000001/0000a000
    nvidia 0000:3b:00.0:    [ 0] RxErr

A port reports, and a device (the port itself, or one below it) has the error: one occurrence. The row is about the
device; the port stands behind it, as in ``0000:3b:00.0 via 0000:3a:00.0``.
https://docs.kernel.org/PCI/pcieaer-howto.html, https://github.com/torvalds/linux/blob/master/drivers/pci/pcie/aer.c
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Final

from aftershock.parsers.clock import SECOND, micros_between
from aftershock.parsers.formats import Found, Line, Sample, expect
from aftershock.parsers.kernel.rules import BDF, ECHO, Match, Rule, event, text_of
from aftershock.parsers.patterns import later
from aftershock.schemas.events import NodeEvent

# Marks by which ``settle`` knows the report of a port and the error of a device.
REPORT, ERROR = "aer_report", "aer_error"
SLOT: Final = "slot_down"

_URL: Final = "https://docs.kernel.org/PCI/pcieaer-howto.html"
_DPC_URL: Final = "https://github.com/torvalds/linux/blob/master/drivers/pci/pcie/dpc.c"
_SLOT_URL: Final = "https://github.com/torvalds/linux/blob/master/drivers/pci/hotplug/pciehp_ctrl.c"

# Ports that do not know who failed report this address.
_NOBODY: Final = "0000:00:00.0"
_VIA: Final = " via "
_BLOCK_WITHIN: Final = SECOND
_BLOCK_BYTES: Final = 2048

_SEVERITY: Final = rb"(?P<severity>Correct(?:ed|able)|Uncorrect(?:ed|able)(?: \((?P<fatal>Non-Fatal|Fatal)\))?)"


def _report(found: Match, _line: Line) -> NodeEvent:
    port = found["port"].decode("ascii")
    source = text_of(found["source"]) or _device_of(port, found["id"])
    return NodeEvent(kind="pcie_error", device=_behind(source, port), severity=_severity(found))


def _error(found: Match, _line: Line) -> NodeEvent:
    return NodeEvent(kind="pcie_error", device=text_of(found["device"]), severity=_severity(found))


def _contained(found: Match, _line: Line) -> NodeEvent:
    """Bits 1 and 2 of the status say why: a device sent an error message (its id is printed), or the port erred."""
    port = found["port"].decode("ascii")
    reason = int(found["status"], 16) >> 1 & 3
    source = text_of(found["source"]) or (_device_of(port, found["id"]) if reason in (1, 2) else None)
    severity = {1: "nonfatal", 2: "fatal"}.get(reason)
    return NodeEvent(kind="pcie_error", device=_behind(source, port), severity=severity)


def _severity(found: Match) -> str | None:
    if found["severity"].startswith(b"Correct"):
        return "correctable"
    return {b"Fatal": "fatal", b"Non-Fatal": "nonfatal"}.get(found["fatal"], "uncorrectable")


def _device_of(port: str, requester: bytes | None) -> str | None:
    """The address of a 16 bit requester id (bus, device, function), which stands in the domain of the port."""
    if requester is None:
        return None
    number = int(requester, 16)
    return f"{port.partition(':')[0]}:{number >> 8:02x}:{number >> 3 & 31:02x}.{number & 7}"


def _behind(source: str | None, port: str) -> str:
    if source is None or source == port or source.endswith(_NOBODY[4:]):
        return port
    return source + _VIA + port


def _slot(found: Match, _line: Line) -> NodeEvent:
    device = f"{found['port'].decode('ascii')} slot {text_of(found['slot'])}"
    return NodeEvent(kind="link_up" if found["state"] == b"Link Up" else "link_down", device=device)


_DRIVER: Final = rb"[\w-]{1,40}"
_SLOT: Final = rb"pcieport (?P<port>" + BDF + rb"): pciehp: Slot\((?P<slot>[\w-]{1,16})\): "

RULES: Final = (
    Rule(
        words=(b" error received: ", b" error message received from "),
        shape=later(
            _DRIVER + rb" (?P<port>" + BDF + rb"): AER: (?:Multiple )?" + _SEVERITY + rb" error (?:message )?received"
            rb"(?: from|:) (?:(?P<source>" + BDF + rb")|id=(?P<id>[0-9a-f]{4}))"
        ),
        row=_report,
        mark=REPORT,
    ),
    Rule(
        words=(b"PCIe Bus Error: ",),
        shape=later(
            _DRIVER + rb" (?P<device>" + BDF + rb"): (?:AER: )?PCIe Bus Error: severity=" + _SEVERITY + rb", type="
        ),
        row=_error,
        mark=ERROR,
    ),
    Rule(
        words=(b" containment event, status:",),
        shape=later(
            rb"(?:pcieport|pci|dpc) (?P<port>" + BDF + rb")(?::pcie\d{1,4})?: DPC:? containment event, "
            rb"status:0x(?P<status>[0-9a-f]{1,4})"
            rb"(?: source:0x(?P<id>[0-9a-f]{4})|, ERR_\w{1,10} received from (?P<source>" + BDF + rb"))?"
        ),
        row=_contained,
        mark=REPORT,
    ),
    Rule(
        words=(b"): Link Down", b"): Link Up"),
        shape=later(_SLOT + rb"(?P<state>Link Down|Link Up)\s*\Z"),
        row=_slot,
        mark=SLOT,
    ),
    Rule(
        words=(b"): Card not present",),
        shape=later(_SLOT + rb"(?P<state>Card not present)\s*\Z"),
        row=_slot,
        mark=SLOT + ECHO,
    ),
    Rule(
        words=(b"): Power fault",),
        shape=later(rb"pcieport (?P<device>" + BDF + rb"): pciehp: Slot\([\w-]{1,16}\): Power fault"),
        row=event("power"),
    ),
    # A link that came up narrower or slower than its ends can do. Nothing is said of a link that has its full width.
    Rule(
        words=(b" available PCIe bandwidth, limited by ",),
        shape=later(
            _DRIVER
            + rb" (?P<device>"
            + BDF
            + rb"): (?P<value>\d{1,6}\.\d{1,3}) Gb/s available PCIe bandwidth, limited by [\d.]{1,5} GT/s PCIe "
            rb"x\d{1,2} link at "
        ),
        row=event("pcie_limited", unit="Gb/s"),
    ),
)


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
                _take_over(row, announced.row)
                item.reading, item.offset = announced.reading, announced.offset
    joined = [item for item in found if id(item) not in gone]
    joined.sort(key=lambda item: item.offset, reverse=found[0].offset > found[-1].offset)  # as it came
    return joined


def _take_over(error: NodeEvent, report: NodeEvent) -> None:
    error.count = max(error.count or 1, report.count or 1)
    source, via, port = (report.device or "").partition(_VIA)
    if via and error.device == source:
        error.device = report.device
    elif not via and error.device != source:  # a port that did not know who failed
        error.device = f"{error.device}{_VIA}{source}"
    elif via and error.device != port:
        error.device = f"{error.device}{_VIA}{port}"


def _announces(report: Found, error: Found, row: NodeEvent) -> bool:
    told = report.row
    if not isinstance(told, NodeEvent) or row.device is None:
        return False
    if row.device not in (told.device or "") and not (told.message and _NOBODY[4:] in told.message):
        return False
    apart = micros_between(report.reading, error.reading)
    if apart is None:
        return abs(error.offset - report.offset) <= _BLOCK_BYTES
    return 0 <= apart <= _BLOCK_WITHIN


_AER: Final = "PCIe errors (AER): the device that has the error, and the port that reports it"

SAMPLES: Final = (
    Sample(
        "Mar  3 07:15:42 gpu021 kernel: pcieport 0000:9c:01.0: AER: Corrected error received: 0000:9d:00.0\n"
        "Mar  3 07:15:42 gpu021 kernel: nvidia 0000:9d:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, "
        "(Transmitter ID)\n"
        "Mar  3 07:15:42 gpu021 kernel: nvidia 0000:9d:00.0:   device [10de:2330] status/mask=00001000/0000a000\n",
        (
            expect(
                "node_events",
                kind="pcie_error",
                device="0000:9d:00.0 via 0000:9c:01.0",
                severity="correctable",
                trust="kernel",
            ),
        ),
        _AER,
        _URL,
    ),
    Sample(
        "[ 77.100001] pcieport 0000:9c:01.0: AER: Multiple Uncorrectable (Non-Fatal) error message received from "
        "0000:9d:00.0\n"
        "[ 77.100011] nvidia 0000:9d:00.0: AER: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), "
        "type=Transaction Layer, (Requester ID)\n"
        "[ 77.100021] nvidia 0000:9d:00.0: AER: can't recover (no error_detected callback)\n",
        (
            expect(
                "node_events",
                kind="pcie_error",
                device="0000:9d:00.0 via 0000:9c:01.0",
                severity="nonfatal",
                time_local="77.100001",
            ),
        ),
        _AER,
        _URL,
    ),
    Sample(
        "[ 77.100001] pcieport 0000:00:1c.0: AER: Corrected error received: id=00e0\n"
        "[ 77.100011] pcieport 0000:00:1c.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, "
        "id=00e0(Receiver ID)\n",
        (expect("node_events", kind="pcie_error", device="0000:00:1c.0", severity="correctable"),),
        _AER,
        _URL,
    ),
    Sample(
        "[ 77.100001] pcieport 0000:30:03.0: DPC: containment event, status:0x0005 source:0x3400\n"
        "[ 77.100011] pcieport 0000:30:03.0: DPC: ERR_FATAL detected\n"
        "[ 77.100021] pcieport 0000:30:03.0: AER: broadcast error_detected message\n",
        (expect("node_events", kind="pcie_error", device="0000:34:00.0 via 0000:30:03.0", severity="fatal"),),
        "PCIe containment (DPC)",
        _DPC_URL,
    ),
    Sample(
        "[ 77.100001] pcieport 0000:00:01.4: DPC: containment event, status:0x1f01 source:0x0000\n"
        "[ 77.100011] pcieport 0000:00:01.4: DPC: unmasked uncorrectable error detected\n"
        "[ 77.100021] pcieport 0000:00:01.4: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, "
        "(Receiver ID)\n",
        (expect("node_events", kind="pcie_error", device="0000:00:01.4", severity="fatal"),),
        "PCIe containment (DPC)",
        _DPC_URL,
    ),
    Sample(
        "[ 77.100001] pcieport 0000:8a:01.0: pciehp: Slot(17): Link Down\n"
        "[ 77.100011] pcieport 0000:8a:01.0: pciehp: Slot(17): Card not present\n",
        (expect("node_events", kind="link_down", device="0000:8a:01.0 slot 17"),),
        "PCIe slots that lose their card or its power",
        _SLOT_URL,
    ),
    Sample(
        "[ 77.100001] pcieport 0000:8a:01.0: pciehp: Slot(17): Power fault\n",
        (expect("node_events", kind="power", device="0000:8a:01.0"),),
        "PCIe slots that lose their card or its power",
        _SLOT_URL,
    ),
    Sample(
        "[    3.100001] pci 0000:9d:00.0: 126.016 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x16 link at "
        "0000:9c:01.0 (capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)\n",
        (expect("node_events", kind="pcie_limited", device="0000:9d:00.0", value=126.016, unit="Gb/s"),),
        "Links with less than their ends can do",
        "https://docs.kernel.org/PCI/pci.html",
    ),
)

NON_SAMPLES: Final = (
    "[    3.100001] pci 0000:9d:00.0: 504.112 Gb/s available PCIe bandwidth (32.0 GT/s PCIe x16 link)\n",
    "[ 77.100001] nvidia 0000:9d:00.0:   device [10de:2330] error status/mask=00001000/0000a000\n",
    "[ 77.100001] nvidia 0000:9d:00.0:    [12] Timeout\n",
    "[ 77.100001] nvidia 0000:9d:00.0: AER: can't recover (no error_detected callback)\n",
    "[ 77.100001] pcieport 0000:9c:01.0: AER: device recovery failed\n",
    "[ 77.100001] pcieport 0000:9c:01.0: DPC: unmasked uncorrectable error detected\n",
    "[  1.100001] pcieport 0000:9c:01.0: AER: enabled with IRQ 34\n",
    "[  1.100001] pcieport 0000:9c:01.0: pciehp: Slot #17 AttnBtn- PwrCtrl- MRL- AttnInd- PwrInd- HotPlug+\n",
    "[  1.100001] pcieport 0000:8a:01.0: pciehp: Slot(17): Card present\n",
    "dmesg | grep 'PCIe Bus Error: severity=Corrected, type=Physical Layer'\n",
    "Mar  3 07:15:42 gpu021 rasdaemon[9]: nvidia 0000:9d:00.0: PCIe Bus Error: severity=Corrected, type=x\n",
    "Seen: nvidia 0000:9d:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer\n",
)
