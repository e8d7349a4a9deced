"""The same question in the two ways that a server may offer, and the question which labels it has at all.

A range selector asked at one moment gives the samples as they were scraped; ``query_range`` would make up others at its
steps. ``remote_read``, streamed, gives the chunks as they are stored, with the markers of staleness:
https://prometheus.io/docs/prometheus/latest/querying/remote_read_api/
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import cramjam
import orjson

from aftershock.pipeline.metrics.live_plan import Ask, Matcher, Names
from aftershock.pipeline.metrics.live_server import Question

QUERY: Final = "query"
REMOTE_READ: Final = "remote_read"

_MATCHES: Final = 2  # LabelMatcher.Type RE
_MATCHES_NOT: Final = 3
_STREAMED_XOR_CHUNKS: Final = 1
_STREAMED: Final = "application/x-streamed-protobuf"


def question_of(ask: Ask, api: str, timeout_s: float) -> Question:
    """An ask as a request."""
    return _remote_read(ask) if api == REMOTE_READ else _query(ask, timeout_s)


def labels_question(names: Names, begin: int, end: int) -> Question:
    """Which labels the series of the metrics have between two times (milliseconds)."""
    form = {"match[]": "{" + names.metric().text() + "}", "start": _seconds(begin), "end": _seconds(end)}
    return Question("/api/v1/labels", form)


def labels_in(answer: bytes) -> frozenset[str]:
    """The labels that an answer names; none if it is no such answer."""
    try:
        found = orjson.loads(answer)
    except orjson.JSONDecodeError:
        return frozenset()
    names = found.get("data") if isinstance(found, dict) else None
    return frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()


def _query(ask: Ask, timeout_s: float) -> Question:
    begin, end = ask.window.begin, ask.window.end
    # The last moment belongs to the range, the first does so only before Prometheus 3: it is cut off in any case.
    query = f"{ask.selector()}[{end - begin}ms]"
    return Question("/api/v1/query", {"query": query, "time": _seconds(end - 1), "timeout": f"{timeout_s:g}s"})


def _remote_read(ask: Ask) -> Question:
    matchers = b"".join(_field(3, _matcher(matcher)) for matcher in ask.matchers)
    query = _number(1, ask.window.begin) + _number(2, ask.window.end - 1) + matchers
    request = _field(1, query) + _number(2, _STREAMED_XOR_CHUNKS)
    headers = {
        "Content-Type": "application/x-protobuf",
        "Content-Encoding": "snappy",
        "X-Prometheus-Remote-Read-Version": "0.1.0",
    }
    return Question("/api/v1/read", None, bytes(cramjam.snappy.compress_raw(request)), headers, _STREAMED)


def _matcher(matcher: Matcher) -> bytes:
    kind = _MATCHES_NOT if matcher.is_not else _MATCHES
    return _number(1, kind) + _field(2, matcher.label.encode()) + _field(3, matcher.value.encode())


def _seconds(ms: int) -> str:
    return f"{ms // 1000}.{ms % 1000:03d}"


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value & (1 << 64) - 1)


def _varint(value: int) -> bytes:
    parts: list[int] = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def apis(wanted: str) -> Sequence[str]:
    """The ways to try, the better one first."""
    return (REMOTE_READ, QUERY) if wanted == "auto" else (wanted,)
