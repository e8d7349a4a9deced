"""Kubernetes: events, nodes, job objects and the audit log."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest

from aftershock.parsers.documents.kubernetes import FORMAT, detects
from aftershock.parsers.formats import Head
from aftershock.parsers.selfcheck import rows_of_text
from aftershock.schemas.columns import Row
from aftershock.schemas.events import NodeEvent, SchedulerEvent
from aftershock.schemas.sessions import Session
from aftershock.schemas.topology import Host

DAY = "2026-05-01T"


def at(clock: str) -> int:
    """A time of that day in microseconds."""
    return round(datetime.fromisoformat(DAY + clock).replace(tzinfo=timezone.utc).timestamp() * 1_000_000)


def rows(*things: Any, layout: str = "lines") -> list[Any]:
    """The rows of objects, in one of the layouts that files have."""
    if layout == "list":
        return list(rows_of_text(json.dumps({"apiVersion": "v1", "items": things, "kind": "List"}, indent=4), FORMAT))
    return list(rows_of_text("".join(json.dumps(thing) + "\n" for thing in things), FORMAT))


def only(*things: Any) -> Any:
    (row,) = rows(*things)
    return row


def event(kind: str, name: str, reason: str, message: str = "", **fields: Any) -> dict[str, Any]:
    about = {"kind": kind, "name": name, "namespace": "ml"} | fields.pop("about", {})
    times = {"firstTimestamp": DAY + "01:00:00Z", "lastTimestamp": DAY + "01:00:00Z"}
    return {"kind": "Event", "involvedObject": about, "reason": reason, "message": message} | times | fields


# --- events -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "reason", "message", "said", "state"),
    [
        ("Node", "NodeNotReady", "", "node_down", "NotReady"),
        ("Node", "NodeReady", "", "node_up", "Ready"),
        ("Node", "NodeSchedulable", "", "node_uncordon", "SchedulingEnabled"),
        ("Node", "Rebooted", "Node a has been rebooted, boot id: 1", "node_reboot", "Rebooted"),
        ("Pod", "OOMKilling", "", "oom_kill", "OUT_OF_MEMORY"),
        ("Node", "NodeHasDiskPressure", "", "node_state", "NodeHasDiskPressure"),
        ("Pod", "FailedScheduling", "0/3 nodes are available", "pending", "PENDING"),
        ("Pod", "TaintManagerEviction", "Marking for deletion Pod ml/a", "evicted", None),
        ("Pod", "TaintManagerEviction", "Cancelling deletion of Pod ml/a", "pod_state", None),
        ("Pod", "Preempted", "Preempted by pod 7 on node gpu-012", "preempted", "PREEMPTED"),
        ("Pod", "OutOfnvidia.com/gpu", "", "pod_failed", None),
        ("Job", "BackoffLimitExceeded", "", "ended", "FAILED"),
        ("Job", "DeadlineExceeded", "", "ended", "TIMEOUT"),
        ("Job", "ExecuteAction", "Start to execute action RestartJob ", "requeued", "REQUEUED"),
        ("Job", "ExecuteAction", "Start to execute action RestartPod ", "restarted", None),
        ("Job", "ExecuteAction", "Start to execute action SyncJob ", "job_state", None),
        ("JobSet", "ReachedMaxRestarts", "", "ended", "FAILED"),
        ("JobSet", "RestartJobSetFailurePolicyAction", "", "requeued", "REQUEUED"),
        ("JobSet", "Stopped", "Preempted to accommodate a higher priority Workload", "requeued", "PREEMPTED"),
        ("PyTorchJob", "PyTorchJobRestarting", "", "requeued", "REQUEUED"),
        ("PyTorchJob", "JobFailed", "", "ended", "FAILED"),
        ("MPIJob", "MPIJobSucceeded", "", "ended", "COMPLETED"),
        ("Workload", "EvictedDueToPreempted", "", "requeued", "PREEMPTED"),
        ("Workload", "EvictedDueToNodeFailures", "", "requeued", "NODE_FAIL"),
        ("Workload", "EvictedDueToPodsReadyTimeout", "", "requeued", "REQUEUED"),
        ("Workload", "EvictedDueToDeactivatedDueToRequeuingLimitExceeded", "", "ended", "CANCELLED"),
        ("PodGroup", "Unschedulable", "", "pending", "PENDING"),
    ],
)
def test_reasons(kind: str, reason: str, message: str, said: str, state: str | None) -> None:
    row = only(event(kind, "a", reason, message))
    assert (row.scheduler, row.kind, row.state, row.reason) == ("kubernetes", said, state, reason)
    assert row.time == at("01:00:00")


@pytest.mark.parametrize(
    ("times", "time", "last", "count"),
    [
        ({"count": 7, "lastTimestamp": DAY + "03:00:00Z"}, "01:00:00", "03:00:00", 7),
        ({"firstTimestamp": None}, "01:00:00", "01:00:00", 1),
        ({"firstTimestamp": None, "lastTimestamp": None, "eventTime": DAY + "02:00:00Z"}, "02:00:00", "02:00:00", 1),
        (
            {"firstTimestamp": None, "lastTimestamp": None, "eventTime": DAY + "02:00:00Z",
             "series": {"count": "4", "lastObservedTime": DAY + "02:30:00Z"}},
            "02:00:00", "02:30:00", 4,
        ),
        (
            {"firstTimestamp": None, "lastTimestamp": None, "series": {"count": 4, "lastObservedTime": DAY + "02:30:00Z"}},
            "02:30:00", "02:30:00", 4,
        ),
        (
            {"firstTimestamp": None, "lastTimestamp": None, "metadata": {"creationTimestamp": DAY + "04:00:00Z"}},
            "04:00:00", "04:00:00", 1,
        ),
        (
            {"firstTimestamp": None, "lastTimestamp": None, "deprecatedFirstTimestamp": DAY + "05:00:00Z",
             "deprecatedLastTimestamp": DAY + "06:00:00Z", "deprecatedCount": 3},
            "05:00:00", "06:00:00", 3,
        ),
    ],
)  # fmt: skip
def test_times_and_counts_of_both_shapes(times: dict[str, Any], time: str, last: str, count: int) -> None:
    row = only(event("Node", "gpu-012", "NodeNotReady") | times)
    assert (row.time, row.last_time, row.count) == (at(time), at(last), count)


def test_an_event_without_any_time_has_none() -> None:
    row = only(event("Node", "gpu-012", "NodeNotReady", firstTimestamp=None, lastTimestamp="0001-01-01T00:00:00Z"))
    assert (row.time, row.time_basis) == (None, "none")


@pytest.mark.parametrize(
    "wrap",
    [
        lambda e: {"type": "ADDED", "object": e},
        lambda e: {"verb": "ADDED", "event": e},
        lambda e: {"_index": "k8s", "_source": {"verb": "UPDATED", "event": e}},
        lambda e: {"insertId": "x", "jsonPayload": e, "resource": {"type": "k8s_node"}},
        lambda e: {key: value for key, value in e.items() if key != "kind"},
        lambda e: {**{k: v for k, v in e.items() if k != "kind"}, "kind": ""},
    ],
)
def test_wrappings_of_exporters(wrap: Any) -> None:
    record = wrap(event("Node", "gpu-012", "NodeNotReady"))
    assert detects(Head("x", json.dumps(record).encode())) > 0.5
    assert (only(record).kind, only(record).hosts) == ("node_down", ["gpu-012"])


def test_an_event_that_was_looked_at_several_times_counts_once() -> None:
    looks = [event("Node", "gpu-012", "NodeNotReady", count=n, metadata={"uid": "e1"}) for n in (1, 5, 3)]
    assert [row.count for row in rows(*looks)] == [5]
    assert len(rows(*[look | {"metadata": {}} for look in looks])) == 3


def test_hosts_of_events_about_pods() -> None:
    scheduled = event("Pod", "w-0", "Scheduled", "Successfully assigned ml/w-0 to gpu-012")
    started = event("Pod", "w-0", "Started", source={"component": "kubelet", "host": "gpu-013.example.org"})
    newer = event("Pod", "w-0", "Started", reportingComponent="kubelet", reportingInstance="gpu-014")
    assert [row.hosts for row in rows(scheduled, started, newer)] == [["gpu-012"], ["gpu-013"], ["gpu-014"]]


def test_an_event_finds_its_job_by_labels_or_by_objects_of_its_file() -> None:
    labels = {"labels": {"training_kubeflow_org/job-name": "llama"}}
    told = only(event("Pod", "llama-worker-0", "BackOff", about=labels))
    assert (told.job_id, told.raw_job_id) == ("llama", "ml/llama")
    alone = only(event("Pod", "llama-worker-0", "BackOff"))
    assert (alone.job_id, alone.raw_job_id) == ("llama-worker-0", None)
    pod = {"kind": "Pod", "metadata": {"name": "llama-worker-0", "namespace": "ml", "labels": {"training.kubeflow.org/job-name": "llama"}},
           "status": {"phase": "Pending"}}  # fmt: skip
    found = next(row for row in rows(event("Pod", "llama-worker-0", "BackOff"), pod) if isinstance(row, SchedulerEvent))
    assert (found.job_id, found.raw_job_id) == ("llama", "ml/llama")


def test_the_end_of_a_part_is_not_the_end_of_the_job() -> None:
    owner = [{"kind": "JobSet", "name": "bert", "controller": True}]
    part = {"kind": "Job", "metadata": {"name": "bert-w-0", "namespace": "ml", "ownerReferences": owner}, "status": {}}
    row, state = rows(event("Job", "bert-w-0", "BackoffLimitExceeded"), part)
    assert (state.kind, state.job_id) == ("task_state", "bert")
    assert (row.kind, row.job_id, row.raw_job_id, row.state) == ("task_ended", "bert", "ml/bert", "FAILED")
    assert only(event("Job", "bert-w-0", "BackoffLimitExceeded")).raw_job_id is None


def test_a_victim_of_the_system_oom_is_a_node_event() -> None:
    message = "System OOM encountered, victim process: python3, pid: 4711"
    row = only(event("Node", "gpu-012", "SystemOOM", message))
    assert isinstance(row, NodeEvent)
    assert (row.kind, row.process, row.pid, row.host) == ("oom_kill", "python3", 4711, "gpu-012")


# --- nodes ------------------------------------------------------------------------------------------------------------


def node(spec: Any = None, ready: str = "True", **labels: str) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready, "reason": "R", "lastTransitionTime": DAY + "01:00:00Z"}]
    return {"kind": "Node", "metadata": {"name": "gpu-012", "labels": labels}, "spec": spec or {}, "status": {"conditions": conditions}}  # fmt: skip


def test_a_cordon_has_the_time_of_its_taint_or_none() -> None:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": DAY + "02:00:00Z"}
    cordon, up = rows(node({"unschedulable": True, "taints": [taint]}))
    assert (cordon.kind, cordon.time, up.kind, up.time) == ("node_cordon", at("02:00:00"), "node_up", at("01:00:00"))
    assert [(row.kind, row.time) for row in rows(node({"unschedulable": True}))][:1] == [("node_cordon", None)]
    assert [row.kind for row in rows(node({"unschedulable": False}))] == ["node_up"]


def test_other_taints_are_states_and_those_of_a_scale_down_drain() -> None:
    taints = [
        {"key": "dedicated", "value": "train", "effect": "NoSchedule"},
        {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"},
        {"key": "soft", "effect": "PreferNoSchedule"},
        {"key": 7},
    ]
    found = rows(node({"taints": taints}, ready="Unknown"))
    assert [(row.kind, row.reason) for row in found] == [
        ("node_down", "R"),
        ("node_state", "taint dedicated=train:NoSchedule"),
        ("node_drain", "taint ToBeDeletedByClusterAutoscaler:NoSchedule"),
    ]


def test_a_lost_node_is_known_by_its_taint_where_its_conditions_are_missing() -> None:
    taint = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": DAY + "02:00:00Z"}
    row = only({"kind": "Node", "metadata": {"name": "gpu-012"}, "spec": {"taints": [taint]}, "status": {}})
    assert (row.kind, row.time) == ("node_down", at("02:00:00"))


def test_what_a_node_says_of_its_host_and_repeats_is_told_once() -> None:
    parts = {
        f"nvidia.com/cuda.driver.{part}": number for part, number in (("major", "570"), ("minor", "86"), ("rev", "15"))
    }
    thing = node(**parts, **{"cloud.google.com/gke-nodepool": "h100"})
    found = [row for row in rows(thing, thing, thing) if isinstance(row, Host)]
    assert [(row.host, row.driver, row.partition) for row in found] == [("gpu-012", "570.86.15", "h100")]
    assert len(rows(thing, thing)) == 2


# --- jobs without pods ------------------------------------------------------------------------------------------------


def job(kind: str, status: Any, **fields: Any) -> dict[str, Any]:
    metadata = {"name": "bert", "namespace": "ml", "creationTimestamp": DAY + "00:00:00Z"}
    return {"kind": kind, "metadata": metadata, "status": status, **fields}


def condition(kind: str, reason: str = "R", clock: str = "05:00:00") -> dict[str, Any]:
    return {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": f"{DAY}{clock}Z"}


@pytest.mark.parametrize(
    ("kind", "status", "state"),
    [
        ("Job", {"conditions": [condition("FailureTarget"), condition("Failed", "BackoffLimitExceeded")]}, "FAILED"),
        ("Job", {"conditions": [condition("Failed", "DeadlineExceeded")]}, "TIMEOUT"),
        ("Job", {"conditions": [condition("Complete")], "completionTime": DAY + "05:00:00Z"}, "COMPLETED"),
        ("JobSet", {"conditions": [condition("Completed", "AllJobsCompleted")]}, "COMPLETED"),
        ("TrainJob", {"conditions": [condition("Failed")]}, "FAILED"),
        ("PyTorchJob", {"conditions": [condition("Created"), condition("Succeeded")]}, "COMPLETED"),
        ("Job", {"state": {"phase": "Aborted", "lastTransitionTime": DAY + "05:00:00Z"}}, "CANCELLED"),
        ("RayJob", {"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED", "endTime": DAY + "05:00:00Z"}, "CANCELLED"),
        ("RayJob", {"jobDeploymentStatus": "Failed", "failed": 1, "reason": "DeadlineExceeded", "endTime": DAY + "05:00:00Z"}, "TIMEOUT"),
    ],
)  # fmt: skip
def test_ends_of_jobs(kind: str, status: Any, state: str) -> None:
    row = only(job(kind, status | {"startTime": DAY + "01:00:00Z"}))
    assert isinstance(row, Session)
    assert (row.state, row.start_time, row.end_time) == (state, at("01:00:00"), at("05:00:00"))
    assert (row.job_id, row.raw_job_id, row.hosts, row.duration_s) == ("bert", "ml/bert", None, 14400.0)


def test_earlier_attempts_without_pods_are_a_number_and_no_rows() -> None:
    status = {"restarts": 3, "restartsCountTowardsMax": 1, "conditions": [condition("Failed", "ReachedMaxRestarts")]}
    row = only(job("JobSet", status, spec={"failurePolicy": {"maxRestarts": 1}}))
    assert isinstance(row, SchedulerEvent)
    assert (row.kind, row.state, row.time) == ("ended", "FAILED", at("05:00:00"))
    assert row.reason == "ReachedMaxRestarts; 3 restarts, 1 of them counted towards the maximum of 1"


def test_the_last_failure_of_a_ray_job_is_its_own() -> None:
    failed = only(job("RayJob", {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "failed": 3}))
    assert (failed.kind, failed.reason) == ("ended", "2 retries before")
    retrying = only(job("RayJob", {"jobDeploymentStatus": "Retrying", "jobStatus": "FAILED", "failed": 1}))
    assert (retrying.kind, retrying.state) == ("requeued", "REQUEUED")


def test_evictions_by_a_queue_name_the_job() -> None:
    workload = job("Workload", {"conditions": [condition("Evicted", "Preempted")], "schedulingStats": {"evictions": [{"reason": "Preempted", "count": 2}]}})  # fmt: skip
    workload["metadata"] |= {"name": "jobset-bert-1a2b3", "ownerReferences": [{"kind": "JobSet", "name": "bert"}]}
    row = only(workload)
    assert (row.kind, row.state, row.job_id, row.raw_job_id) == ("requeued", "PREEMPTED", "bert", "ml/bert")
    assert row.reason == "Preempted; evictions: Preempted 2"


def test_gpus_that_a_job_describes() -> None:
    def template(gpus: Any) -> dict[str, Any]:
        return {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": gpus}}}, {}]}}

    jobset = {"replicatedJobs": [{"replicas": 4, "template": {"spec": {"parallelism": 2, "template": template("8")}}}]}
    torch = {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": template(8)}, "Worker": {"replicas": 3, "template": template(8)}}}  # fmt: skip
    ray = {"rayClusterSpec": {"headGroupSpec": {"template": template(0)}, "workerGroupSpecs": [{"replicas": 2, "template": template(4)}]}}  # fmt: skip
    volcano = {"queue": "train", "tasks": [{"replicas": 2, "template": template(4)}]}
    specs = {"JobSet": jobset, "PyTorchJob": torch, "RayJob": ray, "Job": volcano}
    found = {kind: only(job(kind, {}, spec=spec)) for kind, spec in specs.items()}
    assert {kind: row.n_gpus for kind, row in found.items()} == {"JobSet": 64, "PyTorchJob": 32, "RayJob": 8, "Job": 8}
    assert found["Job"].partition == "train"


# --- the audit log ----------------------------------------------------------------------------------------------------


def audit(verb: str, resource: str, name: str = "gpu-012", **fields: Any) -> dict[str, Any]:
    about = {"resource": resource, "name": name, "namespace": "ml"} | fields.pop("about", {})
    return {"kind": "Event", "apiVersion": "audit.k8s.io/v1", "stage": "ResponseComplete", "verb": verb, "user": {"username": "mira"},
            "objectRef": about, "responseStatus": {"code": 200}, "requestReceivedTimestamp": DAY + "01:00:00Z"} | fields  # fmt: skip


def test_the_audit_log_names_the_person() -> None:
    found: list[Row] = rows(
        audit("patch", "nodes", requestObject={"spec": {"unschedulable": True}}),
        audit("patch", "nodes", requestObject={"spec": {"unschedulable": None}}),
        audit("create", "pods", "w-0", about={"subresource": "eviction"}),
        audit("create", "jobsets", "bert"),
        audit("delete", "jobsets", "bert"),
    )
    assert [(row.kind, row.user, row.hosts, row.job_id) for row in found if isinstance(row, SchedulerEvent)] == [
        ("node_cordon", "mira", ["gpu-012"], None),
        ("node_uncordon", "mira", ["gpu-012"], None),
        ("evicted", "mira", None, "w-0"),
        ("submitted", "mira", None, "bert"),
        ("cancelled", "mira", None, "bert"),
    ]


@pytest.mark.parametrize(
    "record",
    [
        audit("patch", "nodes", requestObject={"spec": {"unschedulable": True}}, responseStatus={"code": 403}),
        audit("patch", "nodes", requestObject={"spec": {"unschedulable": True}}, stage="RequestReceived"),
        audit("patch", "nodes", requestObject={"metadata": {"labels": {}}}),
        audit("update", "nodes", requestObject={"spec": {"unschedulable": False}}),
        audit("patch", "nodes", about={"subresource": "status"}, requestObject={"spec": {"unschedulable": True}}),
        audit("delete", "jobs", "bert", user={"username": "system:serviceaccount:kube-system:ttl-after-finished-controller"}),
        audit("get", "nodes"),
    ],
)  # fmt: skip
def test_requests_that_change_nothing_of_these_are_no_rows(record: Any) -> None:
    assert rows(record) == []
