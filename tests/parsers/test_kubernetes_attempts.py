"""Kubernetes: which pods and runs of containers are one attempt of a job, and how it ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.documents.kubernetes import FORMAT
from aftershock.parsers.selfcheck import rows_of_text
from aftershock.schemas.sessions import Session

DAY = "2026-05-01T"


def at(clock: str | None) -> int | None:
    """A time of that day in microseconds."""
    if clock is None:
        return None
    return round(datetime.fromisoformat(DAY + clock).replace(tzinfo=timezone.utc).timestamp() * 1_000_000)


def ended(start: str, end: str, code: int = 1, reason: str = "Error", **fields: Any) -> dict[str, Any]:
    times = {"startedAt": f"{DAY}{start}Z", "finishedAt": f"{DAY}{end}Z"}
    return {"terminated": {"exitCode": code, "reason": reason} | times | fields}


def running(start: str) -> dict[str, Any]:
    return {"running": {"startedAt": f"{DAY}{start}Z"}}


WAITING = {"waiting": {"reason": "ContainerCreating"}}


def pod(
    name: str,
    node: str | None,
    state: Any = None,
    before: Any = None,
    restarts: int = 0,
    labels: Any = None,
    **status: Any,
) -> dict[str, Any]:
    """A pod of eight GPUs in namespace ``ml``."""
    container = {"name": "train", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    statuses = [{"name": "train", "restartCount": restarts, "state": state, "lastState": before or {}}] if state else []
    phase = "Pending" if state is None or state is WAITING else "Running"
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", "uid": f"uid of {name}", "labels": labels or {}},
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": phase, "containerStatuses": statuses} | status,
    }


def of_jobset(attempt: int, index: int) -> dict[str, str]:
    return {
        "jobset.sigs.k8s.io/jobset-name": "bert",
        "jobset.sigs.k8s.io/restart-attempt": str(attempt),
        "batch.kubernetes.io/job-completion-index": str(index),
    }


def of_torch(index: int) -> dict[str, str]:
    return {"training.kubeflow.org/job-name": "bert", "training.kubeflow.org/replica-index": str(index)}


def sessions(*things: Any) -> list[Session]:
    text = "".join(json.dumps(thing) + "\n" for thing in things)
    found = [row for row in rows_of_text(text, FORMAT) if isinstance(row, Session)]
    return sorted(found, key=lambda row: (row.start_time is None, row.start_time or 0))


def told(found: Sequence[Session]) -> list[tuple[Any, ...]]:
    return [(row.attempt, row.hosts, row.state, row.start_time, row.end_time) for row in found]


def test_a_restarted_pod_group_is_one_session_per_attempt() -> None:
    found = sessions(
        pod("b-0", "gpu1", ended("01:00:10", "02:00:00", 1), labels=of_jobset(0, 0)),
        pod("b-1", "gpu2", ended("01:00:00", "02:00:20", 143), labels=of_jobset(0, 1)),
        pod("c-0", "gpu1", running("02:05:00"), labels=of_jobset(1, 0)),
        pod("c-1", "gpu3", running("02:04:00"), labels=of_jobset(1, 1)),
    )
    assert told(found) == [
        (1, ["gpu1", "gpu2"], "FAILED", at("01:00:00"), at("02:00:20")),
        (2, ["gpu1", "gpu3"], "RUNNING", at("02:04:00"), None),
    ]
    assert [(row.exit_code, row.n_gpus, row.raw_job_id) for row in found] == [(1, 16, "ml/bert"), (None, 16, "ml/bert")]


def test_a_label_counts_attempts_whose_pods_are_gone() -> None:
    assert [row.attempt for row in sessions(pod("b-0", "gpu1", running("02:00:00"), labels=of_jobset(3, 0)))] == [4]


def test_containers_that_restart_in_place_are_attempts_on_the_same_hosts() -> None:
    before = [ended("01:00:00", "02:00:00", 137, "OOMKilled"), ended("01:00:00", "02:00:30")]
    found = sessions(
        pod("b-0", "gpu1", running("02:00:10"), before[0], 5, of_torch(0)),
        pod("b-1", "gpu2", running("02:00:40"), before[1], 4, of_torch(1)),
    )
    assert told(found) == [
        (5, ["gpu1", "gpu2"], "OUT_OF_MEMORY", at("01:00:00"), at("02:00:00")),
        (6, ["gpu1", "gpu2"], "RUNNING", at("02:00:10"), None),
    ]


def test_a_pod_that_goes_on_stays_with_the_next_attempt() -> None:
    found = sessions(
        pod("b-0", "gpu1", running("02:00:10"), ended("01:00:00", "02:00:00"), 1, of_torch(0)),
        pod("b-1", "gpu2", running("01:00:00"), labels=of_torch(1)),
    )
    assert told(found) == [
        (1, ["gpu1", "gpu2"], "FAILED", at("01:00:00"), at("02:00:00")),
        (2, ["gpu1", "gpu2"], "RUNNING", at("02:00:10"), None),
    ]


def test_a_pod_that_stands_in_for_a_failed_one_opens_an_attempt() -> None:
    owner = {"ownerReferences": [{"kind": "Job", "name": "solo", "uid": "j", "controller": True}]}
    things = [
        pod("solo-a", "gpu1", ended("01:00:00", "02:00:00")),
        pod("solo-b", "gpu2", ended("02:01:00", "03:00:00")),
        pod("solo-c", "gpu3", ended("03:02:00", "04:00:00", 0, "Completed")),
    ]
    for thing in things:
        thing["metadata"] |= owner
    assert told(sessions(*things)) == [
        (1, ["gpu1"], "FAILED", at("01:00:00"), at("02:00:00")),
        (2, ["gpu2"], "FAILED", at("02:01:00"), at("03:00:00")),
        (3, ["gpu3"], "COMPLETED", at("03:02:00"), at("04:00:00")),
    ]


def test_a_stand_in_that_waits_is_an_attempt_without_a_start() -> None:
    found = sessions(
        pod("b-0", "gpu1", ended("01:00:00", "02:00:00"), labels=of_torch(0)),
        pod("c-0", None, labels=of_torch(0)),
    )
    assert told(found) == [(1, ["gpu1"], "FAILED", at("01:00:00"), at("02:00:00")), (2, [], "PENDING", None, None)]


def test_the_clusters_of_a_ray_job_are_its_attempts() -> None:
    def labels(cluster: str) -> dict[str, str]:
        return {"ray.io/cluster": cluster}

    job = {"kind": "RayJob", "metadata": {"name": "tune", "namespace": "ml"}, "status": {"rayClusterName": "tune-x2", "jobStatus": "RUNNING", "jobDeploymentStatus": "Running", "failed": 1}}  # fmt: skip
    origin = {"ray.io/originated-from-cr-name": "tune", "ray.io/originated-from-crd": "RayJob"}
    found = sessions(
        pod("h1", "gpu1", ended("01:00:00", "02:00:00"), labels=labels("tune-x1") | origin),
        pod("h2", "gpu2", running("03:00:00"), labels=labels("tune-x2")),
        job,
    )
    assert [(row.job_id, row.hosts, row.state) for row in found] == [
        ("tune", ["gpu1"], "FAILED"),
        ("tune", ["gpu2"], "RUNNING"),
    ]


@pytest.mark.parametrize(
    ("status", "state", "reason"),
    [
        ({"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "m"}]}, "PREEMPTED", "PreemptionByScheduler: m"),
        ({"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]}, "NODE_FAIL", "DeletionByTaintManager"),
        ({"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}], "reason": "Evicted"}, "PREEMPTED", "Evicted"),
        ({"conditions": [{"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"}]}, "FAILED", "Error"),
        ({"reason": "NodeShutdown"}, "NODE_FAIL", "NodeShutdown"),
        ({"reason": "DeadlineExceeded"}, "TIMEOUT", "DeadlineExceeded"),
    ],
)  # fmt: skip
def test_why_the_cluster_took_a_pod(status: Any, state: str, reason: str) -> None:
    (row,) = sessions(pod("a", "gpu1", ended("01:00:00", "02:00:00", 137), **status))
    assert (row.state, row.end_reason, row.exit_code) == (state, reason, 137)


def test_the_loss_of_a_node_says_more_than_the_failures_of_its_peers() -> None:
    lost: dict[str, Any] = {
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]
    }
    (row,) = sessions(
        pod("b-0", "gpu1", ended("01:00:00", "02:00:00", 134), labels=of_torch(0)),
        pod("b-1", "gpu2", ended("01:00:00", "02:06:00", 137), labels=of_torch(1), **lost),
    )
    assert (row.state, row.exit_code, row.end_reason) == ("NODE_FAIL", 134, "DeletionByTaintManager")


def test_a_job_object_completes_its_last_attempt() -> None:
    failed = {
        "type": "Failed",
        "status": "True",
        "reason": "ReachedMaxRestarts",
        "lastTransitionTime": DAY + "03:00:10Z",
    }
    job = {"kind": "JobSet", "metadata": {"name": "bert", "namespace": "ml", "creationTimestamp": DAY + "00:00:00Z", "labels": {"user": "mira"}},
           "status": {"restarts": 1, "conditions": [failed]}}  # fmt: skip
    found = sessions(
        job,
        pod("b-0", "gpu1", ended("01:00:00", "02:00:00"), labels=of_jobset(0, 0)),
        pod("c-0", "gpu1", running("02:05:00"), labels=of_jobset(1, 0)),
    )
    assert told(found) == [
        (1, ["gpu1"], "FAILED", at("01:00:00"), at("02:00:00")),
        (2, ["gpu1"], "FAILED", at("02:05:00"), at("03:00:10")),
    ]
    assert {row.user for row in found} == {"mira"}
    assert found[1].end_reason == "ReachedMaxRestarts; 1 restarts"


def test_jobs_of_one_name_in_two_namespaces_are_two() -> None:
    one, other = (pod("b-0", f"gpu{n}", running("01:00:00"), labels=of_jobset(0, 0)) for n in (1, 2))
    other["metadata"] |= {"namespace": "qa", "uid": "another"}
    assert [(row.raw_job_id, row.hosts) for row in sessions(one, other)] == [
        ("ml/bert", ["gpu1"]),
        ("qa/bert", ["gpu2"]),
    ]


def test_pods_that_serve_and_pods_without_gpus_are_no_sessions() -> None:
    web, lone = (pod("a", "gpu1", running("01:00:00")) for _ in range(2))
    web["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "web", "controller": True}]
    lone["spec"]["containers"] = [{"name": "sh"}]
    assert sessions(web, lone) == []


def test_nothing_of_environment_and_arguments_is_told() -> None:
    secret = pod("a", "gpu1", running("01:00:00"))
    container = {
        "env": [{"name": "WANDB_API_KEY", "value": "hunter2"}],
        "args": ["--token", "hunter2"],
        "command": ["hunter2"],
    }
    secret["spec"]["containers"][0] |= container
    secret["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "hunter2"}
    assert "hunter2" not in repr(sessions(secret))


PODS = [
    pod("b-0", "gpu1", ended("01:00:00", "02:00:00"), labels=of_jobset(0, 0)),
    pod("b-1", "gpu2", ended("01:00:00", "02:00:20"), labels=of_jobset(0, 1)),
    pod("c-0", "gpu1", running("02:05:00"), ended("02:04:00", "02:04:30"), 1, of_jobset(1, 0)),
    pod("c-1", "gpu3", running("02:04:00"), labels=of_jobset(1, 1)),
    pod("d-0", "gpu9", ended("03:00:00", "04:00:00"), labels=of_torch(0) | {"training.kubeflow.org/job-name": "x"}),
    pod("e-0", None, labels=of_torch(0) | {"training.kubeflow.org/job-name": "x"}),
]


@settings(max_examples=60, deadline=None)
@given(order=st.permutations(PODS), again=st.lists(st.sampled_from(PODS), max_size=4))
def test_the_order_of_pods_and_looking_twice_change_nothing(order: list[Any], again: list[Any]) -> None:
    whole = sorted(told(sessions(*PODS)), key=repr)
    assert len(whole) == 5
    assert sorted(told(sessions(*order, *again)), key=repr) == whole


def test_a_pod_seen_while_it_ran_and_after_its_end_ended() -> None:
    looks = [pod("a", "gpu1", state) for state in (WAITING, running("01:00:00"), ended("01:00:00", "02:00:00"))]
    for thing in (looks, looks[::-1]):
        assert told(sessions(*({"type": "MODIFIED", "object": look} for look in thing))) == [
            (1, ["gpu1"], "FAILED", at("01:00:00"), at("02:00:00"))
        ]
