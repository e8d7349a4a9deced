"""Parquet files made of blocks: pairs of files and single ones."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.documents.parquet_common import FORMAT, read_metrics
from aftershock.parsers.formats import Refused
from aftershock.parsers.prometheus.columns import EVERYTHING, MetricsSource, SeriesBatch, Wanted
from aftershock.parsers.source import SourceFile, look
from tests.parsers.prometheus.blocks import BEGAN, STEP, Samples, apart, floats, named, samples_of, source_of, steady
from tests.parsers.prometheus.encoders import uvarint

HOURS_8 = 8 * 3_600_000
COLUMNS = 3


def cell(samples: Samples, per_chunk: int = 120, encoding: int = 1) -> bytes:
    """All chunks of a series in the time of one column."""
    chunks = floats(samples, per_chunk)
    return b"".join(
        uvarint(encoding) + uvarint(one.first) + uvarint(one.last) + uvarint(len(one.data)) + one.data for one in chunks
    )


def table(series: Sequence[tuple[dict[str, str], Samples]]) -> pa.Table:
    """Rows as parquet-common writes them, sorted by metric."""
    ordered = sorted(series, key=lambda one: one[0]["__name__"])
    names = sorted({name for labels, _ in series for name in labels})
    columns: dict[str, pa.Array] = {
        f"l_{name}": pa.array([labels.get(name) for labels, _ in ordered], pa.string()) for name in names
    }
    columns["s_col_indexes"] = pa.array([b"\0"] * len(ordered), pa.binary())
    for k in range(COLUMNS):
        begin = BEGAN + k * HOURS_8
        parts = [[pair for pair in samples if begin <= pair[0] < begin + HOURS_8] for _, samples in ordered]
        columns[f"s_data_{k}"] = pa.array([cell(part) for part in parts], pa.binary())
    told = {"minT": str(BEGAN), "maxT": str(BEGAN + 3 * HOURS_8 - 1), "data_col_duration_ms": str(HOURS_8)}
    return pa.table(columns).replace_schema_metadata(told)


def write_shard(folder: Path, number: int, rows: pa.Table, group: int = 1_000_000) -> None:
    data = [name for name in rows.column_names if name.startswith("s_data")]
    labels = [name for name in rows.column_names if name not in data]
    folder.mkdir(exist_ok=True)
    for kind, own in (("labels", labels), ("chunks", data)):
        pq.write_table(rows.select(own), folder / f"{number}.{kind}.parquet", compression="zstd", row_group_size=group)


def read(source: MetricsSource, wanted: Wanted = EVERYTHING) -> tuple[list[SeriesBatch], list[Refused]]:
    return apart(read_metrics(source, wanted))


DAY = [(BEGAN + 60_000 * i, float(i)) for i in range(24 * 60)]


def test_a_shard_is_a_pair_of_files(tmp_path: Path) -> None:
    write_shard(tmp_path / "s", 0, table([({"__name__": "up", "job": "dcgm"}, DAY), ({"__name__": "b"}, steady(3))]))
    write_shard(tmp_path / "s", 1, table([({"__name__": "c", "job": "x"}, steady(5))]))
    batches, refused = read(source_of(tmp_path / "s"))
    assert refused == []
    assert samples_of(batches) == {
        (("__name__", "up"), ("job", "dcgm")): DAY,
        (("__name__", "b"),): steady(3),
        (("__name__", "c"), ("job", "x")): steady(5),
    }


def test_one_file_may_hold_everything(tmp_path: Path) -> None:
    rows = table([({"__name__": f"m{i:04d}"}, steady(3)) for i in range(3000)])
    pq.write_table(rows, tmp_path / "all.parquet", row_group_size=1100)
    opened = look(SourceFile(str(tmp_path / "all.parquet"), "all.parquet"))
    assert opened.detected.format == "parquet_common"
    data = (tmp_path / "all.parquet").read_bytes()
    batches, refused = read(MetricsSource("f", lambda name: io.BytesIO(data)))
    assert refused == []
    assert len(named(samples_of(batches))) == 3000


def test_a_large_file_is_recognised_by_its_footer(tmp_path: Path) -> None:
    rows = table([({"__name__": f"m{i}", "x": f"{i * 7919:09d}"}, steady(200, i)) for i in range(500)])
    pq.write_table(rows, tmp_path / "x", compression="none", use_dictionary=False)
    assert (tmp_path / "x").stat().st_size > 128 << 10
    assert look(SourceFile(str(tmp_path / "x"), "x")).detected.format == "parquet_common"


def test_only_wanted_times_and_metrics_are_read(tmp_path: Path) -> None:
    names = [f"m{i}" for i in range(6)]
    write_shard(tmp_path / "s", 0, table([({"__name__": name}, DAY) for name in names]), group=2)
    begin = BEGAN + HOURS_8 + 3 * 3_600_000
    wanted = Wanted(spans=((begin, begin + 60_000),), metrics=frozenset({"m4", "m1_sum"}))
    found = named(samples_of(read(source_of(tmp_path / "s"), wanted)[0]))
    assert set(found) == {"m4", "m1"}
    assert all(len(own) == 120 and (begin, float((begin - BEGAN) // 60_000)) in own for own in found.values())


def test_half_a_shard_is_refused(tmp_path: Path) -> None:
    write_shard(tmp_path / "s", 0, table([({"__name__": "up"}, steady(3))]))
    write_shard(tmp_path / "s", 1, table([({"__name__": "b"}, steady(3))]))
    (tmp_path / "s" / "1.chunks.parquet").unlink()
    batches, refused = read(source_of(tmp_path / "s"))
    assert named(samples_of(batches)) == {"up": steady(3)}
    assert "no 1.chunks.parquet" in refused[0].reason
    for name in ("0.labels.parquet", "0.chunks.parquet"):
        data = (tmp_path / "s" / name).read_bytes()
        assert look(SourceFile(str(tmp_path / "s" / name), name)).detected.format == "parquet_common"
        _, refused = read(MetricsSource("f", lambda _, data=data: io.BytesIO(data)))
        assert "belong together" in refused[0].reason


def test_shards_of_other_rows_and_bad_cells_are_refused(tmp_path: Path) -> None:
    rows = table([({"__name__": "a"}, steady(3)), ({"__name__": "b"}, steady(3)), ({"__name__": "c"}, steady(3))])
    bad = [cell(steady(3), encoding=9), cell(steady(3))[:-2], cell(steady(3))]
    rows = rows.set_column(rows.column_names.index("s_data_0"), "s_data_0", pa.array(bad, pa.binary()))
    write_shard(tmp_path / "s", 0, rows)
    batches, refused = read(source_of(tmp_path / "s"))
    assert named(samples_of(batches)) == {"c": steady(3)}
    assert [r.offset for r in refused] == [1, 0]
    assert "cut off" in refused[0].reason
    assert "encoding 9" in refused[1].reason
    pq.write_table(rows.slice(0, 2).select(["s_data_0"]), tmp_path / "s" / "0.chunks.parquet")
    _, refused = read(source_of(tmp_path / "s"))
    assert "other rows" in refused[0].reason


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_damage_never_raises(data: st.DataObject) -> None:
    text = bytearray(FORMAT.samples[0].text.encode("utf-8", "surrogateescape"))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        text[at : at + data.draw(st.integers(0, 12))] = data.draw(st.binary(max_size=6))
    read(MetricsSource("f", lambda name: io.BytesIO(bytes(text))))


def test_times_before_the_first_column_stand_in_it() -> None:
    rows = table([({"__name__": "a"}, steady(3))]).replace_schema_metadata(
        {"minT": str(BEGAN + 2 * STEP), "maxT": str(BEGAN + HOURS_8), "data_col_duration_ms": str(HOURS_8)}
    )
    out = io.BytesIO()
    pq.write_table(rows, out)
    source = MetricsSource("f", lambda name: io.BytesIO(out.getvalue()))
    assert named(samples_of(read(source, Wanted(spans=((BEGAN, BEGAN + 1),)))[0])) == {"a": steady(3)}
