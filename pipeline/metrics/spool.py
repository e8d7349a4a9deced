"""Samples of many series in any order, given back series by series: what is too much for memory waits in a file.

Samples are held up to a number, then sorted by series and laid down as a run. To give them back, all runs are read side
by side: a range of series is a slice of each. The file has no name in its folder, and is gone when the process is.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from aftershock.pipeline.metrics.window_join import Floats, Ints

# Samples that are held, and samples that are given back together, of 16 bytes each.
MOST_HELD: Final = 1 << 22
MOST_TOGETHER: Final = 1 << 20
# Pieces of a run whose places are known at once.
_AHEAD: Final = 4096
# A piece on disk: which series, whose, how many samples.
_PIECE: Final = np.dtype([("series", "<i4"), ("origin", "<i4"), ("length", "<i8")])


class Piece(NamedTuple):
    """Samples of one series in the order of time, from one origin."""

    series: int
    origin: int
    times: Ints
    values: Floats


@dataclass
class Spool:
    """Pieces of series, which are numbers from 0 on. ``folder``: where the file stands; the usual place if None."""

    folder: Path | None = None
    most: int = MOST_HELD
    held: int = 0
    _pieces: list[Piece] = field(default_factory=list)
    _sizes: list[int] = field(default_factory=list)
    _runs: list[_Run] = field(default_factory=list)
    _file: BinaryIO | None = None

    def put(self, piece: Piece, name_of: Callable[[int], str]) -> None:
        """Add a piece. ``name_of``: names of series, by which they are to be given back in order."""
        self._sizes += [0] * (piece.series + 1 - len(self._sizes))
        self._sizes[piece.series] += len(piece.times)
        self._pieces.append(piece)
        self.held += len(piece.times)
        if self.held >= self.most:
            self._lay_down(name_of)

    def keep(self, wanted: Callable[[Piece], NDArray[np.bool_]]) -> None:
        """Forget samples of what is in memory. ``wanted``: which of a piece are kept."""
        before, self._pieces, self.held = self._pieces, [], 0
        for piece in before:
            mask = wanted(piece)
            left = Piece(piece.series, piece.origin, piece.times[mask], piece.values[mask])
            self._sizes[piece.series] += len(left.times) - len(piece.times)
            if len(left.times):
                self._pieces.append(left)
                self.held += len(left.times)

    def _lay_down(self, name_of: Callable[[int], str]) -> None:
        if self._file is None:
            self._file = cast(BinaryIO, tempfile.TemporaryFile(dir=self.folder))  # noqa: SIM115 - lives as long as this
        ordered = sorted(self._pieces, key=lambda piece: name_of(piece.series))
        table = np.array([(piece.series, piece.origin, len(piece.times)) for piece in ordered], _PIECE)
        begin = self._file.seek(0, 2)
        self._file.write(table.tobytes())
        for piece in ordered:
            self._file.write(piece.times.tobytes())
        for piece in ordered:
            self._file.write(piece.values.tobytes())
        self._file.flush()
        self._runs.append(_Run(self._file, begin, len(table), int(table["length"].sum())))
        self._pieces, self.held = [], 0

    def groups(
        self, order: Sequence[int], together: int = MOST_TOGETHER
    ) -> Iterator[tuple[Sequence[int], list[Piece]]]:
        """All pieces, some series of the order at a time; of each series as they came."""
        place = np.zeros(len(order), np.int64)
        place[np.array(order, np.int64)] = np.arange(len(order))
        held = sorted(self._pieces, key=lambda piece: place[piece.series])
        at = begin = 0
        while begin < len(order):
            end, samples = begin + 1, self._sizes[order[begin]]
            while end < len(order) and samples + self._sizes[order[end]] <= together:
                samples += self._sizes[order[end]]
                end += 1
            found = [piece for run in self._runs for piece in run.until(end, place)]
            while at < len(held) and place[held[at].series] < end:
                found.append(held[at])
                at += 1
            yield order[begin:end], found
            begin = end

    def close(self) -> None:
        """Let go of everything."""
        self._pieces, self._runs = [], []
        if self._file is not None:
            self._file.close()
            self._file = None


class _Run:
    """Pieces that were laid down together, sorted by series: read from the first to the last."""

    def __init__(self, file: BinaryIO, begin: int, pieces: int, samples: int) -> None:
        self._file = file
        self._table_at, self._left = begin, pieces
        self._times_at = begin + pieces * _PIECE.itemsize
        self._values_at = self._times_at + 8 * samples
        self._next = np.empty(0, _PIECE)

    def until(self, end: int, place: Ints) -> Iterator[Piece]:
        """The next pieces, of series before a place in the order."""
        while True:
            if not len(self._next) and self._left:
                size = min(_AHEAD, self._left)
                self._next = np.frombuffer(self._read(self._table_at, size * _PIECE.itemsize), _PIECE)
                self._table_at += size * _PIECE.itemsize
                self._left -= size
            number = int(np.searchsorted(place[self._next["series"]], end))
            yield from self._pieces(self._next[:number])
            self._next = self._next[number:]
            if len(self._next) or not self._left:
                return

    def _pieces(self, table: np.ndarray[tuple[int], np.dtype[np.void]]) -> Iterator[Piece]:
        stops = np.cumsum(table["length"])
        if not len(stops):
            return
        size = 8 * int(stops[-1])
        times = np.frombuffer(self._read(self._times_at, size), np.int64)
        values = np.frombuffer(self._read(self._values_at, size), np.float64)
        self._times_at, self._values_at = self._times_at + size, self._values_at + size
        begin = 0
        for (series, origin, _), end in zip(table.tolist(), stops.tolist(), strict=True):
            yield Piece(series, origin, times[begin:end], values[begin:end])
            begin = end

    def _read(self, at: int, size: int) -> bytes:
        self._file.seek(at)
        return self._file.read(size)
