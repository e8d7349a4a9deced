"""The parts of a run in its staging folder: read a few columns of them, write them anew."""

from __future__ import annotations

import os
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from aftershock.parsers.transit import lean_schema
from aftershock.pipeline.parts import PartWriter, part_table, read_part, write_part, write_rows
from aftershock.pipeline.shards import shards_of
from aftershock.pipeline.step_files import StepFile, step_files
from aftershock.schemas.tables import TABLES

# A part in the making.
_SPARE: Final = ".rewritten"


class Staged:
    """The staging folder of a run whose parts are all written and none is taken yet."""

    def __init__(self, folder: Path, table_format: str) -> None:
        self._folder = folder
        self._format = table_format

    @property
    def folder(self) -> Path:
        """Where the parts are; other files may wait there, which go with it."""
        return self._folder

    def parts(self, table: str) -> list[Path]:
        """The parts of a table. Of several tries of one part the same is taken as for the result."""
        tries: dict[str, list[Path]] = defaultdict(list)
        for path in (self._folder / table).glob("*"):
            tries[path.name.split(".")[0]].append(path)
        return [min(paths) for _, paths in sorted(tries.items())]

    def has(self, tables: Iterable[str]) -> bool:
        """Whether any of the tables has a row."""
        return any(self.parts(table) for table in tables)

    def read(self, table: str, path: Path, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """Some columns of a part, or all; enumerations are plain strings."""
        names = list(columns or TABLES[table].column_names)
        return plain(read_part(str(path), self._format, names), table)

    def written(self, path: Path, columns: Sequence[str]) -> pa.Table:
        """Some columns of a part as they are written: the quickest way to many rows."""
        return read_part(str(path), self._format, list(columns))

    def step_files(self) -> list[StepFile]:
        """The steps of sources that have many, which are in no part yet."""
        return step_files(self._folder)

    def begin_part(self, table: str, shard: str) -> tuple[PartWriter, Path]:
        """A part that is written piece by piece, and where it is to be put when it is closed. Several may be open."""
        place = self._folder / table / f"{shard}.{uuid.uuid4().hex}"
        place.parent.mkdir(parents=True, exist_ok=True)
        return PartWriter(str(self._making(place)), TABLES[table], self._format), place

    def _making(self, place: Path) -> Path:
        return self._folder / f"{_SPARE}.{place.name}"

    def end_part(self, writer: PartWriter, place: Path) -> None:
        """Put a part that was written to its place; others of its shard go."""
        writer.close()
        for tried in place.parent.glob(f"{place.name.split('.')[0]}.*"):
            tried.unlink()
        os.replace(self._making(place), place)

    def put(self, table: str, shard: str, batches: Sequence[pa.RecordBatch]) -> None:
        """Write a part that is not there yet, of rows in any order, which may wait on disk."""
        place = self._folder / table / f"{shard}.{uuid.uuid4().hex}"
        place.parent.mkdir(parents=True, exist_ok=True)
        write_rows(TABLES[table], batches, str(self._making(place)), self._format)
        os.replace(self._making(place), place)

    def rewrite(self, path: Path, table: pa.Table) -> None:
        """Put a part back as it was written, but for columns that change neither its rows, nor their part or order."""
        spare = self._folder / _SPARE
        write_part(table, str(spare), self._format)
        os.replace(spare, path)

    def batches(self, table: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Some columns of all parts of a table, one part at a time."""
        for path in self.parts(table):
            yield self.read(table, path, columns)

    def replace(self, table: str, path: Path, batch: pa.RecordBatch) -> None:
        """Write a part anew. Rows that belong to another part by now move there."""
        shard = path.name.split(".")[0]
        pieces = {name: rows for (_, name), rows in shards_of(batch)} if batch.num_rows else {}
        stays = pieces.pop(shard, None)
        if stays is None:
            for tried in (self._folder / table).glob(f"{shard}.*"):
                tried.unlink()
        else:
            self._write(table, path, [stays])
        for name, rows in pieces.items():
            self._add(table, name, rows)

    def append(self, table: str, batch: pa.RecordBatch) -> None:
        """Add rows to a table, each to its part."""
        for (_, shard), rows in shards_of(batch):
            self._add(table, shard, rows)

    def rebuild(self, table: str, batches: Sequence[pa.RecordBatch]) -> None:
        """Write a table anew from all its rows."""
        for path in (self._folder / table).glob("*"):
            path.unlink()
        for batch in batches:
            if batch.num_rows:
                self.append(table, batch)

    def _add(self, table: str, shard: str, rows: pa.RecordBatch) -> None:
        there = next((path for path in self.parts(table) if path.name.split(".")[0] == shard), None)
        if there is None:
            there = self._folder / table / f"{shard}.{uuid.uuid4().hex}"
            self._write(table, there, [rows])
        else:
            self._write(table, there, [self.read(table, there), rows])

    def _write(self, table: str, path: Path, batches: Sequence[pa.RecordBatch]) -> None:
        schema = lean_schema(table)
        lean = [pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches]
        spare = self._folder / _SPARE
        write_part(part_table(TABLES[table], lean), str(spare), self._format)
        path.parent.mkdir(parents=True, exist_ok=True)
        os.replace(spare, path)


def plain(table: pa.Table, name: str) -> pa.RecordBatch:
    """A table as one batch with the types of the schema: enumerations are plain strings."""
    whole = table.combine_chunks()
    schema = lean_schema(name)
    arrays = []
    for column in whole.column_names:
        chunks = whole.column(column)
        array = pa.concat_arrays(chunks.chunks) if chunks.num_chunks else pa.nulls(0, chunks.type)
        arrays.append(array.dictionary_decode() if pa.types.is_dictionary(array.type) else array)
    fields = [schema.field(column) for column in whole.column_names]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, metadata={"table": name}))
