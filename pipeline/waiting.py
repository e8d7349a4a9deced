"""Batches that wait on disk between two steps, so that memory holds what is worked on and not what waits.

Beam keeps what is grouped in memory, with all that was put before it. A large batch is written to a file of the staging
folder instead, and a batch of one row travels in its place: it names the file, and has the metadata of the batch, so
that its table and its format are known without a look at the file. Whoever needs the rows opens it. The files go with
the staging folder; of a bundle that is run twice each try has files of its own.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import pyarrow as pa

from aftershock.parsers.transit import lean_schema, table_name
from aftershock.schemas.batches import own_buffers

KeyT = TypeVar("KeyT", bound=Hashable)

# Rows for which a file is worth its while, and rows that are written to one file.
FEWEST_ROWS: Final = 5_000
_ROWS_AT_ONCE: Final = 100_000

_PLACE: Final = (
    pa.field("@path", pa.string()),
    pa.field("@begin", pa.int64()),
    pa.field("@bytes", pa.int64()),
    pa.field("@rows", pa.int64()),
)


def waiting(keyed: Iterable[tuple[KeyT, pa.RecordBatch]], folder: str) -> Iterator[tuple[KeyT, pa.RecordBatch]]:
    """The same batches in the same order, with those that are many rows together on disk. Without a folder, as given.

    What follows each other shares a file: a batch that was cut into many small ones costs one.
    """
    held: list[tuple[KeyT, pa.RecordBatch]] = []
    rows = 0
    for key, batch in keyed:
        held.append((key, batch))
        rows += batch.num_rows
        if rows >= _ROWS_AT_ONCE:
            yield from _put(held, rows, folder)
            held, rows = [], 0
    yield from _put(held, rows, folder)


def _put(held: Sequence[tuple[KeyT, pa.RecordBatch]], rows: int, folder: str) -> Iterable[tuple[KeyT, pa.RecordBatch]]:
    if rows < FEWEST_ROWS or not folder:
        return held
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{uuid.uuid4().hex}.batches")
    put = []
    with pa.OSFile(path, "wb") as sink:
        for key, batch in held:
            if is_waiting(batch):
                put.append((key, batch))
                continue
            begin = sink.tell()
            lean = _lean(batch)
            with pa.ipc.new_stream(sink, lean.schema) as writer:
                writer.write_batch(own_buffers(lean))
            put.append((key, _named(batch, path, begin, sink.tell() - begin)))
    return put


def _named(batch: pa.RecordBatch, path: str, begin: int, size: int) -> pa.RecordBatch:
    cells: list[list[Any]] = [[path], [begin], [size], [batch.num_rows]]
    return pa.RecordBatch.from_arrays(
        [pa.array(cell, field.type) for cell, field in zip(cells, _PLACE, strict=True)],
        schema=pa.schema(_PLACE, metadata=batch.schema.metadata),
    )


def _lean(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Without columns that are null throughout: most tables are wide, and most of their columns are empty."""
    names = [name for name in batch.schema.names if batch.column(name).null_count < batch.num_rows]
    return batch.select(names or batch.schema.names[:1])


def is_waiting(batch: pa.RecordBatch) -> bool:
    """Whether a batch stands for one on disk."""
    names: list[str] = batch.schema.names
    return names == [field.name for field in _PLACE]


def row_count(batch: pa.RecordBatch) -> int:
    """How many rows a batch has, or the one that it stands for."""
    return int(batch.column("@rows")[0].as_py()) if is_waiting(batch) else batch.num_rows


def opened(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch that one stands for, with all columns of its table; its memory is the file. Others as they are.

    One on its way from a source comes without the columns that are null, as those do that were found as columns.
    """
    if not is_waiting(batch):
        return batch
    lean = stored(batch)
    return lean if "@offset" in lean.schema.names else whole(lean)


def stored(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same without the columns that are null throughout."""
    if not is_waiting(batch):
        return batch
    path, begin, size, _ = (column[0].as_py() for column in batch.columns)
    with pa.memory_map(path) as file:
        file.seek(begin)
        with pa.ipc.open_stream(file.read_buffer(size)) as reader:
            return reader.read_next_batch()


def whole(lean: pa.RecordBatch) -> pa.RecordBatch:
    """A batch of a table with all its columns."""
    schema = lean_schema(table_name(lean)).with_metadata(lean.schema.metadata)
    there = set(lean.schema.names)
    columns = [
        lean.column(field.name) if field.name in there else pa.nulls(lean.num_rows, field.type) for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class Opened:
    """Batches that are opened one at a time, each time that they are gone through."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = list(batches)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return map(opened, self._batches)

    def __bool__(self) -> bool:
        return bool(self._batches)
