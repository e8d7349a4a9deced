"""NVSentinel: health events of its monitors, as JSON of its API, its event exporter or its database.

    {"version": 1, "agent": "syslog-health-monitor", "componentClass": "GPU", "checkName": "SysLogsXIDError",
     "isFatal": true, "isHealthy": false, "message": "...", "errorCode": ["79"], "nodeName": "gpu017",
     "entitiesImpacted": [{"entityType": "PCI", "entityValue": "0000:3b:00"}], "generatedTimestamp": "2026-..."}

Documented at https://github.com/NVIDIA/NVSentinel (data-models/protobufs/health_event.proto). The database writes the
names in lower case and puts the event into ``healthevent``; exporters put it into ``data``. ``generatedTimestamp`` is
when the monitor noticed. A GPU entity is numbered as DCGM numbers it, which is not the index of nvidia-smi.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from aftershock.parsers.documents.iso_clock import stated_time
from aftershock.parsers.documents.json_records import json_start, load_record, records_of
from aftershock.parsers.documents.relayed_xid import UUID, relayed_error
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.parsers.kernel.xid import pci_of
from aftershock.schemas.events import GpuError, HealthCheck

_WORDS: Final = tuple(
    re.compile(rb'"' + word + rb'"\s*:', re.IGNORECASE)
    for word in (b"checkName", b"isHealthy", b"componentClass", b"agent")
)
_WRAPPERS: Final = ("healthevent", "data", "event", "fulldocument")
_CODE: Final = re.compile(r"(?:S?XID[ _:=-]{0,3})?(\d{1,6})(?:\.\w{1,40})?\Z", re.IGNORECASE)
_MOST_ENTITIES: Final = 256


def detects(head: Head) -> float:
    """Sure of the members that only its events have together."""
    start = json_start(head.data)
    return 0.9 if all(word.search(start) for word in _WORDS) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The checks, and the errors that they are about."""
    for element in records_of(stream, ("events",)):
        if isinstance(element, Refused):
            yield element._replace(reason=f"nvsentinel: {element.reason}")
            continue
        record = load_record(element)
        if record is None:
            yield Refused(element.offset, len(element.data), "nvsentinel: not JSON", element.data[:512])
            continue
        event = _event_in(record)
        if event is not None:
            yield from _rows(event, element.offset)


def _lowered(record: dict[str, Any]) -> dict[str, Any]:
    return {key.lower(): value for key, value in record.items()}


def _event_in(record: dict[str, Any]) -> dict[str, Any] | None:
    """The event itself, from at most three wrappings; its names in lower case."""
    for _ in range(4):
        lowered = _lowered(record)
        if isinstance(lowered.get("checkname"), str) and isinstance(lowered.get("ishealthy", False), bool):
            return lowered
        inner = next((lowered[key] for key in _WRAPPERS if isinstance(lowered.get(key), dict)), None)
        if inner is None:
            return None
        record = inner
    return None


def _rows(event: dict[str, Any], offset: int) -> Iterator[Found]:
    # Members that are false are left out by the encoders of protobuf.
    healthy, fatal = event.get("ishealthy") is True, event.get("isfatal") is True
    name, message = event["checkname"], _text(event.get("message")) or ""
    host, reading = _text(event.get("nodename")), stated_time(event.get("generatedtimestamp"))
    entities = _entities(event.get("entitiesimpacted"))
    by_kind = {kind.lower(): value for kind, value in reversed(entities)}
    pci = pci_of(by_kind.get("pci", "").removeprefix("PCI:").encode("utf-8", "replace"))
    uuid = UUID.fullmatch(by_kind.get("gpu_uuid", ""))
    codes = [str(code) for code in _list(event.get("errorcode")) if isinstance(code, (str, int))]
    check = HealthCheck(
        host_raw=host,
        checker="nvsentinel",
        check=name,
        result="pass" if healthy else "fail" if fatal else "warn",
        device=", ".join(f"{kind} {value}" for kind, value in entities) or _text(event.get("componentclass")),
        gpu_uuid=uuid[0] if uuid else None,
        pci=pci,
        detail=message or ", ".join(codes) or None,
        message=message,
    )
    yield Found(check, reading, offset)
    if healthy or "xid" not in name.lower():
        return
    for error in _errors("sxid" if "sxid" in name.lower() else "xid", codes, message):
        error.host_raw = host
        if error.pci is None and pci is not None:
            error.pci, error.pci_raw = pci, by_kind["pci"]
        error.gpu_uuid = error.gpu_uuid or check.gpu_uuid
        yield Found(error, reading, offset)


