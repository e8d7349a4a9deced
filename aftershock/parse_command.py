"""``aftershock parse``: rows as JSON lines, one for each printed record, without Beam."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, BinaryIO, cast

import click
import orjson

from aftershock.cli import DONE
from aftershock.parsers.blocks import Mark
from aftershock.parsers.clock import SECOND
from aftershock.parsers.formats import Found, Refused
from aftershock.parsers.prometheus.folders import HEAD_REASON
from aftershock.parsers.registry import format_named, formats_named, known_names
from aftershock.parsers.resolve import ClockRules
from aftershock.parsers.settle import SourceRules, settle_source
from aftershock.parsers.source import Opener, SourceFile, look, open_local, read_whole
from aftershock.pipeline.config import Config
from aftershock.pipeline.episodes import link_source
from aftershock.pipeline.plan import expand
from aftershock.schemas.columns import TIMESTAMP, Row
from aftershock.schemas.events import EventRow
from aftershock.schemas.ids import stable_id
from aftershock.schemas.tables import TABLES
from aftershock.startup import imports_are_done
from aftershock.terminal import printable


def parse_files(
    files: Sequence[str], format_name: str | None, timezone: str | None, year: int | None, host: str | None
) -> int:
    """Print the rows of every file to stdout, refusals to stderr. Returns the exit status.

    Raises:
        click.UsageError: a file that does not exist, or an unknown format.
    """
    if format_name and not formats_named(format_name):
        raise click.UsageError(f"no format {format_name!r}; the formats are {', '.join(known_names())}")
    missing = [name for name in files if name != "-" and not os.path.exists(name)]
    if missing:
        raise click.UsageError(f"{printable(missing[0])}: no such file")
    imports_are_done()
    out = sys.stdout.buffer
    for name in files:
        source = os.fsencode(name).decode("utf-8", "backslashreplace")
        rules = SourceRules(source=source, host=host, clock=ClockRules(zone=timezone, year=year, inferred=False))
        for row in _rows_of(name, source, format_name, rules):
            out.write(_as_json(row))
    out.flush()
    return DONE


def _rows_of(name: str, source: str, format_name: str | None, rules: SourceRules) -> Iterator[Row]:
    if name != "-" and os.path.isdir(name):
        # A folder that is one input, or that holds such folders: blocks of Prometheus.
        files = [file for file in expand([name], Config()).files if file.folder or file.refused == HEAD_REASON]
        for file in files:
            yield from _rows_of_file(file, open_local, rules)
        if files:
            return
    if name != "-" and not os.path.isfile(name):
        _say(source, Refused(0, 0, "is not a file"))
        return
    opener = _open_stdin if name == "-" else open_local
    yield from _rows_of_file(SourceFile(name, source, None, format_name), opener, rules)


def _rows_of_file(file: SourceFile, opener: Opener, rules: SourceRules) -> Iterator[Row]:
    source = file.source
    if file.refused:
        _say(source, Refused(0, 0, file.refused))
        return
    opened = look(file, opener)
    if opened.detected.reason:
        _say(source, Refused(0, 0, opened.detected.reason))
        return
    found: list[Found] = []
    marks: list[Mark] = []
    for block in read_whole(opened, opener):
        found += block.found
        marks += block.marks
        for _, refused in block.refused:
            _say(source, refused)
    settled = settle_source(found, marks, rules, format_named)
    link_source(settled.rows, settled.clocks)
    if opened.detected.format is None and not settled.rows:
        _say(source, Refused(0, 0, "no known format: no record of any format was found in it"))
    yield from settled.rows


@lru_cache(maxsize=1)
def _stdin() -> int:
    """What stands on stdin, in an unnamed file: a source is read from its beginning twice, and may be large."""
    spool = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the command
    shutil.copyfileobj(sys.stdin.buffer, spool, 1 << 20)
    return os.dup(spool.fileno())


def _open_stdin(_path: str) -> BinaryIO:
    descriptor = os.dup(_stdin())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return cast(BinaryIO, open(descriptor, "rb", buffering=0))


def _say(source: str, refused: Refused) -> None:
    click.echo(f"aftershock: {printable(source)}:{refused.offset}: {printable(refused.reason)}", err=True)


@lru_cache(maxsize=32)
def _columns(table: str) -> tuple[tuple[str, bool], ...]:
    return tuple((column.name, column.type == TIMESTAMP) for column in TABLES[table].columns)


def _as_json(row: Row) -> bytes:
    if isinstance(row, EventRow):
        row.event_id = stable_id("e", row.table, row.source, row.byte_offset, row.message)
    values: dict[str, Any] = {"table": row.table}
    for name, is_time in _columns(row.table):
        value = getattr(row, name)
        values[name] = iso_time(value) if is_time and value is not None else value
    if "source" not in values:
        values["source"] = _source_of(row)
    return orjson.dumps(values, option=orjson.OPT_APPEND_NEWLINE)


def _source_of(row: Row) -> str | None:
    sources: list[str] = getattr(row, "sources", None) or []
    return sources[0].rpartition(":")[0] if sources else None


def iso_time(micros: int) -> str:
    """``2026-03-01T12:00:00.000000Z``."""
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=micros // SECOND, microseconds=micros % SECOND)
    return moment.isoformat(timespec="microseconds") + "Z"
