"""What the tests of envelopes share: a text read as ``aftershock parse`` reads it, in one piece or in many."""

from __future__ import annotations

import io
from typing import Any

from aftershock.parsers.blocks import REACH, BlockResult, Window, read_block
from aftershock.parsers.detect import Detected, detect
from aftershock.parsers.formats import Head
from aftershock.parsers.registry import formats
from aftershock.parsers.resolve import ClockRules
from aftershock.parsers.scan import scanner_for
from aftershock.parsers.settle import SourceRules, settle_source
from aftershock.parsers.source import read_stream
from aftershock.schemas.columns import Row

XID = "NVRM: Xid (PCI:0000:9d:00): 31, pid=7, name=a.out, Ch 00000010"


def detected(text: str | bytes) -> Detected:
    """What a text is recognised as."""
    data = text.encode() if isinstance(text, str) else text
    return detect(Head("export", data[: 64 << 10]))


def read_all(text: str | bytes, rules: ClockRules | None = None) -> tuple[list[Row], BlockResult]:
    """The rows of a text, and what its blocks gave."""
    data = text.encode() if isinstance(text, str) else text
    result = BlockResult()
    for block in read_stream(io.BytesIO(data), detected(data)):
        result.add(block)
    return _settled(result, rules), result


def read_in_ranges(data: bytes, size: int) -> list[Row]:
    """The rows of a text of lines, every range read apart from the others, as workers do."""
    result = BlockResult()
    for begin in range(0, max(1, len(data)), size):
        base = max(0, begin - REACH)
        stream = io.BytesIO(data)
        stream.seek(base)
        result.add(read_block(Window(stream, base), begin, begin + size, scanner_for(detected(data).formats)))
    return _settled(result, None)


def _settled(result: BlockResult, rules: ClockRules | None) -> list[Row]:
    named = {fmt.name: fmt for fmt in formats()}.get
    source = SourceRules(source="s", clock=rules or ClockRules())
    return settle_source(list(result.found), result.marks, source, named).rows


def rows_of(text: str | bytes) -> list[Row]:
    """The rows of a text."""
    return read_all(text)[0]


def facts_of(text: str | bytes, *names: str) -> list[tuple[Any, ...]]:
    """Some columns of all rows of a text, in order."""
    return [tuple(getattr(row, name) for name in names) for row in rows_of(text)]
