"""Values that rise above what is usual and stay there for a while, in series of any length.

A series is cut into blocks of equal size. What is usual for the values of a block is told by the blocks before it: the
median of the last one, the larger spread of the last two, and the highest median of some more, since a level that goes
up and down by itself will do so again. An excursion begins with the first value above a threshold behind which, in a
window of values, most are above it; and it is over with the first value that is back behind which most are. While it
lasts, and until two blocks behind it are full, its own threshold counts.

All of it depends on the places of values in their series alone: in which pieces they come changes nothing. No more is
held than a few blocks, and of an excursion as many values as its median is taken of.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from aftershock.pipeline.training.points import BACK, LONGEST, NOTHING, Excursion, Floats, Limits, Points, Usual

# The spread of normal noise for each of its median deviation.
_NORMAL: Final = 1.4826
# Normal noise leaves this share of values below so much of a spread: values of two kinds leave fewer. Larger shares
# would hear of the steps that saves and evaluations make slow, which may be a quarter of a block.
_UPPER: Final = 0.7
_UPPER_NORMAL: Final = 0.5244
# Rows that are looked through for the end of an excursion at first; then more each time.
_AHEAD: Final = 256


def _middles(blocks: Floats) -> tuple[Floats, Floats]:
    """Median and spread of each row: by the deviations from the median, or to the upper side alone, if that is more.

    To sort rows is quicker than to look for their middles.
    """
    middle = slice((blocks.shape[1] - 1) // 2, blocks.shape[1] // 2 + 1)
    ordered = np.sort(blocks, axis=1)
    medians: Floats = ordered[:, middle].mean(axis=1)
    upper = (ordered[:, int(_UPPER * blocks.shape[1])] - medians) / _UPPER_NORMAL
    apart = np.subtract(ordered, medians[:, None], out=ordered)
    np.abs(apart, out=apart)
    apart.sort(axis=1)
    return medians, np.maximum(_NORMAL * apart[:, middle].mean(axis=1), upper)


class _Levels(NamedTuple):
    """Medians and spreads of blocks, from the one numbered ``first`` on."""

    first: int
    medians: Floats
    spreads: Floats


class Finder:
    """Takes the values of one series in order, and gives its excursions."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._held: Points | None = None
        self._base = 0  # place in the series of the first value that is held; begin of a block
        self._next = 0  # place from which on nothing is decided yet
        self._first: float | None = None  # median of the first block
        self._open: Excursion | None = None
        # The first block behind the last excursion. Until two blocks are full what was usual before that counts.
        self._fresh = 0
        self._lent = NOTHING
        self._lent_work: Floats | None = None

    def take(self, points: Points) -> Iterator[Excursion]:
        """Add values; give the excursions that have come to their end."""
        self._held = points if self._held is None else self._held.then(points)
        block = self._limits.block
        if self._end - self._next >= 2 * block + self._limits.window:
            yield from self._go_on(last=False)

    def rest(self) -> Iterator[Excursion]:
        """Give those that are left at the end of the series."""
        if self._held is None:
            return
        yield from self._go_on(last=True)
        if self._open is not None and self._open.same_work(self._limits.same_work):
            yield self._open

    @property
    def _end(self) -> int:
        return self._base + (0 if self._held is None else self._held.values.size)

    def _go_on(self, *, last: bool) -> Iterator[Excursion]:
        # What can be decided: that needs a window of values behind it, unless none will come.
        until = self._end if last else self._end - self._limits.window + 1
        if not last and self._open is None:
            until -= until % self._limits.block
        levels: _Levels | None = None
        while self._next < until:
            if self._open is None:
                if levels is None:
                    levels = self._levels()
                if not self._begin(levels, until):
                    self._next = until
                    break
            over = self._over(until)
            if over is not None:
                yield over
        self._forget()

    def _levels(self) -> _Levels:
        """The levels of the blocks that are held."""
        assert self._held is not None
        block, first = self._limits.block, self._base // self._limits.block
        blocks = self._held.values[: self._held.values.size // block * block].reshape(-1, block)
        medians, spreads = _middles(blocks)
        medians[blocks.min(axis=1) <= 0] = np.nan  # what may be negative has no level
        if first == 0 and medians.size and self._first is None:
            self._first = float(np.nan_to_num(medians[0]))
        return _Levels(first, medians, spreads)

    def _usual(self, levels: _Levels, begin: int, end: int) -> tuple[Floats, Floats, Floats]:
        """What is usual for some blocks in a row, each by those before it: medians, highest ones, thresholds."""
        limits, numbers = self._limits, np.arange(begin, end)
        low = levels.first + np.arange(levels.medians.size) < self._fresh
        own = np.where(low, np.nan, levels.medians)
        own = np.concatenate([np.full(limits.memory, np.nan), own, np.full(max(0, end), np.nan)])
        own = own[begin - levels.first : end - levels.first + limits.memory - 1]
        rows = np.lib.stride_tricks.sliding_window_view(own, limits.memory)
        highest: Floats = np.asarray(np.fmax.reduce(rows, axis=1))
        highest = np.where(numbers < self._fresh + limits.memory, np.fmax(highest, self._lent.highest), highest)
        last = rows[:, -1]
        at = numbers - levels.first
        there = (at >= 2) & (at <= levels.spreads.size)
        spread = np.full(numbers.size, np.nan)
        spread[there] = np.maximum(levels.spreads[at[there] - 1], levels.spreads[at[there] - 2])
        high = np.maximum(limits.spreads * spread, limits.of_first * (self._first or 0.0))
        thresholds = np.maximum(last + high, (1 + limits.rise) * highest)
        return last, highest, np.where(np.isfinite(thresholds), thresholds, np.inf)

    def _begin(self, levels: _Levels, until: int) -> bool:
        """Open the next excursion from ``_next`` on, if one begins before a place."""
        assert self._held is not None
        block = self._limits.block
        number = self._next // block
        while number * block < until and number < self._fresh + 2:
            place = self._first_begin(number, np.full(1, self._lent.threshold), until)
            if place is not None:
                assert self._lent_work is not None
                self._open = Excursion(self._lent, self._lent_work, place)
                self._next = place
                return True
            number += 1
        if number * block >= until:
            return False
        usual = self._usual(levels, number, -(-until // block))
        place = self._first_begin(number, usual[2], until)
        if place is None:
            return False
        at = place // block
        work = self._held.cut((at - 1) * block - self._base, at * block - self._base).work()
        median, highest, threshold = (float(values[at - number]) for values in usual)
        back = median + self._limits.back * (threshold - median)
        self._open = Excursion(Usual(median, highest, threshold, back), work, place)
        self._next = place
        return True

    def _first_begin(self, number: int, thresholds: Floats, until: int) -> int | None:
        """The first place, in the blocks from one on, that is above the threshold and most of its window too."""
        assert self._held is not None
        limits, begin = self._limits, number * self._limits.block - self._base
        width = limits.block + limits.window - 1
        values = self._held.values[begin : begin + thresholds.size * limits.block + limits.window - 1]
        missing = (thresholds.size - 1) * limits.block + width - values.size
        if missing > 0:
            values = np.concatenate([values, np.full(missing, -np.inf)])
        rows = np.lib.stride_tricks.sliding_window_view(values, width)[:: limits.block]
        # Mostly nothing is that high: then no more is looked at.
        maybe = np.flatnonzero(rows[:, : limits.block].max(axis=1) > thresholds)
        if not maybe.size:
            return None
        above = rows[maybe] > thresholds[maybe, None]
        enough = above.sum(axis=1) >= limits.need
        maybe, above = maybe[enough], above[enough]
        begins = _begins(above, limits)
        places = (number + maybe)[:, None] * limits.block + np.arange(limits.block)
        found = places[begins & (places >= self._next) & (places < until)]
        return int(found[0]) if found.size else None

    def _over(self, until: int) -> Excursion | None:
        """Go on in the excursion that is open, up to a place. Returns it if it is over and counts."""
        assert self._held is not None
        assert self._open is not None
        own, limits, size = self._open, self._limits, _AHEAD
        while self._next < until:
            end = min(until, self._next + size, own.begin + limits.longest)
            if not own.checked:
                end = min(end, own.begin + limits.check)
            size *= 4
            back = self._first_back(end)
            stop = end if back is None else back
            own.add(self._held.cut(self._next - self._base, stop - self._base))
            self._next = stop
            if back is not None:
                own.end, own.back_step = BACK, int(self._held.steps[back - self._base])
                return self._settled(own, same=own.same_work(limits.same_work))
            if not own.checked and own.count >= limits.check:
                own.checked = True
                if not own.same_work(limits.same_work):
                    return self._settled(own, same=False)
            if own.count >= limits.longest:
                own.end = LONGEST
                return self._settled(own, same=own.same_work(limits.same_work), new_level=True)
        return None

    def _first_back(self, end: int) -> int | None:
        assert self._held is not None
        assert self._open is not None
        limits, begin = self._limits, self._next - self._base
        values = self._held.values[begin : end - self._base + limits.window - 1]
        missing = end - self._next + limits.window - 1 - values.size
        if missing > 0:
            values = np.concatenate([values, np.full(missing, np.inf)])
        back = values <= self._open.before.back
        found = np.flatnonzero(_begins(back[None], limits)[0])
        return self._next + int(found[0]) if found.size else None

    def _settled(self, own: Excursion, *, same: bool, new_level: bool = False) -> Excursion | None:
        """Close it. Behind it, its threshold counts on; not where the level is a new one."""
        self._open = None
        self._fresh = -(-self._next // self._limits.block)
        self._lent = own.before if same and not new_level else NOTHING
        self._lent_work = own.work
        return own if same else None

    def _forget(self) -> None:
        """Let go of the values that nothing is told by any more."""
        assert self._held is not None
        block = self._limits.block
        needed = max(2, self._limits.memory) if self._open is None else 0
        begin = max(self._base, (self._next // block - needed) * block)
        self._held = self._held.cut(begin - self._base)
        self._base = begin


def _begins(flags: npt.NDArray[np.bool_], limits: Limits) -> npt.NDArray[np.bool_]:
    """By row and column, whether a flag is set, and enough in its window: in the first part of it as in the whole.

    Without the former a flag that is set by chance, a little before the others, would be the first.
    """
    whole = _windows(flags, limits.window) >= limits.need
    early = max(1, limits.window // _EARLY)
    wanted = -(-limits.need * early // limits.window)
    begins: npt.NDArray[np.bool_] = flags[:, : whole.shape[1]] & whole
    if early > 1:
        begins &= _windows(flags, early)[:, : whole.shape[1]] >= wanted
    return begins


# The first part of a window is so small a part of it.
_EARLY: Final = 4


def _windows(flags: npt.NDArray[np.bool_], window: int) -> npt.NDArray[np.int64]:
    """By row and column, how many flags are set in the window that begins there; there are fewer columns for that."""
    sums = np.zeros((flags.shape[0], flags.shape[1] + 1), np.int64)
    np.cumsum(flags, axis=1, out=sums[:, 1:])
    return sums[:, window:] - sums[:, :-window]
