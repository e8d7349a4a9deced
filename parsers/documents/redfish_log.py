"""Redfish event logs: collections of LogEntry, or single entries, as a BMC answers or a collector stores them.

    {"Members": [{"@odata.type": "#LogEntry.v1_9_0.LogEntry", "EntryType": "SEL", "Created": "2026-03-02T07:08:09Z",
        "Severity": "Critical", "SensorType": "Memory", "EntryCode": "Assert", "Message": "Uncorrectable ECC ..."}]}

Documented at https://redfish.dmtf.org/schemas/v1/LogEntry.json. Severity says how it went; an entry that is OK and
about no sensor or fault (a login, a boot) is no check. Members that only link to their entries hold nothing to read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from aftershock.parsers.clock import NO_CLOCK, Reading
from aftershock.parsers.documents.bmc_words import fault_of, topic_of
from aftershock.parsers.documents.iso_clock import stated_time
from aftershock.parsers.documents.json_records import json_start, load_record, member, records_of, text_member
from aftershock.parsers.documents.relayed_xid import relayed_error
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.schemas.events import HealthCheck, NodeEvent

_RESULTS: Final = {"ok": "pass", "warning": "warn", "critical": "fail"}
_TYPE: Final = re.compile(rb'"@odata\.type"\s*:\s*"#LogEntry(?:Collection)?\.')
_ENTRY: Final = re.compile(rb'"EntryType"\s*:\s*"(?:SEL|Event|Oem|CXL)"')
_OVER: Final = re.compile(r"deassert|\b(?:cleared|resolved|restored|returned to normal)\b", re.IGNORECASE)


def detects(head: Head) -> float:
    """Sure of the type that entries state, and of the members that only they have."""
    start = json_start(head.data)
    if _TYPE.search(start):
        return 0.9
    return 0.7 if _ENTRY.search(start) and b'"Severity"' in start and b'"Created"' in start else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The checks, the events of the node, and the Xid errors that entries name."""
    for element in records_of(stream, ("Members",)):
        if isinstance(element, Refused):
            yield element._replace(reason=f"redfish_log: {element.reason}")
            continue
        entry = load_record(element)
        if entry is None:
            yield Refused(element.offset, len(element.data), "redfish_log: not JSON", element.data[:512])
        elif "EntryType" in entry or "Severity" in entry:
            yield from _rows(entry, element.offset)


def _rows(entry: dict[str, Any], offset: int) -> Iterator[Found]:
    sensor = text_member(entry, "SensorType") or text_member(entry, "OemSensorType") or ""
    message = (
        text_member(entry, "Message") or text_member(entry, "OemLogEntryCode") or text_member(entry, "EntryCode") or ""
    )
    identity = text_member(entry, "MessageId") or sensor or text_member(entry, "EntryType") or "log entry"
    severity = (text_member(entry, "Severity") or text_member(entry, "MessageSeverity") or "").lower()
    code = text_member(entry, "EntryCode") or ""
    fault = fault_of(sensor, message) if sensor else None
    kind = fault.kind if fault else topic_of(f"{sensor} {message}") or topic_of(identity.rsplit(".", 1)[-1])
    result = _RESULTS.get(severity) or (fault.result if fault else None)
    reading = _clock(entry)
    args = member(entry, "MessageArgs")
    words = [word for word in args if isinstance(word, str)] if isinstance(args, list) else []
    xid = relayed_error(" ".join([message, *words])) if severity != "ok" else None
    if result is None or (result == "pass" and kind is None):
        return
    over = result == "pass" or _OVER.search(code) is not None
    device = _device(entry, sensor)
    check = HealthCheck(
        checker="redfish",
        check=identity,
        result="pass" if over else result,
        device=device,
        detail=message or None,
        message=message,
    )
    yield Found(check, reading, offset)
    if over:
        return
    if xid is not None:
        check.gpu_uuid, check.pci = xid.gpu_uuid, xid.pci
        xid.message = message
        yield Found(xid, reading, offset)
    elif kind is not None:
        yield Found(NodeEvent(kind=kind, device=device, message=message), reading, offset)


def _clock(entry: dict[str, Any]) -> Reading:
    """When it happened; ``Created`` may be when it was written down."""
    for key in ("EventTimestamp", "Created"):
        reading = stated_time(entry.get(key))
        if reading.wall is not None:
            return reading
    return NO_CLOCK


