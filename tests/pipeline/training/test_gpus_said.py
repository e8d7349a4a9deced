"""How many GPUs a run of which no scheduler tells has: by what its processes say when they begin."""

from __future__ import annotations

from pathlib import Path

import pytest

from aftershock.parsers.training.launchers.world import gpus_said
from tests.pipeline.conftest import RunJob
from tests.pipeline.training.made import SACCT, job, rows, session, steps

OOM = (
    "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of "
    "79.10 GiB of which 1.2 GiB is free.\n"
)
SAVED = "saving checkpoint at iteration {0:7d} to /ckpt\n  successfully saved checkpoint at iteration {0:7d} to /ckpt\n"


@pytest.mark.parametrize(
    ("messages", "gpus"),
    [
        (
            [
                "Initializing distributed: GLOBAL_RANK: 3, MEMBER: 4/16",
                "Initializing ddp: GLOBAL_RANK: 0, MEMBER: 1/16",
            ],
            16,
        ),
        (["All distributed processes registered. Starting with 16 processes", "distributed_backend=nccl"], 16),
        (["All distributed processes registered. Starting with 16 processes", "distributed_backend=gloo"], None),
        (["using world size: 64, data-parallel size: 8", "dist_world_size=64"], 64),
        (["distributed_backend=nccl"], None),
        (["we advise using world size: 64"], None),
        ([], None),
    ],
)
def test_what_processes_say_when_they_begin(messages: list[str], gpus: int | None) -> None:
    assert gpus_said(messages) == gpus


def test_lost_work_of_a_run_is_counted_in_seconds_of_its_gpus(run_job: RunJob, tmp_path: Path) -> None:
    said = "using world size: 16, data-parallel size: 2, tensor-model-parallel size: 8\n"
    text = said + steps(1, 20, 0) + SAVED.format(20) + steps(21, 31, 200) + OOM
    (tmp_path / "run.log").write_text(text, encoding="utf-8")
    (found,) = rows(run_job(tmp_path / "run.log"), "sessions")
    assert (found["n_gpus"], found["gpu_seconds"]) == (16, 16 * 300.0)
    assert 16 * 100 <= found["gpu_seconds_lost"] <= 16 * 110, "since the save, which stands between steps 20 and 21"


def test_a_run_without_gpus_has_none(run_job: RunJob, tmp_path: Path) -> None:
    said = "All distributed processes registered. Starting with 4 processes\ndistributed_backend=gloo\n"
    (tmp_path / "run.log").write_text(said + steps(1, 20, 0) + OOM, encoding="utf-8")
    (found,) = rows(run_job(tmp_path / "run.log"), "sessions")
    assert found["n_gpus"] is None
    assert found["gpu_seconds"] is None


@pytest.mark.parametrize(("accounting", "gpus"), [(SACCT + job(4001, 0, 330), 8), (None, 16)])
def test_a_record_of_the_scheduler_goes_before_what_the_log_says(
    run_job: RunJob, tmp_path: Path, accounting: str | None, gpus: int
) -> None:
    said = "using world size: 16, data-parallel size: 2, tensor-model-parallel size: 8\n"
    (tmp_path / "slurm-4001.out").write_text(said + steps(1, 20, 10) + OOM, encoding="utf-8")
    record = accounting or (SACCT + job(4001, 0, 330)).replace("gres/gpu=8,", "").replace("|AllocTRES", "|Comment")
    (tmp_path / "sacct.psv").write_text(record, encoding="utf-8")
    found = session(run_job(tmp_path), "4001")
    assert (found["n_gpus"], found["gpu_seconds"]) == (gpus, gpus * 330.0)
