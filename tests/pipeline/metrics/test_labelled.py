"""Alarms and their scores on a cluster in which every fault and every sign was planted."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from aftershock.pipeline.options import RunOptions
from aftershock.pipeline.prepare import prepare
from aftershock.pipeline.run import run
from aftershock.results import Results
from aftershock.results import open as open_results
from tests.pipeline.metrics import labelled
from tests.pipeline.metrics.labelled import BEGAN, HOSTS, INTR, PAGES, PLANTED, POWER, TEMP, UTIL

MINUTE = 60


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder: Path = tmp_path_factory.mktemp("cluster")
    inputs = tuple(map(str, labelled.write(folder)))
    run(prepare(RunOptions(inputs=inputs, out=str(folder / "out"), config=str(folder / "aftershock.toml"))))
    return open_results(folder / "out")


@pytest.fixture(scope="module")
def findings(found: Results) -> dict[tuple[str, str, str], dict[str, Any]]:
    return {(row["finding"], row["subject"], row["unit"]): row for row in found["findings"].table().to_pylist()}


def minute(time: dt.datetime) -> int:
    return round((time - BEGAN).total_seconds() / 60)


def test_nothing_else_is_an_alarm(found: Results) -> None:
    assert found["rejects"].table().num_rows == 0
    alarms = {row["host"]: row for row in found["alarms"].table().to_pylist()}
    assert len(alarms) == len(found["alarms"])
    assert {host: row["verdict"] for host, row in alarms.items()} == {
        "gpu001": "before",
        "gpu002": "before",
        "gpu004": "after",
        "gpu006": "before",
        "gpu007": "false",
        "gpu008": "false",
    }
    for one in PLANTED:
        if one.host in alarms and not one.gone:
            # A sign is known when it has stayed for three scrapes.
            assert minute(alarms[one.host]["start_time"]) == one.first + 3
            assert set(alarms[one.host]["metrics"]) == set(one.metrics)
    leads = {host: row["lead_s"] for host, row in alarms.items() if row["lead_s"] is not None}
    assert leads == {"gpu001": 17 * MINUTE, "gpu002": 9 * MINUTE, "gpu004": -4 * MINUTE, "gpu006": 22 * MINUTE}
    assert {"absence", "markers", INTR} <= set(alarms["gpu004"]["metrics"])


def test_rates_are_those_that_were_planted(findings: dict[tuple[str, str, str], dict[str, Any]]) -> None:
    def share(finding: str, subject: str = "all", unit: str = "faults") -> tuple[float, float]:
        row = findings[finding, subject, unit]
        assert row["value"] == pytest.approx(row["numerator"] / row["denominator"])
        assert row["ci_low"] < row["value"] < row["ci_high"]
        return row["numerator"], row["denominator"]

    assert share("detection_share") == (4, 6)
    assert share("detected_before_share") == (3, 6)
    assert share("detection_share", "earlier") == (2, 3)
    assert share("detected_before_share", "later") == (1, 3)
    assert share("alarm_true_share", unit="alarms") == (4, 6)
    assert share("alarm_true_share", "earlier", "alarms") == (2, 3)
    for name in ("detection_share", "detected_before_share"):
        assert findings[name, "all", "faults"]["p_value"] < 0.01
        assert findings[f"{name}_by_chance", "all", "faults"]["value"] < 0.05
    # Each metric takes the faults with it that only one other told of; a GPU that is gone shows in two ways by itself.
    assert {metric: share("detection_share_without", metric)[0] for metric in (TEMP, UTIL, POWER, INTR, PAGES)} == {
        TEMP: 3,
        UTIL: 3,
        POWER: 2,
        INTR: 3,
        PAGES: 3,
    }


def test_leads_are_those_that_were_planted(findings: dict[tuple[str, str, str], dict[str, Any]]) -> None:
    leads = [findings[f"detection_lead_{part}_s", "all", "s"] for part in ("q1", "median", "q3")]
    assert [row["value"] for row in leads] == [13 * MINUTE, 17 * MINUTE, 19.5 * MINUTE]
    assert {row["denominator"] for row in leads} == {3}


def test_false_alarms_count_over_all_healthy_time(findings: dict[tuple[str, str, str], dict[str, Any]]) -> None:
    by_day = findings["false_alarms_per_day", "all", "per cluster day"]
    assert (by_day["numerator"], by_day["exposure"]) == (2, pytest.approx(2, abs=0.01))
    by_host = findings["false_alarms_per_day", "all", "per host day"]
    # Half an hour before each of six faults and an hour after; nobody looked for twelve minutes, but hosts were there.
    assert by_host["exposure"] == pytest.approx(2 * len(HOSTS) - 6 * 1.5 / 24, abs=0.01)
    assert findings["false_alarms_per_day", "later", "per cluster day"]["numerator"] == 1
    assert json.loads(by_day["parameters"])["threshold"] == findings["alarm_threshold", "all", "deviations"]["value"]


def test_evidence_of_each_fault_shows_the_signs_and_their_leads(found: Results) -> None:
    planted = {one.host: one for one in PLANTED if one.fault is not None}
    rows = found["evidence"].table().to_pylist()
    assert {row["host"] for row in rows} == set(planted)
    first: dict[str, dict[str, float]] = {host: {} for host in planted}
    for row in rows:
        # The checkpoints of the job are no signs: all peers have them.
        if row["peer_z"] is not None and abs(row["peer_z"]) > 20 and row["lead_s"] is not None and row["lead_s"] > 0:
            first[row["host"]][row["metric"]] = row["lead_s"]
    for host, one in planted.items():
        before = {metric for metric in one.metrics if not one.gone}
        assert set(first[host]) == before
        assert one.fault is not None
        for metric in before:
            # A counter shows it one scrape later.
            assert first[host][metric] == pytest.approx((one.fault - one.first) * MINUTE, abs=MINUTE)
