"""Chunks of series to samples of series, whatever the chunks came in: a block, a stream, a Parquet file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aftershock.parsers.prometheus.columns import NAME, Histogram, Labels, SeriesBatch
from aftershock.parsers.prometheus.histogram import ENCODINGS, HistogramSample, decode_histogram
from aftershock.parsers.prometheus.ragged import begins_of
from aftershock.parsers.prometheus.varbit import OutOfBits
from aftershock.parsers.prometheus.xor import decode_xor
from aftershock.parsers.prometheus.xor2 import decode_xor2

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

XOR: Final = 1
XOR2: Final = 4
MISSING: Final = 0
_NAMES: Final = {0xFF: " (aggregates that Thanos made by downsampling)"}


class Problem(NamedTuple):
    """A chunk that gave no samples, by its number, and why."""

    chunk: int
    reason: str


class Chunks(NamedTuple):
    """Chunks of some series: those of series i are ``data[begins[i]:begins[i + 1]]``, in any order of time.

    data: of each chunk ``skip`` bytes, then its count of samples and all that follows.
    encodings: numbers of Prometheus; MISSING for a chunk that could not be had, which is no problem again.
    """

    labels: Sequence[Labels]
    begins: Ints
    data: Sequence[bytes]
    encodings: NDArray[np.uint8]
    skip: int = 0


def batch_of(
    chunks: Chunks, deleted: Mapping[int, Sequence[tuple[int, int]]] | None = None
) -> tuple[SeriesBatch, list[Problem]]:
    """The samples of all chunks, in time order in each series, and what could not be read.

    Of samples of one series at one time the first counts. deleted: (first, last time) by the number of a series. Count
    and sum of native histograms are series of their own, named as those of classic histograms.
    """
    problems: list[Problem] = []
    times, values, counts = _floats(chunks, problems)
    begins = begins_of(counts)[chunks.begins]
    times, values, begins = _in_order(times, values, begins)
    labels = list(chunks.labels)
    pieces: list[tuple[list[int], list[float]]] = []
    histograms: list[Histogram] = []
    other = np.flatnonzero((chunks.encodings != XOR) & (chunks.encodings != MISSING))
    of_series = np.searchsorted(chunks.begins, other, side="right") - 1
    for series in np.unique(of_series).tolist():
        found = _histograms(chunks, other[of_series == series].tolist(), problems)
        histograms += [Histogram(series, one.time, one.buckets) for one in found]
        if found:
            own = [one.time for one in found]
            labels += [_named(chunks.labels[series], "_count"), _named(chunks.labels[series], "_sum")]
            pieces += [(own, [one.count for one in found]), (own, [one.sum for one in found])]
    if pieces:
        more = np.cumsum([len(own) for own, _ in pieces], dtype=np.int64) + begins[-1]
        begins = np.concatenate((begins, more))
        times = np.concatenate((times, *(np.array(own, np.int64) for own, _ in pieces)))
        values = np.concatenate((values, *(np.array(own, np.float64) for _, own in pieces)))
    if deleted:
        times, values, begins, histograms = _without(deleted, len(chunks.labels), times, values, begins, histograms)
    return SeriesBatch(labels, begins, times, values, histograms=histograms), problems


def _floats(chunks: Chunks, problems: list[Problem]) -> tuple[Ints, Floats, Ints]:
    """Samples of the chunks of floats, chunk after chunk, and how many each chunk has (others have none)."""
    counts = np.zeros(len(chunks.data), np.int64)
    plain = np.flatnonzero(chunks.encodings == XOR)
    wanted = [chunks.data[i] for i in plain.tolist()]
    sizes = np.fromiter(map(len, wanted), np.int64, len(wanted))
    stops = np.cumsum(sizes)
    decoded = decode_xor(b"".join(wanted), stops - sizes + chunks.skip, stops)
    counts[plain] = np.diff(decoded.begins)
    problems += [Problem(i, "a damaged chunk") for i in plain[decoded.damaged].tolist()]
    newer = np.flatnonzero(chunks.encodings == XOR2)
    if not len(newer):
        return decoded.times, decoded.values, counts
    pieces: dict[int, tuple[Ints, Floats]] = {}
    for i in newer.tolist():
        try:
            pieces[i] = decode_xor2(chunks.data[i][chunks.skip :])
        except OutOfBits as error:
            problems.append(Problem(i, f"a chunk that {error}"))
            continue
        counts[i] = len(pieces[i][0])
    # The others stay where they are, with room between them.
    begins = begins_of(counts)
    times, values = np.empty(begins[-1], np.int64), np.empty(begins[-1], np.float64)
    others = np.ones(len(times), np.bool_)
    for i, (own_times, own_values) in pieces.items():
        own = slice(begins[i], begins[i + 1])
        times[own], values[own], others[own] = own_times, own_values, False
    times[others], values[others] = decoded.times, decoded.values
    return times, values, counts


def _in_order(times: Ints, values: Floats, begins: Ints) -> tuple[Ints, Floats, Ints]:
    """The same with the samples of each series in time order, one for each time. Nearly all are so already."""
    wrong = np.flatnonzero(times[1:] <= times[:-1]) + 1
    starts = begins[:-1]
    wrong = wrong[~np.isin(wrong, starts)]
    if not len(wrong):
        return times, values, begins
    series = np.repeat(np.arange(len(starts)), np.diff(begins))
    order = np.lexsort((times, series))  # stable: the first of equal ones stays the first
    times, values = times[order], values[order]
    kept = np.ones(len(times), np.bool_)
    kept[1:] = (times[1:] != times[:-1]) | (series[1:] != series[:-1])
    counts = np.bincount(series[kept], minlength=len(starts))
    return times[kept], values[kept], begins_of(counts)


def _histograms(chunks: Chunks, own: Sequence[int], problems: list[Problem]) -> list[HistogramSample]:
    """The native histograms in some chunks of one series, in time order, one for each time."""
    found: dict[int, HistogramSample] = {}
    for i in own:
        encoding = int(chunks.encodings[i])
        if encoding == XOR2:
            continue
        if encoding not in ENCODINGS:
            problems.append(Problem(i, f"a chunk of encoding {encoding}{_NAMES.get(encoding, '')}, which is not known"))
            continue
        try:
            for sample in decode_histogram(chunks.data[i][chunks.skip :], encoding):
                found.setdefault(sample.time, sample)
        except OutOfBits as error:
            problems.append(Problem(i, f"a histogram that {error}"))
    return [found[time] for time in sorted(found)]


def _named(labels: Labels, suffix: str) -> Labels:
    return tuple((key, value + suffix if key == NAME else value) for key, value in labels)


def _without(
    deleted: Mapping[int, Sequence[tuple[int, int]]],
    own: int,
    times: Ints,
    values: Floats,
    begins: Ints,
    histograms: list[Histogram],
) -> tuple[Ints, Floats, Ints, list[Histogram]]:
    """The same without what was deleted; ``own``: how many series there are before those made of histograms."""
    kept = np.ones(len(times), np.bool_)
    made = {series: own + 2 * k for k, series in enumerate(sorted({one.series for one in histograms}))}
    for series, spans in deleted.items():
        for number in (series, made[series], made[series] + 1) if series in made else (series,):
            part = times[begins[number] : begins[number + 1]]
            for first, last in spans:
                kept[begins[number] : begins[number + 1]][(part >= first) & (part <= last)] = False
    histograms = [
        one for one in histograms if not any(low <= one.time <= high for low, high in deleted.get(one.series, ()))
    ]
    series_of = np.repeat(np.arange(len(begins) - 1), np.diff(begins))
    counts = np.bincount(series_of[kept], minlength=len(begins) - 1)
    return times[kept], values[kept], begins_of(counts), histograms
