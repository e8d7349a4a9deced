"""Job tables: our names, maps, presets, Parquet, and what of a row cannot be read."""

from __future__ import annotations

import datetime as dt
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aftershock.parsers.blocks import BlockResult
from aftershock.parsers.column_map import PRESETS, ColumnMap, column_map
from aftershock.parsers.detect import detect
from aftershock.parsers.documents import job_table
from aftershock.parsers.documents.parquet_records import MAX_CELL
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused
from aftershock.parsers.resolve import ClockRules
from aftershock.parsers.selfcheck import rows_of_text
from aftershock.parsers.settle import SourceRules
from aftershock.parsers.transit import pack, unpack
from aftershock.schemas.sessions import Session

HEADER = "job_id,user,hosts,n_gpus,submit_time,start_time,end_time,state,exit_code,duration_s\n"
START = 1772434810_000000


def sessions(data: str | bytes, fmt: DocumentFormat = job_table.FORMAT, zone: str | None = None) -> list[Session]:
    rules = SourceRules(source="jobs.csv", clock=ClockRules(zone, inferred=False))
    return [row for row in rows_of_text(data, fmt, rules) if isinstance(row, Session)]


def refusals(data: str | bytes, fmt: DocumentFormat = job_table.FORMAT) -> list[str]:
    stream = io.BytesIO(data.encode() if isinstance(data, str) else data)
    return [item.reason for item in fmt.read(stream) if isinstance(item, Refused)]


def row(**cells: str) -> str:
    given = {"job_id": "1", "start_time": "2026-03-02T07:00:10Z", "end_time": "2026-03-02T08:00:10Z", **cells}
    return ",".join(given.get(name, "") for name in HEADER.strip().split(","))


def test_times_of_one_row_may_be_zoned_and_epochs():
    (one,) = sessions(HEADER + row(start_time="1772434810"))
    assert (one.start_time, one.end_time, one.duration_s) == (START, START + 3600_000000, 3600.0)


def test_a_local_time_beside_zoned_ones_is_dropped_and_said():
    text = HEADER + row(start_time="2026-03-02 07:00:10")
    (one,) = sessions(text)
    assert (one.start_time, one.end_time) == (None, START + 3600_000000)
    assert refusals(text) == ["job_table: start_time is not read: its clock is not that of the other times"]


def test_local_times_wait_for_a_zone():
    text = HEADER + row(start_time="2026-03-02 07:00:10", end_time="2026-03-02 08:00:10")
    assert [(s.start_time, s.duration_s, s.time_basis) for s in sessions(text)] == [(None, 3600.0, "none")]
    assert [(s.start_time, s.time_basis) for s in sessions(text, zone="UTC")] == [(START, "zoned")]


def test_an_end_before_the_start_is_no_end():
    text = HEADER + row(end_time="2026-03-02T06:00:00Z")
    (one,) = sessions(text)
    assert (one.start_time, one.end_time, one.duration_s) == (START, None, None)
    assert refusals(text) == ["job_table: end_time is before start_time"]


def test_durations_are_counted_where_both_times_are_known():
    (one,) = sessions(HEADER + row(duration_s="99"))
    assert one.duration_s == 3600.0
    (alone,) = sessions(HEADER + row(end_time="", duration_s="99"))
    assert alone.duration_s == 99.0


@pytest.mark.parametrize(
    ("cells", "placed"),
    [
        ({"state": "PENDING"}, False),
        ({"state": "CANCELLED", "start_time": ""}, False),
        ({"state": "CANCELLED", "start_time": "", "hosts": "a1"}, True),
        ({"state": "CANCELLED"}, True),
        ({"state": "COMPLETED", "start_time": ""}, True),
        ({"state": "FAILED", "start_time": ""}, True),
    ],
)
def test_what_never_started_has_no_hosts(cells, placed):
    (one,) = sessions(HEADER + row(**cells))
    assert (one.hosts != []) == placed
    assert (one.start_time is not None) == (placed and "start_time" not in cells)


def test_without_hosts_in_the_table_they_are_unknown_and_not_none():
    (one,) = sessions("job_id,user,start_time,end_time,state,n_hosts\n1,u,2026-03-02T07:00:10Z,,FAILED,4\n")
    assert (one.hosts, one.n_hosts) == (None, 4)


