"""Rows about jobs on hosts: sessions, the retries between them, the chains they form, and hosts left out."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import pyarrow as pa

from aftershock.schemas.columns import Col, Row, seconds_col, time_col
from aftershock.schemas.events import TIME_BASES

INT32 = pa.int32()

SESSION_STATES = (
    "PENDING",
    "RUNNING",
    "COMPLETED",
    "FAILED",
    "NODE_FAIL",
    "CANCELLED",
    "TIMEOUT",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "REQUEUED",
    "BOOT_FAIL",
    "DEADLINE",
    "UNKNOWN",
)
RETRY_TRIGGERS = ("requeue", "restart_in_place", "resubmit")
RETRY_MODES = ("auto", "manual", "unknown")
CHAIN_OUTCOMES = ("succeeded", "failed", "cancelled", "running", "never_restarted")
EXCLUSION_MEANS = (
    "drain",
    "down",
    "reservation",
    "exclude_list",
    "designated_complement",
    "cordon",
    "soft",
    "swapped_out",
)


@dataclass(slots=True, kw_only=True)
class Session(Row):
    """One placement of a job on hosts; a requeue is a new session of the same job.

    An attempt that never got hosts is a row with null `start_time` and empty `hosts`.
    """

    table: ClassVar[str] = "sessions"
    key: ClassVar[tuple[str, ...]] = ("session_id",)
    order: ClassVar[tuple[str, ...]] = ("start_time", "submit_time", "session_id")

    session_id: Annotated[
        str | None,
        Col(
            "Stable id, given after the sources are merged from cluster, scheduler, raw job id, array task "
            "and the start in whole seconds; from the submit time if it was never placed.",
            holds="id",
        ),
    ] = None
    cluster: Annotated[
        str | None, Col("Cluster name, from the configuration or from the record itself.", holds="cluster")
    ] = None
    scheduler: Annotated[str | None, Col("Scheduler that placed it, such as `slurm`.", holds="text")] = None
    job_id: Annotated[str | None, Col("Job id as the scheduler shows it: `9_2` for an array task.", holds="job")] = None
    raw_job_id: Annotated[str | None, Col("The scheduler's own number of this task or component.", holds="job")] = None
    attempt: Annotated[
        int | None, Col("Number of this placement among those of the same job, from 1.", arrow=INT32)
    ] = None
    name: Annotated[str | None, Col("Job name.", holds="text")] = None
    user: Annotated[str | None, Col("User that the job belongs to.", holds="user")] = None
    work_dir: Annotated[str | None, Col("Working folder.", holds="path")] = None
    partition: Annotated[str | None, Col("Partition or queue.", holds="text")] = None
    hosts: Annotated[
        list[str] | None, Col("Hosts that it ran on, expanded; empty if it was never placed.", holds="host")
    ] = None
    n_hosts: Annotated[int | None, Col("Number of hosts.", arrow=INT32)] = None
    n_gpus: Annotated[
        int | None,
        Col(
            "Number of GPUs; hosts times the configured GPUs per host where the scheduler does not say.",
            arrow=INT32,
        ),
    ] = None
    submit_time: Annotated[int | None, time_col("When it was submitted or put back into the queue.")] = None
    start_time: Annotated[int | None, time_col("When it was placed; null if it never was.")] = None
    end_time: Annotated[int | None, time_col("When it ended; null while it runs or where nobody recorded it.")] = None
    duration_s: Annotated[float | None, seconds_col("From start to end.")] = None
    state: Annotated[str | None, Col("State at the end, or now if it has not ended.", values=SESSION_STATES)] = None
    exit_code: Annotated[int | None, Col("Exit status.", arrow=INT32)] = None
    exit_signal: Annotated[int | None, Col("Signal that ended it.", arrow=INT32)] = None
    end_reason: Annotated[str | None, Col("Why it ended, in the scheduler's words.", holds="text")] = None
    cancelled_by: Annotated[str | None, Col("User or user id that cancelled it.", holds="user")] = None
    planned: Annotated[bool | None, Col("Whether the end was planned.")] = None
    excluded_hosts: Annotated[list[str] | None, Col("Hosts that its request left out, expanded.", holds="host")] = None
    designated_hosts: Annotated[
        list[str] | None,
        Col("The only hosts that its request allowed, expanded; null if it allowed all.", holds="host"),
    ] = None
    command: Annotated[str | None, Col("Command or script that was submitted, credentials masked.", holds="text")] = (
        None
    )
    retry_of: Annotated[
        str | None,
        Col("Id of the job or session whose work it takes up, where the scheduler itself says so.", holds="job"),
    ] = None
    conflicts: Annotated[
        list[str] | None,
        Col(
            "Where its sources contradict each other, one `column: value (format) against value (format)` each; the "
            "first is the one that was taken.",
            holds="text",
        ),
    ] = None
    cause_class: Annotated[str | None, Col("Why it ended, as a class of the failure taxonomy.", holds="fixed")] = None
    cause_event_id: Annotated[str | None, Col("Event that is the best candidate for the cause.", holds="id")] = None
    cause_confidence: Annotated[float | None, Col("How sure the cause is, 0 to 1.")] = None
    cause_evidence: Annotated[
        list[str] | None, Col("What speaks for the cause, the strongest first: `class: what was seen`.", holds="text")
    ] = None
    suspects: Annotated[
        list[str] | None,
        Col("Where the cause may lie: a host, `host/gpuN`, or `rank:N` where the host is unknown.", holds="member"),
    ] = None
    victims: Annotated[
        list[str] | None, Col("Who only told of the failure of others, named as the suspects are.", holds="member")
    ] = None
    missing_evidence: Annotated[
        list[str] | None, Col("What would have to be looked at to know the cause better.", holds="text")
    ] = None
    first_step: Annotated[int | None, Col("First training step that it logged.")] = None
    last_step: Annotated[int | None, Col("Last training step that it logged.")] = None
    last_saved_step: Annotated[int | None, Col("Last training step that it saved completely.")] = None
    gpu_seconds: Annotated[float | None, Col("GPU time that it held: duration times GPUs.", unit="GPU s")] = None
    gpu_seconds_lost: Annotated[
        float | None, Col("Part of `gpu_seconds` whose work did not survive the end.", unit="GPU s")
    ] = None
    sources: Annotated[
        list[str] | None, Col("Every place where it was seen, one `source:byte_offset` for each file.", holds="place")
    ] = None
    log_evidence: Annotated[
        list[str] | None,
        Col("By what training logs were tied to it: `source: evidence` for each log.", holds="text"),
    ] = None
    time_basis: Annotated[str | None, Col("How the times are known.", values=TIME_BASES)] = None
    time_error_s: Annotated[float | None, seconds_col("How wrong the times can be, either way.")] = None


@dataclass(slots=True, kw_only=True)
class Retry(Row):
    """One step from a session that ended to the session that took up its work."""

    table: ClassVar[str] = "retries"
    key: ClassVar[tuple[str, ...]] = ("from_session_id", "to_session_id")
    order: ClassVar[tuple[str, ...]] = ("chain_id", "attempt", "from_session_id", "to_session_id")

    chain_id: Annotated[str | None, Col("Chain that both sessions belong to.", holds="id")] = None
    from_session_id: Annotated[str | None, Col("Earlier session.", holds="id")] = None
    to_session_id: Annotated[str | None, Col("Later session.", holds="id")] = None
    attempt: Annotated[int | None, Col("Number of the later session in its chain, so never below 2.", arrow=INT32)] = (
        None
    )
    trigger: Annotated[str | None, Col("What brought the later session about.", values=RETRY_TRIGGERS)] = None
    mode: Annotated[str | None, Col("Whether a machine or a person retried.", values=RETRY_MODES)] = None
    mode_evidence: Annotated[
        str | None,
        Col(
            "What decided `mode`, several words with `+`: `requeue`, `restart_in_place`, `stated`, `dependency`, "
            "`submitted_at_end`, `constant_gap`, `irregular_gaps`, `requeued_by_user`; null if nothing did.",
            holds="fixed",
        ),
    ] = None
    interval_s: Annotated[float | None, seconds_col("From the end of the earlier to the start of the later.")] = None
    requeue_interval_s: Annotated[
        float | None, seconds_col("From the decision to requeue to the start; null without such a decision.")
    ] = None
    hosts_kept: Annotated[list[str] | None, Col("Hosts that both sessions ran on.", holds="host")] = None
    hosts_dropped: Annotated[list[str] | None, Col("Hosts that only the earlier session ran on.", holds="host")] = None
    hosts_added: Annotated[list[str] | None, Col("Hosts that only the later session ran on.", holds="host")] = None
    rule: Annotated[str | None, Col("Rule that joined the two.", holds="fixed")] = None
    confidence: Annotated[float | None, Col("How sure the rule is, 0 to 1.")] = None


@dataclass(slots=True, kw_only=True)
class Chain(Row):
    """Sessions that continue one another: one piece of work from its first placement to its outcome."""

    table: ClassVar[str] = "chains"
    key: ClassVar[tuple[str, ...]] = ("chain_id",)
    order: ClassVar[tuple[str, ...]] = ("start_time", "chain_id")

    chain_id: Annotated[str | None, Col("Stable id, made from the first session.", holds="id")] = None
    cluster: Annotated[str | None, Col("Cluster name.", holds="cluster")] = None
    name: Annotated[str | None, Col("Job name of the first session.", holds="text")] = None
    user: Annotated[str | None, Col("User that the work belongs to.", holds="user")] = None
    n_attempts: Annotated[
        int | None, Col("Sessions that were placed; those that never got hosts do not count.", arrow=INT32)
    ] = None
    first_session_id: Annotated[str | None, Col("First session.", holds="id")] = None
    last_session_id: Annotated[str | None, Col("Last session.", holds="id")] = None
    start_time: Annotated[int | None, time_col("Start of the first session.")] = None
    end_time: Annotated[int | None, time_col("End of the last session; null while it runs.")] = None
    mode: Annotated[str | None, Col("Whether machines or persons made its retries.", values=RETRY_MODES)] = None
    outcome: Annotated[str | None, Col("How the work ended.", values=CHAIN_OUTCOMES)] = None
    median_interval_s: Annotated[float | None, seconds_col("Median of the retry intervals.")] = None
    hosts_dropped: Annotated[list[str] | None, Col("Hosts that some retry dropped.", holds="host")] = None
    gpu_seconds_lost: Annotated[
        float | None, Col("Sum over the sessions of GPU time without surviving work.", unit="GPU s")
    ] = None


@dataclass(slots=True, kw_only=True)
class Exclusion(Row):
    """A host that was kept from taking work, for some time and by some means.

    An `exclude_list` is one row for each host and session, from the submit of that session to its end.
    """

    table: ClassVar[str] = "exclusions"
    key: ClassVar[tuple[str, ...]] = ("exclusion_id",)
    order: ClassVar[tuple[str, ...]] = ("start_time", "host", "exclusion_id")

    exclusion_id: Annotated[str | None, Col("Stable id, made from host, means, start and session.", holds="id")] = None
    cluster: Annotated[str | None, Col("Cluster name.", holds="cluster")] = None
    host: Annotated[str | None, Col("Host that was left out.", holds="host")] = None
    start_time: Annotated[int | None, time_col("From when.")] = None
    end_time: Annotated[int | None, time_col("Until when; null while it is still open.")] = None
    how: Annotated[str | None, Col("By what means.", values=EXCLUSION_MEANS)] = None
    by: Annotated[str | None, Col("User or program that did it.", holds="user")] = None
    planned: Annotated[bool | None, Col("Whether it was planned, such as maintenance.")] = None
    session_id: Annotated[str | None, Col("Session whose request or host list left it out.", holds="id")] = None
    chain_id: Annotated[str | None, Col("Chain of that session.", holds="id")] = None
    reason: Annotated[str | None, Col("Reason as printed.", holds="text")] = None
    evidence_event_ids: Annotated[list[str] | None, Col("Events on that host that speak for it.", holds="id")] = None
    evidenced: Annotated[bool | None, Col("Whether a hardware fault was seen on that host inside the window.")] = None
