"""ipmi-sel of FreeIPMI: the system event log of the management controller, as a table or with commas.

    ID  | Date        | Time     | Name             | Type                     | Event
    1   | Mar-02-2026 | 07:08:09 | DIMM_B2          | Memory                   | Uncorrectable memory error
    2   | Mar-02-2026 | 07:09:09 | GPU3_Temp        | Temperature              | Upper Critical - going high ; Sensor
    Reading = 96.00 C ; Threshold = 95.00 C                                                              (one line)

Documented at https://www.gnu.org/software/freeipmi/manpages/man8/ipmi-sel.8.html. Options add the columns ``State`` and
``Event Direction`` (-v); without the latter the end of a fault looks like a fault. The clock is the controller's own,
without a zone; ``PostInit`` is a time since it started. What is no fault (presence, boots, a cleared log) makes no row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final

from aftershock.parsers.clock import NO_CLOCK, SECOND, Reading, wall_micros
from aftershock.parsers.documents.bmc_words import fault_of
from aftershock.parsers.documents.text_lines import chunks_of, lines_of
from aftershock.parsers.envelopes.months import month_number
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.schemas.events import HealthCheck, NodeEvent

# With a list of hosts each line names its own.
_HOST: Final = re.compile(r"(?P<host>[A-Za-z0-9][\w.-]{0,252}): ")
_NAMES: Final = frozenset({"ID", "Date", "Time", "Name", "Type", "State", "Event Direction", "Event"})
_FIRST: Final = ("ID", "Date", "Time", "Name")
_CLOCK: Final = re.compile(
    r"(?P<month>[A-Z][a-z]{2})-(?P<day>\d\d)-(?P<year>\d{4}) (?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)\Z"
)
_READING: Final = re.compile(r"Sensor Reading = (?P<value>-?\d{1,12}(?:\.\d{1,6})?)(?: (?P<unit>[^;]{1,40}))?\Z")
_COLUMNS: Final = re.compile(r" *\| *| *, *")


def detects(head: Head) -> float:
    """Sure where the first line is the header of its table."""
    lines = head.lines(1)
    return 0.9 if lines and _header(lines[0].decode("utf-8", "replace")) else 0.0


def _header(text: str) -> list[str] | None:
    """The names of the columns; None if a line does not name them."""
    host = _HOST.match(text)
    names = _COLUMNS.split(text[host.end() if host else 0 :].strip())
    return names if tuple(names[:4]) == _FIRST and names[-1] == "Event" and _NAMES.issuperset(names) else None


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The faults of the log, and their ends where it prints directions."""
    names: list[str] = []
    mark = "|"
    for offset, line in lines_of(chunks_of(stream)):
        text = line.decode("utf-8", "replace")
        header = _header(text)
        if header is not None:
            names, mark = header, "|" if "|" in text else ","
            continue
        host = _HOST.match(text)
        cells = text[host.end() if host else 0 :].split(mark, max(len(names) - 1, 0))
        if names and len(cells) == len(names) and cells[0].strip().isdigit():
            record = {name: cell.strip() for name, cell in zip(names, cells, strict=True)}
            yield from _rows(record, host["host"] if host else None, text.strip(), offset)
        elif names and cells[0].strip().isdigit():
            yield Refused(offset, len(line), "freeipmi_sel: fields do not fit the columns", line[:512])


def _rows(record: dict[str, str], host: str | None, text: str, offset: int) -> Iterator[Found]:
    words, *more = record["Event"].split(" ; ")
    sensor = f"{record.get('Type', '')} {record['Name']}".strip()
    fault = fault_of(sensor, words)
    if fault is None:
        return
    over = record.get("Event Direction", "").startswith("Deassert")
    measured = next((found for part in more if (found := _READING.match(part))), None)
    value = float(measured["value"]) if measured else None
    unit = measured["unit"] if measured else None
    reading = _clock(f"{record['Date']} {record['Time']}")
    check = HealthCheck(
        checker="ipmi_sel",
        check=words,
        result="pass" if over else fault.result,
        device=sensor,
        value=value,
        unit=unit,
        detail=record.get("State") or record.get("Event Direction"),
        host_raw=host,
        message=text,
    )
    yield Found(check, reading, offset)
    if not over:
        event = NodeEvent(kind=fault.kind, device=sensor, value=value, unit=unit, host_raw=host, message=text)
        yield Found(event, reading, offset)


