"""Reading lines out of blocks: whatever the cuts, the same lines are read once."""

from __future__ import annotations

import io

from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers import blocks
from aftershock.parsers.blocks import BlockResult, Window, read_block, read_blocks
from aftershock.parsers.formats import Found, Line, LineFormat, Refused, Sample, expect
from aftershock.parsers.scan import Scanner
from aftershock.schemas.events import NodeEvent


def _read(line: Line) -> list[Found | Refused]:
    if b"torn" in line.text:
        return [Refused(line.offset, len(line.text), "torn", line.text)]
    row = NodeEvent(kind="boot", message=line.envelope.message.decode("utf-8", "backslashreplace"))
    return [Found(row, line.envelope.reading, line.offset, mark=line.following[:5].decode("latin-1"))]


TOY = LineFormat(
    name="toy",
    doc="Lines with the word needle.",
    url="https://example.org",
    tables=("node_events",),
    detects=lambda head: 0.0,
    signatures=(rb"needle",),
    read=_read,
    samples=(Sample("needle", (expect("node_events"),)),),
    non_samples=("hay",),
)
SCANNER = Scanner([TOY])

Seen = list[tuple[int, str, str]]


def seen(results: list[BlockResult]) -> tuple[Seen, list[tuple[int, str]], int, list[tuple[int, str]]]:
    """Rows, refusals, line count and marks of all blocks, in order."""
    rows = sorted((f.offset, f.row.message or "", f.mark) for r in results for f in r.found)  # type: ignore[attr-defined]
    refused = sorted((item.offset, item.reason) for r in results for _, item in r.refused)
    marks = sorted((mark.offset, mark.envelope) for r in results for mark in r.marks)
    return rows, refused, sum(r.lines for r in results), marks


def in_ranges(data: bytes, size: int) -> list[BlockResult]:
    """Every range read apart from the others, as workers do."""
    results = []
    for begin in range(0, max(1, len(data)), size):
        base = max(0, begin - 1)
        stream = io.BytesIO(data)
        stream.seek(base)
        results.append(read_block(Window(stream, base), begin, begin + size, SCANNER))
    return results


def by_hand(data: bytes) -> tuple[Seen, int]:
    """The plainest way to read the same lines: split at newlines."""
    rows: Seen = []
    offset = 0
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    for line in lines:
        text = line.rstrip(b"\r")
        if b"needle" in line and b"torn" not in line:
            following = data[offset + len(line) + 1 :][:5].decode("latin-1")
            rows.append((offset, text.decode("utf-8", "backslashreplace"), following))
        offset += len(line) + 1
    return rows, len(lines)


WORDS = st.sampled_from([b"needle", b"hay", b"torn needle", b"\n", b"\r\n", b"\n\n", b" ", b"\xff", b"x" * 40, b""])
TEXTS = st.lists(WORDS, max_size=40).map(b"".join)


@given(data=TEXTS, size=st.integers(1, 100))
def test_cuts_change_nothing(data: bytes, size: int) -> None:
    whole = seen(in_ranges(data, max(1, len(data))))
    assert seen(in_ranges(data, size)) == whole
    assert seen(list(read_blocks(io.BytesIO(data), size, SCANNER))) == whole
    rows, lines = by_hand(data)
    assert [(o, m.rstrip(), f) for o, m, f in whole[0]] == [(o, m.rstrip(), f) for o, m, f in rows]
    assert whole[2] == lines


@settings(max_examples=60)
@given(
    lengths=st.lists(st.integers(0, 400), min_size=1, max_size=12),
    size=st.integers(1, 300),
    every=st.integers(1, 200),
)
def test_long_lines_and_marks_do_not_hang_on_cuts(lengths: list[int], size: int, every: int) -> None:
    data = b"".join(b"needle " + b"y" * n + b"\n" for n in lengths)
    span, mark_every, piece = blocks.SPAN, blocks.MARK_EVERY, blocks._COUNT_PIECE
    blocks.SPAN, blocks.MARK_EVERY, blocks._COUNT_PIECE = 128, every, 16  # type: ignore[misc]
    try:
        whole = seen(in_ranges(data, len(data)))
        assert seen(in_ranges(data, size)) == whole
        assert seen(list(read_blocks(io.BytesIO(data), size, SCANNER))) == whole
    finally:
        blocks.SPAN, blocks.MARK_EVERY, blocks._COUNT_PIECE = span, mark_every, piece  # type: ignore[misc]
    too_long = [n for n in lengths if n + 7 > 128]
    assert len(whole[1]) == len(too_long)
    assert len(whole[0]) == len(lengths) - len(too_long)
    assert whole[2] == len(lengths)


def test_a_line_without_end_is_one_reject_and_bounded_memory() -> None:
    data = b"needle one\n" + b"z" * (40 << 20) + b" needle\nneedle two\n"
    results = list(read_blocks(io.BytesIO(data), 4 << 20, SCANNER))
    rows, refused, lines, _ = seen(results)
    assert [message for _, message, _ in rows] == ["needle one", "needle two"]
    assert refused == [(11, f"line longer than {blocks.SPAN} bytes")]
    assert lines == 3


def test_digest_depends_on_content_not_on_the_way_of_reading() -> None:
    data = b"needle\n" * 1000
    ranged = [piece for r in in_ranges(data, 1024) for piece in r.pieces]
    streamed = [piece for r in read_blocks(io.BytesIO(data), 1024, SCANNER) for piece in r.pieces]
    assert ranged == streamed
    assert len({digest for _, digest in ranged}) > 1
