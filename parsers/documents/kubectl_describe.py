"""kubectl describe: pods and nodes as they stand, and the events about them, laid out for people.

    Name:             bert-0
    Namespace:        ml
    Node:             dgx07/10.0.0.7
    Controlled By:    Job/bert
    Containers:
      train:
        State:          Terminated
          Reason:       OOMKilled
          Exit Code:    137
          Started:      Mon, 03 Feb 2025 08:00:05 +0000
    Events:
      Type     Reason   Age                From     Message
      ----     ------   ----               ----     -------
      Warning  BackOff  5m (x3 over 10m)   kubelet  Back-off restarting failed container

Documented at https://kubernetes.io/docs/reference/kubectl/generated/kubectl_describe/. What is printed of an object is
put into the members of the object, and read as that; of other kinds than pods and nodes only the events. These say how
long ago they were, and nobody knows when that was printed: they have no time. What a container is told in its
environment and its arguments is not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final

from aftershock.parsers.documents.kubectl_blocks import FIELD, DescribedLine, Sections, pairs_of, sections_of, table_of
from aftershock.parsers.documents.kubernetes.events import event_rows
from aftershock.parsers.documents.kubernetes.nodes import node_rows
from aftershock.parsers.documents.kubernetes.objects import JsonObject
from aftershock.parsers.documents.kubernetes.pods import pod_rows
from aftershock.parsers.documents.kubernetes.settling import settle
from aftershock.parsers.documents.text_lines import chunks_of, lines_of
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect

_BEGIN: Final = re.compile(rb"Name: {2,}[a-z0-9][a-z0-9.-]{0,252}\s*\Z")
# What stands below the name of any object, and of those that are read.
_BELOW: Final = re.compile(rb"(?:Namespace|Labels|Annotations|Roles|Priority): ")
_OWN: Final = re.compile(rb"(?:Containers|Conditions|Events|Taints|Controlled By|Start Time|API Version|Selector):")
_DATE: Final = re.compile(
    r"[A-Z][a-z]{2}, (?P<day>\d\d) (?P<month>[A-Z][a-z]{2}) (?P<year>\d{4}) (?P<time>\d\d:\d\d:\d\d)"
    r" (?P<zone>[+-]\d{4})"
)
_MONTHS: Final = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_TAINT: Final = re.compile(r"(?P<key>[\w./-]{1,320})(?:=(?P<value>[^:\s]{0,63}))?:(?P<effect>[A-Z]\w{1,31})\Z")
_FOLDED: Final = re.compile(r"\(x(\d{1,9}) over ")
_MOST_LINES: Final = 20_000
_RELATIVE: Final = "times of events are relative to when they were printed; kubectl get events -o json states them"


def detects(head: Head) -> float:
    """Sure of a name with what stands below it and a section of its own."""
    lines = head.lines(400)
    for number, line in enumerate(lines):
        if _BEGIN.match(line) and any(_BELOW.match(below) for below in lines[number + 1 : number + 4]):
            return 0.8 if any(_OWN.match(below) for below in lines[number + 1 :]) else 0.0
    return 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The rows of each object, in order."""
    kept: list[DescribedLine] = []
    events = False
    for offset, raw in lines_of(chunks_of(stream)):
        if _BEGIN.match(raw):
            yield from _rows(kept, events)
            events = events or _has_events(kept)
            kept = []
        elif not kept:
            continue
        if len(kept) == _MOST_LINES:
            yield Refused(offset, len(raw), f"kubectl_describe: an object of more than {_MOST_LINES} lines", raw[:512])
        if len(kept) <= _MOST_LINES:
            kept.append(DescribedLine(offset, raw.decode("utf-8", "replace").rstrip()))
    yield from _rows(kept, events)


def _rows(lines: Sequence[DescribedLine], told: bool) -> Iterator[Found | Refused]:
    if not lines:
        return
    sections = sections_of(lines)
    name = sections["Name"].value
    meta: JsonObject = {
        "name": name,
        "namespace": sections.value("Namespace"),
        "labels": pairs_of(sections, "Labels", "="),
        "annotations": pairs_of(sections, "Annotations", ":"),
    }
    kind = sections.value("Kind")
    node = None
    if kind is None and "Containers" in sections:
        kind = "Pod"
        pod = _pod(sections, meta)
        node = pod["spec"]["nodeName"]
        yield from pod_rows(pod, lines[0].offset)
    elif kind is None and ("Roles" in sections or "Unschedulable" in sections):
        kind = "Node"
        yield from node_rows(_node(sections, meta), lines[0].offset)
    elif kind is None and "Pods Statuses" in sections:
        kind = "Job"
    if kind is not None and (events := sections.get("Events")) is not None:
        if not told and events.below:
            first = events.below[0]
            yield Refused(first.offset, len(first.text), f"kubectl_describe: {_RELATIVE}", first.text.encode()[:512])
        about = {"kind": kind, "name": name, "namespace": meta["namespace"]}
        for line, cells in table_of(events.below):
            yield from event_rows(_event(cells, about, node), line.offset)


