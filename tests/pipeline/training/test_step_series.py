"""Which steps make a series, from logs: what was skipped, is no number, was printed late, or did other work."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aftershock.pipeline import settle
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
