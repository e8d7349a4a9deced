"""Which sessions lie near a failure that they may be a retry of, for all sessions at once.

Most sessions follow no failure of the same work within hours: they are told apart by columns, before any of them
becomes a row. What is kept here is more than what is paired in the end, and never less: times are widened to whole
seconds, tasks of arrays are not told apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from aftershock.pipeline.attempts import ASSUMED, US
from aftershock.pipeline.retry_rules import RetryRules, widest
from aftershock.pipeline.same_work import retried_ends, stem_of, work_of
from aftershock.schemas.columns import TIMESTAMP

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

_NONE: Final = -1


@dataclass(frozen=True)
class Near:
    """For each row whether it may be part of a pair. ``names``: for each folder of each lineage, by the place of a row
    that is in it, how many names of jobs it has."""

    rows: Bools
    names: Ints


def near_failures(table: pa.Table, rules: RetryRules) -> Near:
    """The sessions that failed before another one that may be their retry, and those others."""
    rules = widest(rules)
    lineage = _together(
        _coded(table["cluster"]),
        _coded(table["scheduler"]),
        _coded(table["user"]),
        _coded(pc.equal(pc.fill_null(table["time_basis"], ""), ASSUMED)),
    )
    start, end = _seconds(table["start_time"]), _seconds(table["end_time"])
    failed = _truth(pc.is_in(table["state"], value_set=pa.array(sorted(retried_ends(rules))))) & (end != _NONE)
    started = start != _NONE
    named = _coded(table["name"])
    folder = _within(lineage, _coded(table["work_dir"]))
    names = _names_in(folder, named)
    specific = np.where(names <= rules.names_per_folder, folder, _NONE)
    stem = _coded(table["name"], stem_of)
    keys = (
        _within(lineage, named),
        _within(folder, stem),
        specific,
        _within(_within(lineage, stem), _coded(table["command"], work_of)),
    )
    found = np.zeros(len(start), np.bool_)
    gap = int(rules.max_gap_s) + 2
    for key in keys:
        found |= _near(key, failed, started, start, end, gap)
    return Near(found, names)


def _near(key: Ints, failed: Bools, started: Bools, start: Ints, end: Ints, gap: int) -> Bools:
    """Rows with the same key of which one failed and the other began within the gap."""
    found = np.zeros(len(key), np.bool_)
    lost, begun = np.flatnonzero(failed & (key != _NONE)), np.flatnonzero(started & (key != _NONE))
    if not len(lost) or not len(begun):
        return found
    first = min(int(end[lost].min()), int(start[begun].min())) - gap - 2
    span = max(int(end[lost].max()), int(start[begun].max())) - first + 2 * gap + 4
    ends, starts = key[lost] * span + end[lost] - first, key[begun] * span + start[begun] - first
    ordered = np.sort(ends)
    found[begun] = np.searchsorted(ordered, starts + 1, "right") > np.searchsorted(ordered, starts - gap, "left")
    ordered = np.sort(starts[found[begun]])
    found[lost] |= np.searchsorted(ordered, ends + gap, "right") > np.searchsorted(ordered, ends - 1, "left")
    return found


def _names_in(folder: Ints, named: Ints) -> Ints:
    """For each row how many names the jobs of its folder have."""
    both = _within(folder, named)
    _, places = np.unique(both[both != _NONE], return_index=True)
    counts = np.bincount(folder[both != _NONE][places], minlength=int(folder.max(initial=0)) + 1)
    return np.where(folder == _NONE, 0, counts[np.maximum(folder, 0)])


def _coded(column: Any, of: Callable[[str], str] | None = None) -> Ints:
    """Each value as a number, nothing and an empty text as -1. ``of``: what values are to be told apart by."""
    encoded = (column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column).dictionary_encode()
    numbers = _indices(encoded)
    words = encoded.dictionary.to_pylist()
    codes: dict[Any, int] = {}
    mapped = [_NONE if word == "" else codes.setdefault(of(word) if of else word, len(codes)) for word in words]
    coded: Ints = np.array([*mapped, _NONE], np.int64)[numbers]
    return coded


def _within(outer: Ints, inner: Ints) -> Ints:
    """A number for each pair; -1 where either is nothing."""
    joint = np.where((outer == _NONE) | (inner == _NONE), _NONE, outer * (inner.max(initial=0) + 1) + inner)
    return _dense(joint)


def _together(*parts: Ints) -> Ints:
    """A number for each combination, where nothing is a value too."""
    joint = parts[0] + 1
    for part in parts[1:]:
        joint = _dense(joint * (part.max(initial=0) + 2) + part + 1)
    return joint


def _dense(numbers: Ints) -> Ints:
    """The same numbers, none larger than there are different ones; -1 stays."""
    known = pa.array(numbers, mask=numbers == _NONE)
    return _indices(known.dictionary_encode())


def _indices(encoded: Any) -> Ints:
    numbers: Ints = encoded.indices.fill_null(_NONE).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _seconds(column: Any) -> Ints:
    """Whole seconds, -1 where unknown."""
    micros = pc.fill_null(column.cast(TIMESTAMP).cast(pa.int64()), _NONE * US)
    return np.asarray(micros.to_numpy()) // US


def _truth(column: Any) -> Bools:
    return np.asarray(pc.fill_null(column, False).to_numpy()).astype(np.bool_)
