"""How well alarms tell of faults: what they found and how early, and how often they were wrong.

The threshold is fitted on the earlier part of the time and frozen; the later part is the one to believe. False alarms
count over all healthy time, also over that in which nothing could be judged. Beside each rate of detection stands what
the same alarms find of faults that never were: the same faults, moved to random times.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from aftershock.pipeline.metrics.alarm_rules import AlarmRules
from aftershock.pipeline.metrics.alarms import Episode, Signals, judge, meets_window, verdict_of, window_of
from aftershock.pipeline.metrics.exact import poisson
from aftershock.pipeline.metrics.faults import Fault
from aftershock.pipeline.metrics.healthy_time import Exposure, HealthyTime
from aftershock.pipeline.metrics.spans import Spans
from aftershock.pipeline.metrics.window_join import Ints
from aftershock.pipeline.sensitivity import median_limits, quantile_of, wilson
from aftershock.schemas.incidents import Finding

_SEED: Final = 20260510
# Thresholds are tried in steps of this factor.
_FACTOR: Final = 1.25
_MOST: Final = 1e4
# With less healthy time than this, in days of the cluster, no threshold is fitted.
_LEAST_DAYS: Final = 0.25
_FOUND: Final = ("before", "within_scrape", "after")


@dataclass(frozen=True)
class Part:
    """A part of the time, in cells."""

    name: str
    first: int
    end: int


class Scoring:
    """Scores of the alarms of a run."""

    def __init__(
        self,
        signals: Signals,
        faults: Sequence[Fault],
        ill: Mapping[str, Spans],
        exposure: Exposure,
        span: tuple[int, int],
        scrape_ms: int,
    ) -> None:
        self._signals = signals
        self._rules = signals.rules
        self._step_ms = signals.step_ms
        self._ill = ill
        self._exposure = exposure
        self._scrape_ms = scrape_ms
        first, end = span
        split = first + round((end - first) * self._rules.fit_share)
        self._parts = (Part("all", first, end), Part("earlier", first, split), Part("later", split, end))
        self._faults = [fault for fault in faults if self._inside(fault.time, self._parts[0])]
        self.fitted = self._time("earlier").cluster_days >= _LEAST_DAYS
        self.threshold = self._fit() if self.fitted else self._rules.least_score
        self.episodes = self._episodes()

    def _inside(self, time: int, part: Part) -> bool:
        return part.first * self._step_ms <= time < part.end * self._step_ms

    def _part(self, name: str) -> Part:
        return next(part for part in self._parts if part.name == name)

    def _time(self, name: str) -> HealthyTime:
        part = self._part(name)
        return self._exposure.between(part.first, part.end)

    def _episodes(self, threshold: float | None = None, without: str | None = None) -> list[Episode]:
        episodes = self._signals.episodes(self.threshold if threshold is None else threshold, without)
        judge(episodes, self._faults, self._ill, self._rules, self._scrape_ms)
        return episodes

    def _false(self, episodes: Sequence[Episode], name: str) -> int:
        part = self._part(name)
        return sum(one.verdict == "false" and self._inside(one.begin - 1, part) for one in episodes)

    def _fit(self) -> float:
        """The lowest threshold that is wrong no more often than is allowed, in the earlier part."""
        allowed = self._rules.false_per_day * self._time("earlier").cluster_days
        threshold = self._rules.least_score
        while threshold < _MOST and self._false(self._episodes(threshold), "earlier") > allowed:
            threshold = min(_MOST, threshold * _FACTOR)
        return threshold

    def _verdicts(self, faults: Sequence[Fault], episodes: Sequence[Episode]) -> dict[str, str | None]:
        """How each fault was found, by the first alarm in its window on any host; None if none was."""
        by_host: dict[str, list[Episode]] = defaultdict(list)
        for one in episodes:
            by_host[one.host].append(one)
        found: dict[str, str | None] = {}
        for fault in faults:
            window = window_of(fault, self._rules)
            first = min((one.begin for one in by_host[fault.host] if meets_window(one, window)), default=None)
            verdict = None if first is None else verdict_of(first, fault, self._scrape_ms)
            known = found.setdefault(fault.fault_id, verdict)
            if verdict is not None and (known is None or _FOUND.index(verdict) < _FOUND.index(known)):
                found[fault.fault_id] = verdict
        return found

    def findings(self) -> Iterator[Finding]:
        """All numbers, each with its window, exposure and parameters."""
        parameters = {**asdict(self._rules), "threshold": self.threshold, "step_s": self._step_ms / 1000}
        parameters["scrape_s"] = self._scrape_ms / 1000
        for name, row in self._rows():
            part = self._part(name)
            row.window_start = part.first * self._step_ms * 1000
            row.window_end = part.end * self._step_ms * 1000
            row.parameters = json.dumps(parameters, sort_keys=True)
            yield row

    def _rows(self) -> Iterator[tuple[str, Finding]]:
        xids = [fault for fault in self._faults if fault.xid]
        groups = [("all", "all", xids), ("every kind of fault", "all", self._faults)]
        groups += [
            (part.name, part.name, [fault for fault in xids if self._inside(fault.time, part)])
            for part in self._parts[1:]
        ]
        groups += [
            (name, "all", [fault for fault in xids if fault.fault_class == name])
            for name in sorted({fault.fault_class for fault in xids if fault.fault_class})
        ]
        for subject, name, faults in groups:
            yield from ((name, row) for row in self._detection(subject, faults))
        yield from (("all", row) for row in self._leads("all", xids))
        yield from (("all", row) for row in self._leads("every kind of fault", self._faults))
        for part in self._parts:
            yield from ((part.name, row) for row in self._wrong(part))
            yield part.name, self._true(part)
        yield from (("all", row) for row in self._without(xids))
        yield from (("all", row) for row in self._led(xids))
        yield (
            "all",
            Finding(
                finding="alarm_threshold",
                subject="all",
                value=self.threshold,
                unit="deviations",
                note="fitted on the earlier part of the time" if self.fitted else "not fitted: too little healthy time",
            ),
        )

    def _detection(self, subject: str, faults: Sequence[Fault]) -> Iterator[Finding]:
        verdicts = self._verdicts(faults, self.episodes)
        chance = _by_chance(faults, self.episodes, self._rules, self._scrape_ms, self._span_ms())
        for name, kinds in (("detection_share", _FOUND), ("detected_before_share", _FOUND[:1])):
            found = sum(verdict in kinds for verdict in verdicts.values())
            drawn = chance[name]
            yield Finding(
                finding=name,
                subject=subject,
                p_value=(1 + int((drawn >= found).sum())) / (1 + len(drawn)) if faults else None,
                note="faults on hosts that no alarm can be about count too; p_value: against moved faults",
                **_share(found, len(verdicts)),
            )
            yield Finding(
                finding=f"{name}_by_chance",
                subject=subject,
                value=float(drawn.mean()) / len(verdicts) if faults else None,
                unit="faults",
                numerator=float(drawn.mean()),
                denominator=float(len(verdicts)),
                ci_low=float(np.quantile(drawn, 0.025)) / len(verdicts) if faults else None,
                ci_high=float(np.quantile(drawn, 0.975)) / len(verdicts) if faults else None,
                method="permutation",
                exposure=float(len(drawn)),
                note="mean and middle 95 % over faults moved to random times of their hosts; exposure: permutations",
            )

    def _span_ms(self) -> tuple[int, int]:
        return self._parts[0].first * self._step_ms, self._parts[0].end * self._step_ms

    def _wrong(self, part: Part) -> Iterator[Finding]:
        time = self._time(part.name)
        wrong = self._false(self.episodes, part.name)
        low, high = poisson(wrong)
        judged = time.judged_host_days / time.host_days if time.host_days else None
        note = "exposure: healthy days, of which so much could be judged: " + (
            "none" if judged is None else f"{judged:.3f}"
        )
        for unit, subject, days in (
            ("per cluster day", part.name, time.cluster_days),
            ("per host day", part.name, time.host_days),
        ):
            yield Finding(
                finding="false_alarms_per_day",
                subject=subject,
                value=wrong / days if days else None,
                unit=unit,
                numerator=float(wrong),
                denominator=days,
                ci_low=low / days if days else None,
                ci_high=high / days if days else None,
                method="poisson",
                exposure=days,
                note=note,
            )
        yield Finding(
            finding="judged_time_share",
            subject=part.name,
            value=judged,
            unit="host days",
            numerator=time.judged_host_days,
            denominator=time.host_days,
            exposure=time.host_days,
            note="healthy time in which at least one metric could be held against its past",
        )

    def _true(self, part: Part) -> Finding:
        """How many of the alarms were followed by a fault, or followed one."""
        own = [one for one in self.episodes if one.verdict != "unscored" and self._inside(one.begin - 1, part)]
        found = sum(one.verdict in _FOUND for one in own)
        return Finding(
            finding="alarm_true_share",
            subject=part.name,
            note="alarms that belong to a fault; those that were not judged do not count",
            **{**_share(found, len(own)), "unit": "alarms"},
        )

    def _leads(self, subject: str, faults: Sequence[Fault]) -> Iterator[Finding]:
        """How long before faults they were shown, of those that were shown before."""
        longest: dict[str, float] = {}
        for fault in faults:
            window = window_of(fault, self._rules)
            begins = [one.begin for one in self.episodes if one.host == fault.host and meets_window(one, window)]
            if begins and verdict_of(min(begins), fault, self._scrape_ms) == _FOUND[0]:
                lead = (fault.time - min(begins)) / 1000
                longest[fault.fault_id] = max(lead, longest.get(fault.fault_id, 0.0))
        leads = sorted(longest.values())
        for name, part in (("q1", 0.25), ("median", 0.5), ("q3", 0.75)):
            low, high = median_limits(leads) if name == "median" else (None, None)
            yield Finding(
                finding=f"detection_lead_{name}_s",
                subject=subject,
                value=quantile_of(leads, part),
                unit="s",
                denominator=float(len(leads)),
                ci_low=low,
                ci_high=high,
                method="order statistics" if name == "median" else None,
                note="from the first alarm to the fault, of faults that were shown before",
            )

    def _without(self, faults: Sequence[Fault]) -> Iterator[Finding]:
        """The same without each metric, at the same threshold."""
        days = self._time("all").cluster_days
        for metric in self._signals.metrics():
            episodes = self._episodes(without=metric)
            verdicts = self._verdicts(faults, episodes)
            found = sum(verdict is not None for verdict in verdicts.values())
            yield Finding(finding="detection_share_without", subject=metric, **_share(found, len(verdicts)))
            wrong = self._false(episodes, "all")
            low, high = poisson(wrong)
            yield Finding(
                finding="false_alarms_per_day_without",
                subject=metric,
                value=wrong / days if days else None,
                unit="per cluster day",
                numerator=float(wrong),
                denominator=days,
                ci_low=low / days if days else None,
                ci_high=high / days if days else None,
                method="poisson",
                exposure=days,
            )

    def _led(self, faults: Sequence[Fault]) -> Iterator[Finding]:
        """Which metric showed faults first."""
        led = [self._signals.led(fault, self.threshold) for fault in faults]
        counts = Counter(metric for metric in led if metric)
        for metric, number in sorted(counts.items()):
            yield Finding(finding="metric_led_share", subject=metric, **_share(number, sum(counts.values())))


def _share(found: int, of: int) -> dict[str, Any]:
    low, high = wilson(found, of)
    return {
        "value": found / of if of else None,
        "unit": "faults",
        "numerator": float(found),
        "denominator": float(of),
        "ci_low": low,
        "ci_high": high,
        "method": "wilson",
        "exposure": float(of),
    }


def _by_chance(
    faults: Sequence[Fault],
    episodes: Sequence[Episode],
    rules: AlarmRules,
    scrape_ms: int,
    span: tuple[int, int],
) -> dict[str, Ints]:
    """How many faults alarms seem to find, if each is moved to a random time on its host, many times."""
    draw = np.random.Generator(np.random.PCG64(_SEED))
    found = {fault.fault_id: np.zeros((2, rules.permutations), bool) for fault in faults}
    for fault in faults:
        times = span[0] + (draw.random(rules.permutations) * (span[1] - span[0])).astype(np.int64)
        window_begin, window_end = (edge - fault.time for edge in window_of(fault, rules))
        hit, early = np.zeros(len(times), bool), np.zeros(len(times), bool)
        for begin, end in sorted((one.begin, one.end) for one in episodes if one.host == fault.host):
            # The first alarm that meets the window counts.
            meets = (begin < times + window_end) & (end >= times + window_begin) & ~hit
            meets &= begin >= times + 2 * window_begin - window_end
            hit |= meets
            early |= meets & (times - begin > scrape_ms + fault.error)
        found[fault.fault_id] |= np.stack((hit, early))
    sums = np.zeros((2, rules.permutations), np.int64)
    for one in found.values():
        sums += one
    return {"detection_share": sums[0], "detected_before_share": sums[1]}
