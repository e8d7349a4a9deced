"""Episodes: bursts of one host that belong to one fault, and which of them came first.

    48  an uncorrectable error in memory          root
    63  the row is marked for remapping           follow_on
    94  the error was contained                   follow_on
    45  channels of the process are taken down    follow_on
    154 the driver wants a reset                  follow_on

What a line prints about its cause (``caused by previous Xid N``) goes before nearness in time. Without it bursts belong
together that are near in time and share the GPU, or the links of the host, or the process. What only takes down, sums
up or was contained never is a root; with nothing before it the role stays ``unknown``. Roles are candidates with
reasons: an NVLink error may be the peer's, the process on a line is often the victim.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from aftershock.parsers.clock import Reading
from aftershock.pipeline.bursts import Burst, Placed, Scope, bursts_of, placed_by_clock, placed_by_time
from aftershock.pipeline.episode_links import EpisodeRules, components
from aftershock.schemas.columns import Row
from aftershock.schemas.events import GpuError

__all__ = ["DEFAULT_RULES", "EpisodeRules", "link_episodes", "link_source"]

DEFAULT_RULES: Final = EpisodeRules()


def link_episodes(rows: Iterable[Row], rules: EpisodeRules = DEFAULT_RULES) -> None:
    """Give burst, episode and role to the errors among merged rows of any hosts.

    An error without a time gets neither burst nor episode; times in an assumed zone go only with their like.
    """
    errors = [row for row in rows if isinstance(row, GpuError)]
    _link(errors, placed_by_time(errors), rules)


def link_source(
    rows: Sequence[Row], clocks: Sequence[tuple[Reading, Reading]], rules: EpisodeRules = DEFAULT_RULES
) -> None:
    """The same for the rows of one source, by the clocks that it prints where no time is known.

    ``clocks``: for each row the clock of its first and of its last occurrence.
    """
    errors = [row for row in rows if isinstance(row, GpuError)]
    _link(errors, placed_by_clock(rows, clocks), rules)


def _link(errors: Iterable[GpuError], placed: Iterable[Placed], rules: EpisodeRules) -> None:
    for row in errors:
        row.burst_id, row.episode_id, row.role = None, None, "unknown"
    scopes: dict[Scope, list[Placed]] = defaultdict(list)
    for item in placed:
        scopes[item.scope].append(item)
    for group in scopes.values():
        for episode in components(bursts_of(group, rules.burst_gap), rules):
            _number(episode)


def _number(episode: Sequence[Burst]) -> None:
    """Give the bursts of an episode its id and their roles."""
    first = min(episode, key=lambda burst: burst.precedence)
    # An episode is named after the burst that leads it: no two are led by the same.
    episode_id = "episode-" + first.id.rpartition("-")[2]
    for burst in episode:
        role = _role(burst, first)
        for row in burst.rows:
            row.episode_id = episode_id
            row.role = role


def _role(burst: Burst, first: Burst) -> str:
    """The part of a burst in the episode that ``first`` leads."""
    if burst is first and burst.nature.root:
        return "root"
    # The line itself may name its cause, whether or not that is in the log.
    if burst.caused_by or first.nature.root:
        return "follow_on"
    # A contained error whose cause is not there still leads the teardown behind it.
    return "follow_on" if first.nature.kills and burst.nature.rank > first.nature.rank else "unknown"
