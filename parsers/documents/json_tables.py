"""Tables within JSON: arrays of cells, with the names of their columns in an array beside them.

    {"fields":["_time","host","_raw"],"rows":[["2026-03-01T12:00:00Z","gpu017","NVRM: ..."], ...]}     row by row
    {"fields":["_time","host","_raw"],"columns":[["2026-03-01T12:00:00Z"],["gpu017"],["NVRM: ..."]]}   column by column
    {"columns":[{"name":"@timestamp","type":"date"},{"name":"message"}],"values":[["...","..."]]}

Splunk's search answers, Azure Monitor, Elasticsearch (SQL and ES|QL) have them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

# The members that name the columns.
_NAMES: Final = ("fields", "columns")
_NAMED: Final = tuple(f'"{name}"'.encode() for name in _NAMES)
_COLUMNS: Final = re.compile(rb'"columns"\s*:\s*\[\s*\[')
# The beginning of a table column by column, and its names.
_HEAD: Final = re.compile(rb'\{.{0,400}?"fields"\s*:\s*(\[[^\[\]]{1,4000}\])\s*,\s*"columns"\s*:\s*\[\s*\[', re.DOTALL)

Around = tuple[Mapping[str, Any], ...]


def names_columns(name: bytes, value: bytes) -> bool:
    """Whether a member (its name in quotes) holds the names of columns."""
    return name in _NAMED and value.startswith(b"[") and not value[1:].lstrip().startswith(b"[")


def column_names(around: Around) -> list[str]:
    """The names of the columns of the table around a row, as texts or as objects with a name; none if it is none."""
    for members in around[:1]:
        for key in _NAMES:
            columns = members.get(key)
            if isinstance(columns, list) and columns:
                names = [column.get("name") if isinstance(column, dict) else column for column in columns]
                if all(isinstance(name, str) for name in names):
                    return [str(name) for name in names]
    return []


def is_row_of_table(data: bytes, around: Around) -> bool:
    """Whether an array is a row of the table whose columns are named around it."""
    names = column_names(around)
    row = _read(data) if names else None
    return isinstance(row, list) and len(row) == len(names) and not isinstance(row[0], (list, dict))


def holds_columns(data: bytes) -> bool:
    """Whether an object holds a table column by column, of which no row can be told from the rest."""
    return _COLUMNS.search(data) is not None


def names_in_head(data: bytes) -> list[str]:
    """The names of the columns of a table column by column that a text begins with."""
    head = _HEAD.match(data)
    return [] if head is None else column_names(({"fields": _read(head[1])},))


def records_in(value: Any) -> Iterator[Any]:
    """The rows of a table column by column, as objects; any other value as it is."""
    columns = value.get("columns") if isinstance(value, dict) else None
    names = column_names(({"fields": value.get("fields")},)) if isinstance(columns, list) else []
    if names and isinstance(columns, list) and all(isinstance(column, list) for column in columns):
        for row in zip(*columns, strict=False):
            yield dict(zip(names, row, strict=False))
    else:
        yield value


def _read(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
