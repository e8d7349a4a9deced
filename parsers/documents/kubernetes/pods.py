"""Pods of jobs: where they ran, from when to when, and how each run of their main container ended.

    {"kind": "Pod", "metadata": {"name": "train-0", "labels": {"jobset.sigs.k8s.io/jobset-name": "train", ...}},
     "spec": {"nodeName": "gpu-012", "containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}]},
     "status": {"phase": "Running", "containerStatuses": [{"restartCount": 1, "state": {"running": {"startedAt": ...}},
     "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "startedAt": ..., "finishedAt": ...}}}]}}

Documented at https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/. A pod keeps its present
run and the one before it; of earlier ones only their number is known. What a container is told in its environment and
its arguments is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from aftershock.parsers.clock import NO_CLOCK, SECOND, Reading
from aftershock.parsers.documents.iso_clock import stated_time
from aftershock.parsers.documents.json_records import member, text_member
from aftershock.parsers.documents.kubernetes.marks import RunMark, run_mark
from aftershock.parsers.documents.kubernetes.objects import (
    Condition,
    JsonObject,
    conditions_of,
    listed,
    meta_of,
    whole,
)
from aftershock.parsers.documents.kubernetes.owners import Job, job_of_pod, queue_of, serves, slot_of, user_of
from aftershock.parsers.formats import Found
from aftershock.schemas.sessions import Session

_GPU_ENDINGS: Final = ("/gpu", "/gpu.shared")
_GPU_NAMES: Final = frozenset({"nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "volcano.sh/gpu-number"})
_PHASES: Final = {
    "Pending": "PENDING",
    "Running": "RUNNING",
    "Succeeded": "COMPLETED",
    "Failed": "FAILED",
    "Unknown": "UNKNOWN",
}
# Why the cluster took a pod away: reason of the condition DisruptionTarget, or of the pod itself.
_TAKEN: Final = {
    "PreemptionByScheduler": "PREEMPTED",
    "PreemptionByKubeScheduler": "PREEMPTED",
    "EvictionByEvictionAPI": "PREEMPTED",
    "DeletionByTaintManager": "NODE_FAIL",
    "DeletionByPodGC": "NODE_FAIL",
    "Preempting": "PREEMPTED",
    "Preempted": "PREEMPTED",
    "Evicted": "PREEMPTED",
    "NodeLost": "NODE_FAIL",
    "NodeShutdown": "NODE_FAIL",
    "Shutdown": "NODE_FAIL",
    "Terminated": "NODE_FAIL",  # "Pod was terminated in response to imminent node shutdown."
    "DeadlineExceeded": "TIMEOUT",
}
_ENDED: Final = {
    "OOMKilled": "OUT_OF_MEMORY",
    "Completed": "COMPLETED",
    "ContainerStatusUnknown": "NODE_FAIL",
    "DeadlineExceeded": "TIMEOUT",
}


def pod_rows(pod: JsonObject, offset: int) -> Iterator[Found]:
    """A row for each run of a pod that is known, or one for a pod that has not run. None for pods that serve."""
    meta = meta_of(pod)
    if meta is None:
        return
    job, gpus = job_of_pod(meta), _gpus_of(pod)
    if job is None:
        if serves(meta) or (gpus == 0 and isinstance(member(pod, "spec", "containers"), list)):
            return
        job = Job(meta.name, meta.full_name, uid=meta.uid)
    status = _main_status(pod)
    taken = _taken(pod)
    runs = [*_runs(pod, status, taken)] or [_unstarted(pod, taken)]
    for ordinal, row in runs:
        row.scheduler, row.job_id, row.raw_job_id, row.name = "kubernetes", job.name, job.raw, job.name
        row.user, row.partition = user_of(meta), queue_of(meta)
        node = text_member(pod, "spec", "nodeName")
        # A pod that waits has no host; one that ran had some, whether the object says so or not.
        row.hosts = [node] if node else [] if row.state == "PENDING" else None
        row.n_gpus = gpus
        group = "\n".join((job.uid or "", job.attempt or ""))
        mark = RunMark(group, job.restarts, meta.uid or meta.name, meta.full_name, slot_of(meta), ordinal)
        yield Found(row, session_reading(row), offset, run_mark(mark))


def _runs(pod: JsonObject, status: JsonObject | None, taken: Condition | None) -> Iterator[tuple[int, Session]]:
    """The run before the present one, and the present one, with how many went before each."""
    restarts = whole(member(status, "restartCount")) or 0
    before = member(status, "lastState", "terminated")
    if isinstance(before, dict):
        yield max(0, restarts - 1), _ended(before)
    state = member(status, "state")
    if isinstance(ended := member(state, "terminated"), dict):
        row = _ended(ended)
        if row.start_time is None and row.end_time is None:
            row.start_time = known_time(member(pod, "status", "startTime"))
        _overrule(row, pod, taken)
        yield restarts, row
    elif isinstance(running := member(state, "running"), dict):
        row = Session(state="RUNNING", start_time=known_time(running.get("startedAt")))
        if row.start_time is None:
            row.start_time = known_time(member(pod, "status", "startTime"))
        _overrule(row, pod, taken)
        yield restarts, row


def _unstarted(pod: JsonObject, taken: Condition | None) -> tuple[int, Session]:
    """A pod without a run: it waits, or its node forgot it, or it is only known by its phase."""
    phase = _PHASES.get(text_member(pod, "status", "phase") or "")
    row = Session(state=phase)
    waits = member(_main_status(pod), "state", "waiting")
    scheduled = next((c for c in conditions_of(pod) if c.type == "PodScheduled" and not c.holds), None)
    row.end_reason = text_member(pod, "status", "reason") or text_member(waits, "reason")
    row.end_reason = row.end_reason or (scheduled.words if scheduled else None)
    if phase not in (None, "PENDING"):
        row.start_time = known_time(member(pod, "status", "startTime"))
    _overrule(row, pod, taken)
    if taken is not None and row.state not in ("PENDING", "RUNNING"):
        row.end_time = _known(taken.since)
    return -1, row


def _ended(ended: JsonObject) -> Session:
    reason, message = text_member(ended, "reason"), text_member(ended, "message")
    code = whole(ended.get("exitCode"))
    state = _ENDED.get(reason or "") or (None if code is None else "FAILED" if code else "COMPLETED")
    row = Session(
        start_time=known_time(ended.get("startedAt")),
        end_time=known_time(ended.get("finishedAt")),
        state=state or ("FAILED" if reason else "UNKNOWN"),
        exit_code=code,
        exit_signal=whole(ended.get("signal")) or None,
    )
    if row.state != "COMPLETED":
        # The message is the end of what the container wrote, where it was asked to leave one.
        row.end_reason = ": ".join(word for word in (reason, (message or "").strip()[:500]) if word) or None
    if row.start_time is not None and row.end_time is not None and row.end_time >= row.start_time:
        row.duration_s = (row.end_time - row.start_time) / SECOND
    return row


def _overrule(row: Session, pod: JsonObject, taken: Condition | None) -> None:
    """What the cluster did to the pod says more than how its container ended, if it ended badly or not at all."""
    if taken is None or row.state in ("COMPLETED", "OUT_OF_MEMORY"):
        return
    going = text_member(pod, "metadata", "deletionTimestamp") or text_member(pod, "status", "reason") == "NodeLost"
    if row.state == "RUNNING" and not going:
        return
    row.state = _TAKEN.get(taken.reason or "", "PREEMPTED")
    row.end_reason = taken.words or row.end_reason


def _taken(pod: JsonObject) -> Condition | None:
    """Why the cluster took the pod away, if it did."""
    reason = text_member(pod, "status", "reason")
    told = next(
        (c for c in conditions_of(pod) if c.type in ("DisruptionTarget", "TerminationTarget") and c.holds), None
    )
    if reason in _TAKEN and (told is None or told.reason == "TerminationByKubelet"):
        since = told.since if told else NO_CLOCK
        return Condition("", "true", reason, text_member(pod, "status", "message"), since)
    return told


def _main_status(pod: JsonObject) -> JsonObject | None:
    """The status of the container that trains: the first with GPUs, else the first."""
    statuses = listed(member(pod, "status", "containerStatuses"))
    with_gpus = {text_member(c, "name") for c in listed(member(pod, "spec", "containers")) if gpus_of_container(c)}
    named = (status for status in statuses if text_member(status, "name") in with_gpus - {None})
    return next(named, statuses[0] if statuses else None)


def _gpus_of(pod: JsonObject) -> int | None:
    """GPUs of all containers of a pod; None if it does not state its containers."""
    containers = member(pod, "spec", "containers")
    return sum(gpus_of_container(c) for c in listed(containers)) if isinstance(containers, list) else None


def gpus_of_container(container: JsonObject) -> int:
    """GPUs that a container is limited to: for such resources limit and request are one."""
    for words in ("limits", "requests"):
        amounts = member(container, "resources", words)
        found = [whole(amounts[name]) or 0 for name in amounts if _is_gpu(name)] if isinstance(amounts, dict) else []
        if found:
            return sum(found)
    return 0


def _is_gpu(name: Any) -> bool:
    return isinstance(name, str) and (name in _GPU_NAMES or name.endswith(_GPU_ENDINGS) or "nvidia.com/mig-" in name)


def gpus_of_template(template: Any) -> int:
    """GPUs of a pod that a template describes."""
    return (_gpus_of(template) or 0) if isinstance(template, dict) else 0


def known_time(value: Any) -> int | None:
    """A member that states a time, in UTC: all times of the API are."""
    return _known(stated_time(value))


def session_reading(row: Session, resolution: int = SECOND) -> Reading:
    """The clock of a session whose times are in UTC."""
    wall = next((t for t in (row.end_time, row.start_time, row.submit_time) if t is not None), None)
    return NO_CLOCK if wall is None else Reading("zoned", wall, resolution=resolution)


def _known(reading: Reading) -> int | None:
    return reading.wall if reading.kind in ("zoned", "epoch") else None
