"""What a person wants to know when a run is done: jobs, retries, hosts left out, GPU errors, and what was not read."""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TextIO

import pyarrow as pa
import pyarrow.compute as pc

from aftershock.results import Results
from aftershock.results import open as open_result
from aftershock.terminal import Section, span, write_sections

# A screen holds about fifty lines; what does not fit is counted and stands in the tables.
MOST_CHAINS: Final = 12
MOST_HOSTS: Final = 10
MOST_CODES: Final = 20
MOST_SOURCES: Final = 10
MOST_REASONS: Final = 10
MOST_PLACES: Final = 3

# Folders that need no quotes, in a shell and in SQL.
_SIMPLE: Final = re.compile(r"[A-Za-z0-9_./:+@%-]+\Z")


def summarise(folder: str | os.PathLike[str], out: TextIO, terminal: bool) -> None:
    """Print the summary of a result: coloured tables on a terminal, else plain text that is always the same.

    Raises:
        NoResult: the folder holds no result of a finished run.
    """
    results = open_result(folder)
    write_sections(sections_of(results, os.fspath(folder)), out, terminal)


def sections_of(results: Results, folder: str) -> Iterator[Section]:
    """The sections of the summary in their order; what has no rows is left out. Warnings come last, to be seen."""
    yield _sessions(results)
    yield from _chains(results)
    yield from _exclusions(results)
    yield from _gpu_errors(results)
    yield from _sources(results)
    yield from _rejects(results)
    yield _tables(results, folder)
    yield from _warnings(results)


def _columns(results: Results, name: str, *columns: str) -> pa.Table:
    """Some columns of a table, enumerations as plain strings; no rows if the result does not have them."""
    if name not in results or not set(columns) <= set(results[name].schema.names):
        return pa.table({column: pa.array([], pa.string()) for column in columns})
    table = results[name].table(columns)
    for position, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(position, field.name, table.column(position).cast(field.type.value_type))
    return table


def _counted(table: pa.Table, *columns: str) -> dict[tuple[Any, ...], int]:
    """How many rows have the same values in some columns."""
    if not table.num_rows:
        return {}
    counts = table.select(columns).group_by(list(columns)).aggregate([([], "count_all")])
    return {tuple(row[column] for column in columns): row["count_all"] for row in counts.to_pylist()}


def _more(total: int, shown: int, table: str) -> tuple[str, ...]:
    return (f"... and {total - shown} more: see {table}",) if total > shown else ()


