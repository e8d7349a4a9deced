"""Whether a machine or a person retried: by what the scheduler states, and by the rhythm of the retries of a chain.

A machine submits within seconds, or always after the same time. A person takes now a minute and now an hour. Where
neither shows, nobody knows: two retries have no rhythm.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Final, NamedTuple

from aftershock.pipeline.attempts import US
from aftershock.pipeline.links import Link
from aftershock.pipeline.retry_rules import RetryRules

# Users that are no persons: the scheduler and the system.
_SYSTEM: Final = frozenset({"0", "root", "slurm", "slurmctld", "system"})


class Mode(NamedTuple):
    """``auto``, ``manual`` or ``unknown``, and what decided it."""

    mode: str
    evidence: str | None = None


def modes_of(path: Sequence[Link], rules: RetryRules) -> list[Mode]:
    """The mode of each retry of a chain."""
    modes = [_stated(link, rules) for link in path]
    open_links = [number for number, link in enumerate(path) if link.trigger == "resubmit"]
    regular = _regular([path[number] for number in open_links], rules)
    irregular = not any(regular) and _irregular([path[number] for number in open_links], rules)
    for number, is_regular in zip(open_links, regular, strict=True):
        if is_regular:
            evidence = modes[number].evidence if modes[number].mode == "auto" else None
            modes[number] = Mode("auto", "+".join(word for word in (evidence, "constant_gap") if word))
        elif irregular and modes[number].mode == "unknown":
            modes[number] = Mode("manual", "irregular_gaps")
    return modes


def mode_of_chain(modes: Iterable[Mode]) -> str:
    """That of all its retries, if they agree. What was only put back into the queue was put there by the scheduler."""
    found = {mode.mode for mode in modes} or {"auto"}
    return found.pop() if len(found) == 1 else "unknown"


def _stated(link: Link, rules: RetryRules) -> Mode:
    """What a single link says of itself."""
    if link.trigger != "resubmit":
        by = link.decided_by
        if by is not None and by.strip().lower() not in _SYSTEM:
            return Mode("manual", "requeued_by_user")
        return Mode("auto", link.trigger)
    if link.rule in ("stated", "dependency"):
        return Mode("auto", link.rule)
    submit, end = link.later.submit_time, link.earlier.end_time
    if submit is not None and end is not None and submit - end <= rules.auto_submit_s * US:
        return Mode("auto", "submitted_at_end")
    return Mode("unknown")


def _gaps(links: Sequence[Link], *, to_submit: bool) -> list[float | None]:
    gaps: list[float | None] = []
    for link in links:
        until = link.later.submit_time if to_submit else link.later.start_time
        end = link.earlier.end_time
        gaps.append(None if until is None or end is None else (until - end) / US)
    return gaps


def _regular(links: Sequence[Link], rules: RetryRules) -> list[bool]:
    """Which of the retries lie the same time after the end: up to the submit, or else up to the start."""
    for to_submit in (True, False):
        gaps = _gaps(links, to_submit=to_submit)
        known = [gap for gap in gaps if gap is not None]
        if len(known) < rules.regular_retries:
            continue
        middle = median(known)
        reach = max(rules.regular_spread_s, rules.regular_spread * abs(middle))
        close = [gap is not None and abs(gap - middle) <= reach for gap in gaps]
        # A rhythm is what most of them have.
        if sum(close) >= max(rules.regular_retries, (len(known) + 1) // 2):
            return close
    return [False] * len(links)


def _irregular(links: Sequence[Link], rules: RetryRules) -> bool:
    """Whether there are enough gaps to see a rhythm, and none is there."""
    known = [gap for gap in _gaps(links, to_submit=True) if gap is not None]
    if len(known) < rules.regular_retries:
        return False
    middle = median(known)
    spread = median(abs(gap - middle) for gap in known)
    return spread > max(rules.regular_spread_s, rules.irregular_spread * abs(middle))
