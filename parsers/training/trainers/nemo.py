"""NeMo and Lightning: progress bars with a global step, printed progress, checkpoints.

    Epoch 0:   1%|          | 795/77225 [9:07:58<878:01:48, 41.36s/it, loss=3.1, v_num=, reduced_train_loss=3.090, ...
    Training epoch 0, iteration 9/999 | lr: 2.9e-06 | global_step: 9 | reduced_train_loss: 11.2 | train_step_timing ...
    [NeMo I 2026-03-01 10:20:30 dist_ckpt_io:312] Successfully saved checkpoint from iteration    1000 to /ckpt/a.ckpt

https://github.com/NVIDIA/NeMo: lightning/pytorch/callbacks, utils/callbacks; https://lightning.ai/docs/pytorch. The bar
counts the steps that are done, ``global_step`` is the number of the last one from 0. Without it the bar of an epoch
does not tell the step. Lightning itself tells how far a load is, and of a save only that it begins.
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.clock import Reading
from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.bars import BAR as TQDM
from aftershock.parsers.training.bars import bar_of
from aftershock.parsers.training.marks import SUCCESS
from aftershock.parsers.training.rules import Match, Rule, Said, Told, event, number, whole
from aftershock.parsers.training.saves import NO_END
from aftershock.parsers.training.values import step_from
from aftershock.schemas.events import TrainingEvent
from aftershock.schemas.training import TrainingStep

_FIELD: Final = re.compile(rb"\| *([A-Za-z][^|:]{0,60}?): *([^|\s]{1,40})")
_STEP_IN_PATH: Final = re.compile(rb"\bstep[=_-]?(\d{1,12})")


def _read_bar(found: Match, _said: Said) -> TrainingStep | None:
    bar = bar_of(found)
    about = bar.about.lower()
    if "global_step" not in bar.values and not about.startswith("epoch"):
        return None
    row = step_from(bar.values)
    if row.step is None:
        row.step = _rounded_step(bar.values.get("global_step", ""), bar.done)
    if row.step is None or row.loss is None or about.startswith(("valid", "test", "sanity")):
        return None
    row.total_steps = row.total_steps if row.total_steps is not None else bar.total if bar.done >= row.step else None
    row.step_time_s = row.step_time_s if row.step_time_s is not None else bar.seconds
    return row


def _rounded_step(printed: str, done: int) -> int | None:
    """The step of which tqdm prints three digits (``3.2e+4``): that of the bar, if the bar counts since step 0."""
    rounded = number(printed.encode("ascii", "replace"))
    return next((step for step in (done - 1, done) if step > 0 and float(f"{step:.3g}") == rounded), None)


def _read_printed(found: Match, _said: Said) -> TrainingStep:
    values = {text_of(name).lower(): text_of(value) for name, value in _FIELD.findall(found["fields"])}
    row = step_from(values)
    row.step = row.step if row.step is not None else whole(found["step"])
    last = whole(found["last"])
    row.total_steps = None if last is None else last + 1
    return row


def _path_event(kind: str, path: bytes | None) -> TrainingEvent:
    row = TrainingEvent(kind=kind)
    if path:
        row.path = text_of(path)
        steps = _STEP_IN_PATH.findall(path.rpartition(b"/")[2])
        row.step = int(steps[-1]) if steps else None
    return row


def _read_scheduled(found: Match, _said: Said) -> TrainingEvent:
    return _path_event("save_scheduled", found["path"])


def _read_finalized(found: Match, _said: Said) -> Told:
    row = TrainingEvent(kind="save_end", step=whole(found["step"]))
    row.path = text_of(found["path"])
    at = number(found["at"])
    return Told(row, None if at is None else Reading("epoch", round(at * 1e6), None, None, 1, text_of(found["at"])))


RULES: Final = (
    Rule(
        words=(b"global_step=",),
        shape=later(TQDM.pattern),
        row=_read_bar,
    ),
    Rule(
        words=(b"Training epoch ",),
        shape=later(
            rb"\bTraining epoch \d{1,9}, iteration (?P<step>\d{1,12})/(?P<last>\d{1,12}) (?P<fields>\|[^\r\n]{1,4000})"
        ),
        row=_read_printed,
    ),
    Rule(
        words=(b"Scheduled async checkpoint save for ",),
        shape=later(rb"Scheduled async checkpoint save for (?P<path>\S+)"),
        row=_read_scheduled,
    ),
    Rule(
        words=(b"Async checkpoint save for step ",),
        shape=later(
            rb"Async checkpoint save for step (?P<step>\d{1,12}) \((?P<path>[^)\n]{1,1000})\) finalized successfully"
            rb"(?: at (?P<at>\d{9,11}(?:\.\d{1,9})?))?"
        ),
        row=_read_finalized,
    ),
    Rule(
        words=(b", saving model to ",),
        shape=later(rb"\bglobal step (?P<step>\d{1,12}): .{0,200}?, saving model to '(?P<path>[^'\n]{1,1000})'"),
        row=event("save_begin"),
        mark=NO_END,
    ),
    Rule(
        words=(b"Restoring states from the checkpoint path at ", b"Restoring states from the checkpoint at "),
        shape=later(rb"Restoring states from the checkpoint (?:path )?at (?P<path>\S+)"),
        row=lambda found, _: _path_event("load_begin", found["path"]),
    ),
    Rule(
        words=(b"Restored all states from the checkpoint ", b"Loaded model weights from the checkpoint at "),
        shape=later(rb"(?:Restored all states|Loaded model weights) from the checkpoint (?:file )?at (?P<path>\S+)"),
        row=lambda found, _: _path_event("load_end", found["path"]),
    ),
    Rule(
        words=(b"`Trainer.fit` stopped: ",),
        shape=later(rb"`Trainer\.fit` stopped: (?:`max_steps=(?P<step>\d{1,12})`)?"),
        row=event("exit"),
        mark=SUCCESS,
    ),
)

SAMPLES: Final = (
    Sample(
        "Epoch 0:   1%|          | 795/77225 [9:07:58<878:01:48, 41.36s/it, loss=3.1, v_num=, reduced_train_loss=3.090,"
        " global_step=794.0, consumed_samples=1.63e+6]\n",
        (expect("training_steps", step=794, total_steps=77225, loss=3.09, step_time_s=41.36, samples=None, copies=1),),
        title="NeMo: progress bar",
        url="https://github.com/NVIDIA/NeMo",
    ),
    Sample(
        "Training epoch 0, iteration 9/999 | lr: 2.999e-06 | global_batch_size: 512 | global_step: 9 | "
        "consumed_samples:"
        " 5120 | reduced_train_loss: 11.03 | train_step_timing in s: 4.512\n",
        (expect("training_steps", step=9, total_steps=1000, loss=11.03, learning_rate=2.999e-06, step_time_s=4.512),),
        title="NeMo: printed progress",
    ),
    Sample(
        "[NeMo I 2026-03-01 10:20:30 model_checkpoint:632] Scheduled async checkpoint save for /ckpt/a--step=999.ckpt\n"
        "[NeMo I 2026-03-01 10:21:30 model_checkpoint:657] Async checkpoint save for step 999 (/ckpt/a--step=999.ckpt) "
        "finalized successfully.\n",
        (
            expect("training_events", kind="save_scheduled", step=999, path="/ckpt/a--step=999.ckpt"),
            expect("checkpoints", kind="save", step=999, start_time=None, complete=True, duration_s=None),
            expect("training_events", kind="save_end", step=999),
        ),
        title="NeMo: async save",
    ),
    Sample(
        "Restoring states from the checkpoint path at /ckpt/epoch=0-step=500.ckpt\n"
        "Restored all states from the checkpoint at /ckpt/epoch=0-step=500.ckpt\n"
        "Epoch 1, global step 1000: 'val_loss' reached 1.23456 (best 1.23456), saving model to "
        "'/ckpt/epoch=1-step=1000.ckpt' as top 1\n"
        "`Trainer.fit` stopped: `max_steps=1000` reached.\n",
        (
            expect("training_events", kind="load_begin", step=500),
            expect("checkpoints", kind="load", step=500, complete=True),
            expect("training_events", kind="load_end", step=500),
            expect("training_events", kind="save_begin", step=1000, path="/ckpt/epoch=1-step=1000.ckpt"),
            expect("checkpoints", kind="save", step=1000, end_time=None, complete=True),
            expect("training_events", kind="exit", step=1000),
        ),
        title="Lightning: checkpoints",
        url="https://lightning.ai/docs/pytorch/stable/common/checkpointing.html",
    ),
)

NON_SAMPLES: Final = (
    "Validation DataLoader 0:  10%|█         | 10/100 [00:04<00:38, 2.35it/s]\n",
    "Sanity Checking DataLoader 0: 100%|██████████| 2/2 [00:00<00:00, 10.00it/s]\n",
    "Training epoch 3 begins\n",
    "global step 1000: 'val_loss' was not in top 1\n",
)
