"""Classes of failures: which of two goes before the other, and how sure a training log alone makes one.

In this order: hardware and infrastructure that the kernel or the scheduler confirms, acts of the scheduler and of
people, what a process did, launching and services outside, what is only inferred. Symptoms and teardown come of
something else and are never a cause. The classes are those of public studies of training clusters.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from aftershock.pipeline.fault_codes import Reach, nature_of
from aftershock.schemas.catalogs import xid
from aftershock.schemas.events import GpuError, NodeEvent

_HIGH, _MEDIUM, _LOW = 0.9, 0.7, 0.4
# What the kernel or the scheduler itself says.
CONFIRMED: Final = 0.95


class Kind(NamedTuple):
    """``precedence``: the lower goes first. ``alone``: how sure a training log alone makes it, 0 to 1."""

    precedence: int
    alone: float


KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "gpu_memory_ecc": Kind(10, _HIGH),
        "gpu_fallen_off_bus": Kind(11, _LOW),
        "nvlink_fault": Kind(12, _MEDIUM),
        "gpu_hang_or_gsp": Kind(13, _LOW),
        "silent_data_corruption": Kind(14, _MEDIUM),
        "node_failure": Kind(20, _HIGH),
        "host_hardware": Kind(21, _LOW),
        "nic_or_link": Kind(22, _MEDIUM),
        "storage_io": Kind(23, _MEDIUM),
        "disk_full_quota": Kind(24, _HIGH),
        "scheduler_time_limit": Kind(30, _HIGH),
        "preemption": Kind(31, _HIGH),
        "user_or_admin_cancel": Kind(32, _HIGH),
        "requeue": Kind(33, _HIGH),
        "host_oom": Kind(40, _MEDIUM),
        "host_shm": Kind(41, _HIGH),
        "user_gpu_oom": Kind(42, _HIGH),
        "gpu_unhealthy_suspect": Kind(43, _LOW),
        "cuda_kernel_fault": Kind(44, _MEDIUM),
        "collective_desync": Kind(45, _MEDIUM),
        "checkpoint_load_failure": Kind(46, _MEDIUM),
        "process_crash": Kind(47, _MEDIUM),
        "numeric_divergence": Kind(50, _MEDIUM),
        "user_data_path": Kind(60, _HIGH),
        "user_permission": Kind(61, _HIGH),
        "user_environment": Kind(62, _HIGH),
        "user_config": Kind(63, _HIGH),
        "user_code_exception": Kind(64, _MEDIUM),
        "rendezvous_failure": Kind(70, _MEDIUM),
        "launcher_or_container": Kind(71, _MEDIUM),
        "external_service": Kind(72, _MEDIUM),
        "hang_no_error": Kind(80, _MEDIUM),
        "unknown": Kind(110, 0.0),
    }
)
UNKNOWN: Final = "unknown"
HANG: Final = "hang_no_error"
# Acts of the scheduler and of people: they end what runs, and also what has failed or hangs already.
ACTS: Final = frozenset({"scheduler_time_limit", "preemption", "user_or_admin_cancel", "requeue"})
# Classes that only repeat what another rank did.
SYMPTOMS: Final = frozenset({"collective_timeout", "peer_exit", "teardown"})
_HARDWARE_BELOW: Final = 30

# What a scheduler's state says of the cause.
OF_STATE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "NODE_FAIL": "node_failure",
        "BOOT_FAIL": "node_failure",
        "TIMEOUT": "scheduler_time_limit",
        "DEADLINE": "scheduler_time_limit",
        "PREEMPTED": "preemption",
        "CANCELLED": "user_or_admin_cancel",
        "REQUEUED": "requeue",
        "OUT_OF_MEMORY": "host_oom",
    }
)
# What a class says of the state in which a session ended that no scheduler knows.
STATE_OF: Final[Mapping[str, str]] = MappingProxyType(
    {
        "node_failure": "NODE_FAIL",
        "scheduler_time_limit": "TIMEOUT",
        "preemption": "PREEMPTED",
        "user_or_admin_cancel": "CANCELLED",
        "requeue": "REQUEUED",
        "host_oom": "OUT_OF_MEMORY",
    }
)
_NODE_KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "panic": "node_failure",
        "machine_check": "host_hardware",
        "memory_error": "host_hardware",
        "pcie_error": "host_hardware",
        "thermal": "host_hardware",
        "power": "host_hardware",
        "nvme_error": "host_hardware",
        "gpu_lost": "gpu_fallen_off_bus",
        "gpu_init_failed": "gpu_fallen_off_bus",
        "link_down": "nic_or_link",
        "nic_error": "nic_or_link",
        "nfs_not_responding": "storage_io",
        "io_error": "storage_io",
        "oom_kill": "host_oom",
    }
)
NODE_KINDS: Final = frozenset(_NODE_KINDS)
# What a program printed itself is no word of the kernel, and an injected fault is none.
_NO_TRUST: Final = frozenset({"user", "injected"})


def is_hardware(error_class: str) -> bool:
    """Whether a class is of hardware or infrastructure."""
    kind = KINDS.get(error_class)
    return kind is not None and kind.precedence < _HARDWARE_BELOW


def class_of_gpu(row: GpuError) -> str | None:
    """The class of failure that an error of a GPU stands for, if it takes work down; None if it does not."""
    nature = nature_of(row)
    if not nature.kills or row.role == "follow_on" or row.trust in _NO_TRUST:
        return None
    if nature.reach is Reach.FABRIC or row.family in ("sxid", "fabric_manager"):
        return "nvlink_fault"
    entry = xid(row.code) if row.family == "xid" and row.code is not None else None
    kind = entry.kind if entry is not None else ""
    if kind == "hardware_memory":
        return "gpu_memory_ecc"
    return "gpu_fallen_off_bus" if kind == "hardware_pcie" else "gpu_hang_or_gsp"


def is_of_process(row: GpuError) -> bool:
    """Whether an error of a GPU is of what ran on it: it confirms that the program failed there."""
    return nature_of(row).reach is Reach.PROCESS


def class_of_node(row: NodeEvent) -> str | None:
    """The class of failure that an event of a host stands for."""
    if row.severity == "correctable" or row.trust in _NO_TRUST:
        return None
    return _NODE_KINDS.get(row.kind or "")
