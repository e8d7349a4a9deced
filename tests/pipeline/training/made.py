"""Logs and records for these tests, in the true formats: Megatron-LM's steps, accounting of Slurm, a kernel's words."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from aftershock.results import Results

DAY = dt.datetime(2026, 3, 1, 10, 0, 0)


def at(seconds: float) -> str:
    """A moment of the day as a trainer prints it."""
    return (DAY + dt.timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S.%f")


def iso(seconds: float) -> str:
    """The same as accounting prints it."""
    return (DAY + dt.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")


def step(
    number: int, seconds: float | None, total: int = 1000, took_ms: float = 10_000.0, loss: str | None = "2.5"
) -> str:
    """A step line; without a time as older versions print it, without a loss as when it is no number."""
    clock = "" if seconds is None else f" [{at(seconds)}]"
    printed = "" if loss is None else f" lm loss: {float(loss):.6E} |"
    return (
        f"{clock} iteration {number:8d}/{total:8d} | consumed samples: {number * 8:12d} | elapsed time per iteration "
        f"(ms): {took_ms:.1f} | learning rate: 1.000000E-04 | global batch size:     8 |{printed} loss scale: 1.0 | "
        f"grad norm: 1.250 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    )


def steps(first: int, last: int, since: float, every: float = 10.0, total: int = 1000) -> str:
    """Step lines from one to another, the first at ``since``."""
    return "".join(step(n, since + (n - first) * every, total) for n in range(first, last + 1))


def begin(seconds: float) -> str:
    """The line before the first step."""
    return f"[before the start of training step] datetime: {at(seconds)} \n"


def done(seconds: float) -> str:
    """The line behind the last step."""
    return f"[after training is done] datetime: {at(seconds)} \n"


def save(number: int, seconds: float, took: float, path: str = "/ckpt") -> str:
    """A save with its end."""
    return (
        f"[{at(seconds)}] saving checkpoint at iteration {number:7d} to {path} in torch_dist format\n"
        f"  [{at(seconds + took)}] successfully saved checkpoint from iteration {number:7d} to {path} [ t 1/1, p 1/1 ]\n"
    )


SACCT = "JobID|JobIDRaw|JobName|User|WorkDir|Partition|Submit|Start|End|State|ExitCode|NodeList|NNodes|AllocTRES\n"


def job(
    number: int,
    start: float,
    end: float,
    state: str = "FAILED",
    hosts: str = "gpu001",
    folder: str = "/home/one/run",
    name: str = "train",
) -> str:
    """A line of accounting, on one host of eight GPUs."""
    return (
        f"{number}|{number}|{name}|one|{folder}|gpu|{iso(start - 60)}|{iso(start)}|{iso(end)}|{state}|1:0|{hosts}|1|"
        f"billing=8,gres/gpu=8,node=1\n"
    )


def xid(seconds: float, code: int, host: str = "gpu001") -> str:
    """A line of a kernel."""
    return (
        f"{iso(seconds)}+00:00 {host} kernel: NVRM: Xid (PCI:0000:3b:00): {code}, pid=77, name=python3, Ch 00000008\n"
    )


def rows(result: Results, table: str) -> list[dict[str, Any]]:
    """The rows of a table."""
    found: list[dict[str, Any]] = result[table].dataset.to_table().to_pylist()
    return found


def session(result: Results, job_id: str) -> dict[str, Any]:
    """The only session of a job."""
    (found,) = [row for row in rows(result, "sessions") if row["job_id"] == job_id]
    return found


def column(found: Sequence[dict[str, Any]], name: str) -> list[Any]:
    """One column of rows."""
    return [row[name] for row in found]
