"""Hugging Face Trainer, TRL, Axolotl, LLaMA-Factory and ModelScope Swift: dicts of values, and progress bars.

     14%|█▍        | 380/2724 [14:02:33<86:01:24, 132.12s/it]
    {'loss': 2.0491, 'learning_rate': 0.0001961913563176343, 'epoch': 0.28}
    {'loss': '3.906', 'grad_norm': '1.013', 'learning_rate': '4.5e-05', 'epoch': '0.1562'}
    {'loss': 1.02, 'epoch': 0.56, 'global_step/max_steps': '350/1881', 'train_speed(s/it)': 32.17}
    Saving model checkpoint to out/checkpoint-500

https://github.com/huggingface/transformers: trainer.py, trainer_callback.py. The dict is a Python repr (newer versions
quote the numbers) and has no step: it is that of the bar, which is drawn again below the dict when that is written, and
may lag behind before it. No line says that a save has come to its end.
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.bars import BAR as TQDM
from aftershock.parsers.training.bars import Bar, bar_of
from aftershock.parsers.training.marks import SUCCESS
from aftershock.parsers.training.rules import Match, Rule, Said, Told, event, number
from aftershock.parsers.training.saves import NO_END
from aftershock.parsers.training.steps import BAR, VALUES, values_above
from aftershock.parsers.training.values import has_loss, step_from
from aftershock.schemas.events import TrainingEvent
from aftershock.schemas.training import TrainingStep

_PAIR: Final = re.compile(rb"'([^'\n]{1,80})': (?:'([^'\n]{0,80})'|\"([^\"\n]{0,80})\"|([^,{}'\"\n]{1,60}))")
# What one of these dicts holds beside a loss: other programs print dicts with a loss, too.
_BESIDE: Final = frozenset({"epoch", "learning_rate", "lr", "grad_norm", "global_step/max_steps", "iteration"})

# Bars of the training itself; those of data sets, downloads and evaluations say what they count.
_TRAINING: Final = frozenset({"", "train", "training", "training progress", "steps", "total steps"})


def _values(printed: bytes) -> dict[str, str]:
    """A printed dict as names in lower case and values without quotes."""
    return {
        text_of(name).lower(): text_of(one or other or bare).strip()
        for name, one, other, bare in _PAIR.findall(printed)
    }


def _read_dict(found: Match, said: Said) -> TrainingStep | TrainingEvent | Told | None:
    values = _values(found["dict"])
    if "train_runtime" in values:
        return Told(TrainingEvent(kind="exit", duration_s=number(values["train_runtime"].encode())), None, SUCCESS)
    if "eval_runtime" in values or "eval_loss" in values:
        seconds = next((value for name, value in values.items() if name.endswith("_runtime")), None)
        steps = step_from({name: value for name, value in values.items() if not name.startswith("eval_")})
        return TrainingEvent(
            kind="validation", step=steps.step, duration_s=number(seconds.encode()) if seconds is not None else None
        )
    if not has_loss(values) or not (_BESIDE & values.keys()):
        return None
    row = step_from(values)
    return row if row.step is not None else Told(row, None, _mark_of_bar_below(said))


def _mark_of_bar_below(said: Said) -> str | None:
    """The bar that is drawn again as soon as the values are written, if it stands there."""
    for text in said.below():
        # Below a line with carriage returns the parts are not cut yet.
        first = next((part for part in text.split(b"\r") if part.strip()), None)
        if first is None:
            continue
        found = TQDM.match(first.strip())
        if found is not None:
            bar = bar_of(found)
            if bar.about.lower() in _TRAINING and bar.done:
                return values_above(bar.done, bar.total)
        return None
    return None


def _is_drawn_again(bar: Bar, said: Said) -> bool:
    """Whether the next print is the same bar with another loss: a bar is drawn as it moves on, and with its values."""
    first = next((part for part in next(said.below(), b"").split(b"\r") if part.strip()), b"")
    found = TQDM.match(first.strip())
    if found is None:
        return False
    again = bar_of(found)
    same = (again.about, again.done, again.total) == (bar.about, bar.done, bar.total)
    return same and has_loss(again.values) and step_from(again.values).loss != step_from(bar.values).loss


def _read_bar(found: Match, _said: Said) -> TrainingStep | None:
    bar = bar_of(found)
    if bar.about.lower() not in _TRAINING or has_loss(bar.values) or "global_step" in bar.values:
        return None
    return TrainingStep(step=bar.done, total_steps=bar.total, step_time_s=bar.seconds)


def _read_bar_with_values(found: Match, said: Said) -> TrainingStep | None:
    """A bar of someone's own loop with a loss behind it. That of an epoch does not know the step."""
    bar = bar_of(found)
    if _is_drawn_again(bar, said):
        return None  # with the values of the step before
    if not has_loss(bar.values) or "global_step" in bar.values or bar.about.lower().startswith(("val", "eval", "test")):
        return None
    row = step_from(bar.values)
    if row.step is None and "epoch" not in bar.about.lower():
        row.step, row.total_steps = bar.done, bar.total
    row.step_time_s = row.step_time_s if row.step_time_s is not None else bar.seconds
    return row


