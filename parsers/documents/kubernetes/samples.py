"""Samples of the Kubernetes format: what each kind of object looks like, and what is made of it."""

from __future__ import annotations

from typing import Final

from aftershock.parsers.formats import Sample, expect

_EVENTS: Final = "https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/"
_PODS: Final = "https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/"
_NODES: Final = "https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/node-v1/"
_NPD: Final = "https://github.com/kubernetes/node-problem-detector"


def _pod(attempt: int, index: int, node: str, state: str) -> str:
    return (
        f'{{"kind":"Pod","metadata":{{"name":"bert-w-{index}-{attempt}","namespace":"ml","uid":"p{attempt}{index}",'
        f'"labels":{{"jobset.sigs.k8s.io/jobset-name":"bert","jobset.sigs.k8s.io/restart-attempt":"{attempt}",'
        f'"batch.kubernetes.io/job-completion-index":"{index}","kueue.x-k8s.io/queue-name":"large"}}}},"spec":{{'
        f'"nodeName":"{node}","containers":[{{"name":"train","resources":{{"limits":{{"nvidia.com/gpu":"8"}}}}}}]}},'
        f'"status":{{"phase":"Running","containerStatuses":[{{"name":"train","restartCount":0,"state":{{{state}}}}}]}}}}'
        "\n"
    )


def _ended(code: int, reason: str, at: str) -> str:
    return (
        f'"terminated":{{"exitCode":{code},"reason":"{reason}","startedAt":"2026-03-02T07:00:00Z","finishedAt":'
        f'"2026-03-02T{at}Z"}}'
    )


_RUNNING: Final = '"running":{"startedAt":"2026-03-02T08:10:00Z"}'

