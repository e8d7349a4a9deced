"""Rows with answers: incidents (a fault with all that it did) and findings (one number with its basis)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from aftershock.schemas.columns import Col, Row, seconds_col, time_col

# The classes of gpu_errors.fault_class; a test holds the two together.
FAULT_CLASSES = ("hardware", "fabric", "driver", "application", "thermal", "unknown")


@dataclass(slots=True, kw_only=True)
class Incident(Row):
    """One fault and what it did: the events that belong to it, the hosts, GPUs and sessions it hit.

    Suspects and victims are candidates with reasons, no verdict.
    """

    table: ClassVar[str] = "incidents"
    key: ClassVar[tuple[str, ...]] = ("incident_id",)
    order: ClassVar[tuple[str, ...]] = ("start_time", "incident_id")

    incident_id: Annotated[str | None, Col("Stable id, made from the root event.", holds="id")] = None
    start_time: Annotated[int | None, time_col("Time of its first event.")] = None
    end_time: Annotated[int | None, time_col("Time of its last event.")] = None
    fault_class: Annotated[str | None, Col("Class of the fault.", values=FAULT_CLASSES)] = None
    error_class: Annotated[str | None, Col("Class of the failure taxonomy.", holds="fixed")] = None
    root_event_id: Annotated[
        str | None, Col("Event that is the best candidate for the root; of any event table.", holds="id")
    ] = None
    event_ids: Annotated[list[str] | None, Col("Every event that belongs to it.", holds="id")] = None
    hosts: Annotated[list[str] | None, Col("Hosts that it hit.", holds="host")] = None
    gpus: Annotated[list[str] | None, Col("GPUs that it hit.", holds="member")] = None
    session_ids: Annotated[list[str] | None, Col("Sessions that it hit.", holds="id")] = None
    chain_ids: Annotated[list[str] | None, Col("Chains of those sessions.", holds="id")] = None
    exclusion_ids: Annotated[list[str] | None, Col("Exclusions of hosts that followed.", holds="id")] = None
    suspects: Annotated[
        list[str] | None,
        Col("Who may have caused it: `host` or `host/gpuN`; `rank:N` only where the host is unknown.", holds="member"),
    ] = None
    victims: Annotated[list[str] | None, Col("Who only suffered from it, written like `suspects`.", holds="member")] = (
        None
    )
    n_events: Annotated[int | None, Col("Number of events, with the occurrences that each stands for.")] = None
    first_metric_time: Annotated[int | None, time_col("When a metric first left its baseline.")] = None
    lead_s: Annotated[
        float | None, seconds_col("From that metric to the root event; positive: the metric came before.")
    ] = None
    missing_evidence: Annotated[
        list[str] | None, Col("What would tell more: kind, host, window and how to collect it.", holds="text")
    ] = None
    verdict: Annotated[str | None, Col("A person's word on the cause, from an imported table.", holds="text")] = None
    verdict_by: Annotated[str | None, Col("Who gave that word.", holds="user")] = None


@dataclass(slots=True, kw_only=True)
class Finding(Row):
    """One number with its numerator, denominator, interval, window, exposure and parameters."""

    table: ClassVar[str] = "findings"
    key: ClassVar[tuple[str, ...]] = ("finding", "subject", "unit", "method")
    order: ClassVar[tuple[str, ...]] = ("finding", "subject", "unit", "method")

    finding: Annotated[str | None, Col("Name of the number.", holds="fixed")] = None
    subject: Annotated[str | None, Col("Variant of it; every count also has the subject `all`.", holds="text")] = None
    value: Annotated[float | None, Col("The number; null if it cannot be known.")] = None
    unit: Annotated[str | None, Col("Unit of `value`, or what numerator and denominator count.", holds="text")] = None
    numerator: Annotated[float | None, Col("Numerator.")] = None
    denominator: Annotated[float | None, Col("Denominator.")] = None
    ci_low: Annotated[float | None, Col("Lower end of the interval.")] = None
    ci_high: Annotated[float | None, Col("Upper end of the interval.")] = None
    method: Annotated[str | None, Col("How interval or test were made.", holds="fixed")] = None
    p_value: Annotated[float | None, Col("Of the test, where there is one.")] = None
    window_start: Annotated[int | None, time_col("Begin of the time that it covers.")] = None
    window_end: Annotated[int | None, time_col("End of the time that it covers.")] = None
    exposure: Annotated[
        float | None, Col("How much was at risk, in GPU hours, hosts or attempts as `parameters` says.")
    ] = None
    parameters: Annotated[str | None, Col("Parameters that it depends on, as a JSON object.", holds="text")] = None
    note: Annotated[str | None, Col("What must be known to read it rightly.", holds="text")] = None
