"""Rows to Arrow batches and back, batches to bytes and back, and the form in which a batch is written.

Everything works column by column: a Python object for each row is made once, never a dict for each row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from operator import attrgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aftershock.schemas.columns import TIMESTAMP, Row, Table


def rows_to_batch(rows: Sequence[Row], table: Table) -> pa.RecordBatch:
    """One batch with the schema of the table; times of the rows are microseconds UTC.

    Raises:
        ValueError: a value does not fit its column, such as a code beyond 32 bits or text with lone
            surrogates. The message names table and column.
    """
    return columns_to_batch({name: list(map(attrgetter(name), rows)) for name in table.column_names}, table.schema)


def columns_to_batch(columns: Mapping[str, Sequence[object] | pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """One batch from columns: sequences of Python values (times in microseconds UTC) or Arrow arrays.

    The schema may have columns beyond those of a table, such as a join key. A column of the schema that is
    not given is null.

    Raises:
        ValueError: no column, columns of unequal length, a column that the schema does not have, or a value
            that does not fit its column.
    """
    lengths = {len(column) for column in columns.values()}
    if len(lengths) != 1:
        raise ValueError(f"columns must have one length, not {sorted(lengths)}")
    unknown = columns.keys() - set(schema.names)
    if unknown:
        raise ValueError(f"columns that the schema does not have: {', '.join(sorted(unknown))}")
    length = lengths.pop()
    arrays = [
        _to_array(columns[field.name], field, schema) if field.name in columns else pa.nulls(length, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _to_array(values: Sequence[object] | pa.Array, field: pa.Field, schema: pa.Schema) -> pa.Array:
    try:
        if isinstance(values, (pa.Array, pa.ChunkedArray)):
            return values.cast(field.type)
        if pa.types.is_map(field.type):
            # Keys in order, so that equal labels have equal bytes.
            values = [sorted(v.items()) if isinstance(v, Mapping) else v for v in values]
        return pa.array(values, type=field.type)
    except (pa.ArrowException, OverflowError, TypeError, UnicodeError) as error:
        table = (schema.metadata or {}).get(b"table", b"").decode()
        raise ValueError(f"{table}.{field.name} ({field.type}): {error}") from error


def batch_to_rows(batch: pa.RecordBatch, table: Table) -> list[Row]:
    """One row object for each row of the batch; times become microseconds UTC.

    Columns beyond those of the table are left aside; enumerations may be strings or dictionaries.

    Raises:
        KeyError: a column of the table is not in the batch.
    """
    make: Any = object.__new__
    rows: list[Row] = list(map(make, repeat(table.row, batch.num_rows)))
    for name in table.column_names:
        # Filling one slot of all rows at a time runs no Python code for a row: twice as fast as the
        # constructor with its keywords. Row classes have slots and nothing happens in their __init__.
        fill = getattr(table.row, name).__set__
        deque(map(fill, rows, column_values(batch.column(name))), maxlen=0)
    return rows


def column_values(column: pa.Array) -> list[Any]:
    """The values of an array as Python objects: times as microseconds UTC, maps as dicts, nulls as None."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return column_values(column.dictionary_decode())
    if pa.types.is_timestamp(kind):
        return column_values(column.cast(TIMESTAMP).cast(pa.int64()))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _listed(column.to_numpy(zero_copy_only=False))
    if pa.types.is_list(kind):
        return _list_values(column)
    if pa.types.is_map(kind):
        return [None if items is None else dict(items) for items in column.to_pylist()]
    if pa.types.is_null(kind):
        return [None] * len(column)
    return _plain_values(column)


def _plain_values(column: pa.Array) -> list[Any]:
    """Numbers and truth values. Nulls go another way than through NaN, which would round large integers."""
    if not column.null_count:
        return _listed(column.to_numpy(zero_copy_only=False))
    nothing: Any = pa.scalar(0).cast(column.type)
    values = column.fill_null(nothing).to_numpy(zero_copy_only=False).astype(object)
    values[column.is_null().to_numpy(zero_copy_only=False)] = None
    return _listed(values)


