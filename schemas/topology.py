"""Rows about what there is: hosts, their GPUs, and for which time anybody looked at them."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import pyarrow as pa

from aftershock.schemas.columns import Col, Row, time_col

COVERAGE_KINDS = ("kernel", "scheduler", "training", "metrics", "health")
COVERAGE_STATES = ("present", "silent", "absent")


@dataclass(slots=True, kw_only=True)
class Host(Row):
    """A host as it was for some time; a new driver, kernel, firmware, place or role is a new row."""

    table: ClassVar[str] = "hosts"
    key: ClassVar[tuple[str, ...]] = ("cluster", "host", "valid_from")
    order: ClassVar[tuple[str, ...]] = ("cluster", "host", "valid_from")

    cluster: Annotated[str | None, Col("Cluster name.", holds="cluster")] = None
    host: Annotated[str | None, Col("Host.", holds="host")] = None
    valid_from: Annotated[int | None, time_col("From when the row holds; null if the beginning is unknown.")] = None
    valid_to: Annotated[int | None, time_col("Until when the row holds; null if the end is unknown.")] = None
    driver: Annotated[str | None, Col("Version of the GPU driver.", holds="text")] = None
    kernel: Annotated[str | None, Col("Kernel release.", holds="text")] = None
    firmware: Annotated[str | None, Col("Version of the host's firmware.", holds="text")] = None
    rack: Annotated[str | None, Col("Rack or other place.", holds="text")] = None
    role: Annotated[str | None, Col("What it is for, such as `train` or `spare`.", holds="text")] = None
    partition: Annotated[str | None, Col("Partition, pool or resource group that it serves.", holds="text")] = None


@dataclass(slots=True, kw_only=True)
class Gpu(Row):
    """A GPU in its slot for some time: index, address, UUID and serial as one identity.

    A swapped GPU is a new row.
    """

    table: ClassVar[str] = "gpus"
    key: ClassVar[tuple[str, ...]] = (
        "cluster",
        "host",
        "gpu_index",
        "pci",
        "gpu_uuid",
        "gpu_serial",
        "valid_from",
    )
    order: ClassVar[tuple[str, ...]] = (
        "cluster",
        "host",
        "gpu_index",
        "pci",
        "valid_from",
        "gpu_uuid",
        "gpu_serial",
    )

    cluster: Annotated[str | None, Col("Cluster name.", holds="cluster")] = None
    host: Annotated[str | None, Col("Host that it is in.", holds="host")] = None
    gpu_index: Annotated[int | None, Col("Index as nvidia-smi shows it.", arrow=pa.int32())] = None
    pci: Annotated[str | None, Col("PCI address as `dddd:bb:dd.f`, lower case.", holds="text")] = None
    gpu_uuid: Annotated[str | None, Col("GPU UUID.", holds="serial")] = None
    gpu_serial: Annotated[str | None, Col("Board serial number.", holds="serial")] = None
    model: Annotated[str | None, Col("Product name.", holds="text")] = None
    valid_from: Annotated[int | None, time_col("From when the row holds; null if the beginning is unknown.")] = None
    valid_to: Annotated[int | None, time_col("Until when the row holds; null if the end is unknown.")] = None
    how_known: Annotated[str | None, Col("What the identity was learned from.", holds="fixed")] = None


@dataclass(slots=True, kw_only=True)
class Coverage(Row):
    """When a kind of record of a host is there: no fault seen and nobody looked are different answers."""

    table: ClassVar[str] = "coverage"
    key: ClassVar[tuple[str, ...]] = ("cluster", "host", "kind", "start_time")
    order: ClassVar[tuple[str, ...]] = ("cluster", "host", "kind", "start_time")

    cluster: Annotated[str | None, Col("Cluster name.", holds="cluster")] = None
    host: Annotated[str | None, Col("Host.", holds="host")] = None
    kind: Annotated[str | None, Col("Kind of record.", values=COVERAGE_KINDS)] = None
    start_time: Annotated[int | None, time_col("From when.")] = None
    end_time: Annotated[int | None, time_col("Until when.")] = None
    state: Annotated[
        str | None,
        Col(
            "Whether records are there, a reader was there and nothing was said, or nobody looked.",
            values=COVERAGE_STATES,
        ),
    ] = None
