"""Alarms: cells that look ill as episodes of a host, and how each stands to the faults there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from aftershock.pipeline.metrics.alarm_rules import AlarmRules
from aftershock.pipeline.metrics.alarm_scores import Candidates, combined
from aftershock.pipeline.metrics.faults import Fault
from aftershock.pipeline.metrics.signal_cells import Feature
from aftershock.pipeline.metrics.spans import Spans, meets
from aftershock.pipeline.metrics.window_join import Ints
from aftershock.schemas.ids import stable_id
from aftershock.schemas.metrics import Alarm

Shown = NDArray[np.float32]


@dataclass
class Episode:
    """Cells of a host that look ill with less than the refractory time between them. Times in milliseconds.

    begin: the end of its first cell, when it could be known. ``fault``: the one that it belongs to.
    """

    host: str
    begin: int
    end: int
    score: float
    metrics: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    fault: Fault | None = None
    verdict: str = "false"


@dataclass
class Signals:
    """All candidates of a run: by host the cells in order, and their scores by feature."""

    features: Sequence[Feature]
    families: Sequence[str]
    rules: AlarmRules
    step_ms: int
    cells: dict[str, Ints] = field(default_factory=dict)
    scores: dict[str, Shown] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        found: Iterable[Candidates],
        features: Sequence[Feature],
        families: Sequence[str],
        rules: AlarmRules,
        step_ms: int,
    ) -> Signals:
        """Put together what was found chunk by chunk."""
        by_host: dict[str, list[Candidates]] = defaultdict(list)
        for one in found:
            by_host[one.host].append(one)
        signals = cls(features, families, rules, step_ms)
        for host in sorted(by_host):
            cells = np.concatenate([one.cells for one in by_host[host]])
            order = np.argsort(cells, kind="stable")
            signals.cells[host] = cells[order]
            signals.scores[host] = np.concatenate([one.scores for one in by_host[host]])[order]
        return signals

    def metrics(self) -> list[str]:
        """Metrics that take part anywhere, sorted."""
        some = np.zeros(len(self.features), bool)
        for scores in self.scores.values():
            some |= (scores >= self.rules.least_score).any(axis=0)
        return sorted({name for (name, _), there in zip(self.features, some, strict=True) if there})

    def episodes(self, threshold: float, without: str | None = None) -> list[Episode]:
        """The alarms of all hosts at a threshold, as if a metric had not been there."""
        kept = [at for at, (name, _) in enumerate(self.features) if name != without]
        families = [self.families[at] for at in kept]
        found = []
        for host, cells in self.cells.items():
            shown = self.scores[host][:, kept] if without else self.scores[host]
            together = combined(shown.T, families, self.rules.families)
            ill = np.flatnonzero(together >= threshold)
            gaps = np.diff(cells[ill]) * self.step_ms > self.rules.refractory_s * 1000
            parts = np.split(ill, np.flatnonzero(gaps) + 1) if len(ill) else []
            found += [self._episode(host, cells[at], shown[at], together[at], kept, threshold) for at in parts]
        return sorted(found, key=lambda one: (one.begin, one.host))

    def _episode(
        self, host: str, cells: Ints, shown: Shown, together: Shown, kept: Sequence[int], threshold: float
    ) -> Episode:
        columns = [kept[at] for at in np.flatnonzero((shown >= threshold).any(axis=0)).tolist()]
        return Episode(
            host,
            (int(cells[0]) + 1) * self.step_ms,
            (int(cells[-1]) + 1) * self.step_ms,
            float(together.max()),
            tuple(sorted({self.features[at][0] for at in columns})),
            tuple(sorted({self.families[at] for at in columns})),
        )

    def led(self, fault: Fault, threshold: float) -> str | None:
        """The metric that showed a fault first; of several the one that showed most."""
        cells = self.cells.get(fault.host)
        if cells is None:
            return None
        begin, end = window_of(fault, self.rules)
        times = (cells + 1) * self.step_ms
        for at in np.flatnonzero((times >= begin) & (times < end)).tolist():
            shown = self.scores[fault.host][at]
            if shown.max() >= threshold:
                return self.features[int(np.argmax(shown))][0]
        return None


def window_of(fault: Fault, rules: AlarmRules) -> tuple[int, int]:
    """The time (milliseconds) in which an alarm belongs to a fault."""
    return (
        fault.time - fault.error - round(rules.before_s * 1000),
        fault.time + fault.error + round(rules.after_s * 1000),
    )


def judge(
    episodes: Sequence[Episode],
    faults: Sequence[Fault],
    ill: Mapping[str, Spans],
    rules: AlarmRules,
    scrape_ms: int,
) -> None:
    """Say how each alarm stands to the faults of its host.

    It belongs to the first fault whose window it meets. What begins in a time that is not healthy, but belongs to none,
    is not judged; the rest is false.
    """
    by_host: dict[str, list[Fault]] = defaultdict(list)
    for fault in faults:
        by_host[fault.host].append(fault)
    for one in episodes:
        meeting = [fault for fault in by_host[one.host] if meets_window(one, window_of(fault, rules))]
        one.fault = meeting[0] if meeting else None
        if one.fault is not None:
            one.verdict = verdict_of(one.begin, one.fault, scrape_ms)
        elif meets(ill.get(one.host, ()), one.begin, one.begin + 1):
            one.verdict = "unscored"
        else:
            one.verdict = "false"


def meets_window(one: Episode, window: tuple[int, int]) -> bool:
    """Whether an alarm began in a window, or went on into it after beginning at most as long before."""
    begin, end = window
    return one.begin < end and one.end >= begin and one.begin >= begin - (end - begin)


def verdict_of(begin: int, fault: Fault, scrape_ms: int) -> str:
    """Before a fault only if more than a scrape lies between, and the error of the fault's clock."""
    lead = fault.time - begin
    near = scrape_ms + fault.error
    return "before" if lead > near else "within_scrape" if lead >= -near else "after"


def alarm_rows(episodes: Sequence[Episode]) -> list[Alarm]:
    """Rows of alarms."""
    return [
        Alarm(
            alarm_id=stable_id("alarm", one.host, None, one.begin),
            host=one.host,
            start_time=one.begin * 1000,
            end_time=one.end * 1000,
            score=one.score,
            metrics=list(one.metrics),
            families=list(one.families),
            incident_id=one.fault.incident_id if one.fault else None,
            lead_s=(one.fault.time - one.begin) / 1000 if one.fault else None,
            verdict=one.verdict,
        )
        for one in episodes
    ]
