"""When the numbers of a run count as a spike of its loss or as slow: the section ``[training]`` of the configuration.

What is usual is told by the block of steps before the one that is looked at. The thresholds were chosen on made runs
that go well (``docs/spikes.md`` has their rates of false events, and what is found of planted ones).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aftershock.pipeline.config_values import Check, Wrong, count, number, share


@dataclass(frozen=True)
class TrainingRules:
    """Counts are of printed steps. Heights are above the usual value, which is a median.

    spike_usual: so many steps tell what loss is usual. Fewer are too few for a spread; with more a falling loss hides
        behind its own past.
    spike_spreads: a spike is so many spreads high (deviations of the median, as if the noise were normal). Seven is
        what published counts of spikes take (https://arxiv.org/abs/2501.00656).
    spike_rise: and this share of the usual loss, so that a loss that hardly varies has no spikes.
    spike_of_first: and this share of the level at which the attempt began, so that a loss near zero has none.
    spike_confirmed: so many steps in a row are that high. One or two are a bad batch, which every noisy run has.
    spike_longest: what is not back after so many steps is a new level.
    spike_stays: a level that stays counts if it is so many times the usual one. Less is a change of the data.
    slow_usual: so many steps tell what time is usual.
    slow_memory: the highest median of so many such counts, as the pace of a run may go up and down by itself.
    slow_rise: a slow step takes this share longer.
    slow_spreads: and so many spreads, so that times that vary much are not slow by chance.
    slow_window, slow_share: of so many steps in a row this share is slow. Saves, evaluations and collections of garbage
        make single steps slow, also several in a row.
    same_work: samples, tokens or operations of a step that differ by more than this share are other work: a loss or
        a time that changes with them is compared with nothing.
    """

    spike_usual: int = 100
    spike_spreads: float = 7.0
    spike_rise: float = 0.1
    spike_of_first: float = 0.01
    spike_confirmed: int = 3
    spike_longest: int = 1000
    spike_stays: float = 1.5
    slow_usual: int = 50
    slow_memory: int = 8
    slow_rise: float = 0.05
    slow_spreads: float = 2.0
    slow_window: int = 20
    slow_share: float = 0.75
    same_work: float = 0.03


def _several(value: object) -> int:
    """As many steps as a median and a spread need."""
    given = count(value)
    if given < _LEAST:
        raise Wrong(f"must be at least {_LEAST}, not {given}")
    return given


_LEAST: Final = 10

CHECKS: Final[Mapping[str, Check]] = {
    "spike_usual": _several,
    "spike_spreads": number,
    "spike_rise": number,
    "spike_of_first": number,
    "spike_confirmed": count,
    "spike_longest": _several,
    "spike_stays": number,
    "slow_usual": _several,
    "slow_memory": count,
    "slow_rise": number,
    "slow_spreads": number,
    "slow_window": count,
    "slow_share": share,
    "same_work": number,
}
