"""Tables of samples with names of their own, and the look of values that a query made up."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aftershock.parsers.column_map import ColumnMap
from aftershock.parsers.detect import detect
from aftershock.parsers.documents import prometheus_query, samples_table
from aftershock.parsers.formats import Head
from aftershock.parsers.prometheus.columns import NAME, Labels
from aftershock.parsers.selfcheck import rows_of_text
from aftershock.pipeline.config_maps import WrongMap, column_map_of
from aftershock.schemas.metrics import Sample, Series
from tests.parsers.prometheus.blocks import Samples
from tests.parsers.prometheus.texts import as_query, mapped, read_with, samples_of, series_in

T0 = 1_772_435_289_321
TEMP: Labels = ((NAME, "gpu_temp"), ("gpu", "3"), ("node", "gpu-a1"))
MAP = ColumnMap(
    columns=(("time", ("at",)), ("value", ("reading",)), ("labels", ("node", "gpu"))), values=(("metric", "gpu_temp"),)
)


def parquet(**columns: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


NODES = pa.array(["gpu-a1"] * 2).dictionary_encode()


@pytest.mark.parametrize(
    "at",
    [
        pa.array([T0, T0 + 1000]),
        pa.array([T0 / 1000, T0 / 1000 + 1]),
        pa.array([T0 * 1000, (T0 + 1000) * 1000]),
        pa.array([T0 * 1_000_000, (T0 + 1000) * 1_000_000]),
        pa.array([T0, T0 + 1000], pa.timestamp("ms", "Asia/Seoul")),
        pa.array([T0 * 1_000_000, (T0 + 1000) * 1_000_000], pa.timestamp("ns", "UTC")),
        pa.array(["2026-03-02T07:08:09.321Z", "2026-03-02 16:08:10.321+09:00"]),
        pa.array([str(T0), str(T0 + 1000)]),
    ],
    ids=str,
)
def test_times_are_read_in_whatever_type_they_stand(at: pa.Array) -> None:
    data = parquet(at=at, reading=[61.0, 62.5], node=NODES, gpu=[3, 3], rack=["r1", "r2"])
    assert series_in(mapped(MAP), data) == {TEMP: [(T0, 61.0), (T0 + 1000, 62.5)]}


def test_times_without_a_zone_are_refused() -> None:
    at = pa.array([T0, T0 + 1000], pa.timestamp("ms"))
    batches, refused = read_with(mapped(MAP), parquet(at=at, reading=[61.0, 62.5], node=NODES, gpu=[3, 3]))
    assert batches == []
    assert "a time without a zone" in refused[0].reason
    batches, refused = read_with(mapped(MAP), "at,reading,node,gpu\n2026-03-02 07:08:09,61,gpu-a1,3\n")
    assert batches == []
    assert "a time without a zone" in refused[0].reason


def test_a_stated_unit_and_format_count() -> None:
    unit = ColumnMap(MAP.columns, MAP.values, time_unit="s")
    assert series_in(mapped(unit), "at;reading\n1000;1\n") == {((NAME, "gpu_temp"),): [(1_000_000, 1.0)]}
    form = ColumnMap(MAP.columns, MAP.values, time_format="%d.%m.%Y %H:%M:%S %z")
    text = "at\treading\n02.03.2026 16:08:09 +0900\t1\n"
    assert series_in(mapped(form), text) == {((NAME, "gpu_temp"),): [(T0 // 1000 * 1000, 1.0)]}


def test_missing_values_are_no_samples() -> None:
    data = parquet(at=[T0, None, T0 + 2], reading=[61.0, 62.0, None], node=["gpu-a1"] * 3, gpu=["3"] * 3)
    assert series_in(mapped(MAP), data) == {TEMP: [(T0, 61.0)]}
    assert series_in(mapped(MAP), f"at,reading,node,gpu\n{T0},61,gpu-a1,3\n{T0 + 1},,gpu-a1,3\n,5,gpu-a1,3\n") == {
        TEMP: [(T0, 61.0)]
    }


def test_rows_of_the_command_are_mapped_too() -> None:
    fmt = samples_table.FORMAT.mapped(MAP)
    rows = rows_of_text(f"at,reading,node,gpu\n{T0},61,gpu-a1,3\n", fmt)
    assert [type(row) for row in rows] == [Series, Sample]
    assert fmt.read_metrics is not samples_table.FORMAT.read_metrics


def test_a_table_without_a_header_is_told_what_to_do() -> None:
    batches, refused = read_with(samples_table.read_metrics, f"up,gpu-a1,1,{T0}\n" * 3)
    assert batches == []
    assert "put one before the rows" in refused[0].reason


def test_other_tables_are_left_alone() -> None:
    for text in ("step,loss,time\n1,2.5,1\n", "job_id,start_time,end_time\n1,2,3\n", "time,value\n1,2\n"):
        assert detect(Head("x.csv", text.encode())).format != "samples_table"


def test_the_configuration_takes_a_map_of_samples() -> None:
    table = {"columns": {"time": "at", "labels": ["node", "gpu"]}, "values": {"metric": "x"}, "time_unit": "ms"}
    name, column_map = column_map_of(table, "samples_table")
    assert name == "samples_table"
    assert column_map is not None
    assert column_map.names_of("labels") == ("node", "gpu")
    with pytest.raises(WrongMap, match="neither states nor kinds"):
        column_map_of({"states": {"a": "FAILED"}}, "samples_table")


def up(instance: str, *times: int, name: str = "up") -> tuple[Labels, Samples]:
    return ((NAME, name), ("instance", instance)), [(time, 1.0) for time in times]


SECOND = 1_772_435_280_000
GRID = [SECOND + 15_000 * i for i in range(5)]


@pytest.mark.parametrize(
    ("series", "looks"),
    [
        ([up("a:1", *GRID), up("b:1", *GRID[1:])], True),  # whole seconds, on one grid
        ([up("a:1", *GRID)], True),
        ([up("a:1", *(t + 321 for t in GRID)), up("b:1", *(t + 321 for t in GRID))], True),  # two targets, one grid
        ([up("a:1", *(t + 321 for t in GRID)), up("b:1", *(t + 4_002 for t in GRID))], False),
        ([up("a:1", *(t + 321 for t in GRID))], False),  # one target may be as regular
        ([up("a:1", *GRID[:2], GRID[2] + 1, *GRID[3:])], False),
        ([up("a:1", *GRID[:2])], False),
        ([((("instance", "a:1"),), [(SECOND + 5, 1.0)])], True),  # no name: it was computed
        ([up("a:1", *(t + 7 for t in GRID)), up("b:1", *(t + 7 for t in GRID), name="job:up:sum")], False),
    ],
)
def test_what_a_query_made_up_is_told_by_its_times(series: list[tuple[Labels, Samples]], looks: bool) -> None:
    batches, refused = read_with(prometheus_query.read_metrics, as_query(series))
    assert refused == []
    assert [batch.resampled for batch in batches] == [looks]


def test_the_value_of_an_instant_is_made_up_too() -> None:
    text = '[{"metric":{"__name__":"up"},"value":[1772435289.321,"1"]}]'
    batches, refused = read_with(prometheus_query.read_metrics, text)
    assert samples_of(batches) == {((NAME, "up"),): [(T0, 1.0)]}
    assert (batches[0].resampled, refused) == (True, [])


def test_all_batches_of_an_answer_look_the_same() -> None:
    """What a million samples look like holds for those behind them."""
    long = [(SECOND + 15_000 * i, 1.0) for i in range(1_200_000)]
    batches, _ = read_with(prometheus_query.read_metrics, as_query([(up("a:1")[0], long), up("b:1", *GRID)]))
    assert len(batches) > 4
    assert {batch.resampled for batch in batches} == {True}
