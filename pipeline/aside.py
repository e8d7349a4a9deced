"""Steps set aside: where a block has many, they are written to a file of this run, and only its path travels on.

Beam keeps what waits between two steps in memory. Of a log in which every line is a step that would be about half of
the log. The files lie in the staging folder of the run, in the form in which a source is settled, and go with it.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from aftershock.parsers.blocks import Aside, BlockResult
from aftershock.parsers.formats import Found
from aftershock.parsers.transit import pack_columns, pack_found
from aftershock.schemas.tables import TABLES
from aftershock.schemas.training import TrainingStep

# The format whose steps they are.
TRAINING: Final = "training"

# Steps of a block for which a file is worth its while.
FEWEST: Final = 2000

# What settling asks of a step beside the columns of its table; the time as printed is in no table.
_LEFT_OUT: Final = frozenset({"@text", "@format", "session_id", "source", "byte_offset"})
_CLOCKS: Final = frozenset({"local", "epoch", "zoned", "none"})


def set_aside(result: BlockResult, folder: str) -> None:
    """Write the steps of a block to a file of the folder, if they are many and such as can be settled as columns."""
    rows = [item for item in result.found if _is_step(item)]
    columns = [columns for name, columns in result.columns if name == TRAINING and columns.table == TrainingStep.table]
    count = len(rows) + sum(each.count for each in columns)
    if count < FEWEST or not all(_is_usual(item) for item in rows):
        return
    batches = [pack_columns(TRAINING, each) for each in columns]
    if rows:
        batches.append(pack_found(rows, TABLES[TrainingStep.table]))
    batch = _as_written(together(batches))
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{uuid.uuid4().hex}.arrow")
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    result.aside.append(Aside(path, int(batch.column("@offset")[0].as_py()), count))
    result.found = [item for item in result.found if not _is_step(item)] if rows else result.found
    result.columns = [
        (name, each) for name, each in result.columns if name != TRAINING or each.table != TrainingStep.table
    ]


def _is_step(item: Found) -> bool:
    return item.format == TRAINING and isinstance(item.row, TrainingStep)


def _is_usual(item: Found) -> bool:
    reading = item.reading
    return item.last is None and reading.boot is None and reading.epoch is None and reading.kind in _CLOCKS


def together(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The steps of a block, in the order of their offsets; of several batches only columns that are not all null."""
    whole = batches[0] if len(batches) == 1 else _joined(batches)
    offsets = whole.column("@offset").to_numpy()
    if (offsets[1:] >= offsets[:-1]).all():
        return whole
    return whole.take(pa.array(np.argsort(offsets, kind="stable")))


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches one after the other, words as strings."""
    columns: dict[str, list[pa.Array | None]] = {}
    for number, batch in enumerate(batches):
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if column.null_count < batch.num_rows:
                decoded = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
                columns.setdefault(name, [None] * len(batches))[number] = decoded
    arrays = []
    for parts in columns.values():
        kind = next(part.type for part in parts if part is not None)
        filled = [
            pa.nulls(batch.num_rows, kind) if part is None else part for part, batch in zip(parts, batches, strict=True)
        ]
        arrays.append(pa.concat_arrays(filled))
    return pa.RecordBatch.from_arrays(arrays, names=list(columns)).replace_schema_metadata(batches[0].schema.metadata)


def _as_written(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns that settling needs; words as dictionaries."""
    columns = {
        name: column.dictionary_encode() if pa.types.is_string(column.type) else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        if name not in _LEFT_OUT and column.null_count < batch.num_rows
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
