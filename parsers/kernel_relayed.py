"""Kernel lines that an agent passes on inside JSON: health events, alerts, answers of Loki.

    {"Event detail":{"Reason":"NvidiaGpuXidErrorPendingReplacement","Message":"NVRM: Xid (PCI:0000:9d:00): 74, ..."}}
    {"streams":[{"stream":{"host":"gpu017"},"values":[["1760000000000000000","NVRM: Xid (PCI:0000:3b:00): 45, ..."]]}]}

The agent's own clock says when it noticed; only Loki hands on the time of the line.
https://grafana.com/docs/loki/latest/reference/loki-http-api/
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson

from aftershock.parsers.clock import NO_CLOCK, Reading
from aftershock.parsers.envelopes import unwrap
from aftershock.parsers.formats import Envelope

_DEEPEST: Final = 24
_HOST_KEYS: Final = (
    *("host", "hostname", "_HOSTNAME", "node", "nodename", "node_name", "nodeName", "Hostname", "HostName", "instance"),
)
_HINT: Final = re.compile(rb"S?Xid \(")
# A member of an object, or an element of an array, on a line of its own.
_MEMBER: Final = re.compile(rb'\s*(?:"[^"\\]{1,80}"\s*:\s*)?("(?:[^"\\]|\\.)*")\s*,?\s*\Z')

# level=error msg="NVRM: Xid (...)": the records of agents written in Go.
_LOGFMT: Final = re.compile(rb'\b(?:msg|message|log|line)=("NVRM: Xid \((?:[^"\\]|\\.)*")')


class Relayed(NamedTuple):
    """A kernel line within JSON: its own envelope, and the host and time that the JSON states for it."""

    envelope: Envelope
    host: str | None
    reading: Reading


def relayed_lines(text: bytes) -> list[Relayed]:
    """The kernel lines in a JSON text, or in one line of a JSON text; a line that is told twice is one."""
    document = _document(text)
    if document is None:
        return []
    seen: set[tuple[bytes, str | None, Reading]] = set()
    lines = []
    for relayed in _walk(document, None, 0):
        key = (relayed.envelope.message, relayed.host, relayed.reading)
        if key not in seen:
            seen.add(key)
            lines.append(relayed)
    return lines


def _document(text: bytes) -> Any:
    """What stands in the line as JSON: the whole of it, one member, or the text of a ``key="text"`` record; or None."""
    first = text.lstrip()[:1]
    if first not in (b"{", b"["):
        found = _MEMBER.match(text) if first == b'"' else _LOGFMT.search(text)
        if found is None:
            return None
        text = found[1]
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _walk(value: Any, host: str | None, depth: int) -> Iterator[Relayed]:
    if depth > _DEEPEST:
        return
    if isinstance(value, str):
        yield from _lines_of(value, host, NO_CLOCK)
    elif isinstance(value, list):
        for element in value:
            yield from _walk(element, host, depth + 1)
    elif isinstance(value, dict):
        host = _host_of(value) or host
        if isinstance(value.get("stream"), dict) and isinstance(value.get("values"), list):
            host = _host_of(value["stream"]) or host
            for entry in value["values"]:
                yield from _loki_entry(entry, host)
            return
        for member in value.values():
            yield from _walk(member, host, depth + 1)


def _loki_entry(entry: Any, host: str | None) -> Iterator[Relayed]:
    """``["1760000000000000000", "line"]``: nanoseconds since 1970."""
    if not (isinstance(entry, list) and len(entry) >= 2 and all(isinstance(part, str) for part in entry[:2])):
        return
    stamp = entry[0]
    reading = NO_CLOCK
    if stamp.isascii() and stamp.isdigit() and len(stamp) <= 20:
        reading = Reading("epoch", int(stamp) // 1000, None, None, 1, stamp)
    yield from _lines_of(entry[1], host, reading)


def _lines_of(value: str, host: str | None, reading: Reading) -> Iterator[Relayed]:
    text = value.encode("utf-8", "surrogatepass")
    if not _HINT.search(text):
        return
    for line in text.split(b"\n"):
        if _HINT.search(line):
            envelope = unwrap(line)
            own = envelope.reading
            yield Relayed(
                envelope, envelope.host or host, own if own.kind != "none" or reading is NO_CLOCK else reading
            )


def _host_of(members: Mapping[str, Any]) -> str | None:
    for key in _HOST_KEYS:
        value = members.get(key)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, dict) and isinstance(value.get("name"), str):
            return str(value["name"])
    return None
