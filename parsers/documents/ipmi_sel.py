"""ipmitool sel: the system event log of the management controller, as ``list``, ``elist``, ``-c`` or with ``-v``.

       1 | 03/02/2026 | 07:08:09 | Memory #0x53 | Uncorrectable ECC | Asserted
       2 | 03/02/26 | 07:09:09 UTC | Temperature GPU3_Temp | Upper Critical going high | Asserted | Reading 96 > ...
       3 |  Pre-Init  |0000000012| Power Supply #0x51 | Presence detected | Asserted

Documented at https://github.com/ipmitool/ipmitool (ipmitool(1), sel). The clock is the controller's own, mostly without
a zone; before it was set there is only the number of seconds since it started, which is no time. A state that is
asserted is a fault, one that is deasserted its end; what is no fault (presence, boots, a cleared log) makes no row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final

from aftershock.parsers.clock import NO_CLOCK, SECOND, Reading, wall_micros
from aftershock.parsers.documents.bmc_words import fault_of
from aftershock.parsers.documents.text_lines import chunks_of, lines_of
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.schemas.events import HealthCheck, NodeEvent

_DATE: Final = r"(?:\d{1,4}[/-]\d{1,2}[/-]\d{2,4}|Pre-Init|Unspecified|S\+ \S{1,12})"
_LINE: Final = re.compile(
    r"(?:(?P<host>[A-Za-z0-9][\w.-]{0,252}): )? *(?P<id>[0-9a-f]{1,4})(?: \||,) *(?P<rest>" + _DATE + r" *[|,].*)\Z"
)
_PANIC: Final = re.compile(r" *[0-9a-f]{1,4} \| +Linux kernel panic: (?P<text>.{0,40})\Z")
_CLOCK: Final = re.compile(
    r"(?P<a>\d{1,4})[/-](?P<b>\d{1,2})[/-](?P<c>\d{2,4}) (?P<h>\d{1,2}):(?P<m>\d\d):(?P<s>\d\d)(?: "
    r"(?P<zone>[A-Z]{2,5}))?\Z"
)
_READING: Final = re.compile(
    r"Reading (?P<value>-?\d{1,12}(?:\.\d{1,6})?)(?: [<>] Threshold -?[\d.]{1,16} (?P<unit>.{1,40}))?\Z"
)
_BLOCK: Final = re.compile(r" ?(?P<key>SEL Record ID|[A-Z][A-Za-z ()]{2,30}?) *: (?P<value>.*)\Z")
_FIRST: Final = re.compile(rb"SEL Record ID +: [0-9a-f]{4}")
# Fields of one record of -v; a block that goes on is no record.
_MOST_FIELDS: Final = 64


def detects(head: Head) -> float:
    """Sure where the lines are records of the log, or blocks of it begin."""
    lines = head.lines()
    if not lines:
        return 0.0
    ours = [line for line in lines if _is_record(line)]
    if _FIRST.match(lines[0]):
        return 0.9
    return 0.9 if _is_record(lines[0]) and 2 * len(ours) > len(lines) else 0.0


def _is_record(line: bytes) -> bool:
    text = line.decode("utf-8", "replace")
    found = _LINE.match(text)
    return _PANIC.match(text) is not None or (found is not None and len(_cells(found["rest"])) >= 4)


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The faults of the log, and their ends."""
    block: dict[str, str] = {}
    begin = 0
    for offset, line in lines_of(chunks_of(stream)):
        if _FIRST.match(line):
            yield from _block_rows(block, begin)
            block, begin = {}, offset
        text = line.decode("utf-8", "replace")
        field = _BLOCK.match(text) if block or _FIRST.match(line) else None
        if field is not None:
            if len(block) < _MOST_FIELDS:
                block.setdefault(field["key"], field["value"].strip())
            continue
        panic = _PANIC.match(text)
        if panic is not None:
            yield Found(NodeEvent(kind="panic", message=text.strip()), NO_CLOCK, offset)
            continue
        found = _LINE.match(text)
        if found is not None:
            yield from _line_rows(found["host"], _cells(found["rest"]), text, offset)
    yield from _block_rows(block, begin)


