"""Attempts of several logs that are one run: ranks that write a file each, output and errors apart, and the like."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from aftershock.pipeline.training.attempts import LogAttempt

# The part of a path that tells ranks of one run apart: `rank3`, `node01_rank_3`, torchrun's `attempt_0/3/stderr.log`.
_RANK: Final = re.compile(
    r"(?P<word>(?:global|local|world)?[-_.]?(?:rank|worker|proc|process|task)s?[-_.]?)\d{1,6}"
    r"|(?<=/attempt_)\d{1,4}/\d{1,6}(?=/std(?:out|err)\b)",
    re.IGNORECASE,
)
# Output and errors of one process.
_STREAMS: Final = re.compile(r"std(?:out|err)(?=[./_-]|\Z)|(?<=\.)(?:out|err)\Z", re.IGNORECASE)


def run_of(path: str) -> str:
    """A path without what tells the files of one run apart.

    >>> run_of("logs/rank0.log") == run_of("logs/rank12.log")
    True
    >>> run_of("logs/run1.log") == run_of("logs/run2.log")
    False
    """
    return _STREAMS.sub("<stream>", _RANK.sub(lambda found: f"{found['word'] or ''}<rank>", path))


def side_by_side(logs: Sequence[Sequence[LogAttempt]]) -> list[list[LogAttempt]]:
    """The attempts of one run, each with all logs that tell of it, in order.

    ``logs``: the attempts of each log, in order. Those of different logs are the same if they ran at the same time; if
    their times are not known, if they have the same place in their logs.
    """
    ordered = sorted((list(own) for own in logs if own), key=lambda own: (-len(own), own[0].source))
    if not ordered:
        return []
    runs = [[attempt] for attempt in ordered[0]]
    for own in ordered[1:]:
        for place, attempt in enumerate(own):
            runs[_nearest(runs, attempt, place)].append(attempt)
    for run in runs:
        run.sort(key=lambda attempt: attempt.name)
    return runs


def _nearest(runs: Sequence[Sequence[LogAttempt]], attempt: LogAttempt, place: int) -> int:
    first, last = attempt.first_time, attempt.last_time
    if first is not None and last is not None:
        shared = [_shared(run[0], first, last) for run in runs]
        best = max(shared)
        if best > 0:
            return shared.index(best)
    return min(place, len(runs) - 1)


def _shared(base: LogAttempt, first: int, last: int) -> int:
    """Microseconds (and one, so that a moment counts) that two attempts have in common."""
    if base.first_time is None or base.last_time is None:
        return 0
    return max(0, min(last, base.last_time) - max(first, base.first_time) + 1)


def runs_of(attempts: Iterable[LogAttempt]) -> list[list[list[LogAttempt]]]:
    """Attempts without a scheduler's session, put together to runs: of each its attempts in order, with all logs."""
    by_source: dict[str, list[LogAttempt]] = defaultdict(list)
    for attempt in attempts:
        by_source[attempt.source].append(attempt)
    by_run: dict[str, list[list[LogAttempt]]] = defaultdict(list)
    for source, own in sorted(by_source.items()):
        by_run[run_of(source)].append(sorted(own, key=lambda attempt: attempt.number))
    found = []
    for logs in by_run.values():
        # Files of ranks that ran at other times are those of other runs.
        found += [side_by_side(together) for together in _at_one_time(logs)]
    return found


def _at_one_time(logs: Sequence[list[LogAttempt]]) -> list[list[list[LogAttempt]]]:
    groups: list[list[list[LogAttempt]]] = []
    spans: list[tuple[int, int] | None] = []
    for own in sorted(logs, key=_span_key):
        span = _span(own)
        at = next((n for n, other in enumerate(spans) if _touch(span, other)), None)
        if at is None:
            groups.append([own])
            spans.append(span)
            continue
        groups[at].append(own)
        other = spans[at]
        if span is not None and other is not None:
            spans[at] = min(span[0], other[0]), max(span[1], other[1])
    return groups


def _span_key(own: Sequence[LogAttempt]) -> tuple[bool, tuple[int, int], str]:
    span = _span(own)
    return span is None, span or (0, 0), own[0].source


def _span(own: Sequence[LogAttempt]) -> tuple[int, int] | None:
    times = [time for attempt in own for time in (attempt.first_time, attempt.last_time) if time is not None]
    return (min(times), max(times)) if times else None


def _touch(one: tuple[int, int] | None, other: tuple[int, int] | None) -> bool:
    if one is None or other is None:
        return True
    return one[0] <= other[1] and other[0] <= one[1]
