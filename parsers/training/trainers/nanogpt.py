"""nanoGPT and its kin: LitGPT, llm.c, modded-nanogpt.

    iter 100: loss 3.2012, time 120.10ms, mfu 30.00%
    step 1000: train loss 3.1000, val loss 3.2000
    Epoch 1 | iter 10 step 5 | loss train: 2.345, val: n/a | iter time: 123.45 ms (step) remaining time: 1:23:45
    step   10/19560 | loss 7.123456 (+0.12z)| norm 1.2345 (-0.10z)| lr 6.00e-05 | 1234.56 ms | 45.6% bf16 MFU | 4 tok/s
    step:10/1480 train_loss:6.1000 train_time:1234ms step_avg:123.40ms

https://github.com/karpathy/nanoGPT, https://github.com/Lightning-AI/litgpt, https://github.com/karpathy/llm.c,
https://github.com/KellerJordan/modded-nanogpt. LitGPT counts batches (iter) and steps apart.
"""

from __future__ import annotations

from typing import Final

from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.rules import Match, Rule, Said, event, number, whole
from aftershock.parsers.training.saves import NO_END_LAST_STEP
from aftershock.schemas.training import TrainingStep

_NUMBER: Final = rb"-?(?:[\d.]+(?:[eE][-+]?\d+)?|nan|inf)"


def _read_step(found: Match, _said: Said) -> TrainingStep:
    groups = found.groupdict()
    row = TrainingStep(step=whole(groups["step"]), total_steps=whole(groups.get("total")))
    row.loss = number(groups["loss"])
    row.grad_norm = number(groups.get("norm"))
    row.learning_rate = number(groups.get("lr"))
    millis = number(groups.get("millis"))
    row.step_time_s = None if millis is None else round(millis / 1000, 9)
    return row


def _read_litgpt(found: Match, _said: Said) -> TrainingStep:
    # Its time is that of a batch, which is a step only where no gradients are accumulated.
    return TrainingStep(step=whole(found["step"]), loss=number(found["loss"]))


RULES: Final = (
    Rule(
        words=(b": loss ",),
        scan=(b"ms, mfu ",),
        shape=later(
            rb"\biter (?P<step>\d{1,12}): loss (?P<loss>" + _NUMBER + rb"), time (?P<millis>[\d.]{1,16})ms, mfu "
        ),
        row=_read_step,
        only="step",
    ),
    Rule(
        words=(b": train loss ",),
        scan=(b", val loss ",),
        shape=later(rb"\bstep (?P<step>\d{1,12}): train loss " + _NUMBER + rb", val loss "),
        row=event("validation"),
        only="step",
    ),
    Rule(
        words=(b" | loss train: ",),
        shape=later(
            rb"\bEpoch \d{1,9} \| iter \d{1,12} step (?P<step>\d{1,12}) \| loss train: (?P<loss>" + _NUMBER + rb"),"
        ),
        row=_read_litgpt,
        only="step",
    ),
    Rule(
        words=(b"z)| norm ", b"| loss "),
        scan=(b" bf16 MFU | ", b"z)| norm "),
        shape=later(
            rb"\bstep +(?P<step>\d{1,12})/(?P<total>\d{1,12}) \| loss (?P<loss>"
            + _NUMBER
            + rb") \([^)\n]{1,16}\)\| norm (?P<norm>"
            + _NUMBER
            + rb") \([^)\n]{1,16}\)\| lr (?P<lr>"
            + _NUMBER
            + rb") \| (?P<millis>[\d.]{1,16}) ms"
        ),
        row=_read_step,
        only="step",
    ),
    Rule(
        words=(b" step_avg:",),
        shape=later(
            rb"\bstep:(?P<step>\d{1,12})/(?P<total>\d{1,12}) train_loss:(?P<loss>"
            + _NUMBER
            + rb") train_time:[\d.]+m?s step_avg:(?P<millis>[\d.]{1,16})ms"
        ),
        row=_read_step,
        only="step",
    ),
    Rule(
        words=(b" val_loss:",),
        scan=(b" step_avg:",),
        shape=later(rb"\bstep:(?P<step>\d{1,12})/\d{1,12} val_loss:" + _NUMBER),
        row=event("validation"),
    ),
    Rule(
        words=(b": val loss ",),
        scan=(b", val time: ",),
        shape=later(rb"\biter \d{1,12}: val loss " + _NUMBER + rb", val time: "),
        row=event("validation"),
    ),
    Rule(
        words=(b"saving checkpoint to ", b"Saving checkpoint to "),
        shape=later(
            rb"\A[sS]aving checkpoint to (?!: )['\"]?(?P<path>[^\s'\"]{0,1000}?(?:step-(?P<step>\d{1,12}))?(?:/lit_mo"
            rb"del\.pth)?)"
            rb"['\"]?\s*\Z"
        ),
        row=event("save_begin"),
        mark=NO_END_LAST_STEP,
        only="save",
    ),
    Rule(
        words=(b"Resuming training from ",),
        shape=later(rb"\AResuming training from (?P<path>[^\s'\"]*/step-(?P<step>\d{1,12})\S*)"),
        row=event("load_begin"),
    ),
)

SAMPLES: Final = (
    Sample(
        "iter 100: loss 3.2012, time 120.10ms, mfu 30.00%\nstep 1000: train loss 3.1000, val loss 3.2000\n"
        "saving checkpoint to out\n",
        (
            expect("training_steps", step=100, loss=3.2012, step_time_s=0.1201),
            expect("training_events", kind="validation", step=1000),
            expect("training_events", kind="save_begin", step=100, path="out"),
            expect("checkpoints", kind="save", complete=None),
        ),
        title="nanoGPT",
        url="https://github.com/karpathy/nanoGPT",
    ),
    Sample(
        "Epoch 1 | iter 10 step 5 | loss train: 2.345, val: n/a | iter time: 123.45 ms (step) remaining time: 1:23:45\n"
        "Saving checkpoint to 'out/step-00005/lit_model.pth'\n",
        (
            expect("training_steps", step=5, loss=2.345, step_time_s=None),
            expect("training_events", kind="save_begin", step=5, path="out/step-00005/lit_model.pth"),
            expect("checkpoints", kind="save", step=5),
        ),
        title="LitGPT",
        url="https://github.com/Lightning-AI/litgpt",
    ),
    Sample(
        "step   10/19560 | loss 7.123456 (+0.12z)| norm 1.2345 (-0.10z)| lr 6.00e-05 | 1234.56 ms | 45.6% bf16 MFU | "
        "423456 tok/s\n"
        "step:11/1480 train_loss:6.1000 train_time:1234ms step_avg:123.40ms\n",
        (
            expect("training_steps", step=10, total_steps=19560, loss=7.123456, grad_norm=1.2345, learning_rate=6e-05),
            expect("training_steps", step=11, total_steps=1480, loss=6.1, step_time_s=0.1234),
        ),
        title="llm.c, modded-nanogpt",
        url="https://github.com/karpathy/llm.c",
    ),
)

NON_SAMPLES: Final = (
    "iter 100: loss none, time 3 weeks, mfu unknown\n",
    "Saving checkpoint to: see the manual\n",
    "step 3: train loss of weight\n",
)
