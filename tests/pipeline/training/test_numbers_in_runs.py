"""What the numbers of steps tell, from a log to the tables: spikes of the loss and times of slow steps."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aftershock.results import Results
from tests.pipeline.conftest import RunJob
from tests.pipeline.training.made import DAY, SACCT, begin, column, done, job, rows, save, session, step
from tests.pipeline.training.made_numbers import LOSSES, TIMES, Floats, with_slow, with_spike

KINDS = {"loss_spike", "slowdown"}


def numbers(count: int, seed: int = 1) -> tuple[Floats, Floats]:
    """Losses and times of a run that goes well."""
    rng = np.random.default_rng(seed)
    return LOSSES["noise of 1 %"](rng, count), TIMES["varies by 1 %"](rng, count)


def log(loss: Floats, took: Floats, first: int = 1, since: float = 5.0) -> str:
    """The lines of steps with these numbers."""
    ends = since + np.cumsum(took)
    lines = zip(ends.tolist(), took.tolist(), loss.tolist(), strict=True)
    return "".join(
        step(number, end, 100_000, 1000 * ms, None if np.isnan(value) else repr(value))
        for number, (end, ms, value) in enumerate(lines, start=first)
    )


def told(result: Results) -> list[dict[str, Any]]:
    """The events that the numbers gave, in time."""
    return [row for row in rows(result, "training_events") if row["kind"] in KINDS]


@pytest.mark.parametrize("count", [2000, 6000])
def test_what_was_planted_is_found_and_ends_nothing(run_job: RunJob, tmp_path: Path, count: int) -> None:
    loss, took = numbers(count)
    loss, took = with_spike(loss, 700, 30, 3.0), with_slow(took, 900, 200, 1.3)
    (tmp_path / "slurm-4001.out").write_text(begin(0) + log(loss, took) + done(5 + took.sum()), encoding="utf-8")
    (tmp_path / "sacct.psv").write_text(SACCT + job(4001, 0, 10 + took.sum(), "COMPLETED"), encoding="utf-8")
    result = run_job(tmp_path)
    spike, slow = told(result)
    found = session(result, "4001")
    assert (spike["kind"], spike["step"], spike["error_class"], spike["error_role"]) == ("loss_spike", 701, None, None)
    assert "high from step 701 to" in spike["error"]
    assert f"up to {loss[700]:.4g} at step 701" in spike["error"]
    assert (slow["kind"], slow["step"], slow["error_class"], slow["error_role"]) == (
        "slowdown",
        901,
        "slowdown",
        "symptom",
    )
    assert "1.3 times the usual" in slow["error"]
    assert "from step 901 to 1100 (200 printed), back at step 1101" in slow["error"]
    assert slow["duration_s"] == pytest.approx(took[901:1100].sum(), abs=0.1)
    assert slow["last_time"] - slow["time"] == dt.timedelta(seconds=slow["duration_s"])
    assert slow["time"] == pytest.approx(
        (DAY + dt.timedelta(seconds=5 + took[:901].sum())).replace(tzinfo=dt.timezone.utc), abs=dt.timedelta(seconds=1)
    )
    assert {spike["session_id"], slow["session_id"]} == {found["session_id"]}
    assert (found["state"], found["cause_class"], found["cause_evidence"]) == ("COMPLETED", None, None)
    assert spike["event_id"] != slow["event_id"]


def test_a_run_that_goes_well_has_no_such_event(run_job: RunJob, tmp_path: Path) -> None:
    (tmp_path / "slurm-4001.out").write_text(begin(0) + log(*numbers(5000)), encoding="utf-8")
    assert told(run_job(tmp_path)) == []


def test_a_spike_before_numbers_that_are_none_is_their_first_sign(run_job: RunJob, tmp_path: Path) -> None:
    loss, took = numbers(900)
    loss = with_spike(loss, 700, 30, 3.0)
    text = begin(0) + log(loss, took) + "Loss is nan, stopping training\n"
    (tmp_path / "slurm-4001.out").write_text(text, encoding="utf-8")
    (tmp_path / "sacct.psv").write_text(SACCT + job(4001, 0, 10 + took.sum()), encoding="utf-8")
    result = run_job(tmp_path)
    (spike,) = told(result)
    found = session(result, "4001")
    assert (spike["error_class"], spike["error_role"]) == ("numeric_divergence", "symptom")
    assert found["cause_class"] == "numeric_divergence"
    assert found["cause_event_id"] != spike["event_id"]
    assert f"loss_spike: {spike['error']}" in found["cause_evidence"]


def test_slow_steps_before_a_hang_belong_to_it(run_job: RunJob, tmp_path: Path) -> None:
    loss, took = numbers(900)
    took = with_slow(took, 800, 100, 2.0)
    (tmp_path / "slurm-4001.out").write_text(begin(0) + log(loss, took), encoding="utf-8")
    record = job(4001, 0, 3600 + took.sum(), "CANCELLED by 1000")
    (tmp_path / "sacct.psv").write_text(SACCT + record, encoding="utf-8")
    result = run_job(tmp_path)
    (slow,) = told(result)
    found = session(result, "4001")
    assert found["cause_class"] == "hang_no_error"
    assert f"slowdown: {slow['error']}" in found["cause_evidence"]


def test_a_rank_that_was_called_slow_is_suspected_of_a_hang(run_job: RunJob, tmp_path: Path) -> None:
    loss, took = numbers(300)
    named = "STRAGGLER DETECTION WARNING: Some GPUs have worse relative performance. Affected ranks: "
    text = begin(0) + log(loss, took) + f"{named}{{StragglerId(rank=3, node='gpu001')}}\n"
    (tmp_path / "slurm-4001.out").write_text(text, encoding="utf-8")
    (tmp_path / "sacct.psv").write_text(SACCT + job(4001, 0, 3600, "CANCELLED by 1000"), encoding="utf-8")
    result = run_job(tmp_path)
    found = session(result, "4001")
    (event,) = [row for row in rows(result, "training_events") if row["kind"] == "straggler"]
    assert (event["rank"], event["host"], event["session_id"]) == (3, "gpu001", found["session_id"])
    assert (found["cause_class"], found["suspects"]) == ("hang_no_error", ["gpu001"])
    assert any(words.startswith("straggler: STRAGGLER DETECTION") for words in found["cause_evidence"])


def test_a_slower_attempt_is_another_thing(run_job: RunJob, tmp_path: Path) -> None:
    loss, took = numbers(1000)
    later = begin(2000) + "loading checkpoint from /ckpt at iteration 900\n" + log(loss, took * 1.5, 901, 2005)
    text = begin(0) + log(loss, took) + save(900, 1300, 5) + later
    (tmp_path / "slurm-4001.out").write_text(text, encoding="utf-8")
    result = run_job(tmp_path)
    assert len(rows(result, "sessions")) == 2
    assert told(result) == []


def test_two_logs_of_one_run_tell_it_once(run_job: RunJob, tmp_path: Path) -> None:
    loss, took = numbers(1000)
    text = begin(0) + log(with_spike(loss, 700, 30, 3.0), took)
    for name in ("slurm-4001.out", "slurm-4001.err"):
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "sacct.psv").write_text(SACCT + job(4001, 0, 10 + took.sum(), "COMPLETED"), encoding="utf-8")
    (spike,) = told(run_job(tmp_path))
    assert len(spike["sources"]) == 2


def test_the_clocks_of_lines_tell_the_time_of_a_step(run_job: RunJob, tmp_path: Path) -> None:
    loss, took = numbers(1000)
    ends = 5 + np.cumsum(with_slow(took, 500, 100, 1.5))
    lines = [
        f"{(DAY + dt.timedelta(seconds=end)).strftime('%Y-%m-%d %H:%M:%S,%f')[:-3]} - root - INFO - "
        f"step: {number:2}  loss: {value:7.4f}  memory: 40.00GiB(42.10%)  tps: 8,000  mfu: 40.00%\n"
        for number, (end, value) in enumerate(zip(ends.tolist(), loss.tolist(), strict=True), start=1)
    ]
    (tmp_path / "train.log").write_text("".join(lines), encoding="utf-8")
    result = run_job(tmp_path)
    assert len(rows(result, "training_steps")) == 1000
    (slow,) = told(result)
    assert slow["step"] == 501
    assert "from step 501 to 600" in slow["error"]


def test_thresholds_are_those_of_the_configuration(run_job: RunJob, tmp_path: Path) -> None:
    loss, took = numbers(1500)
    text = log(with_spike(loss, 700, 30, 3.0), with_slow(took, 900, 200, 1.3))
    (tmp_path / "train.log").write_text(text, encoding="utf-8")
    config = tmp_path / "aftershock.toml"
    config.write_text("[training]\nspike_rise = 5\n", encoding="utf-8")
    assert column(told(run_job(tmp_path / "train.log", config=str(config))), "kind") == ["slowdown"]
    config.write_text("[training]\nslow_rise = 0.5\n", encoding="utf-8")
    assert column(told(run_job(tmp_path / "train.log", config=str(config))), "kind") == ["loss_spike"]
