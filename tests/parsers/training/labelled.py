"""Logs of training runs with one planted fault each, and of successful runs with much noise: always the same ones.

The faults stand in ``tests/samples/training_faults``: ``%% class how`` and the lines below it. Each is put into the
output of a run under two launchers, with what the other ranks and the launcher say of it. How a fault is put there:

py        the exception of one rank, with a traceback
all       the same exception of every rank
init      the exception of every rank, before the first step
barrier   likewise, within the first barrier
raw       lines of one process, as they are
end       lines at the end, without anything that others say of it
alone     nothing else at all
others    made here: a hang, a time-out of collectives, bad numbers, a slow run
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.parsers.training.reading import megatron

FAULTS: Final = Path(__file__).parents[2] / "samples" / "training_faults"
LAUNCHERS: Final = ("torchrun", "srun", "deepspeed", "plain", "ray")
STEPS: Final = 60


class Labelled(NamedTuple):
    """A log, and the class of the fault in it; none for a run that succeeded."""

    name: str
    label: str | None
    text: str


class Fault(NamedTuple):
    label: str
    how: str
    lines: tuple[str, ...]


def faults() -> list[Fault]:
    """The planted faults of all files."""
    found: list[Fault] = []
    for path in sorted(FAULTS.glob("*.txt")):
        for block in ("\n" + path.read_text("utf-8")).split("\n%% ")[1:]:
            head, *lines = block.rstrip("\n").split("\n")
            label, how = head.split(" ")
            found.append(Fault(label, how, tuple(lines)))
    return found


def failed_runs() -> list[Labelled]:
    """Every fault under two launchers, of several hosts and ranks."""
    logs = []
    for number, fault in enumerate(faults()):
        for turn in range(2):
            launcher = LAUNCHERS[(number + 2 * turn) % len(LAUNCHERS)]
            values = {
                "rank": str((number * 3 + turn) % 8),
                "host": f"gpu{17 + number % 5:03}",
                "pid": str(811 + number),
            }
            text = "\n".join(_Run(launcher, values, number + turn).lines(fault)) + "\n"
            logs.append(Labelled(f"{fault.label}-{number}-{launcher}", fault.label, text))
    return logs


class _Run:
    """The output of one run of eight ranks."""

    def __init__(self, launcher: str, values: dict[str, str], seed: int) -> None:
        self.launcher = launcher
        self.values = values
        self.seed = seed
        self.rank = int(values["rank"])

    def lines(self, fault: Fault) -> Iterator[str]:
        body = [_filled(line, self.values) for line in fault.lines]
        how = fault.how
        if how == "alone":
            yield from body
            return
        yield from self.beginning()
        if how in ("init", "barrier"):
            for rank in range(8):
                yield from self.raised(body, rank, "barrier" if how == "barrier" else "load")
            yield from self.aftermath()
            return
        yield from getattr(self, f"steps_{how}", self.steps)()
        if how == "py":
            yield from self.raised(body, self.rank, "forward")
        elif how == "all":
            for rank in range(8):
                yield from self.raised(body, rank, "forward")
        elif how in ("raw", "end", "hang"):
            yield from body
        if how == "timeout":
            yield from self.timeouts()
        if how == "victims":
            yield from self.victims()
        if how in ("py", "all", "raw", "timeout", "victims") or (how in ("nan", "overflow") and fault.label[0] == "n"):
            if how not in ("all", "victims"):
                yield from self.victims()
            yield from self.aftermath()

    def said(self, rank: int, line: str) -> str:
        label = {
            "torchrun": f"[rank{rank}]: ",
            "srun": f"{rank}: ",
            "ray": f"(RayTrainWorker pid={900 + rank}, ip=10.0.0.7) ",
        }
        return label.get(self.launcher, "") + line

    def beginning(self) -> Iterator[str]:
        yield "+ srun --label python train.py --on-error retry --fault-tolerance=off --nan-check"
        yield "NCCL version 2.20.5+cuda12.4"
        yield "UserWarning: torch.distributed.reduce_op is deprecated, please use torch.distributed.ReduceOp instead"
        yield "> setting error_injection_rate ............ 0"

    def steps(self, stop: int = STEPS) -> Iterator[str]:
        yield "[before the start of training step] datetime: 2026-03-01 10:00:00.000000 "
        for step in range(1, stop + 1):
            yield megatron(step, stamp=f"2026-03-01 10:{step // 2:02}:{step % 2 * 30:02}.000000")

    def steps_nan(self) -> Iterator[str]:
        yield from self.steps(30)
        for step in range(31, 37):
            bad = {"lm_loss": "", "grad_norm": "nan"} if self.seed % 2 else {"lm_loss": "NAN", "grad_norm": "nan"}
            yield megatron(step, stamp=f"2026-03-01 10:{step // 2:02}:{step % 2 * 30:02}.000000", **bad)

    def steps_overflow(self) -> Iterator[str]:
        if self.values["pid"] == str(811 + _numeric_overflow()):
            yield from self.steps(5)
            for number in range(30):
                yield _overflow(number)
            return
        for step in range(1, STEPS):
            if step % (5 + self.seed % 4) == 0:
                yield _overflow(step)
            yield megatron(step)

    def steps_slow(self) -> Iterator[str]:
        for step in range(1, STEPS):
            yield megatron(step, **{"elapsed_time_per_iteration_(ms)": f"{1234.5 if step < 20 else 1800.5}"})

    def raised(self, body: list[str], rank: int, place: str) -> Iterator[str]:
        yield self.said(rank, "Traceback (most recent call last):")
        yield self.said(rank, '  File "/app/train.py", line 120, in <module>')
        yield self.said(rank, "    main()")
        if place == "barrier":
            yield self.said(rank, '  File "/opt/torch/distributed/distributed_c10d.py", line 3685, in barrier')
            yield self.said(rank, "    work = default_pg.barrier(opts=opts)")
        else:
            yield self.said(rank, f'  File "/app/model.py", line 33, in {place}')
            yield self.said(rank, "    return self.inner(batch)")
        for line in body:
            yield self.said(rank, line)

    def victims(self) -> Iterator[str]:
        for rank in (1, 4, 6):
            if rank != self.rank:
                yield from self.raised(
                    [
                        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error [10.0.0.9]:29105: "
                        "Connection reset by peer"
                    ],
                    rank,
                    "backward",
                )
                yield f"gpu016:{rank}11:812 [{rank}] misc/socket.cc:538 NCCL WARN Net : Connection closed by remote peer"

    def timeouts(self) -> Iterator[str]:
        for rank in range(8):
            if rank != self.rank:
                yield (
                    f"[rank{rank}]:[E301 10:48:2{rank}.033625188 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught "
                    f"collective operation timeout: WorkNCCL(SeqNum=811, OpType=ALLREDUCE, NumelIn=512, NumelOut=512, "
                    f"Timeout(ms)=600000) ran for 60001{rank} milliseconds before timing out."
                )

    def aftermath(self) -> Iterator[str]:
        host, rank = self.values["host"], self.rank
        if self.launcher == "torchrun":
            yield (
                "W0301 10:31:27.210000 811 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 812 "
                "closing signal SIGTERM"
            )
            yield (
                "E0301 10:31:27.390000 811 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) "
                f"local_rank: {rank} (pid: 815) of binary: /usr/bin/python3"
            )
            yield "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "
            yield "=" * 60
            yield "train.py FAILED"
            yield "-" * 60
            yield "Failures:"
            yield "  <NO_OTHER_FAILURES>"
            yield "-" * 60
            yield "Root Cause (first observed failure):"
            yield "[0]:"
            yield "  time      : 2026-03-01_10:31:27"
            yield f"  host      : {host}"
            yield "  rank      : 1 (local_rank: 1)"
            yield "  exitcode  : 1 (pid: 815)"
            yield "  error_file: <N/A>"
            yield "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
            yield "=" * 60
        elif self.launcher == "srun":
            yield f"srun: error: {host}: task {rank}: Exited with exit code 1"
            yield "srun: Terminating StepId=811.0"
            yield f"slurmstepd: error: *** STEP 811.0 ON {host} CANCELLED AT 2026-03-01T10:31:28 ***"
            yield "srun: Job step aborted: Waiting up to 32 seconds for job step to finish."
            yield f"srun: error: {host}: tasks 0-7: Terminated"
        elif self.launcher == "deepspeed":
            yield "[2026-03-01 10:31:27,123] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 815"
            yield (
                "[2026-03-01 10:31:27,124] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python3', '-u', "
                f"'train.py', '--local_rank={rank}'] exits with return code = 1"
            )
        elif self.launcher == "ray":
            yield "(TrainController pid=7) [FailurePolicy] RAISE"
            yield "(TrainController pid=7) ray.train.WorkerGroupError: Training failed due to worker errors:"


def _numeric_overflow() -> int:
    """The number of the fault whose overflows do not end."""
    return next(n for n, fault in enumerate(faults()) if (fault.label, fault.how) == ("numeric_divergence", "overflow"))


def _filled(line: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        line = line.replace("{" + name + "}", value)
    return line


def _overflow(number: int) -> str:
    return (
        f"[2026-03-01 10:20:{number % 60:02},123] [INFO] [loss_scaler.py:188:update_scale] [deepspeed] OVERFLOW! Rank 0 "
        "Skipping step. Attempted loss scale: 64, reducing to 32"
    )
