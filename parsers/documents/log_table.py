"""Log lines as a table: what Splunk, Datadog, Graylog, Kibana, Grafana, CloudWatch and Azure give as CSV.

    "_time","_raw",host,sourcetype                                          Splunk; _raw may have several lines
    "2026-03-01T12:00:00.000+0000","Mar  1 12:00:00 gpu017 kernel: NVRM: ...",gpu017,syslog
    Date,Host,Service,Message                                               Datadog
    "timestamp","source","message"                                          Graylog: the source is the host
    "@timestamp","host.name",message                                        Kibana
    "Time","Line","tsNs","labels"                                           Grafana, of Loki
    @timestamp,@message,@logStream                                          CloudWatch Logs Insights
    "TimeGenerated [UTC]",Computer,Facility,SyslogMessage,ProcessName       Azure Log Analytics

A row is the record of a store with other names for its members; whose time it states is told in
:mod:`aftershock.parsers.envelopes.records`. Kibana prints the time of the reader's browser, whose zone is not said.
https://docs.splunk.com/Documentation/Splunk/latest/Search/Exportsearchresults,
https://docs.datadoghq.com/logs/explorer/export/, https://learn.microsoft.com/azure/azure-monitor/reference/tables/syslog
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final

import orjson

from aftershock.parsers.documents.csv_records import csv_records, header_of
from aftershock.parsers.envelopes.layer import Layer
from aftershock.parsers.envelopes.months import month_number
from aftershock.parsers.envelopes.records import peel_record
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.parsers.inner_lines import all_signatures, read_layer

_TOOL: Final = "log_table"

# Names of columns, in lower case, and the names that records of stores have for them.
_TEXT: Final = {
    **{"_raw": "_raw", "@message": "@message", "message": "message", "line": "line", "content": "message"},
    **{"syslogmessage": "SyslogMessage", "textpayload": "textPayload", "jsonpayload.message": "textPayload"},
    **{"log": "log", "_source.message": "message", "_msg": "_msg"},
}
_TIME: Final = {
    **{"_time": "_time", "@timestamp": "@timestamp", "timestamp": "timestamp", "date": "date", "time": "time"},
    **{"eventtime": "EventTime", "eventtime [utc]": "EventTime", "timegenerated": "TimeGenerated"},
    **{"timegenerated [utc]": "TimeGenerated", "_source.@timestamp": "@timestamp", "_messagetime": "_time"},
    "tsns": "__ns",
}
_HOST: Final = {
    **{"host": "host", "host.name": "host.name", "host.hostname": "host.hostname", "hostname": "hostname"},
    **{"computer": "Computer", "_sourcehost": "host", "node": "node", "@logstream": "@logStream"},
    **{"logstreamname": "logStreamName", "logstream": "logStreamName", "kubernetes.node.name": "kubernetes.node.name"},
    **{'labels."compute.googleapis.com/resource_name"': "host", "_source.host.name": "host.name"},
}
_OTHER: Final = {"program": "program", "processname": "ProcessName", "facility": "facility"}
_KNOWN: Final = {**_TEXT, **_TIME, **_HOST, **_OTHER}
# Columns of which one more makes it a table of log lines, where no host stands.
_OF_STORES: Final = frozenset({"_raw", "@message", "labels", "sourcetype", "@log", "tsns", "loggroup", "textpayload"})
# Tables of what people wrote: tickets, chats, data sets.
_OF_PEOPLE: Final = frozenset(
    {"user", "username", "author", "sender", "from", "to", "subject", "ticket", "issue", "assignee", "reporter"}
    | {"summary", "title", "question", "answer", "prompt", "completion", "response", "channel", "comment"}
    | {"description", "body", "label"}
)
# Nobody but a log store calls a column like that.
_OF_STORES_ALONE: Final = frozenset({"_raw", "@message", "syslogmessage", "textpayload"})

# Azure's portal, in UTC: 3/1/2026, 12:00:03.123 PM
_PORTAL: Final = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4}), (\d{1,2}):(\d\d):(\d\d)(\.\d{1,9})? ([AP])M")
# Kibana: Mar 1, 2026 @ 12:00:00.123
_KIBANA: Final = re.compile(r"([A-Z][a-z]{2}) (\d{1,2}), (\d{4}) @ (\d\d:\d\d:\d\d(?:\.\d{1,9})?)")
_HOST_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


def _is_header(names: Sequence[str]) -> bool:
    """A column of lines, one of times, and one of hosts or of a store's own; none of what people write."""
    words = {name.lower() for name in names}
    if not (words.intersection(_TEXT) and words.intersection(_TIME)):
        return False
    if words.intersection(_OF_PEOPLE) and not words.intersection(_OF_STORES_ALONE):
        return False
    return bool(words.intersection(_HOST) or words.intersection(_OF_STORES) or words == {"timestamp", "message"}) or (
        {"timestamp", "source", "message"} <= words
    )


