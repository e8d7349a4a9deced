"""ras-mc-ctl --errors: the errors of memory, PCIe, processors and disks that rasdaemon keeps of a host.

    Memory controller events:
    1 2025-02-03 08:10:11 +0000 2 Corrected error(s): memory read error at CPU_SrcID#0_MC#1_Chan#0_DIMM#0 location:
    1:0:0:-1, addr 1067040256, grain 32, syndrome 0 err_code:0x0101:0x0090                        (one line)

    PCIe AER events:
    1 2025-02-03 08:12:11 +0000 0000:3b:00.0 Uncorrected (Non-Fatal) error: Completion Timeout

    No disk errors.

Printed by util/ras-mc-ctl.in of https://github.com/mchehab/rasdaemon. The kernel log has the same errors, as far as it
still has them; the data base of rasdaemon keeps them over boots. CXL devices and sections of vendors are not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import BinaryIO, Final

from aftershock.parsers.clock import NO_CLOCK
from aftershock.parsers.documents.iso_clock import stated_time
from aftershock.parsers.documents.text_lines import chunks_of, lines_of
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.schemas.events import NodeEvent

_NONE: Final = re.compile(r"No (?:Memory|PCIe AER|ARM processor|Extlog|devlink|[Dd]isk|MCE|Memory failure) errors\.\Z")
_HEADING: Final = re.compile(r"(?P<name>[A-Z][A-Za-z ]{2,40} (?:events|errors)):?\Z")
_EVENT: Final = re.compile(
    r"(?P<id>[0-9]{1,12}) (?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}|\.\.) (?P<said>\S.*)\Z"
)
_MEMORY: Final = re.compile(
    r"(?P<count>[0-9]{1,9}) (?P<type>[A-Za-z]{2,16}(?: \([A-Za-z-]{2,16}\))?) error\(s\): (?P<what>.{0,512}?)"
    r" at (?P<label>.{1,256}?) location: (?P<mc>-?[0-9]{1,6}):"
)
_AER: Final = re.compile(
    r"(?:(?P<device>[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]) )?"
    r"(?P<type>Corrected|Uncorrected(?: \((?:Non-)?Fatal\))?|Fatal) error: "
)
# Behind the word CPU stands the number of its maker; that of the processor is left out where it is 0.
_CPU: Final = re.compile(r"\bcpu=0x(?P<cpu>[0-9a-f]{8})\b")
_BANK: Final = re.compile(r"\(bank=(?P<bank>[0-9]{1,4})\)|\bbank=0x(?P<number>[0-9a-f]{8})\b")
_STATUS: Final = re.compile(r"\bstatus=0x(?P<status>[0-9a-f]{1,16})\b")
_DISK: Final = re.compile(r"error: dev=(?P<device>[^,]{1,64}),")
_PAGE: Final = re.compile(r"error: pfn=(?P<page>0x[0-9a-f]{1,16}),")
_UNCORRECTED, _CORRUPT = 1 << 61, 1 << 57


def detects(head: Head) -> float:
    """Sure of headings with an event below, or of several sections without errors."""
    lines = [line.decode("utf-8", "replace").rstrip() for line in head.lines(40)]
    empty = sum(_NONE.match(line) is not None for line in lines)
    told = any(_SECTIONS.get(_name(line)) and _EVENT.match(below) for line, below in pairwise(lines))
    return 0.9 if told or empty >= _ENOUGH else 0.0


_ENOUGH: Final = 2


def _name(line: str) -> str:
    heading = _HEADING.match(line)
    return heading["name"].lower() if heading and line.endswith(":") else ""


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The errors of the sections that are known."""
    make: Callable[[str], NodeEvent | None] | None = None
    for offset, raw in lines_of(chunks_of(stream)):
        line = raw.decode("utf-8", "replace").rstrip()
        if _HEADING.match(line) and line.endswith(":"):
            make = _SECTIONS.get(_name(line))
            continue
        event = _EVENT.match(line)
        if make is None or not line[:1].isdigit():
            continue
        row = make(event["said"]) if event is not None else None
        if event is None or row is None:
            yield Refused(offset, len(raw), "ras_mc_ctl: an error with other fields", raw[:512])
            continue
        row.message = line
        when = event["time"]
        stated = f"{when[:10]}T{when[11:19]}{when[20:23]}:{when[23:]}" if when != ".." else None
        yield Found(row, stated_time(stated) if stated else NO_CLOCK, offset)


def _memory(said: str) -> NodeEvent | None:
    found = _MEMORY.match(said)
    if found is None:
        return None
    count = int(found["count"])
    row = NodeEvent(kind="memory_error", device=f"MC{found['mc']} {found['label']}", severity=_severity(found["type"]))
    row.value, row.unit, row.count = float(count), "errors", max(1, count)
    return row