def _has_events(lines: Sequence[DescribedLine]) -> bool:
    return any(line.text == "Events:" for line in lines)


def _pod(sections: Sections, meta: JsonObject) -> JsonObject:
    kind, _, owner = (sections.value("Controlled By") or "").partition("/")
    if owner:
        meta["ownerReferences"] = [{"kind": kind, "name": owner, "controller": True}]
    phase = sections.value("Status")
    if phase is not None and phase.startswith("Terminating"):
        meta["deletionTimestamp"] = phase
    reason = sections.value("Reason")
    # The table has no reason for a disruption; that of the pod says more.
    conditions = [
        {"type": cells["Type"], "status": cells["Status"]}
        for _, cells in table_of(sections["Conditions"].below if "Conditions" in sections else [])
        if not (reason and cells["Type"] == "DisruptionTarget")
    ]
    containers = list(_containers(sections["Containers"].below))
    return {
        "kind": "Pod",
        "metadata": meta,
        "spec": {
            "nodeName": (sections.value("Node") or "").partition("/")[0] or None,
            "containers": [{"name": each["name"], "resources": each["resources"]} for each in containers],
        },
        "status": {
            "phase": phase,
            "reason": reason,
            "message": sections.value("Message"),
            "startTime": _time(sections.value("Start Time")),
            "conditions": conditions,
            "containerStatuses": containers,
        },
    }


_STATES: Final = {"State": "state", "Last State": "lastState"}
_RESOURCES: Final = {"Limits": "limits", "Requests": "requests"}
_MEMBERS: Final = {
    "Reason": "reason",
    "Message": "message",
    "Exit Code": "exitCode",
    "Signal": "signal",
    "Started": "startedAt",
    "Finished": "finishedAt",
}


def _containers(lines: Sequence[DescribedLine]) -> Iterator[dict[str, Any]]:
    """The containers of a pod, as their statuses are, with what they ask for."""
    container: dict[str, Any] | None = None
    into: JsonObject | None = None
    resources = False
    for line in lines:
        field = FIELD.match(line.text)
        if field is None:
            continue
        indent, key, value = len(field["indent"]), field["key"], field["value"]
        if indent == 2:
            if container is not None:
                yield container
            container, into = {"name": key, "resources": {}}, None
        elif container is None:
            continue
        elif indent == 4:
            into, resources = None, key in _RESOURCES
            if key in _STATES and value is not None:
                into = {}
                container[_STATES[key]] = {value.lower(): into}
            elif resources:
                into = container["resources"][_RESOURCES[key]] = {}
            elif key == "Restart Count":
                container["restartCount"] = value
        elif indent == 6 and into is not None and value is not None:
            if resources:
                into[key] = value
            elif key in _MEMBERS:
                into[_MEMBERS[key]] = _time(value) or value
    if container is not None:
        yield container


def _node(sections: Sections, meta: JsonObject) -> JsonObject:
    taints = sections.get("Taints")
    told = [taints.value or "", *(line.text.strip() for line in taints.below)] if taints else []
    info = {
        field["key"]: field["value"]
        for line in (sections["System Info"].below if "System Info" in sections else [])
        if (field := FIELD.match(line.text))
    }
    conditions = [
        {
            "type": cells["Type"],
            "status": cells["Status"],
            "lastTransitionTime": _time(cells.get("LastTransitionTime")),
            "reason": cells.get("Reason"),
            "message": cells.get("Message"),
        }
        for _, cells in table_of(sections["Conditions"].below if "Conditions" in sections else [])
    ]
    return {
        "kind": "Node",
        "metadata": meta,
        "spec": {
            "unschedulable": sections.value("Unschedulable"),
            "taints": [taint.groupdict() for text in told if (taint := _TAINT.match(text))],
        },
        "status": {"conditions": conditions, "nodeInfo": {"kernelVersion": info.get("Kernel Version")}},
    }


def _event(cells: dict[str, str], about: JsonObject, node: str | None) -> JsonObject:
    component, _, host = cells.get("From", "").partition(", ")  # releases before 1.19 name the host too
    folded = _FOLDED.search(cells.get("Age", "")) or _FOLDED.search(cells.get("LastSeen", ""))
    return {
        "involvedObject": about,
        "reason": cells["Reason"],
        "message": cells.get("Message", ""),
        "type": cells["Type"],
        "source": {"component": component, "host": host or (node if component == "kubelet" else None)},
        "count": folded[1] if folded else None,
    }


