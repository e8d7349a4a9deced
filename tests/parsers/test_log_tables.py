"""Exports that are tables: CSV of log stores, rows and columns in JSON; and records of syslog daemons as JSON."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.documents import log_export, log_table
from aftershock.schemas.events import GpuError
from tests.parsers.exported import XID, detected, facts_of, read_all, rows_of

ISO = "2026-03-03T07:15:42.250Z"
AT = 1772522142250000
BARE = [(AT, "n-1")]


def table(*rows: list[str], delimiter: str = ",") -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return out.getvalue()


@pytest.mark.parametrize(
    ("header", "row"),
    [
        (["_serial", "_time", "source", "host", "_raw"], ["0", "2026-03-03 07:15:42.250 UTC", "/x", "n-1", XID]),
        (["_time", "_raw", "host", "user", "action"], [ISO, XID, "n-1", "root", "fail"]),
        (["Date", "Host", "Service", "Content"], [ISO, "n-1", "syslog", XID]),
        (["timestamp", "source", "message"], [ISO, "n-1", XID]),
        (["@timestamp", "host.hostname", "message"], [ISO, "n-1", XID]),
        (["Line", "labels", "timestamp"], [XID, '{"host":"n-1"}', "1772522142250000000"]),
        (["@timestamp", "@message", "@logStream"], ["2026-03-03 07:15:42.250", XID, "n-1"]),
        (["timestamp", "message", "logStreamName"], ["1772522142250", XID, "n-1"]),
        (["EventTime [UTC]", "Computer", "SyslogMessage"], ["3/3/2026, 7:15:42.250 AM", "n-1", XID]),
        (["insertId", "textPayload", "timestamp", 'labels."compute.googleapis.com/resource_name"'], ["a", XID, ISO, "n-1"]),
    ],
)  # fmt: skip
def test_rows_of_stores(header: list[str], row: list[str]) -> None:
    for delimiter in (",", ";", "\t"):
        text = table(header, row, delimiter=delimiter)
        assert detected(text).format == "log_table"
        assert facts_of(text, "time", "host") == BARE
        assert facts_of("\ufeff" + text.replace("\n", "\r\n"), "time", "host") == BARE


def test_a_line_says_more_than_its_row() -> None:
    text = table(
        ["_time", "_raw", "host"],
        [ISO, f"Mar  3 07:15:40 n-2 kernel: {XID}", "collector"],
        [ISO, f"2026-03-03T07:15:41+00:00 n-3 kernel: {XID}", "collector"],
        [ISO, f"<13>Mar  3 07:15:40 n-2 ops: {XID}", "collector"],
    )
    assert [row.host for row in rows_of(text)] == ["n-2", "n-3"]


def test_hours_of_the_portal() -> None:
    text = table(
        ["TimeGenerated [UTC]", "Computer", "SyslogMessage"],
        ["3/1/2026, 12:00:00 AM", "n-1", XID],
        ["3/1/2026, 12:00:00.5 PM", "n-1", XID],
    )
    assert facts_of(text, "time") == [(1772323200000000,), (1772366400500000,)]


def test_a_record_that_is_torn_is_refused_and_the_next_is_read() -> None:
    good = table([ISO, XID, "n-1"])
    text = f'_time,_raw,host\n{ISO},"{XID}\n{good}'
    rows, result = read_all(text)
    assert [(row.time, row.host) for row in rows if isinstance(row, GpuError)] == BARE
    assert [name for name, _ in result.refused] == ["log_table"]


@pytest.mark.parametrize("indent", [None, 1])
def test_tables_in_json(indent: int | None) -> None:
    names, rows = ["_time", "host", "_raw"], [[ISO, "n-1", XID], [ISO, "n-2", "usb 1-1: new device"]]
    columns = [{"name": name, "type": "string"} for name in ("@timestamp", "host", "message")]
    for value in (
        {"preview": False, "fields": names, "rows": rows},
        {"preview": False, "fields": [{"name": name} for name in names], "rows": rows},
        {"preview": False, "fields": names, "columns": [list(column) for column in zip(*rows, strict=True)]},
        {"took": 3, "columns": columns, "values": rows},
        {"columns": columns, "rows": rows},
        {"tables": [{"name": "PrimaryResult", "columns": columns, "rows": rows}]},
    ):
        text = json.dumps(value, indent=indent)
        assert detected(text).format == "log_export", text
        assert facts_of(text, "time", "host") == BARE, text


def test_a_table_of_any_length_is_read_row_by_row() -> None:
    rows = [[ISO, f"n-{number}", XID if number % 1000 == 0 else "x" * 300] for number in range(8000)]
    text = json.dumps({"fields": ["_time", "host", "_raw"], "rows": rows})
    assert facts_of(text, "host") == [(f"n-{number}",) for number in range(0, 8000, 1000)]


def test_columns_as_long_as_a_record_are_read_and_longer_ones_refused() -> None:
    columns = [[ISO] * 2000, ["n-1"] * 2000, [XID] * 2000]
    assert (
        facts_of(json.dumps({"fields": ["_time", "host", "_raw"], "columns": columns}), "time", "host") == BARE * 2000
    )
    columns = [[ISO] * 20000, ["n-1"] * 20000, [XID] * 20000]
    rows, result = read_all(json.dumps({"fields": ["_time", "host", "_raw"], "columns": columns}))
    assert rows == []
    assert [refused.reason for _, refused in result.refused] == ["log_export: log lines in an array without names"]


@pytest.mark.parametrize(
    "record",
    [
        {"msg": f" {XID}", "rawmsg": f"<3>Mar  3 07:15:42 n-1 kernel: {XID}", "timereported": ISO, "hostname": "n-1", "programname": "kernel", "syslogfacility": "0"},
        {"MESSAGE": XID, "HOST": "n-1", "PROGRAM": "kernel", "ISODATE": ISO, "DATE": "Mar  3 07:15:42"},
        {"Computer": "n-1", "Facility": "kern", "SyslogMessage": XID, "ProcessName": "kernel", "TimeGenerated": ISO},
    ],
)  # fmt: skip
def test_records_of_syslog_daemons(record: dict[str, str]) -> None:
    for text in (json.dumps(record), json.dumps([record], indent=2)):
        assert facts_of(text, "time", "host", "trust") == [(AT, "n-1", "kernel")]


def test_dmesg_in_json() -> None:
    def dump(*times: object) -> str:
        records = ",".join(f'{{"pri":4,"time":{json.dumps(time)},"msg":"{XID}"}}' for time in times)
        return f'{{\n   "dmesg": [\n      {records}\n   ]\n}}\n'

    assert detected(dump(77.5)).format == "log_export"
    assert facts_of(dump(77.000001, 78.5), "time", "uptime_s", "trust") == [
        (None, 77.000001, "kernel"),
        (None, 78.5, "kernel"),
    ]
    assert facts_of(dump("2026-03-03T07:15:42,250000+00:00"), "time") == [(AT,)]
    assert facts_of(dump("[Tue Mar  3 07:15:42 2026]", "x"), "time_local") == [("Tue Mar  3 07:15:42 2026",), (None,)]
    by_user = dump(77.5).replace('"pri":4', '"fac":"user","pri":"warn"')
    assert facts_of(by_user, "uptime_s", "trust") == [(77.5, "user")]


def test_the_whole_of_a_message_before_its_beginning() -> None:
    record = {"host": "n-1", "short_message": XID[:30], "full_message": XID, "timestamp": AT / 1e6}
    assert facts_of(json.dumps(record), "time", "host", "message") == [(AT, "n-1", XID)]


def test_an_array_of_bytes_within_text_within_json() -> None:
    entry = {"__REALTIME_TIMESTAMP": str(AT), "_TRANSPORT": "kernel", "MESSAGE": list(XID.encode()), "_HOSTNAME": "n-1"}
    compact = json.dumps(entry, separators=(",", ":"))
    docker = json.dumps({"log": compact + "\n", "stream": "stdout", "time": "2026-03-03T07:20:00Z"})
    loki = json.dumps({"streams": [{"stream": {"host": "n-9"}, "values": [[str(AT * 1000 + 7), compact]]}]})
    assert facts_of(docker, "time", "host") == BARE
    assert [time for time, _ in facts_of(loki, "time", "host")] == [AT]


@settings(deadline=None)
@given(st.lists(st.lists(st.text(max_size=12) | st.just(XID) | st.just(ISO), max_size=4), max_size=6))
def test_arbitrary_cells_never_raise(cells: list[list[str]]) -> None:
    head = ["_time", "host", "_raw"]
    for data in (table(head, *cells), json.dumps({"fields": head, "rows": cells, "columns": cells})):
        list(log_table.FORMAT.read(io.BytesIO(data.encode("utf-8", "replace"))))
        list(log_export.FORMAT.read(io.BytesIO(data.encode("utf-8", "replace"))))
