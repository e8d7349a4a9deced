"""Settling a source: what its records mean once all of them are known.

All records of one source come together here in the order of their offsets: equal ones are folded, lines that tell one
thing in several parts are joined by their format, clocks are resolved, hosts get their names.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from aftershock.parsers.blocks import Mark
from aftershock.parsers.clock import SECOND, Reading
from aftershock.parsers.fold import fold
from aftershock.parsers.formats import SECTION, Format, Found
from aftershock.parsers.hosts import HostNames
from aftershock.parsers.kernel.catalog import describe
from aftershock.parsers.neighbours import fill_rows
from aftershock.parsers.resolve import ClockRules, Resolved, SourceClock
from aftershock.schemas.changes import Change
from aftershock.schemas.columns import Row
from aftershock.schemas.events import EventRow, GpuError, SchedulerEvent, TrainingEvent
from aftershock.schemas.ids import stable_id
from aftershock.schemas.provenance import Source
from aftershock.schemas.sessions import Session
from aftershock.schemas.topology import Gpu, Host
from aftershock.schemas.training import Checkpoint, TrainingStep

NO_YEAR = "dates without a year, and nothing says which: give --year, or year in the configuration"


@dataclass(frozen=True)
class SourceRules:
    """What is known about a source from outside its text.

    source: its name in the tables. format: what it was recognised as. host: the host of lines that name none.
    cluster: as configured. burst_gap: microseconds between equal records of one burst, or None to fold nothing.
    neighbours: whether training output without a clock takes its times from the lines around it.
    """

    source: str
    format: str | None = None
    host: str | None = None
    cluster: str | None = None
    clock: ClockRules = field(default_factory=ClockRules)
    names: HostNames = field(default_factory=HostNames)
    burst_gap: int | None = None
    neighbours: bool = False


@dataclass
class Settled:
    """The rows of one source, times resolved, in the order of their offsets, and what to say about the source.

    clocks: for each row its clock and that of its last occurrence, as printed: they tell how far apart two rows are
        also where no time in UTC is known.
    """

    rows: list[Row]
    source: Source
    clocks: list[tuple[Reading, Reading]] = field(default_factory=list)


def settle_source(
    found: Sequence[Found],
    marks: Sequence[Mark],
    rules: SourceRules,
    format_named: Callable[[str], Format | None],
) -> Settled:
    """Bring the records of one source together. ``found`` and ``marks`` may come in any order."""
    items = sorted(found, key=lambda item: item.offset)
    if rules.burst_gap is not None:
        items = fold(items, rules.burst_gap)
    items = joined_rows(items, format_named)
    readings = [(item.offset, item.reading) for item in items] + [(mark.offset, mark.reading) for mark in marks]
    clock = SourceClock(readings, rules.clock, [mark.offset for mark in marks if mark.envelope == SECTION])
    rows = [resolved_row(item, clock, rules) for item in items]
    clocks = [(item.reading, item.last or item.reading) for item in items]
    if rules.neighbours and any(isinstance(row, (TrainingEvent, TrainingStep)) for row in rows):
        fill_rows(rows, ((mark.offset, clock.resolve(mark.offset, mark.reading)) for mark in marks))
    return Settled(rows, describe_source(rows, marks, clock, rules), clocks)


def joined_rows(items: list[Found], format_named: Callable[[str], Format | None]) -> list[Found]:
    """Records of one source, in order, joined by their formats."""
    by_format: dict[str, list[Found]] = defaultdict(list)
    for item in items:
        by_format[item.format].append(item)
    joined: list[Found] = []
    for name in sorted(by_format):
        fmt = format_named(name)
        joined += fmt.settle(by_format[name]) if fmt else by_format[name]
    joined.sort(key=lambda item: item.offset)
    return joined


def resolved_row(item: Found, clock: SourceClock, rules: SourceRules) -> Row:
    """The row of a record, at its place and in its time."""
    row = item.row
    when = clock.resolve(item.offset, item.reading)
    if isinstance(row, EventRow):
        _place_event(row, item, when, clock, rules)
        if isinstance(row, GpuError):
            describe(row, item.format)
    elif isinstance(row, Session):
        _place_times(row, ("submit_time", "start_time", "end_time"), item, clock)
        row.cluster = rules.cluster or row.cluster
        row.hosts = _names(row.hosts, rules)
        row.excluded_hosts = _names(row.excluded_hosts, rules)
        row.designated_hosts = _names(row.designated_hosts, rules)
        row.sources = [f"{rules.source}:{item.offset}"]
    elif isinstance(row, TrainingStep):
        row.time, row.time_basis, row.time_error_s = when
        row.source, row.byte_offset = rules.source, item.offset
    elif isinstance(row, Checkpoint):
        _place_times(row, ("start_time", "scheduled_time", "end_time"), item, clock)
        row.source, row.byte_offset = rules.source, item.offset
    elif isinstance(row, Change):
        _place_times(row, ("start_time", "end_time"), item, clock)
        row.cluster = rules.cluster or row.cluster
        row.host = rules.names.of(row.host)
        row.source, row.byte_offset = rules.source, item.offset
        row.change_id = row.change_id or stable_id("k", rules.source, item.offset)
    elif isinstance(row, (Gpu, Host)):
        row.cluster = rules.cluster or row.cluster
        row.host = rules.names.of(row.host) or rules.names.of(rules.host)
        row.valid_from = when.time
    return row


def _place_event(row: EventRow, item: Found, when: Resolved, clock: SourceClock, rules: SourceRules) -> None:
    row.time, row.time_basis, row.time_error_s = when
    row.time_local = item.reading.text
    row.uptime_s = None if item.reading.boot is None else item.reading.boot / SECOND
    row.last_time = when.time
    if item.last is not None:
        row.last_time = clock.resolve(item.offset, item.last).time
    row.cluster = rules.cluster or row.cluster
    row.host = rules.names.of(row.host) or rules.names.of(row.host_raw) or rules.names.of(rules.host)
    row.source = rules.source
    row.byte_offset = item.offset
    row.sources = [f"{rules.source}:{item.offset}"]
    if isinstance(row, SchedulerEvent):
        row.hosts = _names(row.hosts, rules)


def _place_times(row: Session | Change | Checkpoint, columns: tuple[str, ...], item: Found, clock: SourceClock) -> None:
    """Resolve the times of a row that has several; its error is that of the least certain of them."""
    resolved = []
    for name in columns:
        wall = getattr(row, name)
        if wall is not None:
            resolved.append(clock.resolve(item.offset, item.reading._replace(wall=wall)))
            setattr(row, name, resolved[-1].time)
    row.time_basis = resolved[0].basis if resolved else "none"
    row.time_error_s = max((when.error_s for when in resolved if when.error_s is not None), default=None)


def _names(printed: list[str] | None, rules: SourceRules) -> list[str] | None:
    if printed is None:
        return None
    return [name for name in (rules.names.of(host) for host in printed) if name]


def describe_source(rows: Sequence[Row], marks: Sequence[Mark], clock: SourceClock, rules: SourceRules) -> Source:
    """What is said about a source whose rows are known."""
    times = [row.time for row in rows if isinstance(row, EventRow) and row.time is not None]
    times += [t for row in rows if isinstance(row, Session) for t in (row.submit_time, row.end_time) if t is not None]
    times += [t for mark in marks if (t := clock.resolve(mark.offset, mark.reading).time) is not None]
    envelopes = Counter(mark.envelope for mark in marks if mark.envelope != SECTION)
    return Source(
        source=rules.source,
        format=rules.format,
        envelope=min(envelopes, key=lambda name: (-envelopes[name], name)) if envelopes else None,
        timezone=clock.zone_name if clock.has_local else None,
        zone_basis=clock.zone_basis if clock.has_local else None,
        events=len(rows),
        first_time=min(times, default=None),
        last_time=max(times, default=None),
        note=NO_YEAR if clock.lacks_year else None,
    )
