"""Sessions, retries and exclusions in Beam: each a shuffle by partition around a pure function."""

from __future__ import annotations

from typing import Any, Final

from aftershock.pipeline.exclusion_rules import ExclusionRules
from aftershock.pipeline.host_work import merge_partition
from aftershock.pipeline.job_work import LINEAGES, build_partition
from aftershock.pipeline.keys import DONE
from aftershock.pipeline.lineage_work import link_partition
from aftershock.pipeline.meeting import GATHERED
from aftershock.pipeline.outputs import typed_outputs
from aftershock.pipeline.quick_beam import beam
from aftershock.pipeline.retries import RetryRules
from aftershock.pipeline.sessions import SessionRules
from aftershock.pipeline.shared_work import SharedWork
from aftershock.pipeline.window import Window

# Rows of a partition of hosts for which it is given to another process. Of fewer the way there and back costs more.
MANY_ROWS: Final = 20_000


class MergeOccurrences(beam.PTransform):  # type: ignore[misc]
    """What hosts said, by host, to events that stand once, with ids and episodes; hosts, GPUs and exclusions.

    partitions: of hosts.
    """

    def __init__(self, burst_gap: int, exclusions: ExclusionRules, partitions: int, window: Window) -> None:
        super().__init__()
        self._rest = burst_gap, exclusions, window
        self._share_from = MANY_ROWS if partitions > 1 else None

    def expand(self, keyed: Any) -> Any:
        """PCollection[Partition] to the outputs ``done`` (batches) and ``gathered`` (Partition: under one key)."""
        merge = beam.ParDo(SharedWork(merge_partition, *self._rest, share_from=self._share_from))
        merged = merge.with_outputs(DONE, GATHERED)
        return typed_outputs(keyed | "GroupHost" >> beam.GroupByKey() | "MergeOccurrence" >> merged, DONE, GATHERED)


class BuildSessions(beam.PTransform):  # type: ignore[misc]
    """Job records by job to sessions and their scheduler events, to what links sessions, and to placements.

    partitions: of lineages. aside: folder for batches that wait for the next step.
    """

    def __init__(
        self, rules: SessionRules, exclusions: ExclusionRules, partitions: int, window: Window, aside: str
    ) -> None:
        super().__init__()
        self._rest = rules, exclusions, partitions, window, aside

    def expand(self, keyed: Any) -> Any:
        """PCollection[Partition] to the outputs ``done`` (batches), ``lineages`` and ``gathered`` (Partition)."""
        build = beam.ParDo(SharedWork(build_partition, *self._rest))
        built = build.with_outputs(DONE, LINEAGES, GATHERED)
        return typed_outputs(
            keyed | "GroupJob" >> beam.GroupByKey() | "BuildSession" >> built, DONE, LINEAGES, GATHERED
        )


class LinkRetries(beam.PTransform):  # type: ignore[misc]
    """Sessions by lineage to retries, chains and the exclusions that follow from them, and to tallies of them."""

    def __init__(self, rules: RetryRules, window: Window) -> None:
        super().__init__()
        self._rules = rules
        self._window = window

    def expand(self, keyed: Any) -> Any:
        """PCollection[Partition] to the outputs ``done`` (batches) and ``gathered`` (Partition: under one key)."""
        link = beam.ParDo(SharedWork(link_partition, self._rules, self._window))
        linked = link.with_outputs(DONE, GATHERED)
        return typed_outputs(keyed | "GroupLineage" >> beam.GroupByKey() | "LinkRetry" >> linked, DONE, GATHERED)
