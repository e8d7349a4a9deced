"""How a session ended: its state and the reason for it, from accounting and from the lines about the end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from aftershock.pipeline.attempts import (
    ENDINGS,
    OPEN_STATES,
    SLURM,
    US,
    Attempt,
    Record,
    SessionRules,
    is_echo,
)
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.sessions import SESSION_STATES, Session

END_STATES: Final = frozenset(SESSION_STATES) - OPEN_STATES - {"UNKNOWN"}
_NO_REASON: Final = frozenset({"", "none", "unknown", "n/a", "(null)", "null", "begintime"})
# Reasons of Slurm that say why a job ended. The accounting of a job that ran keeps the reason why it had waited.
_END_REASONS: Final = re.compile(
    r"Time_?Limit|Deadline|NonZeroExitCode|RaisedSignal|OutOfMemory|NodeDown|NodeFail|SystemFailure|LaunchFail"
    r"|InactiveLimit|Prolog|Preempt|Cancel|Boot|fail",
    re.IGNORECASE,
)
_NODE_FAILURE: Final = re.compile(r"node[ _]?fail|failure of node|failed node", re.IGNORECASE)


def state_in_log(attempt: Attempt, closing: SchedulerEvent | None, rules: SessionRules) -> str:
    """The state that the lines of an attempt tell; ``closing`` is the one that ended it."""
    if closing is None:
        return "RUNNING" if attempt.start is not None else "UNKNOWN" if attempt.placed else "PENDING"
    near = _near_end(attempt, closing, rules)
    if any(event.state == "NODE_FAIL" or _NODE_FAILURE.search(event.reason or "") for event in near):
        return "NODE_FAIL"
    if closing.kind == "time_limit":
        return "TIMEOUT"
    if closing.kind == "cancelled":
        return "CANCELLED"
    if closing.kind == "requeued":
        return "PREEMPTED" if "preempt" in f"{closing.state} {closing.reason}".lower() else "REQUEUED"
    ends = END_STATES - {"COMPLETED", "FAILED"}
    implied = [event.state for event in near if event.kind != "cancelled" and event.state in ends and event.state]
    if implied:
        return implied[0]
    exits = next((e for e in near if e.exit_code is not None or e.exit_signal is not None), None)
    if exits is not None and not exits.exit_code and not exits.exit_signal:
        return "COMPLETED"
    if _cancel_before(attempt, closing, rules):
        return "CANCELLED"
    if exits is not None:
        return "FAILED"
    return closing.state if closing.state in END_STATES else "UNKNOWN"


def _near_end(attempt: Attempt, closing: SchedulerEvent, rules: SessionRules) -> list[SchedulerEvent]:
    """The lines that tell of one end: the first and what follows at once; of steps and hosts what came before too."""
    first = closing.time or 0
    last = first + round(rules.slack_s * US)
    earliest = first - round(rules.slack_s * US)
    near = []
    for event in attempt.events:
        if event.time is None or not (event.kind in ENDINGS or event.kind == "cancelled"):
            continue
        if first <= event.time <= last or (earliest <= event.time < first and is_echo(event)):
            near.append(event)
    return near


def _cancel_before(attempt: Attempt, closing: SchedulerEvent, rules: SessionRules) -> bool:
    since = (closing.time or 0) - round(rules.cancel_grace_s * US)
    cancels = [event.time for event in attempt.events if event.kind == "cancelled" and event.time is not None]
    return any(since <= time <= (closing.time or 0) for time in cancels)


# Formats whose reason of an end is one, whatever its words: the site says so itself.
SITE_TABLES: Final = frozenset({"job_table"})


def end_reason(
    attempt: Attempt, row: Session, records: Sequence[Record], closing: SchedulerEvent | None, rules: SessionRules
) -> str | None:
    """Why it ended; ``records`` by trust."""
    if closing is None and row.end_reason is None:
        return None
    told = [(origin, r.end_reason) for origin, r in records if r.end_reason]
    told = [(origin, reason) for origin, reason in told if reason.strip().lower() not in _NO_REASON]
    if attempt.placed and row.scheduler in (None, SLURM):
        told = [(origin, reason) for origin, reason in told if origin in SITE_TABLES or _END_REASONS.search(reason)]
    reasons = [reason for _, reason in told]
    if closing is not None and not reasons:
        reasons = [event.reason for event in _near_end(attempt, closing, rules) if event.reason]
    return next(iter(reasons), None)
