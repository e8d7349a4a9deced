"""Logs of Megatron-LM made at random: attempts with saves and errors, copies of ranks, numbers that go bad."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from tests.parsers.training.reading import megatron

_ERRORS = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB",
    "RuntimeError: CUDA error: an illegal memory access was encountered",
    "ValueError: no such shard",
    "[rank3]:[E301 10:20:33.889423318 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=71, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds "
    "before timing out.",
)
_ENDS = (
    "E0301 10:20:31.123000 811 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: "
    "0 (pid: 901) of binary: /usr/bin/python3",
    "slurmstepd: error: *** STEP 4001.0 ON gpu001 CANCELLED AT 2026-03-01T10:20:30 DUE TO TIME LIMIT ***",
    "[after training is done] datetime: 2026-03-01 11:20:30 ",
    "3/3 attempts left; will restart worker group",
)
_STARTS = (
    "    will not load any checkpoints and will start from random",
    "[before the start of training step] datetime: 2026-03-01 10:20:30.123456 ",
    " loading distributed checkpoint from /ckpt at iteration 20",
    "  successfully loaded checkpoint from /ckpt [ t 1/8, p 1/4 ] at iteration 20",
)


@dataclass
class _Made:
    """A log in the making. ``timed``: whether steps print a clock."""

    timed: bool
    now: dt.datetime = dt.datetime(2026, 3, 1, 10, 20, 30, 123456)
    lines: list[str] = field(default_factory=list)

    def print_step(self, step: int, labels: list[str], pause: float, values: dict[str, str]) -> None:
        self.now += dt.timedelta(seconds=pause)
        stamp = f"{self.now:%Y-%m-%d %H:%M:%S.%f}" if self.timed else ""
        self.lines += [label + megatron(step, stamp=stamp, **values) for label in labels]


_VALUES = (
    {"lm_loss": "", "grad_norm": "nan"},
    {"lm_loss": "", "number_of_nan_iterations": "  1"},
    {"lm_loss": "", "grad_norm": "", "number_of_skipped_iterations": "  1"},
    {"lm_loss": "", "grad_norm": "", "number_of_skipped_iterations": " 10"},
    {"lm_loss": "0.000000E+00", "grad_norm": "inf"},
)


@st.composite
def logs(draw: Any, longest: int = 60) -> bytes:
    """A log of some attempts of up to so many steps each."""
    made = _Made(draw(st.booleans()))
    labels = draw(st.sampled_from([[""], [""], ["3: "], [f"{rank}: " for rank in range(8)], ["[default1]:"]]))
    step = 0
    for _ in range(draw(st.integers(1, 4))):
        made.lines += draw(st.lists(st.sampled_from(_STARTS), max_size=2))
        step = draw(st.sampled_from([step, max(0, step - 7), 0]))
        length = draw(st.integers(0, longest))
        bad = draw(st.none() | st.tuples(st.integers(0, longest), st.integers(0, longest), st.sampled_from(_VALUES)))
        saves, failing = draw(st.sampled_from([0, 10])), draw(st.sets(st.integers(0, longest), max_size=2))
        pause = draw(st.sampled_from([0.5, 1.5, 90.0]))
        for number in range(length):
            step += 1
            values = bad[2] if bad and bad[0] <= number <= bad[1] else {}
            made.print_step(step, labels, pause, values)
            if saves and step % saves == 0:
                made.lines.append(f"saving checkpoint at iteration {step:7d} to /ckpt in torch_dist format")
                made.lines.append(f"  successfully saved checkpoint from iteration {step:7d} to /ckpt [ t 1/8, p 1/4 ]")
            if number in failing:
                made.lines.append(draw(st.sampled_from(_ERRORS)))
        made.now += dt.timedelta(seconds=draw(st.sampled_from([1, 3600])))
        made.lines += draw(st.lists(st.sampled_from((*_ENDS, *_ERRORS)), max_size=2))
    if made.lines and draw(st.booleans()):
        at = draw(st.integers(0, len(made.lines) - 1))
        made.lines[at] += draw(st.sampled_from([" done", *made.lines[:2]]))  # a newline was lost
    end = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    text = "".join(line + end for line in made.lines)
    return text[: len(text) - draw(st.sampled_from([0, 0, 1, 9]))].encode()
