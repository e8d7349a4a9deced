"""Alertmanager: its alerts and silences as its API, ``amtool -o json`` and its webhook write them.

    [{"labels": {"alertname": "GpuXid", "instance": "gpu007:9400"}, "annotations": {"summary": "Xid 79"}, "startsAt":
      "2026-03-02T07:08:09.000Z", "endsAt": "...", "fingerprint": "0a1b", "status": {"state": "active", ...}}]
    [{"id": "7f00...", "matchers": [{"name": "instance", "value": "gpu007:9400", "isRegex": false}], "startsAt": "...",
      "endsAt": "...", "createdBy": "ops", "comment": "replace riser", "status": {"state": "expired"}}]

Documented at https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml (GET /alerts, GET /silences). The
host is the value of the first of these labels: node, host, hostname, nodename, instance (without its port); another one
is named in the configuration, ``[sources.columns] host = "label"``. While an alert is active its end is only the moment
at which it would be forgotten, so it has none. A silence that was made ahead of its start is planned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final

from aftershock.parsers.clock import MINUTE
from aftershock.parsers.column_map import ColumnMap
from aftershock.parsers.documents.cell_values import CellClock, text_cell, time_cell, truth_cell
from aftershock.parsers.documents.change_row import ALL_HOSTS, ChangeRows, Told, kind_of
from aftershock.parsers.documents.json_elements import Element
from aftershock.parsers.documents.json_records import json_start, load_record, member, records_of, text_member
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect

HOST_LABELS: Final = ("node", "host", "hostname", "Hostname", "nodename", "kubernetes_node", "instance")

_ROW_KEYS: Final = ("data", "alerts", "silences")
_ALERT: Final = re.compile(rb'"labels"\s*:\s*\{')
_SILENCE: Final = re.compile(rb'"matchers"\s*:\s*\[')
_TIMES: Final = re.compile(rb'"startsAt"\s*:\s*"\d{4}-')
_PORT: Final = re.compile(r"\[?(?P<host>[A-Za-z0-9_][A-Za-z0-9_.-]{0,252})\]?(?::[0-9]{1,5})?\Z")
# A pattern that is a list of names: (gpu001|gpu002)(:.*)? and the like.
_NAMES: Final = re.compile(
    r"\^?\(?(?P<names>[A-Za-z0-9_.-]{1,253}(?::[0-9]{1,5})?(?:\|[A-Za-z0-9_.-]{1,253}(?::[0-9]{1,5})?){0,4095})\)?"
    r"(?::\.\*|:\.\+|:\[0-9\]\+|:\\d\+|\(:\.\*\)\?|\.\*)?\$?\Z"
)
_LONGEST_PATTERN: Final = 64 << 10
# Made so long before its start it was not made because something had just happened.
_AHEAD: Final = 10 * MINUTE


def detects(head: Head) -> float:
    """Sure of alerts and silences."""
    start = json_start(head.data)
    if not _TIMES.search(start):
        return 0.0
    alert = _ALERT.search(start) and (b'"alertname"' in start or b'"fingerprint"' in start)
    return 0.9 if alert or (_SILENCE.search(start) and b'"createdBy"' in start) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The alerts and silences, the host under its usual labels."""
    yield from read_mapped(stream, ColumnMap())


def read_mapped(stream: BinaryIO, column_map: ColumnMap) -> Iterator[Found | Refused]:
    """The alerts and silences, the host under the labels that a map names for it."""
    rows = ChangeRows("alertmanager")
    reader = _Reader(column_map)
    for element in records_of(stream, _ROW_KEYS):
        if isinstance(element, Refused):
            yield element._replace(reason=f"alertmanager: {element.reason}")
            continue
        record = load_record(element)
        if record is None:
            yield rows.refused(element.offset, element.data, "not JSON")
            continue
        yield from _rows(record, element, reader, rows)


def _rows(record: dict[str, Any], element: Element, reader: _Reader, rows: ChangeRows) -> Iterator[Found | Refused]:
    is_alert, is_silence = isinstance(record.get("labels"), dict), isinstance(record.get("matchers"), list)
    if not (is_alert or is_silence):
        yield rows.refused(element.offset, element.data, "neither an alert nor a silence")
        return
    try:
        told = reader.alert(record) if is_alert else reader.silence(record)
    except ValueError as error:
        yield rows.refused(element.offset, element.data, str(error))
        return
    yield from rows.of(told, element.offset, element.data)


