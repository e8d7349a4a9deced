"""Real logs with planted faults, through the whole job: attempts, steps, saves, loads, lost work, and who was behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aftershock.results import Results
from tests.pipeline.conftest import RunJob

LOGS = Path(__file__).parents[2] / "samples" / "training"


def rows(result: Results, table: str) -> list[dict[str, Any]]:
    """The rows of a table."""
    found: list[dict[str, Any]] = result[table].dataset.to_table().to_pylist()
    return found


def attempts(result: Results) -> list[dict[str, Any]]:
    """The sessions of a run in order."""
    return sorted(rows(result, "sessions"), key=lambda row: row["attempt"])


def column(found: list[dict[str, Any]], name: str) -> list[Any]:
    """One column of rows."""
    return [row[name] for row in found]


def steps_of(result: Results, session: dict[str, Any]) -> list[int]:
    """The steps of a session in the order of the log."""
    own = [row for row in rows(result, "training_steps") if row["session_id"] == session["session_id"]]
    return [row["step"] for row in sorted(own, key=lambda row: row["byte_offset"])]


def saved(result: Results, session: dict[str, Any], kind: str = "save") -> list[int]:
    """The steps that a session saved or loaded completely."""
    own = [row for row in rows(result, "checkpoints") if row["session_id"] == session["session_id"]]
    return sorted(row["step"] for row in own if row["kind"] == kind and row["complete"])


def test_a_rank_that_is_killed_silently_is_the_suspect_and_not_the_one_that_the_launcher_names(run_job: RunJob) -> None:
    result = run_job(LOGS / "torchrun_restarts.log")
    found = attempts(result)
    assert column(found, "state") == ["FAILED", "FAILED", "FAILED", "COMPLETED"]
    assert steps_of(result, found[0]) == list(range(5, 36, 5))
    assert [steps_of(result, found[n]) for n in (1, 2)] == [[], []]
    assert steps_of(result, found[3]) == list(range(25, 101, 5))
    assert [saved(result, session) for session in found] == [[20], [], [], [40, 60, 80, 100]]
    assert [saved(result, session, "load") for session in found] == [[], [], [], [20]]
    first, last = found[0], found[3]
    assert (first["first_step"], first["last_step"], first["last_saved_step"]) == (5, 35, 20)
    assert (last["first_step"], last["last_step"], last["last_saved_step"]) == (25, 100, 100)
    assert first["suspects"] == ["rank:2"]
    assert first["victims"] == ["rank:0", "rank:1"]
    assert first["cause_class"] == "unknown", "nothing tells who killed it"
    assert any("rank:2" in words for words in first["missing_evidence"])
    assert last["cause_class"] is None


def test_restarts_in_one_log_are_one_chain_of_automatic_retries(run_job: RunJob) -> None:
    result = run_job(LOGS / "torchrun_restarts.log")
    (chain,) = rows(result, "chains")
    assert (chain["n_attempts"], chain["mode"], chain["outcome"]) == (4, "auto", "succeeded")
    retries = rows(result, "retries")
    assert {row["trigger"] for row in retries} == {"restart_in_place"}
    assert sorted(column(retries, "attempt")) == [2, 3, 4]
    numbers = {
        (row["finding"], row["subject"]): row["value"] for row in rows(result, "findings") if row["subject"] == "all"
    }
    assert numbers["chains", "all"] == 1.0
    assert numbers["retries", "all"] == 3.0


def test_lost_work_is_counted_from_the_begin_of_the_last_complete_save(run_job: RunJob, tmp_path: Path) -> None:
    config = tmp_path / "aftershock.toml"
    config.write_text(
        '[cluster]\ngpus_per_host = 4\n[[sources]]\nglob = "*.log"\nhost_from = "file_name"\n', encoding="utf-8"
    )
    log = tmp_path / "node01.log"
    log.write_bytes((LOGS / "torchrun_restarts.log").read_bytes())
    result = run_job(log, config=str(config))
    found = attempts(result)
    assert column(found, "n_gpus") == [4] * 4
    (save,) = [row for row in rows(result, "checkpoints") if row["session_id"] == found[0]["session_id"]]
    lost = (found[0]["end_time"] - save["start_time"]).total_seconds()
    assert found[0]["gpu_seconds_lost"] == pytest.approx(4 * lost)
    # Steps 21 to 36 took 2.2 s: five of them 0.14 s each with the save, the others 0.057 s each.
    assert 1.5 < lost < 2.5
    assert found[1]["gpu_seconds_lost"] == pytest.approx(4 * found[1]["duration_s"]), "it did nothing that lasted"
    assert found[3]["gpu_seconds_lost"] == 0.0
    (chain,) = rows(result, "chains")
    assert chain["gpu_seconds_lost"] == pytest.approx(sum(column(found, "gpu_seconds_lost")))


def test_a_launcher_that_is_right_is_believed(run_job: RunJob) -> None:
    result = run_job(LOGS / "nvrx_restart.log")
    found = attempts(result)
    assert column(found, "state") == ["FAILED", "COMPLETED"]
    assert [steps_of(result, session) for session in found] == [list(range(5, 36, 5)), list(range(25, 61, 5))]
    assert [saved(result, session) for session in found] == [[20], [40, 60]]
    assert [saved(result, session, "load") for session in found] == [[], [20]]
    assert found[0]["suspects"] == ["rank:1"]
    assert found[0]["victims"] == ["rank:0", "rank:2"]
    assert found[0]["exit_signal"] == 9
    assert column(found, "cause_class") == ["unknown", None], "NVML errors of a machine without a GPU are noise"
    assert column(rows(result, "retries"), "trigger") == ["restart_in_place"]


def test_a_trainer_that_is_killed_without_a_word_and_started_again(run_job: RunJob) -> None:
    result = run_job(LOGS / "hf_trainer_killed_and_resumed.log")
    found = attempts(result)
    assert column(found, "state") == ["FAILED", "COMPLETED"]
    assert [steps_of(result, session) for session in found] == [[5, 10, 15, 20], [25, 30, 35, 40]]
    assert [saved(result, session) for session in found] == [[10, 20], [30, 40]]
    assert [saved(result, session, "load") for session in found] == [[], [20]]
    assert column(found, "last_saved_step") == [20, 40]
    assert column(found, "start_time") == [None, None], "nothing in it tells a time"
    (chain,) = rows(result, "chains")
    assert (chain["n_attempts"], chain["outcome"]) == (2, "succeeded")


def test_every_row_of_a_log_belongs_to_one_of_its_attempts(run_job: RunJob) -> None:
    for name in ("torchrun_restarts", "nvrx_restart", "hf_trainer_killed_and_resumed", "ray_train_restarts"):
        result = run_job(LOGS / f"{name}.log")
        known = {row["session_id"] for row in rows(result, "sessions")}
        for table in ("training_steps", "training_events", "checkpoints"):
            assert {row["session_id"] for row in rows(result, table)} <= known, (name, table)
            assert None not in column(rows(result, table), "session_id"), (name, table)


def test_ray_names_the_rank_that_raised_and_the_one_that_was_killed(run_job: RunJob) -> None:
    result = run_job(LOGS / "ray_train_restarts.log")
    found = attempts(result)
    assert column(found, "state") == ["FAILED", "FAILED", "COMPLETED"]
    assert [saved(result, session) for session in found] == [[10], [20], [30]]
    assert column(found, "last_saved_step") == [10, 20, 30]
    assert column(found, "last_step") == [16, 24, 30]
    assert column(found, "cause_class") == ["cuda_kernel_fault", "unknown", None]
    assert column(found, "suspects") == [["rank:1"], ["rank:0"], None]
    assert column(rows(result, "retries"), "mode") == ["auto", "auto"]
