"""Rises in series: where they begin and end, however the series comes, and what is none."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.pipeline.training.points import BACK, LONGEST, NEVER, OPEN, Excursion
from aftershock.pipeline.training.step_series import LOSS, TIME
from tests.pipeline.training.made_numbers import LOSSES, TIMES, autoregressive, falling, with_slow, with_spike
from tests.pipeline.training.series import found, points

STEPS: Final = 4000


def said(rise: Excursion) -> tuple[object, ...]:
    """All that an event tells of."""
    places = rise.first_step, rise.first_time, rise.offset, rise.last_step, rise.last_time, rise.back_step
    return *places, rise.peak_step, rise.peak, rise.usual, rise.level, rise.count, rise.end


# Others go up and down by themselves: docs/spikes.md has their rates.
STEADY_LOSSES = [name for name in LOSSES if "remembers 50 steps" not in name]
STEADY_TIMES = [name for name in TIMES if "remembers" not in name]


@pytest.mark.parametrize("name", STEADY_LOSSES)
def test_losses_of_runs_that_go_well_have_no_spike(name: str) -> None:
    for seed in range(4):
        assert found(LOSS, points(LOSSES[name](np.random.default_rng(seed), STEPS))) == []


@pytest.mark.parametrize("name", STEADY_TIMES)
def test_steps_of_runs_that_go_well_are_not_slow(name: str) -> None:
    for seed in range(4):
        assert found(TIME, points(TIMES[name](np.random.default_rng(seed), STEPS))) == []


@pytest.mark.parametrize("times", [1.5, 3.0])
@pytest.mark.parametrize("at", [300, 1234, 3950])
def test_a_spike_is_found_at_its_steps(times: float, at: int) -> None:
    loss = with_spike(LOSSES["noise of 1 %"](np.random.default_rng(at), STEPS), at, 40, times)
    (rise,) = found(LOSS, points(loss))
    assert (rise.first_step, rise.peak_step, rise.end) == (at, at, BACK)
    assert rise.back_step is not None
    assert at + 5 < rise.back_step == rise.last_step + 1 <= at + 40
    assert rise.peak == loss[at]


@pytest.mark.parametrize(("length", "end"), [(30, OPEN), (1500, LONGEST)])
def test_a_loss_that_does_not_come_back_is_told_as_such(length: int, end: str) -> None:
    loss = falling(STEPS)
    loss[-length:] = 9.0 + np.sin(np.arange(length))
    (rise,) = found(LOSS, points(loss))
    assert (rise.first_step, rise.back_step, rise.end) == (STEPS - length, None, end)


def test_another_level_of_the_loss_is_no_spike() -> None:
    loss = LOSSES["noise of 1 %"](np.random.default_rng(1), STEPS)
    loss[2000:] *= 1.3
    assert found(LOSS, points(loss)) == []


@pytest.mark.parametrize("values", [[9.0], [9.0, 9.0], [9.0, 2.0, 9.0, 2.0, 9.0]])
def test_single_steps_are_no_spike(values: list[float]) -> None:
    loss = falling(1000)
    loss[700 : 700 + len(values)] = values
    assert found(LOSS, points(loss)) == []


@pytest.mark.parametrize("length", [20, 300, 2000])
@pytest.mark.parametrize("times", [1.1, 1.5, 4.0])
def test_slow_steps_are_found_at_their_steps(times: float, length: int) -> None:
    took = with_slow(TIMES["varies by 1 %"](np.random.default_rng(length), STEPS), 1007, length, times)
    (rise,) = found(TIME, points(took))
    assert (rise.first_step, rise.last_step, rise.back_step) == (1007, 1006 + length, 1007 + length)
    assert rise.level / rise.usual == pytest.approx(times, rel=0.03)


def test_slow_until_the_end_where_it_is_known_that_nothing_else_changed() -> None:
    took = with_slow(TIMES["varies by 1 %"](np.random.default_rng(5), STEPS), 3000, 1000, 1.2)
    (rise,) = found(TIME, points(took, samples=np.arange(STEPS) * 256.0))
    assert (rise.first_step, rise.last_step, rise.end, rise.count) == (3000, 3999, OPEN, 1000)
    assert found(TIME, points(took)) == []


@pytest.mark.parametrize("length", [30, 1000, 3000])
def test_steps_with_more_samples_are_not_slow(length: int) -> None:
    took = with_slow(TIMES["varies by 1 %"](np.random.default_rng(6), STEPS), 1000, length, 1.4)
    batch = np.where((np.arange(STEPS) >= 1000) & (np.arange(STEPS) < 1000 + length), 360.0, 256.0)
    assert found(TIME, points(took, samples=np.cumsum(batch))) == []
    assert len(found(TIME, points(took, samples=np.arange(STEPS) * 256.0))) == 1


def test_steps_with_more_operations_are_not_slow() -> None:
    took = with_slow(TIMES["varies by 1 %"](np.random.default_rng(6), STEPS), 1000, 3000, 1.4)
    assert found(TIME, points(took, rates=np.full(STEPS, 400.0))) == []
    assert len(found(TIME, points(took, rates=480.0 / took))) == 1


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    what=st.sampled_from([LOSS, TIME]),
    rises=st.lists(
        st.tuples(st.integers(100, 2900), st.one_of(st.integers(1, 400), st.integers(900, 1500)), st.floats(1.05, 3.0)),
        min_size=1,
        max_size=4,
    ),
    piece=st.integers(1, 250),
    noise=st.sampled_from([0.01, 0.03, 0.1]),
)
def test_however_a_series_comes_it_says_the_same(
    seed: int, what: str, rises: list[tuple[int, int, float]], piece: int, noise: float
) -> None:
    rng = np.random.default_rng(seed)
    values = 2.0 * np.exp(rng.standard_normal(3000) * noise + autoregressive(rng, 3000, 0.99, 0.05))
    for begin, length, times in rises:
        values[begin : begin + length] *= times
    series = points(values)
    cuts = range(piece, 3000, piece)
    assert [said(rise) for rise in found(what, series, cuts)] == [said(rise) for rise in found(what, series)]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    what=st.sampled_from([LOSS, TIME]),
    rises=st.lists(st.tuples(st.integers(0, 1900), st.integers(1, 1200), st.floats(1.02, 5.0)), max_size=4),
    power=st.integers(-20, 20),
)
def test_the_unit_changes_nothing(seed: int, what: str, rises: list[tuple[int, int, float]], power: int) -> None:
    values = 2.0 * np.exp(np.random.default_rng(seed).standard_normal(2000) * 0.02)
    for begin, length, times in rises:
        values[begin : begin + length] *= times
    # Powers of two change no digit.
    there, scaled = found(what, points(values)), found(what, points(values * 2.0**power))
    assert [(r.first_step, r.last_step, r.back_step, r.peak_step) for r in there] == [
        (r.first_step, r.last_step, r.back_step, r.peak_step) for r in scaled
    ]
    assert [r.level * 2.0**power for r in there] == [r.level for r in scaled]


def test_times_that_are_not_known_stay_so() -> None:
    loss = with_spike(falling(1000), 600, 30, 3.0)
    series = points(loss)._replace(times=np.full(1000, NEVER))
    (rise,) = found(LOSS, series)
    assert (rise.first_time, rise.last_time) == (NEVER, NEVER)
