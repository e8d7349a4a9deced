"""Settling the sessions of a source column by column: what :mod:`aftershock.parsers.settle` does row by row.

A source of accounting has nothing but sessions, of a format whose records stand alone. Then a clock needs no neighbour,
and hosts get their names once for each different name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from aftershock.parsers.clock import SECOND, Reading
from aftershock.parsers.formats import Format, nothing_settled
from aftershock.parsers.resolve import HOUR, SourceClock
from aftershock.parsers.settle import SourceRules
from aftershock.parsers.shifts import zone_shifts
from aftershock.parsers.transit import completed, lean_schema, table_name
from aftershock.schemas.columns import TIMESTAMP
from aftershock.schemas.provenance import Source
from aftershock.schemas.sessions import Session

_TIMES: Final = ("submit_time", "start_time", "end_time")
_HOST_LISTS: Final = ("hosts", "excluded_hosts", "designated_hosts")
# Kinds of clocks that need no neighbour.
_ALONE: Final = frozenset({"local", "epoch", "zoned", "none"})


def are_alone(batches: Iterable[pa.RecordBatch], fmt: Format | None) -> bool:
    """Whether batches on their way hold nothing but sessions that can be settled column by column."""
    if fmt is None or fmt.settle is not nothing_settled:
        return False
    return all(_is_alone(batch, fmt.name) for batch in batches)


def _is_alone(batch: pa.RecordBatch, format_name: str) -> bool:
    if table_name(batch) != Session.table or not batch.num_rows:
        return False
    there = set(batch.schema.names)
    if any(name in there and batch.column(name).null_count < batch.num_rows for name in ("@boot", "@epoch")):
        return False
    kinds, formats = (set(pc.unique(batch.column(name)).to_pylist()) for name in ("@kind", "@format"))
    folded = "@folded" in there and pc.any(batch.column("@folded")).as_py()
    return kinds <= _ALONE and formats == {format_name} and not folded


def settle_sessions(batches: Iterable[pa.RecordBatch], rules: SourceRules, source: Source) -> Iterator[pa.RecordBatch]:
    """Settle batches of which :func:`are_alone` is true, one by one, as :func:`.settle_source` does.

    They are gone through twice.

    ``source``, which has its name and format, is filled in on the way: when the last batch is given it says all that
    there is to say.
    """
    kinds = {kind for batch in batches for kind in pc.unique(batch.column("@kind")).to_pylist()}
    clock = SourceClock([(0, Reading(kind, 0)) for kind in sorted(kinds)], rules.clock)
    source.events = 0
    source.timezone = clock.zone_name if clock.has_local else None
    source.zone_basis = clock.zone_basis if clock.has_local else None
    for batch in batches:
        settled = _settled(batch, clock, rules)
        source.events += settled.num_rows
        for name in ("submit_time", "end_time"):
            ends = pc.min_max(_micros(settled.column(name)))
            known = (source.first_time, source.last_time, ends["min"].as_py(), ends["max"].as_py())
            source.first_time = min((time for time in known if time is not None), default=None)
            source.last_time = max((time for time in known if time is not None), default=None)
        yield settled


def _micros(column: pa.Array) -> pa.Array:
    return column.cast(pa.int64())


def _settled(batch: pa.RecordBatch, clock: SourceClock, rules: SourceRules) -> pa.RecordBatch:
    batch = completed(batch)
    schema = lean_schema(Session.table)
    columns: dict[str, pa.Array] = {name: batch.column(name) for name in schema.names}
    kinds = batch.column("@kind")
    is_local = pc.equal(kinds, "local").to_numpy(zero_copy_only=False)
    lost = pc.equal(kinds, "none").to_numpy(zero_copy_only=False)
    if clock.zone_basis is None:
        lost = lost | is_local
    error = batch.column("@resolution").to_numpy(zero_copy_only=False) / SECOND
    worst = np.full(batch.num_rows, -1.0)
    known = np.zeros(batch.num_rows, np.bool_)
    for name in _TIMES:
        printed = columns[name].cast(pa.int64())
        there = printed.is_valid().to_numpy(zero_copy_only=False)
        wall = printed.fill_null(0).to_numpy(zero_copy_only=False)
        shift, twice = zone_shifts(wall, is_local & there & ~lost, rules.clock)
        known |= there
        worst = np.where(there & ~lost, np.maximum(worst, error + np.where(twice, HOUR / SECOND, 0.0)), worst)
        columns[name] = pa.array(wall - shift, mask=~there | lost).cast(TIMESTAMP)
    basis = pc.if_else(pa.array(is_local), pa.scalar(clock.zone_basis or "none"), kinds)
    columns["time_basis"] = pc.if_else(pa.array(known), basis, "none")
    columns["time_error_s"] = pa.array(worst, mask=worst < 0)
    if rules.cluster:
        columns["cluster"] = pa.repeat(pa.scalar(rules.cluster), batch.num_rows)
    for name in _HOST_LISTS:
        columns[name] = _named(columns[name], rules)
    places = pc.binary_join_element_wise(rules.source, batch.column("@offset").cast(pa.string()), ":")
    columns["sources"] = pa.ListArray.from_arrays(np.arange(batch.num_rows + 1, dtype=np.int32), places)
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _named(lists: pa.Array, rules: SourceRules) -> pa.Array:
    """Host lists with the names of the tables; what is no host name is left out."""
    flat = lists.flatten()
    encoded = flat.dictionary_encode()
    names = [rules.names.of(name) or None for name in encoded.dictionary.to_pylist()]
    named = pa.array(names, pa.string()).take(encoded.indices)
    lengths: npt.NDArray[Any] = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    if named.null_count:
        owner = np.repeat(np.arange(len(lists)), lengths)
        there = named.is_valid().to_numpy(zero_copy_only=False)
        lengths = np.bincount(owner[there], minlength=len(lists))
        named = named.drop_null()
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), named, mask=lists.is_null() if lists.null_count else None)
