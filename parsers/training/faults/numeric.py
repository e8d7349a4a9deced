"""Numbers that go bad, as trainers and their libraries say it in so many words.

    [2026-03-01 10:20:30,123] [INFO] [loss_scaler.py:188:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step.
    Loss is nan, stopping training
    Monitored metric train_loss = nan is not finite. Previous best value was 2.312. Signaling Trainer to stop.

https://github.com/deepspeedai/DeepSpeed (runtime/fp16/loss_scaler.py), https://github.com/Lightning-AI/pytorch-lightning
(callbacks/early_stopping.py). A step that was skipped for its loss scale is no
failure; many in a row are. What the steps themselves say is told in ``progress``.
"""

from __future__ import annotations

from typing import Final

from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.faults.talk import is_shown, speaks_of
from aftershock.parsers.training.marks import OVERFLOW
from aftershock.parsers.training.rules import Match, Rule, Said, error, whole
from aftershock.schemas.events import TrainingEvent

ORDER: Final = 64

_ERROR: Final = error("numeric_divergence")


def _read_overflow(found: Match, _said: Said) -> TrainingEvent:
    return TrainingEvent(kind="error", rank=whole(found["rank"]))


def _read(found: Match, said: Said) -> TrainingEvent | None:
    return None if speaks_of(said, found.start()) else _ERROR(found, said)


def _read_stop(found: Match, said: Said) -> TrainingEvent | None:
    # Lightning says it at the level of information, and stops.
    return None if is_shown(said, found.start("error")) else _ERROR(found, said)


RULES: Final = (
    Rule(
        words=(b"OVERFLOW!", b"Gradient overflow.  Skipping step"),
        shape=later(
            rb"\[(?:deepspeed|deepscale)\] OVERFLOW! (?:Rank (?P<rank>\d{1,6}) )?Skipping step"
            rb"|\AGradient overflow\.  Skipping step, loss scaler"
        ),
        row=_read_overflow,
        mark=OVERFLOW,
    ),
    Rule(
        words=(b" is not finite. Previous best value was ",),
        shape=later(
            rb"(?:\A|\] )(?P<error>Monitored metric \S{1,80} = (?:nan|-?inf) is not finite\. Previous best value was "
            rb"\S{1,40}\. Signaling Trainer to stop\.)"
        ),
        row=_read_stop,
        only="fault",
    ),
    Rule(
        words=(b"stopping training", b"ending training", b"already at minimum", b"Minimum loss scale reached"),
        shape=later(
            rb"(?i)\A(?P<error>(?:WARNING: )?(?:(?:loss|train loss) is (?:nan|inf)[^\r\n]{0,20}, stopping training"
            rb"|non-finite loss, ending training[^\r\n]{0,80}|Current loss scale already at minimum[^\r\n]{0,80}"
            rb"|Minimum loss scale reached \([^\r\n]{1,120}))"
        ),
        row=_read,
        only="fault",
    ),
)

SAMPLES: Final = (
    Sample(
        "Loss is nan, stopping training\n",
        (expect("training_events", error_class="numeric_divergence", error_role="root"),),
        title="A loss that is no number",
    ),
    Sample(
        "Monitored metric train_loss = nan is not finite. Previous best value was 2.312. Signaling Trainer to stop.\n",
        (expect("training_events", error_class="numeric_divergence", error_role="root"),),
        title="Lightning: a metric that is no number",
    ),
    Sample(
        "".join(
            f"[2026-03-01 10:{minute:02}:30,123] [INFO] [loss_scaler.py:188:update_scale] [deepspeed] OVERFLOW! Rank 0 "
            "Skipping step. Attempted loss scale: 2, reducing to 1\n"
            for minute in range(21)
        ),
        (expect("training_events", error_class="numeric_divergence", error_role="root"),),
        title="Many overflows in a row",
    ),
)

NON_SAMPLES: Final = (
    "[2026-03-01 10:20:30,123] [INFO] [loss_scaler.py:181:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. "
    "Attempted "
    "loss scale: 64, reducing to 32\n",
    "Monitored metric val_loss did not improve in the last 3 records. Best score: 2.312. Signaling Trainer to stop.\n",
    "early stopping training when the loss is nan: off\n",
)
