"""The step as a whole: events to windows, sources of metrics to samples in them, samples to evidence, all written.

It runs when the tables of a run stand in the staging folder, and only if there are metrics among the inputs. Events are
few: they are known before the first sample is read, and what lies outside every window is dropped where it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from aftershock.parsers.hosts import HostNames
from aftershock.parsers.prometheus.columns import EVERYTHING, Wanted
from aftershock.parsers.transit import lean_batch, rows_of
from aftershock.pipeline.config import Config
from aftershock.pipeline.metrics import families, storage_cells
from aftershock.pipeline.metrics.asked import Asked, asked_of
from aftershock.pipeline.metrics.checkpoint_io import ClusterIO
from aftershock.pipeline.metrics.checkpoint_match import findings_of, joined
from aftershock.pipeline.metrics.cleaning import cleaned, kinds_of
from aftershock.pipeline.metrics.detection import detect
from aftershock.pipeline.metrics.evidence import evidence_of
from aftershock.pipeline.metrics.evidence_rows import EvidenceRows
from aftershock.pipeline.metrics.faults import faults_of, unhealthy
from aftershock.pipeline.metrics.identity import Subjects
from aftershock.pipeline.metrics.notes import tell
from aftershock.pipeline.metrics.sources import Pair, opened
from aftershock.pipeline.metrics.spans import Spans, joined_spans
from aftershock.pipeline.metrics.taken import Taken
from aftershock.pipeline.metrics.written import SamplesWriter, write_series
from aftershock.pipeline.training.staged import Staged
from aftershock.schemas.incidents import Incident
from aftershock.schemas.provenance import Source
from aftershock.schemas.sessions import Exclusion, Session
from aftershock.schemas.topology import Gpu, Host
from aftershock.schemas.training import Checkpoint

if TYPE_CHECKING:
    from aftershock.pipeline.metrics.live_step import LiveReading

_EVENTS: Final = ("gpu_errors", "node_events", "scheduler_events", "training_events")
# What is needed over all time, of all hosts.
_ALL_TIME: Final = families.METRICS | storage_cells.METRICS
# Folders of less than this are read as a whole: a few seconds.
_SMALL: Final = 1 << 28
# Healthy times are looked for so far from events, in milliseconds.
_FAR: Final = 60 * 86_400_000


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
    asked = asked_in(staged)
    incidents = list(cast("Iterator[Incident]", _rows(staged, ("incidents",))))
    faults = faults_of(_rows(staged, _EVENTS), incidents)
    ill = unhealthy(faults, cast("Iterator[Exclusion]", _rows(staged, ("exclusions",))), config.alarms)
    names: dict[str, str] = {}
    for _ in range(2):
        subjects = _subjects(staged, config, asked, names)
        taken = Taken(asked, subjects, ill, config, all_samples=all_samples, folder=staged.folder)
        _read(taken, sources, live, asked)
        # Samples may tell the names of machines, and whose the others are that came before them.
        names = {} if names else taken.renamed()
        if not names:
            break
    if live is not None:
        staged.append(
            "sources", lean_batch([Source(source=live.source, format=live.name, note=live.note())], "sources")
        )
    _write_evidence(staged, taken, asked, incidents, config)
    if sources:
        sessions = list(cast("Iterator[Session]", _rows(staged, ("sessions",))))
        _write_checkpoints(staged, taken, sessions, config)
        alarms, findings = detect(taken.signals, faults, ill, sessions, config)
        for table, rows in (("alarms", alarms), ("findings", findings)):
            if rows:
                staged.append(table, lean_batch(rows, table))
    if taken.rejects:
        staged.append("rejects", lean_batch(taken.rejects, "rejects"))
    tell(staged, taken.notes)


def _subjects(staged: Staged, config: Config, asked: Sequence[Asked], names: Mapping[str, str]) -> Subjects:
    hosts = {host.host for host in cast("Iterator[Host]", _rows(staged, ("hosts",))) if host.host}
    hosts |= {*config.cluster.hosts, *(one.host for one in asked), *(peer for one in asked for peer in one.peers)}
    return Subjects(HostNames(config.aliases), hosts, gpus_in(staged), names)


def _read(taken: Taken, sources: Sequence[Pair], live: LiveReading | None, asked: Sequence[Asked]) -> None:
    """Read everything once. Of a folder, in which a few series or a short time are found without reading all of it,
    what windows need of all series is read, and then what is needed of a few series over all time."""
    windows = _windows(taken, sources, asked)
    for file, fmt in sources:
        assert fmt.read_metrics is not None
        if not fmt.is_folder or windows is None:
            taken.take(file.source, fmt.name, fmt.read_metrics(opened(file), EVERYTHING), windows=True, all_time=True)
            continue
        items = fmt.read_metrics(opened(file), Wanted(windows))
        taken.take(file.source, fmt.name, items, windows=True, all_time=False)
        items = fmt.read_metrics(opened(file), Wanted(None, _ALL_TIME))
        taken.take(file.source, fmt.name, items, windows=False, all_time=True)
    if live is not None:
        taken.take(live.source, live.name, live.items(asked), windows=True, all_time=False)


def _windows(taken: Taken, sources: Sequence[Pair], asked: Sequence[Asked]) -> Spans | None:
    """The times in which all series are wanted; None for all times, where there is little to read anyway."""
    size = sum(file.size or 0 for file, fmt in sources if fmt.is_folder)
    if taken.gathered.everything or size <= _SMALL:
        return None
    divisor = 1
    while size > _SMALL * divisor:
        divisor *= 2
    times = [one.time // 1000 for one in asked]
    healthy = taken.healthy.spans(min(times) - _FAR, max(times) + _FAR, divisor) if times else ()
    return joined_spans([span for spans in (*taken.gathered.wanted.values(), healthy) for span in spans])


def _write_evidence(
    staged: Staged, taken: Taken, asked: Sequence[Asked], incidents: Sequence[Incident], config: Config
) -> None:
    """Samples to their table and to evidence, some series at a time."""
    gathered = taken.gathered
    incident = {event: one.incident_id for one in incidents for event in one.event_ids or ()}
    samples, evidence = SamplesWriter(staged), EvidenceRows(taken.healthy.peaks(), incident, staged.folder)
    for known, batch in gathered.groups():
        grid = cleaned(gathered.inside_windows(batch, known), kinds_of([one.metric for one in known]))
        evidence.add(evidence_of(asked, known, grid, taken.peers, config.windows))
        samples.write(known, batch)
    samples.close()
    gathered.spool.close()
    evidence.write(staged)
    write_series(staged, gathered.series, config.cluster.name)


def _write_checkpoints(staged: Staged, taken: Taken, sessions: Sequence[Session], config: Config) -> None:
    """What the storage saw of checkpoints, beside what logs tell of them."""
    if not taken.storage.hosts():
        return
    cluster = ClusterIO(taken.storage, config.storage)
    parts = staged.parts("checkpoints")
    logged = [cast("list[Checkpoint]", _rows_at(staged, path)) for path in parts]
    found = joined([row for rows in logged for row in rows], cluster, sessions)
    for path, rows in zip(parts, logged, strict=True):
        staged.replace("checkpoints", path, lean_batch(rows, "checkpoints"))
    if found:
        staged.append("checkpoints", lean_batch(found, "checkpoints"))
    findings = list(findings_of([*found, *(row for rows in logged for row in rows)], cluster, config.storage))
    if findings:
        staged.append("findings", lean_batch(findings, "findings"))


def _rows_at(staged: Staged, path: Path) -> list[Any]:
    return rows_of(staged.read("checkpoints", path).replace_schema_metadata({"table": "checkpoints"}))


def _rows(staged: Staged, tables: Sequence[str]) -> Iterator[Any]:
    for table in tables:
        for batch in staged.batches(table):
            yield from rows_of(batch.replace_schema_metadata({"table": table}))
