"""Times of steps and events that print none, from the other lines of their file: steps as columns, piece by piece.

Each piece is shown to :meth:`Neighbours.scan`, :meth:`~Neighbours.look`, :meth:`~Neighbours.lead` and
:meth:`~Neighbours.fill`, all pieces to one before any to the next; None stands for what comes behind the last piece.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from aftershock.parsers.clock import SECOND
from aftershock.parsers.filling import Bools, Filled, Filling, Floats, Ints, Lines
from aftershock.parsers.resolve import Resolved
from aftershock.schemas.columns import Row
from aftershock.schemas.events import EventRow, TrainingEvent

ASSUMED: Final = "assumed_zone"
NEIGHBOUR: Final = "neighbour"

# A time that is not known, among microseconds.
NOT_KNOWN: Final = -(1 << 63)

Span = tuple[float, float]


class StepPiece(NamedTuple):
    """Steps that follow each other in a file: offsets, times in microseconds (or ``NOT_KNOWN``), their errors in
    seconds, numbers of steps and seconds of one step (both NaN where none is printed). assumed: whether a zone was.
    """

    offsets: Ints
    times: Ints
    errors: Floats
    steps: Floats
    seconds: Floats
    assumed: bool


class Bridges:
    """For printed steps the seconds since the print before, and whether a run begins anew with one.

    A print stands for as many steps as lie between it and the one before; of the first one as usual in this file.
    """

    def __init__(self) -> None:
        self._forward: Counter[float] = Counter()
        self._looked = self._before = np.nan
        self._usual: float | None = None

    def again(self) -> Bridges:
        """To go through the steps once more; what :meth:`look` has seen is kept."""
        other = Bridges()
        other._forward, other._usual = self._forward, self._usual
        return other

    def look(self, steps: Floats) -> None:
        """Count how far numbers of steps are apart. NaN: no number is printed."""
        numbers = steps[~np.isnan(steps)]
        if not numbers.size:
            return
        apart = np.diff(numbers, prepend=self._looked)
        values, counts = np.unique(apart[apart > 0], return_counts=True)
        self._forward.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
        self._looked = float(numbers[-1])

    def of(self, steps: Floats, seconds: Floats) -> tuple[Floats, Bools]:
        """Bridges and breaks of steps that :meth:`look` has seen. ``seconds``: of one step, as printed."""
        if self._usual is None:
            self._usual = _median(self._forward) if self._forward else 1.0
        numbered = ~np.isnan(steps)
        numbers = steps[numbered]
        apart = np.diff(numbers, prepend=self._before) if numbers.size else numbers
        self._before = float(numbers[-1]) if numbers.size else self._before
        bridges, breaks = np.zeros(steps.size), np.zeros(steps.size, np.bool_)
        breaks[numbered] = apart < 0
        count = np.where(apart > 0, apart, np.where(apart == 0, 0.0, np.minimum(self._usual, numbers)))
        told = seconds[numbered]
        bridges[numbered] = np.where(np.isfinite(told) & (told > 0), told * count, 0.0)
        return bridges, breaks


def _median(counts: Counter[float]) -> float:
    total = counts.total()
    passed, found = 0, list[float]()
    for value, count in sorted(counts.items()):
        found += [value for place in ((total - 1) // 2, total // 2) if passed <= place < passed + count]
        passed += count
    return (found[0] + found[1]) / 2


class _Other(NamedTuple):
    """What stands between the steps: an event of the training, or the clock of another line."""

    offset: int
    order: int  # among what stands at one offset: clocks of lines, other events, steps, events of the training
    event: TrainingEvent | None
    time: int | None
    error: float


_ANCHOR, _OTHER, _STEP, _EVENT = range(4)


class Neighbours:
    """``rows``: of one source, without its steps. ``anchors``: clocks of further lines, by offset.

    basis: of the times that are filled in. spans: when all is filled, between which times (microseconds) an event lies
    that had none, by its ``id``.
    """

    def __init__(self, rows: Sequence[Row], anchors: Iterable[tuple[int, Resolved]]) -> None:
        self.spans: dict[int, Span] = {}
        self.basis = NEIGHBOUR
        self._bridges = Bridges()
        self._filling = Filling()
        self._stages: dict[str, tuple[Bridges, int]] = {}
        self._first: _Other | None = None  # the first step that has a time
        self._anchors = {offset: when for offset, when in anchors if when.time is not None}
        self._others: list[_Other] = []
        for row in rows:
            if not isinstance(row, EventRow):
                continue
            offset, error = row.byte_offset or 0, row.time_error_s or 0.0
            if isinstance(row, TrainingEvent):
                self._others.append(_Other(offset, _EVENT, row, row.time, error))
                if row.time is not None:
                    self._anchors.pop(offset, None)
            elif row.time is not None:
                self._others.append(_Other(offset, _OTHER, None, row.time, error))
            if row.time is not None and row.time_basis == ASSUMED:
                self.basis = ASSUMED
        self._base: int | None = None
        self._offsets: list[int] = []

    def scan(self, piece: StepPiece) -> None:
        """See how far steps are apart, and which of them have a time of their own."""
        self._bridges.look(piece.steps)
        if piece.assumed:
            self.basis = ASSUMED
        timed = piece.offsets[piece.times != NOT_KNOWN]
        for offset in np.intersect1d(timed, np.array([*self._anchors], np.int64)).tolist():
            del self._anchors[offset]
        if timed.size and self._first is None:
            at = int(np.argmax(piece.times != NOT_KNOWN))
            self._first = _Other(int(timed[0]), _STEP, None, int(piece.times[at]), 0.0)

    def look(self, piece: StepPiece | None) -> None:
        """Find the first and the last known time."""
        if self._base is None:
            self._scanned()
        self._filling.look(self._merged("look", piece)[0])

    def lead(self, piece: StepPiece | None) -> None:
        """See how far step times lead on from known times."""
        self._filling.lead(self._merged("lead", piece)[0])

    def fill(self, piece: StepPiece | None) -> tuple[Ints, Floats]:
        """Times and errors of the steps of a piece; events that stand among them get theirs."""
        lines, place, others = self._merged("fill", piece)
        filled = self._filling.fill(lines)
        assert self._base is not None
        found = ~np.isnan(filled.times)
        times = np.full(found.size, NOT_KNOWN, np.int64)
        times[found] = self._base + np.rint(filled.times[found] * SECOND).astype(np.int64)
        errors = np.rint(filled.errors * SECOND) / SECOND
        steps = 0 if piece is None else piece.offsets.size
        behind = place[steps:]
        for other, at in zip(others, behind.tolist(), strict=True):
            if other.event is not None and other.time is None and found[at]:
                self._give(other.event, int(times[at]), float(errors[at]), filled, at)
        own = place[:steps]
        if piece is None:
            return times[own], errors[own]
        known = piece.times != NOT_KNOWN
        return np.where(known, piece.times, times[own]), np.where(known, piece.errors, errors[own])

    def _give(self, event: TrainingEvent, time: int, error: float, filled: Filled, at: int) -> None:
        assert self._base is not None
        event.time = event.last_time = time
        event.time_basis, event.time_error_s = self.basis, error
        self.spans[id(event)] = (
            self._base + float(filled.lows[at]) * SECOND,
            self._base + float(filled.highs[at]) * SECOND,
        )

    def _scanned(self) -> None:
        """All steps were seen: the clocks that are left go between the events."""
        for offset, when in self._anchors.items():
            self._others.append(_Other(offset, _ANCHOR, None, when.time, when.error_s or 0.0))
            if when.basis == ASSUMED:
                self.basis = ASSUMED
        self._others.sort(key=lambda other: other[:2])
        self._offsets = [other.offset for other in self._others]
        timed = [other for other in self._others if other.time is not None]
        firsts = sorted([*timed[:1], *([self._first] if self._first else [])], key=lambda other: other[:2])
        # Seconds since the first of them: microseconds since 1970 would be at the limit of what a float holds.
        self._base = (firsts[0].time or 0) if firsts else 0

    def _merged(self, stage: str, piece: StepPiece | None) -> tuple[Lines, Ints, Sequence[_Other]]:
        """A piece with what stands before its end; where its steps went, and then the others; and those others."""
        assert self._base is not None
        bridges, begin = self._stages.get(stage) or (self._bridges.again(), 0)
        steps = 0 if piece is None else piece.offsets.size
        end = len(self._others) if piece is None else begin
        if piece is not None and steps:
            end = max(begin, bisect.bisect_right(self._offsets, int(piece.offsets[-1])))
        self._stages[stage] = bridges, end
        others = self._others[begin:end]
        times = np.array([np.nan if o.time is None else (o.time - self._base) / SECOND for o in others], np.float64)
        lines = Lines(
            times, np.array([o.error for o in others], float), np.zeros(len(others)), np.zeros(len(others), np.bool_)
        )
        if piece is None:
            return lines, np.arange(len(others)), others
        known = piece.times != NOT_KNOWN
        told, breaks = bridges.of(piece.steps, piece.seconds)
        own = Lines(
            np.where(known, (piece.times - np.where(known, self._base, 0)) / SECOND, np.nan),
            np.where(known, piece.errors, 0.0),
            told,
            breaks,
        )
        if not others:
            return own, np.arange(steps), others
        orders = np.array([*([_STEP] * steps), *(other.order for other in others)])
        offsets = np.concatenate([piece.offsets, np.array(self._offsets[begin:end], np.int64)])
        order = np.lexsort((orders, offsets))
        place = np.empty(order.size, np.int64)
        place[order] = np.arange(order.size)
        both = (np.concatenate(columns)[order] for columns in zip(own, lines, strict=True))
        return Lines(*both), place, others
