"""Nodes: whether they take pods and answer, since when, and what runs on them.

    {"kind": "Node", "metadata": {"name": "gpu-012", "labels": {...}}, "spec": {"unschedulable": true, "taints":
     [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": "..."}]},
     "status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
     "lastTransitionTime": "..."}], "nodeInfo": {"kernelVersion": "..."}}}

Documented at https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/node-v1/. A cordon states its time
only as that of its taint. A node that is ready says since when: that ends the time that it was not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aftershock.parsers.clock import NO_CLOCK, Reading
from aftershock.parsers.documents.iso_clock import stated_time
from aftershock.parsers.documents.json_records import member, text_member
from aftershock.parsers.documents.kubernetes.objects import (
    Condition,
    JsonObject,
    Meta,
    conditions_of,
    flag,
    listed,
    meta_of,
)
from aftershock.parsers.documents.kubernetes.problems import OF_KUBELET, condition_problems
from aftershock.parsers.formats import Found
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.topology import Host

_SYSTEM: Final = "node.kubernetes.io/"
_CORDON: Final = _SYSTEM + "unschedulable"
_LOST: Final = (_SYSTEM + "unreachable", _SYSTEM + "not-ready")
# The scale-down of the cluster autoscaler takes a node out of use before it is removed.
_DRAINS: Final = frozenset({"ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption"})
_DRIVER: Final = ("nvidia.com/cuda.driver-version.full", "nvidia.com/gpu.driver-version")
_DRIVER_PARTS: Final = tuple(f"nvidia.com/cuda.driver.{part}" for part in ("major", "minor", "rev"))
_POOL: Final = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "karpenter.sh/nodepool",
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "oci.oraclecloud.com/oke-nodepool",
    "node-pool",
    "nodepool",
)
_RACK: Final = ("topology.kubernetes.io/rack", "topology.rack", "rack")
_ROLE: Final = "node-role.kubernetes.io/"


def node_rows(node: JsonObject, offset: int) -> Iterator[Found]:
    """What a node says of itself, as events and as a row of ``hosts``."""
    yield from condition_problems(node, offset)
    meta = meta_of(node)
    if meta is None:
        return
    taints = [(key, taint) for taint in listed(member(node, "spec", "taints")) if (key := text_member(taint, "key"))]
    added = {key: stated_time(taint.get("timeAdded")) for key, taint in taints}
    if flag(member(node, "spec", "unschedulable")) or _CORDON in added:
        reason = meta.said("cordon-reason", "drain-reason")
        yield _event(meta, "node_cordon", "SchedulingDisabled", reason, added.get(_CORDON, NO_CLOCK), offset)
    yield from _readiness(node, meta, added, offset)
    for key, taint in taints:
        if key.startswith(_SYSTEM) or text_member(taint, "effect") == "PreferNoSchedule":
            continue
        value = text_member(taint, "value")
        words = f"taint {key}{'=' + value if value else ''}:{text_member(taint, 'effect') or ''}"
        drains = key in _DRAINS
        yield _event(meta, "node_drain" if drains else "node_state", "Tainted", words, added[key], offset)
    host = _host(node, meta)
    if host is not None:
        yield Found(host, NO_CLOCK, offset)


def _readiness(node: JsonObject, meta: Meta, added: dict[str, Reading], offset: int) -> Iterator[Found]:
    conditions = list(conditions_of(node))
    ready = next((condition for condition in conditions if condition.type == "Ready"), None)
    if ready is None:
        lost = next((key for key in _LOST if key in added), None)
        if lost:
            yield _event(meta, "node_down", "NotReady", f"taint {lost}", added[lost], offset)
    elif ready.holds:
        yield _event(meta, "node_up", "Ready", ready.reason, ready.since, offset, ready.message)
    elif ready.status in ("false", "unknown"):
        yield _event(meta, "node_down", "NotReady", ready.reason, ready.since, offset, ready.message)
    yield from (_pressure(meta, one, offset) for one in conditions if one.type in OF_KUBELET - {"Ready"} and one.holds)


def _pressure(meta: Meta, condition: Condition, offset: int) -> Found:
    return _event(meta, "node_state", condition.type, condition.reason, condition.since, offset, condition.message)


def _event(
    meta: Meta, kind: str, state: str, reason: str | None, since: Reading, offset: int, message: str | None = None
) -> Found:
    row = SchedulerEvent(
        scheduler="kubernetes",
        kind=kind,
        state=state,
        reason=reason,
        hosts=[meta.name],
        host_raw=meta.name,
        message=message or f"node {meta.name}: {state}",
    )
    return Found(row, since, offset)


def _host(node: JsonObject, meta: Meta) -> Host | None:
    """Kernel, driver, pool and role, where the node states one of them. Since when, it does not say."""
    parts = [meta.said(key) for key in _DRIVER_PARTS]
    roles = sorted(key.removeprefix(_ROLE) for key in meta.labels if key.startswith(_ROLE) and key != _ROLE)
    host = Host(
        host=meta.name,
        driver=meta.said(*_DRIVER) or (".".join(part for part in parts if part) if parts[0] else None),
        kernel=text_member(node, "status", "nodeInfo", "kernelVersion"),
        partition=meta.said(*_POOL),
        rack=meta.said(*_RACK),
        role=",".join(roles) or None,
    )
    return host if any((host.driver, host.kernel, host.partition, host.rack, host.role)) else None
