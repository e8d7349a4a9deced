"""A site's own tables in a run: the map of the configuration reaches the reader, wherever the file is parsed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from aftershock.parsers.column_map import ColumnMap
from aftershock.pipeline.config import load_config
from aftershock.pipeline.plan import chunks_of, expand
from tests.pipeline.conftest import RunJob

CONFIG = """
[[sources]]
glob = "*.csv*"
format = "job_table"
timezone = "Asia/Seoul"
[sources.columns]
job_id = "JobNr"
start_time = "Von"
end_time = "Bis"
hosts = "Knoten"
[sources.states]
Abbruch = "CANCELLED"

[[sources]]
glob = "changes.json"
format = "changes"
[sources.columns]
host = "where.node"
start_time = "when"
"""
JOBS = (
    "JobNr;Von;Bis;Knoten;state;end_reason\n"
    "7;2026-03-02 16:00:10;2026-03-02 17:00:10;gpu[1-2];Abbruch;the rack was moved\n"
)


def write(folder: Path) -> Path:
    folder.mkdir()
    (folder / "aftershock.toml").write_text(CONFIG)
    (folder / "jobs.csv").write_text(JOBS)
    (folder / "old.csv.gz").write_bytes(gzip.compress(JOBS.replace("\n7;", "\n6;").encode()))
    change = {"where": {"node": "gpu1"}, "when": "2026-03-02T07:00:00Z", "kind": "maintenance"}
    (folder / "changes.json").write_text(json.dumps([change]))
    jobs = pa.table({"job_id": ["9"], "start_time": ["2026-03-02T07:00:00Z"], "state": ["FAILED"], "hosts": ["gpu9"]})
    pq.write_table(jobs, folder / "jobs.parquet")
    return folder


def test_tables_of_a_site_become_sessions_and_changes(run_job: RunJob, tmp_path: Path) -> None:
    folder = write(tmp_path / "in")
    result = run_job(folder, config=str(folder / "aftershock.toml"))
    sessions = {row["job_id"]: row for row in result["sessions"].table().to_pylist()}
    assert sorted(sessions) == ["6", "7", "9"]
    assert sessions["7"]["start_time"].isoformat() == "2026-03-02T07:00:10+00:00"
    assert (sessions["7"]["hosts"], sessions["7"]["state"]) == (["gpu1", "gpu2"], "CANCELLED")
    assert (sessions["7"]["scheduler"], sessions["7"]["end_reason"]) == (None, "the rack was moved")
    assert (sessions["6"]["hosts"], sessions["9"]["hosts"]) == (["gpu1", "gpu2"], ["gpu9"])
    (change,) = result["changes"].table().to_pylist()
    assert (change["host"], change["kind"], change["time_basis"]) == ("gpu1", "maintenance", "zoned")
    assert result["rejects"].num_rows == 0


def test_the_map_travels_with_the_pieces_of_a_file(tmp_path: Path) -> None:
    folder = write(tmp_path / "in")
    inputs = expand([str(folder / "jobs.csv")], load_config(str(folder / "aftershock.toml")))
    (chunk,) = chunks_of(inputs.files[0])
    assert isinstance(chunk.column_map, ColumnMap)
    assert len({chunk}) == 1
    document = chunk.opened().detected.document
    assert document is not None
    assert [item.row.job_id for item in document.read((folder / "jobs.csv").open("rb"))] == ["7"]  # type: ignore[union-attr]
