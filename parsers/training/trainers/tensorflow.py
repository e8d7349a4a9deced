"""TensorFlow: estimators and the Model Garden.

    INFO:tensorflow:loss = 2.3, step = 100 (12.345 sec)
    INFO:tensorflow:Saving checkpoints for 1000 into /ckpt/model.ckpt.
    train | step:   1000 | steps/sec:   12.3 | output:
    I0301 10:20:30.123456 140641718562816 model_lib_v2.py:705] Step 100 per-step time 0.512s loss=1.234

https://www.tensorflow.org/api_docs/python/tf/estimator: basic_session_run_hooks.py; https://github.com/tensorflow/models:
orbit/controller.py. The time behind a step is that of all steps since the last print.
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.rules import Match, Rule, Said, event, number, whole
from aftershock.parsers.training.saves import NO_END
from aftershock.schemas.training import TrainingStep

_NUMBER: Final = rb"-?(?:[\d.]+(?:[eE][-+]?\d+)?|nan|inf)"


def _read_step(found: Match, _said: Said) -> TrainingStep:
    return TrainingStep(step=whole(found["step"]), loss=number(found["loss"]))


def _read_timed(found: Match, _said: Said) -> TrainingStep:
    return TrainingStep(step=whole(found["step"]), loss=number(found["loss"]), step_time_s=number(found["seconds"]))


def _read_orbit(found: Match, said: Said) -> TrainingStep | None:
    text = said.message[found.end() :] + b"\n" + b"\n".join(list(said.below())[:16])
    loss = re.search(rb"'(?:training_loss|loss|train_loss)': (" + _NUMBER + rb")", text)
    if loss is None:
        return None
    speed = number(found["speed"])
    row = TrainingStep(step=whole(found["step"]), loss=number(loss[1]))
    row.step_time_s = 1 / speed if speed else None
    return row


RULES: Final = (
    Rule(
        words=(b", step = ",),
        shape=later(
            rb"\bloss = (?P<loss>" + _NUMBER + rb"), (?:[^\n]{0,200}, )?step = (?P<step>\d{1,12})(?= \(|,|\s*\Z)"
        ),
        row=_read_step,
        only="step",
    ),
    Rule(
        words=(b" per-step time ",),
        shape=later(
            rb"\bStep (?P<step>\d{1,12}) per-step time (?P<seconds>\d{1,9}(?:\.\d{1,9})?)s loss=(?P<loss>"
            + _NUMBER
            + rb")"
        ),
        row=_read_timed,
        only="step",
    ),
    Rule(
        words=(b"| steps/sec: ",),
        shape=later(rb"\btrain \| step: +(?P<step>\d{1,12}) \| steps/sec: +(?P<speed>[\d.]{1,16}) \| output:"),
        row=_read_orbit,
        only="step",
    ),
    Rule(
        words=(b"Saving checkpoints for ",),
        shape=later(rb"\bSaving checkpoints for (?P<step>\d{1,12}) into (?P<path>\S{1,1000}?)\.?(?=\s|\Z)"),
        row=event("save_begin"),
        mark=NO_END,
    ),
    Rule(
        words=(b"Restoring parameters from ",),
        shape=later(rb"\bRestoring parameters from (?P<path>\S{0,1000}?-(?P<step>\d{1,12}))(?=\s|\Z)"),
        row=event("load_begin"),
        mark=NO_END,
    ),
)

SAMPLES: Final = (
    Sample(
        "I0301 10:20:30.123456 140641718562816 model_lib_v2.py:705] Step 100 per-step time 0.512s loss=1.234\n",
        (expect("training_steps", step=100, loss=1.234, step_time_s=0.512),),
        title="TensorFlow: object detection",
        url="https://github.com/tensorflow/models",
    ),
    Sample(
        "INFO:tensorflow:Restoring parameters from /ckpt/model.ckpt-100\n"
        "INFO:tensorflow:loss = 2.3, step = 200 (12.345 sec)\n"
        "INFO:tensorflow:Saving checkpoints for 200 into /ckpt/model.ckpt.\n"
        "INFO:tensorflow:loss = 2.2, step = 300 (12.345 sec)\n",
        (
            expect("training_events", kind="load_begin", step=100, path="/ckpt/model.ckpt-100"),
            expect("checkpoints", kind="load", step=100, complete=True),
            expect("training_steps", step=200, loss=2.3, step_time_s=None),
            expect("training_events", kind="save_begin", step=200, path="/ckpt/model.ckpt"),
            expect("checkpoints", kind="save", step=200, complete=True),
            expect("training_steps", step=300, loss=2.2),
        ),
        title="TensorFlow: estimator",
        url="https://www.tensorflow.org",
    ),
    Sample(
        "train | step:   1000 | steps/sec:   12.5 | output: \n    {'learning_rate': 0.1,\n     'training_loss': 2.5}\n",
        (expect("training_steps", step=1000, loss=2.5, step_time_s=0.08),),
        title="TensorFlow: Model Garden",
        url="https://github.com/tensorflow/models",
    ),
)

NON_SAMPLES: Final = ("the weight loss = good, step = first\n", "train | step: soon\n")