def _list_values(column: pa.Array) -> list[Any]:
    flat = column_values(column.flatten())
    lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.cumsum(lengths)
    lists: list[Any] = [flat[start:end] for start, end in zip((ends - lengths).tolist(), ends.tolist(), strict=True)]
    if column.null_count:
        for index in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
            lists[index] = None
    return lists


def _listed(values: np.ndarray[Any, Any]) -> list[Any]:
    return list(values.tolist())


# Cells of a batch. Packing costs something for each column of a small batch too. Zstandard takes two or three
# milliseconds for a megabyte and LZ4 a third of that, for twice the space: it has its place where there is little.
_PACK_FROM: Final = 10_000
_MANY_CELLS: Final = 1_000_000
_AS_IT_IS: Final = pa.ipc.IpcWriteOptions()
_PACKED_QUICKLY: Final = pa.ipc.IpcWriteOptions(compression="lz4")
_PACKED_WELL: Final = pa.ipc.IpcWriteOptions(compression="zstd")


def encode_batch(batch: pa.RecordBatch) -> bytes:
    """The batch as an Arrow IPC stream with its schema. Of a slice only the slice is written.

    The bytes of a slice are those of a batch that was made from its rows alone. The dictionary of a
    dictionary column is written whole, so enumerations travel as plain strings. A large batch is packed: an engine
    keeps what waits between two steps in memory, and columns that are null or repeat a few words pack to little.
    """
    sink = pa.BufferOutputStream()
    cells = batch.num_rows * batch.num_columns
    options = _AS_IT_IS if cells <= _PACK_FROM else _PACKED_QUICKLY if cells <= _MANY_CELLS else _PACKED_WELL
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(own_buffers(batch))
    encoded: bytes = sink.getvalue().to_pybytes()
    return encoded


def own_buffers(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch in buffers that hold nothing else.

    Arrow's writer cuts the buffers of a slice, but not all of them: of a slice without rows, or with empty
    lists only, it writes the whole offsets of the parent, and it pads with what follows in the parent.
    Joining two arrays copies, so each column is joined with one of no rows: 5 microseconds for a column.
    """
    return pa.RecordBatch.from_arrays(
        [pa.concat_arrays([column, pa.nulls(0, column.type)]) for column in batch.columns],
        schema=batch.schema,
    )


def decode_batch(encoded: bytes) -> pa.RecordBatch:
    """The batch of :func:`encode_batch`; the buffers of one that was not packed are views of ``encoded``.

    Raises:
        pyarrow.ArrowInvalid: the bytes are no such stream.
    """
    with pa.ipc.open_stream(pa.py_buffer(encoded)) as reader:
        try:
            return reader.read_next_batch()
        except StopIteration:
            raise pa.ArrowInvalid("a stream without a batch") from None


def as_written(batch: pa.RecordBatch, table: Table, words: Mapping[str, Iterable[str]] | None = None) -> pa.RecordBatch:
    """The batch with its enumerations as dictionaries: the words of the schema first, then others, sorted.

    The dictionary depends on the words of the batch alone (or on those that are given, by column), not on their order.
    Nulls stay null and columns beyond those of the table stay as they are.
    """
    enumerations = {column.name: column for column in table.columns if column.values}
    arrays, fields = [], []
    for field, array in zip(batch.schema, batch.columns, strict=True):
        column = enumerations.get(field.name)
        if column is None:
            arrays.append(array)
            fields.append(field)
        else:
            arrays.append(_as_dictionary(array, column.values, (words or {}).get(field.name)))
            fields.append(column.arrow_field(written=True))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, metadata=batch.schema.metadata))


def _as_dictionary(words: pa.Array, first: Iterable[str], there: Iterable[str] | None) -> pa.DictionaryArray:
    if pa.types.is_dictionary(words.type):
        words = words.dictionary_decode()
    known = list(first)
    said = pc.unique(words).to_pylist() if there is None else there
    others = sorted(set(said) - {None, *known})
    dictionary = pa.array([*known, *others], type=pa.string())
    return pa.DictionaryArray.from_arrays(pc.index_in(words, value_set=dictionary), dictionary)
