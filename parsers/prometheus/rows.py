"""Rows of samples for ``aftershock parse``: a row for each series, before its samples.

A marker of staleness has no value; a NaN that was scraped stays one. What a series is about (host, GPU) is told later,
from all sources; here stands what its text says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

from aftershock.parsers.clock import Reading
from aftershock.parsers.formats import Found, Refused
from aftershock.parsers.prometheus.columns import (
    EVERYTHING,
    NAME,
    Labels,
    MetricsSource,
    ReadColumns,
    SeriesBatch,
)
from aftershock.parsers.prometheus.grid import RESAMPLED_NOTE
from aftershock.schemas.ids import stable_id
from aftershock.schemas.metrics import Sample, Series

_MICROS: Final = 1000  # of a millisecond
_RESOLUTION: Final = 1000


def series_id(labels: Labels) -> str:
    """The id of a series: made from its name and all its labels."""
    return stable_id("series", *(part for label in labels for part in label))


def rows_of(read: ReadColumns, source: MetricsSource) -> Iterator[Found | Refused]:
    """All series and samples of a source, each series once before its first sample.

    What does not look scraped is told once, as a refusal beside the rows: a row has no place for it.
    """
    told: set[str] = set()
    resampled = False
    for item in read(source, EVERYTHING):
        if isinstance(item, Refused):
            yield item
            continue
        if item.resampled and not resampled:
            resampled = True
            yield Refused(0, 0, RESAMPLED_NOTE)
        yield from _rows_of_batch(item, told)


def reader(read: ReadColumns) -> Callable[[BinaryIO], Iterator[Found | Refused]]:
    """The ``read`` of a format whose samples stand in one file, from its ``read_metrics``."""

    def read_rows(stream: BinaryIO) -> Iterator[Found | Refused]:
        return rows_of(read, MetricsSource("", lambda name: stream))

    return read_rows


def _rows_of_batch(batch: SeriesBatch, told: set[str]) -> Iterator[Found]:
    stale = batch.stale().tolist()
    times, values = batch.times.tolist(), batch.values.tolist()
    begins = batch.begins.tolist()
    for i, labels in enumerate(batch.labels):
        name = series_id(labels)
        begin, end = begins[i], begins[i + 1]
        if begin == end:
            continue
        if name not in told:
            told.add(name)
            yield Found(_series(name, labels), _clock(times[begin]), 0)
        for k in range(begin, end):
            value = None if stale[k] else values[k]
            sample = Sample(series_id=name, time=times[k] * _MICROS, value=value, stale=stale[k])
            yield Found(sample, _clock(times[k]), 0)


def _series(name: str, labels: Labels) -> Series:
    metric = next((value for key, value in labels if key == NAME), None)
    return Series(series_id=name, metric=metric, labels={key: value for key, value in labels if key != NAME})


def _clock(time: int) -> Reading:
    return Reading("epoch", time * _MICROS, resolution=_RESOLUTION)
