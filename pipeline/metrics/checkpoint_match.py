"""Checkpoints that logs tell of and those that the storage saw: which are the same, and the numbers of all of them.

A log says which step was saved, when and by whom; the storage how fast and how well. An interval that no log tells of
is a row of its own, of the session whose hosts moved most of it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Final

from aftershock.pipeline.attempts import ASSUMED
from aftershock.pipeline.metrics.checkpoint_io import ClusterIO, Moved, checkpoint_of
from aftershock.pipeline.metrics.storage_cells import LOAD, SAVE
from aftershock.pipeline.metrics.storage_rules import StorageConfig
from aftershock.schemas.incidents import Finding
from aftershock.schemas.sessions import Session
from aftershock.schemas.training import Checkpoint

_US_PER_MS: Final = 1000
# A session moved an interval if its hosts moved more than this share of the bytes.
_MOST: Final = 0.5
# What a log prints may be this late: buffers are flushed after the call that writes.
_SLACK_MS: Final = 60_000


def joined(logged: Sequence[Checkpoint], cluster: ClusterIO, sessions: Sequence[Session]) -> list[Checkpoint]:
    """Tell the rows of logs what the storage did. Returns rows of intervals that no log tells of."""
    moved = cluster.intervals()
    owners = [_owner(one, sessions) for one in moved]
    seen: set[int] = set()
    for row in logged:
        if row.start_time is None or row.time_basis == ASSUMED or row.kind not in (SAVE, LOAD):
            continue
        matches = [at for at, one in enumerate(moved) if _same(row, one, owners[at], cluster.step_ms)]
        for at in matches:
            seen.add(at)
            row.session_id = row.session_id or owners[at]
        if matches:
            row.origin = "both"
        if row.end_time is not None:
            cluster.fill(row, row.kind, row.start_time // _US_PER_MS, row.end_time // _US_PER_MS + 1)
        elif matches:
            cluster.fill(row, row.kind, moved[matches[0]].begin, moved[matches[-1]].end)
    return [checkpoint_of(one, cluster, owners[at]) for at, one in enumerate(moved) if at not in seen]


def _same(row: Checkpoint, one: Moved, owner: str | None, step_ms: int) -> bool:
    if row.kind != one.kind or (row.session_id and owner and row.session_id != owner):
        return False
    slack = round(1000 * (row.time_error_s or 0.0)) + step_ms + (_SLACK_MS if row.end_time is None else 0)
    begin = (row.start_time or 0) // _US_PER_MS
    end = begin if row.end_time is None else row.end_time // _US_PER_MS
    return begin - slack < one.end and one.begin < end + slack


def _owner(one: Moved, sessions: Iterable[Session]) -> str | None:
    """The session whose hosts moved most of the bytes of an interval."""
    total = sum(one.bytes.values())
    for session in sessions:
        begin, end = session.start_time, session.end_time
        if begin is None or begin > one.end * _US_PER_MS or (end is not None and end < one.begin * _US_PER_MS):
            continue
        if sum(one.bytes.get(host, 0.0) for host in session.hosts or ()) > _MOST * total:
            return session.session_id
    return None


def findings_of(rows: Sequence[Checkpoint], cluster: ClusterIO, rules: StorageConfig) -> Iterator[Finding]:
    """How many checkpoints there were, and what they asked of the storage; each also by host."""
    parameters = json.dumps({**asdict(rules), "step_s": cluster.step_ms / 1000}, sort_keys=True)
    counts: dict[str, int] = defaultdict(int)
    for row in rows:
        for subject in ("all", row.kind, row.origin):
            counts[subject or "unknown"] += 1
    for subject, number in sorted(counts.items()):
        yield Finding(
            finding="checkpoint_events", subject=subject, value=float(number), unit="events", parameters=parameters
        )
    for kind in (SAVE, LOAD):
        own = [row for row in rows if row.kind == kind and row.peak_bytes_per_s is not None]
        if not own:
            continue
        for found in (*_rates(kind, own, cluster), *_waits(kind, own), *_hosts(kind, own, cluster)):
            found.window_start = min(row.start_time or 0 for row in own)
            found.window_end = max(row.end_time or row.start_time or 0 for row in own)
            found.exposure = float(len(own))
            found.parameters = parameters
            found.note = "; ".join(filter(None, (found.note, "exposure: checkpoints")))
            yield found


def _rates(kind: str, rows: Sequence[Checkpoint], cluster: ClusterIO) -> Iterator[Finding]:
    ceiling = cluster.ceiling(kind)
    peak = max(row.peak_bytes_per_s or 0.0 for row in rows)
    mean = sum(row.mean_bytes_per_s or 0.0 for row in rows) / len(rows)
    told = (("peak", peak, "the highest of all"), ("mean", mean, "mean over checkpoints of their means"))
    for name, rate, note in told:
        yield Finding(
            finding=f"checkpoint_{name}_utilisation",
            subject=kind,
            value=rate / ceiling if ceiling else None,
            unit="byte/s",
            numerator=rate,
            denominator=ceiling,
            note=note if ceiling else f"{note}; [storage] does not say what the storage can give",
        )


def _waits(kind: str, rows: Sequence[Checkpoint]) -> Iterator[Finding]:
    for name, unit, column in (
        ("checkpoint_rpc_queue_share", "share", "rpc_queue_share"),
        ("checkpoint_rpc_backlog_mean", "requests", "rpc_backlog_mean"),
    ):
        known = [getattr(row, column) for row in rows if getattr(row, column) is not None]
        if known:
            yield Finding(
                finding=name,
                subject=kind,
                value=sum(known) / len(known),
                unit=unit,
                denominator=float(len(known)),
                note="mean over checkpoints",
            )


def _hosts(kind: str, rows: Sequence[Checkpoint], cluster: ClusterIO) -> Iterator[Finding]:
    spans = [
        ((row.start_time or 0) // _US_PER_MS, (row.end_time or row.start_time or 0) // _US_PER_MS + 1) for row in rows
    ]
    for host, rate in sorted(cluster.peaks(kind, spans).items()):
        yield Finding(finding="checkpoint_host_peak_bytes_per_s", subject=f"{kind} {host}", value=rate, unit="byte/s")
