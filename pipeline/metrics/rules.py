"""Windows around events: ``[windows]`` of the configuration, all in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aftershock.pipeline.config_values import Check, number, seconds


@dataclass(frozen=True)
class WindowRules:
    """Where samples are looked at, counted from an event.

    baseline_s: how long the time is that tells what is normal; it ends where ``before_s`` begins.
    before_s, after_s: the window in which something may have shown. Windows widen by the event's error in time.
    crossing_z: how many scaled deviations from the baseline are a crossing. persistence: samples in a row that do.
    """

    baseline_s: float = 3600.0
    before_s: float = 1800.0
    after_s: float = 300.0
    crossing_z: float = 6.0
    persistence: float = 2


CHECKS: Final[Mapping[str, Check]] = {
    "baseline_s": number,
    "before_s": number,
    "after_s": seconds,
    "crossing_z": number,
    "persistence": number,
}
