"""How a table is described: a row class whose annotated fields carry type, doc and unit.

One definition serves everything: the parsers build the row class, the Arrow schema is derived from its fields, and the
table reference in ``docs/tables.md`` is printed from the same text. A field reads

    pid: Annotated[int | None, Col("Process id printed on the line; often the victim, not the culprit.")] = None

Times are microseconds since 1970-01-01 UTC in a row, ``timestamp[us, tz=UTC]`` in Arrow. Null means unknown.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")

# What a Python annotation becomes in Arrow when the column does not say otherwise.
_ARROW_TYPES: Mapping[Any, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    bytes: pa.binary(),
    list[str]: pa.list_(pa.string()),
    list[int]: pa.list_(pa.int32()),
    dict[str, str]: pa.map_(pa.string(), pa.string()),
}


Holds = Literal["host", "cluster", "user", "path", "place", "serial", "job", "member", "id", "text", "fixed"]
"""What the strings of a column are, for those who must not see all of them.

    host, cluster, user, path, serial: one such name
    place: a path with an offset, `logs/kern.log:4096`
    job: a scheduler's own id of a job, mostly a number
    member: a host, a GPU of a host (`gpu004/gpu3`) or a rank
    id: made by `stable_id` or a digest
    text: anything that a log or a person said
    fixed: words of this program, whatever the input
"""


@dataclass(frozen=True)
class Col:
    """What a column means. ``values``: the words an enumeration may take, in the order they are numbered on disk."""

    doc: str
    unit: str | None = None
    arrow: pa.DataType | None = None
    values: tuple[str, ...] = ()
    holds: Holds | None = None


def time_col(doc: str) -> Col:
    """A point in time: microseconds UTC."""
    return Col(doc, arrow=TIMESTAMP)


def seconds_col(doc: str) -> Col:
    """A duration in seconds."""
    return Col(doc, unit="s")


@dataclass(slots=True, kw_only=True)
class Row:
    """Base of every row class. ``key`` names one row; ``order`` is the order of rows on disk."""

    table: ClassVar[str]
    key: ClassVar[tuple[str, ...]]
    order: ClassVar[tuple[str, ...]]


RowT = TypeVar("RowT", bound=Row)


@dataclass(frozen=True)
class Column:
    """One column of a table, as derived from a field of the row class."""

    name: str
    type: pa.DataType
    doc: str
    unit: str | None
    values: tuple[str, ...]
    holds: Holds | None

    def arrow_field(self, *, written: bool = False) -> pa.Field:
        """The Arrow field with doc and unit as metadata; ``written`` gives enumerations their type on disk."""
        meta = {"doc": self.doc} | ({"unit": self.unit} if self.unit else {})
        kind = pa.dictionary(pa.int32(), pa.string()) if written and self.values else self.type
        return pa.field(self.name, kind, nullable=True, metadata=meta)


@dataclass(frozen=True)
class Table:
    """A table: its row class, its columns and its Arrow schemas."""

    name: str
    doc: str
    row: type[Row]
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    order: tuple[str, ...]
    schema: pa.Schema
    written_schema: pa.Schema

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(column.name for column in self.columns)


def table_of(row: type[Row]) -> Table:
    """Derive the table from its row class.

    Raises:
        TypeError: a field without ``Col``, or of a type that has no Arrow counterpart.
    """
    # Row modules do without postponed annotations: evaluating six hundred strings would show in every start.
    columns = tuple(_column(row, field.name, field.type) for field in dataclasses.fields(row))
    doc = inspect.cleandoc(row.__doc__ or "")
    meta = {"table": row.table, "doc": doc}
    return Table(
        name=row.table,
        doc=doc,
        row=row,
        columns=columns,
        key=row.key,
        order=row.order,
        schema=pa.schema([c.arrow_field() for c in columns], metadata=meta),
        written_schema=pa.schema([c.arrow_field(written=True) for c in columns], metadata=meta),
    )


def _column(row: type[Row], name: str, hint: Any) -> Column:
    metadata = getattr(hint, "__metadata__", ())
    spec = next((m for m in metadata if isinstance(m, Col)), None)
    if spec is None:
        raise TypeError(f"{row.__name__}.{name} has no Col(...) that says what it means")
    kind = spec.arrow if spec.arrow is not None else _ARROW_TYPES.get(_bare_type(hint))
    if kind is None:
        raise TypeError(f"{row.__name__}.{name}: no Arrow type for {hint}")
    return Column(name, kind, inspect.cleandoc(spec.doc), spec.unit, spec.values, spec.holds)


def _bare_type(hint: Any) -> Any:
    """``Annotated[int | None, ...]`` is ``int``."""
    inner = hint.__origin__
    if isinstance(inner, types.UnionType) or typing.get_origin(inner) is typing.Union:
        inner = next(arg for arg in typing.get_args(inner) if arg is not type(None))
    return inner