def detects(head: Head) -> float:
    """The header of such a table."""
    lines = head.data.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)
    return 0.85 if len(lines) > 1 and header_of(lines[0].rstrip(b"\r"), _is_header) is not None else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The rows of all records, each with the offset of its record."""
    scanner = all_signatures()
    for record in csv_records(stream, _is_header, _TOOL):
        if isinstance(record, Refused):
            yield record
        elif scanner.hits(record.raw):
            layer = _layer_of(record.cells)
            if layer is not None:
                yield from read_layer(record.offset, layer)


def _layer_of(cells: dict[str, str]) -> Layer | None:
    members: dict[str, Any] = {}
    for name, cell in cells.items():
        if cell:
            members.setdefault(_KNOWN.get(name.lower(), name), _value(name.lower(), cell))
    nanoseconds = members.pop("__ns", None)
    if nanoseconds is not None:
        members["time"] = nanoseconds  # Loki's own, to the nanosecond
    source = members.get("source")
    if isinstance(source, str) and "_raw" not in members and "host" not in members and _HOST_WORD.fullmatch(source):
        members["host"] = source
    labels = members.pop("labels", None)
    return peel_record(members, (labels if isinstance(labels, dict) and labels else {"labels": {}},))


def _value(name: str, cell: str) -> Any:
    """A cell as the member of a record: a time in a form that is read everywhere, labels as an object."""
    if name in _TIME:
        portal = _PORTAL.fullmatch(cell) if name.endswith("[utc]") else None
        if portal is not None:
            month, day, year, hour, minute, second, fraction, half = portal.groups()
            of_day = int(hour) % 12 + (12 if half == "P" else 0)
            return f"{year}-{int(month):02d}-{int(day):02d}T{of_day:02d}:{minute}:{second}{fraction or ''}Z"
        kibana = _KIBANA.fullmatch(cell)
        month_of = month_number(kibana[1].encode()) if kibana is not None else None
        if kibana is not None and month_of is not None:
            return f"{kibana[3]}-{month_of:02d}-{int(kibana[2]):02d}T{kibana[4]}"
        return cell.strip()
    if name == "labels" and cell.startswith("{"):
        try:
            return orjson.loads(cell)
        except orjson.JSONDecodeError:
            return cell
    return cell.strip("\r\n")


_XID: Final = "NVRM: Xid (PCI:0000:9d:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."

_SAMPLES: Final = (
    Sample(
        '"_time","_raw",host,sourcetype\n'
        f'"2026-03-03T07:15:42.250+0000","Mar  3 07:15:42 gpu021 kernel: {_XID}",gpu021,syslog\n'
        f'"2026-03-03T07:15:43.000+0000","[ 9001.250000] {_XID}\n[ 9001.250001] NVRM: Xid (PCI:0000:9d:00): 45, pid=7, '
        'name=a.out, Ch 00000008",gpu022,dmesg\n',
        (
            expect("gpu_errors", code=79, host="gpu021", time_local="Mar  3 07:15:42", trust="kernel"),
            expect("gpu_errors", code=79, host="gpu022", uptime_s=9001.25),
            expect("gpu_errors", code=45, host="gpu022", byte_offset=202),
        ),
        title="Splunk",
    ),
    Sample(
        f'Date,Host,Service,Message\n"2026-03-03T07:15:42.250Z","gpu021","kernel","{_XID}"\n',
        (expect("gpu_errors", code=79, host="gpu021", time=1772522142250000, time_basis="zoned"),),
        title="Datadog",
    ),
    Sample(
        f'"timestamp","source","message"\n"2026-03-03T07:15:42.250Z","gpu021","kernel: {_XID}"\n',
        (expect("gpu_errors", code=79, host="gpu021", time=1772522142250000, trust="kernel"),),
        title="Graylog",
    ),
    Sample(
        f'"@timestamp","host.name",message\n"Mar 3, 2026 @ 07:15:42.250","gpu021","{_XID}"\n',
        (expect("gpu_errors", code=79, host="gpu021", time_local="2026-03-03T07:15:42.250"),),
        title="Kibana",
    ),
    Sample(
        '"Time","Line","tsNs","labels"\n'
        f'"2026-03-03 07:15:42","{_XID}","1772522142250000000","{{""host"":""gpu021"",""job"":""kern""}}"\n',
        (expect("gpu_errors", code=79, host="gpu021", time=1772522142250000, time_basis="epoch", trust="kernel"),),
        title="Grafana",
    ),
    Sample(
        f'@timestamp,@message,@logStream\n2026-03-03 07:15:42.250,"{_XID}",ip-10-20-0-71.kern\n',
        (expect("gpu_errors", code=79, host="ip-10-20-0-71", time=1772522142250000, time_basis="zoned"),),
        title="CloudWatch Logs Insights",
    ),
    Sample(
        'TenantId,"TimeGenerated [UTC]",Computer,Facility,SyslogMessage,ProcessName\n'
        f'x,"3/3/2026, 7:15:42.250 AM",gpu021,kern,"{_XID}",kernel\n',
        (expect("gpu_errors", code=79, host="gpu021", time=1772522142250000, time_basis="zoned", trust="kernel"),),
        title="Azure Log Analytics",
    ),
)

FORMAT: Final = DocumentFormat(
    name="log_table",
    doc="""Log lines as CSV, as log stores export them: Splunk, Datadog, Graylog, Kibana, Grafana, CloudWatch Logs
    Insights, Azure Log Analytics. The lines inside are read by the formats of lines.""",
    url="https://docs.splunk.com/Documentation/Splunk/latest/Search/Exportsearchresults",
    tables=("gpu_errors", "node_events", "gpus"),
    detects=detects,
    read=read,
    samples=_SAMPLES,
    non_samples=(
        f'timestamp,user,channel,message\n2026-03-03T07:15:42Z,bob,gpu-alerts,"{_XID}"\n',
        f'timestamp,author,message\n2026-03-03T07:15:42Z,bob,"{_XID}"\n',
        'id,title,body,date,message,host\n7,"GPU lost","NVRM: Xid (PCI:0000:9d:00): 79, x",2026-03-03,"y",gpu021\n',
        'prompt,response,time,host\n"What is NVRM: Xid (PCI:0000:9d:00): 79, x?","a lost GPU",1,gpu021\n',
        '"_time","_raw",host\n"2026-03-03T07:15:42Z","what does NVRM: Xid (PCI:0000:9d:00): 79, mean?",gpu021\n',
        '"_time","_raw",host\n"2026-03-03T07:15:42Z","Mar  3 07:15:42 gpu021 sudo: ops : COMMAND=/bin/grep '
        'NVRM: Xid (PCI:0000:9d:00): 79, /var/log/messages",gpu021\n',
        "timestamp,name,pci.bus_id\n2026/03/03 07:15:42.250,NVIDIA H100,00000000:9D:00.0\n",
        "_time,_raw,host\n",
    ),
)
