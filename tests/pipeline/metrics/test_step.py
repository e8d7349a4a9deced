"""Metrics in a whole run: from text beside a kernel log to samples, evidence, checkpoints and alarms."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aftershock.pipeline.metrics import step
from aftershock.results import Results
from tests.parsers.prometheus.block_writer import write_block
from tests.parsers.prometheus.blocks import series as block_series
from tests.pipeline.conftest import RunJob
from tests.pipeline.test_run import contents

HOSTS = ("gpu001", "gpu002", "gpu003", "gpu004", "gpu005")
BEGIN = dt.datetime(2026, 3, 1, tzinfo=dt.timezone.utc)
FAULT = BEGIN + dt.timedelta(hours=8)
STEP = 30
GB = 1e9
XID = "%s %s kernel: NVRM: Xid (PCI:0000:1b:00): 79, pid=7, name=python3, GPU has fallen off the bus.\n"
UUIDS = {host: f"GPU-0000000{number}-1111-2222-3333-444444444444" for number, host in enumerate(HOSTS)}


def noise(host: str, second: int) -> float:
    return (hash((int(host[-1]), second // STEP * 7919)) % 11 - 5) / 5


def lines(value: Callable[[str, int], str], hours: float = 10) -> Iterator[str]:
    for second in range(0, int(hours * 3600), STEP):
        for host in HOSTS:
            yield value(host, second)


def gpu_lines(host: str, second: int) -> str:
    time = BEGIN.timestamp() + second
    dcgm = f'{{gpu="0",UUID="{UUIDS[host]}",Hostname="{host}",instance="{host}:9400"}}'
    node = f'{{instance="10.0.0.{host[-1]}:9100"}}'
    fault = FAULT.timestamp() - BEGIN.timestamp()
    ill = host == "gpu002" and second >= fault - 600
    over = host == "gpu002" and second >= fault + 60
    temperature = 60 + noise(host, second) + (25 if ill else 0)
    interrupts = 1e6 + 5000 * second - (4500 * (second - fault + 600) if ill else 0)
    found = [
        f'node_uname_info{{instance="10.0.0.{host[-1]}:9100",nodename="{host}"}} 1 {time}',
        f"node_intr_total{node} {interrupts + 100 * noise(host, second)} {time}",
        f"up{node} 1 {time}",
    ]
    if not over:
        found += [
            f"DCGM_FI_DEV_GPU_TEMP{dcgm} {temperature} {time}",
            f"DCGM_FI_DEV_POWER_USAGE{dcgm} {500 + 10 * noise(host, second)} {time}",
        ]
    written = 8 * GB * max(0, min(second - 7200, 600))
    found.append(
        f'node_mountstats_nfs_total_write_bytes_total{{instance="10.0.0.{host[-1]}:9100",export="s:/c"}} {written} {time}'
    )
    return "\n".join(found) + "\n"


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    with (folder / "metrics.om").open("w") as file:
        file.writelines(lines(gpu_lines))
        file.write("# EOF\n")
    (folder / "kern.log").write_text(
        "".join(
            XID % (time.isoformat(), host)
            for host, time in (("gpu002", FAULT), ("gpu004", BEGIN + dt.timedelta(minutes=20)))
        )
    )
    (folder / "aftershock.toml").write_text(
        '[cluster]\nhosts = "gpu[001-005]"\nscrape_interval_s = 30\n[storage]\nwrite_bytes_per_s = 250e9\n'
    )
    return folder


def run(run_job: RunJob, folder: Path, **more: object) -> Results:
    return run_job(folder / "metrics.om", folder / "kern.log", config=str(folder / "aftershock.toml"), **more)


def test_windows_evidence_and_checkpoints(run_job: RunJob, inputs: Path) -> None:
    found = run(run_job, inputs)
    series = {row["series_id"]: row for row in found["series"].table().to_pylist()}
    assert {row["host"] for row in series.values()} == {"gpu002", "gpu004"}
    # node_exporter names an address: whose it is was told by a series of its own.
    assert {row["host"] for row in series.values() if row["metric"] == "node_intr_total"} == {"gpu002", "gpu004"}
    times = found["samples"].table().column("time").to_pylist()
    assert min(times) >= BEGIN
    assert not [time for time in times if BEGIN + dt.timedelta(minutes=26) < time < FAULT - dt.timedelta(minutes=91)]
    evidence = [row for row in found["evidence"].table().to_pylist() if row["host"] == "gpu002"]
    by_metric = {row["metric"]: row for row in evidence}
    assert by_metric["DCGM_FI_DEV_GPU_TEMP"]["lead_s"] == 600
    assert by_metric["DCGM_FI_DEV_GPU_TEMP"]["gpu_uuid"] == UUIDS["gpu002"]
    assert by_metric["node_intr_total"]["robust_z"] < -6
    assert by_metric["DCGM_FI_DEV_POWER_USAGE"]["lead_s"] is None
    (save,) = found["checkpoints"].table().to_pylist()
    assert (save["kind"], save["origin"]) == ("save", "metrics")
    assert save["start_time"] == BEGIN + dt.timedelta(hours=2)
    assert save["peak_bytes_per_s"] == pytest.approx(40 * GB)
    assert save["utilisation"] == pytest.approx(40 / 250)
    notes = [row["note"] for row in found["sources"].table().to_pylist() if row["format"] == "openmetrics"]
    assert "0 of them of no known host" in notes[0]


def test_two_runs_give_equal_bytes(run_job: RunJob, inputs: Path, tmp_path: Path) -> None:
    run(run_job, inputs, out=tmp_path / "a")
    run(run_job, inputs, out=tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_alarms_and_their_scores(run_job: RunJob, inputs: Path) -> None:
    found = run(run_job, inputs)
    alarms = found["alarms"].table().to_pylist()
    assert [(row["host"], row["verdict"]) for row in alarms] == [("gpu002", "before")]
    (alarm,) = alarms
    assert {"DCGM_FI_DEV_GPU_TEMP", "node_intr_total"} <= set(alarm["metrics"])
    assert 400 <= alarm["lead_s"] <= 600
    findings = {(row["finding"], row["subject"], row["unit"]): row for row in found["findings"].table().to_pylist()}
    share = findings["detection_share", "all", "faults"]
    # The fault within the first half hour comes before anything is known to be usual.
    assert (share["numerator"], share["denominator"]) == (1, 2)
    assert share["ci_low"] < 0.5 < share["ci_high"]
    assert share["p_value"] < 0.2
    assert findings["detected_before_share", "all", "faults"]["numerator"] == 1
    wrong = findings["false_alarms_per_day", "all", "per cluster day"]
    assert wrong["value"] == 0
    assert wrong["ci_high"] == pytest.approx(3.689 / wrong["exposure"], rel=1e-3)
    assert wrong["exposure"] == pytest.approx(10 / 24)


def as_block(text: Path, folder: Path) -> None:
    """The same samples as a block of Prometheus."""
    samples: dict[tuple[str, tuple[tuple[str, str], ...]], list[tuple[int, float]]] = {}
    for line in text.read_text().splitlines():
        if not line.startswith("#"):
            series, value, time = line.rsplit(" ", 2)
            name, _, body = series.partition("{")
            pairs = tuple(
                (label, text.strip('"'))
                for label, _, text in (one.partition("=") for one in body[:-1].split(",") if one)
            )
            samples.setdefault((name, pairs), []).append((round(float(time) * 1000), float(value)))
    write_block(folder, [block_series(name, rows, **dict(pairs)) for (name, pairs), rows in samples.items()])


def test_a_large_block_is_read_where_it_is_needed(
    run_job: RunJob, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = inputs / "01KJTESTB10CK0000000000000"
    as_block(inputs / "metrics.om", block)
    config = str(inputs / "aftershock.toml")
    tables = ("series", "samples", "alarms", "checkpoints")
    text = run(run_job, inputs, out=tmp_path / "text")
    whole = run_job(block, inputs / "kern.log", config=config, out=tmp_path / "whole")
    # More than one in eight slots of healthy time is more than is wanted of it.
    monkeypatch.setattr(step, "_SMALL", sum(path.stat().st_size for path in block.rglob("*") if path.is_file()) // 8)
    parts = run_job(block, inputs / "kern.log", config=config, out=tmp_path / "parts")
    for name in tables:
        expected = text[name].table().to_pylist()
        assert whole[name].table().to_pylist() == expected
        assert parts[name].table().to_pylist() == expected

    def without_chances(found: Results) -> list[dict[str, object]]:
        return [{**row, "p_value": None, "q_value": None} for row in found["evidence"].table().to_pylist()]

    assert without_chances(parts) == without_chances(text)
    records = [
        {row["format"]: row["records"] for row in found["sources"].table().to_pylist()}["tsdb"]
        for found in (whole, parts)
    ]
    assert records[1] < records[0] / 1.5


def test_hosts_whose_names_come_late_are_known(run_job: RunJob, inputs: Path) -> None:
    lines = (inputs / "metrics.om").read_text().splitlines()
    lines.sort(key=lambda line: (line.startswith("# EOF"), line.startswith("node_uname_info")))
    (inputs / "metrics.om").write_text("\n".join(lines) + "\n")
    found = run(run_job, inputs)
    hosts = {row["host"] for row in found["series"].table().to_pylist() if row["metric"] == "node_intr_total"}
    assert hosts == {"gpu002", "gpu004"}


def test_samples_outside_windows_are_kept_only_if_all_are(run_job: RunJob, inputs: Path, tmp_path: Path) -> None:
    some = run(run_job, inputs, out=tmp_path / "some")
    every = run(run_job, inputs, out=tmp_path / "every", all_samples=True)
    lines = [line for line in (inputs / "metrics.om").read_text().splitlines() if not line.startswith("#")]
    assert len(every["samples"]) == len(lines)
    assert len(some["samples"]) < len(lines) / 4
    assert every["evidence"].table().equals(some["evidence"].table())


def test_metrics_without_events_and_events_of_an_assumed_zone(run_job: RunJob, inputs: Path, tmp_path: Path) -> None:
    alone = run_job(inputs / "metrics.om", config=str(inputs / "aftershock.toml"), out=tmp_path / "alone")
    assert len(alone["samples"]) == len(alone["evidence"]) == 0
    assert [row["verdict"] for row in alone["alarms"].table().to_pylist()] == ["false"]
    (inputs / "kern.log").write_text(f"Mar  1 08:00:00 {XID % ('', 'gpu002')}".replace("  gpu002", " gpu002"))
    assumed = run(run_job, inputs, out=tmp_path / "assumed", timezone=None)
    assert {row["time_basis"] for row in assumed["gpu_errors"].table().to_pylist()} == {"assumed_zone"}
    assert len(assumed["samples"]) == 0
