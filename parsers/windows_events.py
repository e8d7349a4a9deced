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
So is that of the event viewer's CSV and of PowerShell's Format-List. The XML form and PowerShell's JSON have a time.

    Error,03/04/2026 05:06:07,nvlddmkm,13,None,"..."
    ProviderName : nvlddmkm
    {"ProviderName":"nvlddmkm","Id":13,"TimeCreated":"/Date(1772600767123)/",...}

https://learn.microsoft.com/windows/win32/wes/eventschema-elements
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import orjson

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

_CSV: Final = re.compile(
    rb'"?(?P<level>[^\s",]{2,40})"?,"?(?P<date>[^",]{8,40})"?,"?nvlddmkm"?,"?(?P<code>\d{1,5})"?,"?[^",]{0,80}"?'
    rb"(?:,(?P<said>.*))?\Z",
    re.DOTALL,
)

# A property of an event as PowerShell prints it: of a list (Format-List), or of an object in JSON over several lines.
_PROPERTY: Final = re.compile(rb'\s*("?)(TimeCreated|ProviderName|Id|Message|MachineName)\1\s*:\s*(.*)')
_MOST_PROPERTIES: Final = 120
_PROVIDER: Final = "nvlddmkm"
_DATE: Final = re.compile(r"\\?/Date\((\d{9,14})(?:[+-]\d{4})?\)\\?/")


def read(line: Line) -> Iterator[Found | Refused]:
    """The row of one event of the driver."""
    if _SOURCE.match(line.text):
        yield from _read_text(line)
    elif b"<Provider" in line.text:
        yield from _read_xml(line)
    elif line.text.lstrip()[:1] in (b"{", b"["):
        yield from _read_json(line)
    elif _PROPERTY.match(line.text):
        yield from _read_properties(line)
    else:
        yield from _read_csv(line)


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


def _read_csv(line: Line) -> Iterator[Found]:
    entry = _CSV.match(line.text.rstrip(b"\r"))
    if entry is None or not int(entry["code"]) or b":" not in entry["date"]:
        return
    said = entry["said"] or b""
    if said.startswith(b'"'):
        said = (said[1:] + b"\n" + line.following).replace(b'""', b"\0").split(b'"', 1)[0].replace(b"\0", b'"')
    message = b" ".join(part for part in map(bytes.strip, said.split(b"\n", _MOST_LINES)) if part)
    reading = Reading(text=entry["date"].decode("utf-8", "backslashreplace"))
    yield _found(line, int(entry["code"]), message, None, reading)


def _read_json(line: Line) -> Iterator[Found]:
    """Events that stand on one line each, or all on one."""
    try:
        told = orjson.loads(line.text.strip().removesuffix(b","))
    except orjson.JSONDecodeError:
        return
    for record in told if isinstance(told, list) else [told]:
        found = _of_properties(line, record) if isinstance(record, dict) else None
        if found is not None:
            yield found


def _read_properties(line: Line) -> Iterator[Found]:
    """The event whose properties begin here. Each of them asks for it, since any may be the first: see ``_settle``."""
    is_json = line.text.lstrip()[:1] == b'"'
    below = line.following.split(b"\n", _MOST_PROPERTIES)[:_MOST_PROPERTIES]
    lines = _object_of(line.text, below) if is_json else _list_of(line.text, below)
    told = _members(lines) if is_json else _listed(lines)
    found = _of_properties(line, told) if told is not None else None
    if found is not None:
        end = line.offset + sum(len(text) + 1 for text in lines)
        found.mark = f"{line.offset} {end}"
        yield found


def _list_of(first: bytes, below: list[bytes]) -> list[bytes]:
    """The lines of a list: behind an empty one it goes on only with what is indented."""
    lines, is_over = [first], False
    for text in below:
        if is_over and text.strip() and not text[:1].isspace():
            break
        is_over = is_over or not text.strip(b"\r")
        lines.append(text)
    return lines


def _listed(lines: list[bytes]) -> dict[str, Any]:
    told: dict[str, str] = {}
    name = ""
    for text in lines:
        member = _PROPERTY.match(text) if not text[:1].isspace() else None
        if member is not None:
            name = member[2].decode("ascii")
            told.setdefault(name, member[3].decode("utf-8", "backslashreplace").strip())
        elif not text.strip():
            continue
        elif text[:1].isspace() and name:
            told[name] = f"{told[name]}\n{text.strip().decode('utf-8', 'backslashreplace')}"
        else:
            name = ""
    return told


def _object_of(first: bytes, below: list[bytes]) -> list[bytes]:
    """The lines of an object in JSON, up to the bracket that ends it."""
    lines: list[bytes] = []
    depth = 0
    for text in (first, *below):
        bare = text.strip()
        if bare[:1] in (b"}", b"]"):
            depth -= 1
        if depth < 0:
            break
        if bare[-1:] in (b"{", b"["):
            depth += 1
        lines.append(text)
    return lines


def _members(lines: list[bytes]) -> dict[str, Any] | None:
    try:
        told = orjson.loads(b"{" + b"\n".join(lines).strip().removesuffix(b",") + b"}")
    except orjson.JSONDecodeError:
        return None
    return told if isinstance(told, dict) else None


