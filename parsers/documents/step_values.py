"""Values of steps that come one at a time, as trackers keep them: the values of one step become one row.

    (20, "train/loss", 2.31)  (20, "train/grad_norm", 0.9)  (20, "train/learning_rate", 0.0003)  ->  step 20

Trackers hold what trainers log, under the names that those print (:mod:`aftershock.parsers.training.values`) and some
more. Names that are not known are left out: a tracker holds images, histograms and whatever else somebody looks at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from aftershock.parsers.clock import NO_CLOCK, Reading
from aftershock.parsers.formats import Found
from aftershock.parsers.training.values import COLUMNS, STEPS
from aftershock.schemas.events import TrainingEvent
from aftershock.schemas.training import TrainingStep

# Names that only trackers see, and the column that they are. Megatron-LM writes those with a dash; torchtitan those
# with "metrics"; Lightning marks values of one step, and numbers the optimiser.
_OF_TRACKERS: Final[Mapping[str, tuple[str, ...]]] = {
    "loss": ("loss_metrics/global_avg_loss", "train/train_loss", "train_loss_step", "loss_step"),
    "grad_norm": ("grad-norm", "optim/grad_norm", "grad_2.0_norm_total"),
    "learning_rate": ("learning-rate", "optim/lr", "optim/learning_rate"),
    "step_time_s": ("iteration-time", "time_metrics/end_to_end(s)"),
    "samples": ("samples vs steps",),
    "tokens": ("n_tokens_seen",),
}
_RATE_OF_OPTIMISER: Final = "lr-"
# Megatron-LM's throughput is TFLOP/s of a GPU; elsewhere the word means anything.
_THROUGHPUT: Final = "throughput"
_OF_MEGATRON: Final = frozenset({"learning-rate", "grad-norm", "iteration-time", "loss-scale", "batch-size", "lm loss"})

VALIDATION: Final = frozenset(
    {
        *("eval_loss", "eval/loss", "eval-loss", "valid_loss", "valid/loss", "val_loss", "val/loss", "validation_loss"),
        *("validation/loss", "lm loss validation", "validation_metrics/loss", "test/loss", "test_loss"),
    }
)
STEP_NAMES: Final = STEPS

_WHOLE: Final = frozenset({"total_steps", "samples", "tokens", "skipped", "nan"})
_MOST_STEP: Final = 2**63 - 1
_LONGEST_NAME: Final = 256


class Known(NamedTuple):
    """What a name holds: a column, ``validation`` or ``throughput``. Of two names of a column the lower rank counts."""

    column: str
    rank: int
    megatron: bool


@lru_cache(maxsize=1)
def _names() -> Mapping[str, Known]:
    names: dict[str, Known] = {}
    for column in COLUMNS:
        for rank, name in enumerate(names_of(column)):
            names.setdefault(name, Known(column, rank, name in _OF_MEGATRON))
    for name in VALIDATION:
        names[name] = Known("validation", 0, False)
    names[_THROUGHPUT] = Known(_THROUGHPUT, 0, False)
    for name in _OF_MEGATRON:
        names.setdefault(name, Known("", 0, True))
    return names


@lru_cache(maxsize=4096)
def known(name: str) -> Known | None:
    """What a tracker's name for a value means; None for the many that are nothing of ours."""
    if len(name) > _LONGEST_NAME:
        return None
    lower = name.lower()
    found = _names().get(lower)
    if found is None and lower.startswith(_RATE_OF_OPTIMISER) and lower.count("/") <= 1:
        return Known("learning_rate", 99, False)
    return found


def names_of(column: str) -> tuple[str, ...]:
    """The names of a column in trackers and trainers, the surest first."""
    return (*_OF_TRACKERS.get(column, ()), *COLUMNS.get(column, ()))


def step_number(value: object) -> int | None:
    """A step, which may be a whole number written as a fraction (``794.0``)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, float) and not value.is_integer():  # NaN and infinity are no whole numbers either
        return None
    number = int(value)
    return number if 0 <= number <= _MOST_STEP else None


@dataclass
class _Open:
    step: int | None
    offset: int
    reading: Reading
    values: dict[str, tuple[int, float]] = field(default_factory=dict)
    megatron: bool = False
    validated: Reading | None = None


class StepValues:
    """Joins values by their step. A step is done when a few others began behind it, or when a value comes anew."""

    # Trackers write the values of one step near each other; an evaluation may stand between them.
    MOST_OPEN: Final = 16

    def __init__(self) -> None:
        self._open: dict[int | None, _Open] = {}

    def add(self, step: int | None, name: str, value: float, reading: Reading, offset: int) -> Iterator[Found]:
        """Take in a value; give the rows of steps that are done."""
        meaning = known(name)
        if meaning is None:
            return
        yield from self.take(step, meaning, value, reading, offset)

    def take(self, step: int | None, meaning: Known, value: float, reading: Reading, offset: int) -> Iterator[Found]:
        """The same for a value whose name was looked up."""
        column, rank, megatron = meaning
        held = self._open.get(step)
        before = held.values.get(column) if held is not None else None
        if held is not None and before is not None and before[0] == rank:
            # The run was started again, and came to this step once more.
            yield from _rows(self._open.pop(step))
            held = before = None
        if held is None:
            held = self._open[step] = _Open(step, offset, reading)
            if len(self._open) > self.MOST_OPEN:
                yield from _rows(self._open.pop(next(iter(self._open))))
        held.megatron = held.megatron or megatron
        if held.reading is NO_CLOCK:
            held.reading = reading
        if column == "validation":
            held.validated = held.validated or reading
        if column and (before is None or rank < before[0]):
            held.values[column] = (rank, value)

    def rest(self) -> Iterator[Found]:
        """The rows of the steps that are left."""
        for held in self._open.values():
            yield from _rows(held)
        self._open.clear()


def _rows(held: _Open) -> Iterator[Found]:
    values = {column: value for column, (_, value) in held.values.items()}
    throughput = values.pop(_THROUGHPUT, None)
    validated = values.pop("validation", None) is not None
    if throughput is not None and held.megatron:
        values.setdefault("tflops_per_gpu", throughput)
    row = TrainingStep(step=held.step, copies=1)
    for column, value in values.items():
        setattr(row, column, step_number(value) if column in _WHOLE else float(value))
    if any(getattr(row, column) is not None for column in values if column != "total_steps"):
        yield Found(row, held.reading, held.offset)
    if validated:
        event = TrainingEvent(kind="validation", step=held.step)
        yield Found(event, held.validated or NO_CLOCK, held.offset)
