"""Answers and dumps of log stores: JSON documents that hold log lines, whatever their size and shape.

    {"status":"success","data":{"resultType":"streams","result":[{"stream":{...},"values":[["ns","line"], ...]}]}}  Loki
    {"streams":[{"stream":{...},"values":[["ns","line"]]}]}                                   Loki, as it is pushed
    {"took":3,"hits":{"total":{},"hits":[{"_source":{"@timestamp":"...","message":"..."}}]}}  Elasticsearch, OpenSearch
    {"events":[{"timestamp":1772366400000,"message":"...","logStreamName":"..."}]}            aws logs filter-log-events
    {"messageType":"DATA_MESSAGE","logStream":"...","logEvents":[{"timestamp":...,"message":"..."}]}     subscriptions
    {"results":[{"_raw":"...","_time":"...","host":"..."}]}                                   Splunk
    {"fields":["_time","_raw"],"rows":[["...","..."]]}                                        Splunk: rows, columns
    {"tables":[{"columns":[{"name":"SyslogMessage"}],"rows":[["..."]]}]}                      Azure Monitor
    {"columns":[{"name":"message"}],"values":[["..."]]}                                       Elasticsearch, ES|QL
    [{"textPayload":"...","timestamp":"...","resource":{...}}]                                gcloud logging read
    {"__REALTIME_TIMESTAMP" : "...", "MESSAGE" : "..."} over several lines                    journalctl -o json-pretty

The same records one on a line (elasticdump, logcli -o jsonl, Fluent Bit, Vector) are read as lines. What a record says,
and whose time it states, is in :mod:`aftershock.parsers.envelopes.records`. Loki and CloudWatch may give the newest
record first. https://grafana.com/docs/loki/latest/reference/loki-http-api/#query-logs-within-a-range-of-time,
https://www.elastic.co/docs/api/doc/elasticsearch/operation/operation-search,
https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_FilterLogEvents.html
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import orjson

from aftershock.parsers.documents.json_leaves import Leaf, leaves_of
from aftershock.parsers.documents.json_tables import column_names, names_in_head, records_in
from aftershock.parsers.envelopes.container import peel_members
from aftershock.parsers.envelopes.layer import Layer
from aftershock.parsers.envelopes.record_names import TEXT
from aftershock.parsers.envelopes.records import host_in, peel_record
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.parsers.inner_lines import all_signatures, read_layer

# Records of the head that are looked at: a dump may begin with some of another kind.
_MOST_LOOKED_AT: Final = 50


def detects(head: Head) -> float:
    """JSON that is more than one record on each line, and holds records of a kind that is known."""
    data = head.data.removeprefix(b"\xef\xbb\xbf").lstrip(b"\x1e \t\r\n")
    if data[:1] not in (b"{", b"["):
        return 0.0
    first = _parsed(data.split(b"\n", 1)[0])
    if _layer_of(first, ()) is not None:
        return 0.0  # one record on a line: read as lines
    if not set(names_in_head(data)).isdisjoint(TEXT):
        return 0.7  # it may be longer than the head
    for leaf in itertools.islice(leaves_of(io.BytesIO(data), None), _MOST_LOOKED_AT):
        if isinstance(leaf, Refused):
            break  # other lines may begin with a bracket too
        for record in itertools.islice(records_in(_parsed(leaf.data)), 1):
            if _layer_of(record, leaf.around) is not None:
                return 0.7
    return 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The rows of all records, each with the offset of its record."""
    for leaf in leaves_of(stream, all_signatures()):
        if isinstance(leaf, Refused):
            yield leaf._replace(reason=f"log_export: {leaf.reason}")
        else:
            yield from _rows(leaf)


def _rows(leaf: Leaf) -> Iterator[Found | Refused]:
    value = _parsed(leaf.data)
    if value is None:
        yield Refused(leaf.offset, len(leaf.data), "log_export: record is not JSON", leaf.data[:512])
        return
    for record in records_in(value):
        yield from _record_rows(leaf, record)


def _record_rows(leaf: Leaf, value: Any) -> Iterator[Found | Refused]:
    layer = _layer_of(value, leaf.around)
    if layer is None:
        # An object of another kind: what agents say in JSON is read by the formats themselves.
        host = next((host for members in leaf.around if (host := host_in(members))), None)
        layer = Layer("json", orjson.dumps(value), host=host, weak=True)
    yield from read_layer(leaf.offset, layer)


def _layer_of(value: Any, around: tuple[dict[str, Any], ...]) -> Layer | None:
    if isinstance(value, dict):
        layer = peel_record(value, around) if around else None
        return layer or peel_members(value)
    names = column_names(around) if isinstance(value, list) else []
    if names and len(names) == len(value):
        return peel_members(dict(zip(names, value, strict=True)))
    return peel_record(value, _streams_first(around))


