"""One cause of each end: what outranks what, and what is never a cause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.conftest import RunJob
from tests.pipeline.training.made import (
    SACCT,
    at,
    begin,
    column,
    done,
    iso,
    job,
    rows,
    save,
    session,
    step,
    steps,
    xid,
)

ECC = "[rank3]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
ILLEGAL = "[rank3]: RuntimeError: CUDA error: an illegal memory access was encountered\n"
OOM = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB\n"
PEER = "".join(
    f"[rank{rank}]: torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error\n"
    for rank in range(3)
)


def outcome(run_job: RunJob, folder: Path, log: str, record: str, kernel: str = "", **options: Any) -> dict[str, Any]:
    """The session of job 4001 with this output, this record and this kernel log."""
    (folder / "sacct.psv").write_text(SACCT + record, encoding="utf-8")
    (folder / "slurm-4001.out").write_text(log, encoding="utf-8")
    if kernel:
        (folder / "kern.log").write_text(kernel, encoding="utf-8")
    return session(run_job(folder, **options), "4001")


RUNNING = begin(5) + steps(1, 30, 15)


def test_an_xid_of_its_host_and_the_word_of_the_log_agree(run_job: RunJob, tmp_path: Path) -> None:
    found = outcome(run_job, tmp_path, RUNNING + PEER + ECC, job(4001, 0, 330), xid(316, 48) + xid(317, 45))
    assert found["cause_class"] == "gpu_memory_ecc"
    assert found["cause_confidence"] == pytest.approx(0.98)
    assert found["suspects"] == ["gpu001", "rank:3"]
    assert found["victims"] == ["rank:0", "rank:1", "rank:2"]
    assert found["missing_evidence"] is None


def test_the_cause_is_an_event_of_the_result(run_job: RunJob, tmp_path: Path) -> None:
    outcome(run_job, tmp_path, RUNNING + PEER, job(4001, 0, 330), xid(316, 79))
    result = run_job(tmp_path)
    found = session(result, "4001")
    (event,) = [row for row in rows(result, "gpu_errors") if row["code"] == 79]
    assert (found["cause_class"], found["cause_event_id"]) == ("gpu_fallen_off_bus", event["event_id"])


def test_hardware_that_the_kernel_confirms_outranks_the_scheduler(run_job: RunJob, tmp_path: Path) -> None:
    found = outcome(run_job, tmp_path, RUNNING, job(4001, 0, 400, "CANCELLED by 1000"), xid(316, 79))
    assert found["cause_class"] == "gpu_fallen_off_bus"


@pytest.mark.parametrize(("seconds", "host"), [(100, "gpu001"), (316, "gpu002"), (900, "gpu001")])
def test_a_fault_of_another_time_or_host_has_nothing_to_do_with_it(
    run_job: RunJob, tmp_path: Path, seconds: float, host: str
) -> None:
    found = outcome(run_job, tmp_path, RUNNING + ILLEGAL, job(4001, 0, 330), xid(seconds, 79, host))
    assert found["cause_class"] == "cuda_kernel_fault"


def test_an_act_of_the_scheduler_outranks_what_processes_say_of_it(run_job: RunJob, tmp_path: Path) -> None:
    log = RUNNING + f"slurmstepd: error: *** JOB 4001 ON gpu001 CANCELLED AT {iso(310)} DUE TO TIME LIMIT ***\n"
    found = outcome(run_job, tmp_path, log, job(4001, 0, 312, "TIMEOUT"))
    assert found["cause_class"] == "scheduler_time_limit"
    assert found["cause_confidence"] == pytest.approx(0.98)


def test_a_cancel_of_what_had_failed_already_is_not_the_cause(run_job: RunJob, tmp_path: Path) -> None:
    found = outcome(run_job, tmp_path, RUNNING + OOM, job(4001, 0, 900, "CANCELLED by 1000"))
    assert found["cause_class"] == "user_gpu_oom"
    assert any(words.startswith("user_or_admin_cancel: ") for words in found["cause_evidence"])


def test_a_silent_hang_before_the_time_limit_is_the_cause(run_job: RunJob, tmp_path: Path) -> None:
    found = outcome(run_job, tmp_path, RUNNING, job(4001, 0, 3600, "TIMEOUT"))
    assert found["cause_class"] == "hang_no_error"
    assert found["gpu_seconds_lost"] == pytest.approx(8 * 3600), "nothing was saved"
    # The usual gap is 10 s, so that up to ten minutes are a pause.
    found = outcome(run_job, tmp_path, RUNNING, job(4001, 0, 305 + 590, "TIMEOUT"))
    assert found["cause_class"] == "scheduler_time_limit"
    slow = begin(5) + steps(1, 5, 100, every=100)
    found = outcome(run_job, tmp_path, slow, job(4001, 0, 500 + 950, "CANCELLED by 7"))
    assert found["cause_class"] == "user_or_admin_cancel"


def test_watchdogs_of_victims_are_no_cause(run_job: RunJob, tmp_path: Path) -> None:
    watchdogs = "".join(
        f"[rank{rank}]:[E301 10:16:00.000000000 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective "
        f"operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for "
        f"600012 milliseconds before timing out.\n"
        for rank in range(8)
        if rank != 5
    )
    found = outcome(run_job, tmp_path, RUNNING + watchdogs, job(4001, 0, 970))
    assert found["cause_class"] == "unknown"
    assert found["cause_confidence"] is None
    assert found["suspects"] == ["rank:5"]
    assert "rank:5" not in found["victims"]
    assert any(words.startswith("kernel log of gpu001") for words in found["missing_evidence"])


def test_a_success_with_noisy_errors_has_no_cause(run_job: RunJob, tmp_path: Path) -> None:
    log = begin(5) + steps(1, 30, 15, total=30) + done(306) + PEER + ILLEGAL
    found = outcome(run_job, tmp_path, log, job(4001, 0, 320, "COMPLETED"), xid(310, 31))
    assert (found["cause_class"], found["suspects"], found["victims"]) == (None, None, None)
    assert found["gpu_seconds_lost"] == 0.0


def test_the_same_without_a_record_of_it(run_job: RunJob, tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(begin(5) + steps(1, 30, 15, total=30) + done(306) + PEER, encoding="utf-8")
    (found,) = rows(run_job(tmp_path), "sessions")
    assert (found["state"], found["cause_class"]) == ("COMPLETED", None)


def test_a_log_that_just_stops_says_nothing_of_its_end(run_job: RunJob, tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(RUNNING, encoding="utf-8")
    (found,) = rows(run_job(tmp_path), "sessions")
    assert (found["state"], found["end_time"], found["cause_class"]) == ("UNKNOWN", None, None)
    assert found["gpu_seconds_lost"] is None


def test_lost_work_is_what_came_after_the_begin_of_the_last_complete_save(run_job: RunJob, tmp_path: Path) -> None:
    begun = f"[{at(306)}] saving checkpoint at iteration      30 to /ckpt in torch_dist format\n"
    log = begin(5) + steps(1, 20, 15) + save(20, 206, 5) + steps(21, 30, 215) + begun
    found = outcome(run_job, tmp_path, log + OOM, job(4001, 0, 406))
    assert found["last_saved_step"] == 20
    assert found["gpu_seconds_lost"] == pytest.approx(8 * (406 - 206)), "the second save was not complete"


def test_steps_that_are_done_twice_in_one_session_are_lost_work(run_job: RunJob, tmp_path: Path) -> None:
    log = begin(5) + steps(1, 20, 15) + save(10, 206, 5) + begin(300) + steps(11, 30, 310, total=30) + done(505)
    found = outcome(run_job, tmp_path, log, job(4001, 0, 510, "COMPLETED"))
    assert (found["first_step"], found["last_step"], found["last_saved_step"]) == (1, 30, 10)
    assert found["gpu_seconds_lost"] == pytest.approx(8 * (211 - 206), abs=0.1)


def test_a_missing_loss_stays_null_and_times_come_from_neighbours(run_job: RunJob, tmp_path: Path) -> None:
    log = begin(0) + "".join(step(n, None, loss=None) for n in range(1, 6)) + done(60)
    (tmp_path / "train.log").write_text(log, encoding="utf-8")
    result = run_job(tmp_path)
    found = sorted(rows(result, "training_steps"), key=lambda row: row["step"])
    assert column(found, "loss") == [None] * 5
    assert set(column(found, "time_basis")) == {"neighbour"}
    # Five steps of 10 s in a minute: the ten seconds between may lie anywhere.
    for row, n in zip(found, range(1, 6), strict=True):
        seconds = row["time"].replace(tzinfo=None).timestamp() - found[0]["time"].replace(tzinfo=None).timestamp()
        assert seconds == pytest.approx((n - 1) * (10 + 10 / 6), abs=0.01)
        assert 5 <= row["time_error_s"] <= 10
