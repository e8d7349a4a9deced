"""scontrol show nodes --json and sinfo --json: the hosts that the controller knows, as one JSON document.

    {"nodes": [{"name": "dgx07", "state": ["IDLE", "DRAIN"], "reason": "bad dimm", "reason_set_by_user": "root",
                "reason_changed_at": {"set": true, "infinite": false, "number": 1738569605}, "partitions": ["long"]}]}
    {"sinfo": [{"node": {"state": ["DOWN"]}, "nodes": {"nodes": ["dgx08"]}, "partition": {"name": "long"},
                "reason": {"description": "Not responding", "time": 1738569605, "user": "slurm"}}]}

Documented at https://slurm.schedmd.com/rest_api.html (schemas of ``/slurm/nodes`` and of sinfo), releases 20.11 to
25.11. Times are seconds since 1970. Releases before 23.02 print a state as a word with its flags apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from aftershock.parsers.clock import NO_CLOCK
from aftershock.parsers.documents.json_elements import Element
from aftershock.parsers.documents.slurm_json import digits_of, object_of, objects_of, text_of
from aftershock.parsers.documents.slurm_nodes import NodeText, event_of
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.parsers.hostlist import HostListError, expand_hosts
from aftershock.schemas.topology import Host

_OWN: Final = (b'"slurmd_start_time"', b'"reason_changed_at"', b'"reason_set_by_user"', b'"sinfo"')
_KERNEL: Final = re.compile(r"Linux (?P<release>\S{1,128})")


def detects(head: Head) -> float:
    """Sure of a JSON object with an array of hosts that have what only Slurm prints."""
    start = head.data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if start != b"{" or not (b'"nodes"' in head.data and b'"state"' in head.data):
        return 0.0
    return 0.93 if any(mark in head.data for mark in _OWN) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """Hosts and events of a document, record by record."""
    for item in objects_of(stream, ("nodes", "sinfo"), "scontrol_node_json"):
        if isinstance(item, Refused):
            yield item
        else:
            yield from _rows(*item)


def _rows(element: Element, record: dict[str, Any]) -> Iterator[Found | Refused]:
    data = element.data
    if not ("state" in record or isinstance(record.get("node"), dict)):
        return  # some other document
    hosts = _hosts(record)
    if hosts is None:
        yield Refused(element.offset, len(data), "scontrol_node_json: record without a host", data[:512])
        return
    if "name" in record:
        kernel = _KERNEL.match(text_of(record.get("operating_system")))
        partitions = ",".join(_words(record.get("partitions")))
        for host in hosts:
            row = Host(host=host, kernel=kernel["release"] if kernel else None, partition=partitions or None)
            yield Found(row, NO_CLOCK, element.offset)
    yield from event_of(_node(record, hosts), element.offset, data)


def _hosts(record: dict[str, Any]) -> list[str] | None:
    """Hosts of a record, by the names that the controller gives them."""
    named = record.get("name")
    printed = [named] if isinstance(named, str) else _words(object_of(record.get("nodes")).get("nodes"))
    try:
        return [host for text in printed for host in expand_hosts(text)] or ([] if "node" in record else None)
    except HostListError:
        return None


def _node(record: dict[str, Any], hosts: list[str]) -> NodeText:
    told = record.get("reason")
    if isinstance(told, dict):
        reason, since = text_of(told.get("description")), digits_of(told.get("time"))
        user = text_of(told.get("user")) or text_of(record.get("reason_set_by_user"))
    else:
        reason, since = text_of(told), digits_of(record.get("reason_changed_at"))
        user = text_of(record.get("reason_set_by_user"))
    inner = record if "state" in record else object_of(record.get("node"))
    state = "+".join([*_words(inner.get("state")), *_words(inner.get("state_flags"))])
    message = f"{state}: {reason}" if reason else state
    return NodeText(
        tool="scontrol_node_json",
        hosts=hosts,
        state=state or None,
        reason=reason,
        user=user,
        since=since,
        message=message,
    )


def _words(value: Any) -> list[str]:
    """A list of words, or one word."""
    values = value if isinstance(value, list) else [value]
    return [word for word in values if isinstance(word, str) and word]


FORMAT: Final = DocumentFormat(
    name="scontrol_node_json",
    doc="Hosts as `scontrol show nodes --json` and `sinfo --json` print them: their kernel and partitions, and since "
    "when and why they take no work.",
    url="https://slurm.schedmd.com/sinfo.html#OPT_json",
    tables=("hosts", "scheduler_events"),
    detects=detects,
    read=read,
    samples=(
        Sample(
            '{"meta": {"Slurm": {"release": "23.11.4"}}, "nodes": [{"name": "dgx07", "hostname": "r1u07", "state": '
            '["IDLE", "DRAIN"], "operating_system": "Linux 6.8.0-45-generic #45-Ubuntu SMP", "partitions": ["long", '
            '"debug"], "reason": "bad dimm", "reason_set_by_user": "root", "reason_changed_at": {"set": true, '
            '"infinite": false, "number": 1738569605}, "slurmd_start_time": {"set": true, "number": 1738500000}}, '
            '{"name": "dgx08", "state": ["MIXED"], "reason": "", "partitions": []}], "last_update": 1738569700}\n',
            (
                expect("hosts", host="dgx07", partition="long,debug", kernel="6.8.0-45-generic"),
                expect(
                    "scheduler_events",
                    kind="node_drain",
                    host="dgx07",
                    state="IDLE+DRAIN",
                    reason="bad dimm",
                    user="root",
                    time=1738569605_000_000,
                ),
                expect("hosts", host="dgx08", partition=None, kernel=None),
            ),
        ),
        Sample(
            '{"sinfo": [{"node": {"state": ["DOWN"]}, "nodes": {"total": 2, "nodes": ["dgx[08-09]"]}, "partition": '
            '{"name": "long"}, "reason": {"description": "Not responding", "time": 1738569605, "user": "slurm"}}, '
            '{"node": {"state": ["IDLE"]}, "nodes": {"nodes": ["dgx10"]}, "reason": {"description": "", "time": 0, '
            '"user": "root"}}]}\n',
            (
                expect(
                    "scheduler_events",
                    kind="node_down",
                    hosts=["dgx08", "dgx09"],
                    user="slurm",
                    reason="Not responding",
                ),
            ),
        ),
        Sample(
            '{"nodes": [{"name": "dgx07", "state": "down", "state_flags": ["DRAIN"], "reason": "psu", '
            '"reason_changed_at": 1738569605, "reason_set_by_user": "mira", "partitions": ["long"]}]}\n',
            (
                expect("hosts", host="dgx07", partition="long"),
                expect("scheduler_events", kind="node_drain", host="dgx07", state="down+DRAIN", user="mira"),
            ),
        ),
    ),
    non_samples=(
        '{"jobs": [{"job_id": 1}]}\n',
        '{"nodes": [{"id": 1, "label": "a"}], "edges": []}\n',
        '{"kind": "NodeList", "items": [{"metadata": {"name": "n1"}, "spec": {"unschedulable": true}}]}\n',
    ),
    aliases=("scontrol_node", "sinfo"),
)