def _time(text: str | None) -> str | None:
    """A date as people read it, as objects state it."""
    date = _DATE.match(text or "")
    if date is None or date["month"] not in _MONTHS:
        return None
    month = _MONTHS.index(date["month"]) + 1
    return f"{date['year']}-{month:02}-{date['day']}T{date['time']}{date['zone'][:3]}:{date['zone'][3:]}"


_POD: Final = """\
Name:             bert-0
Namespace:        ml
Priority:         0
Node:             dgx07/10.0.0.7
Start Time:       Mon, 03 Feb 2025 08:00:01 +0000
Labels:           batch.kubernetes.io/job-name=bert
                  job-name=bert
Annotations:      <none>
Status:           Running
IP:               10.1.0.4
Controlled By:    Job/bert
Containers:
  train:
    Container ID:  containerd://5f
    State:          Running
      Started:      Mon, 03 Feb 2025 08:40:09 +0000
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
      Started:      Mon, 03 Feb 2025 08:00:05 +0000
      Finished:     Mon, 03 Feb 2025 08:40:05 +0000
    Ready:          True
    Restart Count:  1
    Limits:
      memory:          512Gi
      nvidia.com/gpu:  8
    Environment:
      NAME:  Name
Conditions:
  Type              Status
  Initialized       True
  Ready             True
Volumes:            <none>
Events:
  Type     Reason   Age                From     Message
  ----     ------   ----               ----     -------
  Warning  BackOff  5m (x3 over 10m)   kubelet  Back-off restarting failed container train in pod bert-0
"""
_NODE: Final = """\
$ kubectl describe node dgx08
Name:               dgx08
Roles:              <none>
Labels:             kubernetes.io/hostname=dgx08
                    topology.kubernetes.io/rack=r4
Annotations:        node.alpha.kubernetes.io/ttl: 0
CreationTimestamp:  Wed, 01 Jan 2025 09:00:00 +0000
Taints:             node.kubernetes.io/unreachable:NoExecute
                    gpu-fault=xid79:NoSchedule
Unschedulable:      false
Conditions:
  Type            Status    LastHeartbeatTime                 LastTransitionTime                Reason             \
 Message
  ----            ------    -----------------                 ------------------                ------             \
 -------
  MemoryPressure  Unknown   Mon, 03 Feb 2025 08:00:00 +0000   Mon, 03 Feb 2025 08:01:00 +0000   NodeStatusUnknown  \
 Kubelet stopped posting node status.
  Ready           Unknown   Mon, 03 Feb 2025 08:00:00 +0000   Mon, 03 Feb 2025 08:01:00 +0000   NodeStatusUnknown  \
 Kubelet stopped posting node status.
System Info:
  Kernel Version:  6.8.0-45-generic
Events:              <none>
"""

FORMAT: Final = DocumentFormat(
    name="kubectl_describe",
    doc="Pods and nodes as `kubectl describe` prints them, and the events about objects of any kind. Of events it only "
    "says how long ago they were, so they have no time.",
    url="https://kubernetes.io/docs/reference/kubectl/generated/kubectl_describe/",
    tables=("scheduler_events", "sessions", "health_checks", "gpu_errors", "node_events", "hosts"),
    detects=detects,
    read=read,
    settle=settle,
    samples=(
        Sample(
            _POD,
            (
                expect(
                    "sessions",
                    job_id="bert",
                    attempt=1,
                    state="OUT_OF_MEMORY",
                    exit_code=137,
                    hosts=["dgx07"],
                    n_gpus=8,
                    end_time=1_738_572_005_000_000,
                    duration_s=2400.0,
                ),
                expect("sessions", job_id="bert", attempt=2, state="RUNNING", start_time=1_738_572_009_000_000),
                expect("scheduler_events", kind="pod_backoff", job_id="bert", hosts=["dgx07"], count=3, time=None),
            ),
        ),
        Sample(
            _NODE,
            (
                expect("scheduler_events", kind="node_down", hosts=["dgx08"], time=1_738_569_660_000_000),
                expect("scheduler_events", kind="node_state", reason="taint gpu-fault=xid79:NoSchedule"),
                expect("hosts", host="dgx08", kernel="6.8.0-45-generic", rack="r4"),
            ),
        ),
    ),
    non_samples=(
        "Name:   bert\nVersion:   2.1\nSummary:   a model\n",
        "Name:        bert\nNamespace:   ml\n",
        "Name: Mira\nLabels: thanks\nEvents: the NVRM: Xid (PCI:0000:3b:00): 79 of Monday\n",
        "NAME     READY   STATUS    RESTARTS   AGE\nbert-0   1/1     Running   0          3h\n",
    ),
)
