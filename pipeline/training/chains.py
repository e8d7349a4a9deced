"""Retries and chains once more, when logs have told of restarts, or of how far a session came.

The links between the scheduler's own sessions are made as in the main job; restarts that only logs know are added to
them, so that all numbers about retries stay those of all retries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from aftershock.parsers.transit import lean_batch, rows_of
from aftershock.pipeline.linkable import linking_columns, may_link
from aftershock.pipeline.links import History, Link, is_placed
from aftershock.pipeline.retries import Linked, link
from aftershock.pipeline.retry_rules import RetryRules
from aftershock.pipeline.sensitivity import findings_of, tallies
from aftershock.pipeline.training.staged import Staged
from aftershock.pipeline.window import Window
from aftershock.schemas.columns import Row
from aftershock.schemas.incidents import Finding
from aftershock.schemas.sessions import Chain, Retry, Session

_REQUEUED: Final = pa.array(["requeued"])


def relink(staged: Staged, own: Sequence[Session], restarts: Sequence[Link], rules: RetryRules, window: Window) -> None:
    """Write retries, chains and their numbers anew. ``own``: the sessions that only logs know, not yet staged.

    With a period that was asked for, sessions outside it are not at hand any more: then only what the logs add is
    written.
    """
    if not window.is_all:
        _add_restarts(staged, own, restarts, rules, window)
        return
    batches = [linking_columns(batch) for batch in staged.batches(Session.table)]
    told = [batch.filter(pc.is_in(batch.column("kind"), value_set=_REQUEUED)) for batch in staged.batches(_EVENTS)]
    requeues: list[Any] = [row for batch in told for row in rows_of(batch)]
    some = may_link(batches, requeues, rules)
    sessions: list[Any] = [row for batch in some.batches for row in rows_of(batch)]
    history = History([*sessions, *own], requeues, rules, some.names)
    history.restarts = list(restarts)
    linked = link(history)
    _rebuild(staged, Retry.table, linked.retries)
    _rebuild(staged, Chain.table, linked.chains)
    starts = [s.start_time for s in own if s.start_time is not None]
    ends = [s.end_time for s in own if s.end_time is not None]
    first = min([*starts, *([] if some.first is None else [some.first])], default=None)
    last = max([*starts, *ends, *([] if some.last is None else [some.last])], default=None)
    placed = some.placed + sum(map(is_placed, own))
    _renew_findings(staged, findings_of(tallies(history, placed, first, last), rules))


_EVENTS: Final = "scheduler_events"


def _rebuild(staged: Staged, table: str, rows: Sequence[Row]) -> None:
    staged.rebuild(table, [lean_batch(rows, table)] if rows else [])


def _renew_findings(staged: Staged, renewed: Iterable[Finding]) -> None:
    rows = list(renewed)
    names = pa.array(sorted({row.finding for row in rows if row.finding}))
    kept = [b.filter(pc.invert(pc.is_in(b.column("finding"), value_set=names))) for b in staged.batches(Finding.table)]
    staged.rebuild(Finding.table, [*kept, lean_batch(rows, Finding.table)])


def _add_restarts(
    staged: Staged, own: Sequence[Session], restarts: Sequence[Link], rules: RetryRules, window: Window
) -> None:
    history = History(own, [], rules)
    history.restarts = list(restarts)
    linked: Linked = link(history)
    retries, chains = window.retries(linked.retries, own), window.kept(linked.chains)
    if retries:
        staged.append(Retry.table, lean_batch(retries, Retry.table))
    if chains:
        staged.append(Chain.table, lean_batch(chains, Chain.table))
