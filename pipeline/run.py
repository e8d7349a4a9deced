"""The main job: inputs to tables in one folder."""

from __future__ import annotations

import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aftershock.parsers.clock import SECOND
from aftershock.parsers.redact import redact
from aftershock.parsers.transit import lean_batch
from aftershock.pipeline.config import Config, load_config
from aftershock.pipeline.entities import DONE as SESSIONS_DONE
from aftershock.pipeline.entities import LINEAGES, BuildSessions, LinkRetries, MergeOccurrences
from aftershock.pipeline.keys import partitions_for
from aftershock.pipeline.options import RunOptions, UsageError, beam_options, machine_zone
from aftershock.pipeline.plan import Inputs, expand
from aftershock.pipeline.quick_beam import beam
from aftershock.pipeline.read import ReadRecords
from aftershock.pipeline.retries import RetryRules
from aftershock.pipeline.sessions import SessionRules
from aftershock.pipeline.settle import DONE, EVENTS, JOBS, SettleRules, SettleSources
from aftershock.pipeline.write import MANIFEST, WriteTables, commit, now_text, read_part
from aftershock.schemas import coder as _registered  # noqa: F401 - registers the coder of batches
from aftershock.schemas.columns import Row
from aftershock.schemas.provenance import Reject, Source
from aftershock.schemas.tables import TABLES

# Equal records closer than this are one burst.
BURST_GAP: Final = 60 * SECOND


class RunFailed(Exception):
    """The run ended without a result; the message says why in one line."""


@dataclass(frozen=True)
class RunResult:
    """A finished run: rows of each table, and the conditions of ``--fail-on`` that hold."""

    rows: dict[str, int]
    conditions: tuple[str, ...]


def run(options: RunOptions) -> RunResult:
    """Read all inputs and write all tables to ``options.out``.

    Raises:
        UsageError, ConfigError, MissingInput: wrong use; nothing was written.
        RunFailed: the run died; the old result, or none, is there.
    """
    config = load_config(options.config) if options.config else Config()
    out = Path(options.out)
    _check_out(out, options)
    inputs = expand(options.inputs, config, leave_out=[options.out, *([options.config] if options.config else [])])
    pipeline_options = beam_options(options.beam_args)
    out.mkdir(parents=True, exist_ok=True)
    staging = out / f".staging-{uuid.uuid4().hex[:12]}"
    try:
        _run_pipeline(inputs, config, options, pipeline_options, str(staging))
        rows = commit(staging, out, options.table_format, _manifest(options, staging))
    except KeyboardInterrupt:
        raise RunFailed("interrupted") from None
    except Exception as error:
        if options.verbose:
            raise
        raise RunFailed(_reason(error)) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return RunResult(rows, _conditions(out, options, rows))


def _check_out(out: Path, options: RunOptions) -> None:
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {options.out}: is a file, not a folder")
    if (out / MANIFEST).exists() and not options.overwrite:
        raise UsageError(f"--out {options.out}: holds a result already; give --overwrite to replace it")


def _run_pipeline(inputs: Inputs, config: Config, options: RunOptions, pipeline_options: Any, staging: str) -> None:
    partitions = partitions_for(sum(file.size or 0 for file in inputs.files))
    rules = SettleRules(
        config=config,
        timezone=options.timezone,
        year=options.year,
        machine_zone=machine_zone(),
        since=options.since,
        until=options.until,
        burst_gap=BURST_GAP,
        partitions=partitions,
    )
    chains = RetryRules(max_gap_s=config.chains.max_gap_s, success_min_runtime_s=config.chains.success_min_runtime_s)
    with beam.Pipeline(options=pipeline_options) as pipeline:
        settled = (
            pipeline
            | "Files" >> beam.Create(inputs.files)
            | "ReadRecords" >> ReadRecords(BURST_GAP)
            | "SettleSources" >> SettleSources(rules)
        )
        events = settled[EVENTS] | "MergeOccurrences" >> MergeOccurrences(BURST_GAP)
        sessions = settled[JOBS] | "BuildSessions" >> BuildSessions(
            SessionRules(gpus_per_host=config.cluster.gpus_per_host), partitions
        )
        linked = sessions[LINEAGES] | "LinkRetries" >> LinkRetries(chains)
        skipped = pipeline | "Skipped" >> beam.Create(_skipped(inputs))
        _ = (
            (settled[DONE], events, sessions[SESSIONS_DONE], linked, skipped)
            | "AllTables" >> beam.Flatten()
            | "WriteTables" >> WriteTables(staging, options.table_format)
        )


def _skipped(inputs: Inputs) -> list[Any]:
    """The rows of ``sources`` and ``rejects`` of what was given and is not read."""
    sources: list[Row] = [Source(source=source, note=reason, rejects=1) for source, reason in inputs.skipped]
    rejects: list[Row] = [Reject(source=source, reason=reason) for source, reason in inputs.skipped]
    return [lean_batch(sources, "sources"), lean_batch(rejects, "rejects")] if sources else []


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
    return redact(text.splitlines()[0])
