"""The command line. Nothing heavy is imported before the command that needs it runs."""

from __future__ import annotations

import datetime as dt
import os
import sys
from typing import Any, Final, NoReturn

import click

from aftershock.startup import begin_quickly

DONE: Final = 0
FAILED: Final = 1
WRONG_USE: Final = 2
CONDITION_HOLDS: Final = 3


class _Group(click.Group):
    """Says what to type when a command does not exist."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib  # noqa: PLC0415

            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            hint = f"did you mean aftershock {near[0]}?" if near else "see aftershock --help"
            raise click.UsageError(f"no command {args[0]!r}: {hint}", ctx) from error


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="aftershock", prog_name="aftershock")
def cli() -> None:
    """Which fault hit which training session, what it cost, and how the recovery went."""


def _moment(_ctx: click.Context, _param: click.Parameter, text: str | None) -> int | None:
    """An ISO date or time as microseconds UTC; without a zone it is UTC."""
    if text is None:
        return None
    try:
        moment = dt.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a time; write 2026-03-01 or 2026-03-01T12:00:00Z") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.timezone.utc)
    return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)) // dt.timedelta(microseconds=1)


def _zone(_ctx: click.Context, _param: click.Parameter, name: str | None) -> str | None:
    if name is None:
        return None
    from aftershock.parsers.resolve import BadZone, zone_of  # noqa: PLC0415

    try:
        zone_of(name)
    except BadZone as error:
        raise click.BadParameter(str(error)) from error
    return name


_timezone = click.option("--timezone", callback=_zone, help="Zone of local times that state none: IANA name or +09:00.")
_year = click.option(
    "--year", type=click.IntRange(1970, 2200), help="Year of the first record where dates have no year."
)


@cli.command(
    context_settings={
        "ignore_unknown_options": True,
        "allow_extra_args": True,
        "allow_interspersed_args": True,
    }
)
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("--out", required=True, help="Folder of the result.")
@click.option("--config", help="aftershock.toml with the facts that no log states.")
@_timezone
@_year
@click.option("--since", callback=_moment, help="Leave out what ended before this time.")
@click.option("--until", callback=_moment, help="Leave out what began at this time or later.")
@click.option("--table-format", type=click.Choice(["parquet", "arrow"]), default="parquet", show_default=True)
@click.option("--all-samples", is_flag=True, help="Keep every sample of metrics, not only those around events.")
@click.option("--overwrite", is_flag=True, help="Replace a result that --out holds.")
@click.option("--strict", is_flag=True, help="Exit with 3 if any condition of --fail-on holds.")
@click.option("--fail-on", help="Exit with 3 if one holds: rejects, no-events, assumed-zone (comma-separated).")
@click.option(
    "--pseudonymise",
    metavar="KEYFILE",
    help="Replace names by pseudonyms made with the key in this file, to give the result away.",
)
@click.option("--hide", help="Which names: users, hosts, paths, serials (comma-separated; all of them if not given).")
@click.option("--dry-run", is_flag=True, help="Write nothing; print what the server in [prometheus] would be asked.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@click.option("--verbose", is_flag=True, help="Print tracebacks and the messages of the engine.")
@click.pass_context
def run(ctx: click.Context, /, inputs: tuple[str, ...], **given: Any) -> None:
    """Read files, folders, globs or object-store addresses and write all tables to one folder.

    Options that are not listed here go to Apache Beam, for example --runner or --direct_num_workers.
    """
    from aftershock.run_command import run_and_report  # noqa: PLC0415

    ours = [option for parameter in ctx.command.params for option in parameter.opts if option.startswith("--")]
    ctx.exit(run_and_report(inputs, given, ours))


@cli.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...|-")
@click.option("--format", "format_name", help="Read the files as this format; see aftershock formats.")
@_timezone
@_year
@click.option("--host", help="Host of lines that name none.")
@click.pass_context
def parse(
    ctx: click.Context,
    files: tuple[str, ...],
    format_name: str | None,
    timezone: str | None,
    year: int | None,
    host: str | None,
) -> None:
    """Print one JSON object for each event of the files, and nothing that the text alone does not fix."""
    from aftershock.parse_command import parse_files  # noqa: PLC0415

    ctx.exit(parse_files(files, format_name, timezone, year, host))


@cli.command()
@click.argument("name", required=False)
@click.option("--check", is_flag=True, help="Run the samples of every format.")
@click.pass_context
def formats(ctx: click.Context, name: str | None, check: bool) -> None:
    """List the formats, or explain one: its grammar, its samples, its source."""
    from aftershock.format_docs import check_formats, explain, overview  # noqa: PLC0415

    if check:
        ctx.exit(check_formats(sys.stdout, name))
    click.echo(explain(name) if name else overview(), nl=False)


@cli.command()
@click.argument("name", required=False)
def tables(name: str | None) -> None:
    """Print the tables with every column, its type, unit and meaning."""
    from aftershock.schemas.tables import TABLES  # noqa: PLC0415
    from aftershock.table_docs import describe_tables  # noqa: PLC0415

    if name and name not in TABLES:
        raise click.UsageError(f"no table {name!r}; the tables are {', '.join(TABLES)}")
    click.echo(describe_tables(name), nl=False)


def main() -> None:
    """Entry point of the command: one clear line for wrong use, no traceback for a closed pipe."""
    begin_quickly()
    try:
        status = cli.main(standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Abort:
        click.echo("aftershock: interrupted", err=True)
        status = FAILED
    except click.ClickException as error:
        click.echo(f"aftershock: {error.format_message()}", err=True)
        status = WRONG_USE
    except BrokenPipeError:
        # The reader of our output went away (head, a pager): not an error, and Python must not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = DONE
    except OSError as error:
        # Most likely stdout: a full disk behind a redirection.
        click.echo(f"aftershock: cannot write: {error.strerror or error}", err=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = FAILED
    _leave(status if isinstance(status, int) else DONE)


def _leave(status: int) -> NoReturn:
    if "apache_beam" not in sys.modules:
        sys.exit(status)
    # Everything is written and closed; taking the engine's modules apart would cost another sixth of a second.
    sys.stderr.flush()
    os._exit(status)
