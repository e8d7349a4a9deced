"""Lines of known shape, read many at once: formats take them out of a block before its lines are looked at one by one.

The rest of the block, which may be next to nothing, is scanned for signatures as ever: as one text, so that a block of
which every other line was taken costs one scan.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from aftershock.parsers.formats import FoundColumns
from aftershock.parsers.scan import Scanner
from aftershock.parsers.surroundings import may_hold_raw_bytes

Spans = Sequence[tuple[int, int]]

# Gaps with fewer bytes hold line ends only.
_LINE_END: Final = 2


def take_lines(
    data: bytearray, base: int, first: int, end: int, scanner: Scanner
) -> tuple[list[tuple[str, FoundColumns]], list[tuple[int, int]]]:
    """What formats read of ``data[first:end]`` many lines at once: rows by format, and the spans of ``data`` they took.

    ``first`` is the first byte of a line, ``end`` stands behind the last byte of one; ``base`` is the offset of
    ``data`` in the source. A last line without line end is left: a part of it may be missing.
    """
    rows: list[tuple[str, FoundColumns]] = []
    spans: list[tuple[int, int]] = []
    stop = end + 1 if data[end : end + 1] == b"\n" else data.rfind(b"\n", first, end) + 1
    for index, fmt in enumerate(scanner.formats):
        if fmt.read_lines is None or stop <= first or spans:
            continue  # a line belongs to one format
        got = fmt.read_lines(data, first, stop, base)
        alone = got is None or all(_is_alone(text, index, scanner) for text in got.examples)
        if got is not None and alone and not _in_raw_bytes(data, got.spans):
            rows.append((fmt.name, got.rows))
            spans = got.spans
    return rows, spans


def _is_alone(record: bytes, index: int, scanner: Scanner) -> bool:
    """Whether the scan finds a format in the first line of a record, and no other one in any."""
    found = [{hit[1] for hit in scanner.hits(line.removesuffix(b"\r"))} for line in record.split(b"\n")]
    return bool(found[0]) and all(each <= {index} for each in found)


def _in_raw_bytes(data: bytearray, spans: Spans) -> bool:
    before = 0
    for begin, stop in spans:
        if may_hold_raw_bytes(data, before, begin):
            return True
        before = stop
    return False


def hits_outside(data: bytearray, first: int, end: int, spans: Spans, scanner: Scanner) -> list[tuple[int, int]]:
    """All (end of match, number) of signatures in ``data[first:end]`` but within the spans; ends count from there."""
    if not spans:
        with memoryview(data) as view:
            return scanner.hits(view[first:end])
    edges = [first, *(edge for span in spans for edge in span), end]
    gaps = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if b - a > _LINE_END]
    if not gaps:
        return []
    with memoryview(data) as view:
        text = b"".join(view[a:b] for a, b in gaps)
    begins = [0, *accumulate(b - a for a, b in gaps)]
    hits = []
    for place, number in scanner.hits(text):
        gap = bisect.bisect_right(begins, place - 1) - 1
        hits.append((gaps[gap][0] + place - begins[gap] - first, number))
    return hits
