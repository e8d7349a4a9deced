"""Batches that wait on disk, and long parts: no result depends on what was cut, put down, or worked on together."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.transit import lean_batch, rows_of
from aftershock.pipeline import entities, parts, run, waiting, workers
from aftershock.pipeline.shards import as_shards, shards_of
from aftershock.schemas.sessions import Retry, Session
from aftershock.schemas.tables import TABLES
from benchmarks.sacct_rows import write_table
from tests.pipeline.conftest import RunJob
from tests.pipeline.test_run import SLURM

HOUR = 3_600_000_000
STARTS = st.one_of(st.none(), st.integers(0, 4).map(lambda n: 1_769_900_000_000_000 + n * 9 * HOUR))


@st.composite
def batches(draw: Any) -> list[pa.RecordBatch]:
    """Sessions in some batches; few starts, so that many are equal, and words that the schema does not have."""
    states = st.sampled_from([None, "COMPLETED", "FAILED", "STAGED_OUT", "ZOMBIE"])
    rows = draw(st.lists(st.tuples(STARTS, states, st.sampled_from([None, [], ["d1"], ["d1", "d2"]])), max_size=30))
    sessions = [Session(session_id=f"s{n}", start_time=a, state=b, hosts=c) for n, (a, b, c) in enumerate(rows)]
    cuts = sorted(draw(st.lists(st.integers(0, len(sessions)), max_size=4)))
    pieces = [sessions[a:b] for a, b in zip([0, *cuts], [*cuts, len(sessions)], strict=True)]
    return [lean_batch(piece, "sessions", "sacct") for piece in pieces]


@settings(deadline=None)
@given(batches(), st.integers(1, 40), st.integers(0, 20))
def test_what_waits_comes_back(
    tmp_path_factory: pytest.TempPathFactory, given_batches: list[pa.RecordBatch], at_once: int, fewest: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting, "FEWEST_ROWS", fewest)
        patch.setattr(waiting, "_ROWS_AT_ONCE", at_once)
        put = list(waiting.waiting(enumerate(given_batches), str(tmp_path_factory.mktemp("waiting"))))
    assert [key for key, _ in put] == list(range(len(given_batches)))
    assert [waiting.row_count(batch) for _, batch in put] == [batch.num_rows for batch in given_batches]
    for (_, batch), before in zip(put, given_batches, strict=True):
        assert batch.schema.metadata == before.schema.metadata
        opened = waiting.opened(batch)
        assert opened.schema.equals(before.schema, check_metadata=True)
        assert rows_of(opened) == rows_of(before)


def test_few_rows_need_no_file(tmp_path: Path) -> None:
    few = [("key", lean_batch([Session(job_id="1")], "sessions"))]
    assert list(waiting.waiting(few, str(tmp_path / "waiting"))) == few
    assert not (tmp_path / "waiting").exists()


def written(pieces: Sequence[pa.RecordBatch], sorted_at_once: int, most_ranges: int, path: Path, kind: str) -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "ROWS_AT_ONCE", 7)
        patch.setattr(parts, "_SORTED_AT_ONCE", sorted_at_once)
        patch.setattr(parts, "_MOST_RANGES", most_ranges)
        parts.write_rows(TABLES["sessions"], pieces, str(path), kind)
    return path.read_bytes()


@settings(deadline=None)
@given(batches(), st.integers(1, 9), st.sampled_from([1, 3, 100]), st.sampled_from(["parquet", "arrow"]))
def test_a_long_part_is_the_same_however_it_is_cut(
    tmp_path_factory: pytest.TempPathFactory,
    pieces: list[pa.RecordBatch],
    sorted_at_once: int,
    most_ranges: int,
    kind: str,
) -> None:
    folder = tmp_path_factory.mktemp("parts")
    whole = [batch for batch in [pa.concat_batches(pieces)] if batch.num_rows]
    if not whole:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting, "FEWEST_ROWS", 0)
        put = [batch for _, batch in waiting.waiting(((1, piece) for piece in pieces), str(folder))]
    expected = written(whole, 1 << 20, 1, folder / "whole", kind)
    assert written(put, sorted_at_once, most_ranges, folder / "pieces", kind) == expected
    rows = parts.read_part(str(folder / "pieces"), kind, ["session_id", "start_time"]).to_pylist()
    in_order = sorted(rows, key=lambda row: (row["start_time"] is None, row["start_time"], row["session_id"]))
    assert [row["session_id"] for row in rows] == [row["session_id"] for row in in_order]


def test_a_long_part_of_a_table_without_times(tmp_path: Path) -> None:
    retries = [Retry(chain_id=f"c{n % 5}", attempt=n, from_session_id=f"s{n}") for n in range(40)]
    pieces = [lean_batch(retries[n::3], "retries") for n in range(3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "ROWS_AT_ONCE", 8)
        patch.setattr(parts, "_SORTED_AT_ONCE", 3)
        parts.write_rows(TABLES["retries"], pieces, str(tmp_path / "part"), "parquet")
    rows = parts.read_part(str(tmp_path / "part"), "parquet", ["chain_id", "attempt"]).to_pylist()
    assert [(row["chain_id"], row["attempt"]) for row in rows] == sorted((r.chain_id, r.attempt) for r in retries)


def test_what_is_cut_by_month_says_so_once_it_waits() -> None:
    rows = [Session(session_id="a", start_time=1_769_900_000_000_000), Session(session_id="b", start_time=None)]
    cut = list(as_shards([lean_batch(rows, "sessions")]))
    assert [key for key, _ in cut] == [("sessions", "2026-01"), ("sessions", "unknown")]
    assert [key for _, batch in cut for key, _ in shards_of(batch)] == [key for key, _ in cut]


def digests(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("part-*") if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_run_gives_the_same_bytes_for_any_number_of_partitions(
    run_job: RunJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last of them puts everything on disk, and writes long parts in many pieces."""
    table = tmp_path / "accounting.psv"
    write_table(table, 1200, steps=False)
    monkeypatch.setattr(parts, "ROWS_AT_ONCE", 50)
    run_job(table, SLURM, out=tmp_path / "one")
    expected = digests(tmp_path / "one")
    assert not (tmp_path / "one" / "@aside").exists()
    for number in (3, 19):
        monkeypatch.setattr(run, "partitions_for", lambda *_, number=number: number)
        monkeypatch.setattr(waiting, "FEWEST_ROWS", 1)
        monkeypatch.setattr(parts, "_SORTED_AT_ONCE", number)
        run_job(table, SLURM, out=tmp_path / str(number))
        assert digests(tmp_path / str(number)) == expected


@pytest.mark.skipif(sys.platform != "linux", reason="no other processes elsewhere")
def test_a_run_gives_the_same_bytes_whoever_works_on_its_partitions(
    run_job: RunJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "accounting.psv"
    write_table(table, 1200, steps=False)
    log = tmp_path / "kern.log"
    line = "2026-03-01T10:20:30Z gpu%03d kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
    log.write_text("".join(line % number for number in range(40)))
    run_job(table, log, SLURM, out=tmp_path / "alone")
    given = []
    submit = workers.Workers.submit
    monkeypatch.setattr(run, "partitions_for", lambda *_: 5)
    monkeypatch.setattr(waiting, "FEWEST_ROWS", 1)
    monkeypatch.setattr(entities, "MANY_ROWS", 1)
    monkeypatch.setattr(workers.Workers, "submit", lambda self, *args: given.append(args[1]) or submit(self, *args))
    workers.start_workers(0, 1, str(tmp_path / "aside"))
    try:
        run_job(table, log, SLURM, out=tmp_path / "shared")
    finally:
        workers.stop_workers()
    assert {work.__name__ for work in given} == {"build_partition", "link_partition", "merge_partition", "write_shard"}
    assert digests(tmp_path / "shared") == digests(tmp_path / "alone")
