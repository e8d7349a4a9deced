"""Folders that are one input: where they are found, and what of a Prometheus is no such folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from aftershock.cli import DONE
from aftershock.parse_command import parse_files
from aftershock.parsers.prometheus.folders import folder_format
from aftershock.pipeline.config import Config
from aftershock.pipeline.plan import Inputs, _remote_folders, chunks_of, expand
from tests.parsers.prometheus.block_writer import ULID, write_block
from tests.parsers.prometheus.blocks import series, steady


def plan(*paths: Path) -> Inputs:
    return expand([str(path) for path in paths], Config())


def block(folder: Path) -> Path:
    return write_block(folder, [series("up", steady(130), job="dcgm")])


def test_a_block_is_one_input_wherever_it_stands(tmp_path: Path) -> None:
    own = block(tmp_path / "bucket" / "tenant-1" / ULID)
    (tmp_path / "bucket" / "tenant-1" / "notes.log").write_text("text\n")
    for given in (own, tmp_path / "bucket"):
        folders = [file for file in plan(given).files if file.folder]
        assert [(file.path, file.folder) for file in folders] == [(str(own), "tsdb")]
        assert folders[0].names == ("chunks/000001", "index", "meta.json", "tombstones")
        assert folders[0].size == sum((own / name).stat().st_size for name in folders[0].names)
    assert [file.source for file in plan(tmp_path / "bucket").files if not file.folder] == [
        str(tmp_path / "bucket" / "tenant-1" / "notes.log")
    ]
    assert len(plan(own, own).files) == 1


def test_a_block_is_one_chunk_of_the_plan(tmp_path: Path) -> None:
    (file,) = plan(block(tmp_path / ULID)).files
    (chunk,) = chunks_of(file)
    assert (chunk.how, chunk.format, chunk.is_whole, chunk.refused) == ("document", "tsdb", True, None)


def test_the_head_is_refused_with_what_to_do(tmp_path: Path) -> None:
    for name in ("wal/00000000", "wal/checkpoint.00000003/00000000", "chunks_head/000001", "wbl/00000000"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(bytes(100))
    block(tmp_path / ULID)
    files = {Path(file.source).name: file for file in plan(tmp_path).files}
    assert set(files) == {"wal", "wbl", "chunks_head", ULID}
    assert "snapshot" in (files["wal"].refused or "")
    assert "promtool tsdb dump" in (files["chunks_head"].refused or "")
    assert files[ULID].refused is None


def test_other_folders_with_such_names_are_folders(tmp_path: Path) -> None:
    for name in ("wal/trace.log", "chunks/000001.log", "run/meta.json", "run/chunks/1.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text\n")
    assert not any(file.folder or file.refused for file in plan(tmp_path).files)
    assert len(plan(tmp_path).files) == 4


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["meta.json", "index", "chunks/000001"], "tsdb"),
        (["index", "chunks/000001", "chunks/000002"], "tsdb"),
        (["meta.json", "chunks/000007"], "tsdb"),
        (["meta.json", "index"], None),
        (["chunks/000001"], None),
        (["0.labels.parquet", "0.chunks.parquet"], "parquet_common"),
        (["0.labels.parquet", "0.parquet"], None),
    ],
)
def test_folders_are_told_by_their_names(names: list[str], wanted: str | None) -> None:
    assert folder_format(names) == wanted


def test_blocks_among_objects_are_put_together() -> None:
    objects = {f"gs://b/t/{ULID}/{name}": 10 for name in ("index", "meta.json", "chunks/000001", "tombstones")}
    objects |= {"gs://b/t/bucket-index.json.gz": 5, "gs://b/t/other/chunks/000001": 5}
    (folder,) = _remote_folders(objects)
    assert (folder.path, folder.folder, folder.size) == (f"gs://b/t/{ULID}", "tsdb", 40)
    assert sorted(folder.names) == ["chunks/000001", "index", "meta.json", "tombstones"]


def test_parse_prints_the_samples_of_a_block(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    block(tmp_path / "data" / ULID)
    (tmp_path / "data" / "wal").mkdir()
    (tmp_path / "data" / "wal" / "00000000").write_bytes(b"\0")
    for given in (tmp_path / "data" / ULID, tmp_path / "data"):
        assert parse_files([str(given)], None, None, None, None) == DONE
        printed = capfd.readouterr()
        lines = printed.out.splitlines()
        assert len(lines) == 131
        assert '"metric":"up"' in lines[0]
        assert '"time":"2026-03-01T12:00:15.000000Z","value":1.0,"stale":false' in lines[2]
    assert "not yet a block" in printed.err
