"""Series and their samples as tables, by columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from aftershock.parsers.prometheus.columns import NAME, SeriesBatch
from aftershock.parsers.transit import lean_batch, lean_schema
from aftershock.pipeline.metrics.gathered import Known
from aftershock.pipeline.training.staged import Staged
from aftershock.schemas.metrics import Series


def write_series(staged: Staged, series: Sequence[Known], batch: SeriesBatch, cluster: str | None) -> None:
    """Write ``series`` and ``samples``. ``series``: those of the batch, in its order."""
    if not series:
        return
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
        for one in series
    ]
    staged.append("series", lean_batch(rows, "series"))
    number = np.repeat(np.arange(len(series), dtype=np.int32), np.diff(batch.begins))
    names = pa.DictionaryArray.from_arrays(pa.array(number), pa.array([one.series_id for one in series]))
    stale = batch.stale()
    values = pa.array(batch.values, mask=stale)
    columns = [names.dictionary_decode(), pa.array(batch.times * 1000), values, pa.array(stale)]
    schema = lean_schema("samples")
    arrays = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
    staged.append("samples", pa.RecordBatch.from_arrays(arrays, schema=schema))
