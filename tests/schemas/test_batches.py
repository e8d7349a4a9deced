"""Rows to batches, bytes and back."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.schemas.batches import (
    as_written,
    batch_to_rows,
    column_values,
    columns_to_batch,
    decode_batch,
    encode_batch,
    rows_to_batch,
)
from aftershock.schemas.columns import TIMESTAMP, Column, Row, Table
from aftershock.schemas.events import GpuError
from aftershock.schemas.metrics import Sample, Series
from aftershock.schemas.provenance import Reject
from aftershock.schemas.sessions import Session
from aftershock.schemas.tables import TABLES

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(max_size=8)

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.string(): TEXT,
    pa.int64(): INT64,
    pa.int32(): INT32,
    TIMESTAMP: INT64,
    pa.float64(): st.floats(allow_nan=False),  # NaN is not equal to itself and has a test of its own
    pa.bool_(): st.booleans(),
    pa.binary(): st.binary(max_size=8),
    pa.list_(pa.string()): st.lists(TEXT, max_size=3),
    pa.list_(pa.int32()): st.lists(INT32, max_size=3),
    pa.map_(pa.string(), pa.string()): st.dictionaries(TEXT, TEXT, max_size=3),
}


def column_strategy(column: Column) -> st.SearchStrategy[Any]:
    values = VALUES[column.type]
    return st.none() | (st.sampled_from(column.values) | values if column.values else values)


def rows_of(table: Table) -> st.SearchStrategy[list[Row]]:
    fields = {column.name: column_strategy(column) for column in table.columns}
    return st.lists(st.builds(table.row, **fields), max_size=6)


TABLE_AND_ROWS = st.sampled_from(list(TABLES.values())).flatmap(lambda table: st.tuples(st.just(table), rows_of(table)))


@given(TABLE_AND_ROWS)
def test_rows_come_back(drawn: tuple[Table, list[Row]]) -> None:
    table, rows = drawn
    batch = rows_to_batch(rows, table)
    assert batch.schema.equals(table.schema, check_metadata=True)
    batch.validate(full=True)
    decoded = decode_batch(encode_batch(batch))
    assert decoded.schema.equals(table.schema, check_metadata=True)
    assert decoded.equals(batch)
    assert batch_to_rows(decoded, table) == rows


@given(TABLE_AND_ROWS, st.data())
def test_a_slice_has_the_bytes_of_its_rows_alone(drawn: tuple[Table, list[Row]], data: st.DataObject) -> None:
    table, rows = drawn
    start = data.draw(st.integers(0, len(rows)))
    end = data.draw(st.integers(start, len(rows)))
    part = rows_to_batch(rows, table).slice(start, end - start)
    assert batch_to_rows(part, table) == rows[start:end]
    assert encode_batch(part) == encode_batch(rows_to_batch(rows[start:end], table))


@given(TABLE_AND_ROWS)
def test_written_form_keeps_the_rows(drawn: tuple[Table, list[Row]]) -> None:
    table, rows = drawn
    batch = rows_to_batch(rows, table)
    written = as_written(batch, table)
    written.validate(full=True)
    assert written.schema.equals(table.written_schema, check_metadata=True)
    assert batch_to_rows(written, table) == rows
    assert decode_batch(encode_batch(written)).equals(written)
    assert as_written(written, table).equals(written)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_no_rows(table: Table) -> None:
    batch = rows_to_batch([], table)
    assert batch.num_rows == 0
    assert batch_to_rows(decode_batch(encode_batch(batch)), table) == []
    assert as_written(batch, table).schema.equals(table.written_schema)


def test_values_come_back_as_plain_python() -> None:
    row = GpuError(time=1_772_366_400_000_001, code=79, time_error_s=0.5, sources=["a:0"], byte_offset=2**53 + 1)
    (back,) = batch_to_rows(rows_to_batch([row], TABLES["gpu_errors"]), TABLES["gpu_errors"])
    assert isinstance(back, GpuError)
    assert [type(v) for v in (back.time, back.code, back.time_error_s, back.sources)] == [
        int,
        int,
        float,
        list,
    ]


def test_large_integers_beside_nulls_are_exact() -> None:
    rows = [GpuError(byte_offset=2**53 + 1), GpuError(byte_offset=None)]
    assert batch_to_rows(rows_to_batch(rows, TABLES["gpu_errors"]), TABLES["gpu_errors"]) == rows


def test_nan_is_a_value_and_null_is_none() -> None:
    rows = [Sample(value=math.nan), Sample(value=None), Sample(value=-0.0)]
    batch = rows_to_batch(rows, TABLES["samples"])
    assert batch.column("value").null_count == 1
    first, second, third = column_values(batch.column("value"))
    assert math.isnan(first)
    assert second is None
    assert math.copysign(1, third) == -1


def test_times_of_any_unit_and_zone_become_microseconds() -> None:
    seconds = pa.array([1, None], type=pa.timestamp("s", tz="Asia/Seoul"))
    assert column_values(seconds) == [1_000_000, None]


def test_order_of_labels_does_not_change_the_bytes() -> None:
    table = TABLES["series"]
    one, two = Series(labels={"a": "1", "b": "2"}), Series(labels={"b": "2", "a": "1"})
    assert encode_batch(rows_to_batch([one], table)) == encode_batch(rows_to_batch([two], table))


@pytest.mark.parametrize(
    ("row", "where"),
    [
        (GpuError(code=2**31), r"gpu_errors\.code \(int32\)"),
        (GpuError(byte_offset=2**63), r"gpu_errors\.byte_offset \(int64\)"),
        (GpuError(message="\udc80"), r"gpu_errors\.message \(string\)"),
        (GpuError(time="today"), r"gpu_errors\.time \(timestamp"),  # type: ignore[arg-type]
        (Session(hosts=[1]), r"sessions\.hosts \(list"),  # type: ignore[list-item]
        (Series(labels={"a": 1}), r"series\.labels \(map"),  # type: ignore[dict-item]
        (Reject(excerpt=5), r"rejects\.excerpt \(binary\)"),  # type: ignore[arg-type]
    ],
)
def test_a_value_that_does_not_fit_names_its_column(row: Row, where: str) -> None:
    with pytest.raises(ValueError, match=where):
        rows_to_batch([row], TABLES[row.table])


def test_columns_beyond_the_table() -> None:
    table = TABLES["samples"]
    schema = table.schema.append(pa.field("bucket", pa.int64()))
    times = pa.array([1, 2], type=TIMESTAMP)
    batch = columns_to_batch({"series_id": ["a", "b"], "time": times, "bucket": [7, None]}, schema)
    assert batch.schema.equals(schema, check_metadata=True)
    assert batch.column("bucket").to_pylist() == [7, None]
    assert batch.column("value").null_count == 2
    assert batch_to_rows(batch, table) == [Sample(series_id="a", time=1), Sample(series_id="b", time=2)]
    assert as_written(batch, table).column("bucket").to_pylist() == [7, None]


def test_arrays_are_cast_to_the_column() -> None:
    batch = columns_to_batch({"code": pa.array([79], type=pa.int64())}, TABLES["gpu_errors"].schema)
    assert batch.column("code").type == pa.int32()
    with pytest.raises(ValueError, match=r"gpu_errors\.code"):
        columns_to_batch({"code": pa.array([2**40])}, TABLES["gpu_errors"].schema)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "one length"),
        ({"time": [1], "value": [1.0, 2.0]}, r"one length, not \[1, 2\]"),
        ({"time": [1], "times": [1]}, "does not have: times"),
    ],
)
def test_wrong_columns(columns: dict[str, list[object]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        columns_to_batch(columns, TABLES["samples"].schema)


def test_a_batch_of_another_table_is_an_error() -> None:
    with pytest.raises(KeyError):
        batch_to_rows(rows_to_batch([Sample()], TABLES["samples"]), TABLES["gpu_errors"])


def test_dictionary_has_the_words_of_the_schema_first() -> None:
    table = TABLES["coverage"]
    words = ["zebra", "silent", None, "apple", "present", "zebra"]
    written = as_written(columns_to_batch({"state": words}, table.schema), table).column("state")
    assert written.dictionary.to_pylist() == ["present", "silent", "absent", "apple", "zebra"]
    assert written.indices.to_pylist() == [4, 1, None, 3, 0, 4]
    assert written.to_pylist() == words
    backwards = as_written(columns_to_batch({"state": words[::-1]}, table.schema), table).column("state")
    assert backwards.dictionary.equals(written.dictionary)


def test_written_form_survives_parquet(tmp_path: Any) -> None:
    table = TABLES["sessions"]
    rows = [Session(session_id="s-1", state="FAILED", hosts=["a", "b"], start_time=1), Session(state=None)]
    pq.write_table(pa.Table.from_batches([as_written(rows_to_batch(rows, table), table)]), tmp_path / "x.parquet")
    (batch,) = pq.read_table(tmp_path / "x.parquet").to_batches()
    assert batch_to_rows(batch, table) == rows


@pytest.mark.parametrize("encoded", [b"", b"junk", b"\xff\xff\xff\xff\x00\x00\x00\x00"])
def test_junk_is_an_error(encoded: bytes) -> None:
    with pytest.raises(pa.ArrowInvalid):
        decode_batch(encoded)


def test_a_stream_without_a_batch_is_an_error() -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, TABLES["samples"].schema):
        pass
    with pytest.raises(pa.ArrowInvalid, match="without a batch"):
        decode_batch(sink.getvalue().to_pybytes())
