"""Detectron2 and MMEngine: steps and checkpoints as they print them.

    [03/01 10:20:30 d2.utils.events]:  eta: 1:02:03  iter: 1999  total_loss: 0.789  loss_cls: 0.2  time: 0.4512  ...
    03/01 10:20:30 - mmengine - INFO - Iter(train) [  50/90000]  lr: 1.0e-02  eta: 1:02:03  time: 0.5  loss: 1.2345

https://github.com/facebookresearch/detectron2: utils/events.py; https://github.com/open-mmlab/mmengine. The counts of
``Epoch(train)`` are those within an epoch: the step is that of all epochs before and of this one. No line says that a
save has come to its end.
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.rules import Match, Rule, Said, event, number, whole
from aftershock.parsers.training.saves import NO_END_LAST_STEP
from aftershock.schemas.training import TrainingStep

ORDER: Final = 48  # before trainers whose checkpoints have no step in their names

_NUMBER: Final = rb"-?(?:[\d.]+(?:[eE][-+]?\d+)?|nan|inf)"
_VALUE: Final = re.compile(rb"(?<!\S)(lr|base_lr|time|loss|total_loss|grad_norm): (" + _NUMBER + rb")(?!\S)")


def _read_step(found: Match, _said: Said) -> TrainingStep | None:
    groups = found.groupdict()
    values = dict(_VALUE.findall(found["values"]))
    loss = values.get(b"total_loss", values.get(b"loss"))
    if loss is None:
        return None
    row = TrainingStep(step=whole(found["step"]), total_steps=whole(groups.get("total")), loss=number(loss))
    epoch, in_epoch = whole(groups.get("epoch")), whole(groups.get("size"))
    if epoch is not None and in_epoch is not None and row.step is not None:
        row.step += (epoch - 1) * in_epoch
    row.grad_norm = number(values.get(b"grad_norm"))
    row.learning_rate = number(values.get(b"lr"))
    row.step_time_s = number(values.get(b"time"))
    return row


RULES: Final = (
    Rule(
        words=(b"  total_loss: ",),
        shape=later(rb"  iter: (?P<step>\d{1,12})(?P<values>  [^\r\n]{1,4000})"),
        row=_read_step,
        only="step",
    ),
    Rule(
        words=(b"Iter(train) [",),
        shape=later(rb"\bIter\(train\) +\[ *(?P<step>\d{1,12})/(?P<total>\d{1,12})\](?P<values>  [^\r\n]{1,4000})"),
        row=_read_step,
        only="step",
    ),
    Rule(
        words=(b"Epoch(train) ",),
        shape=later(
            rb"\bEpoch\(train\) +\[ *(?P<epoch>[1-9]\d{0,8})\]\[ *(?P<step>\d{1,12})/(?P<size>\d{1,12})\]"
            rb"(?P<values>  [^\r\n]{1,4000})"
        ),
        row=_read_step,
        only="step",
    ),
    Rule(
        words=(b"Saving checkpoint at ",),
        shape=later(rb"\ASaving checkpoint at (?:(?P<step>\d{1,12}) iterations|\d{1,9} epochs)\s*\Z"),
        row=event("save_begin"),
        mark=NO_END_LAST_STEP,
    ),
    Rule(
        words=(b"Saving checkpoint to ",),
        shape=later(rb"\ASaving checkpoint to (?P<path>\S{1,400}?(?:_(?P<step>\d{7}))?\.pth)\s*\Z"),
        row=event("save_begin"),
        mark=NO_END_LAST_STEP,
        only="save",
    ),
)

SAMPLES: Final = (
    Sample(
        "[03/01 10:20:30 d2.utils.events]:  eta: 1:02:03  iter: 1999  total_loss: 0.789  loss_cls: 0.2  time: 0.4512  "
        "data_time: 0.01  lr: 0.02  max_mem: 1234M\n",
        (expect("training_steps", step=1999, loss=0.789, learning_rate=0.02, step_time_s=0.4512),),
        title="Detectron2",
        url="https://github.com/facebookresearch/detectron2",
    ),
    Sample(
        "03/01 10:20:30 - mmengine - INFO - Iter(train) [  50/90000]  lr: 1.0000e-02  eta: 1:02:03  time: 0.5  "
        "data_time: 0.01  memory: 1234  loss: 1.2345  loss_cls: 0.5\n"
        "03/01 10:21:30 - mmengine - INFO - Epoch(train)   [3][  50/1000]  lr: 1.0000e-02  eta: 1:02:03  time: 0.5  "
        "data_time: 0.01  memory: 1234  grad_norm: 3.2  loss: 1.2\n",
        (
            expect("training_steps", step=50, total_steps=90000, loss=1.2345, step_time_s=0.5),
            expect("training_steps", step=2050, loss=1.2, grad_norm=3.2),
        ),
        title="MMEngine",
        url="https://github.com/open-mmlab/mmengine",
    ),
    Sample(
        "03/01 10:20:30 - mmengine - INFO - Saving checkpoint at 5000 iterations\n"
        "[03/01 10:20:30 fvcore.common.checkpoint]: Saving checkpoint to ./output/model_0004999.pth\n",
        (
            expect("training_events", kind="save_begin", step=5000),
            expect("checkpoints", kind="save", step=5000),
            expect("training_events", kind="save_begin", step=4999),
            expect("checkpoints", kind="save", step=4999, path="./output/model_0004999.pth"),
        ),
        title="MMEngine and Detectron2: checkpoints",
        url="https://github.com/open-mmlab/mmengine",
    ),
)

NON_SAMPLES: Final = ("Epoch(val) [3][ 50/100]  coco/bbox_mAP: 0.3\n", "the  total_loss: of the company\n")
