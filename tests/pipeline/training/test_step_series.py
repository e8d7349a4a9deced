"""Which steps make a series, from logs: what was skipped, is no number, was printed late, or did other work."""

from __future__ import annotations

import datetime as dt
import re
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.pipeline import settle
from aftershock.pipeline.step_files import StepWriter
from aftershock.pipeline.training.attempts import FILE_END, LogAttempt
from aftershock.pipeline.training.number_rules import TrainingRules
from aftershock.pipeline.training.staged import Staged
from aftershock.pipeline.training.step_series import read_risen
from aftershock.pipeline.training.stretches import Stretch
from tests.pipeline.conftest import RunJob
from tests.pipeline.training.made import DAY, begin, column, rows, step
from tests.pipeline.training.made_numbers import LOSSES, TIMES, Floats, with_slow, with_spike

COUNT = 1500
EVENTS = {"loss_spike", "slowdown"}


def numbers(seed: int = 2) -> tuple[Floats, Floats]:
    """Losses and times of a run that goes well."""
    rng = np.random.default_rng(seed)
    return LOSSES["noise of 1 %"](rng, COUNT), TIMES["varies by 1 %"](rng, COUNT)


def lines(loss: Floats, took: Floats) -> list[str]:
    """Step lines, the first one is of step 1."""
    ends = 5 + np.cumsum(took)
    found = zip(ends.tolist(), took.tolist(), loss.tolist(), strict=True)
    return [step(n, end, 100_000, 1000 * s, repr(value)) for n, (end, s, value) in enumerate(found, start=1)]


def events(run_job: RunJob, folder: Path, text: str, **options: Any) -> list[dict[str, Any]]:
    """What the numbers of a log tell."""
    (folder / "train.log").write_text(text, encoding="utf-8")
    found = rows(run_job(folder / "train.log", **options), "training_events")
    return [row for row in found if row["kind"] in EVENTS]


def test_losses_of_skipped_steps_make_no_spike(run_job: RunJob, tmp_path: Path) -> None:
    loss, took = numbers()
    loss[700:720] *= 4
    made = lines(loss, took)
    assert column(events(run_job, tmp_path, "".join(made)), "kind") == ["loss_spike"]
    for number in range(700, 720):
        made[number] = made[number].replace("skipped iterations:   0", "skipped iterations:   1")
    assert events(run_job, tmp_path, "".join(made)) == []


def test_losses_that_are_no_numbers_are_left_out(run_job: RunJob, tmp_path: Path) -> None:
    loss, took = numbers()
    made = lines(with_spike(loss, 900, 60, 3.0), took)
    for number in (*range(300, 310), *range(902, 906), 960):
        made[number] = re.sub(r"lm loss: \S+", "lm loss: NAN", made[number])
    (spike,) = events(run_job, tmp_path, "".join(made))
    assert (spike["kind"], spike["step"]) == ("loss_spike", 901)


def test_steps_that_are_printed_late_or_twice_are_left_out(run_job: RunJob, tmp_path: Path) -> None:
    made = lines(*numbers())
    late = made[400].replace("lm loss: ", "lm loss: 9")
    assert events(run_job, tmp_path, "".join([*made[:405], late, *made[405:]])) == []


@pytest.mark.parametrize("length", [100, 900])
def test_a_larger_batch_is_not_slow(run_job: RunJob, tmp_path: Path, length: int) -> None:
    loss, took = numbers()
    made = lines(loss, with_slow(took, 600, length, 1.5))
    assert column(events(run_job, tmp_path, "".join(made)), "step") == [601]
    batch = np.where((np.arange(COUNT) >= 600) & (np.arange(COUNT) < 600 + length), 12, 8)
    samples = iter(np.cumsum(batch).tolist())
    ramped = [
        re.sub(r"consumed samples: +\d+", lambda _: f"consumed samples: {next(samples):12d}", line) for line in made
    ]
    assert events(run_job, tmp_path, "".join(ramped)) == []


def test_clocks_that_are_too_coarse_tell_no_times(run_job: RunJob, tmp_path: Path) -> None:
    loss, took = numbers()
    ends = 5 + np.cumsum(with_slow(took, 500, 400, 1.5))
    text = "".join(
        f"{(DAY + dt.timedelta(seconds=end)).strftime('%Y-%m-%d %H:%M:%S')} - root - INFO - "
        f"step: {number:2}  loss: {value:7.4f}  memory: 40.00GiB(42.10%)  tps: 8,000  mfu: 40.00%\n"
        for number, (end, value) in enumerate(zip(ends.tolist(), loss.tolist(), strict=True), start=1)
    )
    assert events(run_job, tmp_path, text) == []


