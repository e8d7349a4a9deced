r"""Meters of vision and speech: steps with a value and its average behind it, as scripts after one example print them.

    Epoch: [3][  10/5005]\tTime  0.501 ( 1.020)\tData  0.001 ( 0.200)\tLoss 6.9078e+00 (7.0012e+00)\tAcc@1 ...
    Epoch: [3]  [  10/5005]  eta: 0:40:12  lr: 0.1000  loss: 6.9078 (7.0012)  time: 0.5012  data: 0.0010  max mem: 16861
    Train: 3 [  50/1251 (  4%)]  Loss: 6.95 (6.93)  Time: 0.402s, 2547.37/s  (0.512s, 2000.11/s)  LR: 1.000e-06
    Train: [3/300][10/1251]\teta 0:20:11 lr 0.000001\ttime 0.4101 (0.9761)\tloss 6.9456 (6.9632)
    Epoch [3][50/7330]\tlr: 1.978e-03, eta: 11:11:10, time: 0.502, data_time: 0.053, memory: 3812, loss: 1.912

https://github.com/pytorch/examples (imagenet), https://github.com/pytorch/vision (references/detection/utils.py),
https://github.com/huggingface/pytorch-image-models, https://github.com/microsoft/Swin-Transformer,
https://github.com/open-mmlab/mmcv (its first generation). The counts are those within an epoch: the step is that of all
epochs before and of this one. Epochs count from 0, but for mmcv.
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.rules import Match, Rule, Said, number, whole
from aftershock.schemas.training import TrainingStep

_NUMBER: Final = rb"-?(?:\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|nan|inf)"
_VALUE: Final = re.compile(
    rb"(?<![\w.])(?P<name>lr|LR|time|Time|loss|Loss|grad_norm)(?:: *| +)(?P<value>" + _NUMBER + rb")(?=[\s,(s]|\Z)"
)


def _read_step(found: Match, _said: Said) -> TrainingStep | None:
    values: dict[bytes, bytes] = {}
    for name, value in _VALUE.findall(found["values"]):
        values.setdefault(name.lower(), value)
    if b"loss" not in values:
        return None
    groups = found.groupdict()
    epoch, step, size = (whole(groups[name]) for name in ("epoch", "step", "size"))
    if epoch is None or step is None or size is None:
        return None
    epochs = whole(groups.get("epochs"))
    row = TrainingStep(step=epoch * size + step, loss=number(values[b"loss"]))
    row.total_steps = epochs * size if epochs is not None else None
    row.learning_rate = number(values.get(b"lr"))
    row.step_time_s = number(values.get(b"time"))
    row.grad_norm = number(values.get(b"grad_norm"))
    return row


def _read_step_of_mmcv(found: Match, said: Said) -> TrainingStep | None:
    row = _read_step(found, said)
    if row is not None and row.step is not None:
        row.step -= int(found["size"])
    return row


RULES: Final = (
    Rule(
        words=(b"Epoch: [", b"epoch: ["),
        shape=later(
            rb"\b[Ee]poch: \[(?P<epoch>\d{1,9})\](?:[ \t]{0,4}\[ *(?P<step>\d{1,12})/(?P<size>\d{1,12})\])[ \t]"
            rb"(?P<values>[^\r\n]{1,4000})"
        ),
        row=_read_step,
        only="step",
    ),
    Rule(
        words=(b"Train: ",),
        shape=later(
            rb"(?<!\w)Train: (?:(?P<epoch>\d{1,9}) \[ *(?P<step>\d{1,12})/(?P<size>\d{1,12}) \( *\d{1,3}%\)\][ \t])"
            rb"(?P<values>[^\r\n]{1,4000})"
        ),
        row=_read_step,
        only="step",
    ),
    Rule(
        words=(b"Train: [",),
        shape=later(
            rb"(?<!\w)Train: \[(?P<epoch>\d{1,9})/(?P<epochs>\d{1,9})\]\[(?P<step>\d{1,12})/(?P<size>\d{1,12})\][ \t]"
            rb"(?P<values>[^\r\n]{1,4000})"
        ),
        row=_read_step,
        only="step",
    ),
    Rule(
        words=(b"Epoch [",),
        shape=later(
            rb"(?<!\w)Epoch \[(?P<epoch>[1-9]\d{0,8})\]\[(?P<step>\d{1,12})/(?P<size>\d{1,12})\]\t"
            rb"(?P<values>lr: [^\r\n]{1,4000})"
        ),
        row=_read_step_of_mmcv,
        only="step",
    ),
)

SAMPLES: Final = (
    Sample(
        "Epoch: [1][  10/5005]\tTime  0.501 ( 1.020)\tData  0.001 ( 0.200)\tLoss 6.9078e+00 (7.0012e+00)\tAcc@1   0.00 "
        "(  0.14)\n"
        "Epoch: [1]  [  20/5005]  eta: 0:40:12  lr: 0.1000  loss: 6.8078 (7.0012)  loss_ce: 3.1 (3.2)  time: 0.5012  "
        "data: 0.0010  max mem: 16861\n",
        (
            expect("training_steps", step=5015, loss=6.9078, step_time_s=0.501),
            expect("training_steps", step=5025, loss=6.8078, step_time_s=0.5012, learning_rate=0.1),
        ),
        title="Meters of PyTorch's examples",
        url="https://github.com/pytorch/examples",
    ),
    Sample(
        "Train: 2 [  50/1251 (  4%)]  Loss: 6.95 (6.93)  Time: 0.402s, 2547.37/s  (0.512s, 2000.11/s)  LR: 1.000e-06  "
        "Data: 0.012 (0.101)\n"
        "[2026-03-01 10:20:30 swin_tiny] (main.py 220): INFO Train: [2/300][60/1251]\teta 0:20:11 lr 0.000001\t wd 0.05"
        "\ttime 0.4101 (0.9761)\tloss 6.9456 (6.9632)\tgrad_norm 1.2345 (1.4021)\tmem 10812MB\n",
        (
            expect("training_steps", step=2552, loss=6.95, step_time_s=0.402, learning_rate=1e-6),
            expect("training_steps", step=2562, total_steps=375300, loss=6.9456, grad_norm=1.2345),
        ),
        title="Meters of image models",
        url="https://github.com/huggingface/pytorch-image-models",
    ),
    Sample(
        "2026-03-01 10:20:30,123 - mmdet - INFO - Epoch [2][50/7330]\tlr: 1.978e-03, eta: 11:11:10, time: 0.502, "
        "data_time: 0.053, memory: 3812, loss_cls: 0.512, loss: 1.912\n",
        (expect("training_steps", step=7380, loss=1.912, learning_rate=1.978e-03, step_time_s=0.502),),
        title="mmcv",
        url="https://github.com/open-mmlab/mmcv",
    ),
)

NON_SAMPLES: Final = (
    "Test: [  10/196]\tTime  0.501 ( 1.020)\tLoss 6.9078e+00 (7.0012e+00)\tAcc@1   0.00 (  0.14)\n",
    "Epoch: [3] Total time: 0:40:12 (0.5012 s / it)\n",
    "Epoch: [3]  [   0/5005]  eta: 0:40:12  lr: 0.1000  time: 0.5012  data: 0.0010\n",
    "Epoch [3/10] of the plan, loss of interest\n",
)
