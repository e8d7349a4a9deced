"""Unsettled records as Arrow batches: how what a block gave travels to the place where its source is settled.

A batch holds the columns of its table and, behind them, what settling needs and no table keeps: the printed clocks,
the offset, the format and its mark. Marks of the way and counts of a block travel as batches of their own.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa

from aftershock.parsers.blocks import Aside, BlockResult, Mark
from aftershock.parsers.clock import Reading
from aftershock.parsers.formats import Found, FoundColumns
from aftershock.parsers.source import reject_of
from aftershock.schemas.batches import batch_to_rows, column_values, columns_to_batch
from aftershock.schemas.columns import Row, Table
from aftershock.schemas.provenance import Reject
from aftershock.schemas.tables import TABLE_OF_ROW, TABLES

_CLOCK: Final = (
    pa.field("@kind", pa.string()),
    pa.field("@wall", pa.int64()),
    pa.field("@boot", pa.int64()),
    pa.field("@epoch", pa.int64()),
    pa.field("@resolution", pa.int64()),
    pa.field("@text", pa.string()),
)
_LAST: Final = (
    pa.field("@last_wall", pa.int64()),
    pa.field("@last_boot", pa.int64()),
    pa.field("@folded", pa.bool_()),
    pa.field("@until", pa.int64()),
)
_PLACE: Final = (
    pa.field("@offset", pa.int64()),
    pa.field("@format", pa.string()),
    pa.field("@mark", pa.string()),
)
_MARKS: Final = pa.schema(
    [*_CLOCK, pa.field("@offset", pa.int64()), pa.field("@envelope", pa.string())],
    metadata={"table": "@marks"},
)
_COUNTS: Final = pa.schema(
    [
        *(pa.field(name, pa.int64()) for name in ("@lines", "@bytes", "@records")),
        pa.field("@begins", pa.list_(pa.int64())),
        pa.field("@digests", pa.list_(pa.string())),
    ],
    metadata={"table": "@counts"},
)
_ASIDE: Final = pa.schema(
    [pa.field("@path", pa.string()), pa.field("@begin", pa.int64()), pa.field("@rows", pa.int64())],
    metadata={"table": "@aside"},
)
_DESCRIBED: Final = pa.schema(
    [pa.field(name, pa.string()) for name in ("@format", "@refused", "@note")],
    metadata={"table": "@described"},
)


@lru_cache(maxsize=64)
def lean_schema(table_name: str) -> pa.Schema:
    """The schema of a table without docs: what travels between steps carries its table's name and nothing else."""
    return pa.schema([f.remove_metadata() for f in TABLES[table_name].schema], metadata={"table": table_name})


def lean_batch(rows: Sequence[Row], table_name: str, origin: str | None = None) -> pa.RecordBatch:
    """The rows of a table as a batch that travels. ``origin``: the format that they all come from, if it matters."""
    names = TABLES[table_name].column_names
    batch = columns_to_batch({n: list(map(attrgetter(n), rows)) for n in names}, lean_schema(table_name))
    return batch.replace_schema_metadata({"table": table_name, "origin": origin}) if origin else batch


def origin_of(batch: pa.RecordBatch) -> str:
    """The format that the rows of a batch come from; empty if it was not kept."""
    return str((batch.schema.metadata or {}).get(b"origin", b"").decode())


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    """The rows of a batch that travelled."""
    return batch_to_rows(batch, TABLES[table_name(batch)])


def table_name(batch: pa.RecordBatch) -> str:
    """The table that a batch belongs to, from its schema's metadata."""
    return str((batch.schema.metadata or {}).get(b"table", b"").decode())


def is_found(batch: pa.RecordBatch) -> bool:
    """Whether a batch on its way holds rows of a table, which are not settled yet."""
    return table_name(batch) in TABLES and "@offset" in batch.schema.names


@dataclass
class Unpacked:
    """What all blocks of one source gave."""

    found: list[Found] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    aside: list[Aside] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    lines: int = 0
    bytes: int = 0
    records: int = 0
    format: str | None = None
    refused: str | None = None
    note: str | None = None
    pieces: list[tuple[int, str]] = field(default_factory=list)

    @property
    def digest(self) -> str | None:
        """Digest of the decompressed content, made of the digests of its pieces in order."""
        if not self.pieces:
            return None
        whole = hashlib.blake2b(digest_size=16)
        for _, digest in sorted(self.pieces):
            whole.update(bytes.fromhex(digest))
        return whole.hexdigest()


def pack_source(format_name: str | None, refused: str | None, note: str | None) -> pa.RecordBatch:
    """What a source was recognised as, or why it is not read."""
    return columns_to_batch({"@format": [format_name], "@refused": [refused], "@note": [note]}, _DESCRIBED)


