"""How often a peak comes without an event: healthy slots, bounded, and correction for many series."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.hosts import HostNames
from aftershock.pipeline.metrics.asked import Asked
from aftershock.pipeline.metrics.gathered import known_of
from aftershock.pipeline.metrics.healthy import HealthySlots, false_discovery, tell_chances
from aftershock.pipeline.metrics.identity import Subjects
from aftershock.pipeline.metrics.rules import WindowRules
from aftershock.pipeline.metrics.spans import inside, joined_spans, meets
from aftershock.schemas.metrics import Evidence
from tests.pipeline.metrics.made import MINUTE, SECOND, START, batch, every, labels

SUBJECTS = Subjects(HostNames(), ["gpu001", "gpu002"], [])
RULES = WindowRules(baseline_s=1200.0, before_s=600.0, after_s=0.0)
SLOT = 30 * MINUTE
ASKED = [Asked("event-1", "gpu001", (START + 100 * SLOT) * 1000, 0)]
OWN = labels("DCGM_FI_DEV_GPU_TEMP", instance="gpu001:9400", gpu="0")


def slots(most: int = 1 << 30, pieces: int = 1, ill: tuple[tuple[int, int], ...] = ()) -> HealthySlots:
    found = HealthySlots(ASKED, {"gpu001": ill}, RULES, most)
    values = [60.0 + (at * 7919) % 11 for at in range(60 * 30)]
    # In one slot of the thirty something happens.
    values[60 * 20 + 50 : 60 * 20 + 60] = [90.0] * 10
    samples = every(30 * SECOND, values)
    for part in np.array_split(np.arange(len(samples)), pieces):
        one = batch({OWN: [samples[at] for at in part]})
        found.add(one, [known_of(own, SUBJECTS) for own in one.labels])
    return found


def test_each_healthy_slot_gives_one_peak() -> None:
    assert START % SLOT == 0
    peaks = slots().peaks()["host", "gpu001", "DCGM_FI_DEV_GPU_TEMP"]
    assert len(peaks) == 30
    assert sum(peak > 3 for peak in peaks) == 1
    # A fault makes the slots around it ill.
    ill = ((START + 20 * SLOT + MINUTE, START + 21 * SLOT + MINUTE),)
    healthy = slots(ill=ill).peaks()["host", "gpu001", "DCGM_FI_DEV_GPU_TEMP"]
    assert len(healthy) == 28
    assert max(healthy) < 3


def test_hosts_without_events_are_not_held() -> None:
    found = HealthySlots(ASKED, {}, RULES)
    one = batch({labels("t", instance="gpu002"): every(30 * SECOND, [1.0] * 500)})
    found.add(one, [known_of(own, SUBJECTS) for own in one.labels])
    assert found.peaks() == {}


@pytest.mark.parametrize("pieces", [1, 7])
def test_what_is_held_is_bounded_and_does_not_hang_on_pieces(pieces: int) -> None:
    found = slots(most=900, pieces=pieces)
    assert found.divisor > 1
    got = found.batch()
    assert 0 < len(got.times) <= 900
    other = slots(most=900, pieces=3).batch()
    assert got.times.tolist() == other.times.tolist()


def test_chances_are_shares_of_healthy_slots() -> None:
    def row(z: float | None, series: str = "s", event: str = "e") -> Evidence:
        return Evidence(event_id=event, series_id=series, host="h", metric="m", robust_z=z)

    heights = [float(at) for at in range(99)]
    rows = [row(1000.0), row(-97.5), row(0.0), row(None), row(50.0, "other")]
    tell_chances(rows, {("series", "s"): heights, ("host", "h", "m"): heights[:5], ("metric", "m"): [1.0] * 49})
    assert [one.p_value for one in rows] == [0.01, 0.02, 1.0, None, 0.02]
    assert rows[3].q_value is None
    assert [one.q_value for one in rows if one.q_value] == [
        pytest.approx(q) for q in (0.02 * 4 / 3,) * 2 + (1.0,) + (0.02 * 4 / 3,)
    ]
    few = [row(9.0)]
    tell_chances(few, {("series", "s"): [1.0] * 18})
    assert few[0].p_value is None


@given(st.lists(st.floats(0.001, 1.0), min_size=1, max_size=20))
def test_corrected_chances_are_never_smaller_and_keep_their_order(chances: list[float]) -> None:
    corrected = false_discovery(chances)
    assert all(p <= q <= 1 for p, q in zip(chances, corrected, strict=True))
    by_chance = [q for _, q in sorted(zip(chances, corrected, strict=True))]
    assert by_chance == sorted(by_chance)
    n = len(chances)
    for p, q in zip(chances, corrected, strict=True):
        direct = min(1.0, *(other * n / sum(one <= other for one in chances) for other in chances if other >= p))
        assert q == pytest.approx(direct)


_SPANS = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)).map(lambda pair: (pair[0], sum(pair))), max_size=6)


@given(_SPANS, st.integers(-2, 60), st.integers(1, 9))
def test_spans_are_sets_of_times(spans: list[tuple[int, int]], begin: int, length: int) -> None:
    times = np.arange(-5, 70)
    plain = np.array([any(first <= time < end for first, end in spans) for time in times.tolist()], bool)
    joined = joined_spans(spans)
    assert inside(times, joined).tolist() == plain.tolist()
    assert all(one[1] < other[0] for one, other in pairwise(joined))
    assert meets(joined, begin, begin + length) == plain[begin + 5 : begin + length + 5].any()
