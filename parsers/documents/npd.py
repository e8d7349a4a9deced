"""node-problem-detector: the Kubernetes events and node conditions that it writes, as kubectl prints them in JSON.

    {"kind": "Event", "reason": "OOMKilling", "message": "...", "source": {"component": "kernel-monitor"},
     "involvedObject": {"kind": "Node", "name": "gpu017"}, "firstTimestamp": "...", "lastTimestamp": "...", "count": 3}
    {"kind": "Node", "metadata": {"name": "gpu017"}, "status": {"conditions": [{"type": "KernelDeadlock", "status":
     "False", "reason": "KernelHasNoDeadlock", "lastHeartbeatTime": "...", "lastTransitionTime": "..."}]}}

Documented at https://github.com/kubernetes/node-problem-detector. A condition that is False is a check that passed, at
its last heartbeat; one that is True failed at its transition. The conditions of the kubelet itself (Ready,
MemoryPressure and so on) are not of this tool. Of other writers' events only those count that pass on an Xid line of
the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from aftershock.parsers.clock import NO_CLOCK, Reading
from aftershock.parsers.documents.iso_clock import stated_time
from aftershock.parsers.documents.json_records import json_start, load_record, member, records_of, text_member
from aftershock.parsers.documents.relayed_xid import relayed_error
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.schemas.events import HealthCheck

_WRITER: Final = re.compile(
    r"node-problem-detector|(?:kernel|abrt|docker|systemd|readonly|health|custom-plugin|\w+)-monitor\Z|health-checker"
)
_OF_KUBELET: Final = frozenset(
    {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable", "OutOfDisk"}
)
_STATUS: Final = {"true": "fail", "false": "pass", "unknown": "skip"}
_EVENT: Final = re.compile(rb'"kind"\s*:\s*"Event(?:List)?"')
_NODE: Final = re.compile(rb'"kind"\s*:\s*"Node(?:List)?"')
# A list of events begins with its items: what kind they are stands in the first of them.
_ABOUT: Final = re.compile(rb'"(?:involvedObject|regarding)"\s*:\s*\{')
_CONDITIONS: Final = re.compile(rb'"lastHeartbeatTime"\s*:')
_KERNEL_LINE: Final = re.compile(r"NVRM: ?Xid \(|SXid \(")


def detects(head: Head) -> float:
    """Events and nodes of Kubernetes, alone or in lists."""
    start = json_start(head.data)
    events = _EVENT.search(start) and _ABOUT.search(start)
    nodes = _NODE.search(start) and _CONDITIONS.search(start)
    return 0.75 if events or nodes else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The checks of events and conditions, and the Xid errors that events pass on."""
    for element in records_of(stream, ("items",)):
        if isinstance(element, Refused):
            yield element._replace(reason=f"npd: {element.reason}")
            continue
        record = load_record(element)
        if record is None:
            yield Refused(element.offset, len(element.data), "npd: not JSON", element.data[:512])
            continue
        # A watch wraps each object: {"type": "ADDED", "object": {...}}.
        inner = record.get("object")
        thing = inner if isinstance(inner, dict) and "kind" in inner else record
        if thing.get("kind") == "Node" or isinstance(member(thing, "status", "conditions"), list):
            yield from _condition_rows(thing, element.offset)
        elif thing.get("kind") == "Event" or "involvedObject" in thing:
            yield from _event_rows(thing, element.offset)


def _event_rows(event: dict[str, Any], offset: int) -> Iterator[Found]:
    writer = text_member(event, "source", "component") or text_member(event, "reportingComponent") or ""
    about = event.get("involvedObject", event.get("regarding"))
    host = text_member(about, "name") if text_member(about, "kind") == "Node" else None
    host = host or text_member(event, "source", "host")
    message = text_member(event, "message") or text_member(event, "note") or ""
    reading, last = _times(event)
    count = event.get("count")
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count < 1 << 31:
        count = 1
    ours = _WRITER.match(writer) is not None
    error = relayed_error(message) if ours or _KERNEL_LINE.search(message) else None
    if ours:
        check = HealthCheck(
            host_raw=host,
            checker="npd",
            check=text_member(event, "reason"),
            result="pass" if text_member(event, "type") == "Normal" else "warn",
            count=count,
            pci=error.pci if error else None,
            detail=message or None,
            message=message,
        )
        yield Found(check, reading, offset, last=last)
    if error is not None:
        error.host_raw, error.count = host, count
        yield Found(error, reading, offset, last=last)


def _times(event: dict[str, Any]) -> tuple[Reading, Reading | None]:
    """The clocks of the first and the last occurrence; newer writers state one time, and a series beside it."""
    first = next(
        (r for key in ("firstTimestamp", "eventTime") if (r := stated_time(event.get(key))).wall is not None), NO_CLOCK
    )
    last = stated_time(event.get("lastTimestamp"))
    if last.wall is None:
        last = stated_time(member(event, "series", "lastObservedTime"))
    if first.wall is None:
        return last, None
    return first, last if last.wall is not None and last.wall > first.wall else None


