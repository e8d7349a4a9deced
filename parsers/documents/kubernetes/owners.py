"""Which training job a pod belongs to, and which attempt of it: by the labels of the controllers that make pods.

A pod names its direct owner only, which is often a job of a job. The labels of JobSet, the training operators, Volcano,
KubeRay, LeaderWorkerSet and AppWrapper name the job that a person submitted. A TrainJob has the name of the JobSet that
it makes.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from aftershock.parsers.documents.kubernetes.objects import Meta, full_name

_JOB_OF_BATCH: Final = ("batch.kubernetes.io/job-name", "job-name")
_INDEX: Final = ("batch.kubernetes.io/job-completion-index", "training.kubeflow.org/replica-index", "replica-index")
_MAKERS: Final = (
    "JobSet TrainJob PyTorchJob MPIJob TFJob XGBoostJob PaddleJob JAXJob MXJob RayJob LeaderWorkerSet AppWrapper"
)
_OWNERS: Final = frozenset(_MAKERS.split())
# Controllers whose pods serve, and have no end of their own.
_SERVERS: Final = "ReplicaSet DaemonSet StatefulSet Node ReplicationController Deployment RayService"
_SERVING: Final = frozenset(_SERVERS.split())
_ATTEMPT: Final = re.compile(r"\d{1,6}\Z")
_VOLCANO_TASK: Final = ("volcano.sh/task-spec", "volcano.sh/task-index")


class Job(NamedTuple):
    """A training job: its name, and the full name that tells it from others of that name.

    attempt: what tells the attempts of one job apart, where a label does: the number of restarts before, or the name
        of the cluster that was made for it. uid: of the job, where it is known.
    """

    name: str
    raw: str
    attempt: str | None = None
    uid: str | None = None

    @property
    def restarts(self) -> int | None:
        """How many attempts went before, where the label counts them."""
        return int(self.attempt) if self.attempt and _ATTEMPT.match(self.attempt) else None


def serves(pod: Meta) -> bool:
    """Whether a pod is kept running for its own sake, as those of a deployment are."""
    if pod.said("leaderworkerset.sigs.k8s.io/name"):
        return False  # its pods are those of stateful sets
    by_ray = pod.said("ray.io/originated-from-crd") == "RayService"
    return by_ray or (pod.owner is not None and pod.owner.kind in _SERVING)


def job_of_pod(pod: Meta) -> Job | None:
    """The job that a pod works for; None for a pod that stands alone or serves.

    What an AppWrapper wraps is a part of it, whatever that is by itself; it is created anew for each retry.
    """
    inner = _innermost(pod)
    wrapper = pod.said("workload.codeflare.dev/appwrapper")
    if wrapper and not (inner is None and serves(pod)):
        return _job(pod, wrapper, inner.attempt if inner else None)
    return inner


def _innermost(pod: Meta) -> Job | None:
    jobset = pod.said("jobset.sigs.k8s.io/jobset-name")
    if jobset:
        attempt = pod.said("jobset.sigs.k8s.io/restart-attempt")
        return _job(pod, jobset, attempt, pod.said("jobset.sigs.k8s.io/jobset-uid"))
    volcano = pod.said("volcano.sh/job-name")
    if volcano:
        return _job(pod, volcano, pod.said("volcano.sh/job-retry-count"))
    if serves(pod):
        return None
    cluster = pod.said("ray.io/cluster")
    if cluster:
        made_for = pod.said("ray.io/originated-from-cr-name")
        of_job = made_for and pod.said("ray.io/originated-from-crd") == "RayJob"
        return _job(pod, made_for if of_job and made_for else cluster, cluster)
    named = pod.said("training.kubeflow.org/job-name", "leaderworkerset.sigs.k8s.io/name")
    if named:
        return _job(pod, named)
    owner = pod.owner
    batch = pod.said(*_JOB_OF_BATCH)
    if batch and (owner is None or owner.kind in ("Job", *_OWNERS)):
        return _job(pod, batch, uid=owner.uid if owner else None)
    if owner is not None and (owner.kind == "Job" or owner.kind in _OWNERS):
        return _job(pod, owner.name, uid=owner.uid)
    return None


def job_named(kind: str, meta: Meta) -> Job | None:
    """The job that an object is, or that made it; None where only its name is known, and it may be a part of a job.

    A plain Job is often made by another one, and a workload of a queue always is; an event names neither's owner.
    """
    if kind in ("Job", "Workload", "PodGroup"):
        made_for = job_of_pod(meta)
        if made_for is not None and made_for.name != meta.name:
            return made_for
        if kind != "Job":
            return None
        return _job(meta, meta.name, uid=meta.uid) if meta.labels or meta.annotations else None
    if meta.owner is not None and meta.owner.kind in _OWNERS:
        return _job(meta, meta.owner.name, uid=meta.owner.uid)
    return _job(meta, meta.name, uid=meta.uid)


def slot_of(pod: Meta) -> str | None:
    """The place of a pod within its job, which a pod that replaces it takes over; None if the pods have no order."""
    group = pod.said("jobset.sigs.k8s.io/replicatedjob-name", "training.kubeflow.org/replica-type", _VOLCANO_TASK[0])
    number = pod.said("jobset.sigs.k8s.io/job-index", "leaderworkerset.sigs.k8s.io/group-index")
    index = pod.said(*_INDEX, _VOLCANO_TASK[1], "leaderworkerset.sigs.k8s.io/worker-index")
    if index is None:
        return None
    return "/".join((group or "", number or "", index))


def queue_of(meta: Meta) -> str | None:
    """The queue that a job or pod waited in."""
    return meta.said(
        "kueue.x-k8s.io/queue-name", "volcano.sh/queue-name", "scheduling.volcano.sh/queue-name", "runai/queue"
    )


def user_of(meta: Meta) -> str | None:
    """Whom a label names as the user. Kubernetes itself does not record who made an object."""
    keys = ("user", "username", "owner", "created-by", "submitted-by", "app.kubernetes.io/created-by")
    user = meta.said(*keys)
    return user if user and len(user) <= 128 and not user.startswith("{") else None


def _job(meta: Meta, name: str, attempt: str | None = None, uid: str | None = None) -> Job:
    return Job(name, full_name(meta.namespace, name), attempt, uid)
