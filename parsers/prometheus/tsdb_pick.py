"""Which series and chunks of a block are read, and in which portions."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from aftershock.parsers.formats import Refused
from aftershock.parsers.prometheus.columns import NAME, Labels, Wanted
from aftershock.parsers.prometheus.ragged import begins_of, positions
from aftershock.parsers.prometheus.tsdb_index import Index, SeriesWindow

Ints = NDArray[np.int64]

# Chunks that are decoded together: enough for numpy, few enough for the cache.
BATCH_CHUNKS: Final = 4096


@dataclass(frozen=True)
class Picked:
    """Some series and those of their chunks that are wanted, as numbers: see :class:`SeriesWindow`."""

    refs: Ints
    label_begins: Ints
    names: Ints
    values: Ints
    chunk_begins: Ints
    places: Ints

    def part(self, begin: int, end: int) -> Picked:
        """Series ``begin`` to ``end``."""
        labels = slice(self.label_begins[begin], self.label_begins[end])
        chunks = slice(self.chunk_begins[begin], self.chunk_begins[end])
        return Picked(
            self.refs[begin:end],
            self.label_begins[begin : end + 1] - labels.start,
            self.names[labels],
            self.values[labels],
            self.chunk_begins[begin : end + 1] - chunks.start,
            self.places[chunks],
        )


class Picker:
    """Picks what is wanted out of an index."""

    def __init__(self, index: Index, wanted: Wanted) -> None:
        self._index = index
        self._spans = None if wanted.spans is None else np.array(wanted.spans, np.int64).reshape(-1, 2)
        self._metrics = None if wanted.metrics is None else _symbols_of(index.symbols, wanted.metrics)
        self._name = next((i for i, text in enumerate(index.symbols) if text == NAME), -1)

    def batches(self) -> Iterator[Picked | Refused]:
        """What is wanted, in portions of up to BATCH_CHUNKS chunks; a series is never cut."""
        held: list[Picked] = []
        waiting = 0
        for window in self._index.windows():
            if isinstance(window, Refused):
                yield window
                continue
            picked = self._of(window)
            held.append(picked)
            waiting += len(picked.places)
            if waiting >= BATCH_CHUNKS:
                rest = yield from _portions(_joined(held))
                held, waiting = [rest], len(rest.places)
        if waiting:
            rest = yield from _portions(_joined(held))
            if len(rest.places):
                yield rest

    def _of(self, window: SeriesWindow) -> Picked:
        counts = np.diff(window.chunk_begins)
        kept = np.ones(len(window.places), np.bool_)
        if self._spans is not None:
            # The first span that ends behind the beginning of the chunk has to begin before its end.
            first = np.searchsorted(self._spans[:, 1], window.first_times, side="right")
            begins = np.append(self._spans[:, 0], np.iinfo(np.int64).max)
            kept = (first < len(self._spans)) & (begins[first] <= window.last_times)
        if self._metrics is not None:
            labels = np.repeat(np.arange(len(window.refs)), np.diff(window.label_begins))
            right = labels[(window.names == self._name) & np.isin(window.values, self._metrics)]
            wanted = np.zeros(len(window.refs), np.bool_)
            wanted[right] = True
            kept &= np.repeat(wanted, counts)
        series = np.repeat(np.arange(len(window.refs)), counts)
        left = np.bincount(series[kept], minlength=len(window.refs))
        chosen = np.flatnonzero(left)
        sizes = np.diff(window.label_begins)[chosen]
        labels = positions(window.label_begins[chosen], sizes)
        return Picked(
            window.refs[chosen],
            begins_of(sizes),
            window.names[labels],
            window.values[labels],
            begins_of(left[chosen]),
            window.places[kept],
        )


def _symbols_of(symbols: Sequence[str], metrics: frozenset[str]) -> Ints:
    """The symbols that are names of these metrics, or of native histograms whose count or sum is one of them."""
    bases = {name.removesuffix("_count").removesuffix("_sum") for name in metrics}
    return np.array([i for i, text in enumerate(symbols) if text in metrics or text in bases], np.int64)


def _joined(parts: Sequence[Picked]) -> Picked:
    return Picked(
        np.concatenate([part.refs for part in parts]),
        begins_of(np.concatenate([np.diff(part.label_begins) for part in parts])),
        np.concatenate([part.names for part in parts]),
        np.concatenate([part.values for part in parts]),
        begins_of(np.concatenate([np.diff(part.chunk_begins) for part in parts])),
        np.concatenate([part.places for part in parts]),
    )


def _portions(picked: Picked) -> Generator[Picked, None, Picked]:
    """Gives full portions, and returns what is left."""
    begin, end = 0, len(picked.refs)
    while picked.chunk_begins[end] - picked.chunk_begins[begin] >= BATCH_CHUNKS:
        full = picked.chunk_begins[begin] + BATCH_CHUNKS
        stop = max(begin + 1, int(np.searchsorted(picked.chunk_begins, full, side="right")) - 1)
        yield picked.part(begin, stop)
        begin = stop
    return picked.part(begin, end)


class LabelsOf:
    """The labels of series, as texts, with those that stand outside the block."""

    def __init__(self, symbols: Sequence[str], external: Mapping[str, str]) -> None:
        self._symbols = np.array([*symbols, ""], dtype=object)
        self._external = dict(external)

    def __call__(self, picked: Picked) -> list[Labels]:
        """The labels of each series, sorted by name. Those from outside count more, as with Thanos."""
        names = self._symbols[picked.names].tolist()
        values = self._symbols[picked.values].tolist()
        pairs = list(zip(names, values, strict=True))
        begins = picked.label_begins.tolist()
        own = [tuple(pairs[begin:end]) for begin, end in pairwise(begins)]
        if self._external:
            return [tuple(sorted({**dict(labels), **self._external}.items())) for labels in own]
        return own
