"""Teardown on healthy hosts: when a job dies of a fault on one host, its other hosts only take down.

Every host of the job then prints Xid 45 (and 43), often on all GPUs. Nothing is wrong with them: their errors follow
the fault on the other host, and belong to its episode. Which hosts worked together only sessions tell.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Final, NamedTuple

from aftershock.parsers.clock import SECOND
from aftershock.pipeline.episode_links import EpisodeRules
from aftershock.pipeline.fault_codes import Nature, Reach, nature_of
from aftershock.schemas.events import GpuError
from aftershock.schemas.sessions import Session

DEFAULT_RULES: Final = EpisodeRules()
# How much the error of a time may widen the window. A host whose clock is worse than this proves nothing.
_MOST_ERROR: Final = 300 * SECOND

# Rank, first time and id of an episode that explains others.
_Cause = tuple[int, int, str]


class Placement(NamedTuple):
    """Hosts that one job used together, in microseconds UTC; ``end`` is None while it runs."""

    hosts: tuple[str, ...]
    start: int
    end: int | None
    assumed: bool = False


def placements_of(sessions: Iterable[Session]) -> list[Placement]:
    """The placements of sessions that ran on more than one host."""
    return [
        Placement(tuple(session.hosts), session.start_time, session.end_time, session.time_basis == "assumed_zone")
        for session in sessions
        if session.hosts and len(session.hosts) > 1 and session.start_time is not None
    ]


@dataclass(eq=False)
class _Episode:
    """An episode of one host, as its rows tell it. Times in an assumed zone stay among themselves."""

    host: str
    id: str
    assumed: bool
    rows: list[GpuError] = field(default_factory=list)

    @cached_property
    def first(self) -> int:
        return min(row.time or 0 for row in self.rows)

    @cached_property
    def last(self) -> int:
        return max(max(row.time or 0, row.last_time or 0) for row in self.rows)

    @cached_property
    def error(self) -> int:
        return min(_MOST_ERROR, max(round((row.time_error_s or 0.0) * SECOND) for row in self.rows))

    @cached_property
    def fault(self) -> Nature | None:
        """The gravest error that a process can die of; None if there is none."""
        natures = [nature for row in self.rows if (nature := nature_of(row)).kills or nature.reach is Reach.PROCESS]
        return min(natures, key=lambda nature: nature.rank, default=None)

    @property
    def only_teardown(self) -> bool:
        """Whether nothing but teardown of unknown cause is in it."""
        reaches = {nature_of(row).reach for row in self.rows}
        return reaches == {Reach.TEARDOWN} and all(row.role == "unknown" for row in self.rows)


class _History:
    """Episodes of one host in order, found by time."""

    def __init__(self, episodes: Sequence[_Episode]) -> None:
        self._episodes = sorted(episodes, key=lambda episode: (episode.first, episode.id))
        self._firsts = [episode.first for episode in self._episodes]
        self._lasts = list(accumulate((episode.last for episode in self._episodes), max))

    def within(self, start: int, end: int | None) -> Iterator[_Episode]:
        """Episodes that touch a time, give or take the error of theirs."""
        begin = bisect_left(self._lasts, start - _MOST_ERROR)
        stop = len(self._firsts) if end is None else bisect_right(self._firsts, end + _MOST_ERROR)
        for episode in self._episodes[begin:stop]:
            if episode.last + episode.error >= start and (end is None or episode.first - episode.error <= end):
                yield episode


def mark_teardown(
    rows: Iterable[GpuError], placements: Iterable[Placement], rules: EpisodeRules = DEFAULT_RULES
) -> list[GpuError]:
    """Make teardown on healthy hosts a follow-on of the fault on another host of the same job.

    rows: errors of all hosts of the placements, with their episodes. Those that are changed (role and episode) are
    changed in place and returned. An episode that holds anything but teardown of unknown cause stays as it is.
    """
    episodes = _episodes(rows)
    teardown = _histories(episode for episode in episodes if episode.only_teardown)
    causes = _histories(episode for episode in episodes if episode.fault is not None)
    found: dict[_Episode, _Cause] = {}
    for placement in placements:
        start = placement.start - rules.slack
        end = None if placement.end is None else placement.end + rules.teardown_within
        hosts = [(host, placement.assumed) for host in set(placement.hosts)]
        faults = [fault for host in hosts for fault in causes.get(host, _NO_HISTORY).within(start, end)]
        for host in hosts if faults else ():
            for episode in teardown.get(host, _NO_HISTORY).within(start, end):
                cause = _cause_of(episode, faults, rules)
                if cause is not None:
                    found[episode] = min(cause, found.get(episode, cause))
    changed = []
    for episode, (_, _, cause_id) in found.items():
        for row in episode.rows:
            row.role, row.episode_id = "follow_on", cause_id
            changed.append(row)
    return changed


_NO_HISTORY: Final = _History(())


def _histories(episodes: Iterable[_Episode]) -> dict[tuple[str, bool], _History]:
    """Episodes by host and by whether their zone is assumed."""
    of_host: dict[tuple[str, bool], list[_Episode]] = defaultdict(list)
    for episode in episodes:
        of_host[episode.host, episode.assumed].append(episode)
    return {host: _History(group) for host, group in of_host.items()}


def _episodes(rows: Iterable[GpuError]) -> list[_Episode]:
    """The episodes of all hosts, as they were linked within each host."""
    episodes: dict[tuple[str, str], _Episode] = {}
    for row in rows:
        if row.host and row.episode_id and row.time is not None and row.trust != "user":
            assumed = row.time_basis == "assumed_zone"
            found = episodes.setdefault((row.host, row.episode_id), _Episode(row.host, row.episode_id, assumed))
            found.rows.append(row)
    return list(episodes.values())


def _cause_of(episode: _Episode, faults: Iterable[_Episode], rules: EpisodeRules) -> _Cause | None:
    """The best fault on another host of the job: by rank, then by time."""
    causes = []
    for fault in faults:
        slack = episode.error + fault.error + rules.slack
        follows = fault.first <= episode.first + slack and episode.first - fault.last <= rules.teardown_within + slack
        if fault.fault is not None and follows and fault.host != episode.host:
            causes.append((fault.fault.rank, fault.first, fault.id))
    return min(causes, default=None)
