"""Attempts that a launcher starts into refused connections: the fault of the attempt before is their cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.conftest import RunJob
from tests.pipeline.training.made import SACCT, at, begin, column, job, rows, session, steps, xid

ILLEGAL = "[rank1]: RuntimeError: CUDA error: an illegal memory access was encountered\n"


def failed(seconds: float, left: int) -> str:
    """What the agent prints when a worker has failed."""
    return (
        f"E0301 {at(seconds)[11:]} 4021 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: 1) "
        f"local_rank: 1 (pid: 30446) of binary: /opt/env/bin/python3\n"
        f"I0301 {at(seconds)[11:]} 4021 torch/distributed/elastic/agent/server/api.py:889] [default] Worker group "
        f"FAILED. {left}/3 attempts left; will restart worker group\n"
    )


def refused(seconds: float, rank: int = 0) -> str:
    """A rank that finds nobody at the address of a peer."""
    words = (
        "Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:152] timed out "
        "connecting: SO_ERROR: Connection refused, remote=[10.0.0.7]:38818"
    )
    return (
        f"[rank{rank}]:[E301 {at(seconds)[11:]}000 ProcessGroupGloo.cpp:67] {words}\n"
        f"[rank{rank}]: Traceback (most recent call last):\n"
        f'[rank{rank}]:   File "/opt/train.py", line 5, in <module>\n'
        f"[rank{rank}]: RuntimeError: {words}\n"
    )


FIRST = begin(5) + steps(1, 30, 15) + ILLEGAL + failed(312, 2)
LATER = refused(320) + failed(322, 1) + refused(330) + failed(332, 0)


@pytest.mark.parametrize("later", [LATER, refused(320) + failed(322, 1)])
def test_a_job_that_is_restarted_into_refused_connections(run_job: RunJob, tmp_path: Path, later: str) -> None:
    (tmp_path / "sacct.psv").write_text(SACCT + job(4001, 0, 340), encoding="utf-8")
    (tmp_path / "slurm-4001.out").write_text(FIRST + later, encoding="utf-8")
    found = session(run_job(tmp_path), "4001")
    assert found["cause_class"] == "cuda_kernel_fault"
    assert found["suspects"] == ["rank:1"]
    assert found["cause_evidence"][-1] == "it only failed to connect: follows from attempt 1"


def test_the_kernel_tells_of_the_attempt_that_they_follow_from(run_job: RunJob, tmp_path: Path) -> None:
    (tmp_path / "sacct.psv").write_text(SACCT + job(4001, 0, 900), encoding="utf-8")
    log = begin(5) + steps(1, 30, 15) + failed(312, 2) + refused(700) + failed(702, 1)
    (tmp_path / "slurm-4001.out").write_text(log, encoding="utf-8")
    (tmp_path / "kern.log").write_text(xid(310, 79), encoding="utf-8")
    assert session(run_job(tmp_path), "4001")["cause_class"] == "gpu_fallen_off_bus"


def test_without_a_scheduler_each_attempt_has_the_cause_of_the_one_that_it_follows(
    run_job: RunJob, tmp_path: Path
) -> None:
    (tmp_path / "train.log").write_text(FIRST + LATER, encoding="utf-8")
    found = sorted(rows(run_job(tmp_path), "sessions"), key=lambda row: row["attempt"])
    assert column(found, "state") == ["FAILED"] * 3
    assert column(found, "cause_class") == ["cuda_kernel_fault"] * 3
    assert [any("follows from attempt 1" in words for words in row["cause_evidence"]) for row in found] == [
        False,
        True,
        True,
    ]


def test_an_attempt_that_got_to_work_has_a_cause_of_its_own(run_job: RunJob, tmp_path: Path) -> None:
    log = FIRST + begin(318) + steps(20, 25, 320) + refused(400) + failed(402, 1)
    (tmp_path / "train.log").write_text(log, encoding="utf-8")
    found = sorted(rows(run_job(tmp_path), "sessions"), key=lambda row: row["attempt"])
    assert column(found, "cause_class")[:2] == ["cuda_kernel_fault", "unknown"]


def test_a_first_attempt_that_finds_nobody_follows_from_nothing(run_job: RunJob, tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(LATER, encoding="utf-8")
    found = sorted(rows(run_job(tmp_path), "sessions"), key=lambda row: row["attempt"])
    assert column(found, "cause_class")[0] == "rendezvous_failure"
