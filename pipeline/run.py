"""The main job: inputs to tables in one folder."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from aftershock.parsers.redact import redact
from aftershock.pipeline import step_files
from aftershock.pipeline.engine import beam_options
from aftershock.pipeline.entities import BuildSessions, LinkRetries, MergeOccurrences
from aftershock.pipeline.gather import GatherCluster, GatherRules
from aftershock.pipeline.job_work import LINEAGES
from aftershock.pipeline.keys import BYTES_PER_JOB_PARTITION, BYTES_PER_LINEAGE_PARTITION, DONE, partitions_for
from aftershock.pipeline.meeting import GATHERED
from aftershock.pipeline.metrics.sources import metrics_among
from aftershock.pipeline.options import RunOptions, machine_zone
from aftershock.pipeline.outputs import typed
from aftershock.pipeline.parts import read_part
from aftershock.pipeline.prepare import BURST_GAP, Prepared
from aftershock.pipeline.quick_beam import beam
from aftershock.pipeline.read import ReadRecords
from aftershock.pipeline.sessions import SessionRules
from aftershock.pipeline.settle import EVENTS, JOBS, SettleRules, SettleSources
from aftershock.pipeline.training.staged import Staged
from aftershock.pipeline.window import Window
from aftershock.pipeline.write import WriteTables, commit, now_text, write_empty_parts
from aftershock.schemas import coder as _registered  # noqa: F401 - registers the coder of batches
from aftershock.schemas.events import TrainingEvent
from aftershock.schemas.tables import TABLES
from aftershock.schemas.training import Checkpoint, TrainingStep

if TYPE_CHECKING:
    from aftershock.pipeline.pseudonyms.key import Key


# Tables of training output.
_TRAINING: Final = (TrainingEvent.table, TrainingStep.table, Checkpoint.table)


class RunFailed(Exception):
    """The run ended without a result; the message says why in one line."""


@dataclass(frozen=True)
class RunResult:
    """A finished run: rows of each table, and the conditions of ``--fail-on`` that hold.

    plan: of a run that only shows what it would ask a live server, for people.
    """

    rows: dict[str, int]
    conditions: tuple[str, ...]
    plan: str = ""


def run(prepared: Prepared) -> RunResult:
    """Read all inputs and write all tables to the folder of the result.

    Raises:
        RunFailed: the run died; the old result, or none, is there.
    """
    options = prepared.options
    out = Path(options.out)
    staging = prepared.staging
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_empty_parts(staging, options.table_format)
        _run_pipeline(prepared, str(staging))
        _settle_training(prepared, staging)
        if options.dry_run:
            return RunResult({}, (), _plan_of_metrics(prepared, staging))
        _join_metrics(prepared, staging)
        manifest = _manifest(options, staging)
        if prepared.key is not None:
            manifest = _pseudonymised(prepared, prepared.key, staging, manifest)
        rows = commit(staging, out, options.table_format, manifest)
    except KeyboardInterrupt:
        raise RunFailed("interrupted") from None
    except Exception as error:
        if options.verbose:
            raise
        raise RunFailed(_reason(error)) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        if not prepared.leaves_folder:
            with suppress(OSError):
                out.rmdir()
    return RunResult(rows, _conditions(out, options, rows))


def _run_pipeline(prepared: Prepared, staging: str) -> None:
    options, config = prepared.options, prepared.config
    partitions = partitions_for(prepared.inputs.bytes)
    lineages = partitions_for(prepared.inputs.bytes, BYTES_PER_LINEAGE_PARTITION)
    rules = SettleRules(
        config=config,
        timezone=options.timezone,
        year=options.year,
        machine_zone=machine_zone(),
        burst_gap=BURST_GAP,
        partitions=partitions,
        job_partitions=partitions_for(prepared.inputs.bytes, BYTES_PER_JOB_PARTITION),
        staging=staging,
        aside=prepared.aside,
    )
    window = Window(options.since, options.until)
    # Batches come and go by the hundred. Arrow's own pools keep what they were given, or ask for it anew each time.
    pa.set_memory_pool(pa.system_memory_pool())
    with beam.Pipeline(options=beam_options(options.beam_args)) as pipeline:
        settled = (
            pipeline
            | "Files" >> beam.Create(prepared.inputs.files, reshuffle=False)
            | "ReadRecords" >> ReadRecords(BURST_GAP, prepared.aside)
            | "SettleSources" >> SettleSources(rules)
        )
        events = settled[EVENTS] | "MergeOccurrences" >> MergeOccurrences(
            BURST_GAP, config.exclusions, partitions, window
        )
        sessions = settled[JOBS] | "BuildSessions" >> BuildSessions(
            SessionRules(gpus_per_host=config.cluster.gpus_per_host),
            config.exclusions,
            lineages,
            window,
            prepared.aside,
        )
        linked = sessions[LINEAGES] | "LinkRetries" >> LinkRetries(config.chains, window)
        gathered = (events[GATHERED], sessions[GATHERED], linked[GATHERED]) | "GatherCluster" >> GatherCluster(
            GatherRules(config.cluster.hosts, config.chains, config.exclusions), window
        )
        done = (settled[DONE], events[DONE], sessions[DONE], linked[DONE], gathered)
        tables = typed(done | "AllTables" >> beam.Flatten(), pa.RecordBatch)
        _ = tables | "WriteTables" >> WriteTables(staging, options.table_format)


def _settle_training(prepared: Prepared, staging: Path) -> None:
    """What follows from training output, if there is any."""
    if any((staging / table).exists() for table in (*_TRAINING, step_files.FOLDER)):
        from aftershock.pipeline.training.step import settle_training  # noqa: PLC0415 - some runs need it

        options = prepared.options
        settle_training(staging, options.table_format, prepared.config, Window(options.since, options.until))


def _join_metrics(prepared: Prepared, staging: Path) -> None:
    """What metrics showed around the events, if there are any among the inputs or a server that has them."""
    options = prepared.options
    staged = Staged(staging, options.table_format)
    sources = metrics_among(staged, prepared.inputs.files)
    if not sources and prepared.config.prometheus.url is None:
        return
    from aftershock.pipeline.metrics.step import gpus_in, join_metrics  # noqa: PLC0415 - some runs need it

    live = None
    if prepared.config.prometheus.url is not None:
        from aftershock.pipeline.metrics.live_step import LiveReading, names_of  # noqa: PLC0415

        live = LiveReading(prepared.config, names_of(prepared.config, gpus_in(staged)), options.out)
    join_metrics(staged, sources, prepared.config, live, all_samples=options.all_samples)


def _plan_of_metrics(prepared: Prepared, staging: Path) -> str:
    """What a live server would be asked about the events of this run."""
    from aftershock.pipeline.metrics.live_step import dry_run_text, names_of  # noqa: PLC0415 - some runs need it
    from aftershock.pipeline.metrics.step import asked_in, gpus_in  # noqa: PLC0415

    staged = Staged(staging, prepared.options.table_format)
    names = names_of(prepared.config, gpus_in(staged))
    return dry_run_text(prepared.config, names, asked_in(staged), prepared.options.out)


def _manifest(options: RunOptions, staging: Path) -> dict[str, Any]:
    from aftershock import __version__  # noqa: PLC0415 - the face imports this package

    parts = sorted((staging / "sources").glob("*"))
    columns = ["source", "bytes", "digest"]
    rows = [row for part in parts for row in read_part(str(part), options.table_format, columns).to_pylist()]
    return {
        "aftershock": __version__,
        "created": now_text(),
        "table_format": options.table_format,
        "inputs": sorted(rows, key=lambda row: str(row["source"])),
        "parameters": options.parameters(),
    }


def _pseudonymised(prepared: Prepared, key: Key, staging: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    """Write all parts anew without names. Returns the manifest without names."""
    from aftershock.pipeline.pseudonyms.tables import Pseudonymiser  # noqa: PLC0415 - few runs need it

    options = prepared.options
    pseudonymiser = Pseudonymiser(key, options.hide, staging, options.table_format, prepared.config)
    pseudonymiser.rewrite_parts()
    return pseudonymiser.manifest(manifest)


def _conditions(out: Path, options: RunOptions, rows: dict[str, int]) -> tuple[str, ...]:
    """Which of the conditions that were asked for hold."""
    holding = {
        "rejects": rows["rejects"] > 0,
        "no-events": not any(rows[name] for name, table in TABLES.items() if "event_id" in table.column_names),
        "assumed-zone": "assumed-zone" in options.fail_on and _assumed(out, options),
    }
    return tuple(name for name in options.fail_on if holding[name])


def _assumed(out: Path, options: RunOptions) -> bool:
    parts = (out / f"sources.{options.table_format}").glob("part-*")
    tables = (read_part(str(part), options.table_format, ["zone_basis"]) for part in parts)
    return any("assumed_zone" in table.column(0).to_pylist() for table in tables)


def _reason(error: BaseException) -> str:
    """The first line of what went wrong, without Beam's own trailer, credentials masked."""
    text = str(error).split(" [while running")[0].strip() or type(error).__name__
    # Beam turns an interrupt within a bundle into an error of its own.
    return "interrupted" if text.startswith("KeyboardInterrupt") else redact(text.splitlines()[0])