def _cells(rest: str) -> list[str]:
    return [cell.strip() for cell in (rest.split("|") if "|" in rest else rest.split(","))]


def _line_rows(host: str | None, cells: Sequence[str], text: str, offset: int) -> Iterator[Found]:
    if len(cells) < 5:
        return  # records of a vendor's own kind say nothing that is known
    date, time, sensor, words, direction = cells[:5]
    more = cells[5:]
    row = _rows(sensor, words, direction, more)
    yield from _placed(row, _clock(f"{date} {time}"), host, text.strip(), offset)


def _block_rows(block: dict[str, str], offset: int) -> Iterator[Found]:
    if not block:
        return
    kind, number = block.get("Sensor Type", ""), block.get("Sensor Number")
    sensor = f"{kind} #0x{number}" if number else kind
    words, direction = block.get("Description", ""), block.get("Event Direction", "")
    message = f"{sensor} | {words} | {direction}"
    yield from _placed(_rows(sensor, words, direction, ()), _clock(block.get("Timestamp", "")), None, message, offset)


def _rows(sensor: str, words: str, direction: str, more: Sequence[str]) -> tuple[HealthCheck, NodeEvent | None] | None:
    fault = fault_of(sensor, words)
    if fault is None or not direction.lower().startswith(("assert", "deassert")):
        return None
    over = direction.lower().startswith("deassert")
    place = next((cell for cell in more if cell.startswith("CPU ")), None)
    device = f"{sensor} {place}" if place else sensor
    measured = next((found for cell in more if (found := _READING.match(cell))), None)
    value = float(measured["value"]) if measured else None
    unit = measured["unit"] if measured else None
    check = HealthCheck(
        checker="ipmi_sel",
        check=words,
        result="pass" if over else fault.result,
        device=device,
        value=value,
        unit=unit,
        detail=direction,
    )
    event = None if over else NodeEvent(kind=fault.kind, device=device, value=value, unit=unit)
    return check, event


def _placed(
    rows: tuple[HealthCheck, NodeEvent | None] | None, reading: Reading, host: str | None, message: str, offset: int
) -> Iterator[Found]:
    for row in rows or ():
        if row is not None:
            row.host_raw, row.message = host, message
            yield Found(row, reading, offset)


def _clock(printed: str) -> Reading:
    """Month, day, year as the C locale has them, or the year first; a clock that was never set says nothing."""
    found = _CLOCK.match(printed)
    if found is None:
        return Reading(text=printed) if printed[:1].isdigit() else NO_CLOCK
    first, second, third = int(found["a"]), int(found["b"]), int(found["c"])
    year, month, day = (first, second, third) if len(found["a"]) == 4 else (third, first, second)
    if year < 100:
        year += 2000
    wall = wall_micros(year, month, day, int(found["h"]), int(found["m"]), int(found["s"]))
    if wall is None:
        return Reading(text=printed)
    # Of the abbreviations of zones only these mean the same everywhere.
    return Reading("zoned" if found["zone"] in ("UTC", "GMT") else "local", wall, None, None, SECOND, printed)


