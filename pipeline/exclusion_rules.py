"""How exclusions are read together and what speaks for them: the section ``[exclusions]`` of the configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aftershock.pipeline.config_values import seconds


@dataclass(frozen=True)
class ExclusionRules:
    """Spans of time, in seconds.

    evidence_window_s: a fault on the host this long before the exclusion began speaks for it (a day: a host is often
        taken out when somebody comes to work).
    evidence_slack_s: and this long after it began: clocks differ, and a log is written after the fact.
    reason_gap_s: slurmctld prints the reason and the state of one update as two lines in the same millisecond.
    soft_s: a host that failed a session is left out by its scheduler for this long (Backend.AI: an hour).
    """

    evidence_window_s: float = 86400.0
    evidence_slack_s: float = 60.0
    reason_gap_s: float = 2.0
    soft_s: float = 3600.0


CHECKS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "evidence_window_s": seconds,
    "evidence_slack_s": seconds,
    "reason_gap_s": seconds,
    "soft_s": seconds,
}
