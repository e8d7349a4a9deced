"""Writing: rows of a table into its parts, under a staging folder that only a finished run turns into a result.

A part holds one month of one table (by its first time column), so that parts and the order of rows in them come from
table, time and source alone. Beam may run a bundle twice: each try writes a file of its own, and one is taken.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import uuid
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from aftershock.pipeline.outputs import typed
from aftershock.pipeline.parts import write_part, write_shard
from aftershock.pipeline.prepare import MANIFEST
from aftershock.pipeline.quick_beam import beam
from aftershock.pipeline.shards import Sharded, shards_of
from aftershock.pipeline.shared_work import SharedWork
from aftershock.schemas.columns import Table
from aftershock.schemas.tables import TABLES

FORMATS: Final = ("parquet", "arrow")

# The folder in the staging folder with a part without rows for each table.
_EMPTY: Final = "@empty"


class WriteTables(beam.PTransform):  # type: ignore[misc]
    """Finished batches of all tables to parts under ``staging``."""

    def __init__(self, staging: str, table_format: str) -> None:
        super().__init__()
        self._staging = staging
        self._format = table_format

    def expand(self, batches: Any) -> Any:
        """PCollection[RecordBatch] to the paths of the parts."""
        cut = typed(batches | "CutByMonth" >> beam.FlatMap(shards_of).with_output_types(Sharded), Sharded)
        return (
            cut
            | "GroupPart" >> beam.GroupByKey()
            | "WritePart" >> beam.ParDo(SharedWork(write_shard, self._staging, self._format))
        )


def write_empty_parts(staging: Path, table_format: str) -> None:
    """A part without rows for each table, while others work: most runs have no rows of most tables."""
    for table in TABLES.values():
        write_part(table.written_schema.empty_table(), str(staging / _EMPTY / table.name), table_format)


def commit(staging: Path, out: Path, table_format: str, manifest: Mapping[str, Any]) -> dict[str, int]:
    """Turn a staging folder into the result: one file for each part, every table complete, the manifest last.

    Until the old manifest is removed the old result stands; from then on there is none until the new manifest is
    there. Returns the number of rows of each table.
    """
    ready = staging / "ready"
    rows = {name: _arrange(table, staging, ready, table_format) for name, table in TABLES.items()}
    text = json.dumps({**manifest, "rows": rows}, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
    encoded = text.encode("utf-8")
    places = [out / f"{name}.{suffix}" for name in TABLES for suffix in FORMATS]
    in_the_way = next((place for place in places if place.exists() and not place.is_dir()), None)
    if in_the_way:
        raise FileExistsError(f"{in_the_way} is in the way of a table: remove it")
    # Nothing below can fail for what is in the data; the old result ends here.
    (out / MANIFEST).unlink(missing_ok=True)
    for name in TABLES:
        for suffix in FORMATS:
            shutil.rmtree(out / f"{name}.{suffix}", ignore_errors=True)
        os.rename(ready / f"{name}.{table_format}", out / f"{name}.{table_format}")
    _write_durably(out / MANIFEST, encoded)
    shutil.rmtree(staging, ignore_errors=True)
    return rows


def _arrange(table: Table, staging: Path, ready: Path, table_format: str) -> int:
    """Move one file of each part of a table to its place; a table without rows gets the part without any."""
    folder = ready / f"{table.name}.{table_format}"
    folder.mkdir(parents=True)
    parts: dict[str, list[Path]] = defaultdict(list)
    for path in (staging / table.name).glob("*"):
        parts[path.name.split(".")[0]].append(path)
    if not parts:
        os.rename(staging / _EMPTY / table.name, folder / f"part-all.{table_format}")
    rows = 0
    for shard, tries in parts.items():
        target = folder / f"part-{shard}.{table_format}"
        os.rename(min(tries), target)
        rows += _row_count(target, table_format)
    return rows


def _row_count(path: Path, table_format: str) -> int:
    if table_format == "parquet":
        return int(pq.read_metadata(path).num_rows)
    with pa.OSFile(str(path), "rb") as file:
        reader = pa.ipc.open_file(file)
        return sum(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))


def _write_durably(path: Path, content: bytes) -> None:
    """A file is either the old one or the new one, also after a power cut."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def now_text() -> str:
    """The present in UTC, for the manifest."""
    return dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
