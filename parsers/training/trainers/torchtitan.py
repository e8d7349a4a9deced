"""torchtitan: steps with colours on a terminal, saves without a step.

    [titan] 2026-03-01 10:20:30,123 - root - INFO - step:  4  loss:  7.62585  grad_norm: 26.6250  memory: 66.91GiB ...
    [titan] 2026-03-01 10:20:31,000 - root - INFO - Saving the checkpoint.
    [titan] 2026-03-01 10:20:31,600 - root - INFO - Finished saving the checkpoint in 0.60 seconds.

https://github.com/pytorch/torchtitan: components/metrics.py, components/checkpoint.py, train.py. Each rank prints the
same lines. A save is that of the step printed before it, since a step is logged before it is saved. Under async modes
only the staging is timed: its end schedules the save, and no line tells when it has come to its end. Stages of a
pipeline that compute no loss print -1.
"""

from __future__ import annotations

from typing import Final

from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.marks import SUCCESS
from aftershock.parsers.training.rules import Match, Rule, Said, event, number, whole
from aftershock.parsers.training.saves import LAST_STEP, NO_END_LAST_STEP
from aftershock.schemas.training import TrainingStep

_NO_LOSS: Final = -1.0


def _read_step(found: Match, _said: Said) -> TrainingStep:
    loss = number(found["loss"])
    row = TrainingStep(step=whole(found["step"]), loss=None if loss == _NO_LOSS else loss)
    row.grad_norm = number(found["norm"])
    row.tflops_per_gpu = number(found["tflops"])
    return row


_NUMBER: Final = rb"-?(?:[\d.,]+(?:[eE][-+]?\d+)?|nan|inf)"

RULES: Final = (
    Rule(
        words=(b"step: ",),
        scan=(b"grad_norm: ", b"tps: ", b"wps: "),
        shape=later(
            rb"(?<!validate )(?<!validation )(?<!eval )(?<!val )(?<!test )"
            rb"\bstep: *(?P<step>\d{1,12})  +loss: +(?P<loss>" + _NUMBER + rb")"
            rb"(?:  +grad_norm: +(?P<norm>" + _NUMBER + rb"))?(?:  +memory: +[\d.]+GiB\([^)]{0,16}\))?"
            rb"(?:  +(?:tps|wps): +[\d,.]+)?(?:  +tflops: +(?P<tflops>" + _NUMBER + rb"))?"
        ),
        row=_read_step,
        only="step",
    ),
    Rule(
        words=(b"validate step: ",),
        shape=later(rb"\bvalidate step: *(?P<step>\d{1,12})  +loss: "),
        row=event("validation"),
    ),
    Rule(
        words=(b"aving the checkpoint", b"aving a checkpoint"),
        shape=later(rb"\ASaving (?:the|a) checkpoint(?: \(or staging if async is enabled\))?(?=\.)"),
        row=event("save_begin"),
        mark=LAST_STEP,
    ),
    Rule(
        words=(b"Staging the checkpoint",),
        shape=later(rb"\AStaging the checkpoint\."),
        row=event("save_begin"),
        mark=NO_END_LAST_STEP,
    ),
    Rule(
        words=(b" checkpoint in ", b" checkpoint at last step, step "),
        scan=(b" at last step, step ",),
        shape=later(
            rb"\ASaving a (?:model only|full) checkpoint (?:in \S{1,40} )?at last step, step (?P<step>\d{1,12})\."
        ),
        row=event("save_begin"),
    ),
    Rule(
        words=(b"Finished saving the checkpoint",),
        shape=later(
            rb"Finished saving the checkpoint (?:\(or staging if async is enabled\) ?)?in (?P<duration>[\d.]+) seconds"
        ),
        row=event("save_end"),
    ),
    Rule(
        words=(b"Finished staging the checkpoint",),
        shape=later(rb"Finished staging the checkpoint in (?P<duration>[\d.]+) seconds"),
        row=event("save_scheduled"),
    ),
    Rule(
        words=(b"Last step checkpoint completed in ",),
        shape=later(rb"Last step checkpoint completed in (?P<duration>[\d.]+) ?s"),
        row=event("save_end"),
    ),
    Rule(
        words=(b"Loading the checkpoint ",),
        shape=later(rb"\ALoading the checkpoint from (?P<path>\S*?(?:step-(?P<step>\d{1,12}))?/?)\.(?=\s|\Z)"),
        row=event("load_begin"),
    ),
    Rule(
        words=(b"Loading the checkpoint at step ",),
        shape=later(rb"\ALoading the checkpoint at step (?P<step>\d{1,12})\.(?=\s|\Z)"),
        row=event("load_begin"),
    ),
    Rule(
        words=(b"Finished loading the checkpoint",),
        shape=later(rb"Finished loading the checkpoint in (?P<duration>[\d.]+) seconds"),
        row=event("load_end"),
    ),
    Rule(
        words=(b"No checkpoint was provided, this is a fresh start",),
        shape=later(rb"No checkpoint was provided, this is a fresh start"),
        row=event("load_missing", step=0),
    ),
    Rule(
        words=(b"Training starts at step ",),
        shape=later(rb"\ATraining starts at step (?P<step>\d{1,12})"),
        row=event("start"),
    ),
    Rule(
        words=(b"Training completed",),
        shape=later(rb"\ATraining completed\.?\s*\Z"),
        row=event("exit"),
        mark=SUCCESS,
    ),
)


