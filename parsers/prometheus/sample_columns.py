"""Columns of a table of samples, as Arrow has them, to times, values and labels: a batch of rows at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from aftershock.parsers.column_map import NOTHING
from aftershock.parsers.documents.cell_values import time_cell
from aftershock.parsers.prometheus.columns import NAME, Labels
from aftershock.parsers.prometheus.labels_text import labels_of, series_of
from aftershock.parsers.prometheus.number_text import float_of

LOCAL: Final = "a time without a zone: write times with one, or as numbers since 1970"

# What numbers of this size count since 1970, as with the times of other tables: seconds, milli-, micro-, nanoseconds.
_SIZES: Final = ((1e11, 1e3), (1e14, 1.0), (1e17, 1e-3), (np.inf, 1e-6))
_UNITS: Final = {"s": 1e3, "ms": 1.0, "us": 1e-3, "ns": 1e-6}
_MOST_MILLIS: Final = 7_258_118_400_000  # 2200
_LONGEST: Final = 64


def times_of_column(
    column: pa.Array, unit: str | None, time_format: str | None
) -> tuple[NDArray[np.int64], NDArray[np.bool_], str | None]:
    """Milliseconds, which of them are times, and what is wrong with the first that is none (and not empty)."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        if kind.tz is None:
            nothing = np.zeros(len(column), np.int64)
            return nothing, np.zeros(len(column), np.bool_), LOCAL
        micros = column.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
        return _checked(_filled(micros) / 1e3, _valid(column))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _checked(_millis(_filled(column), unit), _valid(column))
    return _text_times(column, unit, time_format)


def _text_times(
    column: pa.Array, unit: str | None, time_format: str | None
) -> tuple[NDArray[np.int64], NDArray[np.bool_], str | None]:
    texts = _texts(column)
    if time_format is None and texts.null_count == 0:
        try:
            return _checked(_millis(_filled(pc.cast(texts, pa.float64())), unit), _valid(texts))
        except pa.ArrowInvalid:
            pass
    coded = texts.dictionary_encode()
    problem: str | None = None
    times: list[int] = []
    good: list[bool] = []
    for text in coded.dictionary.to_pylist():
        try:
            clock = time_cell(text, unit, time_format)
        except ValueError as error:
            clock, problem = None, problem or f"{error}: {text[:_LONGEST]}"
        if clock is not None and clock.kind not in ("epoch", "zoned"):
            clock, problem = None, problem or f"{LOCAL}: {text[:_LONGEST]}"
        times.append(0 if clock is None else round(clock.wall / 1000))
        good.append(clock is not None)
    codes = _filled(coded.indices).astype(np.int64)
    if not times:
        return np.zeros(len(codes), np.int64), np.zeros(len(codes), np.bool_), None
    return np.array(times, np.int64)[codes], np.array(good)[codes] & _valid(coded.indices), problem


def _millis(numbers: NDArray[np.float64], unit: str | None) -> NDArray[np.float64]:
    if unit is not None:
        return numbers * _UNITS[unit]
    size = np.abs(numbers)
    return np.select([size < limit for limit, _ in _SIZES], [numbers * scale for _, scale in _SIZES], np.nan)


def _checked(
    millis: NDArray[np.float64], valid: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.bool_], str | None]:
    with np.errstate(invalid="ignore"):
        good = valid & (millis > 0) & (millis < _MOST_MILLIS)
    problem = None if good[valid].all() else "a time before 1970 or after 2200, or none"
    return np.rint(np.where(good, millis, 0)).astype(np.int64), good, problem


def values_of_column(column: pa.Array) -> tuple[NDArray[np.float64], NDArray[np.bool_], str | None]:
    """Values, which rows have one, and the first that is neither a value nor empty."""
    kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return _filled(column), _valid(column), None
    if pa.types.is_decimal(kind):
        return _filled(column.cast(pa.float64(), safe=False)), _valid(column), None
    texts = _texts(column)
    try:
        return _filled(pc.cast(texts, pa.float64())), _valid(texts), None
    except pa.ArrowInvalid:
        pass
    problem: str | None = None
    read: list[float | None] = []
    coded = texts.dictionary_encode()
    for text in coded.dictionary.to_pylist():
        word = (text or "").strip()
        number = float_of(word.encode("utf-8", "replace"))
        if number is None and word.lower() not in NOTHING:
            problem = problem or f"not a number: {word[:_LONGEST]}"
        read.append(number)
    codes = _filled(coded.indices).astype(np.int64)
    if not read:
        return np.zeros(len(codes)), np.zeros(len(codes), np.bool_), None
    numbers = np.array([0.0 if number is None else number for number in read])
    there = np.array([number is not None for number in read], np.bool_)
    return numbers[codes], there[codes] & _valid(coded.indices), problem


def series_of_rows(
    columns: dict[str, pa.Array], metric: str | None, stated: str | None, rows: NDArray[np.int64]
) -> Iterator[tuple[Labels | None, NDArray[np.int64]]]:
    """(labels, numbers of rows) of the series in these rows.

    columns: of labels, by name; ``metric``: which of them names the metric, or holds a series as text; ``stated``: the
    metric of all rows where none does.
    """
    code = np.zeros(len(rows), np.int64)
    words: dict[str, tuple[list[Any], NDArray[np.int64]]] = {}
    for name, column in columns.items():
        coded = _texts(column).dictionary_encode()
        texts = coded.dictionary.to_pylist()
        own = _filled(pc.fill_null(coded.indices, len(texts))).astype(np.int64)[rows]
        words[name] = ([*texts, None], own)
        # So that the product of all never grows beyond what a number holds, it is made dense at each step.
        code = np.unique(code * (len(texts) + 1) + own, return_inverse=True)[1].reshape(-1)
    order = np.argsort(code, kind="stable")
    borders = np.flatnonzero(np.diff(code[order])) + 1
    for group in np.split(order, borders) if len(order) else ():
        first = group[0]
        pairs = {name: str(texts[own[first]] or "") for name, (texts, own) in words.items()}
        yield _labels(pairs, metric, stated), rows[group]


def _labels(pairs: dict[str, str], metric: str | None, stated: str | None) -> Labels | None:
    name = pairs.pop(metric, "") if metric is not None else ""
    name = name or stated or ""
    if "{" in name:
        inner = series_of(name.encode("utf-8", "replace"))
        return None if inner is None else labels_of([*pairs.items(), *inner])
    return labels_of([*pairs.items(), (NAME, name)])


def _texts(column: pa.Array) -> pa.Array:
    """A column as text; bytes that are no UTF-8 are replaced."""
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    if pa.types.is_string(column.type):
        return column
    if not (pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)):
        return pc.cast(column, pa.string())
    try:
        return pc.cast(column, pa.string())
    except pa.ArrowInvalid:
        decoded = [None if value is None else value.decode("utf-8", "replace") for value in column.to_pylist()]
        return pa.array(decoded, pa.string())


def _filled(column: pa.Array) -> NDArray[Any]:
    filled = pc.fill_null(column, 0) if column.null_count else column
    numbers = filled.cast(pa.float64(), safe=False) if not pa.types.is_floating(filled.type) else filled
    plain: NDArray[Any] = numbers.to_numpy(zero_copy_only=False).astype(np.float64)
    return plain


def _valid(column: pa.Array) -> NDArray[np.bool_]:
    valid: NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return valid
