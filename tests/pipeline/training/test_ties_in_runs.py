"""Logs find their sessions: by each kind of evidence, and by none where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.conftest import RunJob
from tests.pipeline.training.made import SACCT, at, begin, column, done, iso, job, rows, save, session, step, steps

LOG = begin(5) + steps(1, 30, 15)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two jobs that ran at one time, and one an hour later."""
    (tmp_path / "logs").mkdir()
    records = job(4001, 0, 400) + job(4002, 0, 400, hosts="gpu002", folder="/home/one/other") + job(4003, 3600, 4000)
    (tmp_path / "sacct.psv").write_text(SACCT + records, encoding="utf-8")
    return tmp_path


def evidence_of(
    run_job: RunJob, folder: Path, name: str, text: str, tied_to: str | None, config: str = ""
) -> str | None:
    """What ties a log to its session, which is the one expected."""
    log = folder / "logs" / name
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(text, encoding="utf-8")
    settings = folder / "aftershock.toml"
    settings.write_text(config, encoding="utf-8")
    result = run_job(folder / "sacct.psv", log, config=str(settings))
    tied = {row["job_id"]: row["log_evidence"] for row in rows(result, "sessions") if row["log_evidence"]}
    assert set(tied) == {tied_to}
    (own,) = [row["session_id"] for row in rows(result, "sessions") if row["job_id"] == tied_to]
    assert set(column(rows(result, "training_steps"), "session_id")) == {own}
    if tied_to is not None:
        assert len(rows(result, "sessions")) == 3, "a log of a known job makes no session"
        found = session(result, tied_to)
        assert (found["first_step"], found["last_step"]) == (1, 30)
        assert any(place.startswith(str(log)) for place in found["sources"])
    (words,) = tied[tied_to]
    return words.removeprefix(f"{log}: ")


def test_by_the_job_id_that_the_configuration_finds_in_the_path(run_job: RunJob, folder: Path) -> None:
    config = '[[sources]]\nglob = "logs/**"\njob_id_from = "file_name"\n'
    assert evidence_of(run_job, folder, "4002.1.log", LOG, "4002", config) == "job_id_from file_name"


def test_by_the_file_name_that_slurm_gives(run_job: RunJob, folder: Path) -> None:
    assert evidence_of(run_job, folder, "slurm-4002.out", LOG, "4002") == "job id in a file name of Slurm"


def test_by_the_job_that_slurm_names_in_the_log(run_job: RunJob, folder: Path) -> None:
    text = LOG + f"slurmstepd: error: *** JOB 4002 ON gpu002 CANCELLED AT {iso(399)} ***\n"
    assert evidence_of(run_job, folder, "output.log", text, "4002") == "job id printed in the log"


def test_a_job_that_the_log_submits_is_another_one(run_job: RunJob, folder: Path) -> None:
    text = LOG + "Submitted batch job 4003\n"
    assert evidence_of(run_job, folder, "slurm-4002.out", text, "4002") == "job id in a file name of Slurm"


def test_by_a_number_in_the_name_if_the_time_agrees(run_job: RunJob, folder: Path) -> None:
    words = "number in the file name that is a job id, and the time"
    assert evidence_of(run_job, folder, "train-4002-node.log", LOG, "4002") == words
    # The same number of a job that ran at another time is a number like any other.
    evidence_of(run_job, folder, "train-4003.log", LOG, None)


def test_by_the_working_folder_that_checkpoints_lie_in(run_job: RunJob, folder: Path) -> None:
    text = LOG + f"[{at(320)}] saving checkpoint at iteration      30 to /home/one/other/ckpt in torch_dist format\n"
    assert evidence_of(run_job, folder, "output.log", text, "4002") == "working folder and time"


def test_by_the_working_folder_that_the_log_lies_in(run_job: RunJob, folder: Path) -> None:
    home = folder / "logs" / "deep"
    records = (folder / "sacct.psv").read_text("utf-8").replace("/home/one/other", str(home))
    (folder / "sacct.psv").write_text(records, encoding="utf-8")
    assert evidence_of(run_job, folder, "deep/out/train.log", LOG, "4002") == "working folder and time"


def test_by_hosts_and_time(run_job: RunJob, folder: Path) -> None:
    config = '[[sources]]\nglob = "logs/**"\nhost_from = "file_name"\n'
    assert evidence_of(run_job, folder, "gpu002.log", LOG, "4002", config) == "hosts and time"


def test_by_time_alone_only_if_nothing_else_ran(run_job: RunJob, folder: Path) -> None:
    evidence_of(run_job, folder, "output.log", LOG, None)
    (folder / "sacct.psv").write_text(SACCT + job(4001, 0, 400) + job(4003, 3600, 4000), encoding="utf-8")
    result = run_job(folder / "sacct.psv", folder / "logs" / "output.log")
    (words,) = session(result, "4001")["log_evidence"]
    assert words.endswith("time alone: no other session ran all that time")


