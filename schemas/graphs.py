"""Rows of the one graph: what has an identity is a node, what connects two of them is an edge."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from aftershock.schemas.columns import Col, Row, time_col

NODE_KINDS = ("session", "chain", "host", "gpu", "event", "incident", "exclusion")
EDGE_KINDS = ("ran_on", "retried_as", "excluded", "hit", "caused_by", "part_of")


@dataclass(slots=True, kw_only=True)
class GraphNode(Row):
    """A session, chain, host, GPU, event, incident or exclusion."""

    table: ClassVar[str] = "graph_nodes"
    key: ClassVar[tuple[str, ...]] = ("node_id",)
    order: ClassVar[tuple[str, ...]] = ("kind", "start_time", "node_id")

    node_id: Annotated[str | None, Col("Id of the row that the node stands for.", holds="id")] = None
    kind: Annotated[str | None, Col("What it is.", values=NODE_KINDS)] = None
    label: Annotated[str | None, Col("Short text for a reader.", holds="text")] = None
    start_time: Annotated[int | None, time_col("When it began or happened.")] = None
    end_time: Annotated[int | None, time_col("When it ended.")] = None


@dataclass(slots=True, kw_only=True)
class GraphEdge(Row):
    """How one node stands to another."""

    table: ClassVar[str] = "graph_edges"
    # A host can be hit or left out by the same node more than once, so the time is part of the key.
    key: ClassVar[tuple[str, ...]] = ("src", "dst", "kind", "time")
    order: ClassVar[tuple[str, ...]] = ("src", "dst", "kind", "time")

    src: Annotated[str | None, Col("Node that the edge leaves.", holds="id")] = None
    dst: Annotated[str | None, Col("Node that the edge enters.", holds="id")] = None
    kind: Annotated[str | None, Col("How `src` stands to `dst`.", values=EDGE_KINDS)] = None
    time: Annotated[int | None, time_col("When it began to hold or happened.")] = None
    weight: Annotated[float | None, Col("How strong or how sure it is; more is stronger.")] = None
    evidence: Annotated[list[str] | None, Col("Ids of the rows that show it.", holds="id")] = None