@pytest.mark.parametrize(
    ("word", "state", "reason"),
    [
        ("COMPLETED", "COMPLETED", None),
        ("CANCELLED by 1001", "CANCELLED", None),
        ("Succeeded", "COMPLETED", None),
        ("timed out", "TIMEOUT", None),
        ("OOMKilled", "OUT_OF_MEMORY", None),
        ("killed", "UNKNOWN", "killed"),  # by whom?
        ("TF", "UNKNOWN", "TF"),
        ("", None, None),
    ],
)
def test_words_of_other_schedulers(word, state, reason):
    (one,) = sessions(HEADER + row(state=word))
    assert (one.state, one.end_reason) == (state, reason)


def test_running_jobs_have_no_end():
    (one,) = sessions(HEADER + row(state="RUNNING", duration_s="50"))
    assert (one.end_time, one.duration_s) == (None, 50.0)


def test_short_lists_of_very_many_hosts_are_bounded_over_the_table():
    lines = "".join(row(job_id=str(i), hosts='"n[1-60000]"') + "\n" for i in range(60))
    found = sessions(HEADER + lines)
    assert len(found) == 60
    assert 10 < sum(s.hosts is not None for s in found) < 25
    assert "stand for more hosts than the size of the table allows" in refusals(HEADER + lines)[-1]


def test_long_texts_are_cut():
    (one,) = sessions(HEADER + row(user="u" * 10_000))
    assert one.user == "u" * 4096


def test_exit_codes():
    assert [(s.exit_code, s.exit_signal) for s in sessions(HEADER + row(exit_code="1:9"))] == [(1, 9)]
    assert [(s.exit_code, s.exit_signal) for s in sessions(HEADER + row(exit_code="-7"))] == [(-7, None)]


def test_each_cell_that_cannot_be_read_is_said_and_null():
    text = HEADER + row(n_gpus="many", hosts='"a[1-"', exit_code="?", submit_time="yesterday")
    (one,) = sessions(text)
    assert (one.n_gpus, one.hosts, one.exit_code, one.submit_time) == (None, None, None, None)
    assert [reason.split(" is")[0].split(": ")[1] for reason in refusals(text)] == [
        "submit_time",
        "hosts",
        "exit_code",
        "n_gpus",
    ]
    assert refusals(HEADER + row(job_id="")) == ["job_table: a row without a job id"]


def test_a_map_names_columns_words_and_what_is_everywhere():
    mapped = ColumnMap(
        columns=(
            ("job_id", ("JobNr",)),
            ("start_time", ("von",)),
            ("end_time", ("bis",)),
            ("hosts", ("nodes", "node")),
        ),
        values=(("cluster", "solar"), ("scheduler", "own")),
        words=(("abgebrochen", "CANCELLED"),),
        time_format="%d.%m.%Y %H:%M",
        host_separator="+",
    )
    text = "JobNr;von;bis;nodes;node;state\n7;02.03.2026 07:00;02.03.2026 08:00;;a1+a2;Abgebrochen\n"
    (one,) = sessions(text, job_table.FORMAT.mapped(mapped), zone="UTC")
    assert (one.job_id, one.hosts, one.state, one.duration_s) == ("7", ["a1", "a2"], "CANCELLED", 3600.0)
    assert (one.cluster, one.scheduler) == ("solar", "own")


def test_a_map_goes_down_into_json():
    mapped = column_map({"job_id": "metadata.name", "start_time": "status.start", "hosts": "status.nodes"})
    text = '[{"metadata": {"name": "j1"}, "status": {"start": 1772434810, "nodes": ["a1"]}}, {"metadata": {}}]'
    fmt = job_table.FORMAT.mapped(mapped)
    assert [(s.job_id, s.hosts, s.start_time) for s in sessions(text, fmt)] == [("j1", ["a1"], START)]
    assert refusals(text, fmt) == ["job_table: an object without the columns of such a table"]


def test_without_its_columns_a_file_is_refused_as_a_whole():
    assert refusals("a,b\n1,2\n") == ["job_table: no header that names the columns"]
    assert refusals("job_id,user,colour\n1,u,red\n") == ["job_table: no header that names the columns"]


