"""Places of lines in a block of bytes, of many at once."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from aftershock.parsers.training.digits import Bytes, Ints

# Bytes that are looked through for line ends at once: they stay in the cache.
_PIECE: Final = 1 << 18


def line_ends(data: Bytes, begin: int, end: int) -> Ints:
    """Where the newlines of ``data[begin:end]`` stand."""
    flags = np.empty(_PIECE, dtype=np.bool_)
    found = []
    for at in range(begin, end, _PIECE):
        piece = data[at : min(at + _PIECE, end)]
        is_end = np.equal(piece, 10, out=flags[: len(piece)])
        found.append(np.flatnonzero(is_end) + at)
    return np.concatenate(found)


def spans_of(starts: Ints, stops: Ints) -> list[tuple[int, int]]:
    """Where lines stand, those that follow each other as one. ``stops``: behind their last bytes, without line ends."""
    gaps = np.flatnonzero(starts[1:] > stops[:-1] + 2)
    firsts: Any = np.concatenate(([0], gaps + 1))
    lasts: Any = np.concatenate((gaps, [len(starts) - 1]))
    return list(zip(starts[firsts].tolist(), stops[lasts].tolist(), strict=True))
