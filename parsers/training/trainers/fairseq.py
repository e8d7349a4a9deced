"""fairseq: steps and checkpoints in its plain form (for the one in JSON see ``json_lines``).

    2026-03-01 10:20:30 | INFO | train_inner | epoch 001:    100 / 2000 loss=9.876, ..., num_updates=100, lr=2.5e-05
    2026-03-01 10:20:30 | INFO | fairseq.checkpoint_utils | Saved checkpoint ck.pt (epoch 1 @ 2000 updates, ...

https://github.com/facebookresearch/fairseq: logging/progress_bar.py, checkpoint_utils.py, trainer.py. The count behind
the epoch is that of its batches; the step is ``num_updates``.
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.rules import Match, Rule, Said, event, whole
from aftershock.parsers.training.values import step_from
from aftershock.schemas.events import TrainingEvent
from aftershock.schemas.training import TrainingStep

_VALUE: Final = re.compile(rb"([a-z_]{1,40})=([^,\s]{1,40})")


def _read_step(found: Match, _said: Said) -> TrainingStep | None:
    values = {text_of(name): text_of(value) for name, value in _VALUE.findall(found["values"])}
    values.pop("step", None)
    row = step_from(values)
    return row if row.loss is not None else None


def _read_valid(found: Match, _said: Said) -> TrainingEvent:
    updates = re.search(rb"\| num_updates (\d{1,12})", found["values"])
    return TrainingEvent(kind="validation", step=whole(updates[1]) if updates else None)


RULES: Final = (
    Rule(
        words=(b"loss=",),
        scan=(b"num_updates=", b" nll_loss="),
        shape=later(rb"\bepoch \d{3,9}: {1,8}\d{1,12} / \d{1,12} (?P<values>[^\r\n]{1,4000})"),
        row=_read_step,
        only="step",
    ),
    Rule(
        words=(b"valid on '",),
        shape=later(rb"\bepoch \d{3,9} \| valid on '[^'\n]{1,80}' subset \|(?P<values>[^\r\n]{1,4000})"),
        row=_read_valid,
    ),
    Rule(
        words=(b"Preparing to save checkpoint for epoch ",),
        shape=later(rb"Preparing to save checkpoint for epoch \d{1,9} @ (?P<step>\d{1,12}) updates"),
        row=event("save_begin"),
    ),
    Rule(
        words=(b"Saving checkpoint to ",),
        shape=later(rb"(?:\A|\| )Saving checkpoint to (?P<path>\S{1,1000}?(?:_\d{1,9}_(?P<step>\d{1,12}))?\.pt)\s*\Z"),
        row=event("save_begin"),
    ),
    Rule(
        words=(b"Finished saving checkpoint to ",),
        shape=later(
            rb"(?:\A|\| )Finished saving checkpoint to (?P<path>\S{1,1000}?(?:_\d{1,9}_(?P<step>\d{1,12}))?\.pt)\s*\Z"
        ),
        row=event("save_end"),
    ),
    Rule(
        words=(b"Saved checkpoint ",),
        scan=(b" updates, score ",),
        shape=later(
            rb"\bSaved checkpoint (?P<path>\S{1,1000}) \(epoch \d{1,9} @ (?P<step>\d{1,12}) updates[^)\n]{0,80}\)"
            rb"(?: \(writing took (?P<duration>[\d.]{1,20}) seconds\))?"
        ),
        row=event("save_end"),
    ),
    Rule(
        words=(b"Preparing to load checkpoint ",),
        shape=later(rb"\bPreparing to load checkpoint (?P<path>\S{1,1000})"),
        row=event("load_begin"),
    ),
    Rule(
        words=(b"Loaded checkpoint ",),
        scan=(b" updates)",),
        shape=later(
            rb"\bLoaded checkpoint (?P<path>\S{1,1000}) \(epoch \d{1,9} @ (?P<step>\d{1,12}) updates[^)\n]{0,80}\)"
        ),
        row=event("load_end"),
    ),
    Rule(
        words=(b"No existing checkpoint found ",),
        shape=later(rb"No existing checkpoint found \S"),
        row=event("load_missing", step=0),
    ),
)

SAMPLES: Final = (
    Sample(
        "2026-03-01 11:20:31 | INFO | fairseq.trainer | Saving checkpoint to /ckpt/checkpoint_2_5000.pt\n"
        "2026-03-01 11:20:43 | INFO | fairseq.trainer | Finished saving checkpoint to /ckpt/checkpoint_2_5000.pt\n",
        (
            expect("training_events", kind="save_begin", step=5000),
            expect("checkpoints", kind="save", step=5000, path="/ckpt/checkpoint_2_5000.pt", complete=True),
            expect("training_events", kind="save_end", step=5000),
        ),
        title="fairseq: checkpoints of its trainer",
    ),
    Sample(
        "2026-03-01 10:20:30 | INFO | train_inner | epoch 001:    100 / 2000 loss=9.876, nll_loss=9.8, ppl=891.1, "
        "wps=12345.6, ups=1.2, wpb=65536, bsz=128, num_updates=100, lr=2.5e-05, gnorm=1.234, loss_scale=128, "
        "train_wall=80, gb_free=20.1, wall=90\n"
        "2026-03-01 11:20:30 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 9.1 | ppl 548.7 | num_updates "
        "2000\n"
        "2026-03-01 11:20:31 | INFO | fairseq.checkpoint_utils | Preparing to save checkpoint for epoch 1 @ 2000 "
        "updates\n"
        "2026-03-01 11:20:43 | INFO | fairseq.checkpoint_utils | Saved checkpoint ck/checkpoint1.pt (epoch 1 @ 2000 "
        "updates, score 9.1) (writing took 12.3 seconds)\n",
        (
            expect("training_steps", step=100, loss=9.876, grad_norm=1.234, learning_rate=2.5e-05, total_steps=None),
            expect("training_events", kind="validation", step=2000),
            expect("training_events", kind="save_begin", step=2000),
            expect("checkpoints", kind="save", step=2000, path="ck/checkpoint1.pt", complete=True, duration_s=12.3),
            expect("training_events", kind="save_end", step=2000, duration_s=12.3),
        ),
        title="fairseq",
        url="https://github.com/facebookresearch/fairseq",
    ),
    Sample(
        "Preparing to load checkpoint ck/checkpoint_last.pt\n"
        "Loaded checkpoint ck/checkpoint_last.pt (epoch 1 @ 2000 updates)\n",
        (
            expect("training_events", kind="load_begin", step=2000),
            expect("checkpoints", kind="load", step=2000, complete=True),
            expect("training_events", kind="load_end", step=2000),
        ),
        title="fairseq: load",
    ),
)

NON_SAMPLES: Final = (
    "epoch 001:    100 / 2000 wps=12345.6, ups=1.2\n",
    "Saved checkpoint of the talk (see above)\n",
)
