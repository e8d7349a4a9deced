"""The text inside a record: through all line formats whose signature stands in it.

Documents (answers of log stores, files within files) are read record by record. What stands inside a record is a line
like any other: it is unwrapped on from the layer that the record is, and read by the same formats. Rows keep the offset
of the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from aftershock.parsers.envelopes import inside, lines_within
from aftershock.parsers.envelopes.layer import Layer
from aftershock.parsers.formats import Found, Line, Refused
from aftershock.parsers.registry import line_formats
from aftershock.parsers.scan import Scanner, scanner_for


def all_signatures() -> Scanner:
    """The scanner of all line formats."""
    return scanner_for(line_formats())


def read_layer(offset: int, layer: Layer) -> Iterator[Found | Refused]:
    """The rows of the text that a layer holds, with the offset of the record that it stands in."""
    scanner = all_signatures()
    line = Line(offset, layer.rest, inside(layer))
    for index, item in read_line(line, scanner.inside(line.envelope.message), scanner):
        yield named(item, scanner.formats[index].name)


def read_line(line: Line, wanted: Iterable[int], scanner: Scanner) -> Iterator[tuple[int, Found | Refused]]:
    """The rows of one line, each with the index of its format.

    A message of several lines (in JSON) is read line by line.
    """
    if b"\n" not in line.envelope.message:
        for index in sorted(wanted):
            for item in scanner.formats[index].read(line):
                yield index, item
        return
    inner = lines_within(line.envelope)
    for number, envelope in enumerate(inner):
        following = b"\n".join(below.message for below in inner[number + 1 : number + 9])
        text = Line(line.offset, envelope.message, envelope, following)
        for index in scanner.inside(envelope.message):
            for item in scanner.formats[index].read(text):
                yield index, item


def named(item: Found | Refused, name: str) -> Found | Refused:
    """The same row, under the name of the format that found it."""
    if isinstance(item, Found):
        item.format = name
    return item
