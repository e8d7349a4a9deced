"""Megatron-LM and its forks: step lines of ``key: value |`` segments, and the validation behind them.

     [2026-03-01 10:20:30.123456] iteration       20/    1000 | consumed samples:         5120 | elapsed time per ...
     samples/sec: 12.345 | iteration      100/  320000 | elapsed time per iteration (ms): 82961.2 | ...
     validation loss at iteration 1000 | lm loss value: 2.345678E+00 | lm loss PPL: 1.044000E+01 |

https://github.com/NVIDIA/Megatron-LM: megatron/training/training.py. The last rank prints steps. The key of a loss is
left out where its mean is NaN or negative (in older versions, also zero) or where all steps were skipped: it is null
then, never 0, and no other loss takes its place. Forks put segments of their own between these; Megatron-DeepSpeed
prints seconds instead of milliseconds, samples per second and TFLOPs; gpt-neox puts samples per second first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.rules import Match, Rule, Said, event, number, whole
from aftershock.schemas.training import TrainingStep

_SEGMENT: Final = re.compile(rb"\|\s*([A-Za-z][^|:]{0,80}?)\s*:\s*([^|]{0,80}?)\s*(?=\||\Z)")

# Losses of the model as a whole, best first; not those of a router, of a further token or of an indexer.
_LOSSES: Final = (b"lm loss", b"lm-loss", b"lm_loss", b"total loss", b"train loss", b"loss")
_OWN_LOSS: Final = re.compile(
    rb"(?:ce|cross entropy|sft|ppo|dpo|grpo|actor|policy|reward|mse|language model|training|main)[ _-]loss"
)

_DECIMAL: Final = re.compile(rb"(\d{1,15})(?:\.(\d{1,9}))?")

# A line that was cut goes on in the next one of its writer. What no line lacks stands at its end.
_AT_THE_END: Final = b"number of nan iterations"
_HEAD: Final = re.compile(rb"\biteration\s+(?P<step>\d{1,12})\s*/\s*(?P<total>\d{1,12})\s*\|")


def _read_steps(found: Match, said: Said) -> Iterator[TrainingStep]:
    """All steps of a line: they are glued to each other where a newline was lost."""
    head: Match | None = found
    while head is not None:
        other = _HEAD.search(said.message, head.end())
        row = _read_step(head, said, other.start() if other else None)
        if row is not None:
            yield row
        head = other


def _read_step(head: Match, said: Said, end: int | None) -> TrainingStep | None:
    body = b"|" + said.message[head.end() : end]
    if end is None and _AT_THE_END not in body:
        body += _rest_of(said)
    segments = {key.lower(): value for key, value in _SEGMENT.findall(body)}
    row = TrainingStep(step=whole(head["step"]), total_steps=whole(head["total"]))
    for key, value in segments.items():
        _take(row, key, value)
    row.loss = next((number(segments[key]) for key in _LOSSES if key in segments), None)
    if row.loss is None:
        row.loss = next((number(value) for key, value in segments.items() if _OWN_LOSS.fullmatch(key)), None)
    if row.step_time_s is None and row.samples is None and row.learning_rate is None and row.loss is None:
        return None
    return row


def _rest_of(said: Said) -> bytes:
    """What ``srun --label`` cut off a line that was written in two parts."""
    below = next(iter(said.below()), b"")
    return b" " + below if _AT_THE_END in below and not _HEAD.search(below) else b""


def _take(row: TrainingStep, key: bytes, value: bytes) -> None:
    if key == b"consumed samples":
        row.samples = whole(value)
    elif key == b"consumed tokens":
        row.tokens = whole(value)
    elif key in (b"elapsed time per iteration (ms)", b"elapsed time per iteration"):
        row.step_time_s = seconds_of(value)
    elif key == b"elapsed time per iteration (s)":
        row.step_time_s = number(value)
    elif key in (b"throughput per gpu (tflop/s/gpu)", b"tflops", b"approx flops per gpu"):
        row.tflops_per_gpu = _tera(value)
    elif key in (b"learning rate", b"learning_rate"):
        row.learning_rate = number(value)
    elif key in (b"grad norm", b"grad_norm"):
        row.grad_norm = number(value)
    elif key == b"number of skipped iterations":
        row.skipped = whole(value)
    elif key == b"number of nan iterations":
        row.nan = whole(value)


def seconds_of(millis: bytes) -> float | None:
    """Milliseconds as the seconds that the same digits print: ``19932.4`` is 19.9324."""
    plain = _DECIMAL.fullmatch(millis)
    if plain is None:
        value = number(millis)
        return None if value is None else value / 1000
    fraction = plain[2] or b""
    return int(plain[1] + fraction) / int(b"1000" + b"0" * len(fraction))


def _tera(value: bytes) -> float | None:
    """``149.02``, ``12.3TFLOPS`` or ``1.2PFLOPS``, in TFLOP/s."""
    printed = value.upper()
    if printed.endswith(b"PFLOPS"):
        peta = number(printed[:-6])
        return None if peta is None else peta * 1000
    return number(printed.removesuffix(b"TFLOPS"))


RULES: Final = (
    Rule(
        words=(b"iteration ",),
        scan=(b"consumed samples:", b"elapsed time per iteration", b"learning rate: "),
        shape=_HEAD,
        row=_read_steps,
        only="step",
    ),
    Rule(
        words=(b" loss at ", b" results at "),
        scan=(b" value: ",),
        shape=later(
            rb"\b(?:validation|test)\b[\w .-]{0,60} (?:loss|results) at (?:iteration (?P<step>\d{1,12}))?[^|]{0,200}"
            rb"\|[^|]{0,80} value: (?:[\d-]|nan|inf)"
        ),
        row=event("validation"),
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
        title="Megatron-LM: step",
        url="https://github.com/NVIDIA/Megatron-LM",
    ),
    Sample(
        " iteration       10/    1000 | consumed samples:           40 | elapsed time per iteration (ms): 932.4 | "
        "learning rate: 0.000E+00 | global batch size:     4 | loss scale: 8388608.0 | number of skipped iterations:  "
        "10 | number of nan iterations:   0 |\n",
        (expect("training_steps", step=10, loss=None, learning_rate=0.0, skipped=10, nan=0, grad_norm=None),),
        title="Megatron-LM: a step of which all iterations were skipped has no loss",
    ),
    Sample(
        "[default7]: iteration     2695/  115311 | consumed samples:      1841584 | consumed tokens:   3771564032 | "
        "elapsed time per iteration (s): 105.22 | learning rate: 5.969E-05 | global batch size:  2048 | lm loss: "
        "2.463556E+00 | grad norm: 0.174 | num zeros: 0.0 | number of skipped iterations:   0 | number of nan "
        "iterations:   0 | samples per second: 19.463 | TFLOPs: 149.02 |\n",
        (expect("training_steps", step=2695, tokens=3771564032, step_time_s=105.22, tflops_per_gpu=149.02),),
        title="Megatron-DeepSpeed: step",
        url="https://github.com/bigscience-workshop/Megatron-DeepSpeed",
    ),
    Sample(
        " samples/sec: 12.345 | iteration      100/  320000 | elapsed time per iteration (ms): 82961.2 | learning "
        "rate: "
        "1.940E-06 | approx flops per GPU: 110.7TFLOPS | lm_loss: 1.003E+01 | loss scale: 32768.0 | number of skipped "
        "iterations:   2 | number of nan iterations:   0 |\n",
        (expect("training_steps", step=100, total_steps=320000, loss=10.03, tflops_per_gpu=110.7, skipped=2),),
        title="gpt-neox: step",
        url="https://github.com/EleutherAI/gpt-neox",
    ),
    Sample(
        " validation loss at iteration 1000 | lm loss value: 2.345678E+00 | lm loss PPL: 1.044000E+01 | \n"
        " validation loss at the end of training for val data | lm loss value: 2.1E+00 | lm loss PPL: 8.1E+00 | \n",
        (
            expect("training_events", kind="validation", step=1000),
            expect("training_events", kind="validation", step=None),
        ),
        title="Megatron-LM: validation",
    ),
)

NON_SAMPLES: Final = (
    "the learning rate: a question of taste\n",
    "iteration 3 of the review: consumed samples: none were kept\n",
    "iteration 3/10 | of a table of learning rate: without numbers |\n",
    "a validation loss at this place | of great value: none\n",
)
