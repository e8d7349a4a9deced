"""The sessions of the users of a partition, as far as they may be retries of each other. No Beam here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from aftershock.parsers.transit import table_name
from aftershock.pipeline.keys import DONE
from aftershock.pipeline.linkable import may_link
from aftershock.pipeline.links import History
from aftershock.pipeline.meeting import GATHERED, together
from aftershock.pipeline.retries import RetryRules, link
from aftershock.pipeline.sensitivity import tallies
from aftershock.pipeline.waiting import opened
from aftershock.pipeline.window import Window
from aftershock.pipeline.work import Tagged, finished, rows_in
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.sessions import Session


def link_partition(keyed: tuple[int, Iterable[pa.RecordBatch]], rules: RetryRules, window: Window) -> Iterator[Tagged]:
    """Retries, chains and the exclusions that follow from them, and tallies of them."""
    batches = [opened(batch) for batch in keyed[1]]
    told = [batch for batch in batches if table_name(batch) == SchedulerEvent.table]
    requeues = [row for row in rows_in(told) if isinstance(row, SchedulerEvent)]
    some = may_link([batch for batch in batches if table_name(batch) == Session.table], requeues, rules)
    sessions = [row for row in rows_in(some.batches) if isinstance(row, Session)]
    history = History(sessions, requeues, rules, some.names)
    linked = link(history)
    for batch in finished([*window.retries(linked.retries, sessions), *window.kept(linked.chains)]):
        yield Tagged(DONE, batch)
    counted = tallies(history, some.placed, some.first, some.last)
    for part in together([*linked.exclusions, *counted]):
        yield Tagged(GATHERED, part)
