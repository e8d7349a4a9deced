"""Reading a result: tables by name, what is no result, and the graph."""

from __future__ import annotations

import copy
import datetime as dt
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import aftershock
from aftershock.results import NoResult
from aftershock.schemas.batches import as_written, rows_to_batch
from aftershock.schemas.columns import Row
from aftershock.schemas.sessions import Chain, Exclusion, Retry, Session
from aftershock.schemas.tables import TABLES
from aftershock.schemas.topology import Host

START = 1_796_155_906_000_000  # 2026-12-01 20:11:46 UTC


def part(rows: list[Row], name: str) -> pa.Table:
    return pa.Table.from_batches([as_written(rows_to_batch(rows, TABLES[name]), TABLES[name])])


def put(folder: Path, name: str, parts: dict[str, list[Row]], table_format: str) -> None:
    below = folder / f"{name}.{table_format}"
    below.mkdir(parents=True)
    for shard, rows in parts.items():
        table = part(rows, name)
        path = below / f"part-{shard}.{table_format}"
        if table_format == "parquet":
            pq.write_table(table, path)
        else:
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)


@pytest.fixture(params=["parquet", "arrow"])
def folder(request, tmp_path: Path) -> Path:
    out = tmp_path / "out"
    first = Session(
        session_id="s1", job_id="5", name="pre-a", attempt=1, hosts=["gpu003", "gpu004"], n_hosts=2,
        start_time=START, end_time=START + 41_000_000, state="NODE_FAIL",
    )  # fmt: skip
    second = Session(
        session_id="s2",
        job_id="5",
        name="pre-a",
        attempt=2,
        hosts=["gpu003"],
        start_time=START + 60_000_000,
        state="UNHEARD_OF",
    )
    alone = Session(session_id="s3", hosts=[], state="CANCELLED")
    put(out, "sessions", {"2026-11": [first], "2026-12": [second], "unknown": [alone]}, request.param)
    put(
        out,
        "retries",
        {
            "all": [
                Retry(
                    chain_id="c1",
                    from_session_id="s1",
                    to_session_id="s2",
                    trigger="requeue",
                    mode="auto",
                    interval_s=19.0,
                ),
                Retry(chain_id="c1", from_session_id="s1", to_session_id="left-out"),
            ]
        },
        request.param,
    )
    put(out, "chains", {"2026-12": [
        Chain(chain_id="c1", name="pre-a", n_attempts=2, first_session_id="s1", last_session_id="s2", outcome="running", start_time=START),
        Chain(chain_id="c2", first_session_id="s3", last_session_id="s3", outcome="cancelled"),
    ]}, request.param)  # fmt: skip
    put(out, "exclusions", {"2026-12": [
        Exclusion(exclusion_id="x1", host="gpu004", how="drain", reason="Xid 79", start_time=START + 50_000_000),
        Exclusion(exclusion_id="x2", host="gpu009", how="exclude_list", session_id="s2", chain_id="c1"),
    ]}, request.param)  # fmt: skip
    put(out, "hosts", {"all": [Host(host="gpu001"), Host(host="gpu001", driver="570.1")]}, request.param)
    put(out, "findings", {"all": []}, request.param)
    (out / "manifest.json").write_text(json.dumps({"table_format": request.param, "aftershock": "0"}))
    return out


def test_tables_by_name(folder):
    result = aftershock.open(folder)
    assert list(result) == ["sessions", "retries", "chains", "exclusions", "hosts", "findings"]
    assert result["sessions"] is result.sessions
    assert result.manifest["aftershock"] == "0"
    assert "sessions" in result
    assert "samples" not in result
    assert "sessions" in dir(result)
    assert len(result) == 6


def test_one_table(folder):
    sessions = aftershock.open(str(folder)).sessions
    assert sessions.num_rows == len(sessions) == 3
    assert sessions.schema.field("session_id").metadata[b"doc"]
    table = sessions.table()
    assert table["session_id"].to_pylist() == ["s1", "s2", "s3"]
    # Each part has its own dictionary of states: they must still mean the same words.
    assert table["state"].to_pylist() == ["NODE_FAIL", "UNHEARD_OF", "CANCELLED"]
    assert table.group_by("state").aggregate([]).num_rows == 3
    assert sessions.table(["state"]).column_names == ["state"]
    assert sessions.dataset.count_rows() == 3
    assert repr(sessions) == f"<sessions: 3 rows, {len(TABLES['sessions'].columns)} columns>"
    with pytest.raises(KeyError, match="sessions has no column nam"):
        sessions.table(["nam"])


def test_pandas(folder):
    frame = aftershock.open(folder).sessions.to_pandas()
    assert list(frame["job_id"][:2]) == ["5", "5"]
    assert frame["start_time"][0] == dt.datetime.fromtimestamp(START / 1e6, dt.timezone.utc)
    assert list(aftershock.open(folder).sessions.to_pandas(["state"]).columns) == ["state"]


def test_table_without_rows(folder):
    findings = aftershock.open(folder).findings
    assert findings.num_rows == 0
    assert findings.table().schema.names == list(TABLES["findings"].column_names)


