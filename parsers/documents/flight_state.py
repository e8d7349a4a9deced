"""Where one rank stood in one process group when PyTorch's flight recorder was dumped: the text of an event, and back.

    group 74 (EXPERT_MODEL_PARALLEL_GROUP): enqueued 20538, started 20537, completed 20536; 2 pending since 20537
    nccl:all_to_all

The numbers count the collectives of the group, the same on every rank; those of a group that sends from rank to rank
(``point to point``) differ from rank to rank.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_LONGEST: Final = 128
# What would break the text: the marks that enclose a name, and line ends.
_UNSAFE: Final = re.compile(r"[()\x00-\x1f\x7f-\x9f\u2028\u2029]")
_TEXT: Final = re.compile(
    r"group (?P<name>\S+)(?: \((?P<desc>[^()]*)\))?: "
    r"enqueued (?P<enqueued>-?\d+|unknown), started (?P<started>-?\d+|unknown), completed (?P<completed>-?\d+|unknown)"
    r"; (?P<pending>\d+) pending(?: since (?P<since>\d+) (?P<op>.*?))?(?P<p2p>, point to point)?\Z"
)


class GroupState(NamedTuple):
    """A rank in a group.

    name: the same on all ranks of the group; desc: what the trainer calls it.
    enqueued, started, completed: the last collective that was; None where the dump does not say.
    pending: works that were not completed, and of the oldest of them number and operation.
    point_to_point: whether the pending works are sends and receives.
    """

    name: str
    desc: str
    enqueued: int | None
    started: int | None
    completed: int | None
    pending: int
    since: int | None = None
    operation: str = ""
    point_to_point: bool = False

    def text(self) -> str:
        """The state as the message of an event."""
        desc = f" ({_safe(self.desc)})" if self.desc else ""
        since = "" if self.since is None else f" since {self.since} {_safe(self.operation)}"
        kind = ", point to point" if self.point_to_point else ""
        return (
            f"group {_word(self.name)}{desc}: enqueued {_shown(self.enqueued)}, started {_shown(self.started)}, "
            f"completed {_shown(self.completed)}; {self.pending} pending{since}{kind}"
        )


def state_of(message: str | None) -> GroupState | None:
    """The state that a message tells; None if it tells none."""
    found = _TEXT.match(message) if message and len(message) <= 1024 else None
    if found is None:
        return None
    return GroupState(
        found["name"],
        found["desc"] or "",
        _number(found["enqueued"]),
        _number(found["started"]),
        _number(found["completed"]),
        int(found["pending"]),
        int(found["since"]) if found["since"] is not None else None,
        found["op"] or "",
        found["p2p"] is not None,
    )


def _safe(text: str) -> str:
    return _UNSAFE.sub("_", text[:_LONGEST])


def _word(text: str) -> str:
    return re.sub(r"\s", "_", _safe(text)) or "_"


def _shown(number: int | None) -> str:
    return "unknown" if number is None else str(number)


def _number(text: str) -> int | None:
    return None if text == "unknown" else int(text)
