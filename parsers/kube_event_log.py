"""Events of Kubernetes as the components that send them put them into their own logs.

    I0203 08:11:12.123456       1 event.go:307] "Event occurred" object="gpu-012" fieldPath="" kind="Node"
    apiVersion="v1" type="Normal" reason="NodeNotReady" message="Node gpu-012 status is now: NodeNotReady"
    I0203 08:11:12.123456       1 event.go:278] Event(v1.ObjectReference{Kind:"Job", Namespace:"ml", Name:"bert",
    UID:"b6d1", APIVersion:"batch.volcano.sh/v1alpha1", ResourceVersion:"48", FieldPath:""}): type: 'Normal' reason:
    'ExecuteAction' Start to execute action RestartJob                                            (each in one line)

Written by client-go (tools/record/event.go of https://github.com/kubernetes/client-go) for kubelet, the controller
manager, the scheduler and the operators of training jobs. What the cluster keeps of them is read from its objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from aftershock.parsers.clock import YEARLESS, Reading, fraction_micros, wall_micros
from aftershock.parsers.documents.kubernetes.event_words import JOB_KINDS
from aftershock.parsers.documents.kubernetes.events import event_rows
from aftershock.parsers.documents.kubernetes.settling import settle
from aftershock.parsers.envelopes.syslog import iso_reading
from aftershock.parsers.formats import Envelope, Found, Head, Line, LineFormat, Refused, Sample, expect

# The logger of Kubernetes: level, date, thread, place in the code.
_KLOG: Final = re.compile(
    rb"[IWEF](?P<stamp>(?P<month>\d\d)(?P<day>\d\d) (?P<time>\d\d:\d\d:\d\d)\.(?P<fraction>\d{1,9}))"
    rb" {1,8}\d{1,10} [\w.-]{1,64}:\d{1,6}\] "
)
_OBJECT: Final = re.compile(
    rb'Event\(v1\.ObjectReference\{Kind:"(?P<kind>\w{1,64})", Namespace:"(?P<namespace>[\w.-]{0,253})", '
    rb'Name:"(?P<name>[\w.:-]{1,253})", [^}]{0,800}\}\): type: \'(?P<type>\w{1,32})\' '
    rb"reason: '(?P<reason>[\w.-]{1,128})' (?P<said>.*)\Z",
    re.DOTALL,
)
_KEYS: Final = re.compile(
    rb'"Event occurred" object="(?:(?P<namespace>[\w.-]{1,253})/)?(?P<name>[\w.:-]{1,253})" '
    rb'(?:fieldPath="[^"]{0,400}" )?kind="(?P<kind>\w{1,64})" apiVersion="[^"]{0,128}" type="(?P<type>\w{1,32})" '
    rb'reason="(?P<reason>[\w.-]{1,128})" message="(?P<said>(?:[^"\\]|\\.)*)"\s*\Z',
    re.DOTALL,
)
_BEGINS: Final = (b"Event(v1.ObjectReference{", b'"Event occurred" object=')
_ESCAPED: Final = re.compile(r'\\(["\\nt])')
_PLAIN: Final = {"n": "\n", "t": "\t"}
_KINDS: Final = frozenset({"Node", "Pod", *JOB_KINDS})


def read(line: Line) -> Iterator[Found | Refused]:
    """The rows of an event about a node, a pod or a job."""
    envelope = line.envelope
    head = _KLOG.match(envelope.message)
    said = envelope.message[head.end() :] if head is not None else b""
    if head is None or not said.startswith(_BEGINS):
        return
    found = _OBJECT.match(said) or _KEYS.match(said)
    if found is None:
        yield Refused(line.offset, len(line.text), "kube_event_log: the event breaks off", line.text[:512])
        return
    told = {name: (value or b"").decode("utf-8", "backslashreplace") for name, value in found.groupdict().items()}
    if told["kind"] not in _KINDS:
        return
    message = told["said"]
    if said.startswith(_BEGINS[1]):
        message = _ESCAPED.sub(lambda escaped: _PLAIN.get(escaped[1], escaped[1]), message)
    about = {"kind": told["kind"], "name": told["name"], "namespace": told["namespace"] or None}
    # The log of a kubelet is that of its host.
    source = {"component": envelope.tag, "host": envelope.host if envelope.tag == "kubelet" else None}
    event: dict[str, Any] = {"involvedObject": about, "reason": told["reason"], "message": message, "source": source}
    event["type"] = told["type"]
    reading = _reading(head, envelope) if envelope.reading.wall is None else envelope.reading
    for item in event_rows(event, line.offset):
        item.reading = reading
        yield item


def _reading(head: re.Match[bytes], envelope: Envelope) -> Reading:
    """The clock of the logger, which has no year; of a container's output the time of its collection tells that."""
    hour, minute, second = (int(part) for part in head["time"].split(b":"))
    micros, resolution = fraction_micros(head["fraction"])
    wall = wall_micros(YEARLESS, int(head["month"]), int(head["day"]), hour, minute, second, micros)
    text = head["stamp"].decode("ascii")
    if wall is None:
        return Reading(text=text)
    collected = iso_reading((envelope.labels or {}).get("collected", "").encode("utf-8", "replace"))
    epoch = collected.wall if collected is not None and collected.kind == "zoned" else None
    return Reading("yearless", wall, None, epoch, resolution, text)


