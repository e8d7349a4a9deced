"""Who held up the others, by the flight recorders of all ranks: the suspects of a hang.

In a group in which somebody waits, a rank is suspected that is behind the others, or that has nothing to wait for: it
did not come. Every group has one vote against each such rank, and the ranks with the most votes are the suspects. All
others that wait are victims: nothing is said against them by being the ones that report.

A rank that is behind in what it enqueued has left the common order (``collective_desync``); of one that is silent, or
whose device does not finish what its peers have finished, only the hang is known (``collective_timeout``, a symptom).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from aftershock.parsers.documents.flight_state import GroupState, state_of
from aftershock.schemas.events import TrainingEvent

KIND: Final = "flight_record"
_BEHIND: Final = "behind"
_SHOWN_GROUPS: Final = 3


class Stand(NamedTuple):
    """Where a rank stood in a group, and the event that says so."""

    state: GroupState
    event: TrainingEvent


@dataclass
class Votes:
    """What speaks against a rank.

    groups: for each group that votes against it how (``behind``, ``slow``, ``silent``) and a few words.
    victims: ranks that wait in those groups.
    """

    groups: list[tuple[str, str]] = field(default_factory=list)
    victims: set[int] = field(default_factory=set)


def suspects_of(events: Iterable[TrainingEvent]) -> list[TrainingEvent]:
    """The suspects of one hang, an event of kind ``error`` for each: ``rank`` is the suspect, ``ranks`` its victims.

    events: those of kind ``flight_record`` of the dumps of one hang, as the format ``flight_recorder`` gives them, in
        any order. Events without a rank count for nothing.
    """
    groups = _groups(events)
    seen = {rank for stands in groups.values() for rank in stands}
    votes: dict[int, Votes] = defaultdict(Votes)
    waiting = 0
    for key, stands in groups.items():
        waiting += _vote(key[2], stands, seen, votes)
    most = max((len(vote.groups) for vote in votes.values()), default=0)
    suspects = {rank: vote for rank, vote in sorted(votes.items()) if len(vote.groups) == most}
    ranks = seen | votes.keys()
    if not suspects or 2 * len(suspects) > len(ranks):
        return []  # where most are suspected, nobody is
    first = _first(groups)
    return [_event(rank, vote, suspects, waiting, first, groups) for rank, vote in suspects.items()]


Key = tuple[str, str, tuple[int, ...]]
Groups = Mapping[Key, dict[int, Stand]]


def _groups(events: Iterable[TrainingEvent]) -> Groups:
    groups: dict[Key, dict[int, Stand]] = defaultdict(dict)
    for event in events:
        state = state_of(event.message) if event.kind == KIND else None
        if state is None or event.rank is None:
            continue
        stands = groups[state.name, state.desc, tuple(event.ranks or ())]
        before = stands.get(event.rank)
        now = Stand(state, event)
        # Of two dumps of a rank the later one counts.
        if before is None or _age(now) > _age(before):
            stands[event.rank] = now
    return dict(sorted(groups.items()))


def _age(stand: Stand) -> tuple[int, int, str]:
    return stand.state.enqueued or 0, stand.event.time or 0, stand.event.source or ""


def _vote(members: tuple[int, ...], stands: dict[int, Stand], seen: set[int], votes: dict[int, Votes]) -> int:
    """Let a group vote; 1 if somebody waits in it, else 0."""
    waiting = {rank for rank, stand in stands.items() if stand.state.pending}
    if not waiting:
        return 0
    states = [stand.state for stand in stands.values()]
    # Sends and receives are counted by each rank for itself.
    in_step = not any(state.point_to_point for state in states)
    enqueued = max((state.enqueued for state in states if state.enqueued is not None), default=None)
    completed = max((state.completed for state in states if state.completed is not None), default=None)
    ranks = set(members) or set(stands)
    absent = ranks - seen
    if 2 * len(absent) > len(ranks):
        ranks -= absent  # most dumps were not given: that one is missing says nothing
    desc = states[0].desc or states[0].name
    for rank in ranks:
        stand = stands.get(rank)
        if stand is None or (not in_step and not stand.state.pending):
            votes[rank].groups.append(("silent", f"silent in {desc}"))
        elif in_step and _less(stand.state.enqueued, enqueued):
            votes[rank].groups.append((_BEHIND, f"behind in {desc} ({stand.state.enqueued} of {enqueued})"))
        elif in_step and _less(stand.state.completed, completed):
            votes[rank].groups.append(("slow", f"not done in {desc} ({stand.state.completed} of {completed})"))
        else:
            continue
        votes[rank].victims |= waiting
    return 1


def _less(own: int | None, most: int | None) -> bool:
    return own is not None and most is not None and own < most


def _first(groups: Groups) -> TrainingEvent:
    """The event of the work that has waited longest."""
    events = [stand.event for stands in groups.values() for stand in stands.values() if stand.state.pending]
    return min(events, key=lambda event: (event.time is None, event.time or 0, event.source or "", event.rank or 0))


def _event(
    rank: int, vote: Votes, suspects: Mapping[int, Votes], waiting: int, first: TrainingEvent, groups: Groups
) -> TrainingEvent:
    own = next((stands[rank].event for stands in groups.values() if rank in stands), None)
    place = own or first
    behind = any(how == _BEHIND for how, _ in vote.groups)
    words = "; ".join(dict.fromkeys(text for _, text in vote.groups[:_SHOWN_GROUPS]))
    error = f"rank {rank} held up {len(vote.groups)} of {waiting} groups that wait: {words}"
    return TrainingEvent(
        kind="error",
        rank=rank,
        ranks=sorted(vote.victims - suspects.keys()),
        error_class="collective_desync" if behind else "collective_timeout",
        error_role="root" if behind else "symptom",
        error=error,
        message=error,
        cluster=place.cluster,
        host=own.host if own else None,
        time=first.time,
        last_time=first.time,
        time_basis=first.time_basis,
        time_error_s=first.time_error_s,
        session_id=place.session_id,
        source=place.source,
        byte_offset=place.byte_offset,
        sources=place.sources,
    )
