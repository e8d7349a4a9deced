"""Series and their samples as tables, by columns and piece by piece."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from aftershock.parsers.prometheus.columns import NAME, SeriesBatch
from aftershock.parsers.transit import lean_batch, lean_schema
from aftershock.pipeline.metrics.gathered import Known
from aftershock.pipeline.parts import PartWriter, part_table
from aftershock.pipeline.shards import shards_of
from aftershock.pipeline.training.staged import Staged
from aftershock.schemas.metrics import Series
from aftershock.schemas.tables import TABLES

# Rows of series that are made at once.
_ROWS: Final = 1 << 14


class SamplesWriter:
    """Writes ``samples``, whose parts are months: series in the order of their ids, some at a time."""

    def __init__(self, staged: Staged) -> None:
        self._staged = staged
        self._open: dict[str, tuple[PartWriter, Path]] = {}

    def write(self, series: Sequence[Known], batch: SeriesBatch) -> None:
        """Add samples. ``series``: those of the batch, which come behind those of earlier ones."""
        number = np.repeat(np.arange(len(series), dtype=np.int32), np.diff(batch.begins))
        names = pa.DictionaryArray.from_arrays(pa.array(number), pa.array([one.series_id for one in series]))
        stale = batch.stale()
        values = pa.array(batch.values, mask=stale)
        columns = [names.dictionary_decode(), pa.array(batch.times * 1000), values, pa.array(stale)]
        schema = lean_schema("samples")
        arrays = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
        for (table, shard), rows in shards_of(pa.RecordBatch.from_arrays(arrays, schema=schema)):
            if shard not in self._open:
                self._open[shard] = self._staged.begin_part(table, shard)
            self._open[shard][0].write(part_table(TABLES[table], [rows]))

    def close(self) -> None:
        """Put all parts to their places."""
        for writer, place in self._open.values():
            self._staged.end_part(writer, place)


def write_series(staged: Staged, series: Sequence[Known], cluster: str | None) -> None:
    """Write ``series``."""
    if not series:
        return
    # As rows are ordered: what is missing comes last.
    ordered = sorted(
        series, key=lambda one: (one.metric, one.subject.host is None, one.subject.host or "", one.series_id)
    )
    writer, place = staged.begin_part("series", "all")
    for begin in range(0, len(ordered), _ROWS):
        rows = [
            Series(
                series_id=one.series_id,
                metric=one.metric,
                cluster=cluster,
                host=one.subject.host,
                gpu_uuid=one.subject.gpu_uuid,
                gpu_index=one.subject.gpu_index,
                pci=one.subject.pci,
                labels={name: value for name, value in one.labels if name != NAME},
            )
            for one in ordered[begin : begin + _ROWS]
        ]
        writer.write(part_table(TABLES["series"], [lean_batch(rows, "series")]))
    staged.end_part(writer, place)
