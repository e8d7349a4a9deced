"""What all sources said of the hosts of a partition, brought together. No Beam here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from aftershock.pipeline.episodes import EpisodeRules, link_episodes
from aftershock.pipeline.exclusion_evidence import is_fault, looks_at
from aftershock.pipeline.exclusion_rules import ExclusionRules
from aftershock.pipeline.exclusions import find_exclusions, soft_exclusions
from aftershock.pipeline.host_table import merge_hosts
from aftershock.pipeline.identity import identify, merge_gpus
from aftershock.pipeline.keys import DONE
from aftershock.pipeline.meeting import GATHERED, together
from aftershock.pipeline.occurrences import check_names, give_ids, merge_occurrences
from aftershock.pipeline.window import Window
from aftershock.pipeline.work import Tagged, finished, rows_in
from aftershock.schemas.changes import Change
from aftershock.schemas.events import EventRow, GpuError, HealthCheck, NodeEvent, SchedulerEvent
from aftershock.schemas.topology import Gpu, Host


def merge_partition(
    keyed: tuple[int, Iterable[pa.RecordBatch]], burst_gap: int, rules: ExclusionRules, window: Window
) -> Iterator[Tagged]:
    """Events that stand once, with ids and episodes; hosts, GPUs and exclusions."""
    rows = rows_in(keyed[1])
    events: list[EventRow] = [row for row in rows if isinstance(row, EventRow)]
    check_names(events)
    merged = merge_occurrences(events, burst_gap)
    said = [row for row in merged if isinstance(row, NodeEvent)]
    gpus = merge_gpus([row for row in rows if isinstance(row, Gpu)], said)
    hosts = merge_hosts([row for row in rows if isinstance(row, Host)], said)
    identify([row for row in merged if isinstance(row, (GpuError, HealthCheck))], gpus)
    give_ids(merged)
    link_episodes(merged, EpisodeRules(burst_gap=burst_gap))
    told = [row for row in merged if isinstance(row, SchedulerEvent)]
    exclusions = [*find_exclusions(told, rules), *soft_exclusions(told, rules)]
    others = [row for row in merged if not isinstance(row, GpuError)]
    for batch in finished([*window.kept(others), *gpus, *hosts]):
        yield Tagged(DONE, batch)
    errors = [row for row in merged if isinstance(row, GpuError)]
    faults = [row for row in said if is_fault(row)]
    changes = [row for row in rows if isinstance(row, Change)]
    for part in together([*errors, *faults, *exclusions, *hosts, *looks_at(merged), *changes]):
        yield Tagged(GATHERED, part)