_SAMPLES: Final = (
    Sample(
        "   1 |  Pre-Init  |0000000012| Power Supply #0x51 | Presence detected | Asserted\n"
        "   2 | 03/02/2026 | 07:08:09 | Memory #0x53 | Uncorrectable ECC | Asserted | CPU 1 DIMM 3\n"
        "   3 | 03/02/2026 | 07:08:10 | Critical Interrupt #0x2e | PCI SERR | Asserted\n"
        "   4 | 03/02/2026 | 07:08:11 | Processor #0x08 | Thermal Trip | Asserted\n"
        "   5 | 03/02/2026 | 07:08:12 | Power Supply #0x51 | Power Supply AC lost | Asserted\n"
        "   6 | 03/02/2026 | 07:09:12 | Power Supply #0x51 | Power Supply AC lost | Deasserted\n"
        "   7 | 03/02/2026 | 07:10:12 | System Boot Initiated #0x9c | Initiated by power up | Asserted\n",
        (
            expect(
                "health_checks",
                checker="ipmi_sel",
                check="Uncorrectable ECC",
                result="fail",
                device="Memory #0x53 CPU 1 DIMM 3",
                time=1772435289000000,
            ),
            expect("node_events", kind="memory_error", device="Memory #0x53 CPU 1 DIMM 3"),
            expect("health_checks", check="PCI SERR", result="fail"),
            expect("node_events", kind="pcie_error"),
            expect("health_checks", check="Thermal Trip", result="fail"),
            expect("node_events", kind="thermal"),
            expect("health_checks", check="Power Supply AC lost", result="fail"),
            expect("node_events", kind="power", device="Power Supply #0x51"),
            expect("health_checks", check="Power Supply AC lost", result="pass", detail="Deasserted"),
        ),
    ),
    # elist, with a clock that names its zone; and -c.
    Sample(
        "   a | 03/02/26 | 07:08:09 UTC | Temperature GPU3_Temp | Upper Critical going high | Asserted | "
        "Reading 96 > Threshold 90 degrees C\n"
        "b,03/02/2026,07:08:10,Memory #0x53,Correctable ECC,Asserted\n",
        (
            expect("health_checks", result="fail", value=96.0, unit="degrees C", device="Temperature GPU3_Temp"),
            expect("node_events", kind="thermal", value=96.0),
            expect("health_checks", check="Correctable ECC", result="warn"),
            expect("node_events", kind="memory_error"),
        ),
    ),
    Sample(
        "SEL Record ID          : 0012\n Record Type           : 02\n Timestamp             : 03/02/2026 07:08:09\n"
        " Generator ID          : 0020\n EvM Revision          : 04\n Sensor Type           : Processor\n"
        " Sensor Number         : 08\n Event Type            : Sensor-specific Discrete\n"
        " Event Direction       : Assertion Event\n Event Data            : a00000\n"
        " Description           : Uncorrectable machine check exception\n\n",
        (
            expect("health_checks", check="Uncorrectable machine check exception", result="fail"),
            expect("node_events", kind="machine_check", device="Processor #0x08", time=1772435289000000),
        ),
    ),
    Sample(
        "  1a | 03/02/2026 | 07:08:09 | System Event #0x4a | Undetermined system hardware failure | Asserted\n"
        "  1b | 03/02/2026 | 07:08:10 | System Event #0x4a | OEM System boot event | Asserted\n"
        "  1c | 03/02/2026 | 07:08:11 | System Firmware Error #0x11 | No usable system memory | Asserted\n"
        "  1d | 03/02/2026 | 07:08:12 | Module / Board PWR_HSC1 | Upper Critical going high | Asserted\n"
        "  1e | 03/02/2026 | 07:08:13 | Module / Board #0x43 | Upper Critical going high | Asserted\n",
        (
            expect("health_checks", check="Undetermined system hardware failure", result="fail"),
            expect("node_events", kind="machine_check", device="System Event #0x4a"),
            expect("health_checks", check="No usable system memory", result="fail"),
            expect("node_events", kind="memory_error"),
            expect("health_checks", check="Upper Critical going high", result="fail"),
            expect("node_events", kind="power", device="Module / Board PWR_HSC1"),
        ),
    ),
)

FORMAT: Final = DocumentFormat(
    name="ipmi_sel",
    doc="The system event log of the management controller as `ipmitool sel list`, `elist` or `-v` prints it: faults "
    "of "
    "memory, processors, PCIe, power and cooling, and when they ended.",
    url="https://github.com/ipmitool/ipmitool",
    tables=("health_checks", "node_events"),
    detects=detects,
    read=read,
    samples=_SAMPLES,
    non_samples=(
        "   1 | 03/02/2026 | 07:08:09 | Event Logging Disabled #0x07 | Log area reset/cleared | Asserted\n",
        "   2 | 03/02/2026 | 07:08:09 | OEM record e0 | 000000000000000000000000\n",
        "GPU3_Temp        | 61.000     | degrees C  | ok    | na | na | na | 90.000 | 92.000 | 95.000\n",
        "SEL has no entries\n",
        "1 | 2026 | loss | 2.31 | Asserted\n",
    ),
)
