"""Samples by columns: what a reader of metrics gives, and what it is asked for.

A billion samples pass through here for every day of a large cluster: no row is made of one that nobody asked for. The
formats that read metrics are documents as others are, with a reader by columns beside that by rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from aftershock.parsers.formats import Refused

Labels = tuple[tuple[str, str], ...]
"""The labels of a series, sorted by name, the metric among them as ``__name__``."""

NAME: Final = "__name__"

# The marker of a series that ended. Any other NaN is a value. Only binary formats keep the difference.
STALE_BITS: Final = 0x7FF0_0000_0000_0002


@dataclass(frozen=True)
class Wanted:
    """What is asked of a reader. It may give more; whoever asked cuts it to measure.

    spans: times [begin, end) in milliseconds since 1970, sorted and apart from each other; None for all times.
    metrics: names of metrics; None for all.
    """

    spans: tuple[tuple[int, int], ...] | None = None
    metrics: frozenset[str] | None = None


EVERYTHING: Final = Wanted()


@dataclass(frozen=True)
class Histogram:
    """A native histogram: its count and sum are samples as others are; ``buckets`` are (lower, upper, count)."""

    series: int
    time: int
    buckets: tuple[tuple[float, float, float], ...]


@dataclass(frozen=True)
class SeriesBatch:
    """Samples of some series, series by series, in time order within each.

    labels: of each series. begins: where its samples begin, and behind them the end: ``len(labels) + 1`` numbers.
    times: milliseconds since 1970. values: with the bits of staleness kept where the format has them.
    resampled: whether a server made these values up at the steps of a query: not what was scraped.
    """

    labels: Sequence[Labels]
    begins: NDArray[np.int64]
    times: NDArray[np.int64]
    values: NDArray[np.float64]
    resampled: bool = False
    histograms: Sequence[Histogram] = field(default=())

    def stale(self) -> NDArray[np.bool_]:
        """Which samples are markers of staleness, by their bits."""
        found: NDArray[np.bool_] = self.values.view(np.uint64) == STALE_BITS
        return found


@dataclass(frozen=True)
class MetricsSource:
    """Where metrics are read from: a file, or a folder of files that belong together (a block).

    open: the decompressed stream of the file (with an empty name), or of a file in the folder (``chunks/000001``).
    names: the files in the folder, by the path below it; empty for a file.
    """

    source: str
    open: Callable[[str], BinaryIO]
    names: tuple[str, ...] = ()


ReadColumns = Callable[[MetricsSource, Wanted], Iterator[SeriesBatch | Refused]]