SAMPLES: Final = (
    Sample(
        "[titan] 2026-03-01 10:20:30,508 - root - INFO - \x1b[31mstep:  4  \x1b[32mloss:  7.62585  \x1b[38;2;180;60;0m"
        "grad_norm: 26.6250  \x1b[36mmemory: 66.91GiB(37.51%)  \x1b[34mtps: 10,050  \x1b[35mtflops: 314.71  mfu: "
        "13.99%\x1b[39m\n"
        "[titan] 2026-03-01 10:20:30,509 - root - INFO - step:  4  loss: -1.00000  grad_norm: 26.6250  memory: "
        "66.91GiB(37.51%)  tps: 10,050  tflops: 314.69  mfu: 13.99%\n"
        "[titan] 2026-03-01 10:20:31,001 - root - INFO - Saving the checkpoint.\n"
        "[titan] 2026-03-01 10:20:31,601 - root - INFO - Finished saving the checkpoint in 0.60 seconds.\n",
        (
            expect("training_steps", step=4, loss=7.62585, grad_norm=26.625, tflops_per_gpu=314.71, copies=2),
            expect("training_events", kind="save_begin", step=4),
            expect("checkpoints", kind="save", step=4, complete=True, duration_s=0.6),
            expect("training_events", kind="save_end", step=4, duration_s=0.6),
        ),
        title="torchtitan: step and save",
        url="https://github.com/pytorch/torchtitan",
    ),
    Sample(
        "[titan] 2026-03-01 10:20:31,000 - root - INFO - Loading the checkpoint from out/checkpoint/step-500.\n"
        "[titan] 2026-03-01 10:20:42,250 - root - INFO - Finished loading the checkpoint in 11.25 seconds.\n"
        "[titan] 2026-03-01 10:20:43,000 - root - INFO - Training starts at step 501\n"
        "[titan] 2026-03-01 10:30:43,000 - root - INFO - validate step: 600  loss:  2.1234  memory: 66.91GiB(37.51%)  "
        "tps: 10,050\n"
        "[titan] 2026-03-01 10:40:43,000 - root - INFO - Saving a full checkpoint at last step, step 1000.\n"
        "[titan] 2026-03-01 10:40:43,120 - root - INFO - Last step checkpoint completed in 0.12s\n"
        "[titan] 2026-03-01 10:40:44,000 - root - INFO - Training completed\n",
        (
            expect("training_events", kind="load_begin", step=500, path="out/checkpoint/step-500"),
            expect("checkpoints", kind="load", step=500, complete=True, duration_s=11.25),
            expect("training_events", kind="load_end", step=500, duration_s=11.25),
            expect("training_events", kind="start", step=501),
            expect("training_events", kind="validation", step=600),
            expect("training_events", kind="save_begin", step=1000),
            expect("checkpoints", kind="save", step=1000, complete=True, duration_s=0.12),
            expect("training_events", kind="save_end", step=1000, duration_s=0.12),
            expect("training_events", kind="exit"),
        ),
        title="torchtitan: load, validation, last save",
    ),
)

NON_SAMPLES: Final = (
    "Saving the checkpoint took long yesterday\n",
    "step: 3 of the recipe, loss: none, grad_norm: none\n",
    "[titan] 2026-03-01 10:20:30,123 - root - INFO - Training completed tasks are listed below\n",
)
