"""gpud: the events and health states that its API and command line export as JSON.

    [{"component": "accelerator-nvidia-error-xid", "startTime": "...", "endTime": "...", "events": [{"component": "...",
        "time": "2026-03-02T07:08:09Z", "name": "error_xid", "type": "Fatal", "message": "XID 79 ... detected on"}]}]
    [{"component": "disk", "states": [{"time": "...", "name": "disk", "health": "Healthy", "reason": "ok"}]}]

Documented at https://github.com/leptonai/gpud/blob/main/docs/apis/swagger.json (/v1/events, /v1/states, /v1/info). The
host stands nowhere in it. An event of type Info is no check; an Xid that one names is an error all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import orjson

from aftershock.parsers.documents.iso_clock import stated_time
from aftershock.parsers.documents.json_records import json_start, load_record, member, records_of, text_member
from aftershock.parsers.documents.relayed_xid import relayed_error
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.parsers.kernel.xid import pci_of
from aftershock.schemas.events import GpuError, HealthCheck

_EVENT_RESULTS: Final = {"warning": "warn", "critical": "fail", "fatal": "fail"}
_HEALTH_RESULTS: Final = {"healthy": "pass", "degraded": "warn", "unhealthy": "fail", "initializing": "skip"}
_COMPONENT: Final = re.compile(rb'"component"\s*:\s*"[a-z][a-z0-9-]{1,80}"')
_CONTENT: Final = re.compile(rb'"(?:states|events|info)"\s*:\s*(?:\[|\{|null)')
_STATE: Final = re.compile(rb'"health"\s*:\s*"(?:Healthy|Unhealthy|Degraded|Initializing)"')
_EVENT: Final = re.compile(rb'"type"\s*:\s*"(?:Unknown|Info|Warning|Critical|Fatal)"')


def detects(head: Head) -> float:
    """Sure of components with states or events that have the words of gpud."""
    start = json_start(head.data)
    if not _COMPONENT.search(start):
        return 0.0
    spoken = _STATE.search(start) or (_EVENT.search(start) and b'"message"' in start)
    return 0.85 if spoken and _CONTENT.search(start) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The checks and the errors of all components."""
    for element in records_of(stream):
        if isinstance(element, Refused):
            yield element._replace(reason=f"gpud: {element.reason}")
            continue
        record = load_record(element)
        if record is None:
            yield Refused(element.offset, len(element.data), "gpud: not JSON", element.data[:512])
            continue
        component = text_member(record, "component") or ""
        inner = record.get("info") if isinstance(record.get("info"), dict) else record
        for state in _list(member(inner, "states")):
            yield from _state_rows(component, state, element.offset)
        for event in _list(member(inner, "events")):
            yield from _event_rows(component, event, element.offset)


def _state_rows(component: str, state: Any, offset: int) -> Iterator[Found]:
    word = text_member(state, "health")
    # Before health states had words they were true or false.
    if word is None and isinstance(member(state, "healthy"), bool):
        word = "healthy" if state["healthy"] else "unhealthy"
    result = _HEALTH_RESULTS.get((word or "").lower())
    if result is None:
        return
    component = text_member(state, "component") or component
    name = text_member(state, "name")
    detail = "; ".join(text for key in ("reason", "error") if (text := text_member(state, key))) or None
    check = HealthCheck(
        checker="gpud",
        check=component or name,
        result=result,
        detail=detail,
        message=f"{component or name}: {detail or word}",
    )
    yield Found(check, stated_time(member(state, "time")), offset)


def _event_rows(component: str, event: Any, offset: int) -> Iterator[Found]:
    name, message = text_member(event, "name") or "", text_member(event, "message") or ""
    component = text_member(event, "component") or component
    reading = stated_time(member(event, "time"))
    error = _error(component, name, message, member(event, "extra_info"))
    result = _EVENT_RESULTS.get((text_member(event, "type") or "").lower())
    if result is not None:
        check = HealthCheck(
            checker="gpud",
            check=component or name,
            result=result,
            gpu_uuid=error.gpu_uuid if error else None,
            pci=error.pci if error else None,
            detail=message or name or None,
            message=f"{name}: {message}" if message else name,
        )
        yield Found(check, reading, offset)
    if error is not None:
        yield Found(error, reading, offset)


