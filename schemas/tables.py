"""The list of tables, in the order in which they are documented."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from aftershock.schemas.changes import Change
from aftershock.schemas.columns import Row, Table, table_of
from aftershock.schemas.events import GpuError, HealthCheck, NodeEvent, SchedulerEvent, TrainingEvent
from aftershock.schemas.graphs import GraphEdge, GraphNode
from aftershock.schemas.incidents import Finding, Incident
from aftershock.schemas.metrics import Alarm, Evidence, Sample, Series
from aftershock.schemas.provenance import Reject, Source
from aftershock.schemas.sessions import Chain, Exclusion, Retry, Session
from aftershock.schemas.topology import Coverage, Gpu, Host
from aftershock.schemas.training import Checkpoint, TrainingStep

_ROWS: tuple[type[Row], ...] = (
    GpuError,
    NodeEvent,
    HealthCheck,
    SchedulerEvent,
    TrainingEvent,
    TrainingStep,
    Session,
    Retry,
    Chain,
    Exclusion,
    Incident,
    Change,
    Checkpoint,
    Series,
    Sample,
    Evidence,
    Alarm,
    Host,
    Gpu,
    Coverage,
    GraphNode,
    GraphEdge,
    Finding,
    Source,
    Reject,
)

TABLE_OF_ROW: Mapping[type[Row], Table] = MappingProxyType({row: table_of(row) for row in _ROWS})
"""The table that a row class belongs to."""

TABLES: Mapping[str, Table] = MappingProxyType({table.name: table for table in TABLE_OF_ROW.values()})
"""Every table by name."""

if len(TABLES) != len(_ROWS):
    raise TypeError("two row classes have the same table name")
