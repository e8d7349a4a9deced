"""Looks at a job at a time that nobody printed: `squeue` says on which hosts a job is, not since when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aftershock.pipeline.attempts import UNPLACED_STATES, Attempt
from aftershock.pipeline.generations import identity_of

# squeue cuts names of users and jobs to eight characters unless it is told otherwise.
_CUT: Final = 8


def join_looks(looks: Sequence[Attempt], attempts: Sequence[Attempt]) -> list[Attempt]:
    """Give each look to the last of the attempts that it can be about. Returns those that are about none.

    ``attempts``: those that stand in time, in order.
    """
    alone = []
    for look in looks:
        seen = next((attempt for attempt in reversed(attempts) if _is_about(look, attempt)), None)
        if seen is None:
            alone.append(look)
            continue
        for record in look.records:
            seen.add_record(record)
    return alone


def _is_about(look: Attempt, attempt: Attempt) -> bool:
    """What has hosts is about an attempt on the same hosts. What waits may be an older look at any; what ended without
    hosts is about an attempt that never had any."""
    if not _same(identity_of(look), identity_of(attempt)):
        return False
    if look.placed:
        hosts = _hosts_of(look)
        return bool(hosts) and hosts == _hosts_of(attempt)
    waits = all(row.state in (None, "PENDING") for _, row in look.records)
    return waits or (not attempt.placed and all(row.state in UNPLACED_STATES for _, row in look.records))


def _same(look: tuple[str | None, ...], full: tuple[str | None, ...]) -> bool:
    return all(
        not a or not b or a == b or (len(a) >= _CUT and b.startswith(a)) for a, b in zip(look, full, strict=True)
    )


def _hosts_of(attempt: Attempt) -> frozenset[str]:
    told = [row.hosts for _, row in attempt.records] + [
        event.hosts for event in attempt.events if event.kind == "started"
    ]
    return frozenset(next((hosts for hosts in told if hosts), ()))
