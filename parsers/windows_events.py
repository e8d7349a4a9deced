"""Windows: the display driver nvlddmkm writes Xid errors to the system log. The event id is the Xid number.

    Log Name: System
    Source: nvlddmkm
    Date: 03/04/2026 05:06:07
    Event ID: 14
    Computer: render-11
    Description:
    \\Device\\Video2
    Graphics Exception: ESR ...

The date of this form has no zone, and whether day or month comes first depends on the machine: it is kept as printed.
The XML form has both. https://learn.microsoft.com/windows/win32/wes/eventschema-elements
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aftershock.parsers.clock import Reading
from aftershock.parsers.envelopes.syslog import iso_reading
from aftershock.parsers.formats import Found, Head, Line, LineFormat, Refused, Sample, expect
from aftershock.schemas.events import GpuError

_SOURCE: Final = re.compile(rb"\s*Source:\s+nvlddmkm\s*\Z")
_FIELD: Final = re.compile(rb"\s*(Date|Event ID|Computer|Description|Log Name|Source|Event Xml):[ \t]*(.*)")
_MOST_LINES: Final = 40

_XML_ID: Final = re.compile(rb"<EventID[^>]{0,60}>(\d{1,5})</EventID>")
_XML_TIME: Final = re.compile(rb"SystemTime=['\"]([0-9TZ:.+-]{19,40})['\"]")
_XML_COMPUTER: Final = re.compile(rb"<Computer>([^<]{1,255})</Computer>")
_XML_DATA: Final = re.compile(rb"<Data[^>]{0,80}>([^<]{1,2000})</Data>")


def read(line: Line) -> Iterator[Found | Refused]:
    """The row of one event of the driver."""
    if _SOURCE.match(line.text):
        yield from _read_text(line)
    elif b"<Provider" in line.text:
        yield from _read_xml(line)


def _read_text(line: Line) -> Iterator[Found]:
    fields: dict[bytes, bytes] = {}
    description: list[bytes] = []
    for below in line.following.split(b"\n", _MOST_LINES)[:_MOST_LINES]:
        text = below.strip()
        field = _FIELD.match(text)
        if field is not None and field[1] in (b"Log Name", b"Source", b"Event Xml"):
            break
        if field is not None:
            fields[field[1]] = field[2].strip()
        elif b"Description" in fields:
            if not text:
                break
            description.append(text)
    code = fields.get(b"Event ID", b"")
    if not code.isdigit() or not 0 < len(code) <= 5 or not int(code):
        return
    message = b" ".join(part for part in (fields.get(b"Description", b""), *description) if part)
    date = fields.get(b"Date")
    reading = Reading(text=date.decode("utf-8", "backslashreplace") if date else None)
    yield _found(line, int(code), message, fields.get(b"Computer"), reading)


def _read_xml(line: Line) -> Iterator[Found]:
    block = (line.text + b"\n" + line.following).split(b"</Event>", 1)[0]
    code = _XML_ID.search(block)
    if code is None or not int(code[1]):
        return
    time, computer = _XML_TIME.search(block), _XML_COMPUTER.search(block)
    message = b" ".join(_XML_DATA.findall(block))
    reading = (iso_reading(time[1]) if time else None) or Reading()
    yield _found(line, int(code[1]), message, computer[1] if computer else None, reading)


def _found(line: Line, code: int, message: bytes, computer: bytes | None, reading: Reading) -> Found:
    row = GpuError(
        family="xid",
        code=code,
        trust="kernel",
        host_raw=computer.decode("utf-8", "backslashreplace") if computer else line.envelope.host,
        message=message.decode("utf-8", "backslashreplace"),
    )
    return Found(row, reading, line.offset)


def detects(head: Head) -> float:
    """Entries of the event viewer, as text."""
    return 0.8 if re.search(rb"(?m)^Log Name:\s+System\s*$", head.data) else 0.0


FORMAT = LineFormat(
    name="windows_events",
    doc="Events of the Windows display driver nvlddmkm, copied from the event viewer as text or exported as XML.",
    url="https://learn.microsoft.com/windows/win32/wes/eventschema-elements",
    tables=("gpu_errors",),
    detects=detects,
    signatures=(rb"nvlddmkm",),
    read=read,
    samples=(
        Sample(
            "Log Name: System\nSource: nvlddmkm\nDate: 03/04/2026 05:06:07\nEvent ID: 14\nLevel: Error\n"
            "Computer: render-11\nDescription:\n\\Device\\Video2\nGraphics Exception: ESR 0x404490=0x80000001\n",
            (
                expect(
                    "gpu_errors",
                    family="xid",
                    code=14,
                    pci=None,
                    time=None,
                    time_local="03/04/2026 05:06:07",
                    host="render-11",
                    message="\\Device\\Video2 Graphics Exception: ESR 0x404490=0x80000001",
                ),
            ),
        ),
        Sample(
            "<Event><System><Provider Name='nvlddmkm'/><EventID Qualifiers='49322'>153</EventID>"
            "<TimeCreated SystemTime='2026-03-04T05:06:07.1234567Z'/><Computer>render-12</Computer></System>"
            "<EventData><Data>\\Device\\Video2</Data><Data>Error occurred on GPUID: 100</Data></EventData></Event>\n",
            (expect("gpu_errors", code=153, host="render-12", time=1772600767123456, time_basis="zoned"),),
        ),
    ),
    non_samples=(
        "Log Name: System\nSource: Display\nEvent ID: 4101\nDescription:\nnvlddmkm stopped\n",
        "Source: nvlddmkm\n",
        "The source: nvlddmkm with Event ID: 14 means trouble.\n",
        "<Event><System><Provider Name='Display'/><EventID>4101</EventID></System></Event>\n",
    ),
)
