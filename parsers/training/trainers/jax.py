"""MaxText and other JAX trainers on Orbax.

    completed step: 10, seconds: 1.200, TFLOP/s/device: 150.123, Tokens/s/device: 4567.800, total_weights: 65536, ...

https://github.com/AI-Hypercomputer/maxtext: src/maxtext/common/metric_logger.py, checkpointing.py. ``total_weights``
are the tokens of the step, not those since the beginning. Of an async save only the beginning is told.
"""

from __future__ import annotations

from typing import Final

from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.rules import Match, Rule, Said, event, number, whole
from aftershock.parsers.training.saves import NO_END
from aftershock.schemas.training import TrainingStep

_NUMBER: Final = rb"-?(?:[\d.]+(?:[eE][-+]?\d+)?|nan|inf)"


def _read_step(found: Match, _said: Said) -> TrainingStep:
    row = TrainingStep(step=whole(found["step"]), step_time_s=number(found["seconds"]), loss=number(found["loss"]))
    row.tflops_per_gpu = number(found["tflops"])
    return row


RULES: Final = (
    Rule(
        words=(b"completed step: ",),
        shape=later(
            rb"\bcompleted step: (?P<step>\d{1,12}), seconds: (?P<seconds>"
            + _NUMBER
            + rb")(?:, live slice count: \d+)?(?:, TFLOP/s(?:/device)?: (?P<tflops>"
            + _NUMBER
            + rb"))?(?:, Tokens/s/device: "
            + _NUMBER
            + rb")?(?:, total_weights: "
            + _NUMBER
            + rb")?(?:, loss: (?P<loss>"
            + _NUMBER
            + rb"))?"
        ),
        row=_read_step,
        only="step",
    ),
    Rule(
        words=(b"eval metrics after step: ", b"Completed eval after train step "),
        shape=later(rb"(?:eval metrics after step: |Completed eval after train step )(?P<step>\d{1,12})"),
        row=event("validation"),
    ),
    Rule(
        words=(b"Started an asynchronous checkpoint save for step ", b"saved a checkpoint at step "),
        shape=later(rb"(?:Started an asynchronous checkpoint save for|saved a checkpoint at) step (?P<step>\d{1,12})"),
        row=event("save_begin"),
        mark=NO_END,
    ),
    Rule(
        words=(b"Saved a checkpoint at step ",),
        shape=later(rb"Saved a checkpoint at step (?P<step>\d{1,12})"),
        row=event("save_end"),
    ),
    Rule(
        words=(b"restoring from this run's directory step ", b"restoring from this run's directory latest step "),
        shape=later(rb"restoring from this run's directory (?:latest )?step (?P<step>\d{1,12})"),
        row=event("resume"),
    ),
    Rule(
        words=(b"No existing checkpoints found, not restoring checkpoint",),
        shape=later(rb"No existing checkpoints found, not restoring checkpoint"),
        row=event("load_missing", step=0),
    ),
)

SAMPLES: Final = (
    Sample(
        "completed step: 10, seconds: 1.200, TFLOP/s/device: 150.123, Tokens/s/device: 4567.800, total_weights: 65536, "
        "loss: 3.456\n"
        "Started an asynchronous checkpoint save for step 10\n"
        "completed step: 11, seconds: 1.210, TFLOP/s/device: 149.000, Tokens/s/device: 4500.100, total_weights: 65536, "
        "loss: 3.455\n"
        "Completed eval after train step 11, loss=3.400, perplexity=29.964, total_weights=65536, avg_z_loss=0.000\n",
        (
            expect("training_steps", step=10, loss=3.456, step_time_s=1.2, tflops_per_gpu=150.123, tokens=None),
            expect("training_events", kind="save_begin", step=10),
            expect("checkpoints", kind="save", step=10, complete=True, end_time=None),
            expect("training_steps", step=11, step_time_s=1.21),
            expect("training_events", kind="validation", step=11),
        ),
        title="MaxText",
        url="https://github.com/AI-Hypercomputer/maxtext",
    ),
    Sample(
        "completed step: 107, seconds: 2.167, TFLOP/s: 36.722, loss: 2.191\n",
        (expect("training_steps", step=107, loss=2.191, step_time_s=2.167, tflops_per_gpu=36.722),),
        title="MaxText, early",
    ),
)

NON_SAMPLES: Final = (
    "completed profiler activation/deactivation step: 10, total_weights: 65536\n",
    "Completed eval step: 3, seconds: 0.100, running loss=3.400\n",
)
