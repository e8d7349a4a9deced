"""Which run a document beside the logs is about: a dump of a flight recorder, an error file, the state of a trainer.

Such a file tells of one run, and names no session. It belongs to the run at whose time it was written, or shortly after
whose end; where several ran, to the one whose logs lie in the same folder.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from aftershock.pipeline.attempts import US
from aftershock.pipeline.training.attempts import LogAttempt

# Recorders are dumped when a watchdog has waited, and error files when all is over.
_AFTER: Final = 900 * US
_BEFORE: Final = 120 * US


def run_beside(document: LogAttempt, runs: Sequence[Sequence[LogAttempt]]) -> int | None:
    """The place among ``runs`` (each with its logs) of the one that a document is about; None if nobody can tell."""
    fitting = _in_time(document, runs)
    if len(fitting) > 1:
        depth = [max((_shared_depth(document.source, log.source) for log in runs[at]), default=0) for at in fitting]
        fitting = [at for at, shared in zip(fitting, depth, strict=True) if shared == max(depth)]
    if len(fitting) > 1 and document.first_time is not None:
        # Attempts of one run follow each other: what was written behind an end belongs to that, not to the next begin.
        begun = [at for at in fitting if (_span(runs[at]) or (0, 0))[0] <= document.first_time]
        newest = max((_span(runs[at]) or (0, 0) for at in begun), default=None)
        fitting = [at for at in begun if (_span(runs[at]) or (0, 0)) == newest]
    return fitting[0] if len(fitting) == 1 else None


def _in_time(document: LogAttempt, runs: Sequence[Sequence[LogAttempt]]) -> list[int]:
    first, last = document.first_time, document.last_time
    found = []
    for at, logs in enumerate(runs):
        span = _span(logs)
        if first is None or last is None or span is None:
            # Without a time only the folder tells, and only if it tells of one run.
            if any(os.path.dirname(log.source) == os.path.dirname(document.source) for log in logs):
                found.append(at)
        elif any(log.assumed for log in logs) == document.assumed and (
            span[0] - _BEFORE <= last and first <= span[1] + _AFTER
        ):
            found.append(at)
    return found


def _span(logs: Sequence[LogAttempt]) -> tuple[int, int] | None:
    times = [time for log in logs for time in (log.first_time, log.last_time) if time is not None]
    return (min(times), max(times)) if times else None


def _shared_depth(one: str, other: str) -> int:
    """How many folders two paths have in common."""
    pairs = zip(one.split("/")[:-1], other.split("/")[:-1], strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
