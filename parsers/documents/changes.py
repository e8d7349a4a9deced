"""Changes and verdicts: what a site wrote down itself, as CSV, JSON lines or Parquet.

    host,start_time,end_time,kind,planned,by,text
    gpu001;gpu002,2026-03-02T09:00:00Z,2026-03-02T17:00:00Z,maintenance,true,ops,switch
    gpu007,2026-03-03T08:00:00Z,,verdict,,mira,riser card; replaced

The columns are those of the table ``changes``; ``host`` and ``start_time`` are needed. An empty host, or ``all``, is
all of the cluster. A day without a time of day begins with its first moment, and ends with its last. Kinds are
maintenance, repair, driver_change, ticket, verdict, alert and other; what is written in ``verdict`` makes a row a
verdict. A table with other names is read with a map:

    [[sources]]
    glob = "ops/maintenance.csv"
    format = "changes"
    timezone = "Asia/Seoul"
    [sources.columns]
    host = "Node"
    start_time = "From"
    end_time = "To"
    text = ["Summary", "Title"]        # the first that is not empty; in JSON "labels.node" goes down
    [sources.kinds]
    "Planned work" = "maintenance"
    [sources.values]                   # the same in every row
    planned = true

Planned changes mark the ends of sessions and the drains that they cover. ``preset = "alertmanager"`` and
``"grafana_annotations"`` read the exports of those two.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

from aftershock.parsers.column_map import CHANGE_COLUMNS, ColumnMap
from aftershock.parsers.documents.cell_values import CellClock, hosts_cell, text_cell, time_cell, truth_cell
from aftershock.parsers.documents.change_row import ALL_HOSTS, ChangeRows, Told, kind_of
from aftershock.parsers.documents.table_layout import Layout
from aftershock.parsers.documents.table_records import MAGICS, TableRecord, looks_like, table_records
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect

_NO_MAP: Final = ColumnMap()
_NEEDS: Final = (("start_time",), ("host",))
# Without a map: a table with hosts and times may be anything, so it has to say what happened, and why.
_OURS: Final = Layout(
    CHANGE_COLUMNS, (*_NEEDS, ("kind", "verdict"), ("planned", "verdict", "by", "text", "change_id")), _NO_MAP, 4
)


def detects(head: Head) -> float:
    """Sure of a header that has our names."""
    return 0.75 if looks_like(head, _OURS) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The changes of a table with our names."""
    yield from _read(stream, _OURS, _NO_MAP)


def read_mapped(stream: BinaryIO, column_map: ColumnMap) -> Iterator[Found | Refused]:
    """The changes of a table with the names of a map."""
    yield from _read(stream, Layout(CHANGE_COLUMNS, _NEEDS, column_map), column_map)


def _read(stream: BinaryIO, layout: Layout, column_map: ColumnMap) -> Iterator[Found | Refused]:
    rows = ChangeRows("changes")
    for record in table_records(stream, layout, "changes"):
        if isinstance(record, Refused):
            yield record
        else:
            yield from _change(record, column_map, rows)


def _change(record: TableRecord, mapped: ColumnMap, rows: ChangeRows) -> Iterator[Found | Refused]:
    values = record.values
    problems: list[str] = []

    def clock(column: str) -> CellClock | None:
        try:
            return time_cell(values.get(column), mapped.time_unit, mapped.time_format)
        except ValueError as error:
            problems.append(f"{column} is not read: {error}")
            return None

    start, end = clock("start_time"), clock("end_time")
    planned = None
    try:
        planned = truth_cell(values.get("planned"))
    except ValueError as error:
        problems.append(f"planned is not read: {error}")
    hosts, problem = _hosts(values.get("host"), mapped, rows.most_hosts)
    if problem is not None:
        # Without its hosts it would be about all of them.
        yield rows.refused(record.offset, record.raw, problem)
        return
    word, verdict = text_cell(values.get("kind")), text_cell(values.get("verdict"))
    kind = dict(mapped.words).get((word or "").lower()) or kind_of(word)
    told = Told(
        hosts=hosts,
        start=start,
        end=end,
        kind=kind or ("verdict" if verdict and word is None else "other"),
        change_id=text_cell(values.get("change_id")),
        cluster=text_cell(values.get("cluster")),
        planned=planned,
        verdict=verdict,
        by=text_cell(values.get("by")),
        text=text_cell(values.get("text")) or (word if kind is None else None),
    )
    yield from rows.of(told, record.offset, record.raw)
    for said in problems:
        yield rows.refused(record.offset, record.raw, said)


def _hosts(value: object, mapped: ColumnMap, most: int) -> tuple[list[str] | None, str | None]:
    """The hosts of a cell, None for all; and what is wrong with it."""
    if isinstance(value, str) and value.strip().lower() in ALL_HOSTS:
        return None, None
    try:
        return hosts_cell(value, mapped.host_separator, most) or None, None
    except ValueError as error:
        return None, f"host is not read: {error}"


_SAMPLES: Final = (
    Sample(
        "change_id,host,start_time,end_time,kind,planned,by,text\n"
        'CHG-7,"gpu[001-002]",2026-03-02T09:00:00Z,2026-03-02T17:00:00Z,maintenance,true,ops,switch firmware\n'
        "CHG-8,all,2026-03-05,2026-03-06,Driver update,yes,ops,driver 560\n",
        (
            expect(
                "changes",
                change_id="CHG-7",
                host="gpu001",
                kind="maintenance",
                planned=True,
                start_time=1772442000000000,
                end_time=1772470800000000,
                by="ops",
            ),
            expect("changes", change_id="CHG-7", host="gpu002"),
            expect(
                "changes",
                host=None,
                kind="driver_change",
                start_time=1772668800000000,
                end_time=1772841600000000,
                time_error_s=86400.0,
            ),
        ),
        title="CSV",
    ),
    Sample(
        '{"host": "gpu007", "start_time": "2026-03-03T08:00:00Z", "verdict": "riser card", "by": "mira"}\n',
        (expect("changes", host="gpu007", kind="verdict", verdict="riser card", by="mira", planned=None),),
        title="JSON: an object a line, or an array of them",
    ),
)

FORMAT: Final = DocumentFormat(
    name="changes",
    doc="A site's own table of maintenance, repairs, driver changes, tickets and verdicts as CSV, JSON lines or "
    f"Parquet: a row of `changes` for each host. Its columns are those of that table: {', '.join(CHANGE_COLUMNS)}; "
    "`host` and `start_time` are needed. Other names are told in the configuration, below a `[[sources]]` with "
    '`format = "changes"`: `[sources.columns]` (our name = theirs), `[sources.kinds]` (their word = our kind), '
    "`[sources.values]` (the same in every row), and beside `glob` `time_unit`, `time_format`, `host_separator`.",
    url="https://www.rfc-editor.org/rfc/rfc4180",
    tables=("changes",),
    detects=detects,
    read=read,
    read_mapped=read_mapped,
    magics=MAGICS,
    binary=True,
    samples=_SAMPLES,
    non_samples=(
        "host,start_time,end_time,colour\ngpu001,2026-03-02T09:00:00Z,2026-03-02T10:00:00Z,red\n",
        "cluster,host,kind,start_time,end_time,state\nsolar,gpu001,kernel,2026-03-02T09:00:00Z,,present\n",
        '{"host": "gpu001", "kind": "maintenance"}\n',
        "host start_time kind text\n",
    ),
)
