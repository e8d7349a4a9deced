"""Rows about metrics: series, their samples, what they show around an event, and the alarms made of them."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import pyarrow as pa

from aftershock.schemas.columns import Col, Row, seconds_col, time_col

ALARM_VERDICTS = ("before", "within_scrape", "after", "false", "unscored")


@dataclass(slots=True, kw_only=True)
class Series(Row):
    """One time series: a metric with one set of labels."""

    table: ClassVar[str] = "series"
    key: ClassVar[tuple[str, ...]] = ("series_id",)
    order: ClassVar[tuple[str, ...]] = ("metric", "host", "series_id")

    series_id: Annotated[str | None, Col("Stable id, made from the metric and all labels.", holds="id")] = None
    metric: Annotated[str | None, Col("Name of the metric.", holds="text")] = None
    cluster: Annotated[str | None, Col("Cluster name.", holds="cluster")] = None
    host: Annotated[str | None, Col("Host that the series is about.", holds="host")] = None
    gpu_uuid: Annotated[str | None, Col("GPU that the series is about.", holds="serial")] = None
    gpu_index: Annotated[int | None, Col("Index as nvidia-smi shows it.", arrow=pa.int32())] = None
    pci: Annotated[str | None, Col("PCI address as `dddd:bb:dd.f`, lower case.", holds="text")] = None
    labels: Annotated[dict[str, str] | None, Col("Every label received but the name.", holds="text")] = None


@dataclass(slots=True, kw_only=True)
class Sample(Row):
    """Values of a series: those inside the windows of events, or all of them with `--all-samples`."""

    table: ClassVar[str] = "samples"
    key: ClassVar[tuple[str, ...]] = ("series_id", "time")
    order: ClassVar[tuple[str, ...]] = ("series_id", "time")

    series_id: Annotated[str | None, Col("Series that it belongs to.", holds="id")] = None
    time: Annotated[int | None, time_col("When it was scraped.")] = None
    value: Annotated[float | None, Col("Value; null for a marker of staleness.")] = None
    stale: Annotated[bool | None, Col("Whether it marks the end of the series rather than a value.")] = None


@dataclass(slots=True, kw_only=True)
class Evidence(Row):
    """What one series did around one event, against its own past and against the peers of its host."""

    table: ClassVar[str] = "evidence"
    key: ClassVar[tuple[str, ...]] = ("incident_id", "event_id", "series_id")
    order: ClassVar[tuple[str, ...]] = ("incident_id", "event_id", "series_id")

    incident_id: Annotated[str | None, Col("Incident that the event belongs to.", holds="id")] = None
    event_id: Annotated[str | None, Col("Event that the window lies around.", holds="id")] = None
    series_id: Annotated[str | None, Col("Series that was looked at.", holds="id")] = None
    metric: Annotated[str | None, Col("Name of its metric.", holds="text")] = None
    host: Annotated[str | None, Col("Host of the series.", holds="host")] = None
    gpu_uuid: Annotated[str | None, Col("GPU of the series.", holds="serial")] = None
    n_baseline: Annotated[int | None, Col("Samples that the baseline was taken from.")] = None
    baseline_median: Annotated[float | None, Col("Median of the baseline, in the unit of the metric.")] = None
    baseline_mad: Annotated[
        float | None, Col("Median absolute deviation of the baseline, in the unit of the metric.")
    ] = None
    peak_value: Annotated[float | None, Col("Value farthest from the baseline inside the window.")] = None
    robust_z: Annotated[
        float | None, Col("Distance of the peak from the baseline, in scaled median absolute deviations.")
    ] = None
    peer_z: Annotated[float | None, Col("The same distance, from what the peers did at that time.")] = None
    first_crossing_time: Annotated[int | None, time_col("When it first left the baseline.")] = None
    lead_s: Annotated[
        float | None, seconds_col("From the first crossing to the event; positive: before the event.")
    ] = None
    p_value: Annotated[float | None, Col("Chance of such a peak without an event.")] = None
    q_value: Annotated[float | None, Col("The same, corrected for the number of series that were looked at.")] = None


@dataclass(slots=True, kw_only=True)
class Alarm(Row):
    """A time in which the metrics of a host or GPU looked ill, whether or not an incident followed."""

    table: ClassVar[str] = "alarms"
    key: ClassVar[tuple[str, ...]] = ("alarm_id",)
    order: ClassVar[tuple[str, ...]] = ("start_time", "host", "alarm_id")

    alarm_id: Annotated[str | None, Col("Stable id, made from host, GPU and start.", holds="id")] = None
    host: Annotated[str | None, Col("Host that it is about.", holds="host")] = None
    gpu_uuid: Annotated[str | None, Col("GPU that it is about; null for the host as a whole.", holds="serial")] = None
    start_time: Annotated[int | None, time_col("From when.")] = None
    end_time: Annotated[int | None, time_col("Until when.")] = None
    score: Annotated[float | None, Col("Highest score inside it.")] = None
    metrics: Annotated[list[str] | None, Col("Metrics that took part.", holds="text")] = None
    families: Annotated[list[str] | None, Col("Families of metrics that took part.", holds="text")] = None
    incident_id: Annotated[str | None, Col("Incident that it was matched with.", holds="id")] = None
    lead_s: Annotated[float | None, seconds_col("From its start to the incident; positive: before the incident.")] = (
        None
    )
    verdict: Annotated[
        str | None,
        Col(
            "How it stands to the incident: earlier, too near to tell, later, without one, or not judged.",
            values=ALARM_VERDICTS,
        ),
    ] = None
