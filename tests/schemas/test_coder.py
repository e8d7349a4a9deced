"""The coder for Arrow batches, alone and in a pipeline."""

from __future__ import annotations

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that

from aftershock.schemas import batches
from aftershock.schemas.batches import columns_to_batch, rows_to_batch
from aftershock.schemas.coder import RecordBatchCoder
from aftershock.schemas.columns import TIMESTAMP
from aftershock.schemas.tables import TABLES
from aftershock.schemas.topology import Coverage

ROWS = 1_000_000
SMALL = 10_000  # bytes: ten rows with the schema and its docs


@pytest.fixture(scope="module")
def steps() -> pa.RecordBatch:
    """A batch of a dense table, with strings."""
    numbers = np.arange(ROWS)
    return columns_to_batch(
        {
            "session_id": pa.array(["session-0123456789abcdef"]).take(pa.array(np.zeros(ROWS, dtype=np.int64))),
            "time": pa.array(numbers).cast(TIMESTAMP),
            "step": pa.array(numbers),
            "loss": pa.array(1.0 / (1.0 + numbers)),
            "byte_offset": pa.array(numbers * 100),
        },
        TABLES["training_steps"].schema,
    )


@pytest.mark.parametrize(("start", "rows"), [(0, 10), (123_456, 10), (ROWS - 10, 10), (500_000, 0), (ROWS, 0)])
def test_a_slice_encodes_as_the_slice_only(steps: pa.RecordBatch, start: int, rows: int) -> None:
    part = steps.slice(start, rows)
    encoded = RecordBatchCoder().encode(part)
    assert len(encoded) < SMALL
    decoded = RecordBatchCoder().decode(encoded)
    assert decoded.equals(part, check_metadata=True)
    assert decoded.get_total_buffer_size() < SMALL


@pytest.mark.parametrize("start", [0, 20, 70_000])
def test_empty_lists_in_a_slice_leave_the_parent_behind(start: int) -> None:
    # Arrow's own writer takes the whole offsets of the strings along here.
    lists = [["gpu001"] if i < 10 or i > 90_000 else [] for i in range(100_000)]
    part = columns_to_batch({"evidence": lists}, TABLES["graph_edges"].schema).slice(start, 10)
    encoded = RecordBatchCoder().encode(part)
    assert len(encoded) < SMALL
    assert RecordBatchCoder().decode(encoded).equals(part)


def test_equal_slices_of_different_parents_have_equal_bytes() -> None:
    table = TABLES["coverage"]
    rows = [Coverage(host=f"gpu{i:03}", kind="kernel", start_time=i) for i in range(9)]
    alone, among = rows_to_batch(rows[3:5], table), rows_to_batch(rows, table).slice(3, 2)
    assert RecordBatchCoder().encode(alone) == RecordBatchCoder().encode(among)


def test_coder_is_registered_and_deterministic() -> None:
    coder = beam.coders.registry.get_coder(pa.RecordBatch)
    assert coder == RecordBatchCoder()
    assert hash(coder) == hash(RecordBatchCoder())
    assert coder.is_deterministic()
    assert coder.to_type_hint() is pa.RecordBatch
    assert beam.coders.registry.get_coder(beam.typehints.Tuple[str, pa.RecordBatch]).coders()[1] == coder


def test_estimate_is_near_the_encoded_size(steps: pa.RecordBatch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_PACK_FROM", 1 << 40)
    part = steps.slice(7, 10_000)
    coder = RecordBatchCoder()
    assert coder.estimate_size(part) == pytest.approx(len(coder.encode(part)), rel=0.05)


def test_a_large_batch_is_packed(steps: pa.RecordBatch) -> None:
    part = steps.slice(7, 10_000)
    encoded = RecordBatchCoder().encode(part)
    assert len(encoded) < 0.5 * RecordBatchCoder().estimate_size(part)
    assert RecordBatchCoder().decode(encoded).equals(part, check_metadata=True)


def test_group_by_key_over_slices() -> None:
    parent = columns_to_batch(
        {"host": [f"gpu{i:05}" for i in range(30_000)], "kind": ["kernel"] * 30_000},
        TABLES["coverage"].schema,
    )
    part_rows = 10
    starts = range(0, 300, part_rows)

    def slices(_: object) -> list[tuple[str, pa.RecordBatch]]:
        return [("even" if start % 20 == 0 else "odd", parent.slice(start, part_rows)) for start in starts]

    def check(groups: list[tuple[str, list[pa.RecordBatch]]]) -> None:
        assert sorted(key for key, _ in groups) == ["even", "odd"]
        for key, parts in groups:
            expected = [parent.slice(s, part_rows) for s in starts if (s % 20 == 0) == (key == "even")]
            ordered = sorted(parts, key=lambda part: part.column("host")[0].as_py())
            assert all(a.equals(b, check_metadata=True) for a, b in zip(ordered, expected, strict=True))
            assert max(part.get_total_buffer_size() for part in parts) < SMALL

    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        groups = (
            pipeline
            | beam.Create([None])
            | beam.FlatMap(slices).with_output_types(tuple[str, pa.RecordBatch])
            | beam.GroupByKey()
            | beam.MapTuple(lambda key, parts: (key, list(parts)))
        )
        assert_that(groups, check)
