"""Changes: from tables, from Alertmanager, from Grafana; and about which hosts they are."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.column_map import ColumnMap, column_map
from aftershock.parsers.detect import detect
from aftershock.parsers.documents import alertmanager, changes, grafana_annotations
from aftershock.parsers.documents.change_row import MOST_ROWS
from aftershock.parsers.formats import DocumentFormat, Head, Refused
from aftershock.parsers.selfcheck import rows_of_text
from aftershock.schemas.changes import Change

HEADER = "host,start_time,end_time,kind,planned,verdict,by,text\n"
NINE = 1772442000_000000  # 2026-03-02 09:00:00 UTC


def found(data: str, fmt: DocumentFormat = changes.FORMAT) -> list[Change]:
    return [row for row in rows_of_text(data, fmt) if isinstance(row, Change)]


def refusals(data: str, fmt: DocumentFormat = changes.FORMAT) -> list[str]:
    return [i.reason for i in fmt.read(io.BytesIO(data.encode())) if isinstance(i, Refused)]


@pytest.mark.parametrize("host", ["", "all", "ALL", "*", "None"])
def test_no_host_and_all_hosts_are_the_whole_cluster(host):
    (row,) = found(f"{HEADER}{host},2026-03-02T09:00:00Z,,maintenance,yes,,,x\n")
    assert (row.host, row.planned, row.end_time) == (None, True, None)


def test_hosts_that_cannot_be_read_are_not_taken_for_all():
    text = f"{HEADER}gpu[1-,2026-03-02T09:00:00Z,,maintenance,yes,,,x\n-bad,2026-03-02T09:00:00Z,,maintenance,,,,x\n"
    assert found(text) == []
    assert [reason.split(":")[1] for reason in refusals(text)] == [" host is not read", " no name that a host can have"]


def test_days_are_meant_as_a_whole():
    (row,) = found(f"{HEADER}gpu1,2026-03-02,2026-03-02,maintenance,,,,\n")
    assert row.end_time is not None
    assert row.start_time is not None
    assert row.end_time - row.start_time == 86_400_000000


@pytest.mark.parametrize(
    ("word", "kind", "text"),
    [
        ("maintenance", "maintenance", "x"),
        ("Planned Maintenance", "maintenance", "x"),
        ("RMA", "repair", "x"),
        ("driver-change", "driver_change", "x"),
        ("party", "other", "x"),
        ("", "other", "x"),
    ],
)
def test_kinds(word, kind, text):
    (row,) = found(f"{HEADER}gpu1,2026-03-02T09:00:00Z,,{word},,,,{text}\n")
    assert (row.kind, row.text) == (kind, text)


def test_a_kind_that_is_not_known_is_kept_as_text():
    (row,) = found(f"{HEADER}gpu1,2026-03-02T09:00:00Z,,party,,,,\n")
    assert (row.kind, row.text) == ("other", "party")


def test_rows_without_a_number_of_their_own_get_one_from_their_place():
    one, two = found(f"{HEADER}gpu1,2026-03-02T09:00:00Z,,repair,,,,\ngpu1,2026-03-02T09:00:00Z,,repair,,,,\n")
    assert one.change_id
    assert two.change_id
    assert one.change_id != two.change_id


def test_what_is_wrong_is_said_beside_the_row():
    text = f"{HEADER}gpu1,soon,,repair,,,,\ngpu2,2026-03-02T09:00:00Z,2026-03-02T08:00:00Z,repair,perhaps,,,\n"
    (row,) = found(text)
    assert (row.host, row.end_time, row.planned) == ("gpu2", None, None)
    assert refusals(text) == [
        "changes: a change without its start",
        "changes: start_time is not read: not a time",
        "changes: end_time is before start_time",
        "changes: planned is not read: neither true nor false",
    ]


def test_a_map_with_what_holds_for_all_rows():
    mapped = ColumnMap(
        columns=(("host", ("Node",)), ("start_time", ("From",)), ("text", ("Summary", "Title"))),
        values=(("planned", True), ("kind", "maintenance")),
        words=(("swap", "repair"),),
    )
    fmt = changes.FORMAT.mapped(mapped)
    (row,) = found("Node;From;Summary;Title\ngpu1;2026-03-02T09:00:00Z;;risers\n", fmt)
    assert (row.planned, row.kind, row.text) == (True, "maintenance", "risers")


def test_lists_of_hosts_are_bounded_over_the_whole_file():
    line = "n[1-60000],2026-03-02T09:00:00Z,,repair,,,,\n"
    items = list(changes.FORMAT.read(io.BytesIO((HEADER + line * 12).replace("n[1-60000]", '"n[1-60000]"').encode())))
    assert sum(not isinstance(item, Refused) for item in items) <= MOST_ROWS
    assert [item.reason for item in items if isinstance(item, Refused)] == [
        "changes: host is not read: host list stands for more than 20000 hosts"
    ] * 4


def alert(**more) -> dict:
    given = {"labels": {"alertname": "A", "instance": "gpu7:9400"}, "annotations": {}, "fingerprint": "f"}
    return given | {"startsAt": "2026-03-02T09:00:00Z", "endsAt": "2026-03-02T09:05:00Z"} | more


def silence(*matchers: tuple[str, str, bool], **more) -> dict:
    given = {"id": "s", "createdBy": "ops", "comment": "c", "updatedAt": "2026-03-02T09:00:00Z"}
    named = [{"name": n, "value": v, "isRegex": r} for n, v, r in matchers]
    return given | {"startsAt": "2026-03-02T09:00:00Z", "endsAt": "2026-03-02T10:00:00Z", "matchers": named} | more


def of_alertmanager(*records: dict, mapped: ColumnMap | None = None) -> list[Change]:
    return found(json.dumps(list(records)), alertmanager.FORMAT.mapped(mapped))


def test_an_active_alert_has_no_end_and_a_resolved_one_has():
    active, resolved, over = of_alertmanager(
        alert(updatedAt="2026-03-02T09:01:00Z", status={"state": "active"}),
        alert(status="resolved"),
        alert(updatedAt="2026-03-02T09:06:00Z"),
    )
    assert [row.end_time for row in (active, resolved, over)] == [None, NINE + 300_000000, NINE + 300_000000]
    assert {row.planned for row in (active, resolved, over)} == {None}


@pytest.mark.parametrize(
    ("labels", "host"),
    [
        ({"instance": "gpu7:9400"}, "gpu7"),
        ({"instance": "10.0.0.7:9400"}, "10.0.0.7"),
        ({"instance": "x:9400", "node": "gpu8.example.org"}, "gpu8"),
        ({"instance": "http://x/"}, None),
        ({"job": "dcgm"}, None),
    ],
)
def test_the_host_of_an_alert(labels, host):
    assert [row.host for row in of_alertmanager(alert(labels={"alertname": "A", **labels}))] == [host]


def test_silences_name_hosts_by_name_and_by_lists():
    def hosts(*matchers):
        return [row.host for row in of_alertmanager(silence(*matchers))]

    assert hosts(("node", "gpu1", False)) == ["gpu1"]
    assert hosts(("instance", "(gpu1|gpu2):.*", True)) == ["gpu1", "gpu2"]
    assert hosts(("instance", "gpu1:9400|gpu2:9400", True)) == ["gpu1", "gpu2"]
    assert hosts(("alertname", "DiskFull", False)) == [None]
    text = json.dumps([silence(("instance", "gpu[0-9]+", True))])
    assert found(text, alertmanager.FORMAT) == []
    assert refusals(text, alertmanager.FORMAT) == ["alertmanager: hosts that only a pattern tells: gpu[0-9]+"]


def test_only_a_silence_that_was_made_ahead_is_planned():
    early = silence(("node", "gpu1", False), updatedAt="2026-03-01T09:00:00Z")
    now = silence(("node", "gpu1", False))
    general = silence(("alertname", "A", False), updatedAt="2026-03-01T09:00:00Z", comment="maintenance")
    assert [(r.planned, r.kind) for r in of_alertmanager(early, now, general)] == [
        (True, "other"),
        (None, "other"),
        (None, "other"),
    ]


def test_what_is_stated_for_all_does_not_reach_what_names_no_host():
    stated = ColumnMap(values=(("planned", True),))
    rows = of_alertmanager(silence(("node", "gpu1", False)), silence(("alertname", "A", False)), mapped=stated)
    assert [(row.host, row.planned) for row in rows] == [("gpu1", True), (None, None)]


def test_another_label_may_hold_the_host():
    mapped = column_map({"host": "machine"})
    assert [r.host for r in of_alertmanager(alert(labels={"alertname": "A", "machine": "m1"}), mapped=mapped)] == ["m1"]


def test_exports_are_recognised():
    for text, name in (
        (json.dumps([alert()]), "alertmanager"),
        (json.dumps({"status": "success", "data": [alert()]}), "alertmanager"),
        (json.dumps([silence(("node", "a", False))]), "alertmanager"),
        (json.dumps([{"id": 1, "time": 1772442000000, "timeEnd": 0, "text": "x", "tags": []}]), "grafana_annotations"),
    ):
        assert detect(Head("x.json", text.encode())).format == name


def of_grafana(mapped: ColumnMap | None = None, **members) -> list[Change]:
    given = {"id": 1, "time": 1772442000000, "timeEnd": 1772445600000, "text": "x", "tags": []}
    return found(json.dumps([given | members]), grafana_annotations.FORMAT.mapped(mapped))


def test_tags_of_annotations_tell_hosts_kind_and_plan():
    rows = of_grafana(tags=["maintenance", "host=gpu[1-2]", "planned"])
    assert [(r.host, r.kind, r.planned, r.start_time) for r in rows] == [
        ("gpu1", "maintenance", True, NINE),
        ("gpu2", "maintenance", True, NINE),
    ]
    (verdict,) = of_grafana(tags=["verdict", "node:gpu1"], text="bad riser")
    assert (verdict.kind, verdict.verdict) == ("verdict", "bad riser")
    (ruled,) = of_grafana(tags=["node:gpu1", "maintenance"], newState="Alerting")
    assert ruled.kind == "alert"


def test_an_annotation_without_a_host_says_nothing_about_hosts_unless_that_is_stated():
    (row,) = of_grafana(tags=["maintenance", "planned"])
    assert (row.host, row.kind, row.planned) == (None, "other", None)
    (row,) = of_grafana(ColumnMap(values=(("host", "all"),)), tags=["maintenance", "planned"])
    assert (row.host, row.kind, row.planned) == (None, "maintenance", True)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["labels", "matchers", "startsAt", "endsAt", "time", "tags", "text"]), JSON))
def test_any_object_gives_rows_or_refusals(record):
    text = json.dumps([record])
    for fmt in (alertmanager.FORMAT, grafana_annotations.FORMAT):
        assert found(text, fmt) or refusals(text, fmt)
