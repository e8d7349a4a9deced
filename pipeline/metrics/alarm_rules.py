"""How alarms are raised and judged: ``[alarms]`` of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aftershock.pipeline.config_values import Check, count, number, seconds, share


@dataclass(frozen=True)
class AlarmRules:
    """Times in seconds; scores in deviations from what is usual.

    baseline_s: how far back the time lies that tells what is usual. It ends where the block that is looked at begins.
    least_score: less than this is no signal, whatever false alarms there are.
    persistence, of_cells: a signal stays if it is there in so many of so many cells of the grid.
    families: so many families of metrics must show it at once. A host that is silent is one by itself.
    false_per_day: the threshold is the lowest that gives no more false alarms a day, over all hosts, in the earlier
        part of the healthy time. fit_share: how much of the time that part is; alarms in the rest are judged with it.
    refractory_s: alarms of a host with less between them are one.
    before_s, after_s: an alarm belongs to a fault if it lies in this time around it.
    recovery_s: for so long after a fault its host is not healthy, and alarms there are not judged.
    permutations: how many times faults are moved to random times, to see what chance detects.
    """

    baseline_s: float = 7200.0
    least_score: float = 6.0
    persistence: int = 3
    of_cells: int = 5
    families: int = 2
    false_per_day: float = 1.0
    fit_share: float = 0.5
    refractory_s: float = 3600.0
    before_s: float = 1800.0
    after_s: float = 600.0
    recovery_s: float = 3600.0
    permutations: int = 1000


CHECKS: Final[Mapping[str, Check]] = {
    "baseline_s": number,
    "least_score": number,
    "persistence": count,
    "of_cells": count,
    "families": count,
    "false_per_day": number,
    "fit_share": share,
    "refractory_s": seconds,
    "before_s": number,
    "after_s": number,
    "recovery_s": seconds,
    "permutations": count,
}
