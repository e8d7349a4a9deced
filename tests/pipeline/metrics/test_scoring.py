"""How well alarms tell of faults: verdicts, rates with their exposure, and what chance would do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import poisson as law

from aftershock.pipeline.metrics.alarm_rules import AlarmRules
from aftershock.pipeline.metrics.alarm_scores import Looked
from aftershock.pipeline.metrics.alarms import Episode, Signals, alarm_rows, judge
from aftershock.pipeline.metrics.exact import poisson
from aftershock.pipeline.metrics.faults import Fault, faults_of, unhealthy
from aftershock.pipeline.metrics.healthy_time import Exposure
from aftershock.pipeline.metrics.scoring import Scoring
from aftershock.schemas.events import EventRow, GpuError, NodeEvent, SchedulerEvent
from aftershock.schemas.incidents import Finding, Incident
from aftershock.schemas.sessions import Exclusion
from tests.pipeline.metrics.made import MINUTE, SECOND, START

RULES = AlarmRules()
STEP = 30 * SECOND
DAY = 86_400 * SECOND
FIRST = START // STEP
CELLS = 10 * DAY // STEP
HOSTS = ("gpu001", "gpu002", "gpu003", "gpu004")


def fault(day: float, host: str = "gpu001", *, xid: bool = True, name: str = "", error: int = 0) -> Fault:
    return Fault(name or f"fault {day} {host}", host, START + round(day * DAY), error, xid, "hardware" if xid else None)


def episode(begin: int, host: str = "gpu001", length: int = 5 * MINUTE) -> Episode:
    return Episode(host, begin, begin + length, 10.0, ("a", "b"), ("x", "y"))


def ill(faults: list[Fault]) -> dict[str, tuple[tuple[int, int], ...]]:
    return dict(unhealthy(faults, [], RULES))


@pytest.mark.parametrize(
    ("minutes", "verdict"),
    [
        (-20, "before"),
        (-1, "before"),
        (-0.5, "within_scrape"),
        (0, "within_scrape"),
        (0.5, "within_scrape"),
        (1, "after"),
        (9, "after"),
        # It went on until the time in which it may belong to the fault.
        (-34, "before"),
        (-45, "false"),
        # Too late to belong to it, and too early for the host to be healthy again.
        (30, "unscored"),
        (70, "false"),
    ],
)
def test_verdicts(minutes: float, verdict: str) -> None:
    faults = [fault(1)]
    one = episode(faults[0].time + round(minutes * MINUTE))
    other = episode(one.begin, "gpu002")
    judge([one, other], faults, ill(faults), RULES, STEP)
    assert (one.verdict, other.verdict) == (verdict, "false")
    (row, _) = alarm_rows([one, other])
    assert row.lead_s == (None if verdict in ("false", "unscored") else -minutes * 60)


def test_an_error_of_the_clock_takes_from_the_lead() -> None:
    faults = [fault(1, error=2 * MINUTE)]
    found = [episode(faults[0].time - minutes * MINUTE) for minutes in (2, 3)]
    judge(found, faults, ill(faults), RULES, STEP)
    assert [one.verdict for one in found] == ["within_scrape", "before"]


def scoring(
    faults: list[Fault], alarms: dict[str, list[tuple[int, float]]], rules: AlarmRules = RULES, cells: int = CELLS
) -> Scoring:
    """``alarms``: of each host a cell after the first, and the score of both features in it."""
    features = [("a", "high"), ("b", "high"), ("c", "high")]
    signals = Signals(features, ["x", "y", "y"], rules, STEP)
    for host, found in alarms.items():
        signals.cells[host] = np.array([FIRST + cell for cell, _ in found], np.int64)
        signals.scores[host] = np.array([[score, score, 0.0] for _, score in found], np.float32)
    around = ill(faults)
    exposure = Exposure(FIRST, FIRST + cells, STEP, around)
    exposure.add(Looked(host, FIRST, np.arange(cells) >= cells // 4) for host in HOSTS)
    return Scoring(signals, faults, around, exposure, (FIRST, FIRST + cells), STEP)


def cell(day: float, minutes: float = 0) -> int:
    return round((day * DAY + minutes * MINUTE) / STEP)


def by_name(found: Scoring) -> dict[tuple[str, str], Finding]:
    return {
        (row.finding or "", f"{row.subject} {row.unit}" if "false" in (row.finding or "") else row.subject or ""): row
        for row in found.findings()
    }


FAULTS = [fault(2), fault(7), fault(8, "gpu002"), fault(9, "gpu003", xid=False)]
ALARMS = {
    "gpu001": [(cell(2, -10), 20.0), (cell(7, 2), 20.0)],
    "gpu002": [(cell(5), 20.0)],
    "gpu003": [(cell(9, -5), 20.0)],
}


def test_rates_and_their_exposure() -> None:
    rows = by_name(scoring(FAULTS, ALARMS))
    share = rows["detection_share", "all"]
    assert (share.numerator, share.denominator) == (2, 3)
    assert share.p_value is not None
    assert share.p_value < 0.01
    assert (rows["detected_before_share", "all"].numerator, rows["detected_before_share", "all"].denominator) == (1, 3)
    assert (rows["detection_share", "every kind of fault"].numerator) == 3
    assert (rows["detection_share", "earlier"].denominator, rows["detection_share", "later"].denominator) == (1, 2)
    assert rows["detection_share", "hardware"].numerator == 2
    days = rows["false_alarms_per_day", "all per cluster day"]
    assert (days.numerator, days.exposure) == (1, pytest.approx(10, abs=0.01))
    hosts = rows["false_alarms_per_day", "all per host day"]
    # Each fault takes its window before and an hour after out of the time of its host.
    assert hosts.exposure == pytest.approx(40 - 4 * 1.5 / 24, abs=0.01)
    assert hosts.ci_high == pytest.approx(5.572 / (hosts.exposure or 1), rel=1e-3)
    # The alarm of the fifth day ends in the later half.
    assert rows["false_alarms_per_day", "later per cluster day"].numerator == 1
    assert rows["judged_time_share", "all"].value == pytest.approx(0.75, abs=0.01)
    assert rows["metric_led_share", "a"].numerator == 2


def test_without_each_metric() -> None:
    rows = by_name(scoring(FAULTS, ALARMS))
    assert rows["detection_share_without", "a"].numerator == 0
    assert rows["detection_share_without", "b"].numerator == 0
    assert ("detection_share_without", "c") not in rows
    assert rows["false_alarms_per_day_without", "a per cluster day"].numerator == 0


def test_the_threshold_is_fitted_on_the_earlier_part_and_frozen() -> None:
    # Ten times on the first days something reached 8; on the later days too.
    low = [(cell(day + 0.5), 8.0) for day in range(10)]
    rules = AlarmRules(false_per_day=0.1)
    found = scoring([fault(2), fault(7)], {"gpu004": low, "gpu001": [(cell(2, -10), 20.0)]}, rules)
    assert 8.0 < found.threshold < 20.0
    assert found.fitted
    assert [one.host for one in found.episodes] == ["gpu001"]
    later = [(at, score * (1 if at < CELLS / 2 else 10)) for at, score in low]
    again = scoring([fault(2), fault(7)], {"gpu004": later}, rules)
    assert again.threshold == found.threshold
    assert by_name(again)["false_alarms_per_day", "later per cluster day"].numerator == 5


def test_little_time_fits_nothing() -> None:
    found = scoring([], {"gpu004": [(100, 8.0)]}, AlarmRules(false_per_day=0.1), cells=cell(0.4))
    assert (found.threshold, found.fitted) == (RULES.least_score, False)
    assert by_name(found)["detection_share", "all"].value is None


def test_chance_finds_what_alarms_cover() -> None:
    # An alarm every hour is near everything.
    always = {"gpu001": [(cell(0, 120 * hours), 20.0) for hours in range(120)]}
    rules = AlarmRules(false_per_day=1000.0, refractory_s=600.0)
    rows = by_name(scoring([fault(2.2), fault(7.3)], always, rules))
    assert rows["detection_share_by_chance", "all"].value == pytest.approx(40 / 120, abs=0.06)
    p_value = rows["detection_share", "all"].p_value
    assert p_value is not None
    assert p_value > 0.05
    assert rows["detection_share_by_chance", "all"].exposure == 1000


def test_a_fault_of_several_hosts_is_one() -> None:
    both = [fault(2, "gpu001", name="incident"), fault(2, "gpu002", name="incident")]
    rows = by_name(scoring(both, {"gpu002": [(cell(2, -10), 20.0)]}))
    assert (rows["detection_share", "all"].numerator, rows["detection_share", "all"].denominator) == (1, 1)


def test_the_same_numbers_every_time() -> None:
    first, second = (list(scoring(FAULTS, ALARMS).findings()) for _ in range(2))
    assert first == second


@given(st.integers(0, 200))
def test_limits_of_counts_are_exact(count: int) -> None:

    low, high = poisson(count)
    assert low <= count <= high
    assert law.cdf(count, high) == pytest.approx(0.025)
    if count:
        assert law.sf(count - 1, low) == pytest.approx(0.025)


def test_faults_are_episodes_and_incidents() -> None:
    def xid(name: str, at: int, episode_id: str, **more: object) -> GpuError:
        return GpuError(
            event_id=name,
            host="gpu001",
            time=at,
            family="xid",
            episode_id=episode_id,
            role="unknown",
            **more,  # type: ignore[arg-type]
        )

    events: list[EventRow] = [
        xid("a", 5_000_000, "e1", fault_class="hardware"),
        xid("b", 4_000_000, "e1", fault_class="driver"),
        xid("c", 9_000_000, "e2", trust="user"),
        xid("d", 9_000_000, "e3", severity="correctable"),
        xid("e", 9_000_000, "e4", time_basis="assumed_zone"),
        NodeEvent(event_id="f", host="gpu002", time=7_000_000, kind="gpu_lost", time_error_s=2.0),
        NodeEvent(event_id="g", host="gpu002", time=7_000_000, kind="boot"),
        SchedulerEvent(event_id="h", hosts=["gpu001", "gpu003"], time=8_000_000, kind="node_down"),
    ]
    found = faults_of(events)
    assert [(one.fault_id, one.host, one.time, one.xid) for one in found] == [
        ("e1", "gpu001", 4000, True),
        ("f", "gpu002", 7000, False),
        ("h", "gpu001", 8000, False),
        ("h", "gpu003", 8000, False),
    ]
    assert found[1].error == 2000
    incident = Incident(incident_id="i", event_ids=["a", "b", "h"])
    assert [(one.fault_id, one.host, one.time, one.incident_id) for one in faults_of(events, [incident])] == [
        ("i", "gpu001", 4000, "i"),
        ("f", "gpu002", 7000, None),
        ("i", "gpu003", 8000, "i"),
    ]


def test_times_that_are_not_healthy() -> None:
    drain = Exclusion(host="gpu002", how="drain", start_time=5_000_000, end_time=6_000_000)
    left_out = Exclusion(host="gpu003", how="exclude_list", start_time=5_000_000)
    open_one = Exclusion(host="gpu004", how="down", start_time=5_000_000)
    found = unhealthy([Fault("a", "gpu001", 10**9, 500, True)], [drain, left_out, open_one], RULES)
    assert found["gpu001"] == ((10**9 - 500 - 1_800_000, 10**9 + 500 + 3_600_000),)
    assert found["gpu002"] == ((5000, 6000),)
    assert "gpu003" not in found
    assert found["gpu004"][0][1] > 1 << 50