def detects(head: Head) -> float:
    """Its lines stand among all else that a component has to say."""
    del head
    return 0.0


_NODE: Final = (
    '"Event occurred" object="gpu-012" fieldPath="" kind="Node" apiVersion="v1" type="Normal" reason="NodeNotReady" '
    'message="Node gpu-012 status is now: NodeNotReady"\n'
)

FORMAT = LineFormat(
    name="kube_event_log",
    doc="Events of Kubernetes in the logs of the components that send them: kubelet, controllers, schedulers, "
    "operators.",
    url="https://github.com/kubernetes/client-go/blob/master/tools/record/event.go",
    tables=("scheduler_events", "health_checks", "gpu_errors", "node_events"),
    detects=detects,
    signatures=(rb"Event\(v1\.ObjectReference\{Kind:", rb'"Event occurred" object="'),
    read=read,
    settle=settle,
    samples=(
        Sample(
            "2026-02-03T08:11:12.123456789Z stderr F I0203 08:11:12.123456       1 event.go:307] " + _NODE,
            (
                expect(
                    "scheduler_events",
                    kind="node_down",
                    hosts=["gpu-012"],
                    message="Node gpu-012 status is now: NodeNotReady",
                    time=1_770_106_272_123_456,
                ),
            ),
            "The controller manager, in a container",
        ),
        Sample(
            'Feb  3 08:11:12 dgx07 kubelet[4242]: I0203 08:11:12.123456    4242 event.go:294] "Event occurred" '
            'object="ml/bert-0" fieldPath="spec.containers{train}" kind="Pod" apiVersion="v1" type="Warning" '
            'reason="BackOff" message="Back-off restarting failed container \\"train\\" in pod bert-0"\n',
            (
                expect(
                    "scheduler_events",
                    kind="pod_backoff",
                    job_id="bert-0",
                    hosts=["dgx07"],
                    message='Back-off restarting failed container "train" in pod bert-0',
                ),
            ),
            "kubelet, in the journal of its host",
        ),
        Sample(
            'I0203 08:11:12.123456       1 event.go:278] Event(v1.ObjectReference{Kind:"Pod", Namespace:"ml", '
            'Name:"bert-1", UID:"b6d1", APIVersion:"v1", ResourceVersion:"48", FieldPath:""}): type: \'Warning\' '
            "reason: 'FailedScheduling' 0/9 nodes are available: 9 Insufficient nvidia.com/gpu.\n",
            (expect("scheduler_events", kind="pending", job_id="bert-1", time_local="0203 08:11:12.123456"),),
            "As older releases print it",
        ),
    ),
    non_samples=(
        _NODE,
        "We see Event(v1.ObjectReference{Kind:\"Node\", Name:\"gpu-012\"}): type: 'Normal' reason: 'NodeNotReady' x\n",
        'I0203 08:11:12.123456       1 event.go:307] "Event occurred" object="web" kind="Deployment" '
        'apiVersion="apps/v1" type="Normal" reason="ScalingReplicaSet" message="Scaled up"\n',
        'I0203 08:11:12.123456       1 event.go:307] "Event occurred" object="gpu-012" kind="No\n',
    ),
)