RULES: Final = (
    Rule(
        words=(b"%|",),
        shape=later(TQDM.pattern),
        row=_read_bar,
        mark=BAR,
    ),
    Rule(
        words=(b"loss=", b"Loss="),
        scan=(b"it, loss=", b"/s, loss=", b"it, Loss=", b"/s, Loss=", b"train/loss=", b"train_loss="),
        shape=later(TQDM.pattern),
        row=_read_bar_with_values,
    ),
    Rule(
        words=(b"'loss': ", b"'train_runtime': ", b"'eval_loss': ", b"'eval_runtime': ", b"'train_loss': "),
        shape=later(rb"(?<![\w=])(?P<dict>\{'[^{}\n]{1,4000}\})"),
        row=_read_dict,
        mark=VALUES,
    ),
    Rule(
        words=(b"***** Running training *****",),
        shape=later(rb"\*{5} Running training \*{5}"),
        row=event("start"),
    ),
    Rule(
        words=(b"Resuming training from checkpoint with epoch", b"Continuing training from global step"),
        shape=later(
            rb"(?:Resuming training from checkpoint with epoch \d+ and global step|Continuing training from global st"
            rb"ep)"
            rb" (?P<step>\d+)"
        ),
        row=event("resume"),
    ),
    Rule(
        words=(b"Saving model checkpoint to ",),
        shape=later(rb"Saving model checkpoint to (?P<path>\S*?(?:checkpoint-(?P<step>\d+))?/?)(?=[\s.,]*\Z|\s)"),
        row=event("save_begin"),
        mark=NO_END,
    ),
    Rule(
        words=(b"Loading model from ",),
        shape=later(rb"Loading model from (?P<path>\S*?checkpoint-(?P<step>\d+))[/.]?(?=\s|\Z)"),
        row=event("load_begin"),
        mark=NO_END,
    ),
)

SAMPLES: Final = (
    Sample(
        " 14%|█▍        | 380/2724 [14:02:33<86:01:24, 132.12s/it]\n"
        "{'loss': 2.0491, 'learning_rate': 0.00019619, 'epoch': 0.28}\n",
        (
            expect(
                "training_steps",
                step=380,
                total_steps=2724,
                loss=2.0491,
                learning_rate=0.00019619,
                step_time_s=132.12,
                copies=1,
            ),
        ),
        title="Hugging Face: values below a progress bar",
        url="https://huggingface.co/docs/transformers/main_classes/trainer",
    ),
    Sample(
        "\r  0%|          | 0/40 [00:00<?, ?it/s]\r          \r{'loss': '3.906', 'grad_norm': '1.013', "
        "'learning_rate': "
        "'4.5e-05', 'epoch': '0.1562'}\n\r 12%|█▎        | 5/40 [00:00<00:00, 145.76it/s]",
        (expect("training_steps", step=5, total_steps=40, loss=3.906, grad_norm=1.013, learning_rate=4.5e-05),),
        title="Hugging Face: values above the bar that is drawn again",
    ),
    Sample(
        "2026-03-20 15:33:19 {'loss': 1.025, 'grad_norm': 0.3, 'learning_rate': 9.5e-05, 'epoch': 0.56, "
        "'global_step/max_steps': '350/1881', 'elapsed_time': '3h 7m 39s', 'train_speed(s/it)': 32.17}\n",
        (expect("training_steps", step=350, total_steps=1881, loss=1.025, step_time_s=32.17),),
        title="ModelScope Swift",
        url="https://github.com/modelscope/ms-swift",
    ),
    Sample(
        "[INFO|trainer.py:3705] 2026-03-01 10:20:30,123 >> Saving model checkpoint to out/checkpoint-500\n"
        "{'eval_loss': 1.91, 'eval_runtime': 12.5, 'epoch': 1.0}\n",
        (
            expect("training_events", kind="save_begin", step=500, path="out/checkpoint-500"),
            expect("checkpoints", kind="save", step=500, path="out/checkpoint-500", end_time=None, complete=True),
            expect("training_events", kind="validation", duration_s=12.5),
        ),
        title="Hugging Face: checkpoint and evaluation",
    ),
    Sample(
        "Epoch: 100%|██████████| 100/100 [00:42<00:00, 2.35it/s, loss=1.234]\n"
        "Steps:  10%|█         | 10/100 [00:04<00:38, 2.35it/s, step_loss=0.1, loss=2.5, lr=0.0001]\n",
        (
            expect("training_steps", step=None, loss=1.234),
            expect("training_steps", step=10, total_steps=100, loss=2.5, learning_rate=0.0001),
        ),
        title="A loop of one's own with a progress bar",
        url="https://github.com/tqdm/tqdm",
    ),
)

NON_SAMPLES: Final = (
    "Map: 100%|██████████| 1000/1000 [00:01<00:00, 812.3 examples/s]\n",
    "Loading checkpoint shards: 100%|██████████| 4/4 [00:02<00:00,  1.5it/s]\n",
    "the config has {'loss': 'cross_entropy', 'reduction': 'mean'}\n",
    "Reporting metrics={'loss': 25.4} of a tune trial\n",
    "{'eval_batch_size': 8, 'loss': None}\n",
    "Task: boolq; number of requests on this rank: 818               | 334/408 [00:00<00:00, 1665.81ctx/s]\n",
    "Saving model checkpoints is slow\n",
)
