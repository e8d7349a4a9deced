"""Which bursts of one host belong to one episode.

Errors of a GPU, and of the links that its host shares, form spans of time without a gap; each span is one episode at
least. Faults of a process join the span of their GPU if one was open, else the process is an episode of its own.
Teardown and summaries join the one episode that explains them best, and never tie two episodes together.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Final

from aftershock.parsers.clock import SECOND
from aftershock.pipeline.bursts import Burst
from aftershock.pipeline.fault_codes import Reach

# How many spans are looked at for one burst: a storm of bursts costs linear time, whatever it looks like.
_MOST_LOOKS: Final = 256


@dataclass(frozen=True)
class EpisodeRules:
    """How near is near, in microseconds.

    burst_gap: between errors of one burst. gap: between bursts of one episode.
    slack: how much later than its effect a cause may be stamped: records of one moment are not written in order.
    caused_within: how long before a burst the error may lie that it prints as its cause.
    teardown_within: how long after a fault on one host of a job its other hosts take down.
    """

    burst_gap: int = 60 * SECOND
    gap: int = 60 * SECOND
    slack: int = 2 * SECOND
    caused_within: int = 3600 * SECOND
    teardown_within: int = 120 * SECOND


def components(bursts: Sequence[Burst], rules: EpisodeRules) -> list[list[Burst]]:
    """The bursts of one host, in order, as episodes."""
    return _Links(bursts, rules).episodes()


@dataclass(eq=False)
class _Span:
    """Bursts in a row without a gap between them."""

    first: int
    end: int
    bursts: list[Burst] = field(default_factory=list)

    @cached_property
    def kills(self) -> bool:
        """Whether processes that used the GPU may fail of it."""
        return any(burst.nature.kills for burst in self.bursts)

    @cached_property
    def precedence(self) -> tuple[int, int, str]:
        """That of its cause."""
        return min(burst.precedence for burst in self.bursts)

    @cached_property
    def _majors(self) -> tuple[set[int], set[str]] | None:
        """Pids and names that its gravest errors print; None without such an error."""
        majors = [burst for burst in self.bursts if burst.nature.major]
        if not majors:
            return None
        return {b.pid for b in majors if b.pid is not None}, {b.process for b in majors if b.process is not None}

    def killed(self, burst: Burst) -> tuple[bool, bool] | None:
        """Whether teardown on another GPU can come of it, as (other pid, other name): less is surer.

        A fault that names no process may have hit any of the host.
        """
        if self._majors is None:
            return None
        pids, names = self._majors
        same_pid, same_name = burst.pid in pids, burst.process in names
        return (not same_pid, not same_name) if same_pid or same_name or not (pids or names) else None


def _spans(bursts: Iterable[Burst], gap: int) -> list[_Span]:
    """Bursts, in order, cut where the gap is longer.

    An error that is only noted may go on for days; it does not hold a span open while it does.
    """
    spans: list[_Span] = []
    for burst in bursts:
        if not spans or burst.first - spans[-1].end > gap:
            spans.append(_Span(burst.first, burst.first))
        span = spans[-1]
        span.bursts.append(burst)
        noted = burst.nature.reach in (Reach.GPU, Reach.FABRIC) and not burst.nature.kills
        span.end = max(span.end, burst.first if noted else burst.last)
    return spans


class _Timeline:
    """Spans found by time. They may overlap."""

    def __init__(self, spans: Iterable[_Span]) -> None:
        self.spans = sorted(spans, key=lambda span: span.bursts[0].order)
        self._firsts = [span.first for span in self.spans]
        self._ends = list(accumulate((span.end for span in self.spans), max))

    def before(self, at: int, gap: int, slack: int) -> Iterator[_Span]:
        """Spans that began by then and ended no more than the gap before, the latest first."""
        begin = bisect_right(self._firsts, at + slack) - 1
        for i in range(begin, max(-1, begin - _MOST_LOOKS), -1):
            if at - self._ends[i] > gap:
                return
            if at - self.spans[i].end <= gap:
                yield self.spans[i]


_NOTHING: Final = _Timeline(())


def _timelines(bursts: Iterable[Burst], key: Callable[[Burst], Hashable], gap: int) -> dict[Hashable, _Timeline]:
    """Bursts, in order, as one timeline for each key."""
    groups: dict[Hashable, list[Burst]] = defaultdict(list)
    for burst in bursts:
        groups[key(burst)].append(burst)
    return {name: _Timeline(_spans(group, gap)) for name, group in groups.items()}


def _gpu(burst: Burst) -> Hashable:
    return burst.gpu


def _pid(burst: Burst) -> Hashable:
    return burst.pid


def _name(burst: Burst) -> Hashable:
    return burst.process


def _process(burst: Burst) -> Hashable:
    """The process that a fault belongs to; on a line that names none, that of the GPU."""
    if burst.pid is not None:
        return burst.pid
    return burst.gpu, burst.process


class _Links:
    """Ties between the bursts of one host."""

    def __init__(self, bursts: Sequence[Burst], rules: EpisodeRules) -> None:
        self._bursts = bursts
        self._rules = rules
        self._leader: dict[Burst, Burst] = {}
        by_reach: dict[Reach, list[Burst]] = defaultdict(list)
        for burst in bursts:
            by_reach[burst.nature.reach].append(burst)
        gap = rules.gap
        devices = [b for b in bursts if b.nature.reach in (Reach.GPU, Reach.FABRIC)]
        faults = by_reach[Reach.PROCESS]
        self._teardown = by_reach[Reach.TEARDOWN]
        self._summaries = by_reach[Reach.SUMMARY]
        self._devices = _timelines(devices, _gpu, gap)
        self._fabric = _Timeline(_spans(by_reach[Reach.FABRIC], gap))
        self._processes = _timelines(faults, _process, gap)
        # Each fault of a process by itself, for lines that do not name theirs.
        alone: dict[Hashable, list[_Span]] = defaultdict(list)
        for burst in faults:
            alone[burst.gpu].append(_Span(burst.first, burst.last, [burst]))
        self._faults = {gpu: _Timeline(spans) for gpu, spans in alone.items()}
        deadly = [span for timeline in self._devices.values() for span in timeline.spans if span.kills]
        self._deadly = _Timeline(deadly)
        self._causes = _timelines((*devices, *faults), lambda b: (b.gpu, b.code), 0)

    def episodes(self) -> list[list[Burst]]:
        """All bursts, each in one episode."""
        for timeline in (*self._devices.values(), self._fabric, *self._processes.values()):
            for span in timeline.spans:
                for burst in span.bursts[1:]:
                    self._tie(span.bursts[0], burst)
        for timeline in self._processes.values():
            for span in timeline.spans:
                self._join_device(span)
        self._tie_teardown()
        self._tie_summaries()
        episodes: dict[Burst, list[Burst]] = defaultdict(list)
        for burst in self._bursts:
            episodes[self._find(burst)].append(burst)
        return list(episodes.values())

    def _find(self, burst: Burst) -> Burst:
        path = []
        while (above := self._leader.get(burst, burst)) is not burst:
            path.append(burst)
            burst = above
        for below in path:
            self._leader[below] = burst
        return burst

    def _tie(self, one: Burst, other: Burst) -> None:
        a, b = self._find(one), self._find(other)
        if a is not b:
            self._leader[b] = a

    def _join_device(self, span: _Span) -> None:
        """Faults of a process that follow a fault of its GPU come of that; the first that do take all with them."""
        for burst in span.bursts:
            device = self._open(self._devices, burst.gpu, burst)
            if device is not None and device.kills:
                self._tie(device.bursts[0], burst)
                return

    def _open(self, timelines: Mapping[Hashable, _Timeline], key: Hashable, burst: Burst) -> _Span | None:
        timeline = timelines.get(key, _NOTHING)
        return next(timeline.before(burst.first, self._rules.gap, self._rules.slack), None)

    def _tie_teardown(self) -> None:
        """Each teardown goes to its cause; one without goes where others of its process went."""
        tied: set[Burst] = set()
        for burst in self._teardown:
            cause = self._printed_cause(burst) or self._near_cause(burst)
            if cause is not None:
                self._tie(cause, burst)
                tied.add(burst)
        for same in (_pid, _name):
            named = [burst for burst in self._teardown if same(burst) is not None]
            for timeline in _timelines(named, same, self._rules.gap).values():
                for span in timeline.spans:
                    self._go_along(span.bursts, tied)

    def _go_along(self, bursts: Sequence[Burst], tied: set[Burst]) -> None:
        guide = next((burst for burst in bursts if burst in tied), None)
        others = [burst for burst in bursts if burst not in tied]
        for burst in others:
            self._tie(guide or others[0], burst)
        if guide is not None:
            tied.update(others)

    def _printed_cause(self, burst: Burst) -> Burst | None:
        """The last error that has the code which the line names, on the same GPU."""
        before = [
            span.bursts[-1]
            for code in burst.caused_by
            if code != burst.code
            for span in self._causes.get((burst.gpu, code), _NOTHING).before(
                burst.first, self._rules.caused_within, self._rules.slack
            )
        ]
        own = [cause for cause in before if cause.pid == burst.pid or cause.pid is None or burst.pid is None]
        return max(own or before, key=lambda cause: cause.order, default=None)

    def _near_cause(self, burst: Burst) -> Burst | None:
        device = self._open(self._devices, burst.gpu, burst)
        if device is not None and device.kills:
            return device.bursts[0]
        fault = self._fault_of(burst)
        if fault is not None:
            return fault.bursts[0]
        ranked = [
            (match, span.precedence, span)
            for span in self._deadly.before(burst.first, self._rules.gap, self._rules.slack)
            if (match := span.killed(burst)) is not None
        ]
        if ranked:
            return min(ranked, key=lambda entry: entry[:2])[2].bursts[0]
        return None if device is None else device.bursts[0]

    def _fault_of(self, burst: Burst) -> _Span | None:
        """The fault of the process that is taken down: its own pid, or a line of the same GPU that names none."""
        if burst.pid is None:
            return self._open(self._faults, burst.gpu, burst)
        own = self._open(self._processes, burst.pid, burst)
        if own is not None:
            return own
        near = self._faults.get(burst.gpu, _NOTHING).before(burst.first, self._rules.gap, self._rules.slack)
        return next((span for span in near if span.bursts[0].pid is None), None)

    def _tie_summaries(self) -> None:
        """A summary goes to the errors of its GPU, else to those of the links, else to the teardown of its GPU."""
        teardown = _timelines(self._teardown, _gpu, self._rules.gap)
        for burst in self._summaries:
            span = (
                self._open(self._devices, burst.gpu, burst)
                or self._open(self._faults, burst.gpu, burst)
                or self._open({None: self._fabric}, None, burst)
                or self._open(teardown, burst.gpu, burst)
            )
            if span is not None:
                self._tie(span.bursts[-1], burst)
