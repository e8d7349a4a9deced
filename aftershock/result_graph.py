"""The graph of a result: from the rows of a few tables to networkx."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import networkx as nx

from aftershock.results import Results


def build_graph(results: Results) -> nx.MultiDiGraph:
    """See :func:`aftershock.results.graph`."""
    made = nx.MultiDiGraph()
    _add_sessions(made, results)
    _add_chains(made, results)
    _add_exclusions(made, results)
    for row in _rows(results, "hosts", "host"):
        _host(made, row["host"])
    return made


def _rows(results: Results, table: str, *columns: str) -> Iterator[Mapping[str, Any]]:
    """Rows of a table with these columns only; None for a column that an older result does not have."""
    if table not in results:
        return
    found = results[table]
    there = [name for name in columns if name in found.schema.names]
    missing = dict.fromkeys(columns)
    for batch in found.dataset.to_batches(columns=there):
        for row in batch.to_pylist():
            yield {**missing, **row}


def _host(made: nx.MultiDiGraph, name: str | None) -> str | None:
    """The node of a host, made where it is not there yet."""
    if name is None:
        return None
    node = f"host:{name}"
    if node not in made:
        made.add_node(node, kind="host", label=name, start_time=None, end_time=None)
    return node


def _edge(made: nx.MultiDiGraph, src: str | None, dst: str | None, kind: str, **more: Any) -> None:
    """An edge between two nodes that are there: what a run left out (``--since``) must not come back bare."""
    if src in made and dst in made:
        made.add_edge(src, dst, key=kind, kind=kind, **more)


def _add_sessions(made: nx.MultiDiGraph, results: Results) -> None:
    columns = ("session_id", "job_id", "name", "attempt", "state", "hosts", "start_time", "end_time")
    for row in _rows(results, "sessions", *columns):
        node = f"session:{row['session_id']}"
        label = " ".join(str(part) for part in (row["job_id"], row["name"]) if part is not None)
        if (row["attempt"] or 0) > 1:
            label += f" attempt {row['attempt']}"
        made.add_node(
            node,
            kind="session",
            label=label or row["session_id"],
            start_time=row["start_time"],
            end_time=row["end_time"],
            state=row["state"],
        )
        for name in row["hosts"] or ():
            _edge(made, node, _host(made, name), "ran_on")


def _add_chains(made: nx.MultiDiGraph, results: Results) -> None:
    columns = ("chain_id", "name", "outcome", "n_attempts", "start_time", "end_time")
    for row in _rows(results, "chains", *columns, "first_session_id", "last_session_id"):
        node = f"chain:{row['chain_id']}"
        made.add_node(
            node,
            kind="chain",
            label=row["name"] or row["chain_id"],
            start_time=row["start_time"],
            end_time=row["end_time"],
            outcome=row["outcome"],
            n_attempts=row["n_attempts"],
        )
        for session in (row["first_session_id"], row["last_session_id"]):
            _edge(made, f"session:{session}", node, "part_of")
    retry_columns = ("chain_id", "from_session_id", "to_session_id", "trigger", "mode", "interval_s")
    for row in _rows(results, "retries", *retry_columns):
        src, dst = f"session:{row['from_session_id']}", f"session:{row['to_session_id']}"
        _edge(made, src, dst, "retried_as", trigger=row["trigger"], mode=row["mode"], interval_s=row["interval_s"])
        for session in (src, dst):
            _edge(made, session, f"chain:{row['chain_id']}", "part_of")


def _add_exclusions(made: nx.MultiDiGraph, results: Results) -> None:
    columns = ("exclusion_id", "host", "how", "reason", "session_id", "chain_id", "start_time", "end_time")
    for row in _rows(results, "exclusions", *columns):
        node = f"exclusion:{row['exclusion_id']}"
        label = " ".join(part for part in (row["how"], row["host"]) if part)
        made.add_node(
            node,
            kind="exclusion",
            label=f"{label}: {row['reason']}" if row["reason"] else label,
            start_time=row["start_time"],
            end_time=row["end_time"],
            how=row["how"],
        )
        _edge(made, node, _host(made, row["host"]), "excluded")
        _edge(made, f"session:{row['session_id']}", node, "excluded")
        _edge(made, f"chain:{row['chain_id']}", node, "excluded")
