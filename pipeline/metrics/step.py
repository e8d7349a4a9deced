"""The step as a whole: events to windows, sources of metrics to samples in them, samples to evidence, all written.

It runs when the tables of a run stand in the staging folder, and only if there are metrics among the inputs. Events are
few: they are known before the first sample is read, and what lies outside every window is dropped where it is read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pyarrow as pa

from aftershock.parsers.formats import Refused
from aftershock.parsers.hosts import HostNames
from aftershock.parsers.prometheus.columns import NAME, SeriesBatch, Wanted
from aftershock.parsers.source import reject_of
from aftershock.parsers.transit import lean_batch, lean_schema, rows_of
from aftershock.pipeline.config import Config
from aftershock.pipeline.metrics.asked import Asked, asked_of, window_ms
from aftershock.pipeline.metrics.cleaning import cleaned, is_counter
from aftershock.pipeline.metrics.evidence import evidence_of
from aftershock.pipeline.metrics.gathered import Gathered, Known
from aftershock.pipeline.metrics.identity import Subjects
from aftershock.pipeline.metrics.peers import Peers
from aftershock.pipeline.metrics.rules import WindowRules
from aftershock.pipeline.metrics.sources import Pair, opened
from aftershock.pipeline.training.staged import Staged
from aftershock.schemas.metrics import Series
from aftershock.schemas.provenance import Reject, Source
from aftershock.schemas.sessions import Session
from aftershock.schemas.topology import Gpu, Host

if TYPE_CHECKING:
    from aftershock.pipeline.metrics.live_step import LiveReading

_EVENTS: Final = ("gpu_errors", "node_events", "scheduler_events", "training_events")


def asked_in(staged: Staged) -> list[Asked]:
    """The events of a run that metrics are asked about."""
    return asked_of(_rows(staged, _EVENTS), cast("Iterator[Session]", _rows(staged, ("sessions",))))


def gpus_in(staged: Staged) -> Iterator[Gpu]:
    """The GPUs that a run knows."""
    return cast("Iterator[Gpu]", _rows(staged, ("gpus",)))


def join_metrics(
    staged: Staged, sources: Sequence[Pair], config: Config, live: LiveReading | None = None, *, all_samples: bool
) -> None:
    """Read the metrics among the inputs of a run, and of a live server, and write what they showed of the events."""
    rules = config.windows
    asked = asked_in(staged)
    hosts = {host.host for host in cast("Iterator[Host]", _rows(staged, ("hosts",))) if host.host}
    hosts |= {*config.cluster.hosts, *(one.host for one in asked), *(peer for one in asked for peer in one.peers)}
    subjects = Subjects(HostNames(config.aliases), hosts, gpus_in(staged))
    wanted = _wanted(asked, rules)
    peers = Peers(asked, rules)
    gathered = Gathered(wanted, everything=all_samples)
    spans = None if all_samples else _merged(wanted)
    rejects: list[Reject] = []
    notes: dict[str, _Note] = {}
    for source, name, items in _readings(sources, Wanted(spans), asked, live):
        note = notes[source] = _Note()
        for item in items:
            if isinstance(item, Refused):
                rejects.append(reject_of(source, name, item))
                continue
            known = [gathered.known(labels, subjects) for labels in item.labels]
            note.take(item, known)
            gathered.add(item, known)
            _add_peers(item, known, peers)
    if live is not None:
        staged.append(
            "sources", lean_batch([Source(source=live.source, format=live.name, note=live.note())], "sources")
        )
    batch = gathered.batch()
    counters = np.array([is_counter(one.metric) for one in gathered.series], bool)
    rows = evidence_of(asked, gathered.series, cleaned(batch, counters), peers, rules)
    _write(staged, gathered.series, batch, config)
    if rows:
        staged.append("evidence", lean_batch(rows, "evidence"))
    if rejects:
        staged.append("rejects", lean_batch(rejects, "rejects"))
    _tell(staged, notes)


def _readings(
    sources: Sequence[Pair], wanted: Wanted, asked: Sequence[Asked], live: LiveReading | None
) -> Iterator[tuple[str, str, Iterator[SeriesBatch | Refused]]]:
    """Everything that gives samples: name, format, items."""
    for file, fmt in sources:
        assert fmt.read_metrics is not None
        yield file.source, fmt.name, fmt.read_metrics(opened(file), wanted)
    if live is not None:
        yield live.source, live.name, live.items(asked)


class _Note:
    """What a source of metrics held, for its row in ``sources``."""

    def __init__(self) -> None:
        self.samples = 0
        self.series: set[str] = set()
        self.unmatched: set[str] = set()
        self.first: int | None = None
        self.last: int | None = None
        self.resampled = False

    def take(self, batch: SeriesBatch, known: Sequence[Known]) -> None:
        self.samples += len(batch.times)
        self.series.update(one.series_id for one in known)
        self.unmatched.update(one.series_id for one in known if one.subject.host is None)
        self.resampled = self.resampled or batch.resampled
        if len(batch.times):
            first, last = int(batch.times.min()), int(batch.times.max())
            self.first = first if self.first is None else min(first, self.first)
            self.last = last if self.last is None else max(last, self.last)

    def text(self) -> str:
        words = [f"{len(self.series)} series read, {len(self.unmatched)} of them of no known host"]
        if self.resampled:
            words.append("resampled by a query: these are not the values that were scraped")
        return "; ".join(words)


def _rows(staged: Staged, tables: Sequence[str]) -> Iterator[Any]:
    for table in tables:
        for batch in staged.batches(table):
            yield from rows_of(batch.replace_schema_metadata({"table": table}))


def _wanted(asked: Sequence[Asked], rules: WindowRules) -> dict[str, tuple[tuple[int, int], ...]]:
    """The spans that are needed of each host, merged."""
    by_host: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for one in asked:
        begin, _, _, end = window_ms(one, rules)
        by_host[one.host].append((begin, end))
    return {host: _joined(spans) for host, spans in by_host.items()}


def _joined(spans: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return tuple(joined)


def _merged(wanted: Mapping[str, Sequence[tuple[int, int]]]) -> tuple[tuple[int, int], ...]:
    return _joined([span for spans in wanted.values() for span in spans])


def _add_peers(batch: SeriesBatch, known: Sequence[Known], peers: Peers) -> None:
    hosts = peers.hosts
    chosen = [at for at, one in enumerate(known) if one.subject.host in hosts]
    if not chosen:
        return
    counters = np.array([is_counter(one.metric) for one in known], bool)
    peers.add(cleaned(batch, counters), known)


def _write(staged: Staged, series: Sequence[Known], batch: SeriesBatch, config: Config) -> None:
    if not series:
        return
    rows = [
        Series(
            series_id=one.series_id,
            metric=one.metric,
            cluster=config.cluster.name,
            host=one.subject.host,
            gpu_uuid=one.subject.gpu_uuid,
            gpu_index=one.subject.gpu_index,
            pci=one.subject.pci,
            labels={name: value for name, value in one.labels if name != NAME},
        )
        for one in series
    ]
    staged.append("series", lean_batch(rows, "series"))
    number = np.repeat(np.arange(len(series), dtype=np.int32), np.diff(batch.begins))
    names = pa.DictionaryArray.from_arrays(pa.array(number), pa.array([one.series_id for one in series]))
    stale = batch.stale()
    values = pa.array(batch.values, mask=stale)
    columns = [names.dictionary_decode(), pa.array(batch.times * 1000), values, pa.array(stale)]
    schema = lean_schema("samples")
    arrays = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
    staged.append("samples", pa.RecordBatch.from_arrays(arrays, schema=schema))


def _tell(staged: Staged, notes: Mapping[str, _Note]) -> None:
    """Write into ``sources`` what the metrics held."""
    for path in staged.parts("sources"):
        batch = staged.read("sources", path)
        rows: list[Any] = rows_of(batch.replace_schema_metadata({"table": "sources"}))
        for row in rows:
            note = notes.get(row.source)
            if note is not None:
                row.records = row.events = note.samples
                row.first_time = None if note.first is None else note.first * 1000
                row.last_time = None if note.last is None else note.last * 1000
                row.note = "; ".join(text for text in (row.note, note.text()) if text)
        staged.replace("sources", path, lean_batch(rows, "sources"))
