"""Events that the numbers of steps tell of: a loss that rises and comes back or not, and times of slow steps.

Neither ends a run. A spike is a thing of its own until the numbers of the attempt end in nothing: then it is the first
sign of that. Slow steps are an incident of performance, and no failure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aftershock.pipeline.attempts import US
from aftershock.pipeline.training.attempts import LogAttempt
from aftershock.pipeline.training.causes import Cause
from aftershock.pipeline.training.logs import Said
from aftershock.pipeline.training.number_rules import TrainingRules
from aftershock.pipeline.training.points import BACK, LONGEST, NEVER, Excursion
from aftershock.pipeline.training.staged import Staged
from aftershock.pipeline.training.step_series import LOSS, Risen, read_risen
from aftershock.pipeline.training.taxonomy import HANG
from aftershock.schemas.events import TrainingEvent

LOSS_SPIKE, SLOWDOWN, STRAGGLER = "loss_spike", "slowdown", "straggler"
# What runs into NaN.
_DIVERGED: Final = "numeric_divergence"
# A rise that lasts for so many blocks, at this share of its height, is no spike but another level.
_FLAT_BLOCKS: Final = 0.5
_FLAT: Final = 0.7


@dataclass(frozen=True)
class Numbers:
    """What rose in the numbers of all logs, by attempt. ``cluster``: that of the configuration."""

    risen: Mapping[tuple[str, int], Sequence[Risen]]
    rules: TrainingRules
    cluster: str | None = None

    @classmethod
    def of(
        cls, staged: Staged, attempts: Mapping[str, Sequence[LogAttempt]], rules: TrainingRules, cluster: str | None
    ) -> Numbers:
        """From the steps of all sources."""
        return cls(read_risen(staged, attempts, rules), rules, cluster)

    def events_of(self, logs: Sequence[LogAttempt], session_id: str | None) -> list[TrainingEvent]:
        """The events of one attempt of a session, of which several logs may tell. They have no ids yet."""
        taken: list[tuple[Risen, TrainingEvent]] = []
        for attempt in logs:
            for risen in self.risen.get(attempt.name, ()):
                if not self.counts(risen):
                    continue
                same = next((event for other, event in taken if _overlap(other, risen)), None)
                if same is None:
                    taken.append((risen, self._event(risen, session_id)))
                elif risen.attempt[0] not in {place.rpartition(":")[0] for place in same.sources or ()}:
                    same.sources = sorted({*(same.sources or ()), _place(risen)})
        return [event for _, event in taken]

    def counts(self, risen: Risen) -> bool:
        """Whether a rise is an event, rather than another level of the loss, or steps that do more from now on.

        Many runs have a schedule of batches or lengths that their logs do not tell: where steps become slow for good
        and nothing says what they do, that is the likelier reason.
        """
        own = risen.excursion
        if risen.what != LOSS:
            return own.end == BACK or own.knows_work
        if own.level >= self.rules.spike_stays * own.usual:
            return True
        height = (own.level - own.usual) / (own.peak - own.usual)
        flat = own.count >= _FLAT_BLOCKS * self.rules.spike_usual and height >= _FLAT
        return own.end == BACK and not flat

    def _event(self, risen: Risen, session_id: str | None) -> TrainingEvent:
        own = risen.excursion
        spike = risen.what == LOSS
        first, last = (None if time == NEVER else time for time in (own.first_time, own.last_time))
        words = (_spike if spike else _slow)(own, "step" if risen.numbered else "print")
        return TrainingEvent(
            kind=LOSS_SPIKE if spike else SLOWDOWN,
            error_class=None if spike else SLOWDOWN,
            error_role=None if spike else "symptom",
            error=words,
            message=words,
            step=own.first_step if risen.numbered else None,
            duration_s=None if first is None or last is None else max(0, last - first) / US,
            cluster=self.cluster,
            time=first,
            last_time=last,
            time_basis="none" if first is None else risen.basis,
            time_error_s=None if first is None else risen.error_s,
            session_id=session_id,
            source=risen.attempt[0],
            byte_offset=own.offset,
            sources=[_place(risen)],
        )


def _place(risen: Risen) -> str:
    return f"{risen.attempt[0]}:{risen.excursion.offset}"


def _overlap(one: Risen, other: Risen) -> bool:
    """Whether two logs tell of the same steps."""
    a, b = one.excursion, other.excursion
    same = (one.what, one.numbered) == (other.what, other.numbered)
    return same and a.first_step <= b.last_step and b.first_step <= a.last_step


def _spike(own: Excursion, unit: str) -> str:
    return (
        f"loss up to {own.peak:.4g} at {unit} {own.peak_step}, usual is {own.usual:.4g}: high from {unit} "
        f"{own.first_step} to {own.last_step} ({own.count} printed), {_until(own, unit)}"
    )


def _slow(own: Excursion, unit: str) -> str:
    return (
        f"{own.level:.4g} s a step, {own.level / own.usual:.3g} times the usual {own.usual:.4g} s, "
        f"from {unit} {own.first_step} to {own.last_step} ({own.count} printed), {_until(own, unit)}"
    )


def _until(own: Excursion, unit: str) -> str:
    if own.end == BACK:
        return f"back at {unit} {own.back_step}"
    return "not back since" if own.end == LONGEST else _LASTED


_LASTED: Final = "not back when the numbers end"


def explain(cause: Cause, events: Sequence[TrainingEvent], logs: Sequence[LogAttempt]) -> None:
    """Let the numbers of an attempt speak for its cause, if they have to do with it; they make none themselves.

    A spike that stands before numbers that are none is their first sign, and is of their class. Steps that were slow
    until no more came belong to the hang that followed, and ranks that were called slow are suspects of it.
    """
    if cause.error_class == _DIVERGED:
        signs = [event for event in events if event.kind == LOSS_SPIKE and _is_before(event, logs)]
        for event in signs:
            event.error_class, event.error_role = _DIVERGED, "symptom"
    elif cause.error_class == HANG:
        signs = [event for event in events if event.kind == SLOWDOWN and (event.error or "").endswith(_LASTED)]
        _suspect(cause, [said for attempt in logs for said in attempt.said if said.kind == STRAGGLER])
    else:
        return
    cause.evidence = [*cause.evidence, *(f"{event.kind}: {event.error}" for event in signs[-_SHOWN:])]


def _suspect(cause: Cause, slow: Sequence[Said]) -> None:
    """What a tool called slow is suspected, if nothing else is."""
    if not slow or cause.suspects:
        return
    last = slow[-1]
    cause.suspects = [last.host] if last.host else [f"rank:{rank}" for rank in sorted(last.who)]
    cause.evidence = [*cause.evidence, f"{STRAGGLER}: {(last.error or '')[:_MOST_WORDS]}"]


_MOST_WORDS: Final = 200
# The last ones say most.
_SHOWN: Final = 3


def _is_before(event: TrainingEvent, logs: Sequence[LogAttempt]) -> bool:
    """Whether an event stands before what says that the numbers are none any more."""
    for attempt in logs:
        for said in attempt.said:
            if said.error_class != _DIVERGED:
                continue
            if event.source == attempt.source:
                if (event.byte_offset or 0) < said.offset:
                    return True
            elif event.time is not None and said.time is not None and event.time < said.time:
                return True
    return False
