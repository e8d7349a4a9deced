"""A range of a source is read in blocks that stay in the cache; where they end changes nothing."""

from __future__ import annotations

import io
from typing import BinaryIO, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers import source
from aftershock.parsers.blocks import BlockResult
from aftershock.parsers.kernel import FORMAT
from aftershock.parsers.source import SourceFile, look, read_range

LINES = "".join(sample.text for sample in FORMAT.samples).encode()


def ranged(data: bytes, begin: int, stop: int, size: int) -> BlockResult:
    def opener(_path: str) -> BinaryIO:
        return cast(BinaryIO, io.BytesIO(data))

    opened = look(SourceFile("k.log", "k.log", len(data), "kernel"), opener)
    before, source._BLOCK_BYTES = source._BLOCK_BYTES, size  # type: ignore[misc]
    try:
        return read_range(opened, begin, stop, opener)
    finally:
        source._BLOCK_BYTES = before  # type: ignore[misc]


@settings(max_examples=30, deadline=None)
@given(size=st.sampled_from([1, 64, 500, 4096, 70_000]), cut=st.integers(0, len(LINES)), data=st.data())
def test_blocks_change_nothing(size: int, cut: int, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, cut)) if size > 64 else max(0, cut - 2000)
    whole, blocks = ranged(LINES, begin, cut, 1 << 30), ranged(LINES, begin, cut, size)
    assert (blocks.found, blocks.refused) == (whole.found, whole.refused)
    assert (blocks.lines, blocks.bytes, blocks.records) == (whole.lines, whole.bytes, whole.records)
    assert blocks.pieces == whole.pieces


@pytest.mark.parametrize("size", [100, 1 << 20])
def test_a_file_that_became_shorter_is_a_refusal_with_its_place(size: int) -> None:
    result = ranged(LINES[:5000], 1000, 9000, size)
    (refused,) = [item for _, item in result.refused if "became shorter" in item.reason]
    assert (refused.offset, refused.reason.split()[-7]) == (5000, "4000")
