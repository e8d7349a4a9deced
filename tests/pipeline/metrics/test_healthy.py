"""How often a peak comes without an event: healthy slots, bounded."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.hosts import HostNames
from aftershock.pipeline.metrics.asked import Asked
from aftershock.pipeline.metrics.gathered import known_of
from aftershock.pipeline.metrics.healthy import HealthySlots
from aftershock.pipeline.metrics.identity import Subjects
from aftershock.pipeline.metrics.rules import WindowRules
from aftershock.pipeline.metrics.spans import inside, joined_spans, meets
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
    ((_, got),) = found.groups()
    assert 0 < len(got.times) <= 900
    ((_, other),) = slots(most=900, pieces=3).groups()
    assert got.times.tolist() == other.times.tolist()


_SPANS = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)).map(lambda pair: (pair[0], sum(pair))), max_size=6)


@given(_SPANS, st.integers(-2, 60), st.integers(1, 9))
def test_spans_are_sets_of_times(spans: list[tuple[int, int]], begin: int, length: int) -> None:
    times = np.arange(-5, 70)
    plain = np.array([any(first <= time < end for first, end in spans) for time in times.tolist()], bool)
    joined = joined_spans(spans)
    assert inside(times, joined).tolist() == plain.tolist()
    assert all(one[1] < other[0] for one, other in pairwise(joined))
    assert meets(joined, begin, begin + length) == plain[begin + 5 : begin + length + 5].any()
