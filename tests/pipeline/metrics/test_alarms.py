"""Alarms: what is one, and what only looks like one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from aftershock.parsers.hosts import HostNames
from aftershock.parsers.prometheus.columns import Labels
from aftershock.pipeline.metrics.alarm_rules import AlarmRules
from aftershock.pipeline.metrics.alarm_scores import Candidates, Looked, Scorer, combined
from aftershock.pipeline.metrics.alarms import Episode, Signals
from aftershock.pipeline.metrics.gathered import known_of
from aftershock.pipeline.metrics.identity import Subjects
from aftershock.pipeline.metrics.segments import Segment, segments_of
from aftershock.pipeline.metrics.signal_cells import SignalCells
from aftershock.schemas.sessions import Session
from tests.pipeline.metrics.made import SECOND, STALE, START, batch, labels

STEP = 30 * SECOND
HOSTS = tuple(f"gpu{number:03}" for number in range(1, 7))
SUBJECTS = Subjects(HostNames(), HOSTS, [])
N = 1200  # ten hours
RULES = AlarmRules()
TEMP, POWER, UTIL, INTR = "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_UTIL", "node_intr_total"

# Value of a metric on a host in a cell; None where there is no sample.
Shape = Callable[[str, str, int], float | None]


def noise(metric: str, host: str, cell: int) -> float:
    return ((sum(map(ord, metric + host)) * 31 + cell * 7919) % 23 - 11) / 11


LEVELS = {TEMP: (60.0, 1.0), POWER: (500.0, 10.0), UTIL: (95.0, 2.0), INTR: (5000.0, 50.0)}


def usual(metric: str, host: str, cell: int) -> float:
    level, by = LEVELS[metric]
    return level + by * noise(metric, host, cell)


def signals(shape: Shape, metrics: Sequence[str] = (TEMP, POWER, UTIL, INTR), step: int = STEP) -> SignalCells:
    cells = SignalCells(STEP)
    series: dict[Labels, list[tuple[int, float]]] = {}
    for host in HOSTS:
        for metric in (*metrics, "up"):
            rows = []
            total = 0.0
            for cell in range(N * STEP // step):
                value = shape(metric, host, cell)
                if value is not None and metric.endswith("_total"):
                    total += value * step / SECOND
                    value = total
                if value is not None:
                    rows.append((cell * step, value))
            series[labels(metric, instance=f"{host}:9100")] = rows
    whole = batch(series)
    cells.take(whole, [known_of(own, SUBJECTS) for own in whole.labels])
    return cells


def looked(
    cells: SignalCells, sessions: Sequence[Session] = (), rules: AlarmRules = RULES
) -> tuple[Signals, list[Looked]]:
    scorer = Scorer(cells, rules)
    found = list(scorer.scored(segments_of(sessions, scorer.watched(), scorer.step_ms)))
    kept = Signals.of(
        [one for one in found if isinstance(one, Candidates)],
        scorer.features,
        scorer.families,
        rules,
        scorer.step_ms,
    )
    return kept, [one for one in found if isinstance(one, Looked)]


def alarms(cells: SignalCells, sessions: Sequence[Session] = (), rules: AlarmRules = RULES) -> list[Episode]:
    return looked(cells, sessions, rules)[0].episodes(rules.least_score)


def job(begin: int = 0, end: int = N, hosts: Sequence[str] = HOSTS) -> Session:
    return Session(
        session_id=f"s{begin}",
        hosts=list(hosts),
        start_time=(START + begin * STEP) * 1000,
        end_time=(START + end * STEP) * 1000,
    )


def changed(by: dict[str, float], cells: range, hosts: Sequence[str] = ("gpu003",)) -> Shape:
    def shape(metric: str, host: str, cell: int) -> float:
        if metric == "up":
            return 1.0
        return usual(metric, host, cell) + (by.get(metric, 0.0) if host in hosts and cell in cells else 0.0)

    return shape


NOTHING = changed({}, range(0))
ILL = {TEMP: 25.0, UTIL: -80.0}


def test_nothing_that_happens_is_no_alarm() -> None:
    assert alarms(signals(NOTHING)) == []
    assert alarms(signals(NOTHING), [job()]) == []


@pytest.mark.parametrize("sessions", [[], [job()]])
def test_two_families_that_stay_are_an_alarm(sessions: list[Session]) -> None:
    (one,) = alarms(signals(changed(ILL, range(900, 940))), sessions)
    assert one.host == "gpu003"
    assert one.metrics == (TEMP, UTIL)
    assert one.families == ("gpu_heat", "gpu_load")
    # It is known at the end of the third cell.
    assert one.begin == START + 903 * STEP
    assert one.end >= START + 940 * STEP


def test_one_family_is_none_and_a_moment_is_none() -> None:
    assert alarms(signals(changed({TEMP: 25.0}, range(900, 940)))) == []
    assert alarms(signals(changed(ILL, range(900, 902)))) == []
    assert len(alarms(signals(changed({TEMP: 25.0}, range(900, 940))), rules=AlarmRules(families=1))) == 1


def test_what_all_peers_do_is_none() -> None:
    everywhere = signals(changed(ILL, range(900, 940), HOSTS))
    assert alarms(everywhere, [job()]) == []
    # Who has no peers has only the past.
    assert len(alarms(everywhere)) == len(HOSTS)


def test_a_host_that_always_was_different_is_none() -> None:
    assert alarms(signals(changed(ILL, range(N))), [job()]) == []


def test_a_job_that_begins_is_none() -> None:
    def shape(metric: str, host: str, cell: int) -> float:
        return (
            1.0 if metric == "up" else usual(metric, host, cell) * (0.1 if cell < 600 or host not in HOSTS[:4] else 1)
        )

    cells = signals(shape)
    assert alarms(cells, [job(600, N, HOSTS[:4])]) == []
    assert len(alarms(cells)) == 4


def test_the_first_time_of_a_job_cannot_be_judged() -> None:
    _, stretches = looked(signals(NOTHING), [job(600)])
    judged = np.concatenate([one.judged for one in stretches if one.host == "gpu001"])
    assert len(judged) == N
    # A quarter of the baseline must have passed.
    assert judged.sum() == 600 - RULES.baseline_s * 1000 / STEP / 4


def silent(*, up: bool, marked: bool, hosts: Sequence[str] = ("gpu003",), until: int = N) -> Shape:
    def shape(metric: str, host: str, cell: int) -> float | None:
        gone = host in hosts and 900 <= cell < until
        if metric == "up":
            return (0.0 if up else None) if gone else 1.0
        if gone:
            return STALE if marked and cell == 900 else None
        return usual(metric, host, cell)

    return shape


def test_a_host_that_is_silent_and_down_is_an_alarm() -> None:
    (one,) = alarms(signals(silent(up=True, marked=True)), [job()])
    assert one.host == "gpu003"
    assert set(one.families) == {"absence", "markers", "up"}
    assert one.begin == START + 903 * STEP
    # It dies with its job.
    assert [one.host for one in alarms(signals(silent(up=True, marked=True)), [job(0, 901)])] == ["gpu003"]


def test_a_target_that_was_taken_out_is_none() -> None:
    assert alarms(signals(silent(up=False, marked=False)), [job()]) == []


def test_when_nobody_looks_nobody_is_silent() -> None:
    assert alarms(signals(silent(up=True, marked=True, hosts=HOSTS, until=1000)), [job()]) == []


def test_scrapes_that_are_seldom_make_no_gaps() -> None:
    def seldom(metric: str, host: str, cell: int) -> float | None:
        return NOTHING(metric, host, cell)

    cells = signals(seldom, step=2 * STEP)
    assert alarms(cells) == []
    assert cells.settle() == 2 * STEP


def test_alarms_near_each_other_are_one() -> None:
    def shape(gap: int) -> Shape:
        again = range(900 + gap, 940 + gap)
        first, second = changed(ILL, range(900, 940)), changed(ILL, again)
        return lambda metric, host, cell: second(metric, host, cell) if cell in again else first(metric, host, cell)

    assert len(alarms(signals(shape(90)))) == 1
    assert len(alarms(signals(shape(240)))) == 2


def test_alarms_without_a_metric() -> None:
    kept, _ = looked(signals(changed({**ILL, POWER: -300.0}, range(900, 940))))
    assert kept.metrics() == [TEMP, UTIL, POWER]
    assert kept.episodes(6.0)[0].families == ("gpu_heat", "gpu_load", "gpu_power")
    for metric in kept.metrics():
        (one,) = kept.episodes(6.0, without=metric)
        assert metric not in one.metrics
        assert len(one.metrics) == 2
    alone, _ = looked(signals(changed(ILL, range(900, 940))))
    assert alone.episodes(6.0, without=TEMP) == []
    assert len(alone.episodes(6.0, without=INTR)) == 1


def test_a_higher_threshold_gives_no_more() -> None:
    kept, _ = looked(signals(changed({TEMP: 8.0, UTIL: -20.0}, range(900, 940))))
    (low,) = kept.episodes(6.0)
    assert kept.episodes(low.score + 1) == []


def test_scores_do_not_hang_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = signals(changed(ILL, range(890, 940)))
    whole, _ = looked(cells, [job()])
    monkeypatch.setattr("aftershock.pipeline.metrics.alarm_scores._CHUNK", 120)
    parts, _ = looked(cells, [job()])
    assert parts.cells["gpu003"].tolist() == whole.cells["gpu003"].tolist()


def test_the_score_that_enough_families_reach() -> None:
    scores = np.array([[5.0, 1], [9, 2], [7, 8]], np.float32)
    assert combined(scores, ["a", "a", "b"], 2).tolist() == [7, 2]
    assert combined(scores, ["a", "b", "c"], 2).tolist() == [7, 2]
    assert combined(scores, ["a", "b", "c"], 3).tolist() == [5, 1]
    assert combined(scores, ["a", "a", "a"], 2).tolist() == [0, 0]


def test_segments_cover_each_host_once() -> None:
    step = 1000
    sessions = [
        Session(session_id="a", hosts=["x", "y"], start_time=10_500_000, end_time=20_500_000),
        Session(session_id="b", hosts=["x"], start_time=15_000_000, end_time=30_000_000),
        Session(session_id="c", hosts=["y"], start_time=25_000_000),
    ]
    found = segments_of(sessions, {"x": (0, 40), "y": (5, 40)}, step)
    for host, begin in (("x", 0), ("y", 5)):
        cells = sorted(cell for one in found if host in one.hosts for cell in range(one.first, one.end))
        assert cells == list(range(begin, 40))
    assert Segment(("x", "y"), 11, 20) in found
    assert Segment(("y",), 25, 40) in found
    assert all(not one.works for one in found if one.first in (0, 5, 20))
    assert segments_of([], {"x": (0, 40)}, step) == [Segment(("x",), 0, 40)]


def test_between_two_histories_nobody_was_watched() -> None:
    cells = signals(changed(ILL, range(900, 940)))
    late = 4000 * 86_400 * SECOND
    again = batch({labels(TEMP, instance="gpu003:9100"): [(late + at * STEP, 60.0) for at in range(100)]})
    cells.take(again, [known_of(own, SUBJECTS) for own in again.labels])
    kept, judged = looked(cells)
    assert [one.host for one in kept.episodes(RULES.least_score)] == ["gpu003"]
    watched = sum(len(one.judged) for one in judged)
    assert watched == len(HOSTS) * (N + 100)