def test_times_of_an_assumed_zone_are_not_compared_with_certain_ones(run_job: RunJob, folder: Path) -> None:
    config = '[[sources]]\nglob = "*.psv"\ntimezone = "UTC"\n[[sources]]\nglob = "logs/**"\nhost_from = "file_name"\n'
    (folder / "logs" / "gpu002.log").write_text(LOG, encoding="utf-8")
    settings = folder / "aftershock.toml"
    settings.write_text(config, encoding="utf-8")
    result = run_job(folder / "sacct.psv", folder / "logs", config=str(settings), timezone=None)
    assert {row["time_basis"] for row in rows(result, "training_steps")} == {"assumed_zone"}
    assert session(result, "4002")["log_evidence"] is None


def test_a_requeued_job_with_one_output_has_a_session_for_each_part(run_job: RunJob, tmp_path: Path) -> None:
    records = SACCT + job(4001, 0, 400, "NODE_FAIL") + job(4001, 500, 900, "COMPLETED")
    (tmp_path / "sacct.psv").write_text(records, encoding="utf-8")
    log = tmp_path / "slurm-4001.out"
    log.write_text(LOG + begin(510) + steps(21, 60, 520), encoding="utf-8")
    result = run_job(tmp_path)
    first, second = sorted(rows(result, "sessions"), key=lambda row: row["attempt"])
    assert (first["first_step"], first["last_step"]) == (1, 30)
    assert (second["first_step"], second["last_step"]) == (21, 60)
    assert len(rows(result, "sessions")) == 2


def test_the_file_of_progress_tells_job_and_saves(run_job: RunJob, folder: Path) -> None:
    gpus = "# GPUs: 8"
    lines = [
        (10, "4001", "Starting job"),
        (200, "4001", "Saved checkpoint\tIteration: 500"),
        (3610, "4003", "Starting job"),
        (3900, "4003", "Saved checkpoint\tIteration: 900"),
    ]
    text = "".join(f"{at(seconds)[:19]}\tJob ID: {number}\t{gpus}\t{what}\n" for seconds, number, what in lines)
    (folder / "progress.txt").write_text(text, encoding="utf-8")
    result = run_job(folder / "sacct.psv", folder / "progress.txt")
    assert session(result, "4001")["last_saved_step"] == 500
    assert session(result, "4003")["last_saved_step"] == 900
    assert session(result, "4003")["log_evidence"] == [
        f"{folder / 'progress.txt'}: job id printed in the file of progress"
    ]


def test_files_of_ranks_are_one_session_and_a_step_is_one_row(run_job: RunJob, tmp_path: Path) -> None:
    for rank in range(4):
        text = begin(5 + rank) + "".join(
            step(n, 15 + n * 10 + rank, loss="2.5" if rank == 3 else None) for n in range(1, 21)
        )
        (tmp_path / f"rank{rank}.log").write_text(text, encoding="utf-8")
    result = run_job(tmp_path)
    (own,) = rows(result, "sessions")
    assert (own["first_step"], own["last_step"], own["attempt"]) == (1, 20, 1)
    found = rows(result, "training_steps")
    assert sorted(column(found, "step")) == list(range(1, 21))
    assert set(column(found, "copies")) == {4}
    assert set(column(found, "loss")) == {2.5}, "the row of the rank that printed it"


def test_a_run_that_goes_on_from_the_checkpoint_of_one_that_failed_is_its_retry(
    run_job: RunJob, tmp_path: Path
) -> None:
    failed = begin(5) + steps(1, 20, 15) + save(20, 206, 5)
    failed += "[rank3]: RuntimeError: CUDA error: an illegal memory access was encountered\n"
    load = " loading checkpoint from /ckpt at iteration 20\n  successfully loaded checkpoint from /ckpt [ t 1/1, p 1/1 ] at iteration 20\n"
    first = f"[after megatron is initialized] datetime: {at(300)} \n"
    (tmp_path / "monday.log").write_text(failed, encoding="utf-8")
    (tmp_path / "tuesday.log").write_text(
        first + load + begin(310) + steps(21, 40, 320, total=40) + done(520), encoding="utf-8"
    )
    (tmp_path / "other.log").write_text(first + load.replace("/ckpt", "/other") + begin(310), encoding="utf-8")
    result = run_job(tmp_path)
    assert len(rows(result, "sessions")) == 3
    (retry,) = rows(result, "retries")
    assert (retry["rule"], retry["trigger"], retry["attempt"]) == ("resumed_checkpoint", "resubmit", 2)
    (chain,) = rows(result, "chains")
    assert (chain["n_attempts"], chain["outcome"]) == (2, "succeeded")
