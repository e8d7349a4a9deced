"""Lines of text that are samples: ``series value [time] [# exemplar]``, a block of them at once.

Most lines have the form ``series value time``, with single blanks before the last two words. Those are taken apart by
the places of their blanks, for all lines together; equal series are found by their text, and read once. A line whose
parts are not what they have to be (blanks in a label, no time, an exemplar) is read alone, by its grammar.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from aftershock.parsers.prometheus.columns import Labels
from aftershock.parsers.prometheus.labels_text import SERIES, matched_series, series_of
from aftershock.parsers.prometheus.number_text import NUMBER, float_of, floats, millis_of, pieces, times_of

_NEWLINE: Final = ord("\n")
_BLANK: Final = ord(" ")
_HASH: Final = ord("#")
# Series of which the labels are remembered from block to block, and how long their text may be for it.
_MOST_KNOWN: Final = 1 << 16
_LONGEST_KNOWN: Final = 2048

_LINE: Final = re.compile(
    rb"""
    %b
    [\ \t]+(?P<value>%b|\{count:[^{}\n]*\})
    (?:[\ \t]+(?P<time>-?[0-9.eE+]+))?
    (?:[\ \t]+[cs]t@[-0-9.eE+]+)?                  # when the counter began
    [\ \t]*(?:\#.*)?\Z                             # an exemplar
    """
    % (SERIES, NUMBER),
    re.VERBOSE | re.DOTALL,
)


class LineSample(NamedTuple):
    """A line that was read alone. ``value``: as printed, where it is a histogram."""

    labels: Labels
    value: float | bytes
    time: int | None


@dataclass
class BlockSamples:
    """The samples of a block.

    series: of lines of the plain form, sorted by series: labels, times, values.
    alone: (offset in the block, sample) of the others; bad: (offset, line) of what is no sample.
    comments: lines that begin with ``#``.
    """

    series: list[tuple[Labels, NDArray[np.int64], NDArray[np.float64]]] = field(default_factory=list)
    alone: list[tuple[int, LineSample]] = field(default_factory=list)
    bad: list[tuple[int, bytes]] = field(default_factory=list)
    comments: list[bytes] = field(default_factory=list)


class SampleLines:
    """Reads blocks. ``adapted``: what becomes of the labels of a series that was read, after the comments."""

    def __init__(
        self,
        adapted: Callable[[Labels], Labels] = lambda labels: labels,
        comments: Callable[[list[bytes]], None] = lambda lines: None,
    ) -> None:
        self._adapted = adapted
        self._comments = comments
        self._known: dict[bytes, Labels | None] = {}

    def read(self, data: bytes) -> BlockSamples:
        """The samples of whole lines."""
        found = BlockSamples()
        raw = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(raw == _NEWLINE)
        begins = np.concatenate((np.zeros(1, np.int64), ends[:-1] + 1))
        is_comment = raw[begins] == _HASH
        found.comments = [data[begins[i] : ends[i]] for i in np.flatnonzero(is_comment)]
        self._comments(found.comments)
        blanks = np.flatnonzero(raw == _BLANK)
        before = np.searchsorted(blanks, ends)
        plain = before >= 2
        last = np.where(plain, blanks[before - 1] if len(blanks) else 0, 0)
        second = np.where(plain, blanks[before - 2] if len(blanks) else 0, 0)
        plain &= (second > begins) & (last > second + 1) & (last + 1 < ends) & ~is_comment
        lines = np.flatnonzero(plain)
        odd = self._plain(data, begins[lines], second[lines], last[lines], ends[lines], found)
        others = np.flatnonzero(~plain & ~is_comment & (ends > begins))
        for i in np.sort(np.concatenate((lines[odd], others))).tolist():
            self._alone(data[begins[i] : ends[i]], int(begins[i]), found)
        return found

    def _plain(
        self,
        data: bytes,
        begins: NDArray[np.int64],
        second: NDArray[np.int64],
        last: NDArray[np.int64],
        ends: NDArray[np.int64],
        found: BlockSamples,
    ) -> NDArray[np.int64]:
        """Reads lines of the plain form; gives the numbers of those that are not of it after all."""
        if not len(begins):
            return np.zeros(0, np.int64)
        words = pieces(data, begins, second).dictionary_encode()
        series = [self._labels(text) for text in words.dictionary.to_pylist()]
        of_line = words.indices.to_numpy()
        good = np.array([labels is not None for labels in series])[of_line]
        if not good.all():
            begins, second, last, ends, of_line = (one[good] for one in (begins, second, last, ends, of_line))
        values, are_values = _numbers(data, second + 1, last)
        seconds, are_times = _numbers(data, last + 1, ends)
        times, are_possible = times_of(seconds)
        whole = are_values & are_times & are_possible
        kept = np.flatnonzero(whole)
        kept = kept[np.argsort(of_line[kept], kind="stable")]
        if len(kept):
            borders = np.flatnonzero(np.diff(of_line[kept])) + 1
            for group in np.split(kept, borders):
                labels = series[of_line[group[0]]]
                assert labels is not None
                found.series.append((labels, times[group], values[group]))
        return np.concatenate((np.flatnonzero(~good), np.flatnonzero(good)[~whole]))

    def _labels(self, text: bytes) -> Labels | None:
        if text in self._known:
            return self._known[text]
        labels = series_of(text)
        labels = None if labels is None else self._adapted(labels)
        if len(text) <= _LONGEST_KNOWN:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[text] = labels
        return labels

    def _alone(self, line: bytes, offset: int, found: BlockSamples) -> None:
        line = line.strip()
        if not line:
            return
        if line.startswith(b"#"):
            found.comments.append(line)
            return
        match = _LINE.match(line)
        labels = matched_series(match) if match is not None else None
        if match is None or labels is None:
            found.bad.append((offset, line))
            return
        time = None
        if match["time"] is not None:
            time = millis_of(match["time"])
            if time is None:
                found.bad.append((offset, line))
                return
        value = match["value"] if match["value"].startswith(b"{") else float_of(match["value"])
        if value is None:
            found.bad.append((offset, line))
            return
        found.alone.append((offset, LineSample(self._adapted(labels), value, time)))


_IS_NUMBER: Final = "^(?:" + NUMBER.decode("ascii") + ")$"


def _numbers(
    data: bytes, begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The numbers at [begin, end), and which of these texts are numbers."""
    try:
        return floats(data, begins, ends), np.ones(len(begins), np.bool_)
    except ValueError:
        pass
    texts = pieces(data, begins, ends)
    is_number: NDArray[np.bool_] = pc.match_substring_regex(texts, _IS_NUMBER).to_numpy(zero_copy_only=False)
    numbers = np.zeros(len(begins))
    chosen = np.flatnonzero(is_number)
    try:
        numbers[chosen] = floats(data, begins[chosen], ends[chosen])
    except (ValueError, pa.ArrowInvalid):
        is_number[:] = False
    return numbers, is_number
