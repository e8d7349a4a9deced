"""What node-problem-detector told the cluster: its events, and the node conditions that it keeps.

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
from typing import Final

from aftershock.parsers.clock import Reading
from aftershock.parsers.documents.iso_clock import stated_time
from aftershock.parsers.documents.json_records import member, text_member
from aftershock.parsers.documents.kubernetes.objects import JsonObject, listed
from aftershock.parsers.documents.relayed_xid import relayed_error
from aftershock.parsers.formats import Found
from aftershock.schemas.events import HealthCheck

_WRITER: Final = re.compile(
    r"node-problem-detector|(?:kernel|abrt|docker|systemd|readonly|health|custom-plugin|\w+)-monitor\Z|health-checker"
)
OF_KUBELET: Final = frozenset(
    {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable", "OutOfDisk"}
)
_STATUS: Final = {"true": "fail", "false": "pass", "unknown": "skip"}
_KERNEL_LINE: Final = re.compile(r"NVRM: ?Xid \(|SXid \(")


def is_problem(event: JsonObject) -> bool:
    """Whether an event is of node-problem-detector or of a monitor of its kind."""
    writer = text_member(event, "source", "component") or text_member(event, "reportingComponent")
    return _WRITER.match(writer or "") is not None


def event_problems(
    event: JsonObject, reading: Reading, last: Reading | None, count: int, offset: int
) -> Iterator[Found]:
    """The check that an event of this tool stands for, and the Xid error that an event of any writer passes on."""
    about = event.get("involvedObject", event.get("regarding"))
    host = text_member(about, "name") if text_member(about, "kind") == "Node" else None
    host = host or text_member(event, "source", "host")
    message = text_member(event, "message") or text_member(event, "note") or ""
    ours = is_problem(event)
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


def condition_problems(node: JsonObject, offset: int) -> Iterator[Found]:
    """The checks that the conditions of a node stand for."""
    host = text_member(node, "metadata", "name")
    for condition in listed(member(node, "status", "conditions")):
        kind = text_member(condition, "type")
        status = condition.get("status")
        result = _STATUS.get(str(status).lower()) if isinstance(status, (str, bool)) else None
        if kind is None or kind in OF_KUBELET or result is None:
            continue
        since = stated_time(condition.get("lastTransitionTime"))
        seen = stated_time(condition.get("lastHeartbeatTime"))
        message = text_member(condition, "message") or text_member(condition, "reason")
        check = HealthCheck(host_raw=host, checker="npd", check=kind, result=result, detail=message, message=message)
        if result == "fail" and since.wall is not None:
            yield Found(check, since, offset, last=seen if seen.wall is not None else None)
        else:
            yield Found(check, seen if seen.wall is not None else since, offset)
