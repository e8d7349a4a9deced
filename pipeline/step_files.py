"""Settled steps of sources that have many: a file for each source and month in the staging folder of a run.

They never meet the steps of other sources in memory. A file holds them in their order, without the source, which it
names, and without their session, which is known when all sources are settled. Then the parts of the table are written
from them.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

# The folder in the staging folder, which is no table.
FOLDER: Final = "@steps"
UNKNOWN: Final = "unknown"

_SUFFIX: Final = ".arrow"


class StepWriter:
    """Takes the settled steps of one source, batch by batch, all with the same columns. Close it when all are there.

    A bundle may be run twice: each try writes files of its own, which count when they are closed.
    """

    def __init__(self, staging: str, source: str) -> None:
        self._folder = os.path.join(staging, FOLDER)
        self._source = source
        self._try = uuid.uuid4().hex
        self._open: dict[str, tuple[str, Any, Any]] = {}

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows, which follow those that were added before."""
        for month, rows in by_month(batch):
            if month not in self._open:
                self._open[month] = self._begun(month, batch.schema)
            self._open[month][2].write_batch(rows)

    def _begun(self, month: str, schema: pa.Schema) -> tuple[str, Any, Any]:
        os.makedirs(self._folder, exist_ok=True)
        name = hashlib.blake2b(self._source.encode(), digest_size=16).hexdigest()
        path = os.path.join(self._folder, f"{name}.{month}.{self._try}")
        sink = pa.OSFile(path, "wb")
        named = schema.with_metadata({"source": self._source})
        return path, sink, pa.ipc.new_file(sink, named)

    def close(self) -> None:
        """Let the files count."""
        for path, sink, writer in self._open.values():
            writer.close()
            sink.close()
            os.replace(path, path + _SUFFIX)
        self._open.clear()


def by_month(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each month, by ``time``."""
    months = batch.column("time").to_numpy(zero_copy_only=False).astype("datetime64[M]")
    ends = months[[0, -1]] if months.size else months
    if months.size and not np.isnat(ends).any() and ends[0] == ends[1] and (months == ends[0]).all():
        yield str(ends[0]), batch
        return
    for month in np.unique(months):
        # An unknown time is equal to nothing, itself included.
        chosen = np.isnat(months) if np.isnat(month) else months == month
        yield UNKNOWN if np.isnat(month) else str(month), batch.filter(pa.array(chosen))


@dataclass(frozen=True)
class StepFile:
    """The steps of one source in one month."""

    path: str
    month: str
    source: str

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Its rows in order, some columns or all that there are; their memory is the file itself."""
        with pa.memory_map(self.path) as file:
            reader = pa.ipc.open_file(file)
            # Not by the fields that a reader can be told to include: for those it copies what it would not need to.
            names = [name for name in reader.schema.names if columns is None or name in columns]
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number).select(names)


def step_files(staging: Path) -> list[StepFile]:
    """The files of a staging folder, by source and month. Of several tries of one the same is taken."""
    tries: dict[tuple[str, str], str] = {}
    for path in sorted((staging / FOLDER).glob(f"*{_SUFFIX}")):
        name, month, _ = path.name.split(".", 2)
        tries.setdefault((name, month), str(path))
    found = []
    for (_, month), place in tries.items():
        with pa.memory_map(place) as file:
            source = pa.ipc.open_file(file).schema.metadata[b"source"].decode()
        found.append(StepFile(place, month, source))
    return sorted(found, key=lambda file: (file.source, file.month))