def _number(count: int, noun: str) -> str:
    """``1 chain``, ``2 chains``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _by_count(counts: Mapping[Any, int]) -> list[tuple[Any, int]]:
    """The most frequent first; equals by name."""
    return sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))


def _sessions(results: Results) -> Section:
    table = _columns(results, "sessions", "state", "start_time")
    if not table.num_rows:
        return Section("No sessions: no record of a job was found")
    waiting = pc.sum(pc.is_null(table.column("start_time"))).as_py()
    states = {state: count for (state,), count in _counted(table, "state").items()}
    rows = tuple((state or "unknown", f"{count:,}") for state, count in _by_count(states))
    never = f", {waiting:,} of them never placed on hosts" if waiting else ""
    title = _number(table.num_rows, "session") + never
    return Section(title, ("state", "sessions"), rows, numbers=("sessions",))


def _chains(results: Results) -> Iterator[Section]:
    names = ("chain_id", "name", "n_attempts", "first_session_id", "mode", "outcome", "median_interval_s")
    chains = _columns(results, "chains", *names).to_pylist()
    if not chains:
        return
    triggers: dict[str, Counter[str]] = defaultdict(Counter)
    for retry in _columns(results, "retries", "chain_id", "trigger").to_pylist():
        triggers[retry["chain_id"]][retry["trigger"] or "unknown"] += 1
    retried: list[dict[str, Any]] = []
    single: list[dict[str, Any]] = []
    for chain in chains:
        again = chain["chain_id"] in triggers or chain["outcome"] == "never_restarted"
        (retried if again else single).append(chain)
    outcomes = Counter(chain["outcome"] or "unknown" for chain in chains)
    ended = ", ".join(f"{count:,} {outcome.replace('_', ' ')}" for outcome, count in _by_count(outcomes))
    # Chains of one session say nothing that the sessions did not; those that broke come before those that did not.
    shown = [*retried, *(c for c in single if c["outcome"] != "succeeded")][:MOST_CHAINS]
    jobs = _jobs(results, {chain["first_session_id"] for chain in shown})
    rows = tuple(
        (
            chain["chain_id"],
            jobs.get(chain["first_session_id"]),
            chain["name"],
            chain["n_attempts"],
            (chain["outcome"] or "").replace("_", " "),
            ", ".join(f"{t} x{n}" if n > 1 else t for t, n in _by_count(triggers.get(chain["chain_id"], {}))),
            chain["mode"],
            span(chain["median_interval_s"]),
        )
        for chain in shown
    )
    yield Section(
        f"{_number(len(chains), 'chain')}: {ended}; {len(retried):,} with retries",
        ("chain", "job", "name", "attempts", "outcome", "retried by", "mode", "median interval"),
        rows,
        _more(len(chains), len(rows), "chains"),
        numbers=("attempts", "median interval"),
    )


def _jobs(results: Results, session_ids: set[str | None]) -> dict[str, str]:
    """Job ids of some sessions."""
    table = _columns(results, "sessions", "session_id", "job_id")
    known = pa.array(sorted(filter(None, session_ids)), pa.string())
    wanted = table.filter(pc.is_in(table.column("session_id"), known))
    return dict(zip(wanted.column("session_id").to_pylist(), wanted.column("job_id").to_pylist(), strict=True))


def _exclusions(results: Results) -> Iterator[Section]:
    table = _columns(results, "exclusions", "host", "how", "evidenced")
    if not table.num_rows:
        return
    hosts: dict[str, Counter[str]] = defaultdict(Counter)
    evidenced: Counter[str] = Counter()
    for (host, how, seen), count in _counted(table, "host", "how", "evidenced").items():
        hosts[host or "unknown"][how or "unknown"] += count
        evidenced[host or "unknown"] += count if seen else 0
    ordered = _by_count({host: sum(means.values()) for host, means in hosts.items()})
    # Where nobody looked for evidence there is nothing to count.
    looked = table.column("evidenced").null_count < table.num_rows
    columns = ("host", "exclusions", "how", *(("with a hardware fault seen",) if looked else ()))
    rows = tuple(
        (
            host,
            f"{count:,}",
            ", ".join(f"{how.replace('_', ' ')} {n:,}" for how, n in _by_count(hosts[host])),
            f"{evidenced[host]:,}",
        )[: len(columns)]
        for host, count in ordered[:MOST_HOSTS]
    )
    yield Section(
        f"{_number(table.num_rows, 'exclusion')} of {_number(len(hosts), 'host')}",
        columns,
        rows,
        _more(len(hosts), len(rows), "exclusions"),
        numbers=("exclusions", "with a hardware fault seen"),
    )


def _gpu_errors(results: Results) -> Iterator[Section]:
    key = ("family", "code", "mnemonic", "host", "pci")
    table = _columns(results, "gpu_errors", *key, "count")
    if not table.num_rows:
        return
    totals: Counter[tuple[str, int]] = Counter()
    names: dict[tuple[str, int], set[str]] = defaultdict(set)
    hosts: dict[tuple[str, int], set[str]] = defaultdict(set)
    devices: dict[tuple[str, int], set[tuple[str, str]]] = defaultdict(set)
    for row in table.group_by(list(key)).aggregate([("count", "sum")]).to_pylist():
        kind = (row["family"] or "unknown", row["code"] if row["code"] is not None else -1)
        totals[kind] += row["count_sum"] or 0
        names[kind] |= {row["mnemonic"]} - {None}
        hosts[kind] |= {row["host"]} - {None}
        devices[kind] |= {(row["host"], row["pci"])} if row["pci"] else set()
    rows = tuple(
        (
            family,
            code if code >= 0 else None,
            min(names[family, code], default=None),
            f"{count:,}",
            len(hosts[family, code]),
            # The address of an SXid is that of a switch.
            len(devices[family, code]) if family in ("xid", "amdgpu") else None,
        )
        for (family, code), count in sorted(totals.items(), key=lambda item: (-item[1], item[0]))[:MOST_CODES]
    )
    everywhere = set().union(*hosts.values())
    yield Section(
        f"{_number(sum(totals.values()), 'GPU error')} on {_number(len(everywhere), 'host')}",
        ("family", "code", "name", "count", "hosts", "GPUs"),
        rows,
        _more(len(totals), len(rows), "gpu_errors"),
        numbers=("code", "count", "hosts", "GPUs"),
    )


def _sources(results: Results) -> Iterator[Section]:
    table = _columns(results, "sources", "source", "format", "note", "bytes")
    formats = {name or "not recognised": count for (name,), count in _counted(table, "format").items()}
    of = ", ".join(f"{name} {count:,}" for name, count in _by_count(formats))
    size = sum(filter(None, table.column("bytes").to_pylist()))
    noted = table.filter(pc.is_valid(table.column("note"))).to_pylist()
    rows = tuple((row["source"], row["format"], row["note"]) for row in noted[:MOST_SOURCES])
    yield Section(
        f"{_number(table.num_rows, 'source')}, {size / 1e6:,.1f} MB" + (f": {of}" if of else ""),
        ("source", "format", "note"),
        rows,
        _more(len(noted), len(rows), "sources"),
    )


def _rejects(results: Results) -> Iterator[Section]:
    table = _columns(results, "rejects", "source", "byte_offset", "reason")
    if not table.num_rows:
        return
    reasons = {reason: count for (reason,), count in _counted(table, "reason").items()}
    rows = []
    for reason, count in _by_count(reasons)[:MOST_REASONS]:
        same = pc.is_null(table.column("reason")) if reason is None else pc.equal(table.column("reason"), reason)
        places = table.filter(same).slice(0, MOST_PLACES).to_pylist()
        rows.append((reason or "unknown", f"{count:,}", ", ".join(map(_place, places))))
    yield Section(
        f"{_number(table.num_rows, 'reject')}: looked like a record and could not be read",
        ("reason", "count", "first at"),
        tuple(rows),
        _more(len(reasons), len(rows), "rejects"),
        numbers=("count",),
    )


def _place(row: Mapping[str, Any]) -> str:
    """``source:offset``; the source alone where all of it was refused."""
    return str(row["source"]) if row["byte_offset"] is None else f"{row['source']}:{row['byte_offset']}"


def _tables(results: Results, folder: str) -> Section:
    counted = results.manifest.get("rows", {})
    rows = {name: int(counted[name]) if name in counted else table.num_rows for name, table in results.items()}
    filled = ", ".join(f"{name} {count:,}" for name, count in rows.items() if count)
    empty = ", ".join(name for name, count in rows.items() if not count)
    lines = [f"rows: {filled or 'none'}"]
    lines += [f"no rows: {empty}"] if empty else []
    if "sessions" in results:
        lines += ["", *_commands(folder, results["sessions"].folder.suffix[1:])]
    return Section(f"{_number(len(rows), 'table')} in {folder}", lines=tuple(lines))


def _commands(folder: str, suffix: str) -> list[str]:
    """A line to read the result with DuckDB, and one with pandas."""
    query = "select state, count(*) from {} group by all"
    if suffix == "parquet":
        files = f"{folder.rstrip('/')}/sessions.parquet/*".replace("'", "''")
        duckdb = _shell("duckdb -c", query.format(f"read_parquet('{files}')"), folder)
    else:
        # DuckDB reads no Arrow files by itself, but any table of Python.
        code = f"import duckdb, aftershock; sessions = aftershock.open({folder!r}).sessions.table(); "
        duckdb = _shell("python -c", code + f"print(duckdb.sql('{query.format('sessions')}'))", folder)
    columns = "['job_id', 'state', 'start_time', 'end_time']"
    pandas = f"import aftershock; print(aftershock.open({folder!r}).sessions.to_pandas({columns}))"
    return [duckdb, _shell("python -c", pandas, folder)]


def _shell(command: str, argument: str, folder: str) -> str:
    quoted = f'"{argument}"' if _SIMPLE.match(folder) else shlex.quote(argument)
    return f"{command} {quoted}"


def _warnings(results: Results) -> Iterator[Section]:
    rows = _columns(results, "sources", "source", "zone_basis", "timezone", "note").to_pylist()
    assumed = [row for row in rows if row["zone_basis"] == "assumed_zone"]
    if assumed:
        zones = ", ".join(sorted({row["timezone"] or "unknown" for row in assumed}))
        yield Section(
            f"{_number(len(assumed), 'source')} with local times and no zone: {zones} was assumed, the zone of the "
            "machine that read them. Every time from them may be hours off",
            lines=(_named(assumed), "settle it with --timezone ZONE, or with timezone in aftershock.toml"),
            loud=True,
        )
    yearless = [row for row in rows if row["note"] and "--year" in row["note"]]
    if yearless:
        yield Section(
            f"{_number(len(yearless), 'source')} with dates that have no year: their events have no time",
            lines=(_named(yearless), "settle it with --year YEAR, or with year in aftershock.toml"),
            loud=True,
        )


def _named(rows: Sequence[Mapping[str, Any]]) -> str:
    names: Iterable[str] = (str(row["source"]) for row in rows[:MOST_SOURCES])
    rest = len(rows) - MOST_SOURCES
    return ", ".join(names) + (f" and {rest} more" if rest > 0 else "")
