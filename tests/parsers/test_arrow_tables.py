"""Job tables as Arrow IPC: files, streams, Feather; what they claim is looked at first."""

from __future__ import annotations

import io
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import feather

from aftershock.parsers.column_map import PRESETS
from aftershock.parsers.detect import detect
from aftershock.parsers.documents import arrow_records, changes, job_table
from aftershock.parsers.documents.arrow_records import arrow_names, arrow_rows
from aftershock.parsers.formats import Found, Head, Refused
from tests.parsers.test_job_table import TYPED, sessions


def file_of(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue()


def stream_of(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue()


def feather_of(table: pa.Table, compression: str = "zstd") -> bytes:
    sink = io.BytesIO()
    feather.write_feather(table, sink, compression=compression)
    return sink.getvalue()


EXPECTED = [("1", ["a1", "a2"], "FAILED", 16), ("2", None, "COMPLETED", 8)]


@pytest.mark.parametrize("write", [file_of, stream_of, feather_of])
def test_it_says_what_parquet_says(write: Any) -> None:
    data = write(TYPED)
    assert detect(Head("jobs.arrow", data)).format == "job_table"
    found = sessions(data)
    assert [(s.job_id, s.hosts, s.state, s.n_gpus) for s in found] == EXPECTED
    assert found[1].sources == ["jobs.csv:1"]


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
@pytest.mark.parametrize("write", [file_of, stream_of])
def test_packed_batches(write: Any, compression: str) -> None:
    several = pa.concat_tables([TYPED.slice(0, 1), TYPED.slice(1)])
    found = sessions(write(several, compression=compression))
    assert [(s.job_id, s.hosts, s.state, s.n_gpus) for s in found] == EXPECTED


@pytest.mark.parametrize("write", [file_of, stream_of])
def test_presets_are_recognised_by_the_columns(write: Any) -> None:
    names = ("job_id", "user", "vc", "gpu_num", "cpu_num", "node_num", "state", "submit_time", "start_time", "end_time")
    cells = ["9", "u0", "vcb", 8, 48, 1, "TIMEOUT", "2020-04-01 10:00:00", "2020-04-01 10:00:30", "2020-04-01 11:00:30"]
    helios = pa.table({name: [cell] for name, cell in zip(names, cells, strict=True)})
    # As pandas writes it: with a description of itself that is longer than the columns.
    data = write(helios.replace_schema_metadata({"pandas": "x" * 9000}))
    assert detect(Head("helios.feather", data)).format == "job_table"
    (one,) = sessions(data)
    assert (one.job_id, one.partition, one.n_gpus, one.scheduler) == ("9", "vcb", 8, "slurm")
    assert sessions(data, job_table.FORMAT.mapped(PRESETS["helios"].map)) == [one]


def test_changes_come_as_arrow_too() -> None:
    row = {"host": "gpu001", "kind": "maintenance", "start_time": "2026-03-02T09:00:00Z", "planned": "true"}
    data = stream_of(pa.table({name: [cell] for name, cell in row.items()}))
    assert detect(Head("changes.arrows", data)).format == "changes"
    (found,) = changes.FORMAT.read(io.BytesIO(data))
    assert isinstance(found, Found)


def refusals(data: bytes) -> list[str]:
    return [item.reason for item in job_table.FORMAT.read(io.BytesIO(data)) if isinstance(item, Refused)]


def test_another_table_is_refused_with_the_reason() -> None:
    data = file_of(pa.table({"a": [1]}))
    (reason,) = refusals(data)
    assert "its columns are not those" in reason
    # A stream has no mark of its own: one of other columns is no job table, and bytes that look like one are no stream.
    assert detect(Head("x", stream_of(pa.table({"a": [1]})))).how == "refused"
    assert detect(Head("x", b"\xff" * 4096)).document is None


def test_what_a_packed_column_claims_is_bounded() -> None:
    many = pa.table({"job_id": ["1"] * 4000, "start_time": ["2026-03-02T07:00:00Z"] * 4000})
    data = stream_of(many, compression="zstd")
    plain = [len(column.buffers()[2]) for column in many.to_batches()[0].columns]
    at = data.index(struct.pack("<q", plain[1]) + b"\x28\xb5\x2f\xfd")  # full size, then a frame of Zstandard
    lied = data[:at] + struct.pack("<q", 1 << 40) + data[at + 8 :]
    (reason,) = refusals(lied)
    assert "a batch of more than" in reason


def test_rows_without_bytes_are_a_bomb() -> None:
    nothing = pa.table({"job_id": pa.nulls(3_000_000), "start_time": pa.nulls(3_000_000)})
    (reason,) = refusals(stream_of(nothing))
    assert reason.endswith("looks like a bomb")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.sampled_from([file_of, stream_of]), st.sampled_from([None, "zstd", "lz4"]))
def test_damage_is_refused_and_never_raises(data: st.DataObject, write: Any, compression: str | None) -> None:
    text = bytearray(write(TYPED, compression=compression))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    cut = bytes(text[: data.draw(st.integers(0, len(text)))])
    for damaged in (bytes(text), cut):
        arrow_names(damaged)
        for item in arrow_rows(io.BytesIO(damaged), lambda names: names, "job_table"):
            assert isinstance(item, (tuple, Refused))


def test_the_head_alone_names_the_columns() -> None:
    assert arrow_names(stream_of(TYPED)[:2048]) == TYPED.schema.names
    assert arrow_names(b"") is None
    assert arrow_names(arrow_records.ARROW_MAGIC) is None
