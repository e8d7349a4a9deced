"""The few rows of a partition that have to meet those of the whole cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from aftershock.pipeline.keys import Partition, partition_of, partitioned
from aftershock.schemas.columns import Row

# The output of a step with rows that have to meet.
GATHERED: Final = "gathered"

# What placements and complements are made of; the other columns of a session stay behind.
_OF_PLACEMENT: Final = frozenset(
    {
        "session_id",
        "cluster",
        "scheduler",
        "user",
        "partition",
        "hosts",
        "submit_time",
        "start_time",
        "end_time",
        "designated_hosts",
        "time_basis",
    }
)


def together(rows: Iterable[Row]) -> Iterator[Partition]:
    """Rows under the one key where all meet."""
    return partitioned(rows, lambda row: "", 1)


def placements_in(batch: pa.RecordBatch) -> Partition | None:
    """The sessions of a batch that ran on several hosts, or named those that they might have."""
    several = pc.greater(pc.list_value_length(batch.column("hosts")), 1)
    named = pc.greater(pc.list_value_length(batch.column("designated_hosts")), 0)
    found = batch.filter(pc.or_kleene(pc.fill_null(several, False), pc.fill_null(named, False)))
    if not found.num_rows:
        return None
    columns = [
        found.column(name) if name in _OF_PLACEMENT else pa.nulls(found.num_rows, found.schema.field(name).type)
        for name in found.schema.names
    ]
    return partition_of("", 1), pa.RecordBatch.from_arrays(columns, schema=found.schema)
