"""Megatron-LM and its forks: step lines of ``key: value |`` segments, checkpoint lines of all generations, clocks.

     [2026-03-01 10:20:30.123456] iteration       20/    1000 | consumed samples:         5120 | elapsed time per ...
    saving checkpoint at iteration      20 to /ckpt in torch_dist format
      successfully saved checkpoint from iteration      20 to /ckpt [ t 1/8, p 1/4 ]

https://github.com/NVIDIA/Megatron-LM: megatron/training/training.py, checkpointing.py. The last rank prints steps, rank
0 prints checkpoints. The key of a loss is left out where its mean is NaN or negative (in older versions, also zero) or
where all steps were skipped: it is null then, never 0. Forks put segments of their own between these, and Megatron-
DeepSpeed prints seconds instead of milliseconds, samples per second and TFLOPs.
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.training.rules import Match, Rule, Said, event, number, whole
from aftershock.schemas.training import TrainingStep

_SEGMENT: Final = re.compile(rb"\|\s*([A-Za-z][^|:]{0,80}?)\s*:\s*([^|]{0,80}?)\s*(?=\||\Z)")

# Losses by preference: the loss of the language model, then any key that ends so (but not a scale).
_LOSS: Final = re.compile(rb"(?:lm|total|train|mtp_1)?[ _-]?loss|[\w /-]+ loss", re.IGNORECASE)


def _read_step(found: Match, _said: Said) -> TrainingStep:
    row = TrainingStep(step=whole(found["step"]), total_steps=whole(found["total"]))
    for key, value in _SEGMENT.findall(found["body"]):
        _take(row, key.lower(), value)
    return row


def _take(row: TrainingStep, key: bytes, value: bytes) -> None:
    if key == b"consumed samples":
        row.samples = whole(value)
    elif key == b"consumed tokens":
        row.tokens = whole(value)
    elif key == b"elapsed time per iteration (ms)":
        millis = number(value)
        row.step_time_s = None if millis is None else round(millis / 1000, 9)
    elif key == b"elapsed time per iteration (s)":
        row.step_time_s = number(value)
    elif key in (b"throughput per gpu (tflop/s/gpu)", b"tflops", b"approx flops per gpu"):
        row.tflops_per_gpu = number(value.upper().removesuffix(b"TFLOPS"))
    elif key == b"learning rate":
        row.learning_rate = number(value)
    elif key == b"grad norm":
        row.grad_norm = number(value)
    elif key == b"number of skipped iterations":
        row.skipped = whole(value)
    elif key == b"number of nan iterations":
        row.nan = whole(value)
    elif row.loss is None and key != b"loss scale" and _LOSS.fullmatch(key):
        row.loss = number(value)


RULES: Final = (
    Rule(
        words=(b"iteration ",),
        scan=(b"consumed samples:", b"elapsed time per iteration", b"learning rate: "),
        shape=re.compile(
            rb"(?<![\w ])\s*iteration\s+(?P<step>\d{1,12})\s*/\s*(?P<total>\d{1,12})\s*(?P<body>\|[^\r\n]{1,4000}?\|)"
            rb"(?=\s*(?:\Z|iteration\s+\d|[^|]*\Z))"
        ),
        row=_read_step,
    ),
    Rule(
        words=(b"saving checkpoint at iteration",),
        shape=re.compile(rb"saving checkpoint at iteration\s+(?P<step>\d+) to (?P<path>\S+)"),
        row=event("save_begin"),
    ),
    Rule(
        words=(b"scheduled an async checkpoint save at iteration",),
        shape=re.compile(rb"scheduled an async checkpoint save at iteration\s+(?P<step>\d+) to (?P<path>\S+)"),
        row=event("save_scheduled"),
    ),
    Rule(
        words=(b"uccessfully saved checkpoint", b"uccessfully saved local checkpoint"),
        shape=re.compile(
            rb"[Ss]uccessfully saved (?:local )?checkpoint (?:from|at) iteration\s+(?P<step>\d+)(?: to (?P<path>\S+))?"
        ),
        row=event("save_end"),
    ),
    Rule(
        words=(b"loading ",),
        scan=(b"checkpoint from ",),
        shape=re.compile(
            rb"\bloading (?:release )?(?:distributed )?checkpoint from (?P<path>\S+)(?: at iteration\s+(?P<step>\d+))?"
        ),
        row=event("load_begin"),
    ),
    Rule(
        words=(b"successfully loaded checkpoint from",),
        shape=re.compile(
            rb"successfully loaded checkpoint from (?P<path>\S+)(?: \[[^\]]{0,80}\])?(?: at iteration\s+(?P<step>\d+))?"
        ),
        row=event("load_end"),
    ),
)

SAMPLES: Final = (
    Sample(
        " [2026-03-01 10:20:30.123456] iteration       20/    1000 | consumed samples:         5120 | elapsed time per "
        "iteration (ms): 1234.5 | throughput per GPU (TFLOP/s/GPU): 401.2 | learning rate: 1.500000E-04 | global batch "
        "size:   256 | lm loss: 2.345678E+00 | loss scale: 1.0 | grad norm: 0.512 | number of skipped iterations:   0 |"
        " number of nan iterations:   0 |\n",
        (
            expect(
                "training_steps",
                step=20,
                total_steps=1000,
                loss=2.345678,
                step_time_s=1.2345,
                samples=5120,
                tflops_per_gpu=401.2,
                skipped=0,
                copies=1,
            ),
        ),
        title="Step",
    ),
)

NON_SAMPLES: Final = (
    "the learning rate: a question of taste\n",
    "iteration 3 of the review: consumed samples: none were kept\n",
)