def _aer(said: str) -> NodeEvent | None:
    found = _AER.match(said)
    return found and NodeEvent(kind="pcie_error", device=found["device"], severity=_severity(found["type"]))


def _machine_check(said: str) -> NodeEvent | None:
    cpu, bank, status = _CPU.search(said), _BANK.search(said), _STATUS.search(said)
    number = bank and (bank["bank"] or int(bank["number"], 16))
    words = (f"CPU {int(cpu['cpu'], 16)}" if cpu else None, f"bank {number}" if bank else None)
    row = NodeEvent(kind="machine_check", device=" ".join(filter(None, words)) or None)
    if status is not None:
        bits = int(status["status"], 16)
        row.severity = "fatal" if bits & _CORRUPT else "uncorrectable" if bits & _UNCORRECTED else "correctable"
    return row


def _disk(said: str) -> NodeEvent | None:
    found = _DISK.match(said)
    return found and NodeEvent(kind="io_error", device=found["device"])


def _failure(said: str) -> NodeEvent | None:
    found = _PAGE.match(said)
    return found and NodeEvent(kind="memory_error", device=f"page {found['page']}", severity="uncorrectable")


def _severity(printed: str) -> str | None:
    if "Non-Fatal" in printed:
        return "nonfatal"
    if "Fatal" in printed:
        return "fatal"
    return {"Corrected": "correctable", "Uncorrected": "uncorrectable"}.get(printed)


_SECTIONS: Final[dict[str, Callable[[str], NodeEvent | None]]] = {
    "memory controller events": _memory,
    "pcie aer events": _aer,
    "mce events": _machine_check,
    "disk errors": _disk,
    "memory failure events": _failure,
}

FORMAT: Final = DocumentFormat(
    name="ras_mc_ctl",
    doc="What `ras-mc-ctl --errors` prints of the errors that rasdaemon keeps: memory, PCIe, machine checks, disks.",
    url="https://github.com/mchehab/rasdaemon",
    tables=("node_events",),
    detects=detects,
    read=read,
    samples=(
        Sample(
            "Memory controller events:\n"
            "1 2025-02-03 08:10:11 +0900 2 Corrected error(s): memory read error at CPU_SrcID#0_MC#1_Chan#0_DIMM#0 "
            "location: 1:0:0:-1, addr 1067040256, grain 32, syndrome 0 err_code:0x0101:0x0090\n\n"
            "PCIe AER events:\n"
            "1 2025-02-03 08:12:11 +0900 0000:3b:00.0 Uncorrected (Non-Fatal) error: Completion Timeout\n"
            "2 2025-02-03 08:12:12 +0900 Corrected error: Receiver Error\n\n"
            "No ARM processor errors.\n\n"
            "Disk errors:\n"
            "1 2025-02-03 08:13:11 +0900 error: dev=259:0, sector=4242, nr_sector=8, error='I/O error', rwbs='R', "
            "cmd=''\n\n"
            "Memory failure events:\n"
            "1 2025-02-03 08:14:11 +0900 error: pfn=0x4f2e0, page_type=free buddy page, action_result=Recovered\n\n"
            "MCE events:\n"
            "1 2025-02-03 08:15:11 +0900 error: Corrected error, no action required., CPU 2, bank Unified Memory "
            "Controller (bank=17), mcg mcgstatus=0, mci CECC, memory_channel=0,csrow=1, status=0x9c2040000000011b, "
            "cpu=0x00000030, bank=0x00000011\n",
            (
                expect(
                    "node_events",
                    kind="memory_error",
                    device="MC1 CPU_SrcID#0_MC#1_Chan#0_DIMM#0",
                    value=2.0,
                    count=2,
                    severity="correctable",
                    time=1_738_537_811_000_000,
                ),
                expect("node_events", kind="pcie_error", device="0000:3b:00.0", severity="nonfatal"),
                expect("node_events", kind="pcie_error", device=None, severity="correctable"),
                expect("node_events", kind="io_error", device="259:0"),
                expect("node_events", kind="memory_error", device="page 0x4f2e0", severity="uncorrectable"),
                expect("node_events", kind="machine_check", device="CPU 48 bank 17", severity="correctable"),
            ),
        ),
    ),
    non_samples=(
        "No Memory errors.\n\nNo PCIe AER errors.\n\nNo disk errors.\n",
        "Memory controller events:\nnone of them today\n",
        "1 2025-02-03 08:12:11 +0900 0000:3b:00.0 Uncorrected (Non-Fatal) error: Completion Timeout\n",
        "Sporting events:\n1 2025-02-03 08:12:11 +0900 0000:3b:00.0 Corrected error: Receiver Error\n",
    ),
)