def _error(component: str, name: str, message: str, extra: Any) -> GpuError | None:
    """The Xid or SXid that an event is about: in its message, or in the data that it carries."""
    if "xid" not in f"{component} {name}".lower():
        return None
    error = relayed_error(message)
    if error is not None:
        return error
    family = "sxid" if "sxid" in f"{component} {name}".lower() else "xid"
    data = text_member(extra, "data")
    try:
        stated = orjson.loads(data) if data is not None else None
    except orjson.JSONDecodeError:
        return None
    code = stated if isinstance(stated, int) else member(stated, family)
    if not isinstance(code, int) or isinstance(code, bool):
        return None
    error = relayed_error(message, code, family)
    place = text_member(stated, "deviceUUID") or text_member(stated, "device_uuid") or text_member(extra, "device_uuid")
    if error is not None and place is not None and place.startswith("PCI:"):
        error.pci_raw = place[4:]
        error.pci = pci_of(error.pci_raw.encode("utf-8", "replace"))
    return error


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


_SAMPLES: Final = (
    Sample(
        '[{"component":"accelerator-nvidia-error-xid","startTime":"2026-03-02T00:00:00Z","endTime":"2026-03-03T00:00:00Z",'
        '"events":[{"component":"accelerator-nvidia-error-xid","time":"2026-03-02T07:08:09Z","name":"error_xid",'
        '"type":"Fatal","message":"XID 79 (GPU has fallen off the bus) detected on GPU PCI:0000:5d:00 '
        'UUID:GPU-0a0a0a0a-1111-2222-3333-444444444431"},{"time":"2026-03-02T07:18:09Z","name":"reboot","type":"Info",'
        '"message":"the host booted"}]}]\n',
        (
            expect(
                "health_checks",
                checker="gpud",
                check="accelerator-nvidia-error-xid",
                result="fail",
                pci="0000:5d:00.0",
                gpu_uuid="GPU-0a0a0a0a-1111-2222-3333-444444444431",
                time=1772435289000000,
            ),
            expect(
                "gpu_errors",
                family="xid",
                code=79,
                pci="0000:5d:00.0",
                gpu_uuid="GPU-0a0a0a0a-1111-2222-3333-444444444431",
                trust="relayed",
            ),
        ),
    ),
    Sample(
        '[{"component":"disk","states":[{"time":"2026-03-02T07:08:09Z","component":"disk","name":"disk",'
        '"health":"Healthy","reason":"ok"}]},{"component":"accelerator-nvidia-remapped-rows","states":[{'
        '"time":"2026-03-02T07:08:09Z","name":"row_remapping","health":"Unhealthy","reason":"GPU 3 needs a reset",'
        '"suggested_actions":{"repair_actions":["REBOOT_SYSTEM"]}}]}]\n',
        (
            expect("health_checks", check="disk", result="pass", detail="ok"),
            expect(
                "health_checks", check="accelerator-nvidia-remapped-rows", result="fail", detail="GPU 3 needs a reset"
            ),
        ),
    ),
)

FORMAT: Final = DocumentFormat(
    name="gpud",
    doc="Events and health states of gpud, as its API and command line export them: a check for each, passes too, and "
    "the "
    "Xid errors that it relays.",
    url="https://github.com/leptonai/gpud/blob/main/docs/apis/swagger.json",
    tables=("health_checks", "gpu_errors"),
    detects=detects,
    read=read,
    samples=_SAMPLES,
    non_samples=(
        '[{"component":"accelerator-nvidia-error-xid","metrics":[{"unix_seconds":1772435289,"name":"xid","value":79}]}]\n',
        '[{"component":"os","events":[{"time":"2026-03-02T07:08:09Z","name":"reboot","type":"Info","message":"up"}]}]\n',
        '{"component":"web","events":"none","type":"Info","message":"XID 79"}\n',
        "XID 79 detected on GPU PCI:0000:5d:00\n",
    ),
)
