"""Rows about training progress: the steps that a run printed and the checkpoints that it saved and loaded."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import pyarrow as pa

from aftershock.schemas.columns import Col, Row, seconds_col, time_col
from aftershock.schemas.events import TIME_BASES

INT32 = pa.int32()

CHECKPOINT_KINDS = ("save", "load")
CHECKPOINT_ORIGINS = ("log", "metrics", "both")


@dataclass(slots=True, kw_only=True)
class TrainingStep(Row):
    """One printed step of a training run; many ranks that print the same step are one row with `copies`."""

    table: ClassVar[str] = "training_steps"
    # A record of many steps has one offset, so the step is part of the key. Rows stay in the order of the
    # file: this table is written where it is parsed and never sorted as a whole.
    key: ClassVar[tuple[str, ...]] = ("source", "byte_offset", "step")
    order: ClassVar[tuple[str, ...]] = ("source", "byte_offset", "step")

    session_id: Annotated[str | None, Col("Session that it belongs to.", holds="id")] = None
    time: Annotated[int | None, time_col("When the step was reported; null where it cannot be known.")] = None
    time_basis: Annotated[str | None, Col("How `time` is known.", values=TIME_BASES)] = None
    time_error_s: Annotated[float | None, seconds_col("How wrong `time` can be, either way.")] = None
    rank: Annotated[int | None, Col("Global rank that printed it first.", arrow=INT32)] = None
    local_rank: Annotated[int | None, Col("Rank within its host that printed it first.", arrow=INT32)] = None
    step: Annotated[int | None, Col("Training step.")] = None
    total_steps: Annotated[int | None, Col("Steps that the run means to do.")] = None
    loss: Annotated[float | None, Col("Training loss; null when the log has none, never 0 instead.")] = None
    grad_norm: Annotated[float | None, Col("Norm of the gradient.")] = None
    learning_rate: Annotated[float | None, Col("Learning rate.")] = None
    step_time_s: Annotated[float | None, seconds_col("Time of one step.")] = None
    tflops_per_gpu: Annotated[float | None, Col("Throughput of one GPU as printed.", unit="TFLOP/s")] = None
    samples: Annotated[int | None, Col("Samples consumed since the beginning of the run.")] = None
    tokens: Annotated[int | None, Col("Tokens consumed since the beginning of the run.")] = None
    skipped: Annotated[int | None, Col("Skipped iterations that the line counts.")] = None
    nan: Annotated[int | None, Col("Iterations with NaN that the line counts.")] = None
    copies: Annotated[int | None, Col("Printed lines that this row stands for.", arrow=INT32)] = None
    source: Annotated[
        str | None, Col("File of the line: the path as given, joined with the path below it.", holds="path")
    ] = None
    byte_offset: Annotated[int | None, Col("Where the line starts in the decompressed file.", unit="byte")] = None


@dataclass(slots=True, kw_only=True)
class Checkpoint(Row):
    """One save or load of a checkpoint, from the training log, from storage metrics, or from both."""

    table: ClassVar[str] = "checkpoints"
    key: ClassVar[tuple[str, ...]] = ("session_id", "kind", "step", "path", "start_time", "source", "byte_offset")
    order: ClassVar[tuple[str, ...]] = ("start_time", "source", "byte_offset", "kind", "step", "path", "session_id")

    session_id: Annotated[str | None, Col("Session that it belongs to.", holds="id")] = None
    kind: Annotated[str | None, Col("Direction.", values=CHECKPOINT_KINDS)] = None
    step: Annotated[int | None, Col("Training step that was saved or loaded.")] = None
    path: Annotated[str | None, Col("File or folder of the checkpoint.", holds="path")] = None
    start_time: Annotated[int | None, time_col("When it began.")] = None
    scheduled_time: Annotated[int | None, time_col("When it was due.")] = None
    end_time: Annotated[int | None, time_col("When it ended; null if no end was seen.")] = None
    duration_s: Annotated[float | None, seconds_col("From begin to end.")] = None
    time_basis: Annotated[
        str | None, Col("How the times are known; the least certain of them counts.", values=TIME_BASES)
    ] = None
    time_error_s: Annotated[float | None, seconds_col("How wrong the times can be, either way.")] = None
    bytes: Annotated[int | None, Col("Bytes that were moved.", unit="byte")] = None
    origin: Annotated[str | None, Col("What it is known from.", values=CHECKPOINT_ORIGINS)] = None
    complete: Annotated[bool | None, Col("Whether it came to its end.")] = None
    mean_bytes_per_s: Annotated[float | None, Col("Mean throughput of the storage.", unit="byte/s")] = None
    peak_bytes_per_s: Annotated[float | None, Col("Highest throughput of the storage.", unit="byte/s")] = None
    ceiling_bytes_per_s: Annotated[
        float | None, Col("Throughput that the storage can give in this direction.", unit="byte/s")
    ] = None
    utilisation: Annotated[float | None, Col("Peak divided by ceiling, 0 to 1.")] = None
    rpc_queue_share: Annotated[
        float | None, Col("Share of the time of storage requests spent in the queue, 0 to 1.")
    ] = None
    rpc_backlog_mean: Annotated[float | None, Col("Mean number of storage requests that waited.")] = None
    retransmissions: Annotated[int | None, Col("Storage requests that were sent again.")] = None
    source: Annotated[
        str | None, Col("File of its first line: the path as given, joined with the path below it.", holds="path")
    ] = None
    byte_offset: Annotated[int | None, Col("Where its first line starts in the decompressed file.", unit="byte")] = None
