"""A column of times as Slurm's tools print them, read at once: local times of whole seconds, or none."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from aftershock.parsers.clock import SECOND
from aftershock.parsers.slurm_words import clock_of

_WIDTH: Final = len("2025-02-03T08:00:05")
_DIGITS: Final = np.array([0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18])
_SIGNS: Final = ((4, "-"), (7, "-"), (10, "T"), (13, ":"), (16, ":"))
# Years that a clock reads, as in :mod:`aftershock.parsers.clock`.
_YEARS: Final = (1970, 2200)

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


def local_times(column: pa.Array) -> tuple[pa.Array, Bools]:
    """Microseconds of each cell as if it were UTC, null where it states no time; and which cells are one or the other.

    The others (epochs, times with a zone, cut ones, dates that do not exist) are for :func:`.clock_of`.
    """
    usual = pc.equal(pc.binary_length(column), _WIDTH).to_numpy(zero_copy_only=False)
    wall = np.zeros(len(column), np.int64)
    known = np.zeros(len(column), np.bool_)
    if usual.any():
        cells = column if usual.all() else column.filter(pa.array(usual))
        wall[usual], known[usual] = _read(_matrix(cells))
    fine = known.copy()
    others = np.flatnonzero(~usual)
    if len(others):
        words = column.take(pa.array(others)).dictionary_encode()
        without = np.array([_is_none(word) for word in words.dictionary.to_pylist()], np.bool_)
        fine[others] = without[words.indices.to_numpy()]
    return pa.array(wall, mask=~known), fine


def _is_none(word: str) -> bool:
    try:
        return clock_of(word) is None
    except ValueError:
        return False


def _matrix(cells: pa.Array) -> npt.NDArray[np.uint8]:
    """The bytes of cells of one width, a row for each."""
    first = np.frombuffer(cells.buffers()[1], np.int32)[cells.offset]
    data = np.frombuffer(cells.buffers()[2], np.uint8)
    return data[first : first + len(cells) * _WIDTH].reshape(len(cells), _WIDTH)


def _read(text: npt.NDArray[np.uint8]) -> tuple[Ints, Bools]:
    digits = text[:, _DIGITS].astype(np.int64) - ord("0")
    fine: Bools = np.asarray(((digits >= 0) & (digits <= 9)).all(axis=1))
    for at, sign in _SIGNS:
        fine &= np.asarray(text[:, at] == ord(sign))
    digits[~fine] = 0
    year = digits[:, :4] @ np.array([1000, 100, 10, 1])
    month, day, hour, minute, second = (digits[:, i] * 10 + digits[:, i + 1] for i in (4, 6, 8, 10, 12))
    fine &= (year >= _YEARS[0]) & (year <= _YEARS[1]) & (month >= 1) & (month <= 12) & (day >= 1)
    fine &= (hour <= 23) & (minute <= 59) & (second <= 60)
    months = np.where(fine, (year - 1970) * 12 + month - 1, 0)
    first = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    following = (months + 1).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    fine &= day <= following - first
    seconds = (first + day - 1) * 86_400 + hour * 3600 + minute * 60 + second
    return seconds * SECOND, fine
