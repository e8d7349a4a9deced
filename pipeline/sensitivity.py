"""How the numbers of retries depend on the thresholds that make them.

Chains that nobody states are inferred, and every threshold of the inference is a choice. The same history is linked
again with each threshold moved; what comes of it are rows of ``findings``, the subject naming the threshold
(``max_gap_s=3600``), ``all`` standing for the rules as they are. A partition gives sums and its intervals, packed into
rows of the same table; they are added up where all partitions meet.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import comb, sqrt
from typing import Any, Final

from aftershock.pipeline.links import History, is_placed
from aftershock.pipeline.retries import interval_of, outcome_of, requeue_interval_of
from aftershock.pipeline.retry_rules import RetryRules, variants
from aftershock.schemas.incidents import Finding

ALL: Final = "all"
_PARTIAL: Final = "partial"
_Z95: Final = 1.959963984540054
# Up to so many values the limits of a median are exact.
_EXACT: Final = 1000


@dataclass
class Tally:
    """Counts of one set of rules. ``intervals``, ``requeue_intervals``: seconds, with how often each occurred."""

    chains: int = 0
    decided: int = 0  # chains whose outcome is known and final
    succeeded: int = 0
    retries: int = 0
    retries_decided: int = 0
    retries_succeeded: int = 0
    placed: int = 0  # sessions that got hosts
    intervals: Counter[float] = field(default_factory=Counter)
    requeue_intervals: Counter[float] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Sums with another tally."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.intervals.update(other.intervals)
        self.requeue_intervals.update(other.requeue_intervals)


_COUNTS: Final = ("chains", "decided", "succeeded", "retries", "retries_decided", "retries_succeeded", "placed")


def tallies(history: History, placed: int, first: int | None, last: int | None) -> list[Finding]:
    """The tallies of a history under its rules and under each variant, packed.

    placed, first, last: how many sessions got hosts and the time that they cover, with those that the history leaves
    out because nothing can link them.
    """
    found = []
    for subject, rules in ((ALL, history.rules), *variants(history.rules)):
        tally = _tally(history, rules)
        tally.placed = placed
        found.append(_packed(subject, tally, first, last))
    return found


def _tally(history: History, rules: RetryRules) -> Tally:
    """Counts of the chains under some rules, without putting them together: each ends in one session."""
    tally = Tally()
    jobs, links = history.linked(rules)
    before = {step.later.session_id: step.earlier for step in links}
    followed = {step.earlier.session_id for step in links}
    for step in links:
        if (interval := interval_of(step)) is not None:
            tally.intervals[round(interval, 3)] += 1
        if (interval := requeue_interval_of(step)) is not None:
            tally.requeue_intervals[round(interval, 3)] += 1
        last = step.later
        if last.session_id in followed:
            continue
        retries = 1
        one = step.earlier
        while (former := before.get(one.session_id)) is not None:
            one = former
            retries += 1
        _add_chain(tally, outcome_of(last, rules, never=history.is_put_back(last, jobs)), retries)
    for session in history.put_back(jobs):
        if session.session_id not in followed and session.session_id not in before and is_placed(session):
            _add_chain(tally, "never_restarted", 0)
    return tally


def _add_chain(tally: Tally, outcome: str | None, retries: int) -> None:
    tally.chains += 1
    tally.retries += retries
    if outcome is not None and outcome != "running":
        tally.decided += 1
        tally.retries_decided += retries
        if outcome == "succeeded":
            tally.succeeded += 1
            tally.retries_succeeded += bool(retries)


def _packed(subject: str, tally: Tally, first: int | None, last: int | None) -> Finding:
    counts: dict[str, Any] = {name: getattr(tally, name) for name in _COUNTS}
    for name in ("intervals", "requeue_intervals"):
        counts[name] = sorted(getattr(tally, name).items())
    return Finding(
        finding="retry_tally",
        subject=subject,
        method=_PARTIAL,
        note=json.dumps(counts),
        window_start=first,
        window_end=last,
    )


def is_partial(row: Finding) -> bool:
    """Whether a row is a packed tally."""
    return row.method == _PARTIAL


def findings_of(partials: Iterable[Finding], rules: RetryRules) -> list[Finding]:
    """The findings of all partitions together."""
    sums: dict[str, Tally] = defaultdict(Tally)
    first: list[int] = []
    last: list[int] = []
    for row in partials:
        sums[row.subject or ALL].add(_unpacked(row))
        first += [row.window_start] if row.window_start is not None else []
        last += [row.window_end] if row.window_end is not None else []
    moved = dict(variants(rules))
    found = []
    for subject in sorted(sums):
        parameters = json.dumps(asdict(moved.get(subject, rules)), sort_keys=True)
        for row in _rows(subject, sums[subject]):
            row.window_start, row.window_end = min(first, default=None), max(last, default=None)
            row.parameters = parameters
            row.exposure = float(sums[subject].placed)
            found.append(row)
    return found


def _unpacked(row: Finding) -> Tally:
    told: Mapping[str, Any] = json.loads(row.note or "{}")
    tally = Tally(**{name: told[name] for name in _COUNTS})
    for name in ("intervals", "requeue_intervals"):
        setattr(tally, name, Counter(dict(told[name])))
    return tally


def _rows(subject: str, tally: Tally) -> Iterator[Finding]:
    """Counts, shares and quartiles; exposure is the number of sessions that got hosts."""
    note = "exposure: sessions that got hosts"
    for name, number in (("chains", tally.chains), ("retries", tally.retries)):
        yield Finding(finding=name, subject=subject, value=float(number), unit=name, numerator=float(number), note=note)
    shares = (
        ("chains", tally.succeeded, tally.decided, "chains that run still or ended nobody knows how do not count"),
        ("attempts", tally.retries_succeeded, tally.retries_decided, "retries that were the last of a success"),
    )
    for unit, numerator, denominator, words in shares:
        low, high = wilson(numerator, denominator)
        yield Finding(
            finding="retry_success_share",
            subject=subject,
            value=numerator / denominator if denominator else None,
            unit=unit,
            numerator=float(numerator),
            denominator=float(denominator),
            ci_low=low,
            ci_high=high,
            method="wilson",
            note=f"{words}; {note}",
        )
    kinds = (
        ("retry_interval", tally.intervals, "from the end of the earlier to the start of the later session"),
        ("requeue_interval", tally.requeue_intervals, "from the decision to requeue to the start"),
    )
    for name, counts, words in kinds:
        values = sorted(counts.elements())
        for quantile, part in (("q1", 0.25), ("median", 0.5), ("q3", 0.75)):
            low, high = median_limits(values) if quantile == "median" else (None, None)
            yield Finding(
                finding=f"{name}_{quantile}_s",
                subject=subject,
                value=quantile_of(values, part),
                unit="s",
                denominator=float(len(values)),
                ci_low=low,
                ci_high=high,
                method="order statistics" if quantile == "median" else None,
                note=f"{words}; {note}",
            )


def wilson(numerator: int, denominator: int) -> tuple[float | None, float | None]:
    """The interval of a share with 95 % confidence, by Wilson's score."""
    if not denominator:
        return None, None
    n, p, z2 = denominator, numerator / denominator, _Z95 * _Z95
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z95 / (1 + z2 / n) * sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def quantile_of(values: Sequence[float], part: float) -> float | None:
    """Between neighbours by distance, as numpy does it."""
    if not values:
        return None
    place = part * (len(values) - 1)
    at = int(place)
    after = min(at + 1, len(values) - 1)
    return values[at] + (values[after] - values[at]) * (place - at)


def median_limits(values: Sequence[float]) -> tuple[float | None, float | None]:
    """The interval of the median with at least 95 % confidence: values so far from both ends that fewer lie beyond
    them by chance. Fewer than six values have none."""
    n = len(values)
    if n > _EXACT:
        k = int(n / 2 - _Z95 * sqrt(n) / 2)
        return values[max(0, k - 1)], values[min(n - 1, n - k)]
    below, k = 0, -1
    while (below + comb(n, k + 1)) * 40 <= 2**n:
        k += 1
        below += comb(n, k)
    return (values[k], values[n - 1 - k]) if k >= 0 else (None, None)
