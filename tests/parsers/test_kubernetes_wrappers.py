"""AppWrapper and LeaderWorkerSet: jobs of jobs that are created anew, and groups of pods that have no end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aftershock.parsers.documents.kubernetes import FORMAT
from aftershock.parsers.selfcheck import rows_of_text
from aftershock.schemas.columns import Row
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.sessions import Session
from tests.parsers.test_kubernetes_attempts import DAY, at, ended, pod, running

WRAPPER = "workload.codeflare.dev/appwrapper"
GROUP = "leaderworkerset.sigs.k8s.io/"


def rows(*objects: dict[str, Any]) -> list[Row]:
    return rows_of_text("\n".join(map(json.dumps, objects)), FORMAT)


def sessions(*objects: dict[str, Any]) -> list[Session]:
    return [row for row in rows(*objects) if isinstance(row, Session)]


def template(gpus: int) -> dict[str, Any]:
    limits = {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    return {"spec": {"containers": [{"name": "train", **limits}]}}


def condition(kind: str, status: bool, reason: str, clock: str, message: str = "") -> dict[str, Any]:
    since = f"{DAY}{clock}Z"
    return {"type": kind, "status": str(status), "reason": reason, "message": message, "lastTransitionTime": since}


def wrapper(phase: str, retries: int = 0, *conditions: dict[str, Any]) -> dict[str, Any]:
    inner = {"kind": "Job", "metadata": {"name": "inner"}, "spec": {"parallelism": 2, "template": template(8)}}
    return {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": {
            "name": "pretrain",
            "namespace": "ml",
            "creationTimestamp": f"{DAY}08:00:00Z",
            "labels": {"kueue.x-k8s.io/queue-name": "long"},
        },
        "spec": {"components": [{"template": inner}, {"template": {"kind": "Pod", **template(1)}}]},
        "status": {"phase": phase, "resettingCount": retries, "conditions": list(conditions)},
    }


@pytest.mark.parametrize(
    ("phase", "state"),
    [("Suspended", "PENDING"), ("Resuming", "PENDING"), ("Running", "RUNNING"), ("Succeeded", "COMPLETED")],
)
def test_a_wrapper_by_its_phase(phase: str, state: str) -> None:
    (row,) = sessions(wrapper(phase, 0, condition("QuotaReserved", False, phase, "09:00:00")))
    assert (row.job_id, row.raw_job_id, row.state, row.n_gpus) == ("pretrain", "ml/pretrain", state, 17)
    assert (row.partition, row.submit_time) == ("long", at("08:00:00"))
    assert row.end_time == (at("09:00:00") if state == "COMPLETED" else None)


def test_a_wrapper_that_failed_says_why() -> None:
    unhealthy = condition("Unhealthy", True, "FoundFailedPods", "09:30:00", "1 pods in Failed phase")
    (row,) = rows(wrapper("Failed", 3, unhealthy))
    assert isinstance(row, SchedulerEvent)  # of its last attempt nothing but the end is known
    assert (row.kind, row.state) == ("ended", "FAILED")
    assert row.reason == "FoundFailedPods: 1 pods in Failed phase; 3 retries"


def test_a_wrapper_that_is_reset_is_requeued() -> None:
    unhealthy = condition("Unhealthy", True, "InsufficientPodsReady", "09:30:00", "timed out")
    (row,) = rows(wrapper("Resetting", 1, unhealthy))
    assert isinstance(row, SchedulerEvent)
    assert (row.kind, row.state, row.raw_job_id) == ("requeued", "REQUEUED", "ml/pretrain")


def test_pods_of_what_is_wrapped_are_those_of_the_wrapper_attempt_by_attempt() -> None:
    labels = {WRAPPER: "pretrain", "batch.kubernetes.io/job-name": "inner"}
    index = [labels | {"batch.kubernetes.io/job-completion-index": str(n)} for n in (0, 1)]
    first = [pod(f"inner-{n}-a", f"g{n}", ended("09:00:00", "10:00:00"), labels=index[n]) for n in (0, 1)]
    second = [pod(f"inner-{n}-b", f"g{n + 4}", running("10:20:00"), labels=index[n]) for n in (0, 1)]
    found = sessions(*first, *second, wrapper("Running", 1))
    assert [(s.job_id, s.attempt, s.hosts, s.state) for s in found] == [
        ("pretrain", 1, ["g0", "g1"], "FAILED"),
        ("pretrain", 2, ["g4", "g5"], "RUNNING"),
    ]
    assert {s.partition for s in found} == {"long"}
    inner = {"kind": "Job", "metadata": {"name": "inner", "namespace": "ml", "labels": {WRAPPER: "pretrain"}}}
    inner |= {"spec": {"backoffLimit": 0}, "status": {"conditions": [condition("Failed", True, "x", "10:00:00")]}}
    events = [row for row in rows(*first, *second, inner) if isinstance(row, SchedulerEvent)]
    assert [(row.kind, row.raw_job_id) for row in events] == [("task_ended", "ml/pretrain")]


def groups(*conditions: dict[str, Any], ready: int = 0, leader: bool = True) -> dict[str, Any]:
    described = {"size": 4, "workerTemplate": template(8)} | ({"leaderTemplate": template(2)} if leader else {})
    return {
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "rollout", "namespace": "ml", "creationTimestamp": f"{DAY}08:00:00Z"},
        "spec": {"replicas": 3, "leaderWorkerTemplate": described},
        "status": {"replicas": 3, "readyReplicas": ready, "conditions": list(conditions)},
    }


@pytest.mark.parametrize(
    ("given", "state"),
    [
        (groups(condition("Available", True, "AllGroupsReady", "09:00:00"), ready=3), "RUNNING"),
        (groups(condition("Progressing", True, "GroupsProgressing", "09:00:00"), ready=1), "RUNNING"),
        (groups(condition("Progressing", True, "GroupsProgressing", "09:00:00")), "PENDING"),
    ],
)
def test_groups_have_a_state_and_no_end(given: dict[str, Any], state: str) -> None:
    (row,) = sessions(given)
    assert (row.state, row.end_time, row.n_gpus) == (state, None, 3 * (2 + 3 * 8))
    assert sessions(given | {"kind": None})[0].n_gpus == row.n_gpus  # as the lists of the API have it


def test_without_a_template_of_its_own_a_leader_is_as_the_workers_are() -> None:
    assert sessions(groups(ready=3, leader=False))[0].n_gpus == 3 * 4 * 8


def test_a_group_that_begins_anew_is_a_new_attempt_while_the_others_go_on() -> None:
    def member(group: int, worker: int, name: str, node: str, state: Any) -> dict[str, Any]:
        labels = {f"{GROUP}name": "rollout", f"{GROUP}group-index": str(group), f"{GROUP}worker-index": str(worker)}
        return pod(name, node, state, labels=labels)

    found = sessions(
        member(0, 0, "rollout-0", "g0", running("09:00:00")),
        member(0, 1, "rollout-0-1", "g1", running("09:00:05")),
        member(1, 0, "rollout-1 before", "g2", ended("09:00:00", "10:00:30", 143)),
        member(1, 1, "rollout-1-1 before", "g3", ended("09:00:05", "10:00:00", 1)),
        member(1, 0, "rollout-1", "g2", running("10:01:00")),
        member(1, 1, "rollout-1-1", "g7", running("10:01:05")),
    )
    assert [(s.job_id, s.attempt, s.hosts, s.start_time) for s in found] == [
        ("rollout", 1, ["g0", "g1", "g2", "g3"], at("09:00:00")),
        ("rollout", 2, ["g0", "g1", "g2", "g7"], at("10:01:00")),
    ]


@pytest.mark.parametrize("reason", ["RecreateGroup", "RecreateGroupOnPodRestart"])
def test_the_event_of_it(reason: str) -> None:
    message = "Worker pod rollout-1-1 failed, deleted leader pod rollout-1 to recreate group 1"
    about = {"kind": "LeaderWorkerSet", "name": "rollout", "namespace": "ml"}
    event = {"kind": "Event", "involvedObject": about, "reason": reason, "message": message, "type": "Normal"}
    (row,) = rows(event | {"lastTimestamp": f"{DAY}10:00:31Z", "metadata": {"name": "rollout.1"}})
    assert isinstance(row, SchedulerEvent)
    assert (row.kind, row.raw_job_id, row.message) == ("restarted", "ml/rollout", message)


def test_the_gpus_of_a_train_job() -> None:
    trainer = {"numNodes": 4, "resourcesPerNode": {"limits": {"nvidia.com/gpu": "8"}}}
    job = {
        "kind": "TrainJob",
        "metadata": {"name": "ft"},
        "spec": {"runtimeRef": {"name": "torch"}, "trainer": trainer},
    }
    assert sessions(job | {"status": {"conditions": [condition("Complete", True, "x", "10:00:00")]}})[0].n_gpus == 32
