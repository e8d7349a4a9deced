"""Saves and loads as the storage saw them, beside those that logs tell of."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from aftershock.parsers.hosts import HostNames
from aftershock.parsers.prometheus.columns import Labels
from aftershock.pipeline.metrics.checkpoint_io import ClusterIO
from aftershock.pipeline.metrics.checkpoint_match import findings_of, joined
from aftershock.pipeline.metrics.gathered import known_of
from aftershock.pipeline.metrics.identity import Subjects
from aftershock.pipeline.metrics.storage_cells import StorageCells
from aftershock.pipeline.metrics.storage_rules import StorageConfig
from aftershock.schemas.sessions import Session
from aftershock.schemas.training import Checkpoint
from tests.pipeline.metrics.made import SECOND, START, batch, every, labels

HOSTS = ("gpu001", "gpu002", "gpu003", "gpu004")
SUBJECTS = Subjects(HostNames(), HOSTS, [])
STEP = 30 * SECOND
N = 100
GB = 1e9
RULES = StorageConfig(read_bytes_per_s=700 * GB, write_bytes_per_s=250 * GB)
MOUNT = "node_mountstats_nfs_"
Series = dict[Labels, list[tuple[int, float]]]


def counter(rates: Sequence[float], start: float = 1e15) -> list[tuple[int, float]]:
    """A counter that counts ``rates`` a second after each scrape."""
    values = [start]
    for rate in rates[:-1]:
        values.append(values[-1] + rate * STEP / SECOND)
    return every(STEP, values)


def during(rate: float, begin: int, end: int, otherwise: float = 0.0) -> list[float]:
    return [rate if begin <= at < end else otherwise for at in range(N)]


def writing(host: str, rates: Sequence[float], export: str = "/ckpt") -> Series:
    return {labels(f"{MOUNT}total_write_bytes_total", instance=f"{host}:9100", export=export): counter(rates)}


def reading(host: str, rates: Sequence[float], busy: float | None) -> Series:
    series: Series = {labels(f"{MOUNT}total_read_bytes_total", instance=f"{host}:9100", export="/d"): counter(rates)}
    if busy is not None:
        own = labels("DCGM_FI_DEV_GPU_UTIL", Hostname=host, gpu="0")
        series[own] = every(STEP, [busy] * N)
    return series


def cluster(series: Series, rules: StorageConfig = RULES) -> ClusterIO:
    cells = StorageCells(STEP)
    whole = batch(series)
    cells.take(whole, [known_of(own, SUBJECTS) for own in whole.labels])
    return ClusterIO(cells, rules)


def minutes(cell: float) -> int:
    return round(START + cell * STEP)


def test_what_all_hosts_write_together_is_a_save() -> None:
    series: Series = {}
    for host in HOSTS:
        series |= writing(host, during(6 * GB, 20, 30))
    io = cluster(series)
    (row,) = joined([], io, [])
    assert (row.kind, row.origin) == ("save", "metrics")
    assert row.start_time == minutes(20) * 1000
    assert row.end_time == minutes(30) * 1000
    assert row.duration_s == 300
    assert row.bytes == pytest.approx(4 * 6 * GB * 300)
    assert row.mean_bytes_per_s == pytest.approx(24 * GB)
    assert row.peak_bytes_per_s == pytest.approx(24 * GB)
    assert row.ceiling_bytes_per_s == 250 * GB
    assert row.utilisation == pytest.approx(24 / 250)
    assert (row.rpc_queue_share, row.rpc_backlog_mean, row.retransmissions) == (None, None, None)
    # Three of the hosts do not write enough.
    assert not joined([], cluster({own: rows for own, rows in series.items() if "gpu004" not in str(own)}), [])


def test_mounts_are_added_up_and_replicas_and_system_calls_are_not() -> None:
    series = writing("gpu001", during(15 * GB, 20, 30)) | writing("gpu001", during(10 * GB, 20, 30), "/other")
    for name in ("write_bytes_total", "total_write_bytes_total"):
        own = labels(f"{MOUNT}{name}", instance="gpu001:9100", export="/ckpt", replica="b")
        series[own] = counter(during(15 * GB, 20, 30))
    (row,) = joined([], cluster(series), [])
    assert row.peak_bytes_per_s == pytest.approx(25 * GB)


def test_bytes_of_operations_stand_in_where_there_are_no_others() -> None:
    own = labels(f"{MOUNT}operations_sent_bytes_total", instance="gpu001:9100", operation="WRITE")
    others = labels(f"{MOUNT}operations_sent_bytes_total", instance="gpu001:9100", operation="GETATTR")
    rates = during(30 * GB, 20, 30)
    (row,) = joined([], cluster({own: counter(rates), others: counter(rates)}), [])
    assert row.peak_bytes_per_s == pytest.approx(30 * GB)


@pytest.mark.parametrize(("busy", "loads"), [(5.0, 1), (95.0, 0), (None, 0)])
def test_a_load_is_reading_while_gpus_are_idle(busy: float | None, loads: int) -> None:
    series = reading("gpu001", during(3 * GB, 40, 60), busy)
    # Others are busy, but they do not read.
    series |= {labels("DCGM_FI_DEV_GPU_UTIL", Hostname="gpu002", gpu="0"): every(STEP, [99.0] * N)}
    rows = joined([], cluster(series), [])
    assert [row.kind for row in rows] == ["load"] * loads


def test_a_restart_of_the_host_is_no_burst() -> None:
    rates = during(0.0, 0, 0)
    samples = counter(rates, 5e15)
    samples[50:] = [(time, 0.0) for time, _ in samples[50:]]
    own = labels(f"{MOUNT}total_write_bytes_total", instance="gpu001:9100", export="/ckpt")
    assert not joined([], cluster({own: samples}), [])


def test_short_breaks_are_bridged_and_long_ones_are_not() -> None:
    rates = [30 * GB if at in (*range(10, 14), *range(15, 20), *range(40, 44)) else 0.0 for at in range(N)]
    rows = joined([], cluster(writing("gpu001", rates)), [])
    assert [(row.start_time, row.end_time) for row in rows] == [
        (minutes(10) * 1000, minutes(20) * 1000),
        (minutes(40) * 1000, minutes(44) * 1000),
    ]
    least = StorageConfig(least_s=200.0)
    assert len(joined([], cluster(writing("gpu001", rates), least), [])) == 1


def test_waiting_in_queues() -> None:
    series = writing("gpu001", during(30 * GB, 20, 30))
    told = {
        "operations_requests_total": 1000.0,
        "operations_queue_time_seconds_total": 930.0,
        "operations_response_time_seconds_total": 60.0,
        "operations_request_time_seconds_total": 1000.0,
    }
    for operation, scale in (("WRITE", 1.0), ("READ", 5.0)):
        for name, rate in told.items():
            factor = scale if name.startswith("operations_queue") else 1.0
            own = labels(f"{MOUNT}{name}", instance="gpu001:9100", export="/ckpt", operation=operation)
            series[own] = counter(during(rate * factor, 20, 30, 7.0))
    for name, rate in (("transport_backlog_queue_total", 9000.0), ("transport_sends_total", 1000.0)):
        series[labels(f"{MOUNT}{name}", instance="gpu001:9100", export="/ckpt", transport="0")] = counter(
            during(rate, 20, 30, 3.0)
        )
    series[labels("node_nfs_rpc_retransmissions_total", instance="gpu001:9100")] = counter(during(0.1, 20, 30))
    (row,) = joined([], cluster(series), [])
    assert row.rpc_queue_share == pytest.approx(0.93)
    assert row.rpc_backlog_mean == pytest.approx(9.0)
    assert row.retransmissions == 30


def logged(begin: float, end: float | None, **more: object) -> Checkpoint:
    return Checkpoint(
        kind="save",
        start_time=minutes(begin) * 1000,
        end_time=None if end is None else minutes(end) * 1000,
        origin="log",
        step=1000,
        **more,  # type: ignore[arg-type]
    )


def test_a_checkpoint_of_a_log_is_the_same_as_its_interval() -> None:
    io = cluster(writing("gpu001", during(30 * GB, 20, 30)))
    whole, open_one = logged(19.5, 30.2), logged(19, None)
    for row in (whole, open_one):
        assert joined([row], io, []) == []
        assert row.origin == "both"
        assert row.peak_bytes_per_s == pytest.approx(30 * GB)
        assert row.step == 1000
    assert whole.start_time == minutes(19.5) * 1000
    assert open_one.end_time is None


def test_a_checkpoint_elsewhere_in_time_or_of_another_kind_stays_apart() -> None:
    io = cluster(writing("gpu001", during(30 * GB, 20, 30)))
    far, load = logged(50, 55), logged(20, 30)
    load.kind = "load"
    assumed = logged(20, 30, time_basis="assumed_zone")
    (row,) = joined([far, load, assumed], io, [])
    assert row.origin == "metrics"
    assert [one.origin for one in (far, load, assumed)] == ["log"] * 3
    # Of its own time the storage tells nonetheless.
    assert far.peak_bytes_per_s == 0.0


def test_an_interval_belongs_to_the_session_whose_hosts_moved_it() -> None:
    series: Series = {}
    for host, rate in zip(HOSTS, (9 * GB, 9 * GB, 9 * GB, 1 * GB), strict=True):
        series |= writing(host, during(rate, 20, 30))
    sessions = [
        Session(session_id="over", hosts=list(HOSTS), start_time=0, end_time=minutes(5) * 1000),
        Session(session_id="small", hosts=["gpu004"], start_time=minutes(5) * 1000),
        Session(session_id="large", hosts=list(HOSTS[:3]), start_time=minutes(5) * 1000),
    ]
    io = cluster(series)
    (row,) = joined([], io, sessions)
    assert row.session_id == "large"
    # The log of another session does not tell of it.
    assert len(joined([logged(20, 30, session_id="small")], io, sessions)) == 1
    nameless = logged(20, 30)
    assert joined([nameless], io, sessions) == []
    assert nameless.session_id == "large"


def test_findings_of_checkpoints() -> None:
    series = writing("gpu001", during(30 * GB, 20, 30)) | writing("gpu002", during(10 * GB, 20, 30))
    io = cluster(series)
    rows = joined([], io, [])
    found = {(row.finding, row.subject): row for row in findings_of(rows, io, RULES)}
    assert found["checkpoint_events", "all"].value == 1
    assert found["checkpoint_events", "save"].value == 1
    peak = found["checkpoint_peak_utilisation", "save"]
    assert (peak.value, peak.denominator) == (pytest.approx(0.16), 250 * GB)
    assert found["checkpoint_host_peak_bytes_per_s", "save gpu002"].value == pytest.approx(10 * GB)
    assert ("checkpoint_peak_utilisation", "load") not in found


def test_without_metrics_of_storage_there_is_nothing() -> None:
    io = cluster({labels("up", instance="gpu001:9100"): every(STEP, [1.0] * N)})
    assert joined([], io, []) == []