def _clock(printed: str) -> Reading:
    found = _CLOCK.match(printed)
    month = month_number(found["month"].encode("ascii")) if found else None
    if found is None or month is None:
        return NO_CLOCK
    wall = wall_micros(int(found["year"]), month, int(found["day"]), int(found["h"]), int(found["m"]), int(found["s"]))
    return Reading(text=printed) if wall is None else Reading("local", wall, None, None, SECOND, printed)


FORMAT: Final = DocumentFormat(
    name="freeipmi_sel",
    doc="The system event log of the management controller as FreeIPMI's `ipmi-sel` prints it: faults of memory, "
    "processors, PCIe, power and cooling; with `-v` also when they ended.",
    url="https://www.gnu.org/software/freeipmi/manpages/man8/ipmi-sel.8.html",
    tables=("health_checks", "node_events"),
    detects=detects,
    read=read,
    samples=(
        Sample(
            "ID  | Date        | Time     | Name        | Type                   | Event\n"
            "1   | Mar-02-2026 | 07:00:00 | SEL         | Event Logging Disabled | Log Area Reset/Cleared\n"
            "2   | Mar-02-2026 | 07:08:09 | DIMM_B2     | Memory                 | Uncorrectable memory error\n"
            "3   | Mar-02-2026 | 07:09:09 | GPU3_Temp   | Temperature            | Upper Critical - going high "
            "; Sensor Reading = 96.00 C ; Threshold = 95.00 C\n"
            "4   | PostInit    | 00:00:44 | PSU1 Status | Power Supply           | Power Supply Failure detected\n"
            "5   | Mar-02-2026 | 07:10:10 | PSU1 Status | Power Supply           | Presence detected\n",
            (
                expect(
                    "health_checks",
                    checker="ipmi_sel",
                    check="Uncorrectable memory error",
                    result="fail",
                    device="Memory DIMM_B2",
                    time_local="Mar-02-2026 07:08:09",
                ),
                expect("node_events", kind="memory_error", device="Memory DIMM_B2"),
                expect("health_checks", check="Upper Critical - going high", value=96.0, unit="C"),
                expect("node_events", kind="thermal", device="Temperature GPU3_Temp", value=96.0),
                expect("health_checks", check="Power Supply Failure detected", result="fail", time_local=None),
                expect("node_events", kind="power", device="Power Supply PSU1 Status"),
            ),
        ),
        Sample(
            "gpu021: ID,Date,Time,Name,Type,State,Event Direction,Event\n"
            "gpu021: 7,Mar-02-2026,07:08:12,PSU1 Status,Power Supply,Critical,Assertion Event,Power Supply input lost "
            "(AC/DC)\n"
            "gpu021: 8,Mar-02-2026,07:09:12,PSU1 Status,Power Supply,Nominal,Deassertion Event,Power Supply input lost "
            "(AC/DC)\n",
            (
                expect("health_checks", host="gpu021", result="fail", detail="Critical"),
                expect("node_events", host="gpu021", kind="power"),
                expect("health_checks", host="gpu021", result="pass", detail="Nominal"),
            ),
            "Many hosts, with commas and directions",
        ),
    ),
    non_samples=(
        "ID  | Date        | Time     | Name             | Guest | Event\n1   | Mar-02-2026 | 07:00:00 | a | b | c\n",
        "ID | Name | Type | Reading | Units | Event\n1 | GPU3_Temp | Temperature | 96.00 | C | 'At Upper'\n",
        "ID  | Date        | Time     | Name        | Type                   | Event\n",
        "Uncorrectable memory error | Mar-02-2026\n",
    ),
    aliases=("ipmi_sel",),
)
