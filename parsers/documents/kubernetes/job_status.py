"""Where a job stands, as its controller says it: by conditions, by a phase, or by words of its own.

    {"kind": "AppWrapper", "status": {"phase": "Resetting", "resettingCount": 2, "conditions": [{"type": "Unhealthy",
     "status": "True", "reason": "FoundFailedPods", "message": "1 pods in Failed phase", "lastTransitionTime": ...}]}}
    {"kind": "LeaderWorkerSet", "status": {"replicas": 2, "readyReplicas": 1, "conditions": [{"type": "Progressing",
     "status": "True", "reason": "GroupsProgressing", "lastTransitionTime": ...}]}}

Documented with JobSet, the training operator, Volcano, KubeRay, AppWrapper (workload.codeflare.dev/v1beta2: it deletes
what it wraps and creates it anew for each retry, and counts how often) and LeaderWorkerSet
(leaderworkerset.x-k8s.io/v1: it has no end of its own, and its groups begin anew one by one).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from aftershock.parsers.clock import NO_CLOCK, Reading
from aftershock.parsers.documents.iso_clock import stated_time
from aftershock.parsers.documents.json_records import member, text_member
from aftershock.parsers.documents.kubernetes.objects import JsonObject, conditions_of, whole

_CONDITIONS: Final = (
    ("Failed", "FAILED"),
    ("Completed", "COMPLETED"),
    ("Complete", "COMPLETED"),
    ("Succeeded", "COMPLETED"),
    ("Suspended", "PENDING"),
    ("Restarting", "REQUEUED"),
    ("RestartingJobSet", "REQUEUED"),
    ("Running", "RUNNING"),
    ("Created", "PENDING"),
)
_PHASES: Final = {
    # Volcano
    "Completed": "COMPLETED",
    "Failed": "FAILED",
    "Aborted": "CANCELLED",
    "Terminated": "FAILED",
    "Running": "RUNNING",
    "Pending": "PENDING",
    "Restarting": "REQUEUED",
    # KubeRay: jobStatus, and jobDeploymentStatus where the job itself has none
    "SUCCEEDED": "COMPLETED",
    "FAILED": "FAILED",
    "STOPPED": "CANCELLED",
    "RUNNING": "RUNNING",
    "PENDING": "PENDING",
    "Complete": "COMPLETED",
    "ValidationFailed": "FAILED",
    "Initializing": "PENDING",
    "Waiting": "PENDING",
    "Suspended": "PENDING",
    "Suspending": "PENDING",
    "Retrying": "REQUEUED",
}
OVER: Final = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"})


class Status(NamedTuple):
    """Where a job stands: its state, since when, why, and how often it began anew."""

    state: str | None
    since: Reading
    words: str | None
    restarts: int
    message: str | None = None


def status_of(job: JsonObject, kind: str) -> Status:
    """Where a job of that kind stands."""
    if kind == "RayJob":
        return _ray_status(job)
    if kind == "AppWrapper":
        return _wrapper_status(job)
    if kind == "LeaderWorkerSet":
        return _groups_status(job)
    return _volcano_status(job) or _condition_status(job)


_WRAPPER_PHASES: Final = {
    "Suspended": "PENDING",
    "Resuming": "PENDING",
    "Running": "RUNNING",
    "Resetting": "REQUEUED",
    "Suspending": "REQUEUED",
    "Succeeded": "COMPLETED",
    "Failed": "FAILED",
}


def _wrapper_status(job: JsonObject) -> Status:
    info = member(job, "status")
    phase = text_member(info, "phase")
    retries = whole(member(info, "resettingCount")) or 0
    conditions = list(conditions_of(job))
    unhealthy = next((condition for condition in conditions if condition.type == "Unhealthy" and condition.holds), None)
    # A phase has no time. What the controller changes with it gives the phase as its reason.
    with_it = [condition for condition in conditions if condition.reason == phase]
    told = [*with_it, *([unhealthy] if unhealthy and phase in ("Failed", "Resetting") else [])]
    since = max(
        (c.since for c in told if c.since.wall is not None), key=lambda since: since.wall or 0, default=NO_CLOCK
    )
    why = unhealthy.words if unhealthy else None
    counted = f"{retries} retries" if retries else ""
    words = "; ".join(word for word in (why, counted) if word) or None
    state = _WRAPPER_PHASES.get(phase or "", "UNKNOWN" if phase else None)
    # While it is reset, what the count has counted already is still to begin.
    before = retries - 1 if state == "REQUEUED" and phase == "Resetting" and retries else retries
    return Status(state, since, words, before, unhealthy.message if unhealthy else None)


def _groups_status(job: JsonObject) -> Status:
    holding = {condition.type: condition for condition in conditions_of(job) if condition.holds}
    found = holding.get("Available") or holding.get("UpdateInProgress") or holding.get("Progressing")
    ready = whole(member(job, "status", "readyReplicas"))
    state = None if found is None and ready is None else "RUNNING" if ready or "Available" in holding else "PENDING"
    return Status(state, found.since if found else NO_CLOCK, found.words if found else None, 0)


def _condition_status(job: JsonObject) -> Status:
    """The state by conditions, as Job, JobSet, TrainJob and the jobs of the training operator have them."""
    holding = {condition.type: condition for condition in conditions_of(job) if condition.holds}
    found = next(((holding[name], state) for name, state in _CONDITIONS if name in holding), None)
    info = member(job, "status")
    if found is None:
        state = {"Completed": "COMPLETED", "Failed": "FAILED"}.get(text_member(info, "terminalState") or "")
        state = state or ("RUNNING" if whole(member(info, "active")) else None)
        return Status(state, NO_CLOCK, None, _restarts(job))
    condition, state = found
    if state == "FAILED" and condition.reason == "DeadlineExceeded":
        state = "TIMEOUT"
    completed = stated_time(member(info, "completionTime"))
    since = completed if state == "COMPLETED" and completed.wall is not None else condition.since
    words = "; ".join(word for word in (condition.words, _restart_words(job)) if word) or None
    return Status(state, since, words, _restarts(job), condition.message)


def _ray_status(job: JsonObject) -> Status:
    info = member(job, "status")
    deployment, ran = text_member(info, "jobDeploymentStatus"), text_member(info, "jobStatus")
    ended = deployment in ("Complete", "Failed", "ValidationFailed")
    state = _PHASES.get(ran or "") if deployment in ("Complete", "Running", None) else None
    state = state or _PHASES.get(deployment or "")
    reason, message = text_member(info, "reason"), text_member(info, "message")
    if state == "FAILED" and "DeadlineExceeded" in (reason or ""):
        state = "TIMEOUT"
    failed = whole(member(info, "failed")) or 0
    # The last failure is that of this attempt, unless another one follows.
    restarts = failed - 1 if failed and ended and state != "COMPLETED" else failed
    end = stated_time(member(info, "endTime"))
    words = ": ".join(word for word in (reason, message) if word)
    counted = f"{restarts} retries before" if restarts else ""
    return Status(state, end, "; ".join(word for word in (words, counted) if word) or None, restarts, message)


def _volcano_status(job: JsonObject) -> Status | None:
    info = member(job, "status")
    phase = text_member(info, "state", "phase")
    if phase is None:
        return None
    reason, message = text_member(info, "state", "reason"), text_member(info, "state", "message")
    words = ": ".join(word for word in (reason, message) if word)
    restarts = whole(member(info, "retryCount")) or 0
    counted = f"{restarts} restarts" if restarts else ""
    since = stated_time(member(info, "state", "lastTransitionTime"))
    return Status(
        _PHASES.get(phase, "UNKNOWN"), since, "; ".join(w for w in (words, counted) if w) or None, restarts, message
    )


def _restarts(job: JsonObject) -> int:
    return whole(member(job, "status", "restarts")) or 0


def _restart_words(job: JsonObject) -> str | None:
    """Restarts of a JobSet: those after maintenance of a host may not count towards the most that are allowed."""
    restarts, counted = _restarts(job), whole(member(job, "status", "restartsCountTowardsMax"))
    if not restarts:
        return None
    most = whole(member(job, "spec", "failurePolicy", "maxRestarts"))
    words = f"{restarts} restarts"
    if counted is not None:
        words += f", {counted} of them counted towards the maximum"
    return words + (f" of {most}" if most is not None else "")
