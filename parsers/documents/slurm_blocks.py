"""Blocks of Key=Value as scontrol prints them: each begins with its key at the start of a line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final

from aftershock.parsers.formats import Refused

# A block has some kilobytes; a node list or a command line may make it longer.
MAX_RECORD: Final = 1 << 20

_BOM: Final = b"\xef\xbb\xbf"
# A value goes on to the next blank. The first value of a key counts: free text comes last.
_FIELD: Final = re.compile(r"(?:\A|(?<=\s))(?P<key>[A-Z][A-Za-z0-9_/:]{0,31})=(?P<value>\S*)")


def blocks_of(stream: BinaryIO, begin: bytes, tool: str) -> Iterator[tuple[int, bytes] | Refused]:
    """(offset, text) of each block that begins with ``begin``; one that is too long is refused."""
    for offset, block in _cut(stream, begin):
        if len(block) > MAX_RECORD:
            yield Refused(offset, len(block), f"{tool}: record of more than {MAX_RECORD} bytes", block[:512])
        else:
            yield offset, block


def fields_of(text: str) -> dict[str, str]:
    """The values of a block that have no blanks, by key."""
    fields: dict[str, str] = {}
    for match in _FIELD.finditer(text):
        fields.setdefault(match["key"], match["value"])
    return fields


def _cut(stream: BinaryIO, begin: bytes) -> Iterator[tuple[int, bytes]]:
    """Each block with the offset of its first line; of one that is too long only its beginning."""
    offset = began = size = 0
    block: list[bytes] = []
    at_line_start = True
    while line := stream.readline(MAX_RECORD):
        if at_line_start and line.removeprefix(_BOM).startswith(begin):
            if block:
                yield began, b"".join(block)
            began, block, size = offset, [line], len(line)
        elif block and size <= MAX_RECORD:
            block.append(line)
            size += len(line)
        at_line_start = line.endswith(b"\n")
        offset += len(line)
    if block:
        yield began, b"".join(block)
