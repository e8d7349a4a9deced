"""Blocks: what was written comes out, what is damaged is named, and the good rest is read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.prometheus import tsdb_block, tsdb_pick
from aftershock.parsers.prometheus.columns import STALE_BITS, Wanted
from aftershock.parsers.prometheus.tsdb_chunks import ChunkFiles
from tests.parsers.prometheus.block_writer import WrittenChunk, WrittenSeries, write_block
from tests.parsers.prometheus.blocks import BEGAN, STEP, floats, named, read, samples_of, series, source_of, steady
from tests.parsers.prometheus.encoders import NAN, STALE, bits_of, histogram_chunk


def test_samples_and_labels_come_back(tmp_path: Path) -> None:
    text = 'a "quote", a \\ and a\nline, é'
    block = write_block(
        tmp_path / "b",
        [series("up", steady(300), job="dcgm", Hostname="gpu001"), series("temp", steady(3), note=text)],
    )
    batches, refused = read(block)
    assert refused == []
    assert samples_of(batches) == {
        (("Hostname", "gpu001"), ("__name__", "up"), ("job", "dcgm")): steady(300),
        (("__name__", "temp"), ("note", text)): steady(3),
    }


def test_markers_of_staleness_are_told_from_other_nans(tmp_path: Path) -> None:
    samples = [(BEGAN, 1.0), (BEGAN + STEP, NAN), (BEGAN + 2 * STEP, STALE)]
    (batch,), _ = read(write_block(tmp_path / "b", [series("up", samples)]))
    assert batch.stale().tolist() == [False, False, True]
    assert batch.values.view(np.uint64).tolist()[1] == bits_of(NAN) != STALE_BITS


def test_only_chunks_that_touch_the_wanted_times_are_read(tmp_path: Path) -> None:
    block = write_block(tmp_path / "b", [series("up", steady(100), per_chunk=10), series("late", steady(5, 90))])
    spans = ((BEGAN + 15 * STEP, BEGAN + 16 * STEP), (BEGAN + 39 * STEP + 1, BEGAN + 40 * STEP + 1))
    found = named(samples_of(read(block, Wanted(spans=spans))[0]))
    assert found == {"up": [*steady(10, 10), *steady(10, 40)]}
    assert samples_of(read(block, Wanted(spans=()))[0]) == {}


def test_only_wanted_metrics_are_read(tmp_path: Path) -> None:
    block = write_block(tmp_path / "b", [series(name, steady(2)) for name in ("a", "b", "up")])
    assert set(named(samples_of(read(block, Wanted(metrics=frozenset({"up", "b"})))[0]))) == {"b", "up"}
    assert read(block, Wanted(metrics=frozenset({"c"}))) == ([], [])


def test_what_was_deleted_stays_out(tmp_path: Path) -> None:
    stones = [(0, BEGAN, BEGAN + 2 * STEP), (0, BEGAN + 9 * STEP, BEGAN + 99 * STEP)]
    block = write_block(tmp_path / "b", [series("a", steady(10)), series("b", steady(10))], stones=stones)
    assert named(samples_of(read(block)[0])) == {"a": steady(6, 3), "b": steady(10)}


def test_external_labels_of_thanos_are_added(tmp_path: Path) -> None:
    thanos = {"labels": {"cluster": "solar", "replica": "1", "job": "outer"}, "downsample": {"resolution": 0}}
    block = write_block(tmp_path / "b", [series("up", steady(2), job="dcgm")], thanos=thanos)
    ((labels, _),) = samples_of(read(block)[0]).items()
    assert labels == (("__name__", "up"), ("cluster", "solar"), ("job", "outer"), ("replica", "1"))


def test_a_downsampled_block_is_refused_as_a_whole(tmp_path: Path) -> None:
    thanos = {"labels": {}, "downsample": {"resolution": 300_000}}
    batches, refused = read(write_block(tmp_path / "b", [series("up", steady(2))], thanos=thanos))
    assert batches == []
    assert "downsampled to 300 s" in refused[0].reason


def test_native_histograms_are_counts_sums_and_buckets(tmp_path: Path) -> None:
    data = histogram_chunk([(BEGAN, 3, 1, 2.5, [2], []), (BEGAN + STEP, 5, 1, 4.5, [4], [])], 0, 0.0, [(0, 1)])
    one = WrittenSeries({"__name__": "rpc"}, [WrittenChunk(BEGAN, BEGAN + STEP, data, 2), *floats(steady(2, 5))])
    stones = [(0, BEGAN, BEGAN)]
    for given_stones, kept in ((stones, [1]), ([], [0, 1])):
        block = write_block(tmp_path / f"b{len(kept)}", [one], stones=given_stones)
        (batch,), refused = read(block, Wanted(metrics=frozenset({"rpc_sum"})))
        assert refused == []
        found = named(samples_of([batch]))
        assert found["rpc"] == steady(2, 5)
        assert found["rpc_count"] == [[(BEGAN, 3.0), (BEGAN + STEP, 5.0)][i] for i in kept]
        assert found["rpc_sum"] == [[(BEGAN, 2.5), (BEGAN + STEP, 4.5)][i] for i in kept]
        assert [one.buckets[-1] for one in batch.histograms] == [[(0.5, 1.0, 2.0), (0.5, 1.0, 4.0)][i] for i in kept]


@pytest.mark.parametrize(("encoding", "said"), [(9, "encoding 9"), (255, "Thanos made by downsampling")])
def test_an_unknown_encoding_is_named_and_the_rest_is_read(tmp_path: Path, encoding: int, said: str) -> None:
    one = series("a", steady(20), per_chunk=10)
    strange = one.chunks[0]._replace(encoding=encoding)
    block = write_block(tmp_path / "b", [one._replace(chunks=[strange, one.chunks[1]]), series("b", steady(3))])
    batches, refused = read(block)
    assert named(samples_of(batches)) == {"a": steady(10, 10), "b": steady(3)}
    assert [r.offset for r in refused] == [8]
    assert said in refused[0].reason
    assert "chunks/000001" in refused[0].reason


def test_chunks_that_overlap_are_put_in_order(tmp_path: Path) -> None:
    """Out of order samples: chunks that reach into each other, of equal times the first."""
    late = [(BEGAN + 5 * STEP, 100.0), (BEGAN + 5 * STEP + 1, 101.0)]
    chunks = [*floats(steady(10)), *floats(late)]
    block = write_block(tmp_path / "b", [WrittenSeries({"__name__": "a"}, chunks), series("b", steady(3))])
    found = named(samples_of(read(block)[0]))
    assert found["a"] == sorted([*steady(10), late[1]])
    assert found["b"] == steady(3)


def damaged(block: Path, name: str, at: int, *, cut: bool = False) -> None:
    path = block / name
    data = bytearray(path.read_bytes())
    if cut:
        del data[at:]
    else:
        data[at] ^= 0xFF
    path.write_bytes(data)


def test_a_chunk_with_a_wrong_checksum_is_refused_alone(tmp_path: Path) -> None:
    block = write_block(tmp_path / "b", [series("a", steady(40), per_chunk=10)])
    damaged(block, "chunks/000001", 20)
    batches, refused = read(block)
    assert named(samples_of(batches)) == {"a": steady(30, 10)}
    assert [(r.offset, r.reason) for r in refused] == [(8, "tsdb: chunks/000001: a chunk with a wrong checksum")]


def test_a_file_of_chunks_that_is_cut_off_or_gone(tmp_path: Path) -> None:
    block = write_block(tmp_path / "b", [series("a", steady(40), per_chunk=10)], chunks_per_file=2)
    size = (block / "chunks/000002").stat().st_size
    damaged(block, "chunks/000002", size - 3, cut=True)
    batches, refused = read(block)
    assert named(samples_of(batches)) == {"a": steady(30)}
    assert ["cut off" in r.reason and r.offset > 8 for r in refused] == [True]
    (block / "chunks/000002").unlink()
    batches, refused = read(block)
    assert named(samples_of(batches)) == {"a": steady(20)}
    assert [r.reason for r in refused] == ["tsdb: the file chunks/000002 is missing (2 chunks)"]


def test_many_bad_chunks_are_counted(tmp_path: Path) -> None:
    block = write_block(tmp_path / "b", [series("a", steady(600), per_chunk=2)])
    path = block / "chunks/000001"
    path.write_bytes(path.read_bytes()[:8] + bytes(path.stat().st_size - 8))
    batches, refused = read(block)
    assert batches == []
    assert len(refused) == 101
    assert "(200 chunks)" in refused[-1].reason


def test_an_index_that_is_cut_off_gives_the_series_before_the_cut(tmp_path: Path) -> None:
    names = [f"m{i:03d}" for i in range(50)]
    block = write_block(tmp_path / "b", [series(name, steady(2)) for name in names])
    whole = (block / "index").read_bytes()
    toc = int.from_bytes(whole[-44:-36], "big")
    (block / "index").write_bytes(whole[: toc + 700])
    batches, refused = read(block)
    found = named(samples_of(batches))
    assert 10 < len(found) < 50
    assert sorted(found) == names[: len(found)]
    assert ["table of contents" in r.reason for r in refused] == [True]


def test_a_damaged_series_is_passed_over(tmp_path: Path) -> None:
    block = write_block(tmp_path / "b", [series(f"m{i:03d}", steady(2)) for i in range(50)])
    data = (block / "index").read_bytes()
    begin = -(-int.from_bytes(data[-44:-36], "big") // 16) * 16
    for place in (begin + 16, begin + 17):  # the length of a series, its body
        (block / "index").write_bytes(data)
        damaged(block, "index", place)
        batches, refused = read(block)
        assert len(samples_of(batches)) == 49
        assert ["wrong checksum" in r.reason for r in refused] == [True]


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "is empty"), (b"text\n" * 20, "does not begin"), (b"\xba\xaa\xd7\x00\x01" + bytes(90), "version 1")],
)
def test_an_index_that_cannot_be_read_says_why(tmp_path: Path, content: bytes, said: str) -> None:
    block = write_block(tmp_path / "b", [series("up", steady(2))])
    (block / "index").write_bytes(content)
    batches, refused = read(block)
    assert batches == []
    assert said in refused[0].reason
    (block / "index").unlink()
    assert "no index" in read(block)[1][0].reason


def test_a_block_without_a_good_meta_json_is_read(tmp_path: Path) -> None:
    block = write_block(tmp_path / "b", [series("up", steady(2))])
    for content in (b"{", b"[]", json.dumps({"a": 1}).encode()):
        (block / "meta.json").write_bytes(content)
        batches, refused = read(block)
        assert named(samples_of(batches)) == {"up": steady(2)}
        assert ["external labels" in r.reason for r in refused] == [True]
    (block / "tombstones").write_bytes(b"\x01\x30\xba\x30\x01??")
    assert "tombstones" in read(block)[1][1].reason


def test_portions_never_cut_a_series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tsdb_pick, "BATCH_CHUNKS", 4)
    written = [series(f"m{i}", steady(10 * (i % 7 + 1)), per_chunk=10) for i in range(20)]
    batches, refused = read(write_block(tmp_path / "b", written))
    assert refused == []
    assert len(batches) > 10
    assert {name: len(own) for name, own in named(samples_of(batches)).items()} == {
        f"m{i}": 10 * (i % 7 + 1) for i in range(20)
    }


def test_batches_are_bounded_by_samples_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tsdb_block, "_BATCH_SAMPLES", 500)
    written = [series(f"m{i}", steady(100 * (i + 1))) for i in range(8)]
    batches, _ = read(write_block(tmp_path / "b", written))
    assert [len(batch.times) for batch in batches] == [300, 300, 400, 500, 600, 700, 800]
    assert named(samples_of(batches)) == {f"m{i}": steady(100 * (i + 1)) for i in range(8)}


def test_a_chunk_is_taken_once(tmp_path: Path) -> None:
    """An index that sends many series to one chunk is made up: what it asks for has no bounds."""
    block = write_block(tmp_path / "b", [series(f"m{i}", steady(100)) for i in range(3)])
    found, problems = ChunkFiles(source_of(block)).read(np.array([8, 8, 9]))
    assert [bool(chunk) for chunk in found] == [True, False, False]
    assert [problem.reason for problem in problems] == ["a chunk that begins within another"] * 2


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["index", "chunks/000001", "tombstones", "meta.json"]), st.data())
def test_damage_anywhere_never_raises_and_never_makes_up_samples(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    block = write_block(tmp_path_factory.mktemp("d") / "b", [series(f"m{i}", steady(3)) for i in range(5)])
    path = block / name
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content)))
        content[at : at + data.draw(st.integers(0, 12))] = data.draw(st.binary(max_size=6))
    path.write_bytes(content)
    batches, _ = read(block)
    for samples in samples_of(batches).values():
        assert samples == steady(3)


def test_a_block_is_read_by_its_names_alone(tmp_path: Path) -> None:
    """What stands below the folder besides the block is not opened."""
    block = write_block(tmp_path / "b", [series("up", steady(2))])
    (block / "deletion-mark.json").write_text("{}")
    assert "deletion-mark.json" in source_of(block).names
    assert len(read(block)[0]) == 1