def pack(result: BlockResult, source: str) -> list[pa.RecordBatch]:
    """The batches of one block."""
    by_class: dict[type[Row], list[Found]] = defaultdict(list)
    for item in result.found:
        by_class[type(item.row)].append(item)
    # A line may give rows of several tables: their order must not hang on what else stands in the block.
    batches = [pack_found(by_class[row], table) for row, table in TABLE_OF_ROW.items() if row in by_class]
    batches += [pack_columns(name, columns) for name, columns in result.columns]
    if result.refused:
        rejects = [reject_of(source, name, refused) for name, refused in result.refused]
        batches.append(lean_batch(rejects, "rejects"))
    if result.aside:
        paths, begins, rows = zip(*result.aside, strict=True)
        batches.append(columns_to_batch({"@path": paths, "@begin": begins, "@rows": rows}, _ASIDE))
    if result.marks:
        columns = _clock_columns([mark.reading for mark in result.marks])
        columns["@offset"] = [mark.offset for mark in result.marks]
        columns["@envelope"] = [mark.envelope for mark in result.marks]
        batches.append(columns_to_batch(columns, _MARKS))
    counts = {
        "@lines": [result.lines],
        "@bytes": [result.bytes],
        "@records": [result.records],
        "@begins": [[begin for begin, _ in result.pieces]],
        "@digests": [[digest for _, digest in result.pieces]],
    }
    batches.append(columns_to_batch(counts, _COUNTS))
    return batches


def unpack(batches: Iterable[pa.RecordBatch]) -> Unpacked:
    """Everything that the batches of one source hold, in any order."""
    got = Unpacked()
    for batch in batches:
        name = table_name(batch)
        if name == "@marks":
            offsets = column_values(batch.column("@offset"))
            envelopes = column_values(batch.column("@envelope"))
            got.marks += map(Mark, offsets, _readings(batch), envelopes)
        elif name == "@counts":
            lines, size, records, begins, digests = (column_values(column)[0] for column in batch.columns)
            got.lines, got.bytes, got.records = got.lines + lines, got.bytes + size, got.records + records
            got.pieces += zip(begins, digests, strict=True)
        elif name == "@aside":
            got.aside += map(Aside, *(column_values(column) for column in batch.columns))
        elif name == "@described":
            got.format, got.refused, got.note = (column_values(column)[0] for column in batch.columns)
        elif name == "rejects":
            got.rejects += batch_to_rows(batch, TABLES[name])  # type: ignore[arg-type]
        else:
            got.found += found_of(batch)
    return got


def pack_found(items: Sequence[Found], table: Table) -> pa.RecordBatch:
    """Rows of one table, which are not settled yet, as one batch."""
    rows = [item.row for item in items]
    columns: dict[str, Any] = {name: list(map(attrgetter(name), rows)) for name in table.column_names}
    columns.update(_clock_columns([item.reading for item in items]))
    lasts = [item.last for item in items]
    columns["@last_wall"] = [last.wall if last else None for last in lasts]
    columns["@last_boot"] = [last.boot if last else None for last in lasts]
    columns["@folded"] = [last is not None for last in lasts]
    columns["@until"] = [item.until for item in items]
    columns["@offset"] = [item.offset for item in items]
    columns["@format"] = [item.format for item in items]
    columns["@mark"] = [item.mark for item in items]
    return columns_to_batch(columns, _found_schema(table.name))


def pack_columns(format_name: str, found: FoundColumns) -> pa.RecordBatch:
    """Rows that were found as columns, as they stand; columns that are null for all of them stay away."""
    columns = {"@format": pa.repeat(pa.scalar(format_name), found.count), **found.columns}
    schema = _found_schema(found.table)
    given = [field for field in schema if field.name in columns]
    return columns_to_batch(columns, pa.schema(given, metadata=schema.metadata))


@lru_cache(maxsize=64)
def _found_schema(table: str) -> pa.Schema:
    lean = lean_schema(table)
    return pa.schema([*lean, *_CLOCK, *_LAST, *_PLACE], metadata=lean.metadata)


def completed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch on its way with all its columns: those that stayed away are null, nothing is folded or marked."""
    schema = _found_schema(table_name(batch))
    if len(batch.schema) == len(schema):
        return batch
    usual = {"@folded": False, "@mark": ""}
    there = set(batch.schema.names)
    columns = [
        batch.column(field.name)
        if field.name in there
        else pa.repeat(pa.scalar(usual.get(field.name), field.type), batch.num_rows)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _clock_columns(readings: Sequence[Reading]) -> dict[str, Any]:
    kinds, walls, boots, epochs, resolutions, texts = zip(*readings, strict=True)
    return {
        "@kind": kinds,
        "@wall": walls,
        "@boot": boots,
        "@epoch": epochs,
        "@resolution": resolutions,
        "@text": texts,
    }


def _readings(batch: pa.RecordBatch) -> list[Reading]:
    columns = [column_values(batch.column(field.name)) for field in _CLOCK]
    return list(map(Reading, *columns))


def found_of(batch: pa.RecordBatch) -> list[Found]:
    """The rows of a batch on its way."""
    batch = completed(batch)
    rows = batch_to_rows(batch, TABLES[table_name(batch)])
    readings = _readings(batch)
    last_walls = column_values(batch.column("@last_wall"))
    last_boots = column_values(batch.column("@last_boot"))
    folded = column_values(batch.column("@folded"))
    lasts = [
        reading._replace(wall=wall, boot=boot) if is_folded else None
        for reading, wall, boot, is_folded in zip(readings, last_walls, last_boots, folded, strict=True)
    ]
    offsets = column_values(batch.column("@offset"))
    formats = column_values(batch.column("@format"))
    marks = column_values(batch.column("@mark"))
    untils = column_values(batch.column("@until"))
    return list(map(Found, rows, readings, offsets, marks, lasts, formats, untils))
