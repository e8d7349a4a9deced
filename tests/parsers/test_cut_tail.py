"""A last line without line end that ends in a number."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.blocks import BlockResult, Window, read_block
from aftershock.parsers.cut_tail import REASON
from aftershock.parsers.registry import line_formats
from aftershock.parsers.scan import scanner_for

SCANNER = scanner_for(line_formats())
ENDED = "[2025-02-03T08:10:05.220] _job_complete: JobId=7 WEXITSTATUS 139"


def read(text: str, size: int = 1 << 20) -> BlockResult:
    result = BlockResult()
    for begin in range(0, max(1, len(text)), size):
        stream = io.BytesIO(text.encode())
        stream.seek(max(0, begin - 1))
        result.add(read_block(Window(stream, max(0, begin - 1)), begin, begin + size, SCANNER))
    return result


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_the_row_stays_and_a_reject_says_that_it_may_be_cut(cut: int) -> None:
    line = ENDED[: len(ENDED) - cut]
    result = read(f"{ENDED}\n{line}")
    assert len(result.found) == 2
    ((name, refused),) = result.refused
    assert (name, refused.offset, refused.length) == ("slurmctld", len(ENDED) + 1, len(line))
    assert REASON in refused.reason
    assert refused.excerpt == line.encode()


@pytest.mark.parametrize(
    "text",
    [
        f"{ENDED}\n",
        f"{ENDED}\r\n",
        "[2025-02-03T08:10:05.220] _job_complete: JobId=7 done",
        f"{ENDED}\nstep 139",  # nothing was read from the last line
        "",
    ],
)
def test_what_is_whole_or_was_not_read_is_no_reject(text: str) -> None:
    assert read(text).refused == []


@given(st.integers(1, 400))
def test_any_chunk_size_says_so_once(size: int) -> None:
    assert len(read(f"{ENDED}\n{ENDED}", size).refused) == 1
