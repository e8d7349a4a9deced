"""The types of what steps put out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from aftershock.pipeline.keys import DONE, Partition
from aftershock.pipeline.quick_beam import beam


def typed(collection: Any, kind: Any) -> Any:
    """A collection with the type of its elements, by which Beam takes their coder.

    The runs do without Beam's check of types, and with it goes what steps declare: batches would travel as whatever
    pickle makes of them.
    """
    collection.element_type = beam.typehints.native_type_compatibility.convert_to_beam_type(kind)
    return collection


def typed_outputs(outputs: Any, *tags: str) -> Any:
    """The outputs of a step that has several, with their types: rows that are done are batches, others partitions."""
    for tag in tags:
        typed(outputs[tag], pa.RecordBatch if tag == DONE else Partition)
    return outputs
