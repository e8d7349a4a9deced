"""Files within a file: a text that is cut into sections, each of which is read as the file it is.

A report that holds the output of many commands, or the output of one command on many hosts, is a row of files, each
with a format, clocks and maybe a host of its own. The cutter says where a section begins; its text goes through the
same recognition as any file. Offsets are those of the whole file. A mark at the beginning of each section tells the
clock of the source that boots, years and the order of lines begin anew there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, Final, cast

from aftershock.parsers.blocks import read_blocks
from aftershock.parsers.clock import NO_CLOCK
from aftershock.parsers.detect import HEAD_BYTES, Detected, detect
from aftershock.parsers.formats import SECTION, Found, Head, Mark, Refused
from aftershock.parsers.inner_lines import all_signatures
from aftershock.parsers.scan import scanner_for
from aftershock.schemas.events import EventRow
from aftershock.schemas.topology import Gpu, Host

Item = Found | Refused | Mark

# A section up to this size stays in memory; a longer one goes through a file without a name.
_IN_MEMORY: Final = 8 << 20
_BLOCK: Final = 1 << 20
# Lines are taken in pieces of at most this size, so that one without end cannot fill the memory.
_LONGEST_TAKE: Final = 1 << 16


@dataclass(frozen=True)
class Section:
    """Where a section's text begins in the whole file, what it is called, and the hosts that it came from, if known.

    said_before: it only says again what another section said, and is not read.
    """

    offset: int
    name: str = ""
    hosts: tuple[str, ...] = ()
    said_before: bool = False


Cut = Callable[[bytes, int], Section | None]
"""Given a line and the offset behind it: the section that begins there, or None if the line belongs to the text."""


def read_sections(
    stream: BinaryIO, cut: Cut, host: Callable[[], str | None] = lambda: None, indent: bytes = b""
) -> Iterator[Item]:
    """The rows of all sections of a stream. ``host``: of sections that name none, asked when the section is read.

    ``indent``: what stands before every line of a section, and does not belong to it.
    """
    section = Section(0)
    offset = 0
    whole_line = True
    text = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - each is closed when its section is read
    while line := stream.readline(_LONGEST_TAKE):
        offset += len(line)
        begins = cut(line, offset) if whole_line else None
        whole_line = line.endswith(b"\n")
        if begins is None:
            text.write(_unindented(line, indent) if indent else line)
            continue
        yield from _read(section, cast(BinaryIO, text), section.hosts or _one(host()))
        text.close()
        section, text = begins, tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115
    yield from _read(section, cast(BinaryIO, text), section.hosts or _one(host()))
    text.close()


def _unindented(line: bytes, indent: bytes) -> bytes:
    """The line as long as it was, so that offsets stay: carriage returns before its end belong to no line."""
    if not line.startswith(indent) or not line.endswith(b"\n"):
        return line
    return line[len(indent) : -1].rstrip(b"\r").ljust(len(line) - 1, b"\r") + b"\n"


def _one(host: str | None) -> tuple[str, ...]:
    return (host,) if host else ()


def _read(section: Section, text: BinaryIO, hosts: Sequence[str]) -> Iterator[Item]:
    text.seek(0)
    start = text.read(HEAD_BYTES)
    if not start.strip() or section.said_before:
        return
    # What stands before the text itself (a blank line, a dashed one) would hide from a format its beginning.
    skipped = len(start) - len(start.lstrip(b"\r\n"))
    begin = section.offset + skipped
    text.seek(skipped)
    yield Mark(begin, NO_CLOCK, SECTION)
    for item in _items(text, detect(Head(section.name, start[skipped:]))):
        if isinstance(item, Found):
            item.offset += begin
            yield from _on_hosts(item, hosts)
        else:
            yield item._replace(offset=item.offset + begin)


def _items(text: BinaryIO, detected: Detected) -> Iterator[Item]:
    """The rows of a section, as the file that it is; a section within a section is read as lines."""
    if detected.how == "refused":
        yield Refused(0, 0, detected.reason or "")
        return
    document = detected.document
    if document is not None and not document.holds_files:
        for item in document.read(text):
            if isinstance(item, Found):
                item.format = item.format or document.name
            yield item
        return
    scanner = scanner_for(detected.formats) if detected.formats else all_signatures()
    for block in read_blocks(text, _BLOCK, scanner):
        yield from block.found
        yield from (refused for _, refused in block.refused)
        yield from block.marks


def _on_hosts(item: Found, hosts: Sequence[str]) -> Iterable[Found]:
    """The row on the host of its section, unless it names its own; on each host where several printed the same."""
    row = item.row
    if isinstance(row, EventRow):
        if row.host_raw is not None or row.host is not None or not hosts:
            return (item,)
        return [replace(item, row=replace(row, host_raw=host)) for host in hosts]
    if isinstance(row, (Gpu, Host)) and row.host is None and hosts:
        return [replace(item, row=replace(row, host=host)) for host in hosts]
    return (item,)