def _streams_first(around: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
    """The labels of a Loki stream stand in a member of the object around its entries."""
    labels = (stream for members in around if isinstance(stream := members.get("stream"), dict))
    return (*labels, *around)


def _parsed(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        # Logs hold bytes that are no UTF-8, and not every store minds.
        return orjson.loads(data.decode("utf-8", "replace"))
    except orjson.JSONDecodeError:
        return None


_XID: Final = "NVRM: Xid (PCI:0000:9d:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."

_SAMPLES: Final = (
    Sample(
        '{"status":"success","data":{"resultType":"streams","result":[{"stream":{"host":"gpu021","job":"kern"},"va'
        f'lues":[["1772522142250000000","{_XID}"],["1772522142000000000","usb 1-1: new device"]]}},{{"stream":{{"pod":'
        f'"dmesg-7xk2p","node":"gpu022"}},"values":[["1772522143000000000","[ 9001.250000] {_XID}"]]}}]}}}}\n',
        (
            expect("gpu_errors", code=79, host="gpu021", time=1772522142250000, time_basis="epoch", trust="kernel"),
            expect("gpu_errors", code=79, host="gpu022", time=None, time_local="9001.250000"),
        ),
    ),
    Sample(
        '{\n  "took" : 3,\n  "hits" : {\n    "total" : { "value" : 1 },\n    "hits" : [\n      {\n'
        '        "_index" : "logs-2026.03.03",\n        "_source" : {\n'
        '          "@timestamp" : "2026-03-03T07:15:42.250Z",\n          "host" : { "name" : "gpu021" },\n'
        f'          "message" : "{_XID}"\n        }}\n      }}\n    ]\n  }}\n}}\n',
        (expect("gpu_errors", code=79, host="gpu021", time=1772522142250000, time_basis="zoned"),),
    ),
    Sample(
        '{\n    "events": [\n        {\n            "logStreamName": "ip-10-20-0-71.ec2.internal-host.messages",\n'
        f'            "timestamp": 1772522142250,\n            "message": "Mar  3 07:15:42 gpu021 kernel: {_XID}",\n'
        '            "ingestionTime": 1772522145000,\n            "eventId": "3801"\n        }\n    ]\n}\n',
        (expect("gpu_errors", code=79, host="gpu021", time_local="Mar  3 07:15:42", trust="kernel"),),
    ),
    Sample(
        '[\n  {\n    "insertId": "a1",\n    "jsonPayload": {\n      "message": "' + _XID + '"\n    },\n'
        '    "resource": {\n      "labels": { "node_name": "gpu021" },\n      "type": "k8s_node"\n    },\n'
        '    "timestamp": "2026-03-03T07:15:42.250000001Z"\n  }\n]\n',
        (expect("gpu_errors", code=79, host="gpu021", time=1772522142250000, time_basis="zoned"),),
    ),
    Sample(
        '{\n\t"__REALTIME_TIMESTAMP" : "1772522142250000",\n\t"_TRANSPORT" : "kernel",\n\t"_HOSTNAME" : "gpu021",\n'
        '\t"MESSAGE" : "' + _XID + '"\n}\n{\n\t"__REALTIME_TIMESTAMP" : "1772522143250000",\n\t"MESSAGE" : "x"\n}\n',
        (expect("gpu_errors", code=79, host="gpu021", time=1772522142250000, trust="kernel"),),
    ),
    Sample(
        '{"preview":false,"fields":["_time","host","_raw"],"rows":[["2026-03-03T07:15:42.250+00:00","gpu021",'
        f'"{_XID}"],["2026-03-03T07:15:43.250+00:00","gpu022","{_XID}"]]}}\n',
        (
            expect("gpu_errors", code=79, host="gpu021", time=1772522142250000),
            expect("gpu_errors", code=79, host="gpu022", time=1772522143250000),
        ),
    ),
    Sample(
        '{"preview":false,"fields":["_time","host","_raw"],"columns":[["2026-03-03T07:15:42.250+00:00"],["gpu021"],'
        f'["{_XID}"]]}}\n',
        (expect("gpu_errors", code=79, host="gpu021", time=1772522142250000),),
    ),
    Sample(
        '{"tables":[{"name":"PrimaryResult","columns":[{"name":"TimeGenerated","type":"datetime"},{"name":"Computer"},'
        '{"name":"SyslogMessage"},{"name":"ProcessName"}],"rows":[["2026-03-03T07:15:42.25Z","gpu021",'
        f'"{_XID}","kernel"]]}}]}}\n',
        (expect("gpu_errors", code=79, host="gpu021", time=1772522142250000, trust="kernel"),),
    ),
)

FORMAT: Final = DocumentFormat(
    name="log_export",
    doc="""Answers and dumps of log stores as JSON: Loki, Elasticsearch and OpenSearch, CloudWatch, Splunk, Google
    Cloud, journalctl -o json-pretty. The lines inside are read by the formats of lines.""",
    url="https://grafana.com/docs/loki/latest/reference/loki-http-api/",
    tables=("gpu_errors", "node_events", "gpus"),
    detects=detects,
    read=read,
    samples=_SAMPLES,
    non_samples=(
        '{"status":"success","data":{"resultType":"streams","result":[{"stream":{"host":"gpu021"},"values":'
        '[["1772522142250000000","level=info msg=started"]]}]}}\n',
        '{"took":3,"hits":{"hits":[{"_source":{"message":"what does NVRM: Xid (PCI:0000:9d:00): 79, mean?"}}]}}\n',
        '{"events":[{"timestamp":1772522142250,"message":"Mar  3 07:15:42 gpu021 sudo: ops : COMMAND=/bin/grep '
        'NVRM: Xid (PCI:0000:9d:00): 79, /var/log/messages"}]}\n',
        '[{"rule":"gpu","query":"{job=\\"kern\\"} |= \\"NVRM: Xid (PCI:0000:9d:00): 79, x\\""}]\n',
        '{"results":[{"panel":"Xid errors","expr":"DCGM_FI_DEV_XID_ERRORS"}]}\n',
        "{\n",
    ),
)
