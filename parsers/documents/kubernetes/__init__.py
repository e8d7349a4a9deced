"""Kubernetes: events, nodes, pods and training jobs, as ``kubectl get -o json`` and exporters of events print them.

    {"apiVersion": "v1", "items": [{"kind": "Event", ...}, {"kind": "Pod", ...}], "kind": "List"}
    {"kind":"Event","involvedObject":{"kind":"Node","name":"gpu-012"},"reason":"NodeNotReady",...}     one a line
    {"type":"MODIFIED","object":{"kind":"Pod",...}}                                                    a watch
    {"kind":"Event","apiVersion":"audit.k8s.io/v1","verb":"patch","objectRef":{"resource":"nodes"},...}

Documented at https://kubernetes.io/docs/reference/kubernetes-api/. One file may hold objects of every kind. Pods of one
job are one session for each attempt; a job that is known by its own object only is one session for its last attempt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final

from aftershock.parsers.documents.json_records import json_start
from aftershock.parsers.documents.kubernetes.audit import audit_rows, is_audit
from aftershock.parsers.documents.kubernetes.event_words import JOB_KINDS
from aftershock.parsers.documents.kubernetes.events import event_rows
from aftershock.parsers.documents.kubernetes.jobs import job_rows, workload_rows
from aftershock.parsers.documents.kubernetes.nodes import node_rows
from aftershock.parsers.documents.kubernetes.objects import JsonObject, kind_of, object_in
from aftershock.parsers.documents.kubernetes.pods import pod_rows
from aftershock.parsers.documents.kubernetes.samples import NON_SAMPLES, SAMPLES
from aftershock.parsers.documents.kubernetes.settling import settle
from aftershock.parsers.documents.kubernetes.stream import objects_of, with_begin
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused

_KINDS: Final = "|".join(sorted({"Event", "Node", "Pod", *JOB_KINDS}))
_KIND: Final = re.compile(rf'"kind"\s*:\s*"(?:(?:{_KINDS})(?:List)?)"'.encode())
# An object has one of these beside its kind, and an exporter may leave the kind out.
_AROUND: Final = re.compile(rb'"(?:metadata|status|spec|involvedObject|regarding|objectRef)"\s*:\s*\{')
_ABOUT: Final = re.compile(rb'"(?:involvedObject|regarding)"\s*:\s*\{')
# ``kubectl get -o yaml``: libyaml reads a megabyte a second, and its older releases crash on what is nested deeply.
_START: Final = 4096
_YAML: Final = re.compile(
    rf"(?:\xef\xbb\xbf)?(?:---\s*\n)?apiVersion: \S{{1,80}}\r?\n(?:kind: (?:{_KINDS}|List)\s|items:\r?\n- )".encode(
        "latin-1"
    )
)
_REASON: Final = re.compile(rb'"reason"\s*:')
# The items of a list as the API serves them: the kind stands on the list alone, which a program may have taken away.
_ITEM: Final = re.compile(rb'"metadata"\s*:\s*\{[^{}]{0,4000}"(?:name|namespace|uid|creationTimestamp)"\s*:\s*"')
_SPEC: Final = re.compile(rb'"spec"\s*:\s*\{')
_SHAPE: Final = re.compile(
    rb'"(?:nodeInfo|containerStatuses|replicatedJobs|(?:pytorch|mpi|tf)ReplicaSpecs|rayClusterSpec|podSets'
    rb'|leaderWorkerTemplate|backoffLimit|schedulingGates|nodeName)"\s*:\s*["\[{\d]'
)


def detects(head: Head) -> float:
    """Objects of kinds that are read, alone or in lists, and events without a kind."""
    if _YAML.match(head.data):
        return 0.8
    start = json_start(head.data)
    if _ABOUT.search(start) and (_REASON.search(start) or _KIND.search(start)):
        return 0.8
    if _KIND.search(start) and _AROUND.search(start):
        return 0.8
    return 0.7 if _SPEC.search(start) and _SHAPE.search(start) and _ITEM.search(start) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The rows of each object; what is joined of them is joined when the source is settled."""
    start = stream.read(_START)
    if _YAML.match(start):
        yield Refused(0, 0, "kubernetes: YAML is not read; kubectl get -o json gives the same objects", start[:512])
        return
    for record in objects_of(with_begin(start, stream)):
        if isinstance(record, Refused):
            yield record._replace(reason=f"kubernetes: {record.reason}")
        else:
            yield from _rows(record.data, record.offset)


def _rows(record: JsonObject, offset: int) -> Iterator[Found]:
    thing = object_in(record)
    if thing is None:
        return
    kind = kind_of(thing)
    if is_audit(thing):
        yield from audit_rows(thing, offset)
    elif kind == "Event":
        yield from event_rows(thing, offset)
    elif kind == "Pod":
        yield from pod_rows(thing, offset)
    elif kind == "Node":
        yield from node_rows(thing, offset)
    elif kind == "Workload":
        yield from workload_rows(thing, offset)
    elif kind in JOB_KINDS and kind != "PodGroup":
        yield from job_rows(thing, kind, offset)


FORMAT: Final = DocumentFormat(
    name="kubernetes",
    doc="Kubernetes events, nodes, pods and jobs (Job, JobSet, PyTorchJob and its kind, TrainJob, Volcano, Kueue, "
    "RayJob) as `kubectl get -o json` and exporters print them, with what node-problem-detector told the cluster, and "
    "the audit log.",
    url="https://kubernetes.io/docs/reference/kubernetes-api/",
    tables=("scheduler_events", "sessions", "health_checks", "gpu_errors", "node_events", "hosts"),
    detects=detects,
    read=read,
    settle=settle,
    samples=SAMPLES,
    non_samples=NON_SAMPLES,
    aliases=("npd",),
)
