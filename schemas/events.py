"""Rows of the event tables: what happened, to which host, when, and how well that time is known."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import pyarrow as pa

from aftershock.schemas.columns import Col, Row, seconds_col, time_col

TIME_BASES = (
    "zoned",
    "epoch",
    "assumed_zone",
    "inferred_zone",
    "inferred_year",
    "boot_offset",
    "neighbour",
    "none",
)

INT32 = pa.int32()


@dataclass(slots=True, kw_only=True)
class EventRow(Row):
    """Columns that every event table has."""

    key: ClassVar[tuple[str, ...]] = ("event_id",)
    order: ClassVar[tuple[str, ...]] = ("time", "source", "byte_offset", "event_id")

    event_id: Annotated[
        str | None,
        Col(
            "Stable id, given after de-duplication from host, time, identity of the event and its ordinal.", holds="id"
        ),
    ] = None
    cluster: Annotated[
        str | None, Col("Cluster name, from the configuration or from the source itself.", holds="cluster")
    ] = None
    host: Annotated[
        str | None,
        Col(
            "Host that the event is about: a host named as faulty in the message goes before the writer. Lower case, "
            "domain cut off, aliases of the configuration applied; an IP address stays whole.",
            holds="host",
        ),
    ] = None
    host_raw: Annotated[str | None, Col("Host as printed.", holds="host")] = None
    time: Annotated[int | None, time_col("When it happened; null where it cannot be known.")] = None
    last_time: Annotated[int | None, time_col("Time of the last occurrence that this row stands for.")] = None
    time_local: Annotated[str | None, Col("Time as printed; null if the text had none.", holds="text")] = None
    time_basis: Annotated[str | None, Col("How `time` is known.", values=TIME_BASES)] = None
    time_error_s: Annotated[float | None, seconds_col("How wrong `time` can be, either way.")] = None
    uptime_s: Annotated[
        float | None,
        seconds_col("Time since boot, where the line states it: it tells two logs' views of one event apart."),
    ] = None
    count: Annotated[
        int | None,
        Col("Occurrences that this row stands for; a lower bound where the log says that some were suppressed."),
    ] = 1
    source: Annotated[
        str | None, Col("File of the first line: the path as given, joined with the path below it.", holds="path")
    ] = None
    byte_offset: Annotated[int | None, Col("Where the first line starts in the decompressed file.", unit="byte")] = None
    sources: Annotated[
        list[str] | None, Col("Every place where it was seen, one `source:byte_offset` for each file.", holds="place")
    ] = None
    message: Annotated[str | None, Col("The message without its envelope, credentials masked.", holds="text")] = None


@dataclass(slots=True, kw_only=True)
class GpuError(EventRow):
    """Errors that a GPU, an NVSwitch or the fabric manager reported: NVIDIA Xid and SXid, amdgpu RAS and resets."""

    table: ClassVar[str] = "gpu_errors"

    family: Annotated[
        str | None,
        Col("Which code space `code` belongs to.", values=("xid", "sxid", "fabric_manager", "amdgpu")),
    ] = None
    code: Annotated[int | None, Col("Xid, SXid or fabric manager code; unknown codes are kept.", arrow=INT32)] = None
    pci: Annotated[str | None, Col("PCI address as `dddd:bb:dd.f`, lower case.", holds="text")] = None
    pci_raw: Annotated[str | None, Col("PCI address as printed.", holds="text")] = None
    gpu_uuid: Annotated[
        str | None, Col("GPU UUID, from the line or from identity lines of the same boot.", holds="serial")
    ] = None
    gpu_index: Annotated[int | None, Col("Index as nvidia-smi shows it.", arrow=INT32)] = None
    gpu_serial: Annotated[str | None, Col("Board serial number.", holds="serial")] = None
    mig_gi: Annotated[int | None, Col("MIG GPU instance.", arrow=INT32)] = None
    mig_ci: Annotated[int | None, Col("MIG compute instance.", arrow=INT32)] = None
    pid: Annotated[int | None, Col("Process id on the line: often the victim, not the culprit.")] = None
    process: Annotated[str | None, Col("Process name on the line; the kernel cuts it at 15 bytes.", holds="text")] = (
        None
    )
    severity: Annotated[
        str | None, Col("Severity, only where the line says so.", values=("fatal", "nonfatal", "correctable"))
    ] = None
    action: Annotated[str | None, Col("Immediate action that the catalogue of codes advises.", holds="text")] = None
    fault_class: Annotated[
        str | None,
        Col(
            "Class of the fault.",
            values=("hardware", "fabric", "driver", "application", "thermal", "unknown"),
        ),
    ] = None
    mnemonic: Annotated[str | None, Col("Name of the code in the catalogue.", holds="text")] = None
    link: Annotated[int | None, Col("NVLink or switch port number.", arrow=INT32)] = None
    unit: Annotated[
        str | None, Col("Hardware unit that an NVLink error (Xid 144 to 150) names first.", holds="text")
    ] = None
    caused_by: Annotated[int | None, Col("Code that the line itself names as its cause.", arrow=INT32)] = None
    recovery_from: Annotated[str | None, Col("Recovery action before (Xid 154).", holds="text")] = None
    recovery_to: Annotated[str | None, Col("Recovery action after (Xid 154).", holds="text")] = None
    trust: Annotated[
        str | None,
        Col(
            "Who says so: the kernel, a relaying agent, a user who wrote to the kernel log, or an injected test error.",
            values=("kernel", "relayed", "user", "injected"),
        ),
    ] = None
    burst_id: Annotated[str | None, Col("Same GPU, code and process within a short gap.", holds="id")] = None
    episode_id: Annotated[str | None, Col("Bursts that belong to one fault.", holds="id")] = None
    role: Annotated[str | None, Col("Part in its episode.", values=("root", "follow_on", "unknown"))] = None


NODE_EVENT_KINDS = (
    "boot",
    "shutdown",
    "oom_kill",
    "machine_check",
    "memory_error",
    "pcie_error",
    "link_down",
    "link_up",
    "nfs_not_responding",
    "nfs_ok",
    "hung_task",
    "soft_lockup",
    "segfault",
    "panic",
    "gpu_lost",
    "driver_load",
    "driver_unload",
    "gpu_init_failed",
    "gpu_reset",
    "gpu_reset_done",
    "hard_lockup",
    "rcu_stall",
    "trap",
    "nic_error",
    "fs_timeout",
    "fs_restored",
    "fs_error",
    "remount_ro",
    "io_error",
    "nvme_error",
    "raid_degraded",
    "thermal",
    "power",
    "pcie_limited",
    "watchdog",
    "drive_error",
)


@dataclass(slots=True, kw_only=True)
class NodeEvent(EventRow):
    """What else a host said: boots, memory and PCIe errors, links, storage, hangs, lost GPUs, driver loads."""

    table: ClassVar[str] = "node_events"

    kind: Annotated[str | None, Col("What happened; more kinds may come.", values=NODE_EVENT_KINDS)] = None
    device: Annotated[str | None, Col("Device, address or server that it is about.", holds="text")] = None
    pid: Annotated[int | None, Col("Process id that it is about.")] = None
    process: Annotated[str | None, Col("Process name that it is about.", holds="text")] = None
    value: Annotated[float | None, Col("Number that the line carries; `unit` says of what.")] = None
    unit: Annotated[str | None, Col("Unit of `value`.", holds="text")] = None
    severity: Annotated[
        str | None,
        Col("Severity, only where the line says so.", values=("fatal", "nonfatal", "correctable", "uncorrectable")),
    ] = None
    trust: Annotated[
        str | None,
        Col(
            "Who says so: the kernel, a relaying agent, or a user who wrote to the kernel log; null where it is a "
            "daemon or a management controller.",
            values=("kernel", "relayed", "user", "injected"),
        ),
    ] = None


@dataclass(slots=True, kw_only=True)
class HealthCheck(EventRow):
    """Results of health checks, passes too: they are the evidence of a healthy host."""

    table: ClassVar[str] = "health_checks"

    checker: Annotated[
        str | None, Col("Tool that checked: `dcgmi_diag`, `nvidia_smi`, `nhc` and so on.", holds="text")
    ] = None
    check: Annotated[str | None, Col("What was checked.", holds="text")] = None
    result: Annotated[str | None, Col("Result.", values=("pass", "fail", "warn", "skip"))] = None
    device: Annotated[
        str | None, Col("What was checked, as the checker names it: `GPU 3`, a sensor, a file system.", holds="text")
    ] = None
    gpu_uuid: Annotated[str | None, Col("GPU that was checked.", holds="serial")] = None
    pci: Annotated[str | None, Col("PCI address that was checked, `dddd:bb:dd.f`.", holds="text")] = None
    value: Annotated[float | None, Col("Measured value.")] = None
    unit: Annotated[str | None, Col("Unit of `value`.", holds="text")] = None
    detail: Annotated[str | None, Col("What the checker said.", holds="text")] = None


SCHEDULER_EVENT_KINDS = (
    "submitted",
    "started",
    "ended",
    "requeued",
    "time_limit",
    "cancelled",
    "node_down",
    "node_up",
    "node_drain",
    "node_resume",
    "node_state",
    "reservation",
    "epilog_error",
    "preempted",
    "launched",
    "launch_failed",
    "submit_failed",
    "prolog_error",
    "task_ended",
    "batch_ended",
    "step_aborted",
    "oom_kill",
    "kill_failed",
    "kill_resent",
    "resized",
    "held",
    "released",
    "suspended",
    "resumed",
    "exclude_list",
    "node_reboot",
    "node_config",
    "credential_error",
    "controller_start",
    "controller_stop",
    "daemon_start",
    "daemon_stop",
    "node_cordon",
    "node_uncordon",
    "evicted",
    "pending",
    "admitted",
    "restarted",
    "task_state",
    "job_state",
    "pod_scheduled",
    "pod_started",
    "pod_stopped",
    "pod_failed",
    "pod_backoff",
    "pod_unhealthy",
    "pod_state",
    "hosts_failed",
    "kernel_state",
    "launching",
    "start_failed",
)


@dataclass(slots=True, kw_only=True)
class SchedulerEvent(EventRow):
    """What a scheduler said about jobs and hosts."""

    table: ClassVar[str] = "scheduler_events"

    scheduler: Annotated[str | None, Col("Scheduler that said it, such as `slurm` or `kubernetes`.", holds="text")] = (
        None
    )
    kind: Annotated[str | None, Col("What happened; more kinds may come.", values=SCHEDULER_EVENT_KINDS)] = None
    job_id: Annotated[str | None, Col("Job id, without the array task.", holds="job")] = None
    array_task: Annotated[str | None, Col("Array task.", holds="job")] = None
    raw_job_id: Annotated[str | None, Col("The scheduler's own number of this task or component.", holds="job")] = None
    session_id: Annotated[str | None, Col("Session that it belongs to.", holds="id")] = None
    hosts: Annotated[list[str] | None, Col("Hosts that it names, expanded.", holds="host")] = None
    user: Annotated[str | None, Col("User or user id that did it.", holds="user")] = None
    reason: Annotated[str | None, Col("Reason as printed.", holds="text")] = None
    state: Annotated[str | None, Col("State as printed, or the end state that the line implies.", holds="text")] = None
    exit_code: Annotated[int | None, Col("Exit status.", arrow=INT32)] = None
    exit_signal: Annotated[int | None, Col("Signal that ended it.", arrow=INT32)] = None


TRAINING_EVENT_KINDS = (
    "start",
    "resume",
    "save_begin",
    "save_end",
    "load_begin",
    "load_end",
    "validation",
    "error",
    "restart",
    "rendezvous",
    "exit",
    "save_scheduled",
    "checkpoint_deleted",
    "load_missing",
    "failure_detected",
    "workers_stopped",
    "workers_started",
    "regroup",
    "preempting",
    "clock",
    "flight_record",
    "loss_spike",
    "slowdown",
    "straggler",
    "init_start",
    "init_stop",
    "epoch_start",
    "epoch_stop",
    "block_start",
    "block_stop",
    "eval_start",
    "eval_stop",
    "staging_start",
    "staging_stop",
    "cache_clear_start",
    "cache_clear_stop",
)


@dataclass(slots=True, kw_only=True)
class TrainingEvent(EventRow):
    """What a training run said besides its steps: starts, saves, loads, errors, restarts."""

    table: ClassVar[str] = "training_events"

    session_id: Annotated[str | None, Col("Session that it belongs to.", holds="id")] = None
    rank: Annotated[int | None, Col("Global rank.", arrow=INT32)] = None
    local_rank: Annotated[int | None, Col("Rank within its host.", arrow=INT32)] = None
    kind: Annotated[str | None, Col("What happened; more kinds may come.", values=TRAINING_EVENT_KINDS)] = None
    step: Annotated[int | None, Col("Training step.")] = None
    path: Annotated[str | None, Col("File or folder that it is about.", holds="path")] = None
    duration_s: Annotated[float | None, seconds_col("How long it took, where the line says so.")] = None
    error_class: Annotated[str | None, Col("Class of the failure taxonomy.", holds="fixed")] = None
    error_role: Annotated[str | None, Col("Part in the failure.", values=("root", "symptom", "teardown", "noise"))] = (
        None
    )
    error: Annotated[str | None, Col("The error as printed.", holds="text")] = None
    ranks: Annotated[list[int] | None, Col("Ranks that said the same.")] = None
