"""What the steps of an attempt say of its errors: numbers that went bad, a run that went on, a run that stood still.

No trainer says that its loss is no number any more: it prints the step without it (Megatron-LM), or prints ``nan``. A
step that was skipped because of its loss scale is no failure, unless nothing else comes.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from aftershock.parsers.clock import SECOND, micros_between
from aftershock.parsers.formats import Found
from aftershock.parsers.training.attempts import Attempt, event_of
from aftershock.parsers.training.marks import OVERFLOW
from aftershock.parsers.training.writers import mark_of
from aftershock.schemas.events import TrainingEvent
from aftershock.schemas.training import TrainingStep

# More overflows than these, one after the other, are no search for a loss scale.
_MOST_OVERFLOWS: Final = 20
# A loss of exactly zero with a gradient that is no number is the print of a skipped step, unless it stays so.
_MOST_ZEROS: Final = 2
# Without a step for this long, and this many times the usual, a run stands still.
_STILL_US: Final = 600 * SECOND
_STILL_TIMES: Final = 10
_MOST_GAPS: Final = 1000
# Output that was held back in a buffer comes out when its process ends, behind its last error.
_BUFFER: Final = 16 << 10
_MOST_FLUSHED: Final = 2
# Steps behind an error that are looked at: all ranks may print each.
_MOST_LATER: Final = 256


@dataclass(slots=True)
class StandIn(Found):
    """A step that stands for others too: those between it and the one before it, which are of the same kind as both.

    hidden: how many. hidden_skipped: the iterations that they say were skipped.
    """

    hidden: int = 0
    hidden_skipped: int = 0


def printed(steps: Iterable[Found]) -> int:
    """How many printed steps these are."""
    return sum(1 + _hidden(item) for item in steps)


def _hidden(item: Found) -> int:
    return item.hidden if isinstance(item, StandIn) else 0


def _hidden_skipped(item: Found) -> int:
    return item.hidden_skipped if isinstance(item, StandIn) else 0


def step_of(item: Found) -> TrainingStep:
    """The row of a step."""
    assert isinstance(item.row, TrainingStep)
    return item.row


def _error(error_class: str, role: str, at: Found, text: str, step: int | None) -> Found:
    row = TrainingEvent(kind="error", error_class=error_class, error_role=role, error=text, step=step)
    return Found(row, at.reading, at.offset, format=at.format)


def divergence_of(attempt: Attempt) -> list[Found]:
    """Where numbers went bad: the root if they stayed so to the end of the attempt, else noise."""
    made = []
    for run, lasts in _bad_runs(attempt.steps):
        row = step_of(run[0])
        text = f"loss or gradient is no number from step {row.step} on, {printed(run)} printed steps"
        made.append(_error("numeric_divergence", "root" if lasts else "noise", run[0], text, row.step))
    skipped = _skipped_run(attempt.steps)
    if skipped:
        row = step_of(skipped[0])
        text = f"every step skipped from step {row.step} on, {printed(skipped)} printed steps"
        made.append(_error("numeric_divergence", "root", skipped[0], text, row.step))
    return made


def _bad_runs(steps: Sequence[Found]) -> Iterator[tuple[list[Found], bool]]:
    run: list[Found] = []
    for item in steps:
        if _is_bad(step_of(item)):
            run.append(item)
        else:
            if _counts(run):
                yield run, False
            run = []
    if _counts(run):
        yield run, True


def _is_nan(value: float | None) -> bool:
    return value is not None and not math.isfinite(value)


def _is_bad(row: TrainingStep) -> bool:
    if _is_nan(row.loss) or (row.nan or 0) > 0:
        return True
    missing = row.loss is None and not row.skipped and row.samples is not None
    return _is_nan(row.grad_norm) and (missing or row.loss == 0)


def _counts(run: Sequence[Found]) -> bool:
    return any(step_of(item).loss != 0 for item in run) or printed(run) > _MOST_ZEROS


def _skipped_run(steps: Sequence[Found]) -> list[Found]:
    """The last steps of an attempt, if all of them were skipped, and they are many.

    Megatron-LM counts since its last print, and prints the samples; DeepSpeed counts since the beginning.
    """
    run: list[Found] = []
    for item in reversed(steps):
        row = step_of(item)
        if row.loss is not None or not row.skipped or row.samples is None:
            break
        run.append(item)
    total = sum((step_of(item).skipped or 0) + _hidden_skipped(item) for item in run)
    return run[::-1] if total > _MOST_OVERFLOWS else []


def overflows_of(attempt: Attempt) -> list[Found]:
    """An error where the loss scale fell again and again, and no step was taken in between."""
    last: dict[tuple[object, ...], list[Found]] = {}
    at = 0
    for item in attempt.events:
        if mark_of(item) != OVERFLOW:
            continue
        event = event_of(item)
        run = last.setdefault((event.rank, event.local_rank), [])
        between = at
        while at < len(attempt.steps) and attempt.steps[at].offset < item.offset:
            at += 1
        if _took_a_step(attempt.steps[between:at], len(run)):
            run.clear()
        run.append(item)
    for run in last.values():
        if len(run) > _MOST_OVERFLOWS:
            return [_error("numeric_divergence", "root", run[-1], f"{len(run)} overflows one after the other", None)]
    return []


def _took_a_step(steps: Sequence[Found], overflows: int) -> bool:
    """Whether some step between two overflows was none of them: with a loss, and more steps than overflows."""
    numbers = [step_of(item).step for item in steps if step_of(item).loss is not None and not step_of(item).skipped]
    known = [number for number in numbers if number is not None]
    if len(known) < 2:
        return bool(numbers) and overflows == 0
    return known[-1] - known[0] > overflows


def went_on(item: Found, steps: Sequence[Found], *, told: bool, failed: bool) -> bool:
    """Whether a run went on after an error: steps were taken after it.

    told: the error was shown by a logger, by a program that goes on. failed: the attempt failed further down; then the
    few steps right behind an error may have been held back in a buffer.
    """
    at = bisect_right(steps, item.offset, key=lambda step: step.offset)
    numbers = {step_of(step).step for step in steps[at : at + _MOST_LATER] if _is_not_earlier(item, step)}
    if told:
        return bool(numbers)
    if len(numbers) <= _MOST_FLUSHED:
        return False
    return not failed or steps[-1].offset - item.offset > _BUFFER


def _is_not_earlier(item: Found, step: Found) -> bool:
    apart = micros_between(item.reading, step.reading)
    return apart is None or apart >= 0


def stood_still(end: Found, steps: Sequence[Found]) -> Found | None:
    """An error at the last step, if none came for long before somebody ended the run; None if clocks do not tell."""
    timed = [
        step for step in steps if step.offset < end.offset and micros_between(step.reading, end.reading) is not None
    ]
    if len(timed) < 3:
        return None
    gaps: list[int] = []
    for one, other in pairwise(timed):
        apart = micros_between(one.reading, other.reading) or 0
        # Those in between were printed at about equal pace: a sample of them is enough for what is usual.
        gaps += [apart // (1 + _hidden(other))] * min(1 + _hidden(other), _MOST_GAPS)
    still = micros_between(timed[-1].reading, end.reading) or 0
    if still <= max(_STILL_US, _STILL_TIMES * int(statistics.median(gaps))):
        return None
    row = step_of(timed[-1])
    text = f"no step after step {row.step} for {still // SECOND} s, until the run was ended"
    return _error("hang_no_error", "root", timed[-1], text, row.step)
