"""Columns of a piece of steps as arrays. A column may be missing where it is null for all rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def numbers(batch: pa.RecordBatch, name: str, nothing: int) -> Ints:
    """A column of whole numbers, with a number for nulls, as an array of its own."""
    if name not in batch.schema.names:
        return np.full(batch.num_rows, nothing, np.int64)
    column = batch.column(name).cast(pa.int64())
    return np.array(pc.fill_null(column, nothing).to_numpy(zero_copy_only=False))


def floats(batch: pa.RecordBatch, name: str) -> npt.NDArray[np.float64]:
    """A column with NaN for nulls."""
    if name not in batch.schema.names:
        return np.full(batch.num_rows, np.nan)
    return np.asarray(batch.column(name).to_numpy(zero_copy_only=False), np.float64)


def given(batch: pa.RecordBatch, name: str) -> Bools:
    """Which rows have a value in a column."""
    if name not in batch.schema.names:
        return np.zeros(batch.num_rows, np.bool_)
    return np.asarray(batch.column(name).is_valid().to_numpy(zero_copy_only=False))


def words(batch: pa.RecordBatch, name: str, nothing: str) -> tuple[list[str], Ints]:
    """The different words of a column, and for each row the number of its word."""
    if name not in batch.schema.names:
        return [nothing], np.zeros(batch.num_rows, np.int64)
    column = batch.column(name)
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    found = [nothing if word is None else word for word in coded.dictionary.to_pylist()]
    if coded.null_count:
        found.append(nothing)
    places = pc.fill_null(coded.indices.cast(pa.int64()), len(found) - 1)
    return found, places.to_numpy(zero_copy_only=False)


def with_column(batch: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    """A batch with other values in a column, or with one more."""
    columns: dict[str, pa.Array] = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns[name] = values
    schema = batch.schema
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)).replace_schema_metadata(
        schema.metadata
    )


def close(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64], apart: float) -> Bools:
    """Whether numbers are the same but for rounding, NaN and NaN too. ``apart``: the most, as a part of them."""
    with np.errstate(invalid="ignore", over="ignore"):
        same = (one == other) | (np.isnan(one) & np.isnan(other))
        finite = np.isfinite(one) & np.isfinite(other)
        near = np.abs(one - other) <= apart * np.maximum(np.abs(one), np.abs(other))
    return np.asarray(same | (finite & near))
