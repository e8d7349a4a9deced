"""Words that Backend.AI's logs and exports share: statuses, results, the reasons of an end, and how ids look.

The enumerations are those of https://github.com/lablup/backend.ai, releases 24.03 to 26.8: ``SessionStatus``,
``KernelStatus``, ``SessionResult`` and ``AgentStatus`` of the manager, ``KernelLifecycleEventReason`` of the common
package (30 reasons), and what the manager writes into ``status_info`` besides. Of ``SessionResult`` the database stores
the name (``FAILURE``) and the API shows the value (``failure``).
"""

from __future__ import annotations

import re
from typing import Final

# An id of a session or a kernel, as a pattern to be built into larger ones.
UUID: Final = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"

# A session that waits, or was put back into the queue; one that holds agents, from the choice of them to its last
# container; one that is over.
WAITING: Final = frozenset({"PENDING", "DEPRIORITIZING", "RESERVED", "RESCHEDULING"})
STARTING: Final = frozenset({"SCHEDULED", "PREPARING", "PULLING", "PREPARED", "CREATING"})
ACTIVE: Final = frozenset({"RUNNING", "RESTARTING", "RUNNING_DEGRADED", "PREEMPTED", "TERMINATING", "RESIZING"})
OVER: Final = frozenset({"TERMINATED", "ERROR", "CANCELLED"})
STATUSES: Final = WAITING | STARTING | ACTIVE | OVER

AGENT_STATUSES: Final = frozenset({"ALIVE", "LOST", "RESTARTING", "TERMINATED"})

# Why a session ended, to the state that it ended in, where no result says so.
_ENDS: Final = {
    "agent-termination": "NODE_FAIL",
    "agent-lost": "NODE_FAIL",
    "anomaly-detected": "FAILED",
    "container-not-found": "FAILED",
    "failed-to-create": "FAILED",
    "failed-to-start": "FAILED",
    "task-failed": "FAILED",
    "exec-timeout": "TIMEOUT",
    "bootstrap-timeout": "TIMEOUT",
    "hang-timeout": "TIMEOUT",
    "idle-timeout": "TIMEOUT",
    "idle-session-lifetime": "TIMEOUT",
    "idle-utilization": "TIMEOUT",
    "pending-timeout": "TIMEOUT",
    "restart-timeout": "TIMEOUT",
    "task-timeout": "TIMEOUT",
    "force-terminated": "CANCELLED",
    "killed-by-event": "CANCELLED",
    "service-scaled-down": "CANCELLED",
    "task-cancelled": "CANCELLED",
    "user-requested": "CANCELLED",
    "user-purged": "CANCELLED",
    "preempted": "PREEMPTED",
    "preempted-by-reservation": "PREEMPTED",
    "task-finished": "COMPLETED",
}
# Reasons that say nothing about how it went: its exit status does, if there is one.
_SILENT: Final = frozenset(
    {
        "already-terminated",
        "new-container-started",
        "not-found-in-manager",
        "restarting",
        "resuming-agent-operation",
        "self-terminated",
        "terminated-unknown-container",
        "unknown",
    }
)
# What the manager writes while a session waits or starts: it stays in the row of one that runs, and ends nothing.
_ON_THE_WAY: Final = frozenset(
    {
        "deprioritized-for-rescheduling",
        "no-available-instances",
        "not-attempted-this-cycle",
        "passed-preconditions",
        "predicate-checks-failed",
        "preemption-reservation",
        "preparing",
        "prereservation-admitted",
        "reserved",
        "scheduled",
        "scheduling-failed",
        "triggered-by-scheduler",
    }
)
REASONS: Final = frozenset(_ENDS) | _SILENT

_CLASS: Final = re.compile(r"\A[A-Za-z]{1,60}\.(?=[A-Za-z_-]{2,60}\Z)")
_WORD: Final = re.compile(r"[A-Za-z]+(?:[-_ ][A-Za-z]+){0,5}\Z")
_LONGEST_REASON: Final = 512


def reason_of(text: str | None) -> str | None:
    """A reason in one spelling, ``agent-termination``, whether the value, the name or the member was printed.

    Free text (``Image pull failed: ...``) stays as it is; None for none.
    """
    said = (text or "").strip()
    bare = _CLASS.sub("", said)
    if _WORD.match(bare):
        word = bare.lower().replace("_", "-").replace(" ", "-")
        if word in REASONS or word in _ON_THE_WAY:
            return word
    return said[:_LONGEST_REASON] or None


def is_end_reason(reason: str | None) -> bool:
    """Whether a reason can be why a session ended, and not what its scheduling was last at."""
    return reason is not None and reason not in _ON_THE_WAY


def status_of(text: str | None) -> str | None:
    """A status in one spelling; a member's name may stand behind that of its class. None for another word."""
    word = _CLASS.sub("", (text or "").strip()).upper().replace("-", "_").replace(" ", "_")
    return word if word in STATUSES or word in AGENT_STATUSES else None


def state_of(status: str | None, result: str | None, reason: str | None, exit_code: int | None) -> str | None:
    """The state of a session: by its status, and once that is over by its result, else its reason, else its exit.

    ``reason``: in the spelling of :func:`reason_of`.
    """
    if status is None:
        return None
    if status in WAITING:
        return "PENDING"
    if status in STARTING or status in ACTIVE:
        return "RUNNING"  # it holds its agents, as jobs of other schedulers do that are being set up or cleaned up
    if status == "CANCELLED":
        return "CANCELLED"
    said = _ENDS.get(reason or "")
    if status == "ERROR":
        return said if said == "NODE_FAIL" else "FAILED"
    outcome = _CLASS.sub("", (result or "").strip()).upper()
    if outcome in ("SUCCESS", "FAILURE", "CANCELLED"):
        return {"SUCCESS": "COMPLETED", "FAILURE": "FAILED", "CANCELLED": "CANCELLED"}[outcome]
    if said is not None:
        return said
    if exit_code is not None:
        return "FAILED" if exit_code else "COMPLETED"
    return "UNKNOWN"
