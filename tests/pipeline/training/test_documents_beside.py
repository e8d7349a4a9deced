"""Dumps, error files and states beside a log: they tell of its session and make none of their own."""

from __future__ import annotations

import json
from pathlib import Path

from tests.pipeline.conftest import RunJob
from tests.pipeline.training.made import SACCT, at, begin, column, job, rows, session, steps

NOON = 1_772_359_200  # ten in the morning, when the jobs of these tests begin
WATCHDOG = (
    "[rank{rank}]:[E301 10:16:00.000000000 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=37, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 "
    "milliseconds before timing out.\n"
)


def dump(seconds: float, enqueued: int, completed: int) -> str:
    """What the flight recorder of one of four ranks shows."""
    entries = [
        {
            "record_id": number,
            "pg_id": 0,
            "process_group": ["0", "default_pg"],
            "collective_seq_id": number,
            "p2p_seq_id": 0,
            "profiling_name": "nccl:all_reduce",
            "time_created_ns": round((NOON + seconds) * 1e9),
            "state": "completed" if number <= completed else "scheduled",
            "is_p2p": False,
        }
        for number in range(completed, enqueued + 1)
    ]
    status = {
        "last_enqueued_collective": str(enqueued),
        "last_started_collective": str(completed),
        "last_completed_collective": str(completed),
    }
    groups = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
    return json.dumps(
        {"version": "2.9", "pg_config": {"0": groups["0"]}, "pg_status": {"0": status}, "entries": entries}
    )


def test_flight_recorders_name_the_rank_that_was_behind(run_job: RunJob, tmp_path: Path) -> None:
    (tmp_path / "sacct.psv").write_text(SACCT + job(4001, 0, 970), encoding="utf-8")
    log = begin(5) + steps(1, 30, 15) + "".join(WATCHDOG.format(rank=rank) for rank in (0, 1, 3))
    (tmp_path / "slurm-4001.out").write_text(log, encoding="utf-8")
    for rank in range(4):
        text = dump(350, 36, 36) if rank == 2 else dump(360, 38, 36)
        (tmp_path / f"nccl_trace_rank_{rank}.json").write_text(text, encoding="utf-8")
    result = run_job(tmp_path)
    assert len(rows(result, "sessions")) == 1
    found = session(result, "4001")
    assert found["cause_class"] == "collective_desync"
    assert found["suspects"] == ["rank:2"]
    assert found["victims"] == ["rank:0", "rank:1", "rank:3"]
    assert not any("flight recorder" in words for words in found["missing_evidence"])
    events = rows(result, "training_events")
    assert set(column(events, "session_id")) == {found["session_id"]}
    (vote,) = [row for row in events if row["event_id"] == found["cause_event_id"]]
    assert (vote["kind"], vote["rank"], vote["error_role"]) == ("error", 2, "root")


def test_an_error_file_of_a_worker_tells_what_the_log_of_the_launcher_does_not(run_job: RunJob, tmp_path: Path) -> None:
    told = {
        "message": "RuntimeError: CUDA error: an illegal memory access was encountered",
        "extraInfo": {"py_callstack": "Traceback (most recent call last):\n", "timestamp": str(NOON + 330)},
    }
    place = tmp_path / "none_x1" / "attempt_0" / "3"
    place.mkdir(parents=True)
    (place / "error.json").write_text(json.dumps({"message": told}), encoding="utf-8")
    log = begin(5) + steps(1, 30, 15)
    log += "E0301 10:05:31.000000 7 torch/distributed/elastic/multiprocessing/api.py:1] failed (exitcode: 1) local_rank: 3 "
    log += "(pid: 77) of binary: /usr/bin/python3\n"
    (tmp_path / "train.log").write_text(log, encoding="utf-8")
    (found,) = rows(run_job(tmp_path), "sessions")
    assert (found["state"], found["cause_class"]) == ("FAILED", "cuda_kernel_fault")
    assert found["suspects"] == ["rank:3"]
    assert any("error.json: beside a log of the session" in words for words in found["log_evidence"])


def test_the_state_of_a_trainer_is_no_run_of_its_own_beside_its_log(run_job: RunJob, tmp_path: Path) -> None:
    history = [{"epoch": 0.1 * n, "loss": 2.5, "step": n} for n in range(1, 31)]
    state = {"epoch": 3.0, "global_step": 30, "log_history": history, "logging_steps": 1, "max_steps": 1000}
    (tmp_path / "trainer_state.json").write_text(json.dumps(state, indent=2), encoding="utf-8")
    (alone,) = rows(run_job(tmp_path), "sessions")
    assert (alone["first_step"], alone["last_step"], alone["state"]) == (1, 30, "UNKNOWN")
    (tmp_path / "train.log").write_text(begin(5) + steps(1, 20, 15) + f"[{at(300)}] bye\n", encoding="utf-8")
    result = run_job(tmp_path)
    (found,) = rows(result, "sessions")
    assert found["last_step"] == 20, "the log is what was printed"
    assert set(column(rows(result, "training_steps"), "session_id")) == {found["session_id"]}
    assert set(column(rows(result, "training_steps"), "copies")) <= {1, None}
