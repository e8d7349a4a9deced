"""Who is behind a failure and who was only hit, by rank.

Ranks that tell of the failure of another one are victims. Of those that are known to have run, the ones that told of
nothing are suspects, and so is the one whose exit the launcher names, unless it told of another one itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aftershock.pipeline.training.attempts import LogAttempt
from aftershock.pipeline.training.taxonomy import SYMPTOMS
from aftershock.schemas.events import TrainingEvent

_EXIT: Final = re.compile(r"exit ?code:? (-?\d{1,5})")
# Exits of processes that were told to end, or that ended after another one had.
_TOLD_TO_END: Final = frozenset({0, -6, -15, 134, 143})
# More silent ranks than this name nobody.
_MOST_SUSPECTS: Final = 16


@dataclass(frozen=True)
class Ranks:
    """Ranks of one attempt. ``known``: that are known to have run; ``hit``: that told of another one's failure;
    ``named``: by a launcher, as having exited first."""

    known: frozenset[int]
    hit: frozenset[int]
    named: frozenset[int]

    @classmethod
    def of(cls, logs: Sequence[LogAttempt], size: int | None) -> Ranks:
        """From all logs of an attempt. ``size``: how many ranks there are, if that is known."""
        known: set[int] = set()
        hit: set[int] = set()
        named: set[int] = set()
        for attempt in logs:
            for stretch in attempt.stretches:
                known |= stretch.ranks
            for said in attempt.said:
                known |= said.who
                if said.kind == "error" and said.error_class in SYMPTOMS and said.error_class != "teardown":
                    hit |= said.who
                elif said.is_failure and len(said.who) == 1:
                    code = _EXIT.search(said.error or "")
                    if code is None or int(code[1]) not in _TOLD_TO_END:
                        named |= said.who
        if size and hit and max(hit) < size:
            known |= set(range(size))
        return cls(frozenset(known), frozenset(hit), frozenset(named))

    def voted(self, votes: Sequence[TrainingEvent]) -> Ranks:
        """The same with the word of flight recorders, which know more than who was silent."""
        if not votes:
            return self
        named = frozenset(vote.rank for vote in votes if vote.rank is not None)
        waited = {rank for vote in votes for rank in vote.ranks or ()}
        return Ranks(self.known | named, (self.hit | waited) - named, named)

    def victims(self) -> list[str]:
        """Those that were hit, in order."""
        return [f"rank:{rank}" for rank in sorted(self.hit)]

    def suspects(self) -> list[str]:
        """Those that may be behind it; nobody where most are silent."""
        named = self.named - self.hit
        silent = self.known - self.hit if self.hit else frozenset()
        suspects = named if named else silent
        if len(suspects) > _MOST_SUSPECTS or (len(suspects) > 1 and len(suspects) >= len(self.known)):
            return []
        return [f"rank:{rank}" for rank in sorted(suspects)]
