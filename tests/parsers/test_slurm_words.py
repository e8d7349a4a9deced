"""The vocabulary of Slurm: job ids, states, times, exit codes, GPUs, ``--exclude``."""

from __future__ import annotations

import re

import pytest

from aftershock.parsers.clock import SECOND, wall_micros
from aftershock.parsers.slurm_words import (
    JOB,
    clock_of,
    elapsed_seconds,
    excluded_in,
    exit_pair,
    gpu_count,
    job_ref,
    job_state,
    shown_job,
)


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("JobId=12", ("12", None, "12")),
        ("JobID=12", ("12", None, "12")),
        ("JobId=12_4(30)", ("12", "4", "30")),
        ("JobId=12_4", ("12", "4", None)),
        ("JobId=12_*", ("12", "*", None)),
        ("JobId=12_[1-5,9]", ("12", "[1-5,9]", None)),
        ("JobId=12+1(13)", ("12+1", None, "13")),
        ("JobId=12 SLUID=s0ABC", ("12", None, "12")),
        ("SLUID=s0ABC", (None, None, "s0ABC")),
        ("JobId=Invalid", None),
    ],
)
def test_job_ids(text: str, ref: tuple[str | None, ...] | None) -> None:
    match = re.match(JOB + r"\Z", text, re.VERBOSE | re.ASCII)
    assert (tuple(job_ref(match)) if match else None) == ref


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("12", ("12", None)),
        ("12_4", ("12_4", None)),
        ("12_[0-7%2]", ("12_[0-7%2]", None)),
        ("12+1", ("12+1", None)),
        ("12.batch", ("12", ".batch")),
        ("12_4.0", ("12_4", ".0")),
        ("12+1.extern", ("12+1", ".extern")),
        ("batch", None),
        ("12 x", None),
    ],
)
def test_shown_jobs(text: str, shown: tuple[str, str | None] | None) -> None:
    assert shown_job(text) == shown


@pytest.mark.parametrize(
    ("text", "state", "by"),
    [
        ("COMPLETED", "COMPLETED", None),
        ("CANCELLED by 4021", "CANCELLED", "4021"),
        ("CANCELLED+", "CANCELLED", None),
        ("OUT_OF_ME+", "OUT_OF_MEMORY", None),
        ("NODE_FAIL", "NODE_FAIL", None),
        ("REQUEUE_HOLD", "PENDING", None),
        ("COMPLETING", "RUNNING", None),
        ("CG", "RUNNING", None),
        ("PD", "PENDING", None),
        ("MELTED", "UNKNOWN", None),
        ("RE+", "UNKNOWN", None),
        ("", None, None),
        (None, None, None),
    ],
)
def test_states(text: str | None, state: str | None, by: str | None) -> None:
    assert job_state(text) == (state, by)


def test_times() -> None:
    wall = wall_micros(2025, 2, 3, 8, 0, 5)
    assert wall is not None
    assert clock_of("2025-02-03T08:00:05") == ("local", wall)
    assert clock_of("2025-02-03 08:00:05") == ("local", wall)
    assert clock_of("2025-02-03T08:00:05+0900") == ("zoned", wall - 9 * 3600 * SECOND)
    assert clock_of("2025-02-03T08:00:05Z") == ("zoned", wall)
    assert clock_of("1738569605") == ("epoch", 1738569605 * SECOND)
    for nothing in ("", "Unknown", "None", "N/A", "(null)", "0", None):
        assert clock_of(nothing) is None
    for wrong in ("2025-02-30T08:00:05", "yesterday", "2025-02-03T25:00:00", "08:00:05"):
        with pytest.raises(ValueError, match=r"time|date"):
            clock_of(wrong)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("00:00:08", 8.0), ("2-03:04:05", 183845.0), ("03:04", 184.0), ("600", 600.0), ("INVALID", None), ("", None)],
)
def test_elapsed(text: str, seconds: float | None) -> None:
    assert elapsed_seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("0:0", (0, None)),
        ("1:0", (1, None)),
        ("0:9", (0, 9)),
        ("139:0", (139, None)),
        ("0:125", (0, None)),
        ("", (None, None)),
    ],
)
def test_exit_codes(text: str, pair: tuple[int | None, int | None]) -> None:
    assert exit_pair(text) == pair


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("cpu=8,gres/gpu=4,node=1", 4),
        ("gres/gpu:h100=4,gres/gpu=4", 4),
        ("gres/gpu:h100=4,gres/gpu:a100=2", 6),
        ("cpu=8,gres/gpumem=40G,gres/gpuutil=90", None),
        ("billing=4,cpu=4", None),
        ("", None),
        (None, None),
    ],
)
def test_gpus(text: str | None, count: int | None) -> None:
    assert gpu_count(text) == count


@pytest.mark.parametrize(
    ("line", "hosts"),
    [
        ("sbatch --exclude=dgx[03-04] a.sh", "dgx[03-04]"),
        ("sbatch --exclude dgx03 a.sh", "dgx03"),
        ("sbatch -x dgx03,dgx05 a.sh", "dgx03,dgx05"),
        ("sbatch -xdgx03 a.sh", "dgx03"),
        ("srun '--exclude=dgx[03-04]' hostname", "dgx[03-04]"),
        ('/opt/slurm/bin/sbatch -N 4 -J "my job" --requeue -x "dgx03" a.sh', "dgx03"),
        ("sbatch --wrap 'python --exclude x' -x dgx03", "dgx03"),
        ("sbatch -Hx dgx03 a.sh", "dgx03"),
        ("sbatch --exclude=dgx01 --exclude=dgx02 a.sh", "dgx02"),
        ("sbatch --wait -x dgx03 a.sh", "dgx03"),
        ("sbatch a.sh --exclude=dgx03", None),
        ("sbatch --exclusive a.sh", None),
        ("sbatch --exclude=./bad_hosts a.sh", None),
        ("sbatch -N 4 a.sh -x", None),
        ("sbatch -x", None),
        ('sbatch -x dgx03 "a.sh', "dgx03"),
        ("", None),
        (None, None),
    ],
)
def test_excluded_hosts_of_a_submit_line(line: str | None, hosts: str | None) -> None:
    assert excluded_in(line) == hosts


def test_a_time_that_did_not_fit_its_column_is_said_to_be_lost() -> None:
    with pytest.raises(ValueError, match="did not fit"):
        clock_of("###################")
