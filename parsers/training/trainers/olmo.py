"""OLMo and OLMo-core: a head with the step, and a line for each value below it.

    2026-03-01 10:20:30.181<tab>host-1:0<tab>olmo.train:908<tab>INFO<tab>[step=1/739328,epoch=0]
        optim/total_grad_norm=231.7
        train/CrossEntropyLoss=12.18
    [step=10/???,epoch=1,eta=1h30m]    (early versions: without the epoch)
    Saving checkpoint for step 1000 to '/ckpt/step1000'...

https://github.com/allenai/OLMo, https://github.com/allenai/OLMo-core: olmo/train.py, train/trainer.py,
train/callbacks/console_logger.py. Numbers above a thousand have commas, those below 0.0001 are printed raw.
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.marks import SUCCESS
from aftershock.parsers.training.rules import Match, Rule, Said, event, whole
from aftershock.parsers.training.saves import LAST_STEP
from aftershock.parsers.training.values import step_from
from aftershock.schemas.training import TrainingStep

_LR: Final = re.compile(r"optim/lr(?: \(group 0\)|/group0)?")
# What stands below a head, and nothing else that trainers print: a name of several parts.
_VALUE: Final = re.compile(rb"([A-Za-z][^=\n]{0,60}/[^=\n]{1,120})=([^\s=]{1,40})")
# ``throughput/total tokens=1.234T``: what is as large as this is rounded.
_ROUNDED: Final = re.compile(r"[\d.,]+[BTPE]")


def _read_step(found: Match, said: Said) -> TrainingStep:
    values = {}
    for line in said.below():
        pair = _VALUE.fullmatch(line.rstrip())
        if pair is None:
            break
        value = text_of(pair[2])
        values[text_of(pair[1]).lower()] = "" if _ROUNDED.fullmatch(value) else value
    row = step_from({name: value for name, value in values.items() if name not in ("step", "iteration")})
    row.step, row.total_steps = whole(found["step"]), whole(found["total"])
    for name, value in values.items():
        if row.learning_rate is None and _LR.fullmatch(name):
            row.learning_rate = step_from({"lr": value}).learning_rate
    if values.get("optim/step skipped") not in (None, ""):
        row.skipped = whole(values["optim/step skipped"].encode("ascii", "replace"))
    return row


RULES: Final = (
    Rule(
        words=(b"[step=",),
        shape=later(
            rb"\[step=(?P<step>[\d,]{1,16})/(?:(?P<total>[\d,]{1,16})|\?\?\?|None)(?:,epoch=\d+[^\]\n]{0,60})?\]"
        ),
        row=_read_step,
        only="step",
    ),
    Rule(
        words=(
            b"aving checkpoint...",
            b"aving ephemeral checkpoint...",
            b"nsharded checkpoint...",
            b"model checkpoint...",
        ),
        scan=(b"checkpoint...",),
        shape=later(rb"\ASaving (?:final )?(?:ephemeral )?(?:unsharded )?(?:model )?checkpoint\.\.\."),
        row=event("save_begin"),
        mark=LAST_STEP,
    ),
    Rule(
        words=(b"heckpoint saved to ",),
        shape=later(
            rb"\A(?:Unsharded checkpoint|Checkpoint) saved to (?P<path>\S*?(?:step(?P<step>\d{1,12})(?:-unsharded)?)?"
            rb"/?)(?=\s|\Z)"
        ),
        row=event("save_end"),
    ),
    Rule(
        words=(b"Saving checkpoint for step ",),
        shape=later(rb"\ASaving checkpoint for step (?P<step>\d{1,12}) to '(?P<path>[^'\n]{1,1000})'"),
        row=event("save_begin"),
    ),
    Rule(
        words=(b"Checkpoint saved", b" saved successfully"),
        scan=(b"Checkpoint saved", b"Checkpoint for step "),
        shape=later(rb"\ACheckpoint (?:saved|for step (?P<step>\d{1,12}) saved successfully)\.?\s*\Z"),
        row=event("save_end"),
    ),
    Rule(
        words=(b"Loading checkpoint from ",),
        shape=later(
            rb"\ALoading checkpoint from '?(?P<path>[^'\s]{0,1000}?(?:step(?P<step>\d{1,12})(?:-unsharded)?)?/?)'?"
            rb"\.\.\.\s*\Z"
        ),
        row=event("load_begin"),
    ),
    Rule(
        words=(b"Checkpoint successfully loaded",),
        shape=later(rb"\ACheckpoint successfully loaded"),
        row=event("load_end"),
    ),
    Rule(
        words=(b"Will resume training from step ",),
        shape=later(rb"\AWill resume training from step (?P<step>\d{1,12})"),
        row=event("resume"),
    ),
    Rule(
        words=(b"Training complete", b"Training epoch complete"),
        shape=later(rb"\ATraining complete\.?\s*\Z"),
        row=event("exit"),
        mark=SUCCESS,
    ),
)

SAMPLES: Final = (
    Sample(
        "    System/Peak GPU Memory (MB)=6,784\n"
        "2026-03-01 10:20:30.181\thost-1:0\tolmo.train:908\tINFO\t[step=1/739328,epoch=0]\n"
        "    optim/total_grad_norm=231.7\n    train/CrossEntropyLoss=12.18\n    train/Perplexity=195,153\n"
        "    throughput/total_tokens=1,048,576\n"
        "2026-03-01 10:21:09.520\thost-1:0\tolmo.train:908\tINFO\t[step=2/739328,epoch=0]\n"
        "    train/CrossEntropyLoss=1.7872662283480167e-06\n",
        (
            expect("training_steps", step=1, total_steps=739328, loss=12.18, grad_norm=231.7, tokens=1048576, copies=1),
            expect("training_steps", step=2, loss=1.7872662283480167e-06, tokens=None, grad_norm=None),
        ),
        title="OLMo: step",
        url="https://github.com/allenai/OLMo",
    ),
    Sample(
        "2026-03-01 10:20:30.181\thost-1:0\tolmo_core.train.callbacks.console_logger:67\tINFO\t"
        "[step=1000/???,epoch=1,eta=1h30m]\n    train/CE loss=2.345\n    optim/total grad norm=0.5123\n    optim/LR "
        "(group"
        " 0)=3.00E-04\n    throughput/total tokens=1.234T\n"
        "2026-03-01 10:20:31.000\thost-1:0\tolmo_core.train.trainer:970\tINFO\tSaving checkpoint for step 1000 to "
        "'/ckpt/step1000'...\n"
        "2026-03-01 10:20:41.500\thost-1:0\tolmo_core.train.trainer:990\tINFO\tCheckpoint saved\n",
        (
            expect("training_steps", step=1000, total_steps=None, loss=2.345, learning_rate=3e-4, tokens=None),
            expect("training_events", kind="save_begin", step=1000, path="/ckpt/step1000"),
            expect("checkpoints", kind="save", step=1000, path="/ckpt/step1000", complete=True, duration_s=10.5),
            expect("training_events", kind="save_end", step=1000, path="/ckpt/step1000"),
        ),
        title="OLMo-core: step and save",
        url="https://github.com/allenai/OLMo-core",
    ),
    Sample(
        "[2026-03-01 10:20:30] INFO     [olmo.train:908, rank=0] [step=10/1000]\n    train/CrossEntropyLoss=2.345\n",
        (expect("training_steps", step=10, total_steps=1000, loss=2.345),),
        title="OLMo: step of an early version",
    ),
    Sample(
        "Loading checkpoint from '/ckpt/step1000'...\nCheckpoint successfully loaded\n"
        "Will resume training from step 1000, epoch 1\n",
        (
            expect("training_events", kind="load_begin", step=1000, path="/ckpt/step1000"),
            expect("checkpoints", kind="load", step=1000, complete=True),
            expect("training_events", kind="load_end", step=1000),
            expect("training_events", kind="resume", step=1000),
        ),
        title="OLMo-core: load",
    ),
)

NON_SAMPLES: Final = (
    "[eval_step=3/100]\n",
    "[step=next of the tour]\n",
    "Loading checkpoint from Nebula tier3\n",
)
