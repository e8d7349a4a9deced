"""Keys of the shuffles: small integers, so that a partition holds many hosts or jobs and its batches stay large."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aftershock.parsers.transit import lean_batch
from aftershock.schemas.columns import Row

BYTES_PER_PARTITION: Final = 512 << 20
# Accounting has a record of a job in some hundred bytes, each of which is looked at with others of its partition.
BYTES_PER_JOB_PARTITION: Final = 16 << 20
# Lineages meet in fewer columns, most of them without becoming rows.
BYTES_PER_LINEAGE_PARTITION: Final = 32 << 20
MOST_PARTITIONS: Final = 256

# The output of a step with several outputs that holds finished rows, for the tables.
DONE: Final = "done"

Partition = tuple[int, pa.RecordBatch]
RowT = TypeVar("RowT", bound=Row)


def partitions_for(total_bytes: int, each: int = BYTES_PER_PARTITION) -> int:
    """How many partitions an input of this size is given. It changes no result: rows are ordered when written."""
    return max(1, min(MOST_PARTITIONS, total_bytes // each))


def partition_of(text: str, partitions: int) -> int:
    """The partition of a key, the same in every process."""
    return zlib.crc32(text.encode("utf-8", "backslashreplace")) % partitions


def partitioned(
    rows: Iterable[RowT], key: Callable[[RowT], str], partitions: int, origin: str | None = None
) -> Iterator[Partition]:
    """Rows as one batch for each partition and table. ``origin``: the format that they all come from."""
    groups: dict[tuple[int, str], list[RowT]] = defaultdict(list)
    for row in rows:
        groups[partition_of(key(row), partitions), row.table].append(row)
    for (number, table), members in sorted(groups.items(), key=lambda group: group[0]):
        yield number, lean_batch(members, table, origin)


def partitioned_batches(
    batches: Iterable[pa.RecordBatch],
    keys: Callable[[pa.RecordBatch], pa.Array],
    partitions: int,
    origin: str | None = None,
) -> Iterator[Partition]:
    """The same for rows that are in batches already; ``keys`` gives the key of each row of a batch."""
    for batch in joined(batches, _ROWS_AT_ONCE):
        named = batch.replace_schema_metadata(
            {**(batch.schema.metadata or {}), **({"origin": origin} if origin else {})}
        )
        if partitions == 1:
            yield partition_of("", 1), named
            continue
        words = pc.fill_null(keys(batch), "").dictionary_encode()
        numbers = np.array([partition_of(word, partitions) for word in words.dictionary.to_pylist()], np.int64)
        chosen = numbers[words.indices.to_numpy()]
        ordered = named.take(pa.array(np.argsort(chosen, kind="stable")))
        begin = 0
        for number, count in enumerate(np.bincount(chosen).tolist()):
            if count:
                yield number, ordered.slice(begin, count)
            begin += count


# Rows that are cut into partitions together: of small batches each partition would get a handful.
_ROWS_AT_ONCE: Final = 100_000


def joined(batches: Iterable[pa.RecordBatch], rows: int | None = None) -> Iterator[pa.RecordBatch]:
    """Batches that follow each other as one, as long as they are of one kind and have no more than so many rows."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        if held and not (batch.schema.equals(held[0].schema, check_metadata=True) and (rows is None or count < rows)):
            yield pa.concat_batches(held)
            held, count = [], 0
        held.append(batch)
        count += batch.num_rows
    if held:
        yield pa.concat_batches(held)


def job_keys(batch: pa.RecordBatch) -> pa.Array:
    """What tells the jobs of a batch of sessions apart: the scheduler's own number, else the id that it shows."""
    raw, shown = batch.column("raw_job_id"), batch.column("job_id")
    return pc.fill_null(pc.coalesce(pc.if_else(pc.equal(raw, ""), pa.scalar(None, pa.string()), raw), shown), "")
