"""Grafana annotations, as its API exports them.

    [{"id": 7, "time": 1772442000000, "timeEnd": 1772470800000, "text": "switch firmware", "login": "ops",
      "tags": ["maintenance", "node:gpu007"]}]

Documented at https://grafana.com/docs/grafana/latest/developers/http_api/annotations/ (GET /api/annotations). A tag
``node:gpu007`` or ``host=gpu[001-004]`` names hosts; which words stand for a host, ``[sources.columns] host`` tells in
the configuration. Tags also tell the kind (maintenance, repair, driver_change, ticket, verdict) and ``planned`` or
``unplanned``. What an alert rule wrote is an alert. An annotation without a host may be about anything that its
dashboard shows: it is of kind ``other``, unless ``[sources.values] host = "all"`` says that it is about the whole
cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Final

from aftershock.parsers.column_map import ColumnMap
from aftershock.parsers.documents.cell_values import CellClock, hosts_cell, text_cell, time_cell, truth_cell
from aftershock.parsers.documents.change_row import ALL_HOSTS, ChangeRows, Told, kind_of
from aftershock.parsers.documents.json_elements import Element
from aftershock.parsers.documents.json_records import json_start, load_record, records_of, text_member
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.parsers.hostlist import CAP

HOST_TAGS: Final = ("node", "host", "hostname", "instance")
_MARKS: Final = (b'"timeEnd"', b'"tags"', b'"text"', b'"time"')
_MOST_TAGS: Final = 1000


def detects(head: Head) -> float:
    """Sure of objects that have the members of an annotation."""
    start = json_start(head.data)
    return 0.85 if all(mark in start for mark in _MARKS) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The annotations, hosts under their usual tags."""
    yield from read_mapped(stream, ColumnMap())


def read_mapped(stream: BinaryIO, column_map: ColumnMap) -> Iterator[Found | Refused]:
    """The annotations, hosts under the tags that a map names."""
    rows = ChangeRows("grafana_annotations")
    for element in records_of(stream, ("annotations", "data")):
        if isinstance(element, Refused):
            yield element._replace(reason=f"grafana_annotations: {element.reason}")
            continue
        record = load_record(element)
        if record is None or not isinstance(record.get("tags") or [], list) or "time" not in record:
            yield rows.refused(element.offset, element.data, "no annotation")
            continue
        yield from _rows(record, element, column_map, rows)


def _rows(
    record: Mapping[str, Any], element: Element, mapped: ColumnMap, rows: ChangeRows
) -> Iterator[Found | Refused]:
    try:
        told = _told(record, mapped)
    except ValueError as error:
        yield rows.refused(element.offset, element.data, str(error))
        return
    yield from rows.of(told, element.offset, element.data)


def _told(record: Mapping[str, Any], mapped: ColumnMap) -> Told:
    stated = dict(mapped.values)
    tags = [tag for item in (record.get("tags") or [])[:_MOST_TAGS] if (tag := text_cell(item)) is not None]
    hosts = _hosts(tags, dict(mapped.columns).get("host", HOST_TAGS))
    start, end = _clock(record, "time"), _clock(record, "timeEnd")
    if start is not None and end is not None and end.wall == start.wall:
        end = None  # a moment
    is_alert = bool(text_member(record, "newState")) or bool(text_member(record, "alertName"))
    words = dict(mapped.words)
    kinds = [kind for tag in tags if (kind := words.get(tag.lower()) or kind_of(tag))]
    kind = "alert" if is_alert else next(iter(kinds), "other")
    planned = truth_cell(stated.get("planned"))
    if planned is None:
        said = {tag.lower() for tag in tags}
        planned = True if "planned" in said else False if "unplanned" in said else None
    if hosts is None and str(stated.get("host", "")).lower() not in ALL_HOSTS:
        kind, planned = ("alert" if kind == "alert" else "other"), None
    else:
        kind = kind_of(text_cell(stated.get("kind"))) or kind
    text = text_member(record, "text")
    return Told(
        hosts=hosts,
        start=start,
        end=end,
        kind=kind,
        change_id=text_cell(record.get("id")),
        cluster=text_cell(stated.get("cluster")),
        planned=planned,
        verdict=text if kind == "verdict" else None,
        by=text_member(record, "login") or text_member(record, "userName") or text_cell(stated.get("by")),
        text=" ".join(part for part in (text, f"[{', '.join(tags)}]" if tags else "") if part) or None,
    )


def _hosts(tags: list[str], names: tuple[str, ...]) -> list[str] | None:
    """The hosts that tags name; None if none does."""
    found: list[str] = []
    lower = {name.lower() for name in names}
    for tag in tags:
        for mark in (":", "="):
            name, separator, value = tag.partition(mark)
            if separator and name.strip().lower() in lower:
                found += hosts_cell(value) or []
                break
        if len(found) > CAP:
            raise ValueError(f"tags that name more than {CAP} hosts")
    return list(dict.fromkeys(found)) or None


def _clock(record: Mapping[str, Any], key: str) -> CellClock | None:
    try:
        return time_cell(record.get(key), "ms")
    except ValueError as error:
        raise ValueError(f"{key} is not read: {error}") from error


FORMAT: Final = DocumentFormat(
    name="grafana_annotations",
    doc="Annotations of Grafana, as its API exports them: a row of `changes` for each and its hosts.",
    url="https://grafana.com/docs/grafana/latest/developers/http_api/annotations/",
    tables=("changes",),
    detects=detects,
    read=read,
    read_mapped=read_mapped,
    samples=(
        Sample(
            '[{"id":7,"alertId":0,"dashboardUID":"abc","panelId":2,"login":"ops","newState":"","prevState":"",'
            '"time":1772442000000,"timeEnd":1772470800000,"text":"switch firmware","tags":["maintenance",'
            '"node:gpu007"]},'
            '{"id":8,"time":1772442000000,"timeEnd":1772442000000,"text":"dashboard moved","tags":["maintenance"],'
            '"login":"ops"}]\n',
            (
                expect(
                    "changes",
                    change_id="7",
                    host="gpu007",
                    kind="maintenance",
                    by="ops",
                    start_time=1772442000000000,
                    end_time=1772470800000000,
                    planned=None,
                    text="switch firmware [maintenance, node:gpu007]",
                ),
                expect("changes", change_id="8", host=None, kind="other", end_time=None),
            ),
        ),
    ),
    non_samples=(
        '[{"id":7,"text":"no time","tags":[]}]\n',
        '[{"time":"soon","timeEnd":0,"text":"x","tags":[]}]\n',
        '{"time":1772442000000,"tags":"maintenance","text":"x","timeEnd":1772442000000}\n',
    ),
)