SAMPLES: Final = (
    Sample(
        '{"kind":"Event","apiVersion":"v1","metadata":{"name":"dgx07.1","uid":"e1"},"involvedObject":{"kind":"Node",'
        '"name":"dgx07"},"reason":"NodeNotReady","message":"Node dgx07 status is now: NodeNotReady","source":'
        '{"component":"node-controller"},"firstTimestamp":"2026-03-02T07:08:09Z","lastTimestamp":'
        '"2026-03-02T07:18:09Z","count":3,"type":"Normal"}\n'
        '{"kind":"Event","apiVersion":"events.k8s.io/v1","metadata":{"name":"bert-w-0.2","uid":"e2"},"regarding":'
        '{"kind":"Pod","namespace":"ml","name":"bert-w-0"},"reason":"FailedScheduling","note":"0/9 nodes are '
        'available: 9 Insufficient nvidia.com/gpu.","reportingController":"default-scheduler","eventTime":'
        '"2026-03-02T07:08:09.500000Z","series":{"count":4,"lastObservedTime":"2026-03-02T07:28:09.500000Z"},'
        '"deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null,"type":"Warning"}\n'
        '{"kind":"Event","metadata":{"name":"dgx07.3","uid":"e3"},"involvedObject":{"kind":"Node","name":"dgx07"},'
        '"reason":"NodeNotSchedulable","lastTimestamp":"2026-03-02T09:00:00Z","firstTimestamp":null}\n',
        (
            expect(
                "scheduler_events",
                kind="node_down",
                scheduler="kubernetes",
                hosts=["dgx07"],
                count=3,
                time=1772435289000000,
                last_time=1772435889000000,
            ),
            expect(
                "scheduler_events",
                kind="pending",
                job_id="bert-w-0",
                raw_job_id=None,
                state="PENDING",
                count=4,
                time=1772435289500000,
            ),
            expect("scheduler_events", kind="node_cordon", hosts=["dgx07"], time=1772442000000000),
        ),
        title="events, in both shapes of the API",
        url=_EVENTS,
    ),
    Sample(
        _pod(0, 0, "dgx07", _ended(1, "Error", "08:00:00"))
        + _pod(0, 1, "dgx08", _ended(137, "OOMKilled", "08:00:30"))
        + _pod(1, 0, "dgx07", _RUNNING)
        + _pod(1, 1, "dgx09", _RUNNING),
        (
            expect(
                "sessions",
                job_id="bert",
                raw_job_id="ml/bert",
                attempt=1,
                hosts=["dgx07", "dgx08"],
                n_gpus=16,
                state="OUT_OF_MEMORY",
                exit_code=1,
                partition="large",
                duration_s=3630.0,
            ),
            expect(
                "sessions",
                job_id="bert",
                attempt=2,
                hosts=["dgx07", "dgx09"],
                state="RUNNING",
                end_time=None,
                n_gpus=16,
            ),
        ),
        title="pods of a JobSet that was restarted",
        url=_PODS,
    ),
    Sample(
        '{"apiVersion":"v1","items":[{"apiVersion":"jobset.x-k8s.io/v1alpha2","kind":"JobSet","metadata":{"name":'
        '"bert","namespace":"ml"},"spec":{"failurePolicy":{"maxRestarts":1}},"status":{"restarts":3,"restartsCountTowardsMax"'
        ':1,"conditions":[{"type":"Failed","status":"True","reason":"ReachedMaxRestarts","message":"jobset failed due '
        'to reaching max number of restarts","lastTransitionTime":"2026-03-02T08:00:00Z"}]}},{"apiVersion":"ray.io/v1",'
        '"kind":"RayJob","metadata":{"name":"tune","namespace":"ml"},"status":{"jobId":"tune-x1","jobStatus":'
        '"SUCCEEDED","jobDeploymentStatus":"Complete","rayClusterName":"tune-y2","failed":0,"succeeded":1,"startTime":'
        '"2026-03-02T07:00:00Z","endTime":"2026-03-02T08:00:00Z"}}],"kind":"List"}\n',
        (
            expect(
                "scheduler_events",
                kind="ended",
                job_id="bert",
                state="FAILED",
                reason="ReachedMaxRestarts: jobset failed due to reaching max number of restarts; 3 restarts, 1 of "
                "them counted towards the maximum of 1",
                time=1772438400000000,
            ),
            expect("sessions", job_id="tune", raw_job_id="ml/tune", state="COMPLETED", duration_s=3600.0, hosts=None),
        ),
        title="job objects whose pods are gone",
        url="https://jobset.sigs.k8s.io/docs/reference/jobset.v1alpha2/",
    ),
    Sample(
        '{"kind":"Node","metadata":{"name":"dgx07","labels":{"nvidia.com/cuda.driver-version.full":"570.86.15",'
        '"node-role.kubernetes.io/worker":""}},"spec":{"unschedulable":true,"taints":[{"key":'
        '"node.kubernetes.io/unschedulable","effect":"NoSchedule","timeAdded":"2026-03-02T07:08:09Z"}]},"status":'
        '{"nodeInfo":{"kernelVersion":"6.8.0-55-generic"},"conditions":[{"type":"Ready","status":"Unknown","reason":'
        '"NodeStatusUnknown","message":"Kubelet stopped posting node status.","lastTransitionTime":'
        '"2026-03-02T07:00:00Z"}]}}\n',
        (
            expect("scheduler_events", kind="node_cordon", hosts=["dgx07"], time=1772435289000000),
            expect("scheduler_events", kind="node_down", reason="NodeStatusUnknown", time=1772434800000000),
            expect("hosts", host="dgx07", driver="570.86.15", kernel="6.8.0-55-generic", role="worker"),
        ),
        title="nodes",
        url=_NODES,
    ),
    Sample(
        '{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Request","stage":"ResponseComplete","verb":"patch",'
        '"user":{"username":"mira"},"objectRef":{"resource":"nodes","name":"dgx07","apiVersion":"v1"},"requestObject":'
        '{"spec":{"unschedulable":true}},"responseStatus":{"code":200},"requestReceivedTimestamp":'
        '"2026-03-02T07:08:09.500000Z"}\n',
        (expect("scheduler_events", kind="node_cordon", hosts=["dgx07"], user="mira", time=1772435289500000),),
        title="the audit log",
        url="https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/",
    ),
    Sample(
        '{\n    "apiVersion": "v1",\n    "items": [\n        {"apiVersion": "v1", "kind": "Event", "type": "Warning", '
        '"reason": "GpuXid", "message": "NVRM: Xid (PCI:0000:5d:00): 48, pid=4242, name=python3, DBE", "count": 2, '
        '"firstTimestamp": "2026-03-02T07:08:09Z", "lastTimestamp": "2026-03-02T07:18:09Z", "source": {"component": '
        '"kernel-monitor", "host": "dgx07"}, "involvedObject": {"kind": "Node", "name": "dgx07"}},\n        '
        '{"apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": "BackOff", "message": "restarting failed '
        'container", "source": {"component": "kubelet", "host": "dgx07"}, "involvedObject": {"kind": "Pod", "name": '
        '"train-0"}}\n    ],\n    "kind": "List"\n}\n',
        (
            expect(
                "health_checks",
                host="dgx07",
                checker="npd",
                check="GpuXid",
                result="warn",
                count=2,
                time=1772435289000000,
                last_time=1772435889000000,
            ),
            expect("gpu_errors", host="dgx07", code=48, pid=4242, pci="0000:5d:00.0", count=2, trust="relayed"),
            expect("scheduler_events", kind="pod_backoff", job_id="train-0", hosts=["dgx07"], time=None),
        ),
        title="events of node-problem-detector",
        url=_NPD,
    ),
    Sample(
        '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "dgx07"}, "status": {"conditions": [{"type": '
        '"KernelDeadlock", "status": "False", "reason": "KernelHasNoDeadlock", "message": "kernel has no deadlock", '
        '"lastHeartbeatTime": "2026-03-02T07:08:09Z", "lastTransitionTime": "2026-02-01T00:00:00Z"}, {"type": '
        '"ReadonlyFilesystem", "status": "True", "reason": "FilesystemIsReadOnly", "message": "/scratch is read-only", '
        '"lastHeartbeatTime": "2026-03-02T07:18:09Z", "lastTransitionTime": "2026-03-02T07:08:09Z"}]}}\n',
        (
            expect("health_checks", host="dgx07", check="KernelDeadlock", result="pass", time=1772435289000000),
            expect(
                "health_checks",
                check="ReadonlyFilesystem",
                result="fail",
                time=1772435289000000,
                last_time=1772435889000000,
            ),
        ),
        title="conditions of node-problem-detector",
        url=_NPD,
    ),
    # The items of a list of the API, without the list that names their kind.
    Sample(
        '{"items": [\n {"metadata": {"name": "dgx07", "uid": "n7"}, "spec": {"unschedulable": true}, "status": '
        '{"nodeInfo": {"kernelVersion": "6.8.0"}, "conditions": [{"type": "Ready", "status": "False", "reason": '
        '"KubeletNotReady", "lastTransitionTime": "2026-03-02T07:08:09Z"}]}}]}\n',
        (
            expect("scheduler_events", kind="node_cordon", host="dgx07"),
            expect("scheduler_events", kind="node_down", host="dgx07", time=1772435289000000),
            expect("hosts", host="dgx07"),
        ),
        "Nodes",
        _NODES,
    ),
)