def _device(entry: dict[str, Any], sensor: str) -> str | None:
    origin = text_member(entry, "Links", "OriginOfCondition", "@odata.id")
    if origin is not None:
        return origin.rstrip("/").rsplit("/", 1)[-1] or None
    number = entry.get("SensorNumber")
    if sensor and isinstance(number, int) and not isinstance(number, bool):
        return f"{sensor} #{number:#04x}"
    return sensor or None


_SAMPLES: Final = (
    Sample(
        '{"@odata.type": "#LogEntryCollection.LogEntryCollection", "Members@odata.count": 3, "Members": [\n'
        '  {"@odata.type": "#LogEntry.v1_9_0.LogEntry", "Id": "1", "EntryType": "SEL", '
        '"Created": "2026-03-02T07:08:09+00:00", "Severity": "Critical", "SensorType": "Memory", "SensorNumber": 83, '
        '"EntryCode": "Assert", "Message": "Uncorrectable ECC in DIMM_B2"},\n'
        '  {"@odata.type": "#LogEntry.v1_9_0.LogEntry", "Id": "2", "EntryType": "Event", '
        '"Created": "2026-03-02T07:09:09Z", "Severity": "Warning", "MessageId": "Platform.1.1.PowerSupplyInputLost", '
        '"Message": "The input of power supply 2 is lost.", '
        '"Links": {"OriginOfCondition": {"@odata.id": "/redfish/v1/Chassis/1/PowerSubsystem/PowerSupplies/PSU2"}}},\n'
        '  {"@odata.type": "#LogEntry.v1_9_0.LogEntry", "Id": "3", "EntryType": "Event", '
        '"Created": "2026-03-02T07:10:09Z", "Severity": "OK", "Message": "User admin logged in."}]}\n',
        (
            expect(
                "health_checks",
                checker="redfish",
                check="Memory",
                result="fail",
                device="Memory #0x53",
                time=1772435289000000,
            ),
            expect("node_events", kind="memory_error", device="Memory #0x53"),
            expect("health_checks", check="Platform.1.1.PowerSupplyInputLost", result="warn", device="PSU2"),
            expect("node_events", kind="power", device="PSU2"),
        ),
    ),
    # Entries one a line; a GPU baseboard that passes an Xid on.
    Sample(
        '{"@odata.type": "#LogEntry.v1_15_0.LogEntry", "EntryType": "Event", "Created": "2026-03-02T07:08:09Z", '
        '"Severity": "Critical", "MessageId": "ResourceEvent.1.2.ResourceErrorsDetected", "Message": "GPU_SXM_3 has '
        'errors: NVRM: Xid (PCI:0000:5d:00): 79, GPU has fallen off the bus."}\n'
        '{"@odata.type": "#LogEntry.v1_15_0.LogEntry", "EntryType": "SEL", "Created": "2026-03-02T07:18:09Z", '
        '"Severity": "OK", "SensorType": "Temperature", "EntryCode": "Deassert", "Message": "Upper Critical going '
        'high"}\n',
        (
            expect("health_checks", result="fail", pci="0000:5d:00.0"),
            expect("gpu_errors", family="xid", code=79, pci="0000:5d:00.0", trust="relayed"),
            expect("health_checks", check="Temperature", result="pass"),
        ),
    ),
)

FORMAT: Final = DocumentFormat(
    name="redfish_log",
    doc="Event logs of management controllers as Redfish hands them out (LogEntry): a check for each entry that is a "
    "fault "
    "or its end, and the events of the node that follow from it.",
    url="https://redfish.dmtf.org/schemas/v1/LogEntry.json",
    tables=("health_checks", "node_events", "gpu_errors"),
    detects=detects,
    read=read,
    samples=_SAMPLES,
    non_samples=(
        '{"@odata.type": "#LogEntryCollection.LogEntryCollection", "Members": [{"@odata.id": "/redfish/v1/a/1"}]}\n',
        '{"@odata.type": "#LogEntry.v1_9_0.LogEntry", "EntryType": "Event", "Severity": "OK", "Message": "The system '
        'was started."}\n',
        '{"Members": [{"name": "Memory", "status": "Critical"}]}\n',
        "Severity: Critical, Message: Uncorrectable ECC\n",
    ),
)