def _condition_rows(node: dict[str, Any], offset: int) -> Iterator[Found]:
    host = text_member(node, "metadata", "name")
    conditions = member(node, "status", "conditions")
    for condition in conditions if isinstance(conditions, list) else []:
        kind = text_member(condition, "type")
        result = _STATUS.get((text_member(condition, "status") or "").lower())
        if kind is None or kind in _OF_KUBELET or result is None:
            continue
        since, seen = (
            stated_time(member(condition, "lastTransitionTime")),
            stated_time(member(condition, "lastHeartbeatTime")),
        )
        message = text_member(condition, "message") or text_member(condition, "reason")
        check = HealthCheck(host_raw=host, checker="npd", check=kind, result=result, detail=message, message=message)
        if result == "fail" and since.wall is not None:
            yield Found(check, since, offset, last=seen if seen.wall is not None else None)
        else:
            yield Found(check, seen if seen.wall is not None else since, offset)


_SAMPLES: Final = (
    Sample(
        '{\n    "apiVersion": "v1",\n    "items": [\n        {"apiVersion": "v1", "kind": "Event", "type": "Warning", '
        '"reason": "GpuXid", "message": "NVRM: Xid (PCI:0000:5d:00): 48, pid=4242, name=python3, DBE", "count": 2, '
        '"firstTimestamp": "2026-03-02T07:08:09Z", "lastTimestamp": "2026-03-02T07:18:09Z", "source": {"component": '
        '"kernel-monitor", "host": "dgx07"}, "involvedObject": {"kind": "Node", "name": "dgx07"}},\n        '
        '{"apiVersion": '
        '"v1", "kind": "Event", "type": "Warning", "reason": "BackOff", "message": "restarting failed container", '
        '"source": '
        '{"component": "kubelet", "host": "dgx07"}, "involvedObject": {"kind": "Pod", "name": "train-0"}}\n    ],\n'
        '    "kind": "List"\n}\n',
        (
            expect(
                "health_checks",
                host="dgx07",
                checker="npd",
                check="GpuXid",
                result="warn",
                count=2,
                time=1772435289000000,
                last_time=1772435889000000,
            ),
            expect("gpu_errors", host="dgx07", code=48, pid=4242, pci="0000:5d:00.0", count=2, trust="relayed"),
        ),
    ),
    Sample(
        '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "dgx07"}, "status": {"conditions": [{"type": '
        '"Ready", '
        '"status": "True", "lastHeartbeatTime": "2026-03-02T07:08:09Z"}, {"type": "KernelDeadlock", "status": "False", '
        '"reason": "KernelHasNoDeadlock", "message": "kernel has no deadlock", "lastHeartbeatTime": '
        '"2026-03-02T07:08:09Z", "lastTransitionTime": "2026-02-01T00:00:00Z"}, {"type": "ReadonlyFilesystem", '
        '"status": '
        '"True", "reason": "FilesystemIsReadOnly", "message": "/scratch is read-only", "lastHeartbeatTime": '
        '"2026-03-02T07:18:09Z", "lastTransitionTime": "2026-03-02T07:08:09Z"}]}}\n',
        (
            expect("health_checks", host="dgx07", check="KernelDeadlock", result="pass", time=1772435289000000),
            expect(
                "health_checks",
                check="ReadonlyFilesystem",
                result="fail",
                time=1772435289000000,
                last_time=1772435889000000,
            ),
        ),
    ),
)

FORMAT: Final = DocumentFormat(
    name="npd",
    doc="What node-problem-detector told Kubernetes, as `kubectl get events` and `kubectl get nodes` print it with "
    "`-o json`: problems, conditions that hold or do not hold, and the Xid errors that it relays.",
    url="https://github.com/kubernetes/node-problem-detector",
    tables=("health_checks", "gpu_errors"),
    detects=detects,
    read=read,
    samples=_SAMPLES,
    non_samples=(
        '{"kind": "Event", "reason": "Xid", "message": "Xid 79", "source": {"component": "kubelet"}, "involvedObject": '
        '{"kind": "Pod", "name": "a"}}\n',
        '{"kind": "Pod", "metadata": {"name": "train-0"}, "status": {"phase": "Running"}}\n',
        '{"kind": "Node", "metadata": {"name": "dgx07"}, "status": {"conditions": [{"type": "Ready", "status": '
        '"True"}]}}\n',
        "LAST SEEN   TYPE      REASON      OBJECT       MESSAGE\n12m         Warning   OOMKilling  node/dgx07   "
        "killed\n",
    ),
)
