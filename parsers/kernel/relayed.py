"""Kernel lines that an agent passes on inside JSON: health events, alerts, answers of Loki.

    {"Event detail":{"Reason":"NvidiaGpuXidErrorPendingReplacement","Message":"NVRM: Xid (PCI:0000:9d:00): 74, ..."}}
    {"streams":[{"stream":{"host":"gpu017"},"values":[["1760000000000000000","NVRM: Xid (PCI:0000:3b:00): 45, ..."]]}]}

The agent's own clock says when it noticed; only Loki hands on the time of the line. Records of log stores are read as
envelopes (:mod:`aftershock.parsers.envelopes.records`); here is what is left.
https://grafana.com/docs/loki/latest/reference/loki-http-api/
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson

from aftershock.parsers.clock import NO_CLOCK, Reading
from aftershock.parsers.envelopes import unwrap
from aftershock.parsers.envelopes.layer import clocks_together
from aftershock.parsers.envelopes.origin import says_kernel
from aftershock.parsers.envelopes.records import is_output_of_container
from aftershock.parsers.envelopes.talk import is_talk
from aftershock.parsers.formats import Envelope

_DEEPEST: Final = 24
_HOST_KEYS: Final = (
    *("host", "hostname", "_HOSTNAME", "node", "nodename", "node_name", "nodeName", "Hostname", "HostName", "instance"),
)
# What dashboards, queries and alert rules look for; nobody passes on an event under these keys.
_RULE_KEYS: Final = frozenset(
    {"expr", "query", "pattern", "regex", "regexp", "match", "title", "legendFormat"}
    | {"example", "examples", "sample", "samples"}
)
# What people and data sets call a text, where its object is printed over several lines.
_TALK_KEYS: Final = frozenset({"instruction", "input", "output", "prompt", "completion", "body", "question", "answer"})
_HINT: Final = re.compile(rb"S?Xid \(")
# A member of an object, or an element of an array, on a line of its own.
_MEMBER: Final = re.compile(rb'\s*(?:"(?P<key>[^"\\]{1,80})"\s*:\s*)?(?P<text>"(?:[^"\\]|\\.)*")\s*,?\s*\Z')

# level=error msg="NVRM: Xid (...)": the records of agents written in Go.
_LOGFMT: Final = re.compile(rb'\b(?:msg|message|log|line)=(?P<text>"NVRM: Xid \((?:[^"\\]|\\.)*")')


class Relayed(NamedTuple):
    """A kernel line within JSON: its own envelope, and the host and time that the JSON states for it."""

    envelope: Envelope
    host: str | None
    reading: Reading
    trust: str = "relayed"


def is_json(text: bytes) -> bool:
    """Whether a text is JSON, as a whole."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


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
        if found is None or (first == b'"' and _is_quotation(text, found)):
            return None
        text = found["text"]
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _is_quotation(text: bytes, found: re.Match[bytes]) -> bool:
    """Whether a string alone on a line is somebody's quotation, or a member that says what to look for."""
    if found["key"] is not None:
        return found["key"].decode("utf-8", "replace") in _RULE_KEYS | _TALK_KEYS
    return text[:1] == b'"' and not text.rstrip().endswith(b",")


def _walk(value: Any, host: str | None, depth: int) -> Iterator[Relayed]:
    if depth > _DEEPEST:
        return
    if isinstance(value, str):
        yield from _lines_of(value, host, NO_CLOCK)
    elif isinstance(value, list):
        for element in value:
            yield from _walk(element, host, depth + 1)
    elif isinstance(value, dict) and not is_talk(value):
        host = _host_of(value) or host
        if isinstance(value.get("stream"), dict) and isinstance(value.get("values"), list):
            host = _host_of(value["stream"]) or host
            of_container = is_output_of_container((value["stream"],))
            of_kernel = not of_container and says_kernel((value["stream"],))
            for entry in value["values"]:
                for relayed in _loki_entry(entry, host, of_container=of_container):
                    is_kernel = of_kernel or (not of_container and relayed.envelope.tag == "kernel")
                    yield relayed._replace(trust="kernel") if is_kernel else relayed
            return
        for key, member in value.items():
            if key not in _RULE_KEYS:
                yield from _walk(member, host, depth + 1)


def _loki_entry(entry: Any, host: str | None, *, of_container: bool) -> Iterator[Relayed]:
    """``["1760000000000000000", "line"]``: nanoseconds since 1970; of a container's output when it was collected."""
    if not (isinstance(entry, list) and len(entry) >= 2 and all(isinstance(part, str) for part in entry[:2])):
        return
    stamp = entry[0]
    reading = NO_CLOCK
    if not of_container and stamp.isascii() and stamp.isdigit() and len(stamp) <= 20:
        reading = Reading("epoch", int(stamp) // 1000, None, None, 1, stamp)
    yield from _lines_of(entry[1], host, reading)


def _lines_of(value: str, host: str | None, reading: Reading) -> Iterator[Relayed]:
    text = value.encode("utf-8", "surrogatepass")
    if not _HINT.search(text):
        return
    for line in text.split(b"\n"):
        if _HINT.search(line):
            envelope = unwrap(line)
            yield Relayed(envelope, envelope.host or host, clocks_together(reading, envelope.reading))


def _host_of(members: Mapping[str, Any]) -> str | None:
    for key in _HOST_KEYS:
        value = members.get(key)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, dict) and isinstance(value.get("name"), str):
            return str(value["name"])
    return None
