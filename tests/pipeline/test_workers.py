"""Workers: every chunk is parsed once, whether it was begun early or only when it was asked for."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from aftershock.parsers.blocks import BlockResult
from aftershock.parsers.source import SourceFile
from aftershock.pipeline import workers as module
from aftershock.pipeline.plan import Chunk, chunks_of
from aftershock.pipeline.workers import Workers

LINE = b"2026-03-01T12:00:00+00:00 gpu001 kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"


SIZE = 500


@pytest.fixture
def file(tmp_path: Path) -> SourceFile:
    path = tmp_path / "kern.log"
    path.write_bytes(LINE * 100)
    return SourceFile(str(path), str(path), path.stat().st_size)


@pytest.fixture
def chunks(file: SourceFile) -> list[Chunk]:
    return chunks_of(file, SIZE)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[Chunk]:
    """The chunks that were parsed, in order."""
    seen: list[Chunk] = []
    real = module.read_chunk_at_once

    def noted(chunk: Chunk, burst_gap: int, aside: str) -> BlockResult:
        seen.append(chunk)
        return real(chunk, burst_gap, aside)

    monkeypatch.setattr(module, "read_chunk_at_once", noted)
    return seen


@pytest.mark.parametrize("order", ["forward", "backward"])
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("room", [0, 3, 1000])
def test_each_chunk_is_parsed_once(
    file: SourceFile,
    chunks: list[Chunk],
    parsed: list[Chunk],
    monkeypatch: pytest.MonkeyPatch,
    order: str,
    begun: bool,
    room: int,
) -> None:
    monkeypatch.setattr(module, "WAITING_ROWS", room)
    workers = Workers(ThreadPoolExecutor(2), 0, "unused")
    workers.begin([file] if begun else [], SIZE)
    assert workers.plan(file, SIZE) == chunks
    asked = chunks if order == "forward" else chunks[::-1]
    results: list[Any] = [workers.parse(chunk).result() for chunk in asked]
    workers.close()
    assert sorted(parsed) == sorted(chunks)
    assert sum(item.row.count for result in results for item in result.found) == 100


def test_early_work_pauses_when_enough_rows_wait(
    file: SourceFile, chunks: list[Chunk], parsed: list[Chunk], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAITING_ROWS", 5)
    monkeypatch.setattr(module, "worker_count", lambda: 1)
    workers = Workers(ThreadPoolExecutor(1), 0, "unused")
    workers.begin([file], SIZE)
    workers.plan(file, SIZE)
    while any(not future.done() for future in list(workers._early.values())):
        time.sleep(0.01)
    workers._executor.shutdown(wait=True)
    assert len(parsed) < len(chunks)


@pytest.mark.parametrize("count", [1, 8, 9, 80])
def test_many_files_are_planned_as_each_alone(tmp_path: Path, parsed: list[Chunk], count: int) -> None:
    files = []
    for number in range(count):
        path = tmp_path / f"{number}.log"
        path.write_bytes(LINE * (number % 7))
        refused = "a FIFO" if number % 11 == 10 else None
        files.append(SourceFile(str(path), str(path), path.stat().st_size, refused=refused))
    with ThreadPoolExecutor(2) as pool:
        workers = Workers(pool, 0, str(tmp_path))
        workers.begin(files, SIZE)
        planned = [workers.plan(file, SIZE) for file in reversed(files)]
        assert planned == [chunks_of(file, SIZE) for file in reversed(files)]
        wanted = [chunk for plan in planned for chunk in plan if not chunk.refused]
        for chunk in wanted:
            workers.parse(chunk).result()
    assert sorted(parsed) == sorted(wanted)
