"""Planning: what paths stand for, what is skipped and why, how files are cut."""

from __future__ import annotations

import gzip
import os
import socket
from pathlib import Path

import pytest

from aftershock.pipeline.config import Config
from aftershock.pipeline.plan import Inputs, MissingInput, chunks_of, expand

KERNEL_LINE = b"Mar  1 12:00:00 gpu001 kernel: usb 1-1: new device\n"


def plan(*paths: object, leave_out: tuple[str, ...] = ()) -> Inputs:
    return expand([str(path) for path in paths], Config(), leave_out)


def test_folders_are_walked_in_a_stable_order(tmp_path: Path) -> None:
    for name in ("b/2.log", "a/1.log", "c.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(KERNEL_LINE)
    assert [f.source for f in plan(tmp_path).files] == [f"{tmp_path}/{n}" for n in ("a/1.log", "b/2.log", "c.log")]


def test_a_path_that_does_not_exist_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(MissingInput, match="no such file"):
        plan(tmp_path / "nothing")
    with pytest.raises(MissingInput, match="no such file"):
        plan(tmp_path / "*.log")


def test_globs_are_expanded_and_names_with_glob_characters_are_names(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(KERNEL_LINE)
    (tmp_path / "b[1].log").write_bytes(KERNEL_LINE)
    assert len(plan(tmp_path / "*.log").files) == 2
    assert len(plan(tmp_path / "b[1].log").files) == 1


def test_what_is_no_file_is_skipped_with_its_reason(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "up").symlink_to(tmp_path)
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "sock"))
        inputs = plan(tmp_path, "/dev/null")
    reasons = {Path(file.source).name: file.refused or "" for file in inputs.files}
    assert "FIFO" in reasons["fifo"]
    assert "circle" in reasons["loop"]
    assert "link loop" in reasons["up"]
    assert "leads nowhere" in reasons["gone"]
    assert "socket" in reasons["sock"]
    assert "device" in reasons["null"]
    assert all(file.refused for file in inputs.files)


def test_the_same_file_twice_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(KERNEL_LINE)
    (tmp_path / "link.log").symlink_to(tmp_path / "a.log")
    inputs = plan(tmp_path, tmp_path / "a.log")
    assert [(Path(f.path).name, bool(f.refused)) for f in inputs.files] == [("a.log", False), ("link.log", True)]
    assert "the same file as" in (inputs.files[1].refused or "")


def test_the_output_is_no_input(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(KERNEL_LINE)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "manifest.json").write_text("{}")
    inputs = plan(tmp_path, leave_out=(str(tmp_path / "out"),))
    assert [Path(f.path).name for f in inputs.files] == ["a.log"]


def test_a_name_that_is_no_utf8_is_shown_escaped(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.log"
    Path(os.fsdecode(path)).write_bytes(KERNEL_LINE)
    assert plan(tmp_path).files[0].source == f"{tmp_path}/\\xff.log"


def test_lines_are_cut_and_streams_are_not(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(KERNEL_LINE * 100)
    (tmp_path / "b.log.gz").write_bytes(gzip.compress(KERNEL_LINE * 100))
    (tmp_path / "empty").write_bytes(b"")
    plain, packed, empty = plan(tmp_path).files
    pieces = chunks_of(plain, 1000)
    assert [(c.begin, c.stop) for c in pieces][:2] == [(0, 1000), (1000, 2000)]
    assert pieces[-1].stop == 100 * len(KERNEL_LINE)
    assert [(c.compression, c.stop) for c in chunks_of(packed)] == [("gzip", -1)]
    assert [c.refused for c in chunks_of(empty)] == ["empty file"]


def test_a_compressed_file_counts_as_the_text_in_it(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(KERNEL_LINE * 100)
    (tmp_path / "b.log.gz").write_bytes(gzip.compress(KERNEL_LINE * 100))
    plain, packed = plan(tmp_path).files
    assert packed.size is not None
    assert plan(tmp_path).bytes > (plain.size or 0) + 10 * packed.size


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (bytes(range(256)) * 100, "binary"),
        (b"PK\x03\x04" + b"x" * 100, "zip archive"),
        ("text\n".encode("utf-16"), "UTF-16"),
        (gzip.compress(b"x" * 1000)[:10], "torn or damaged"),
    ],
)
def test_what_cannot_be_read_is_refused_with_what_to_do(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "x").write_bytes(content)
    (only,) = chunks_of(plan(tmp_path).files[0])
    assert reason in (only.refused or "")
