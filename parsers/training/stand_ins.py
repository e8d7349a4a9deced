"""Steps that stand in for all steps of a source where events are judged: a few of each stretch between two events.

What events need to know of steps is what stands near them: how far training had come, whether it went on, which numbers
were bad, how long nothing came. Millions of steps in between say nothing more than that they were there. Kept are the
first and last ones of each stretch, those around which the number or the clock falls, and those at which anything
changes that is asked for: so that those that are left out are of the same kind as their neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from aftershock.parsers.training.arrays import Bools, Ints, floats, given, numbers, words
from aftershock.parsers.training.progress import StandIn
from aftershock.parsers.training.step_columns import Joined, plain
from aftershock.parsers.transit import found_of

# Steps at the beginning and the end of a stretch: more than any rule about what went on counts.
_EDGE: Final = 8


def stand_ins(pieces: Sequence[Joined], events: Sequence[int]) -> list[StandIn]:
    """Steps for all steps of a source, in order. ``events``: offsets of what is to be judged, in order."""
    borders = np.array(events, np.int64)
    return [stand_in for piece in pieces for stand_in in _of_piece(piece.read(), borders)]


def _of_piece(batch: pa.RecordBatch, events: Ints) -> list[StandIn]:
    if not batch.num_rows:
        return []
    skipped = numbers(batch, "skipped", 0)
    kinds = _kinds(batch, skipped)
    chosen = np.flatnonzero(_chosen(batch, kinds, events))
    sums = np.cumsum(skipped)
    hidden = np.diff(chosen, prepend=-1) - 1
    hidden_skipped = np.diff(sums[chosen], prepend=0) - skipped[chosen]
    found = found_of(plain(batch.take(pa.array(chosen))))
    return [
        StandIn(item.row, item.reading, item.offset, item.mark, format=item.format, hidden=count, hidden_skipped=total)
        for item, count, total in zip(found, hidden.tolist(), hidden_skipped.tolist(), strict=True)
    ]


def _chosen(batch: pa.RecordBatch, kinds: Ints, events: Ints) -> Bools:
    chosen = np.zeros(batch.num_rows, np.bool_)
    stretch = np.searchsorted(events, numbers(batch, "@offset", 0), side="right")
    edges = np.concatenate([[0], np.flatnonzero(np.diff(stretch)) + 1, [batch.num_rows]])
    for near in range(-_EDGE, _EDGE):
        chosen[np.clip(edges + near, 0, batch.num_rows - 1)] = True
    steps, walls = numbers(batch, "step", 0), numbers(batch, "@wall", 0)
    numbered = given(batch, "step")
    falls = numbered[1:] & numbered[:-1] & (steps[1:] <= steps[:-1])
    turns = falls | (walls[1:] < walls[:-1]) | (kinds[1:] != kinds[:-1])
    chosen[1:] |= turns
    chosen[:-1] |= turns
    return chosen


def _kinds(batch: pa.RecordBatch, skipped: Ints) -> Ints:
    """For each step a number: equal ones are the same to all rules of :mod:`.progress`."""
    loss, norm = floats(batch, "loss"), floats(batch, "grad_norm")
    has_loss, has_norm = given(batch, "loss"), given(batch, "grad_norm")
    counted = given(batch, "samples")
    took = skipped == 0
    zero = has_loss & (loss == 0)
    bad = (has_loss & ~np.isfinite(loss)) | (numbers(batch, "nan", 0) > 0)
    bad |= has_norm & ~np.isfinite(norm) & ((~has_loss & took & counted) | zero)
    flags = (bad, zero, has_loss, took, counted, given(batch, "step"), given(batch, "@wall"))
    _, clocks = words(batch, "@kind", "none")
    kinds = clocks.astype(np.int64)
    for flag in flags:
        kinds = kinds * 2 + flag
    return kinds
