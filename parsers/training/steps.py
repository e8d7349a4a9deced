"""Steps of one file: one row for each printed step, whatever number of ranks printed it.

Trainers and the libraries below them print the same step twice (Megatron-LM and DeepSpeed), a line for each rank
(torchtitan), or a progress bar beside a line of values (Hugging Face): one row each, ``copies`` says of how many lines.
A step that is reached once more after a restart is a row of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from aftershock.parsers.clock import NO_CLOCK, SECOND, micros_between
from aftershock.parsers.formats import Found
from aftershock.parsers.training.writers import mark_of, writer_of
from aftershock.schemas.training import TrainingStep

# A progress bar, which knows the step; values without a step, which belong to the last bar before them; and a line that
# only accompanies the trainer's own, whose values go before those of this one.
BAR, VALUES, WEAK = "bar", "values", "weak"
# Behind ``values``: the bar that stands below them, as ``values#380/2724``.
_BELOW: Final = "#"

# Prints of one step by several ranks stand near each other: in time where they have a clock, else in the file.
NEAR_US: Final = 120 * SECOND
NEAR_BYTES: Final = 256 << 10
# Ranks are at most so far apart.
_TOGETHER_US: Final = 2 * SECOND
# How many different steps may stand between two prints of one: many where both have a clock, few where they have none
# and their ranks cannot be told apart.
OPEN_STEPS: Final = 64
_NEAR_STEPS: Final = 3

# Two prints of one number may be rounded to different digits.
ROUNDED: Final = 1e-3

SAME: Final = ("loss", "grad_norm", "learning_rate", "samples", "tokens")
FIELDS: Final = (*SAME, "total_steps", "step_time_s", "tflops_per_gpu", "skipped", "nan", "rank", "local_rank")


@dataclass
class _Open:
    """A step that was printed a short while ago."""

    item: Found
    number: int  # which of the different steps of this file it is
    writers: set[str] = field(default_factory=set)

    @property
    def row(self) -> TrainingStep:
        return step_of(self.item)


def values_above(done: int, total: int) -> str:
    """The mark of values without a step, above a bar that shows so much."""
    return f"{VALUES}{_BELOW}{done}/{total}"


def step_of(item: Found) -> TrainingStep:
    """The row of a step."""
    assert isinstance(item.row, TrainingStep)
    return item.row


def join_steps(found: list[Found], beginnings: Sequence[int] = ()) -> list[Found]:
    """The steps of one source, in the order of their offsets.

    beginnings: where the file says that a run begins, anew or at all, in order: what comes behind is no copy of what
    stands before.
    """
    joiner = StepJoiner(beginnings)
    return [item for item in found if joiner.take(item) is item]


class StepJoiner:
    """Takes the steps of one source in the order of their offsets. ``beginnings``: see :func:`join_steps`."""

    def __init__(self, beginnings: Sequence[int]) -> None:
        self.beginnings = list(beginnings[::-1])
        self.open: dict[int | None, _Open] = {}
        self.last: dict[str, int] = {}  # by writer
        self.bars: dict[str, TrainingStep] = {}
        self.totals: dict[str, int | None] = {}
        self.number = 0
        self.highest = 0  # of the run that prints now

    def take(self, item: Found) -> Found | None:
        """The row that a print belongs to: itself, or one before it; None if it is no print of a step."""
        while self.beginnings and self.beginnings[-1] <= item.offset:
            self.beginnings.pop()
            self.open.clear()
            self.last.clear()
            self.highest = 0
            self.bars.clear()
        mark, writer = mark_of(item), writer_of(item)
        row = step_of(item)
        if mark == BAR:
            self._bar(row, writer)
            return None
        mark, _, below = mark.partition(_BELOW)
        if mark == VALUES and row.step is None:
            self._take_bar(row, writer, below)
        return self._add(item, row, writer, weak=mark == WEAK)

    def is_behind(self, step: int, writers: Iterable[str]) -> bool:
        """Whether no step from this one on, printed by these writers, can have been printed before."""
        if any(known is not None and known >= step for known in self.open):
            return False
        return all(self.last.get(writer, -1) < step for writer in writers)

    def skip(self, steps: int, lasts: Mapping[str, int]) -> None:
        """Pass over so many steps, each larger than the one before and all that are known: none of them was printed
        before. At least ``OPEN_STEPS`` of the same kind must be taken next.

        lasts: the last of them by writer; no run begins among them.
        """
        self.number += steps
        self.last.update(lasts)
        self.highest = max(self.highest, *lasts.values())

    def skip_bare(self, count: int, totals: Mapping[str, int | None]) -> None:
        """Pass over so many rows without a step, each other than the one before it; if they are values no bar is known.

        totals: the last number of all steps by writer of values. At least one of the same kind must be taken next.
        """
        self.number += count
        self.totals.update(totals)
        self.open.pop(None, None)

    def _bar(self, row: TrainingStep, writer: str) -> None:
        known = self.totals.get(writer)
        before = self.bars.get(writer)
        # The bar of an evaluation stands between those of the training, and has another total.
        if before is None or known is None or row.total_steps == known or before.total_steps != known:
            self.bars[writer] = row

    def _take_bar(self, row: TrainingStep, writer: str, below: str) -> None:
        """The step of the bar: of the one below, if it is the same bar: that is drawn when the values are printed."""
        bar = self.bars.get(writer)
        done, _, total = below.partition("/")
        if bar is not None:
            row.step = bar.step
            row.total_steps = row.total_steps if row.total_steps is not None else bar.total_steps
            row.step_time_s = row.step_time_s if row.step_time_s is not None else bar.step_time_s
        if below and (bar is None or (int(total) == bar.total_steps and int(done) >= (bar.step or 0))):
            row.step, row.total_steps = int(done), int(total)
        self.totals[writer] = row.total_steps

    def _add(self, item: Found, row: TrainingStep, writer: str, *, weak: bool) -> Found:
        same = self.open.get(row.step)
        if same is not None and self._is_copy(same, item, row, writer):
            _merge(same.item, item, over=mark_of(same.item) == WEAK and not weak)
            same.writers.add(writer)
            item = same.item
        else:
            if row.step is not None and (same is not None or self.last.get(writer, -1) > row.step):
                # A run came back to this step: what it had printed behind it will come again.
                self.open = {step: held for step, held in self.open.items() if step is None or step < row.step}
                self.highest = row.step
            self.open.pop(row.step, None)
            self.number += 1
            self.open[row.step] = _Open(item, self.number, {writer})
            if len(self.open) > OPEN_STEPS:
                del self.open[next(iter(self.open))]
        if row.step is not None:
            self.last[writer] = row.step
            self.highest = max(self.highest, row.step)
        return item

    def _is_copy(self, first: _Open, again: Found, row: TrainingStep, writer: str) -> bool:
        """Whether a step is printed once more, rather than reached once more after a restart."""
        apart = micros_between(first.item.reading, again.reading)
        recent = self.number - first.number < _NEAR_STEPS
        if apart is not None:
            if abs(apart) > NEAR_US:
                return False
        elif again.offset - first.item.offset > NEAR_BYTES or not (recent or writer):
            return False
        last = self.last.get(writer)
        if writer and writer in first.writers and last is not None and row.step is not None and last > row.step:
            # This writer had gone on, and comes back; or it stands for several ranks, which are never far apart.
            return apart is not None and abs(apart) <= _TOGETHER_US and _agree(first.row, row)
        if _agree(first.row, row):
            return True
        # Ranks may print a loss of their own. A rank that was not there before belongs to a run that began anew.
        there = last is not None or row.step is None or row.step >= self.highest
        return bool(writer) and writer not in first.writers and row.step is not None and recent and there


def _agree(one: TrainingStep, other: TrainingStep) -> bool:
    """Whether the values that both prints have are the same, but for rounding."""
    for name in SAME:
        a, b = getattr(one, name), getattr(other, name)
        if a is None or b is None or (math.isnan(a) and math.isnan(b)):
            continue
        if not math.isclose(a, b, rel_tol=ROUNDED):
            return False
    return True


def _merge(first: Found, copy: Found, *, over: bool) -> None:
    """Take from a further print what the first one does not say; with ``over``, whatever it says."""
    row, more = step_of(first), step_of(copy)
    for name in FIELDS:
        value = getattr(more, name)
        if value is not None and (over or getattr(row, name) is None):
            setattr(row, name, value)
    row.copies = (row.copies or 1) + (more.copies or 1)
    if first.reading is NO_CLOCK or (first.reading.wall is None and first.reading.boot is None):
        first.reading = copy.reading
    if over:
        first.mark = copy.mark
