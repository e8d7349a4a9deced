"""``aftershock run``: from the given options to a result, a summary and an exit status."""

from __future__ import annotations

import logging
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from aftershock.cli import CONDITION_HOLDS, DONE, FAILED
from aftershock.startup import imports_are_done
from aftershock.terminal import printable

if TYPE_CHECKING:
    from aftershock.pipeline.prepare import Prepared


def run_and_report(inputs: Sequence[str], given: Mapping[str, Any], ours: Sequence[str]) -> int:
    """Run the main job and print its summary to stdout. Returns the exit status.

    ``ours``: the options of the command, for a hint where one is misspelt.

    Raises:
        click.UsageError: wrong use.
    """
    if not given["verbose"]:
        # What goes wrong is said in one line of ours; the engine's own words are for --verbose.
        logging.disable(logging.CRITICAL)
        warnings.simplefilter("ignore")
    from aftershock.pipeline.config import ConfigError  # noqa: PLC0415
    from aftershock.pipeline.options import CONDITIONS, RunOptions, UsageError, split_words  # noqa: PLC0415
    from aftershock.pipeline.plan import MissingInput  # noqa: PLC0415
    from aftershock.pipeline.prepare import prepare  # noqa: PLC0415

    try:
        paths, beam_args = split_words(inputs, ours)
    except UsageError as error:
        raise click.UsageError(str(error)) from error
    if not paths:
        raise click.UsageError("no input: give files, folders or globs")
    options = RunOptions(
        inputs=tuple(paths),
        fail_on=CONDITIONS if given["strict"] else _conditions(given["fail_on"], CONDITIONS),
        beam_args=tuple(beam_args),
        hide=_words(given["hide"]),
        **{name: value for name, value in given.items() if name not in ("strict", "fail_on", "hide")},
    )
    try:
        prepared = prepare(options)
    except (UsageError, ConfigError, MissingInput) as error:
        raise click.UsageError(printable(str(error))) from error
    with parsing_early(prepared):
        # Only now: its import takes longer than many a run, and the workers use that time.
        from aftershock.pipeline.run import RunFailed, run  # noqa: PLC0415
        from aftershock.progress import showing_progress  # noqa: PLC0415
        from aftershock.summary import summarise  # noqa: PLC0415

        imports_are_done()
        try:
            with showing_progress(enabled=sys.stderr.isatty() and not options.quiet):
                result = run(prepared)
        except RunFailed as error:
            click.echo(f"aftershock: failed: {printable(str(error))}", err=True)
            return FAILED
    if options.dry_run:
        click.echo("\n".join(map(printable, result.plan.splitlines())))
        return DONE
    if not options.quiet:
        summarise(options.out, sys.stdout, sys.stdout.isatty())
    for condition in result.conditions:
        click.echo(f"aftershock: --fail-on {condition}: it holds", err=True)
    return CONDITION_HOLDS if result.conditions else DONE


@contextmanager
def parsing_early(prepared: Prepared) -> Iterator[None]:
    """Workers that begin to parse before the engine is there; none where the user chose how the engine runs."""
    from aftershock.pipeline.plan import CHUNK_BYTES  # noqa: PLC0415
    from aftershock.pipeline.prepare import BURST_GAP  # noqa: PLC0415
    from aftershock.pipeline.workers import start_workers, stop_workers  # noqa: PLC0415

    workers = None if prepared.options.beam_args else start_workers(BURST_GAP, prepared.inputs.bytes, prepared.aside)
    if workers:
        workers.begin(prepared.inputs.files, CHUNK_BYTES)
    try:
        yield
    finally:
        stop_workers()
        shutil.rmtree(prepared.staging, ignore_errors=True)  # what they wrote after the run had failed


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip() for word in (text or "").split(",") if word.strip()))


def _conditions(text: str | None, known: Sequence[str]) -> tuple[str, ...]:
    wanted = _words(text)
    for word in wanted:
        if word not in known:
            raise click.UsageError(f"--fail-on {word}: unknown; the conditions are {', '.join(known)}")
    return wanted
