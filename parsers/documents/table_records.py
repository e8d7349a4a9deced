"""The rows of a site's own table in our names, whether it is CSV, JSON (an object a line, or an array) or Parquet or
Arrow."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, NamedTuple

from aftershock.parsers.documents.arrow_records import ARROW_MAGIC, arrow_names, arrow_rows, is_arrow
from aftershock.parsers.documents.csv_records import csv_records, header_of
from aftershock.parsers.documents.json_elements import Element
from aftershock.parsers.documents.json_records import json_start, load_record, records_of
from aftershock.parsers.documents.parquet_records import PARQUET_MAGIC, parquet_rows
from aftershock.parsers.documents.stream_head import with_head
from aftershock.parsers.documents.table_layout import Layout
from aftershock.parsers.formats import Head, Refused

# A stream of Arrow has no such bytes: what it begins with says of which columns it is.
MAGICS: Final = (PARQUET_MAGIC, ARROW_MAGIC)
# First bytes that say which columns a table has, whatever it is written in.
TABLE_HEAD: Final = 64 << 10

_EXCERPT: Final = 512
# Keys of an outermost object under which exports keep their rows.
_ROW_KEYS: Final = ("jobs", "rows", "records", "data", "items", "results", "changes")


class TableRecord(NamedTuple):
    """A row: what it says by our names. A column that the table does not have is missing, an empty one is there.

    offset: of its first byte; in Parquet and Arrow, the number of the row.
    """

    values: dict[str, Any]
    offset: int
    raw: bytes


def looks_like(head: Head, layout: Layout) -> bool:
    """Whether the head of a file is that of a table with this layout. Of Parquet the head says nothing."""
    if (names := arrow_names(head.data)) is not None:
        return layout.is_header(names)
    if json_start(head.data):
        first = next(records_of(io.BytesIO(head.data), _ROW_KEYS), None)
        record = load_record(first) if isinstance(first, Element) else None
        return record is not None and layout.is_record(record)
    return any(header_of(line, layout.is_header) for line in head.lines(20) if not line.startswith(b"#"))


def table_records(stream: BinaryIO, layout: Layout, tool: str) -> Iterator[TableRecord | Refused]:
    """The rows of a table, in order, whatever it is written in."""
    head, stream = with_head(stream, TABLE_HEAD)
    if head.startswith(PARQUET_MAGIC):
        yield from _from_typed(parquet_rows(stream, layout.chosen, tool), layout)
    elif is_arrow(head):
        yield from _from_typed(arrow_rows(stream, layout.chosen, tool), layout)
    elif json_start(head):
        yield from _from_json(stream, layout, tool)
    else:
        yield from _from_csv(stream, layout, tool)


def _from_csv(stream: BinaryIO, layout: Layout, tool: str) -> Iterator[TableRecord | Refused]:
    names: tuple[str, ...] = ()
    places: dict[str, tuple[str, ...]] = {}
    for record in csv_records(stream, layout.is_header, tool):
        if isinstance(record, Refused):
            yield record
            continue
        if tuple(record.cells) != names:  # the header, or another one further down
            names = tuple(record.cells)
            places = layout.places(names)
        yield TableRecord(layout.row_values(record.cells, places), record.offset, record.raw)


def _from_json(stream: BinaryIO, layout: Layout, tool: str) -> Iterator[TableRecord | Refused]:
    for element in records_of(stream, _ROW_KEYS):
        if isinstance(element, Refused):
            yield element._replace(reason=f"{tool}: {element.reason}")
            continue
        record = load_record(element)
        if record is None:
            yield Refused(element.offset, len(element.data), f"{tool}: not JSON", element.data[:_EXCERPT])
        elif not layout.is_record(record):
            reason = f"{tool}: an object without the columns of such a table"
            yield Refused(element.offset, len(element.data), reason, element.data[:_EXCERPT])
        else:
            yield TableRecord(layout.record_values(record), element.offset, element.data)


def _from_typed(
    rows: Iterator[tuple[int, dict[str, Any]] | Refused], layout: Layout
) -> Iterator[TableRecord | Refused]:
    places: dict[str, tuple[str, ...]] | None = None
    for item in rows:
        if isinstance(item, Refused):
            yield item
            continue
        number, row = item
        if places is None:
            places = layout.places(list(row))
        yield TableRecord(layout.row_values(row, places), number, repr(row)[:_EXCERPT].encode("utf-8", "replace"))
