"""What a server is asked: for each span of time the hosts that events need there, as few and as small as will do.

The hosts of events come first, in the order of time, then the hosts that worked beside them. Nothing here asks.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aftershock.pipeline.metrics.asked import Asked, window_ms
from aftershock.pipeline.metrics.rules import WindowRules

Span = tuple[int, int]

# Of one question: so many hosts, and so long a time. A server holds all of an answer in memory.
HOSTS_AT_ONCE: Final = 16
_MOST_MS: Final = 6 * 3_600_000
# Windows begin and end at multiples of this: hosts that failed together share their questions, and so do runs.
_GRID_MS: Final = 300_000
# Halves of halves of a question that is too large; below that it is left.
MOST_HALVINGS: Final = 6
_LEAST_MS: Final = 60_000

_SPECIAL: Final = re.compile(r"([.+*?()|\[\]{}^$\\])")
# Labels that hold the UUID of a GPU: they find what an exporter in a container names after its own pod.
_UUID_LABELS: Final = ("UUID", "gpu_uuid", "uuid")


@dataclass(frozen=True)
class Window:
    """Times [begin, end) in milliseconds, and hosts. ``halvings``: how often it was cut in two."""

    begin: int
    end: int
    hosts: tuple[str, ...]
    halvings: int = 0

    def halves(self) -> tuple[Window, ...]:
        """Two windows that cover this one: by hosts, then by time; none where it is small enough."""
        if self.halvings >= MOST_HALVINGS:
            return ()
        deeper = self.halvings + 1
        if len(self.hosts) > 1:
            middle = len(self.hosts) // 2
            groups = (self.hosts[:middle], self.hosts[middle:])
            return tuple(Window(self.begin, self.end, group, deeper) for group in groups)
        if self.end - self.begin < 2 * _LEAST_MS:
            return ()
        cut = (self.begin + self.end) // 2
        return Window(self.begin, cut, self.hosts, deeper), Window(cut, self.end, self.hosts, deeper)

    def text(self) -> str:
        """``2026-03-01T10:00:00Z to 2026-03-01T11:00:00Z of gpu001, gpu002``."""
        shown = ", ".join(self.hosts[:3])
        more = f" and {len(self.hosts) - 3} more" if len(self.hosts) > 3 else ""
        return f"{_iso(self.begin)} to {_iso(self.end)} of {shown}{more}"


@dataclass(frozen=True)
class Matcher:
    """``label=~"value"``, or ``!~``. The whole value has to match."""

    label: str
    value: str
    is_not: bool = False

    def text(self) -> str:
        quoted = self.value.replace("\\", "\\\\").replace('"', '\\"')
        return f'{self.label}{"!~" if self.is_not else "=~"}"{quoted}"'


@dataclass(frozen=True)
class Ask:
    """One question: the series that all matchers match, in a window. First the metrics, then the hosts."""

    window: Window
    matchers: tuple[Matcher, ...]

    def selector(self) -> str:
        # The long list of metrics stands last: excerpts show the beginning.
        return "{" + ",".join(matcher.text() for matcher in (*self.matchers[1:], self.matchers[0])) + "}"


@dataclass(frozen=True)
class Names:
    """How hosts are found in labels.

    metrics: what is asked for. labels: what may hold a host's name. spellings: other names of a host.
    uuids: the GPUs of a host.
    """

    metrics: tuple[str, ...]
    labels: tuple[str, ...]
    spellings: Mapping[str, Sequence[str]]
    uuids: Mapping[str, Sequence[str]]

    def metric(self) -> Matcher:
        return Matcher("__name__", "|".join(self.metrics))

    def known_labels(self) -> tuple[str, ...]:
        """Every label that questions may be about."""
        return (
            (*self.labels, *(label for label in _UUID_LABELS if label not in self.labels))
            if self.uuids
            else self.labels
        )

    def asks(self, window: Window, labels: Sequence[str]) -> Iterator[Ask]:
        """A question for each label. What an earlier one finds, a later one leaves out: no sample comes twice."""
        before: list[Matcher] = []
        for label in labels:
            value = self._value(label, window.hosts)
            if value:
                yield Ask(window, (self.metric(), Matcher(label, value), *before))
                before.append(Matcher(label, value, is_not=True))

    def halves(self, ask: Ask) -> list[Ask]:
        """Smaller questions with the same answer together; none where there are none."""
        metric, matcher, *before = ask.matchers
        halves = [(window, self._value(matcher.label, window.hosts)) for window in ask.window.halves()]
        return [Ask(window, (metric, Matcher(matcher.label, value), *before)) for window, value in halves if value]

    def _value(self, label: str, hosts: Sequence[str]) -> str:
        if label in _UUID_LABELS:
            return "|".join(_plain(uuid) for host in hosts for uuid in self.uuids.get(host, ()))
        spelt = dict.fromkeys(name for host in hosts for name in (host, *_short(host), *self.spellings.get(host, ())))
        # A domain or a port may follow; names of hosts know no case.
        return f"(?i:{'|'.join(map(_plain, spelt))})([.:].*)?" if spelt else ""


def windows_of(asked: Sequence[Asked], rules: WindowRules, most_peers: int) -> list[Window]:
    """The windows of all events, apart from each other for each host; some minutes more than they need."""
    own: dict[str, list[Span]] = defaultdict(list)
    beside: dict[str, list[Span]] = defaultdict(list)
    for one in asked:
        begin, before, _, end = window_ms(one, rules)
        own[one.host].append(_on_grid(begin, end))
        for peer in one.peers[:most_peers]:
            beside[peer].append(_on_grid(before, end))
    first = {host: joined(spans) for host, spans in own.items()}
    second = {host: without(joined(spans), first.get(host, ())) for host, spans in beside.items()}
    return [*_windows(first), *_windows(second)]


def _on_grid(begin: int, end: int) -> Span:
    return begin // _GRID_MS * _GRID_MS, -(-end // _GRID_MS) * _GRID_MS


def _windows(spans: Mapping[str, Iterable[Span]]) -> list[Window]:
    hosts: dict[Span, list[str]] = defaultdict(list)
    for host in sorted(spans):
        for span in spans[host]:
            for piece in _pieces(span):
                hosts[piece].append(host)
    return [
        Window(begin, end, tuple(some[at : at + HOSTS_AT_ONCE]))
        for (begin, end), some in sorted(hosts.items())
        for at in range(0, len(some), HOSTS_AT_ONCE)
    ]


def _pieces(span: Span) -> Iterator[Span]:
    begin, end = span
    while begin < end:
        yield begin, min(end, begin + _MOST_MS)
        begin += _MOST_MS


def joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Spans that overlap or touch as one."""
    merged: list[Span] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return tuple(merged)


def without(spans: Iterable[Span], taken: Sequence[Span]) -> tuple[Span, ...]:
    """What of some spans lies outside others. Both are sorted and apart from each other."""
    left: list[Span] = []
    for begin, end in spans:
        at = begin
        for first, last in taken:
            if last <= at or first >= end:
                continue
            if first > at:
                left.append((at, first))
            at = last
        if at < end:
            left.append((at, end))
    return tuple(left)


def _short(host: str) -> tuple[str, ...]:
    """A name without its domain. An address has none."""
    first, dot, _ = host.partition(".")
    return (first,) if dot and first and not first.isdigit() else ()


def _plain(text: str) -> str:
    """A text as an expression that matches it alone."""
    return _SPECIAL.sub(r"\\\1", text)


def _iso(ms: int) -> str:
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=ms)
    return f"{moment.replace(microsecond=0).isoformat()}Z"
