"""What the reasons of events say, as kinds and states of ``scheduler_events``.

A reason is a word of the component that wrote the event, and means something only together with the kind of object that
it is about: ``Preempted`` of a pod is an end, of a workload of Kueue it is the first half of an eviction. Reasons that
are not listed keep the kind of their object: ``node_state``, ``pod_state``, ``job_state``.

Sources of the words: kubelet (pkg/kubelet/events), node lifecycle and taint controllers, kube-scheduler, the job
controller, JobSet (pkg/constants), Kueue (apis/kueue), Volcano (batch/v1alpha1, bus/v1alpha1), the training operator,
KubeRay (controllers/ray/utils), LeaderWorkerSet (pkg/controllers).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Said(NamedTuple):
    """Kind of a scheduler event, and the state that it implies."""

    kind: str
    state: str | None = None


# Kinds of objects that are one training job, whatever makes its pods.
_KINDS: Final = (
    "Job JobSet TrainJob PyTorchJob MPIJob TFJob XGBoostJob PaddleJob JAXJob MXJob RayJob LeaderWorkerSet Workload "
    "PodGroup AppWrapper"
)
JOB_KINDS: Final = frozenset(_KINDS.split())

_NODE: Final = {
    "NodeNotReady": Said("node_down", "NotReady"),
    "NodeReady": Said("node_up", "Ready"),
    "NodeNotSchedulable": Said("node_cordon", "SchedulingDisabled"),
    "NodeSchedulable": Said("node_uncordon", "SchedulingEnabled"),
    "Rebooted": Said("node_reboot", "Rebooted"),
}

_POD_FAILURES: Final = (
    "Failed FailedMount FailedAttachVolume FailedMapVolume FailedMountOnFilesystemMismatch FailedKillPod "
    "FailedCreatePodContainer FailedCreatePodSandBox FailedPodSandBoxStatus FailedSync FailedPostStartHook "
    "ErrImageNeverPull InspectFailed NetworkNotReady UnexpectedAdmissionError FailedBinding FailedToStart "
    "FailedPrepareDynamicResources"
)
_POD: Final = {
    "Scheduled": Said("pod_scheduled"),
    "Started": Said("pod_started"),
    "Killing": Said("pod_stopped"),
    "FailedScheduling": Said("pending", "PENDING"),
    "Unschedulable": Said("pending", "PENDING"),
    "NotTriggerScaleUp": Said("pending", "PENDING"),
    "TriggeredScaleUp": Said("pending", "PENDING"),
    "Preempted": Said("preempted", "PREEMPTED"),
    "Preempting": Said("preempted", "PREEMPTED"),
    "Evicted": Said("evicted", "PREEMPTED"),
    "Evict": Said("evicted", "PREEMPTED"),
    "PodEvicted": Said("evicted", "PREEMPTED"),
    # The taint may be that of a lost node or one that a person set: the event does not say.
    "TaintManagerEviction": Said("evicted"),
    "OOMKilling": Said("oom_kill", "OUT_OF_MEMORY"),
    "OOMKilled": Said("oom_kill", "OUT_OF_MEMORY"),
    "BackOff": Said("pod_backoff"),
    "Unhealthy": Said("pod_unhealthy"),
    **dict.fromkeys(_POD_FAILURES.split(), Said("pod_failed")),
}

_JOB: Final = {
    # batch/v1 Job
    "Completed": Said("ended", "COMPLETED"),
    "BackoffLimitExceeded": Said("ended", "FAILED"),
    "PodFailurePolicy": Said("ended", "FAILED"),
    "DeadlineExceeded": Said("ended", "TIMEOUT"),
    "Suspended": Said("suspended", "PENDING"),
    "Resumed": Said("resumed"),
    # JobSet
    "AllJobsCompleted": Said("ended", "COMPLETED"),
    "ReachedMaxRestarts": Said("ended", "FAILED"),
    "FailedJobs": Said("ended", "FAILED"),
    "FailJobSetFailurePolicyAction": Said("ended", "FAILED"),
    "Restarting": Said("requeued", "REQUEUED"),
    "RestartJobSetFailurePolicyAction": Said("requeued", "REQUEUED"),
    "RestartJobSetAndIgnoreMaxRestartsFailurePolicyAction": Said("requeued", "REQUEUED"),
    "RestartJobFailurePolicyAction": Said("restarted"),
    "RestartJobAndIgnoreMaxRestartsFailurePolicyAction": Said("restarted"),
    "SuspendedJobs": Said("suspended", "PENDING"),
    "ResumeJobs": Said("resumed"),
    # Kueue, on a workload or on the job itself
    "Admitted": Said("admitted"),
    "Preempted": Said("preempted", "PREEMPTED"),
    "Evicted": Said("requeued", "REQUEUED"),
    "Pending": Said("pending", "PENDING"),
    # LeaderWorkerSet: one group of it
    "RecreateGroup": Said("restarted"),
    "RecreateGroupOnPodRestart": Said("restarted"),
    # KubeRay
    "Retrying": Said("requeued", "REQUEUED"),
    # Volcano
    "RestartJob": Said("requeued", "REQUEUED"),
    "RestartPartition": Said("requeued", "REQUEUED"),
    "RestartTask": Said("restarted"),
    "RestartPod": Said("restarted"),
    "AbortJob": Said("cancelled", "CANCELLED"),
    "TerminateJob": Said("ended", "FAILED"),
    "CompleteJob": Said("ended", "COMPLETED"),
    "PodEvicted": Said("evicted", "PREEMPTED"),
    "Evict": Said("evicted", "PREEMPTED"),
    "Unschedulable": Said("pending", "PENDING"),
    "Unscheduable": Said("pending", "PENDING"),  # as Volcano spells it
    "FailedScheduling": Said("pending", "PENDING"),
    "PodGroupPending": Said("pending", "PENDING"),
}

# Training operator: PyTorchJobRestarting, MPIJobSucceeded, JobFailed.
_OF_OPERATOR: Final = re.compile(
    r"(?:[A-Z]\w{0,40}?)?Job(Created|Running|Restarting|Succeeded|Failed|Suspended|Resumed)\Z"
)
_OPERATOR: Final = {
    "Created": Said("submitted"),
    "Running": Said("job_state", "RUNNING"),
    "Restarting": Said("requeued", "REQUEUED"),
    "Succeeded": Said("ended", "COMPLETED"),
    "Failed": Said("ended", "FAILED"),
    "Suspended": Said("suspended", "PENDING"),
    "Resumed": Said("resumed"),
}
# Volcano: "Start to execute action RestartJob" under the reason ExecuteAction.
_ACTION: Final = re.compile(r"execute action (\w{1,40})")
# Kueue: EvictedDueToPreempted, EvictedDueToDeactivatedDueToRequeuingLimitExceeded.
_EVICTED: Final = "EvictedDueTo"
_STOPPED_BY_KUEUE: Final = re.compile(r"(?i)preempt|evict|pods ?ready|node fail|admission check|no longer")


def said_of_node(reason: str) -> Said:
    """An event about a node."""
    return _NODE.get(reason) or Said("node_state", reason or None)


def said_of_pod(reason: str, message: str) -> Said:
    """An event about a pod."""
    if reason == "TaintManagerEviction" and message.startswith("Cancel"):
        return Said("pod_state")
    return _POD.get(reason) or Said("pod_failed" if reason.startswith("OutOf") else "pod_state")


def said_of_job(reason: str, message: str) -> Said:
    """An event about a job, or what a queue keeps for it."""
    if reason == "ExecuteAction" and (action := _ACTION.search(message)):
        return _JOB.get(action[1]) or Said("job_state")
    if reason.startswith(_EVICTED):
        return eviction(reason.removeprefix(_EVICTED))
    if reason == "Stopped" and _STOPPED_BY_KUEUE.search(message):
        return eviction("Preempted" if "reempt" in message else "")
    if word := _OF_OPERATOR.match(reason):
        return _OPERATOR[word[1]]
    return _JOB.get(reason) or Said("job_state")


def eviction(cause: str) -> Said:
    """An eviction by Kueue for that cause: the workload goes back into its queue, unless it was switched off."""
    if cause.startswith(("Deactivat", "InactiveWorkload")):
        return Said("ended", "TIMEOUT" if "MaximumExecutionTime" in cause else "CANCELLED")
    if cause.startswith("Preempt"):
        return Said("requeued", "PREEMPTED")
    return Said("requeued", "NODE_FAIL" if cause.startswith("NodeFailure") else "REQUEUED")