def _errors(family: str, codes: list[str], message: str) -> Iterator[GpuError]:
    numbers = [int(found[1]) for code in codes if (found := _CODE.match(code))]
    for number in dict.fromkeys(numbers[:16]):
        error = relayed_error(message, number, family)
        if error is None:
            continue
        if error.code != number:
            error = GpuError(family=family, code=number, trust="relayed", message=message)
        yield error
    if not numbers and (error := relayed_error(message)) is not None:
        yield error


def _entities(value: Any) -> list[tuple[str, str]]:
    entities = [_lowered(entry) for entry in _list(value)[:_MOST_ENTITIES] if isinstance(entry, dict)]
    pairs = [(_text(entry.get("entitytype")), _text(entry.get("entityvalue"))) for entry in entities]
    return [(kind, text) for kind, text in pairs if kind and text]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


_SAMPLES: Final = (
    Sample(
        '{"version":1,"agent":"syslog-health-monitor","componentClass":"GPU","checkName":"SysLogsXIDError","isFatal":true,'
        '"isHealthy":false,"message":"NVRM: Xid (PCI:0000:5d:00): 79, pid=4242, name=python3, GPU has fallen off the '
        'bus.",'
        '"recommendedAction":15,"errorCode":["79"],"entitiesImpacted":[{"entityType":"PCI","entityValue":"0000:5d:00"},'
        '{"entityType":"GPU_UUID","entityValue":"GPU-0a0a0a0a-1111-2222-3333-444444444441"}],'
        '"generatedTimestamp":"2026-03-02T07:08:09.5Z","nodeName":"dgx07"}\n'
        '{"version":1,"agent":"gpu-health-monitor","componentClass":"GPU","checkName":"GpuMemWatch","isHealthy":true,'
        '"message":"GPU memory watch reported no errors","entitiesImpacted":[{"entityType":"GPU","entityValue":"3"}],'
        '"generatedTimestamp":{"seconds":1772435289,"nanos":500000000},"nodeName":"dgx08"}\n',
        (
            expect(
                "health_checks",
                host="dgx07",
                checker="nvsentinel",
                check="SysLogsXIDError",
                result="fail",
                pci="0000:5d:00.0",
                time=1772435289500000,
            ),
            expect(
                "gpu_errors",
                host="dgx07",
                family="xid",
                code=79,
                pid=4242,
                process="python3",
                pci="0000:5d:00.0",
                gpu_uuid="GPU-0a0a0a0a-1111-2222-3333-444444444441",
                trust="relayed",
            ),
            expect(
                "health_checks", host="dgx08", check="GpuMemWatch", result="pass", device="GPU 3", time_basis="epoch"
            ),
        ),
    ),
    # From the database, and as a batch.
    Sample(
        '{"_id":{"$oid":"65f0"},"createdAt":{"$date":"2026-03-02T07:08:10Z"},"healthevent":{"agent":"gpu-health-monitor",'
        '"componentclass":"NVSWITCH","checkname":"SysLogsSXIDError","isfatal":false,"ishealthy":false,"message":"link '
        "44 is "
        'down","errorcode":["22013"],"generatedtimestamp":{"$date":{"$numberLong":"1772435289500"}},"nodename":"dgx09"}}\n',
        (
            expect("health_checks", host="dgx09", result="warn", device="NVSWITCH"),
            expect("gpu_errors", family="sxid", code=22013, host="dgx09", time=1772435289500000),
        ),
    ),
)

FORMAT: Final = DocumentFormat(
    name="nvsentinel",
    doc="Health events of NVSentinel's monitors, from its API, its exporter or its database: checks with their "
    "verdict, "
    "healthy ones too, and the Xid errors that they relay.",
    url="https://github.com/NVIDIA/NVSentinel/blob/main/data-models/protobufs/health_event.proto",
    tables=("health_checks", "gpu_errors"),
    detects=detects,
    read=read,
    samples=_SAMPLES,
    non_samples=(
        '{"agent":"gpu-health-monitor","checkName":79,"isHealthy":false,"componentClass":"GPU","errorCode":["79"]}\n',
        '{"level":"info","agent":"curl","msg":"isHealthy","errorCode":["79"]}\n',
        '{"rules":[{"match":"event.checkName == GpuXidError && event.isHealthy == false"}]}\n',
        "checkName: GpuXidError, isFatal: true, errorCode: 79\n",
    ),
)
