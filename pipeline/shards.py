"""Rows of a table by the part that they go to: one for each month."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from aftershock.parsers.transit import table_name
from aftershock.schemas.columns import TIMESTAMP
from aftershock.schemas.tables import TABLES

# In the metadata of a batch that is cut already.
_SHARD: Final = b"shard"

Sharded = tuple[tuple[str, str], pa.RecordBatch]


def shards_of(batch: pa.RecordBatch) -> Iterator[Sharded]:
    """A batch cut by the month of its rows: ((table, shard), rows)."""
    if (named := (batch.schema.metadata or {}).get(_SHARD)) is not None:
        yield (table_name(batch), named.decode()), batch
        return
    table = TABLES[table_name(batch)]
    column = next((name for name in table.order if table.schema.field(name).type == TIMESTAMP), None)
    if column is None:
        yield (table.name, "all"), batch
        return
    months = batch.column(column).to_numpy(zero_copy_only=False).astype("datetime64[M]")
    for month in np.unique(months):
        # An unknown time is equal to nothing, itself included.
        chosen = np.isnat(months) if np.isnat(month) else months == month
        name = "unknown" if np.isnat(month) else str(month)
        yield (table.name, name), batch if chosen.all() else batch.filter(pa.array(chosen))


def as_shards(batches: Iterable[pa.RecordBatch]) -> Iterator[Sharded]:
    """Batches cut by month that say so themselves, to wait for the others of their month."""
    for batch in batches:
        for (table, shard), rows in shards_of(batch):
            metadata = {**(rows.schema.metadata or {}), _SHARD: shard}
            yield (table, shard), rows.replace_schema_metadata(metadata)
