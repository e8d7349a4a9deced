"""Objects that are a training job: what its controller says about its state, its end and its restarts.

    {"kind": "JobSet", "metadata": {"name": "pretrain"}, "status": {"restarts": 3, "restartsCountTowardsMax": 1,
     "conditions": [{"type": "Failed", "status": "True", "reason": "ReachedMaxRestarts", "lastTransitionTime": "..."}]}}
    {"kind": "RayJob", "metadata": {"name": "tune"}, "status": {"jobStatus": "SUCCEEDED", "jobDeploymentStatus":
     "Complete", "rayClusterName": "tune-bbbbb", "failed": 1, "endTime": "..."}}
    {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "status": {"state": {"phase": "Restarting"},
     "retryCount": 2}}
    {"kind": "Workload", "status": {"conditions": [{"type": "Evicted", "status": "True", "reason": "Preempted"}]}}

Documented with JobSet (api/jobset/v1alpha2), the training operator and TrainJob (Kubeflow), Volcano (batch/v1alpha1),
KubeRay (ray/v1) and Kueue (kueue/v1beta1). An object tells of the last attempt; of those before it only their number is
left when their pods are gone, so no rows are made up for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from aftershock.parsers.clock import MINUTE, NO_CLOCK, SECOND
from aftershock.parsers.documents.iso_clock import stated_time
from aftershock.parsers.documents.json_records import member, text_member
from aftershock.parsers.documents.kubernetes.event_words import eviction
from aftershock.parsers.documents.kubernetes.job_status import OVER, Status, status_of
from aftershock.parsers.documents.kubernetes.marks import JobMark, job_mark
from aftershock.parsers.documents.kubernetes.objects import (
    Condition,
    JsonObject,
    Meta,
    conditions_of,
    full_name,
    listed,
    meta_of,
    whole,
)
from aftershock.parsers.documents.kubernetes.owners import job_of_pod, queue_of, user_of
from aftershock.parsers.documents.kubernetes.pods import gpus_of_container, gpus_of_template, session_reading
from aftershock.parsers.formats import Found
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.sessions import Session

# A job's own start is when its controller took it up: its pods follow as they are placed and their images pulled.
_START_ERROR: Final = 10 * MINUTE

_REPLICAS: Final = ("pytorchReplicaSpecs", "mpiReplicaSpecs", "tfReplicaSpecs", "xgbReplicaSpecs", "jaxReplicaSpecs")


def job_rows(job: JsonObject, kind: str, offset: int) -> Iterator[Found]:
    """The rows of a job: its session, an event where it goes back into the queue, or its end as a part of another."""
    meta = meta_of(job)
    if meta is None:
        return
    root = job_of_pod(meta)
    root_name, root_raw = (root.name, root.raw) if root else (meta.name, meta.full_name)
    status = status_of(job, kind)
    cluster = text_member(job, "status", "rayClusterName")
    parts = [full_name(meta.namespace, cluster)] if cluster else []
    mark = job_mark(JobMark(kind, meta.full_name, root_raw, root_name, status.restarts, parts))
    if root_raw != meta.full_name:
        said = "task_ended" if status.state in OVER else "task_state"
        row = _event(root_name, root_raw, said, status.state, status.words, status.message)
        yield Found(row, status.since, offset, mark)
        return
    session = _session(job, kind, meta, status)
    yield Found(session, session_reading(session, _START_ERROR if session.start_time else SECOND), offset, mark)
    if status.state == "REQUEUED":
        row = _event(meta.name, meta.full_name, "requeued", "REQUEUED", status.words, status.message)
        yield Found(row, status.since, offset)


def workload_rows(workload: JsonObject, offset: int) -> Iterator[Found]:
    """What a queue says of a job: admitted, evicted, finished."""
    meta = meta_of(workload)
    if meta is None:
        return
    owner = meta.owner
    name = owner.name if owner else meta.name
    raw = full_name(meta.namespace, name) if owner else None
    mark = job_mark(JobMark("Workload", meta.full_name, raw or "", name, 0, [])) if raw else ""
    for condition in conditions_of(workload):
        said = _of_queue(condition)
        if said is not None:
            words = "; ".join(word for word in (condition.words, _evictions(workload, condition)) if word)
            row = _event(name, raw, *said, words, condition.message)
            yield Found(row, condition.since, offset, mark)


def _of_queue(condition: Condition) -> tuple[str, str | None] | None:
    if not condition.holds:
        return None
    if condition.type == "Evicted":
        return eviction(condition.reason or "")
    if condition.type == "Admitted":
        return "admitted", None
    if condition.type == "Finished":
        failed = "Failed" in (condition.reason or "") or "failed" in (condition.message or "").lower()
        return "ended", "FAILED" if failed else "COMPLETED"
    return None


def _evictions(workload: JsonObject, condition: Condition) -> str | None:
    """How often it was evicted, and why: the condition keeps the last time only."""
    counts = listed(member(workload, "status", "schedulingStats", "evictions"))
    told = [f"{text_member(one, 'reason')} {whole(one.get('count'))}" for one in counts if whole(one.get("count"))]
    return "evictions: " + ", ".join(told[:16]) if told and condition.type == "Evicted" else None


def _session(job: JsonObject, kind: str, meta: Meta, status: Status) -> Session:
    over = status.state in OVER
    info = member(job, "status")
    start = stated_time(member(info, "startTime"))
    end = status.since if over else NO_CLOCK
    queued = meta.created.wall if status.restarts == 0 else None
    placed = status.state != "PENDING"
    row = Session(
        scheduler="kubernetes",
        job_id=meta.name,
        raw_job_id=meta.full_name,
        name=meta.name,
        user=user_of(meta),
        partition=queue_of(meta) or text_member(job, "spec", "queue"),
        n_gpus=_gpus(job, kind) or None,
        submit_time=queued,
        start_time=start.wall if placed and status.restarts == 0 else None,
        end_time=end.wall,
        state=status.state,
        end_reason=status.words if over or not placed else None,
        hosts=None if placed else [],
    )
    if row.start_time is not None and row.end_time is not None and row.end_time >= row.start_time:
        row.duration_s = (row.end_time - row.start_time) / SECOND
    return row


def _gpus(job: JsonObject, kind: str) -> int:
    """GPUs of all pods that a job describes."""
    spec = member(job, "spec")
    if kind == "JobSet":
        parts = listed(member(spec, "replicatedJobs"))
        return sum(_times(part.get("replicas")) * _of_batch(member(part, "template", "spec")) for part in parts)
    if kind == "RayJob":
        cluster = member(spec, "rayClusterSpec")
        groups = listed(member(cluster, "workerGroupSpecs"))
        workers = sum(
            _times(g.get("replicas")) * _times(g.get("numOfHosts")) * gpus_of_template(g.get("template"))
            for g in groups
        )
        return workers + gpus_of_template(member(cluster, "headGroupSpec", "template"))
    if kind == "LeaderWorkerSet":
        return _times(member(spec, "replicas")) * _of_group(member(spec, "leaderWorkerTemplate"))
    if kind == "AppWrapper":
        wrapped = [member(part, "template") for part in listed(member(spec, "components"))]
        return sum(map(_of_wrapped, wrapped))
    if kind == "Pod":
        return gpus_of_template(job)
    trainer = member(spec, "trainer")
    if kind == "TrainJob" and trainer is not None:
        each = gpus_of_container({"resources": member(trainer, "resourcesPerNode")})
        return _times(member(trainer, "numNodes")) * each
    tasks = listed(member(spec, "tasks"))
    for key in _REPLICAS:
        replicas = member(spec, key)
        tasks += [one for one in replicas.values() if isinstance(one, dict)] if isinstance(replicas, dict) else []
    return sum(_times(t.get("replicas")) * gpus_of_template(t.get("template")) for t in tasks) or _of_batch(spec)


def _of_wrapped(component: Any) -> int:
    """GPUs of what an AppWrapper wraps: a pod, or a job of any other kind."""
    kind = text_member(component, "kind")
    return _gpus(component, kind) if kind and kind != "AppWrapper" else 0


def _of_group(template: Any) -> int:
    """A leader and the workers that make up the size of a group; without a template of its own it is as they are."""
    workers = gpus_of_template(member(template, "workerTemplate"))
    leader = member(template, "leaderTemplate")
    return (workers if leader is None else gpus_of_template(leader)) + max(
        0, _times(member(template, "size")) - 1
    ) * workers


def _of_batch(spec: Any) -> int:
    return _times(member(spec, "parallelism")) * gpus_of_template(member(spec, "template"))


def _times(value: Any) -> int:
    number = whole(value)
    return 1 if number is None else number


def _event(
    name: str, raw: str | None, kind: str, state: str | None, reason: str | None, message: str | None
) -> SchedulerEvent:
    return SchedulerEvent(
        scheduler="kubernetes",
        kind=kind,
        state=state,
        reason=reason or None,
        job_id=name,
        raw_job_id=raw,
        message=message or reason or None,
    )
