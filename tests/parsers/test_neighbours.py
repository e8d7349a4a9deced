"""Times of lines without a clock: between their neighbours, and never further off than they say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.neighbours import Filled, Lines, fill_rows, fill_times, step_bridges
from aftershock.parsers.resolve import Resolved
from aftershock.schemas.columns import Row
from aftershock.schemas.events import TrainingEvent
from aftershock.schemas.training import Checkpoint, TrainingStep

US = 1_000_000


def lines(times: list[float | None], bridges: list[float] | None = None, breaks: list[int] | None = None) -> Lines:
    known = np.array([np.nan if time is None else time for time in times], np.float64)
    told = np.array(bridges if bridges is not None else [0.0] * len(times), np.float64)
    broken = np.zeros(len(times), np.bool_)
    broken[breaks or []] = True
    return Lines(known, np.zeros(len(times)), told, broken)


def listed(filled: Filled) -> list[float | None]:
    return [None if np.isnan(time) else round(float(time), 6) for time in filled.times]


def test_lines_between_two_known_times_lie_between_them() -> None:
    filled = fill_times(lines([0.0, None, None, 30.0]))
    assert listed(filled) == [0.0, 10.0, 20.0, 30.0]
    assert filled.errors.tolist() == pytest.approx([0.0, 20.0, 20.0, 0.0]), "each may lie anywhere between"


def test_step_times_say_where_between_two_known_times_a_line_lies() -> None:
    filled = fill_times(lines([0.0, None, None, 21.0], [0.0, 10.0, 10.0, 0.0]))
    assert filled.times[1] == pytest.approx(10, abs=1)
    assert filled.times[2] == pytest.approx(20, abs=1)
    assert max(filled.errors) <= 1.0


def test_step_times_that_are_longer_than_the_time_they_lie_in_are_scaled() -> None:
    filled = fill_times(lines([0.0, None, 10.0], [0.0, 6.0, 6.0]))
    assert 0 < filled.times[1] < 10
    assert filled.errors[1] >= 1.0


def test_a_sum_of_step_times_leads_on_until_the_run_begins_anew() -> None:
    filled = fill_times(lines([0.0, None, None, None, None], [0.0, 10.0, 10.0, 10.0, 0.0], [3]))
    assert listed(filled) == [0.0, 10.0, 20.0, None, None]
    assert filled.errors[2] == pytest.approx(2.0)


def test_it_leads_back_from_a_later_time() -> None:
    filled = fill_times(lines([None, None, None, 100.0], [10.0, 10.0, 10.0, 0.0]))
    # Behind the last step up to one more was on the way.
    assert listed(filled) == [75.0, 85.0, 95.0, 100.0]
    assert filled.errors[2] == pytest.approx(5.0)


def test_without_any_known_time_nothing_is_known() -> None:
    assert listed(fill_times(lines([None, None], [1.0, 1.0]))) == [None, None]
    assert listed(fill_times(lines([]))) == []
    assert listed(fill_times(lines([None, 5.0, None]))) == [None, 5.0, None], "what lies beyond is a guess"


@st.composite
def runs(draw: st.DrawFn) -> tuple[Lines, np.ndarray]:
    """A run with pauses between its steps, of which some lines print their time; and all its true times."""
    count = draw(st.integers(2, 30))
    took = np.array(draw(st.lists(st.floats(0.5, 20), min_size=count, max_size=count)))
    paused = np.array(draw(st.lists(st.sampled_from([0.0, 0.0, 0.0, 3.0, 60.0]), min_size=count, max_size=count)))
    true = np.cumsum(took + paused)
    shown = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    times = np.where(shown, true, np.nan)
    times[0], times[-1] = true[0], true[-1]
    return Lines(times, np.zeros(count), took, np.zeros(count, np.bool_)), true


@given(runs())
def test_no_time_is_further_off_than_it_says(run: tuple[Lines, np.ndarray]) -> None:
    given_lines, true = run
    filled = fill_times(given_lines)
    assert not np.isnan(filled.times).any()
    assert (np.abs(filled.times - true) <= filled.errors + 1e-6).all()
    assert (filled.lows <= true + 1e-6).all()
    assert (true <= filled.highs + 1e-6).all()
    assert (np.diff(filled.times) >= -1e-9).all(), "the order of lines is that of their times"
    known = ~np.isnan(given_lines.times)
    assert (filled.times[known] == given_lines.times[known]).all()


def test_a_print_stands_for_the_steps_since_the_one_before() -> None:
    # Usual are 10, 10 and 5 steps, so that a print behind a new beginning stands for 10 too.
    bridges, breaks = step_bridges([10, 20, 30, 25, None, 30], [1.0, 1.0, None, 1.0, 1.0, 2.0])
    assert bridges.tolist() == [10.0, 10.0, 0.0, 10.0, 0.0, 10.0]
    assert breaks.tolist() == [False, False, False, True, False, False]


def event(kind: str, offset: int, time: int | None = None, step: int | None = None, **more: object) -> TrainingEvent:
    row = TrainingEvent(kind=kind, byte_offset=offset, step=step, time=None if time is None else time * US)
    row.time_basis, row.time_error_s = ("none", None) if time is None else ("zoned", 0.0)
    for name, value in more.items():
        setattr(row, name, value)
    return row


def test_an_assumed_zone_stays_an_assumption() -> None:
    rows: list[Row] = [event("start", 0, 100, time_basis="assumed_zone"), event("resume", 10), event("exit", 20, 200)]
    fill_rows(rows, [])
    assert isinstance(rows[1], TrainingEvent)
    assert (rows[1].time, rows[1].time_basis) == (150 * US, "assumed_zone")


def test_other_lines_of_the_file_are_neighbours_too() -> None:
    row = event("resume", 10)
    fill_rows([row], [(0, Resolved(100 * US, "zoned", 1.0)), (20, Resolved(110 * US, "zoned", 1.0))])
    assert (row.time, row.last_time, row.time_basis, row.time_error_s) == (105 * US, 105 * US, "neighbour", 6.0)


def test_begin_end_and_duration_of_a_save_fit_together() -> None:
    saved = Checkpoint(kind="save", step=20, duration_s=4.0, complete=True, byte_offset=10)
    rows: list[Row] = [
        TrainingStep(step=19, time=100 * US, time_basis="zoned", time_error_s=0.0, byte_offset=0),
        saved,
        event("save_begin", 10, None, 20),
        TrainingStep(step=20, time=110 * US, time_basis="zoned", time_error_s=0.0, byte_offset=20),
        event("save_end", 30, None, 20),
        TrainingStep(step=21, time=115 * US, time_basis="zoned", time_error_s=0.0, byte_offset=40),
    ]
    fill_rows(rows, [])
    assert saved.start_time is not None
    assert saved.end_time is not None
    assert saved.end_time - saved.start_time == 4 * US
    assert 106 * US <= saved.start_time <= 110 * US, "it ended when step 20 was printed, or later"
    assert (saved.time_basis, saved.time_error_s) == ("neighbour", 2.0)


def test_a_save_without_an_end_gets_none() -> None:
    saved = Checkpoint(kind="save", step=20, complete=False, byte_offset=10)
    begun = event("save_begin", 10, None, 20)
    fill_rows([event("start", 0, 100), saved, begun, event("exit", 20, 200)], [])
    assert (saved.start_time, saved.end_time) == (150 * US, None)
