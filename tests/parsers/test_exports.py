"""Kernel lines in every way that fleet logs are exported: the same event in all of them, at the time that is its own."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.clock import SECOND
from aftershock.parsers.documents import host_blocks, log_export, nvidia_bug_report
from aftershock.parsers.formats import DocumentFormat
from aftershock.parsers.selfcheck import problems_of
from aftershock.schemas.events import GpuError
from tests.parsers.exported import XID, detected, facts_of, read_all, rows_of

EPOCH = 1_772_452_800_250_000  # 2026-03-02T12:00:00.25Z
ISO = "2026-03-02T12:00:00.25Z"
MS, NS = EPOCH // 1000, EPOCH * 1000
BARE = (EPOCH, "n-1")  # the time and the host are those of the store


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def hit(**source: Any) -> dict[str, Any]:
    return {"_index": "logs", "_id": "1", "_source": source}


def loki(labels: dict[str, str], *entries: list[Any]) -> dict[str, Any]:
    result = [{"stream": labels, "values": list(entries)}]
    return {"status": "success", "data": {"resultType": "streams", "result": result, "stats": {}}}


HOST = {"host": "n-1", "job": "kern"}
KUBE = {"pod_name": "dmesg-x", "container_name": "c", "host": "n-1"}
ENTRY = {"__REALTIME_TIMESTAMP": str(EPOCH), "_HOSTNAME": "n-1", "_TRANSPORT": "kernel"}
OTLP = {
    "resourceLogs": [
        {
            "resource": {"attributes": [{"key": "host.name", "value": {"stringValue": "n-1"}}]},
            "scopeLogs": [{"logRecords": [{"timeUnixNano": str(NS), "body": {"stringValue": XID}}]}],
        }
    ]
}

# name, text, (time, host)
RECORDS: list[tuple[str, str, tuple[int | None, str | None]]] = [
    # the journal
    ("short-full", f"Mon 2026-03-02 12:00:00.250000 UTC n-1 kernel: {XID}", BARE),
    ("short-unix", f"{EPOCH / 1e6:.6f} n-1 kernel: {XID}", BARE),
    ("short-monotonic", f"[ 4117.304981] n-1 kernel: {XID}", (None, "n-1")),
    ("short-delta", f"[ 4117.304981 <    0.000123 >] n-1 kernel: {XID}", (None, "n-1")),
    ("with-unit", f"Mon 2026-03-02 12:00:00.250000 UTC n-1 kernel: {XID}", BARE),
    ("verbose", f"Mon 2026-03-02 12:00:00.250000 KST [s=0b;i=2;b=ff;m=12d687;t={EPOCH:x};x=5]\n    _TRANSPORT=kernel\n    _HOSTNAME=n-1\n    MESSAGE={XID}\n    _BOOT_ID=1", BARE),
    ("export", f"__CURSOR=s=1\n__REALTIME_TIMESTAMP={EPOCH}\nMESSAGE={XID}\n_TRANSPORT=kernel\n_HOSTNAME=n-1\n", BARE),
    ("json-pretty", json.dumps({**ENTRY, "MESSAGE": XID}, indent=8), BARE),
    ("json-seq", "\x1e" + compact({**ENTRY, "MESSAGE": XID}), BARE),
    ("json-sse", f"data: {compact({**ENTRY, 'MESSAGE': XID})}\n", BARE),
    ("array", compact({**ENTRY, "MESSAGE": list(XID.encode())}), BARE),
    ("array in pretty JSON", json.dumps({**ENTRY, "MESSAGE": list(XID.encode())}, indent=1), BARE),
    # Loki
    ("loki answer", compact(loki(HOST, [str(NS), XID])), BARE),
    ("loki answer over lines", json.dumps(loki(HOST, [str(NS), XID, {"k": "v"}]), indent=2), BARE),
    ("loki push", compact({"streams": loki(HOST, [str(NS), XID])["data"]["result"]}), BARE),
    ("loki old push", compact({"streams": [{"labels": '{host="n-1"}', "entries": [{"ts": ISO, "line": XID}]}]}), BARE),
    ("loki of a pod", compact(loki({"node": "n-1", "pod": "p"}, [str(NS), XID])), (None, "n-1")),
    ("logcli", f'{ISO} {{host="n-1", job="kern"}} {XID}', BARE),
    ("logcli without labels", f"{ISO} {{}} {XID}", (EPOCH, None)),
    ("logcli of a pod", f'{ISO} {{container="c", node="n-1"}} {XID}', (None, "n-1")),
    ("logcli jsonl", compact({"labels": HOST, "line": XID, "timestamp": ISO}), BARE),
    ("logcli raw", XID, (None, None)),
    ("grafana", f"{ISO}\t{XID}", (EPOCH, None)),
    # Elasticsearch, OpenSearch
    ("elasticdump", compact(hit(**{"@timestamp": ISO, "message": XID, "host": {"name": "n-1"}})), BARE),
    ("elasticdump, flat", compact(hit(**{"@timestamp": ISO, "message": XID, "host.name": "n-1"})), BARE),
    ("elasticdump, original", compact(hit(**{"@timestamp": MS, "log": {"original": XID}, "hostname": "n-1"})), BARE),
    ("search", compact({"took": 1, "hits": {"total": {"value": 1}, "hits": [hit(**{"@timestamp": ISO, "message": XID, "host": "n-1"})]}}), BARE),
    ("search, fields", json.dumps({"took": 1, "hits": {"hits": [{"_index": "i", "fields": {"@timestamp": [ISO], "message": [XID], "host.name": ["n-1"]}}]}}, indent=2), BARE),
    ("search, pods", compact({"hits": {"hits": [hit(**{"@timestamp": ISO, "message": XID, "kubernetes": {"node": {"name": "n-1"}, "pod": {"name": "p"}}})]}}), (None, "n-1")),
    ("journalbeat", compact(hit(**{"@timestamp": ISO, "message": XID, "host": {"hostname": "n-1"}, "syslog": {"identifier": "kernel"}})), BARE),
    # CloudWatch, EKS
    ("filter-log-events", json.dumps({"events": [{"logStreamName": "n-1", "timestamp": MS, "message": XID, "ingestionTime": MS + 9, "eventId": "3"}], "searchedLogStreams": []}, indent=4), BARE),
    ("get-log-events", compact({"events": [{"timestamp": MS, "message": XID, "ingestionTime": MS}], "nextForwardToken": "f/1"}), (EPOCH, None)),
    ("subscription", compact({"messageType": "DATA_MESSAGE", "logGroup": "/g", "logStream": "n-1", "logEvents": [{"id": "1", "timestamp": MS, "message": XID}]}), BARE),
    ("insights", compact({"results": [[{"field": "@timestamp", "value": "2026-03-02 12:00:00.250"}, {"field": "@message", "value": XID}]]}), (EPOCH, None)),
    ("container insights", compact({"log": XID + "\n", "stream": "stderr", "kubernetes": KUBE}), (None, "n-1")),
    ("container insights in events", compact({"events": [{"timestamp": MS, "message": compact({"log": XID, "stream": "stdout", "kubernetes": KUBE})}]}), (None, "n-1")),
    ("host of container insights", compact({"host": "n-1", "ident": "kernel", "message": XID, "az": "a"}), (None, "n-1")),
    # Splunk
    ("splunk", compact({"preview": False, "result": {"_raw": XID, "_time": ISO, "host": "n-1"}}), BARE),
    ("splunk, epoch", compact({"preview": False, "offset": 1, "result": {"_raw": XID, "_time": f"{MS / 1000:.3f}", "host": "n-1"}}), BARE),
    ("splunk results", json.dumps({"results": [{"_raw": XID, "_time": "2026-03-02 12:00:00.250 UTC", "host": "n-1"}]}, indent=1), BARE),
    ("splunk collector", compact({"time": MS / 1000, "host": "n-1", "sourcetype": "kern", "event": XID}), BARE),
    # Fluent Bit, Fluentd, Vector
    ("fluent json_lines", compact({"date": MS / 1000, "log": XID, "host": "n-1"}), BARE),
    ("fluent journal", compact({"date": ISO, "MESSAGE": XID, "_HOSTNAME": "n-1", "_TRANSPORT": "kernel"}), BARE),
    ("fluent pair", compact([MS / 1000, {"log": XID, "hostname": "n-1"}]), BARE),
    ("fluent pair with metadata", compact([[MS / 1000, {}], {"message": XID, "hostname": "n-1"}]), BARE),
    ("fluent kmsg", compact({"date": MS / 1000, "priority": 3, "sequence": 1, "sec": 12, "usec": 5, "msg": XID, "host": "n-1"}), BARE),
    ("fluent stdout", f'[0] kmsg.0: [{MS / 1000:.9f}, {{"priority"=>3, "sec"=>12, "usec"=>5, "msg"=>"{XID}", "host"=>"n-1"}}]', BARE),
    ("fluentd file", f"{ISO}\tkern.log\t{compact({'message': XID, 'host': 'n-1'})}", BARE),
    ("vector", compact({"message": XID, "timestamp": ISO, "host": "n-1", "source_type": "journald"}), BARE),
    ("vector, pods", compact({"message": XID, "timestamp": ISO, "source_type": "kubernetes_logs", "kubernetes": {"pod_node_name": "n-1", "pod_name": "p"}}), (None, "n-1")),
    # others
    ("gcloud", json.dumps([{"jsonPayload": {"message": XID}, "timestamp": ISO, "resource": {"labels": {"node_name": "n-1"}}}], indent=2), BARE),
    ("gcp line", compact({"textPayload": XID, "timestamp": ISO, "labels": {"compute.googleapis.com/resource_name": "n-1"}}), BARE),
    ("gcp, containers", compact({"textPayload": XID, "timestamp": ISO, "resource": {"type": "k8s_container", "labels": {"node_name": "n-1", "pod_name": "p"}}}), (None, "n-1")),
    ("datadog", compact({"data": [{"type": "log", "attributes": {"message": XID, "timestamp": ISO, "host": "n-1"}}]}), BARE),
    ("open telemetry", compact(OTLP), BARE),
    ("victoria logs", compact({"_msg": XID, "_time": ISO, "_stream": '{host="n-1"}'}), BARE),
    ("gelf", compact({"version": "1.1", "short_message": XID, "timestamp": MS / 1000, "host": "n-1", "level": 3}), BARE),
    # labels of commands
    ("srun", f"0: {XID}", (None, None)),
    ("srun and pdsh", f"12: n-1: [   52.731904] {XID}", (None, "n-1")),
    ("pdsh and the journal", f"n-1: {compact({**ENTRY, 'MESSAGE': XID})}", BARE),
    ("kubectl --prefix", f"[pod/dmesg-7xk2p/main] [   52.731904] {XID}", (None, None)),
    ("stern", f"dmesg-7xk2p main [   52.731904] {XID}", (None, None)),
    ("ansible -o", f"n-1 | CHANGED | rc=0 | (stdout) [   52.731904] {XID}", (None, "n-1")),
    ("clush -b", f"---------------\nn-1\n---------------\n[   52.731904] {XID}", (None, "n-1")),
    ("ansible", f"n-1 | CHANGED | rc=0 >>\n[   52.731904] {XID}", (None, "n-1")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "wanted"), RECORDS, ids=[name for name, _, _ in RECORDS])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_one_event_at_its_own_time(name: str, text: str, wanted: tuple[int | None, str | None], end: str) -> None:
    text = text.replace("\n", end) + end
    wanted_row = (31, "0000:9d:00.0", 7, "a.out", 1, *wanted, XID)
    assert facts_of(text, "code", "pci", "pid", "process", "count", "time", "host", "message") == [wanted_row], name


@pytest.mark.parametrize("fmt", [log_export.FORMAT, nvidia_bug_report.FORMAT, host_blocks.FORMAT], ids=lambda f: f.name)
def test_samples_prove_the_format(fmt: DocumentFormat) -> None:
    assert problems_of(fmt) == []


def test_what_stands_inside_the_line_wins() -> None:
    inner = f"2026-03-02T11:59:58.000000+00:00 n-7 kernel: [ 4117.304981] {XID}"
    for text in (
        compact(loki(HOST, [str(NS), inner])),
        compact(hit(**{"@timestamp": ISO, "message": inner, "host": {"name": "loghost"}})),
        compact({"preview": False, "result": {"_raw": inner, "_time": ISO, "host": "loghost"}}),
        f'{ISO} {{host="loghost"}} {inner}',
    ):
        assert facts_of(text + "\n", "time", "host", "trust") == [(EPOCH - 2_250_000, "n-7", "kernel")]


def test_a_year_and_a_zone_are_known_by_the_time_of_the_store() -> None:
    inner = f"Mar  2 21:00:00 n-7 kernel: {XID}"
    rows = rows_of(compact({"preview": False, "result": {"_raw": inner, "_time": ISO, "host": "n-7"}}) + "\n")
    assert [(r.time, r.time_basis) for r in rows if isinstance(r, GpuError)] == [(EPOCH - 250_000, "inferred_zone")]


def test_the_clock_since_boot_stands_beside_the_time_of_the_store() -> None:
    pair = [
        compact({"date": MS / 1000, "log": f"[   10.000000] {XID}", "host": "n-1"}),
        f"[   12.000000] n-1 kernel: {XID}",
    ]
    assert facts_of("\n".join(pair) + "\n", "time", "time_basis") == [
        (EPOCH, "epoch"),
        (EPOCH + 2 * SECOND, "boot_offset"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        compact(hit(**{"@timestamp": ISO, "message": f"somebody wrote: {XID}", "host": "n-1"})),
        compact(hit(**{"@timestamp": ISO, "message": XID, "host": "n-1", "program": "sudo"})),
        compact({"date": MS / 1000, "MESSAGE": XID, "SYSLOG_IDENTIFIER": "python3", "_HOSTNAME": "n-1"}),
        compact({"message": XID, "appname": "bash", "timestamp": ISO, "host": "n-1", "source_type": "syslog"}),
        compact(loki({"host": "n-1", "syslog_identifier": "sshd"}, [str(NS), XID])),
        compact(loki(HOST, [str(NS), f"Mar  2 21:00:00 n-7 sudo: ops : COMMAND=/usr/bin/grep {XID}"])),
        compact({"events": [{"timestamp": MS, "message": f'alert: "{XID}"'}]}),
        f'{ISO} {{job="app"}} my node prints {XID}',
        f"my node dmesg {XID}",
        compact({**ENTRY, "MESSAGE": None}),
    ],
)
def test_other_programs_and_prose_give_nothing(text: str) -> None:
    assert rows_of(text + "\n") == []


def test_a_user_who_writes_to_the_journal_is_marked() -> None:
    text = compact(
        hit(
            **{
                "@timestamp": ISO,
                "message": XID,
                "syslog": {"identifier": "kernel"},
                "systemd": {"transport": "stdout"},
            }
        )
    )
    assert facts_of(text + "\n", "trust") == [("user",)]


def test_agents_state_when_they_noticed_not_when_it_was() -> None:
    text = compact({"level": "error", "time": ISO, "message": XID, "host": "n-1"}) + "\n"
    assert facts_of(text, "time", "host", "trust") == [(None, "n-1", "relayed")]


def test_one_record_on_a_line_is_read_as_lines() -> None:
    by_name = {name: text for name, text, _ in RECORDS}
    for name in ("elasticdump", "logcli jsonl", "splunk", "fluent pair", "vector", "container insights", "array"):
        assert detected(by_name[name] + "\n").how == "lines", name
    for name in ("json-pretty", "loki answer", "search", "subscription", "gcloud"):
        assert detected(by_name[name] + "\n").format == "log_export", name


def test_lines_of_a_message_are_read_each_for_itself() -> None:
    text = compact(
        {"@timestamp": ISO, "host": "n-1", "message": f"usb 1-1: gone\n[   10.000000] {XID}\n[   11.000000] {XID}\n"}
    )
    rows = rows_of(text + "\n")
    assert [row.message for row in rows if isinstance(row, GpuError)] == [XID, XID]


def test_the_offset_is_that_of_the_record() -> None:
    text = json.dumps(loki(HOST, [str(NS), "x"], [str(NS), XID], [str(NS), XID]), indent=2)
    _, result = read_all(text)
    offsets = [item.offset for item in result.found]
    assert len(offsets) == 2
    assert all(text.encode()[offset:].split(b"\n")[1].strip().startswith(f'"{NS}"'.encode()) for offset in offsets)


def test_documents_in_a_row_and_torn_ones() -> None:
    whole = compact(loki(HOST, [str(NS), XID], [str(NS), XID]))
    assert len(rows_of(whole + whole)) == 2 * 2
    rows, result = read_all(whole[: whole.index("}", whole.index(XID) + 100) - 40])
    assert len(rows) == 1
    assert [reason for _, (_, _, reason, _) in result.refused] == ["log_export: JSON breaks off: an array without end"]
    rows, result = read_all(whole + "\nnot JSON {[\n" + whole + "\n")
    assert len(rows) == 4


def test_a_large_answer_on_one_line_is_read_piece_by_piece() -> None:
    noise = [[str(NS + i), f'usb {i}: "new" device \\ {{['] for i in range(40_000)]
    text = compact(loki(HOST, *noise[:20_000], [str(NS), XID], *noise[20_000:], [str(NS), XID]))
    assert len(text) > 2 << 20
    rows, result = read_all(text)
    assert [getattr(row, "time", None) for row in rows] == [EPOCH, EPOCH]
    assert all(text.encode()[item.offset :].startswith(f'["{NS}","NVRM'.encode()) for item in result.found)


@pytest.mark.parametrize(
    "tail",
    [b'{"a":' * 300_000, b"[" * 1_000_000, b'"' * 1_000_001, b'"' + b"\\" * 3_000_000, b'"' + b"x" * 3_000_000, b"}" * 1_000_000, b"]\n{" * 300_000, b"-" * 3_000_000],
    ids=range(8),
)  # fmt: skip
def test_hostile_documents_take_linear_time(tail: bytes) -> None:
    head = compact({"events": [{"timestamp": MS, "message": XID}]})[:-2].encode() + b","
    begin = time.perf_counter()
    rows, _ = read_all(head + tail)
    assert time.perf_counter() - begin < 10
    assert len(rows) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12) | st.just(XID),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(["message", "log", "values", "stream", "hits", "_source", "events", "data", "host", "result", "time", "labels", "kubernetes", "x"]),
        inner,
        max_size=5,
    ),
    max_leaves=25,
)  # fmt: skip


@given(JSON, st.integers(0, 60), st.booleans())
def test_arbitrary_json_never_raises(value: Any, cut: int, pretty: bool) -> None:
    text = json.dumps(value, indent=1 if pretty else None)
    list(log_export.read(__import__("io").BytesIO(text[: len(text) - cut].encode())))  # type: ignore[arg-type]
    rows_of(text[: len(text) - cut])


@given(st.binary(max_size=400))
def test_arbitrary_bytes_never_raise(data: bytes) -> None:
    rows_of(data)
    for before in (b'{"events":[', b'[{"log":"', b"[0] kmsg.0: [1772452800.5, {", b"n-1 | CHANGED | rc=0 >>\n"):
        rows_of(before + data)


LINES = [
    "%s",
    "[ 4117.304981] %s",
    "n-5 kernel: %s",
    "2026-03-02T11:59:58.000000+00:00 n-5 kernel: [ 4117.304981] %s",
    "<4>Mar  2 12:00:00 n-5 kernel: %s",
    "4,77,52731904,-;%s",
    "2026-03-02T12:00:00.987654321Z stdout F kern  :err   : [   52.731904] %s",
    "\x1b[32m[   52.731904] \x1b[0m\x1b[33m%s\x1b[0m",
]
WRAPS = [
    lambda line: compact({"log": line + "\n", "stream": "stdout", "time": ISO}),
    lambda line: compact(hit(**{"@timestamp": ISO, "message": line, "host": {"name": "n-5"}})),
    lambda line: compact({"labels": {"host": "n-5"}, "line": line, "timestamp": ISO}),
    lambda line: compact({"timestamp": MS, "message": line, "logStreamName": "n-5"}),
    lambda line: compact({"preview": False, "result": {"_raw": line, "_time": ISO, "host": "n-5"}}),
    lambda line: compact([MS / 1000, {"log": line, "host": "n-5"}]),
    lambda line: compact({"message": line, "timestamp": ISO, "host": "n-5", "source_type": "file"}),
    lambda line: f'{ISO} {{host="n-5"}} {line}',
    lambda line: f"[pod/dmesg-7xk2p/main] {line}",
]
DOCUMENTS = [
    lambda line: compact(loki({"host": "n-5"}, [str(NS), line])),
    lambda line: json.dumps({"hits": {"hits": [hit(**{"@timestamp": ISO, "message": line, "host": "n-5"})]}}, indent=2),
    lambda line: json.dumps({"events": [{"timestamp": MS, "message": line, "logStreamName": "n-5"}]}, indent=4),
]


@settings(max_examples=150)
@given(
    st.sampled_from(["31, pid=7, name=a.out, Ch 00000010", "79, GPU has fallen off the bus.", "154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"]),
    st.integers(0, 255),
    st.sampled_from(LINES),
    st.lists(st.sampled_from(WRAPS), max_size=2),
    st.none() | st.sampled_from(DOCUMENTS),
)  # fmt: skip
def test_any_message_in_any_nesting_is_the_same_event(
    body: str, bus: int, line: str, wraps: list[Any], document: Any
) -> None:
    message = f"NVRM: Xid (PCI:0000:{bus:02x}:00): {body}"
    text = line % message
    for wrap in wraps:
        text = wrap(text)
    if document is not None:
        text = document(text)
    rows = [row for row in rows_of(text + "\n") if isinstance(row, GpuError)]
    assert [(row.code, row.pci, row.message) for row in rows] == [
        (int(body.split(",", maxsplit=1)[0]), f"0000:{bus:02x}:00.0", message)
    ]
    assert rows[0].host in (None, "n-5")
