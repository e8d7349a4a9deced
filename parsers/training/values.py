"""The names under which trainers print the values of a step: ``lr``, ``gnorm``, ``reduced_train_loss``.

    {'loss': '3.906', 'grad_norm': '1.013', 'learning_rate': '4.5e-05', 'epoch': '0.1562'}
    loss=3.1, v_num=, reduced_train_loss=3.090, global_step=794.0, consumed_samples=1.63e+6
    {"step": 100, "loss": 2.31, "lr": 0.0003}

Names whose unit or meaning is open (``tokens``: of the step, or since the beginning?) are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from aftershock.parsers.training.rules import number, whole
from aftershock.schemas.training import TrainingStep

# Of several names of one value the first one counts: the loss over all ranks goes before that of one.
LOSSES: Final = (
    *("reduced_train_loss", "train/loss", "train_loss", "lm loss", "lm_loss", "lm-loss", "training_loss", "loss"),
    *("total_loss", "train/ce loss", "train/crossentropyloss", "loss/train/total", "train/cross_entropy", "loss/train"),
    *("actor/pg_loss", "actor/loss", "policy_loss"),
)
_GRAD_NORMS: Final = (
    *("grad_norm", "gradient_norm", "global_grad_norm", "gnorm", "grad norm", "optim/total_grad_norm"),
    *("optim/total grad norm", "train/grad_norm", "actor/grad_norm", "total_norm"),
)
_RATES: Final = ("learning_rate", "lr", "learning rate", "train/lr", "train/learning_rate", "actor/lr")
STEPS: Final = (
    *("global_step", "trainer/global_step", "train/global_step", "global_steps", "num_updates", "iteration", "iter"),
    *("current_steps", "step", "_step"),
)
_TOTALS: Final = ("max_steps", "total_steps", "train_iters")
# "350/1881" as one value.
_OF_TOTAL: Final = ("global_step/max_steps", "iteration")
_SECONDS: Final = (
    *("train_step_timing in s", "train_speed(s/it)", "step_time", "step_time_s", "iteration_time", "iter_time"),
    *("perf/step_time_seconds", "timing_s/step"),
)
_SAMPLES: Final = ("consumed_samples", "consumed samples", "samples_seen")
_TOKENS: Final = (
    *("consumed_tokens", "consumed tokens", "throughput/total_tokens", "throughput/total tokens", "tokens_seen"),
    *("num_input_tokens_seen", "num_tokens", "total_tokens"),
)
_TFLOPS: Final = ("tflops", "tflops_per_gpu", "tflops/gpu", "tflop/s/gpu", "tflops_per_device")

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "total_steps": _TOTALS,
    "loss": LOSSES,
    "grad_norm": _GRAD_NORMS,
    "learning_rate": _RATES,
    "step_time_s": _SECONDS,
    "tflops_per_gpu": _TFLOPS,
    "samples": _SAMPLES,
    "tokens": _TOKENS,
}
"""The names of each column of a step, for records that hold one value at a time."""

_PAIR: Final = re.compile(r"([0-9]{1,12})/([0-9]{1,12})")
# A number so short that it says only how large the count is: ``1.63e+6``.
_ROUND: Final = re.compile(r"[0-9.]+e\+?[0-9]+", re.IGNORECASE)


def step_from(values: Mapping[str, str]) -> TrainingStep:
    """The row that printed values make; names in lower case. Nothing is filled in that they do not say."""
    step, total = _step_of(values)
    return TrainingStep(
        step=step,
        total_steps=total,
        loss=_number(values, LOSSES),
        grad_norm=_number(values, _GRAD_NORMS),
        learning_rate=_number(values, _RATES),
        step_time_s=_step_time(values),
        tflops_per_gpu=_number(values, _TFLOPS),
        samples=_count(values, _SAMPLES),
        tokens=_count(values, _TOKENS),
    )


def has_loss(values: Mapping[str, str]) -> bool:
    """Whether a loss of training is among the values, a number or NaN."""
    return _number(values, LOSSES) is not None


def _step_of(values: Mapping[str, str]) -> tuple[int | None, int | None]:
    for name in _OF_TOTAL:
        pair = _PAIR.fullmatch(values.get(name, ""))
        if pair is not None:
            return int(pair[1]), int(pair[2])
    return _count(values, STEPS), _count(values, _TOTALS)


def _step_time(values: Mapping[str, str]) -> float | None:
    seconds = _number(values, _SECONDS)
    if seconds is None:
        speed = _number(values, ("train_speed(iter/s)",))
        return 1 / speed if speed else None
    return seconds


def _number(values: Mapping[str, str], names: tuple[str, ...]) -> float | None:
    for name in names:
        printed = values.get(name)
        if printed is not None:
            value = number(printed.encode("ascii", "replace"))
            if value is not None:
                return value
    return None


def _count(values: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    for name in names:
        printed = values.get(name)
        if printed is not None and not _ROUND.fullmatch(printed):
            value = whole(printed.encode("ascii", "replace"))
            if value is not None:
                return value
    return None
