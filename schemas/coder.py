"""The coder with which Beam carries Arrow batches between steps. Importing this module registers it.

Without it Beam pickles a batch, and a pickled slice takes its whole parent along. Beam finds the coder by the
type hint of a step, so a step that yields batches behind a key must say so: ``tuple[str, pa.RecordBatch]``.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pyarrow as pa

from aftershock.schemas.batches import decode_batch, encode_batch


class RecordBatchCoder(beam.coders.Coder):  # type: ignore[misc]  # beam has no types here
    """Arrow IPC with the schema in each element, so that batches of several tables may share a collection."""

    def encode(self, value: pa.RecordBatch) -> bytes:
        """The batch as bytes; a slice as the slice only."""
        return encode_batch(value)

    def decode(self, encoded: bytes) -> pa.RecordBatch:
        """The batch, as views of the bytes."""
        return decode_batch(encoded)

    def is_deterministic(self) -> bool:
        """The same batch always has the same bytes: there is no pickle, hash order or address in them."""
        return True

    def estimate_size(self, value: pa.RecordBatch) -> int:
        """Bytes that the batch takes, counted without encoding it."""
        return int(value.nbytes)

    def to_type_hint(self) -> Any:
        """The type that this coder is registered for."""
        return pa.RecordBatch

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


beam.coders.registry.register_coder(pa.RecordBatch, RecordBatchCoder)
