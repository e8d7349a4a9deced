"""Samples in the JSON of Prometheus' API: pairs of seconds and a value as text, and native histograms."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from aftershock.parsers.prometheus.columns import Labels
from aftershock.parsers.prometheus.gather import Buckets
from aftershock.parsers.prometheus.labels_text import labels_of
from aftershock.parsers.prometheus.number_text import float_of, number_list, times_of

_IN_NUMBERS: Final = b'0123456789.eE+-NnaIifty" \t\r\n'
_BETWEEN: Final = b'[]"+ \t\r\n'
_PAIR: Final = b"[,],"
_MOST_BUCKETS: Final = 10_000


class Pairs(NamedTuple):
    """Samples, and how many pairs of the text were none."""

    times: NDArray[np.int64]
    values: NDArray[np.float64]
    bad: int


class HistogramPair(NamedTuple):
    """A native histogram: milliseconds, count, sum, buckets."""

    time: int
    count: float  # type: ignore[assignment]  # a tuple has a method of this name
    sum: float
    buckets: Buckets


def pairs_of(text: bytes) -> Pairs | None:
    """``[1772435289.5,"41"],[1772435304.5,"NaN"]``; None if this is no list of arrays at all."""
    shape = text.translate(None, _IN_NUMBERS)
    number = (len(shape) + 1) // len(_PAIR)
    if shape == (_PAIR * number)[:-1]:
        try:
            numbers = number_list(text.translate(None, _BETWEEN))
        except ValueError:
            return _pair_by_pair(text)
        times, good = times_of(numbers[::2])
        values = np.ascontiguousarray(numbers[1::2])
        if good.all():
            return Pairs(times, values, 0)
        return Pairs(times[good], values[good], int((~good).sum()))
    return _pair_by_pair(text)


def _pair_by_pair(text: bytes) -> Pairs | None:
    try:
        rows = orjson.loads(b"[" + text + b"]")
    except orjson.JSONDecodeError:
        return None
    return pairs_of_values(rows)


def pairs_of_values(rows: list[Any]) -> Pairs:
    """The same of a list that is parsed."""
    kept = [pair for row in rows if (pair := _pair(row)) is not None]
    numbers = np.array(kept, np.float64).reshape(-1, 2)
    times, good = times_of(numbers[:, 0])
    return Pairs(times[good], np.ascontiguousarray(numbers[good, 1]), len(rows) - int(good.sum()))


def _pair(row: Any) -> tuple[float, float] | None:
    if not isinstance(row, list) or len(row) != 2:
        return None
    time, value = _number(row[0]), _number(row[1])
    return None if time is None or value is None else (time, value)


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        return float_of(value.encode("utf-8", "replace"))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value)


def metric_labels(metric: Any) -> Labels | None:
    """The labels of a ``metric`` object; None if it is none."""
    if not isinstance(metric, dict) or not all(isinstance(value, str) for value in metric.values()):
        return None
    return labels_of(metric.items())


def histogram_of(row: Any) -> HistogramPair | None:
    """``[1772435289.5,{"count":"3","sum":"2.5","buckets":[[0,"0.5","1","3"]]}]``; None if it is none."""
    if not isinstance(row, list) or len(row) != 2 or not isinstance(row[1], dict):
        return None
    seconds, body = _number(row[0]), row[1]
    count, total = _number(body.get("count")), _number(body.get("sum"))
    buckets = [_bucket(bucket) for bucket in body.get("buckets") or [] if isinstance(bucket, list)]
    if seconds is None or count is None or total is None or len(buckets) > _MOST_BUCKETS:
        return None
    times, good = times_of(np.array([seconds]))
    if not good[0]:
        return None
    return HistogramPair(int(times[0]), count, total, tuple(bucket for bucket in buckets if bucket is not None))


def _bucket(bucket: list[Any]) -> tuple[float, float, float] | None:
    # The first number says which of the bounds belong to the bucket.
    numbers = [_number(value) for value in bucket]
    if len(numbers) != 4 or numbers[1] is None or numbers[2] is None or numbers[3] is None:
        return None
    return numbers[1], numbers[2], numbers[3]
