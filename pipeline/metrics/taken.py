"""What one reading of all sources gives: each batch goes to whoever needs something of it, and is forgotten."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from aftershock.parsers.formats import Refused
from aftershock.parsers.prometheus.columns import Labels, SeriesBatch
from aftershock.parsers.source import reject_of
from aftershock.pipeline.config import Config
from aftershock.pipeline.metrics.asked import Asked, window_ms
from aftershock.pipeline.metrics.gathered import Gathered, Known
from aftershock.pipeline.metrics.healthy import HealthySlots
from aftershock.pipeline.metrics.identity import Subjects, address_of, named_by
from aftershock.pipeline.metrics.notes import Note
from aftershock.pipeline.metrics.peers import Peers
from aftershock.pipeline.metrics.rules import WindowRules
from aftershock.pipeline.metrics.signal_cells import SignalCells
from aftershock.pipeline.metrics.spans import Spans, joined_spans
from aftershock.pipeline.metrics.spool import Spool
from aftershock.pipeline.metrics.storage_cells import StorageCells
from aftershock.schemas.provenance import Reject

# Where neither the configuration nor anything else says how often is scraped.
_SCRAPE_S: Final = 30.0
# 2000 and 2200, in milliseconds.
_FIRST_MS: Final = 946_684_800_000
_END_MS: Final = 7_258_118_400_000


class Taken:
    """Everything that is kept of samples.

    ill: times in which hosts were not healthy. folder: where samples wait that are too many for memory.
    """

    def __init__(
        self,
        asked: Sequence[Asked],
        subjects: Subjects,
        ill: Mapping[str, Spans],
        config: Config,
        *,
        all_samples: bool,
        folder: Path | None = None,
    ) -> None:
        step_ms = round(1000 * (config.cluster.scrape_interval_s or _SCRAPE_S))
        self.gathered = Gathered(wanted_of(asked, config.windows), everything=all_samples, spool=Spool(folder))
        self.peers = Peers(asked, config.windows)
        self.healthy = HealthySlots(asked, ill, config.windows)
        self.storage = StorageCells(step_ms)
        self.signals = SignalCells(step_ms)
        self.notes: dict[str, Note] = {}
        self.rejects: list[Reject] = []
        self._subjects = subjects
        self._names: dict[str, set[str]] = defaultdict(set)
        self._hosts_at: dict[str, set[str]] = defaultdict(set)

    def take(
        self, source: str, name: str, items: Iterable[SeriesBatch | Refused], *, windows: bool, all_time: bool
    ) -> None:
        """Read a source. ``windows``, ``all_time``: for which of the two it is read."""
        note = self.notes.setdefault(source, Note())
        impossible = 0
        for read in items:
            if isinstance(read, Refused):
                self.rejects.append(reject_of(source, name, read))
                continue
            item, left_out = possible(read)
            impossible += left_out
            known = [
                self._known(labels, int(item.times[item.begins[at]]) if item.begins[at] < len(item.times) else 0)
                for at, labels in enumerate(item.labels)
            ]
            if windows:
                note.take(item, known)
                self.gathered.add(item, known, source)
                self.healthy.add(item, known, source)
                self.peers.take(item, known)
            if all_time:
                self.storage.take(item, known)
                self.signals.take(item, known)
        note.settle()
        if impossible and windows:
            reason = f"{name}: {impossible} samples of times that cannot be (before 2000 or after 2200) are left out"
            self.rejects.append(reject_of(source, name, Refused(0, 0, f"{reason}: seconds for milliseconds?")))

    def _known(self, labels: Labels, time: int) -> Known:
        is_new = labels not in self.gathered.of_labels
        known = self.gathered.known(labels, self._subjects, time)
        if is_new:
            by_name = dict(labels)
            named = named_by(by_name)
            if named is not None:
                self._names[named[0]].add(named[1])
            if not known.subject.matched and (address := address_of(by_name)):
                self._hosts_at[address].add(known.subject.host or "")
        return known

    def renamed(self) -> dict[str, str]:
        """Hosts of addresses as the samples name them, if series were taken for those of another or of none.

        Who asks at an address may stand between: an address with two names has none.
        """
        one_name = {address: min(names) for address, names in self._names.items() if len(names) == 1}
        other = any(self._hosts_at[address] - {self._subjects.host_of(name)} for address, name in one_name.items())
        return one_name if other else {}


def possible(batch: SeriesBatch) -> tuple[SeriesBatch, int]:
    """The samples whose times can be, and how many others there are: a clock that is wrong by years says nothing."""
    times = batch.times
    if not len(times) or (int(times.min()) >= _FIRST_MS and int(times.max()) < _END_MS):
        return batch, 0
    keep = (times >= _FIRST_MS) & (times < _END_MS)
    begins = np.concatenate((np.zeros(1, np.int64), np.cumsum(keep, dtype=np.int64)))[batch.begins]
    kept = SeriesBatch(batch.labels, begins, times[keep], batch.values[keep], batch.resampled)
    return kept, len(times) - len(kept.times)


def wanted_of(asked: Sequence[Asked], rules: WindowRules) -> dict[str, Spans]:
    """The spans that are needed of each host, merged."""
    by_host: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for one in asked:
        begin, _, _, end = window_ms(one, rules)
        by_host[one.host].append((begin, end))
    return {host: joined_spans(spans) for host, spans in by_host.items()}
