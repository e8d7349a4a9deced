"""Work on one partition: what it takes and what it puts out, in whatever process it is done. No Beam here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from aftershock.parsers.transit import rows_of
from aftershock.pipeline.keys import partitioned
from aftershock.schemas.batches import decode_batch, encode_batch
from aftershock.schemas.columns import Row

Keyed: TypeAlias = tuple[Any, Iterable[pa.RecordBatch]]
Work: TypeAlias = Callable[..., Iterator[Any]]
"""From a key with its batches, and further arguments, to outputs, some of them tagged. It can be pickled."""

# An output as it comes back from another process: tag, key (none for a batch without one), and the batch as bytes or
# another value.
Sent: TypeAlias = tuple["str | None", tuple[Any, ...], Any]


class Tagged(NamedTuple):
    """An output of a step that has several."""

    tag: str
    value: Any


def finished(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Finished rows as one batch for each table."""
    for _, batch in partitioned(rows, lambda row: "", 1):
        yield batch


def rows_in(batches: Iterable[pa.RecordBatch]) -> list[Any]:
    """The rows of all batches."""
    return [row for batch in batches for row in rows_of(batch)]


def elsewhere(work: Work, key: Any, sent: list[bytes], rest: tuple[Any, ...]) -> list[Sent]:
    """In another process: the same work."""
    return [_as_sent(output) for output in work((key, [decode_batch(batch) for batch in sent]), *rest)]


def received(sent: Sent) -> Any:
    """An output as the work put it out."""
    tag, key, last = sent
    last = decode_batch(last) if isinstance(last, bytes) else last
    value = (*key, last) if key else last
    return value if tag is None else Tagged(tag, value)


def _as_sent(output: Any) -> Sent:
    tag, value = output if isinstance(output, Tagged) else (None, output)
    key, last = (value[:-1], value[-1]) if isinstance(value, tuple) else ((), value)
    return tag, key, encode_batch(last) if isinstance(last, pa.RecordBatch) else last