class _Reader:
    """Reads alerts and silences; what the configuration states for all of them goes before what they say."""

    def __init__(self, mapped: ColumnMap) -> None:
        self._labels = dict(mapped.columns).get("host", HOST_LABELS)
        self._stated = dict(mapped.values)
        self._kinds = dict(mapped.words)

    def alert(self, record: Mapping[str, Any]) -> Told:
        """An alert."""
        labels = record["labels"]
        name = text_member(labels, "alertname")
        said = next(
            (t for key in ("summary", "description", "message") if (t := text_member(record, "annotations", key))), ""
        )
        start, end = _clock(record, "startsAt"), _clock(record, "endsAt")
        state = member(record, "status", "state") or record.get("status")
        seen = _clock(record, "updatedAt")
        over = state == "resolved" or (seen is not None and end is not None and end.wall <= seen.wall)
        host = next((h for label in self._labels if (h := _host(labels.get(label))) is not None), None)
        return self._told(
            Told(
                hosts=[host] if host is not None else None,
                start=start,
                end=end if over else None,
                kind="alert",
                change_id=text_member(record, "fingerprint"),
                text=": ".join(part for part in (name, said) if part) or None,
            ),
            member(labels, "cluster"),
        )

    def silence(self, record: Mapping[str, Any]) -> Told:
        """A silence: somebody knew that there would be alerts."""
        start, end, made = (_clock(record, key) for key in ("startsAt", "endsAt", "updatedAt"))
        comment = text_member(record, "comment")
        hosts, clusters = self._matched(record["matchers"])
        ahead = start is not None and made is not None and made.wall + _AHEAD <= start.wall
        return self._told(
            Told(
                hosts=hosts,
                start=start,
                end=end,
                kind=_kind_in(comment),
                change_id=text_member(record, "id"),
                planned=True if ahead and hosts is not None else None,
                by=text_member(record, "createdBy"),
                text=comment,
            ),
            clusters[0] if len(clusters) == 1 else None,
        )

    def _matched(self, matchers: Sequence[Any]) -> tuple[list[str] | None, list[str]]:
        """The hosts that matchers name, None if they name none; and the clusters."""
        hosts: list[str] | None = None
        clusters: list[str] = []
        for matcher in matchers:
            name, value = text_member(matcher, "name"), text_member(matcher, "value")
            if name is None or value is None or member(matcher, "isEqual") is False:
                continue
            is_pattern = member(matcher, "isRegex") is True
            if name == "cluster" and not is_pattern:
                clusters.append(value)
            elif name in self._labels and not (is_pattern and value in (".*", ".+")):
                hosts = _hosts_of_pattern(value) if is_pattern else [_known_host(value)]
        return hosts, clusters

    def _told(self, told: Told, cluster: Any) -> Told:
        """With what is stated for all. Of what names no host nothing is known about all of them."""
        stated = self._stated
        told.cluster = text_cell(stated.get("cluster")) or text_cell(cluster)
        told.by = text_cell(stated.get("by")) or told.by
        if told.hosts is None and str(stated.get("host", "")).lower() not in ALL_HOSTS:
            told.kind, told.planned = ("alert" if told.kind == "alert" else "other"), None
            return told
        told.kind = kind_of(text_cell(stated.get("kind"))) or self._kinds.get(told.kind, told.kind)
        planned = truth_cell(stated.get("planned"))
        told.planned = planned if planned is not None else told.planned
        return told


def _kind_in(comment: str | None) -> str:
    """The kind that the first word of a comment names, if it names one."""
    words = re.findall(r"[a-z]+", (comment or "")[:200].lower())
    return next(
        (kind for word in words if (kind := kind_of(word)) in ("maintenance", "repair", "driver_change")), "other"
    )


def _clock(record: Mapping[str, Any], key: str) -> CellClock | None:
    text = text_cell(record.get(key))
    if text is None or text.startswith("0001-"):  # how Go writes that there is no time
        return None
    try:
        return time_cell(text)
    except ValueError as error:
        raise ValueError(f"{key} is not read: {error}") from error


def _host(value: Any) -> str | None:
    match = _PORT.match(value) if isinstance(value, str) else None
    return match["host"] if match else None


def _known_host(value: str) -> str:
    host = _host(value)
    if host is None:
        raise ValueError(f"no name that a host can have: {value[:64]}")
    return host


def _hosts_of_pattern(pattern: str) -> list[str]:
    match = _NAMES.match(pattern) if len(pattern) <= _LONGEST_PATTERN else None
    if match is None:
        raise ValueError(f"hosts that only a pattern tells: {pattern[:64]}")
    return list(dict.fromkeys(_known_host(name) for name in match["names"].split("|")))


_SAMPLES: Final = (
    Sample(
        '[{"annotations":{"summary":"Xid 79 on gpu 3"},"endsAt":"2026-03-02T07:13:09.000Z","fingerprint":'
        '"00aa11bb22cc33dd","receivers":[{"name":"ops"}],"startsAt":"2026-03-02T07:08:09.000Z","status":{"inhibitedBy":'
        '[],"silencedBy":[],"state":"active"},"updatedAt":"2026-03-02T07:09:09.000Z","labels":{"alertname":"GpuXid",'
        '"instance":"gpu007:9400","cluster":"solar"}}]\n',
        (
            expect(
                "changes",
                kind="alert",
                host="gpu007",
                cluster="solar",
                change_id="00aa11bb22cc33dd",
                start_time=1772435289000000,
                end_time=None,
                text="GpuXid: Xid 79 on gpu 3",
                planned=None,
            ),
        ),
        title="Alerts",
    ),
    Sample(
        '[{"id":"7f000000-0000-4000-8000-000000000001","status":{"state":"expired"},"updatedAt":'
        '"2026-03-01T12:00:00.000Z","comment":"maintenance of the rack","createdBy":"ops","endsAt":'
        '"2026-03-02T17:00:00.000Z","matchers":[{"isEqual":true,"isRegex":true,"name":"instance","value":'
        '"(gpu001|gpu002):.*"}],"startsAt":"2026-03-02T09:00:00.000Z"}]\n',
        (
            expect("changes", kind="maintenance", host="gpu001", planned=True, by="ops", end_time=1772470800000000),
            expect("changes", kind="maintenance", host="gpu002", planned=True),
        ),
        title="Silences",
    ),
)

FORMAT: Final = DocumentFormat(
    name="alertmanager",
    doc="Alerts and silences of Alertmanager, as its API, `amtool` and its webhook write them as JSON: a row of "
    "`changes` for each and its hosts.",
    url="https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml",
    tables=("changes",),
    detects=detects,
    read=read,
    read_mapped=read_mapped,
    samples=_SAMPLES,
    non_samples=(
        '[{"labels":{"alertname":"GpuXid"},"annotations":{}}]\n',
        '[{"matchers":[{"name":"instance","value":"gpu.*[13]","isRegex":true}],"startsAt":"2026-03-02T09:00:00Z",'
        '"createdBy":"ops"}]\n',
        '{"startsAt":"2026-03-02T09:00:00Z","title":"meeting"}\n',
    ),
)