def test_where_no_steps_are_numbered_prints_are_counted(run_job: RunJob, tmp_path: Path) -> None:
    loss, _ = numbers()
    text = "".join(
        f"{{'loss': {value:.4f}, 'grad_norm': {1 + number % 7 / 10}, 'learning_rate': {2e-5 * (1 - number / 2000)}, "
        f"'epoch': {number / 500:.2f}}}\n"
        for number, value in enumerate(with_spike(loss, 700, 40, 3.0).tolist(), start=1)
    )
    (spike,) = events(run_job, tmp_path, text)
    assert (spike["kind"], spike["step"], spike["time"]) == ("loss_spike", None, None)
    assert "high from print 701 to" in spike["error"]


ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(-3, 3)),  # how far from the next step
        st.one_of(st.none(), st.sampled_from([0.0, -1.0, 1e308, float("nan"), float("inf"), 2.0, 9.0])),
        st.one_of(st.none(), st.sampled_from([0.0, 1.0, 1e308, float("nan"), 3.0])),
        st.one_of(st.none(), st.integers(0, 2**50)),
    ),
    max_size=40,
)


def risen_of(folder: Path, rows_of_all: list[tuple[Any, ...]], cuts: list[int], begins: list[int]) -> list[Any]:
    """What rises in these rows (step, loss, time, samples), which come in pieces, in attempts that begin at rows."""
    names = ("step", "loss", "step_time_s", "samples")
    kinds = (pa.int64(), pa.float64(), pa.float64(), pa.int64())
    columns = [pa.array(values, kind) for values, kind in zip(zip(*rows_of_all, strict=True), kinds, strict=True)]
    count = len(rows_of_all)
    offsets = pa.array(np.arange(count) * 100)
    times = pa.array(np.arange(count) * 1_000_000).cast(pa.timestamp("us", "UTC"))
    basis = pa.array(["zoned"] * count).dictionary_encode()
    whole = pa.RecordBatch.from_arrays(
        [times, basis, pa.array([1e-6] * count), *columns, offsets],
        names=["time", "time_basis", "time_error_s", *names, "byte_offset"],
    )
    writer = StepWriter(str(folder), "log")
    places = sorted({0, *cuts, count})
    for at, end in pairwise(places):
        writer.write(whole.slice(at, end - at))
    writer.close()
    stretch = Stretch(0, count * 100, 1, count, None, None, count)
    starts = sorted({0, *(row * 100 for row in begins)})
    attempts = [
        LogAttempt("log", number, start, end, stretches=[stretch])
        for number, (start, end) in enumerate(pairwise([*starts, FILE_END]), start=1)
    ]
    found = read_risen(Staged(folder, "parquet"), {"log": attempts}, TrainingRules(spike_usual=10, slow_usual=10))
    return [
        (name, r.what, r.excursion.first_step, r.excursion.last_step, r.excursion.back_step, r.excursion.count)
        for name, all_of in sorted(found.items())
        for r in all_of
    ]


@settings(max_examples=60, deadline=None)
@given(
    usual=st.integers(40, 150),
    rise=st.tuples(st.integers(20, 150), st.integers(1, 100)),
    odd=st.lists(st.tuples(st.integers(0, 149), ROWS), max_size=3),
    cuts=st.lists(st.integers(0, 300), max_size=10),
    begins=st.lists(st.integers(0, 300), max_size=2),
)
def test_whatever_rows_say_and_however_they_come(
    usual: int, rise: tuple[int, int], odd: list[tuple[int, list[Any]]], cuts: list[int], begins: list[int]
) -> None:
    high = range(rise[0], sum(rise))
    every: list[tuple[Any, ...]] = [
        (n, 5.0 if n in high else 2.0, 2.0 if n in high else 1.0, 8 * n) for n in range(1, usual + 1)
    ]
    for place, strange in odd:
        every[place:place] = [
            (None if apart is None else place + n + apart, loss, took, samples)
            for n, (apart, loss, took, samples) in enumerate(strange)
        ]
    cuts, begins = ([n for n in numbers_of if n < len(every)] for numbers_of in (cuts, begins))
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        assert risen_of(Path(one), every, cuts, begins) == risen_of(Path(other), every, [], begins)


def test_few_steps_and_many_steps_say_the_same(
    run_job: RunJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loss, took = numbers()
    loss, took = with_spike(loss, 700, 40, 3.0), with_slow(with_slow(took, 300, 60, 1.2), 1000, 500, 1.3)
    text = begin(0) + "".join(lines(loss, took))
    few = events(run_job, tmp_path, text)
    assert len(few) == 3
    monkeypatch.setattr(settle, "MANY_STEPS", 1)
    assert events(run_job, tmp_path, text) == few