NON_SAMPLES: Final = (
    "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Event\n  reason: NodeNotReady\n  involvedObject:\n    kind: "
    "Node\n    name: dgx07\nkind: List\n",
    '{"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"kind": "Event"}}\n',
    '{"kind": "Pod", "metadata": {"name": "web-0", "ownerReferences": [{"kind": "ReplicaSet", "name": "web", '
    '"controller": true}]}, "status": {"phase": "Running"}}\n',
    '{"kind": "Event", "reason": "Scaled", "message": "up", "involvedObject": {"kind": "Deployment", "name": "a"}}\n',
    '{"kind": "Event", "apiVersion": "audit.k8s.io/v1", "stage": "ResponseComplete", "verb": "patch", "user": '
    '{"username": "mira"}, "objectRef": {"resource": "nodes", "name": "dgx07"}, "requestObject": {"spec": '
    '{"unschedulable": true}}, "responseStatus": {"code": 403}}\n',
    '{"kind": "Event", "reason": "NodeNotReady", "involvedObject": "dgx07"}\n',
    '{"kind": "Node", "metadata": {}, "spec": {"unschedulable": true}}\n',
    '{"type": "Warning", "reason": "Failed", "object": {"name": "a"}}\n',
    '{"metadata": {"name": "web-0"}, "spec": {"replicas": 2, "nodeName": "a"}}\n',
    '[{"metadata": {"title": "a"}, "spec": {"nodeName": "dgx07"}, "status": {"phase": "Failed"}}]\n',
)
