"""The audit log of the API server: who cordoned a node, evicted a pod, submitted or deleted a job.

    {"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Request", "stage": "ResponseComplete", "verb": "patch",
     "user": {"username": "mira"}, "objectRef": {"resource": "nodes", "name": "gpu-012"},
     "requestObject": {"spec": {"unschedulable": true}}, "responseStatus": {"code": 200},
     "requestReceivedTimestamp": "2026-05-01T02:00:00.123456Z"}

Documented at https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/. No other record names the person. What was
asked for is read only where the policy logs bodies, and only for nodes; controllers of the cluster itself act for jobs
all the time and are left out there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aftershock.parsers.documents.iso_clock import stated_time
from aftershock.parsers.documents.json_records import member, text_member
from aftershock.parsers.documents.kubernetes.objects import JsonObject, full_name, whole
from aftershock.parsers.formats import Found
from aftershock.schemas.events import SchedulerEvent

_JOB_RESOURCES: Final = (
    "jobs jobsets trainjobs pytorchjobs mpijobs tfjobs xgboostjobs paddlejobs jaxjobs rayjobs leaderworkersets"
)
_JOBS: Final = frozenset(_JOB_RESOURCES.split())
_SYSTEM: Final = ("system:serviceaccount:", "system:node:", "system:kube-", "system:apiserver")
_CHANGES: Final = frozenset({"patch", "update"})


def is_audit(record: JsonObject) -> bool:
    """Whether a record is an event of the audit log."""
    return (text_member(record, "apiVersion") or "").startswith("audit.k8s.io/") or (
        "objectRef" in record and "requestReceivedTimestamp" in record
    )


def audit_rows(record: JsonObject, offset: int) -> Iterator[Found]:
    """What a request did to a node or a job, if it was carried out."""
    code = whole(member(record, "responseStatus", "code"))
    if text_member(record, "stage") not in (None, "ResponseComplete") or (code is not None and code >= 300):
        return
    about = member(record, "objectRef")
    resource, verb = text_member(about, "resource"), text_member(record, "verb")
    user = text_member(record, "impersonatedUser", "username") or text_member(record, "user", "username")
    name = text_member(about, "name") or text_member(record, "responseObject", "metadata", "name")
    if name is None or user is None or member(record, "requestObject", "dryRun"):
        return
    row: SchedulerEvent | None = None
    part = text_member(about, "subresource")
    if resource == "nodes" and verb in _CHANGES and part is None:
        row = _cordon(record, name)
    elif resource == "pods" and verb == "create" and part == "eviction":
        row = SchedulerEvent(kind="evicted", state="PREEMPTED", job_id=name)
    elif resource in _JOBS and part is None and not user.startswith(_SYSTEM):
        kind = {"create": "submitted", "delete": "cancelled"}.get(verb or "")
        row = SchedulerEvent(kind=kind, job_id=name) if kind else None
        if row is not None:
            row.raw_job_id = full_name(text_member(about, "namespace"), name)
            row.state = "CANCELLED" if kind == "cancelled" else None
    if row is None:
        return
    row.scheduler, row.user = "kubernetes", user
    row.message = f"{user}: {verb} {resource}{'/' + part if part else ''} {name}"
    received = stated_time(record.get("requestReceivedTimestamp"))
    done = stated_time(record.get("stageTimestamp"))
    yield Found(row, received if received.wall is not None else done, offset)


def _cordon(record: JsonObject, name: str) -> SchedulerEvent | None:
    """A change of a node's readiness to take pods. A patch that lifts a cordon writes null or false."""
    spec = member(record, "requestObject", "spec")
    if not isinstance(spec, dict) or "unschedulable" not in spec:
        return None
    cordoned = spec["unschedulable"] is True
    if not cordoned and text_member(record, "verb") != "patch":
        return None  # an update carries the whole object, changed or not
    row = SchedulerEvent(kind="node_cordon" if cordoned else "node_uncordon", hosts=[name], host_raw=name)
    row.state = "SchedulingDisabled" if cordoned else "SchedulingEnabled"
    return row