ACME = (
    "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,end_time,"
    "fail_time,stop_time,duration,queue,gpu_time\n"
    "dlc1,u1,1,8,96,1,1.0,Other,CANCELLED,2023-04-01 10:00:00+00:00,,2023-04-01 10:05:00+00:00,,,300,,0.0\n"
)


def test_acme_is_recognised_and_knows_jobs_that_never_started():
    assert detect(Head("trace.csv", ACME.encode())).format == "job_table"
    (one,) = sessions(ACME)
    assert (one.hosts, one.state, one.duration_s, one.partition) == ([], "CANCELLED", None, None)
    assert sessions(ACME, job_table.FORMAT.mapped(PRESETS["acme"].map)) == [one]


def parquet(table: pa.Table, *, store_schema: bool = True) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file, store_schema=store_schema)
    return file.getvalue()


TYPED = pa.table(
    {
        "job_id": pa.array([1, 2]),
        "hosts": pa.array([["a1", "a2"], None], pa.list_(pa.string())),
        "state": pa.array(["FAILED", "COMPLETED"]).dictionary_encode(),
        "start_time": pa.array([START, None], pa.timestamp("us", "UTC")),
        "end_time": pa.array([dt.datetime(2026, 3, 2, 8, 0, 10)] * 2, pa.timestamp("ns", "Asia/Seoul")),
        "n_gpus": pa.array([16.0, 8.0]),
        "junk": pa.array([b"\0", b"\1"]),
    }
)


def test_parquet_files_have_types():
    data = parquet(TYPED)
    assert detect(Head("jobs.parquet", data)).format == "job_table"
    found = sessions(data)
    assert [(s.job_id, s.hosts, s.state, s.n_gpus) for s in found] == [
        ("1", ["a1", "a2"], "FAILED", 16),
        ("2", None, "COMPLETED", 8),
    ]
    assert (found[0].start_time, found[0].end_time) == (START, START + 3600_000000)
    assert found[1].sources == ["jobs.csv:1"]


def test_what_a_parquet_file_claims_is_bounded():
    times = pa.array([START], pa.timestamp("us", "UTC"))
    large = pa.table({"job_id": ["1"], "start_time": times, "command": ["x" * (MAX_CELL + 1)]})
    assert refusals(parquet(large)) == [f"job_table: command has a cell of more than {MAX_CELL} bytes"]
    many = pa.table({"job_id": pa.array([1] * 1_100_000), "start_time": pa.nulls(1_100_000, pa.timestamp("us"))})
    (reason,) = refusals(parquet(many))
    assert reason.endswith("looks like a bomb")


def test_parquet_of_something_else_is_refused_with_the_reason():
    (reason,) = refusals(parquet(pa.table({"a": [1]})))
    assert "its columns are not those" in reason


def test_a_long_text_in_many_rows_stays_one_text_until_its_row_is_made():
    many = 3000
    table = pa.table(
        {
            "job_id": pa.array(range(many)),
            "start_time": pa.array([START] * many, pa.timestamp("us", "UTC")),
            "command": pa.array(["x" * 200_000] * many).dictionary_encode(),
        }
    )
    before = pa.total_allocated_bytes()
    most = 0
    for item in job_table.FORMAT.read(io.BytesIO(parquet(table, store_schema=False))):
        assert isinstance(item, Found)
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < 50 << 20


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_damaged_parquet_is_refused_and_never_raises(data):
    text = bytearray(parquet(TYPED))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(4, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    for item in job_table.FORMAT.read(io.BytesIO(bytes(text))):
        assert isinstance(item, (Found, Refused))


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(HEADER.strip().split(",")), st.text(max_size=12), max_size=10))
def test_any_cells_make_a_row_that_travels(cells):
    quoted = {name: '"' + cell.replace('"', '""') + '"' for name, cell in cells.items()}
    found = list(job_table.FORMAT.read(io.BytesIO((HEADER + row(**quoted)).encode("utf-8", "replace"))))
    kept = [item for item in found if isinstance(item, Found)]
    for item in kept:
        item.format = "job_table"
    assert len(unpack(pack(BlockResult(found=kept), "s")).found) == len(kept)