def _of_properties(line: Line, told: dict[str, Any]) -> Found | None:
    code, message, computer = told.get("Id"), told.get("Message"), told.get("MachineName")
    if told.get("ProviderName") != _PROVIDER or isinstance(code, bool) or not isinstance(code, (int, str)):
        return None
    number = str(code)
    if not (number.isascii() and number.isdigit()) or len(number) > 5 or not int(number):
        return None
    said = " ".join(message.split()) if isinstance(message, str) else ""
    machine = computer.encode("utf-8", "surrogatepass") if isinstance(computer, str) else None
    return _found(line, int(number), said.encode("utf-8", "surrogatepass"), machine, _created(told.get("TimeCreated")))


def _created(when: Any) -> Reading:
    if isinstance(when, dict):
        when = when.get("value")
    if not isinstance(when, str) or not when:
        return Reading()
    date = _DATE.fullmatch(when)
    if date is not None:
        return Reading("epoch", int(date[1]) * 1000, None, None, 1000, when)
    return iso_reading(when.encode("utf-8", "surrogatepass")) or Reading(text=when)


def _settle(found: list[Found]) -> list[Found]:
    """Of the rows that the properties of one event gave, the first one, which knows them all."""
    kept, until = [], 0
    for item in found:
        if item.mark:
            if item.offset < until:
                continue
            until = int(item.mark.partition(" ")[2])
        kept.append(item)
    return kept


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
    if re.search(rb"(?m)^Log Name:\s+System\s*$", head.data) or head.data.startswith(_CSV_HEADS):
        return 0.8
    return 0.4 if re.search(rb'(?m)ProviderName"?\s{0,20}:\s{0,20}"?nvlddmkm', head.data) else 0.0


_CSV_HEADS: Final = (b"Level,Date and Time,Source,Event ID", b"\xef\xbb\xbfLevel,Date and Time,Source,Event ID")


FORMAT = LineFormat(
    name="windows_events",
    doc="Events of the Windows display driver nvlddmkm, copied from the event viewer as text, exported as XML or CSV, "
    "or printed by PowerShell as a list or JSON.",
    url="https://learn.microsoft.com/windows/win32/wes/eventschema-elements",
    tables=("gpu_errors",),
    detects=detects,
    signatures=(
        *(rb"nvlddmkm", rb"TimeCreated", rb"MachineName", rb"Message  ", rb"Message : ", rb"Id  ", rb"Id : "),
        *(rb'"Id": [0-9]', rb'"Id":  [0-9]', rb'"Message":  "', rb'"Message": "'),
    ),
    read=read,
    settle=_settle,
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
        Sample(
            "Level,Date and Time,Source,Event ID,Task Category\r\n"
            "Information,3/4/2026 5:06:01 AM,Service Control Manager,7036,None,The service is running.\r\n"
            'Error,3/4/2026 5:06:07 AM,nvlddmkm,13,None,"\\Device\\Video3\r\nGraphics Exception: ESR 0x404490"\r\n',
            (
                expect(
                    "gpu_errors",
                    family="xid",
                    code=13,
                    time=None,
                    time_local="3/4/2026 5:06:07 AM",
                    message="\\Device\\Video3 Graphics Exception: ESR 0x404490",
                ),
            ),
        ),
        Sample(
            "\nTimeCreated  : 3/4/2026 5:06:07 AM\nProviderName : nvlddmkm\nId           : 13\n"
            "Message      : \\Device\\Video3\n               Graphics Exception: ESR 0x404490\n\n"
            "Id           : 14\nMessage      : \\Device\\Video4\nTimeCreated  : 3/4/2026 5:06:08 AM\n"
            "MachineName  : render-13\nProviderName : nvlddmkm\n\n",
            (
                expect(
                    "gpu_errors",
                    code=13,
                    time_local="3/4/2026 5:06:07 AM",
                    message="\\Device\\Video3 Graphics Exception: ESR 0x404490",
                ),
                expect("gpu_errors", code=14, time_local="3/4/2026 5:06:08 AM", host="render-13"),
            ),
        ),
        Sample(
            '{"ProviderName":"nvlddmkm","Id":13,"TimeCreated":"\\/Date(1772600767123)\\/","MachineName":"render-14",'
            '"Message":"\\\\Device\\\\Video3"}\n',
            (
                expect(
                    "gpu_errors",
                    code=13,
                    host="render-14",
                    time=1772600767123000,
                    time_basis="epoch",
                    message="\\Device\\Video3",
                ),
            ),
        ),
        Sample(
            '[\n    {\n        "Id":  14,\n        "TimeCreated":  {\n'
            '            "value":  "\\/Date(1772600767123)\\/",\n            "DateTime":  "Wednesday"\n        },\n'
            '        "ProviderName":  "nvlddmkm"\n    },\n'
            '    {\n        "ProviderName":  "Display",\n        "Id":  4101\n    }\n]\n',
            (expect("gpu_errors", code=14, time=1772600767123000),),
        ),
    ),
    non_samples=(
        "Error,3/4/2026 5:06:07 AM,Display,4101,None,Display driver nvlddmkm stopped responding\n",
        "ProviderName : Display\nId : 4101\nMessage : nvlddmkm stopped\n\n",
        "Id : 13\nTimeCreated : 3/4/2026 5:06:07 AM\n\nProviderName : nvlddmkm\n",
        '{"ProviderName":"nvlddmkm","Id":"none","TimeCreated":"/Date(1772600767123)/"}\n',
        "Log Name: System\nSource: Display\nEvent ID: 4101\nDescription:\nnvlddmkm stopped\n",
        "Source: nvlddmkm\n",
        "The source: nvlddmkm with Event ID: 14 means trouble.\n",
        "<Event><System><Provider Name='Display'/><EventID>4101</EventID></System></Event>\n",
    ),
)