def test_table_without_parts(folder):
    name = next(path for path in folder.glob("findings.*"))
    for path in name.iterdir():
        path.unlink()
    assert aftershock.open(folder).findings.table().num_rows == 0


def test_stray_files_are_no_parts(folder):
    for name in folder.glob("sessions.*"):
        (name / "._part-x.parquet").write_bytes(b"x")
        (name / "notes.txt").write_text("x")
    (folder / ".hidden.parquet").mkdir()
    assert aftershock.open(folder).sessions.num_rows == 3
    assert len(aftershock.open(folder)) == 6


def test_the_manifest_says_which_format_counts(folder):
    written = json.loads((folder / "manifest.json").read_text())["table_format"]
    other = {"parquet": "arrow", "arrow": "parquet"}[written]
    put(folder, "sessions", {"all": []}, other)
    assert aftershock.open(folder).sessions.num_rows == 3


def test_names_that_are_not_there(folder):
    result = aftershock.open(folder)
    with pytest.raises(KeyError, match="no table 'sesions'"):
        result["sesions"]
    with pytest.raises(AttributeError, match="the tables are sessions"):
        _ = result.sesions
    assert result.get("sesions") is None


def test_copies(folder):
    result = aftershock.open(folder)
    assert copy.copy(result).sessions.num_rows == 3
    assert pickle.loads(pickle.dumps(result)).sessions.num_rows == 3


def test_what_is_no_result(tmp_path):
    for said in ("there is no such folder", "it has no manifest.json"):
        with pytest.raises(NoResult) as caught:
            aftershock.open(tmp_path / "x")
        assert str(caught.value) == f"{tmp_path / 'x'} is no result of aftershock run: {said}"
        (tmp_path / "x").mkdir(exist_ok=True)
    for text in ("{", "[]", "\udcff"):
        (tmp_path / "x" / "manifest.json").write_text(text, errors="surrogateescape")
        with pytest.raises(NoResult, match=r"is no result of aftershock run: its manifest\.json"):
            aftershock.open(tmp_path / "x")
    with pytest.raises(NoResult):
        aftershock.graph(tmp_path / "none")


def test_graph(folder):
    graph = aftershock.graph(folder)
    kinds = dict(graph.nodes(data="kind"))
    assert kinds == {
        "session:s1": "session", "session:s2": "session", "session:s3": "session",
        "chain:c1": "chain", "chain:c2": "chain",
        "host:gpu001": "host", "host:gpu003": "host", "host:gpu004": "host", "host:gpu009": "host",
        "exclusion:x1": "exclusion", "exclusion:x2": "exclusion",
    }  # fmt: skip
    assert {(src, dst, kind) for src, dst, kind in graph.edges(data="kind")} == {
        ("session:s1", "host:gpu003", "ran_on"),
        ("session:s1", "host:gpu004", "ran_on"),
        ("session:s2", "host:gpu003", "ran_on"),
        ("session:s1", "session:s2", "retried_as"),
        ("session:s1", "chain:c1", "part_of"),
        ("session:s2", "chain:c1", "part_of"),
        ("session:s3", "chain:c2", "part_of"),
        ("exclusion:x1", "host:gpu004", "excluded"),
        ("exclusion:x2", "host:gpu009", "excluded"),
        ("session:s2", "exclusion:x2", "excluded"),
        ("chain:c1", "exclusion:x2", "excluded"),
    }
    assert graph.number_of_edges() == 11
    retry = graph.edges["session:s1", "session:s2", "retried_as"]
    assert (retry["trigger"], retry["mode"], retry["interval_s"]) == ("requeue", "auto", 19.0)
    session = graph.nodes["session:s1"]
    assert session["label"] == "5 pre-a"
    assert session["start_time"] == dt.datetime(2026, 12, 1, 20, 11, 46, tzinfo=dt.timezone.utc)
    assert session["state"] == "NODE_FAIL"
    assert graph.nodes["session:s2"]["label"] == "5 pre-a attempt 2"
    assert graph.nodes["session:s2"]["end_time"] is None
    assert graph.nodes["session:s3"]["label"] == "s3"
    assert graph.nodes["exclusion:x1"]["label"] == "drain gpu004: Xid 79"
    assert all({"kind", "label", "start_time", "end_time"} <= data.keys() for _, data in graph.nodes(data=True))


def test_graph_of_a_result_without_tables(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    assert aftershock.graph(tmp_path).number_of_nodes() == 0


IMPORTED = """
import sys, time
began = time.perf_counter()
import aftershock
spent = time.perf_counter() - began
heavy = [name for name in ("pyarrow", "apache_beam", "networkx", "pandas", "rich", "numpy") if name in sys.modules]
print(spent, heavy, aftershock.__version__)
"""


def test_the_import_is_light():
    spent, heavy, version = min(
        subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True).stdout.split(
            " ", 2
        )
        for _ in range(3)
    )
    assert heavy == "[]"
    assert version[0].isdigit()
    assert float(spent) < 0.005


def test_public_names():
    assert sorted(aftershock.__all__) == ["__version__", "graph", "open"]
    assert set(aftershock.__all__) <= set(dir(aftershock))
    with pytest.raises(AttributeError, match="has no attribute 'opne'"):
        _ = aftershock.opne
