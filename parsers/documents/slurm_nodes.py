"""The state of a host as Slurm shows it, whatever tool printed it, as the event that it tells of.

A host that takes no work, or that somebody gave a reason, is one row of ``scheduler_events``: ``node_drain`` where its
state says drain, ``node_down`` where it says down, ``node_state`` for any other. Its time is that of the reason, since
when it is so; a state without a reason has no time. The states are those of https://slurm.schedmd.com/sinfo.html.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from aftershock.parsers.clock import NO_CLOCK, SECOND, Reading
from aftershock.parsers.formats import Found, Refused
from aftershock.parsers.slurm_words import clock_of
from aftershock.schemas.events import SchedulerEvent

EXCERPT: Final = 512

_WORDS: Final = re.compile(r"[A-Z_]+")
# Signs behind a state: not responding, rebooting, in maintenance. Powered down (~) and the like are no faults.
_SIGNS: Final = "*@^$"
_OUT: Final = re.compile(
    r"(?:FAIL\w*|ERROR?|MAINT(?:ENANCE)?|REBOOT\w*|NOT_RESPONDING|INVAL(?:ID_REG)?|UNK(?:NOWN)?|BLOCK(?:ED)?|NPC|PERFCTRS)\Z"
)
_NO_REASON: Final = frozenset({"", "none", "(null)", "n/a", "null"})
_NO_USER: Final = frozenset({"", "unknown", "(null)", "n/a", "none", "null"})
_USER: Final = re.compile(r"(?P<name>.*?)\((?P<uid>[0-9]+)\)\Z", re.DOTALL)
# What the controller itself writes where it sets a host down; people write whatever they like.
_SET_DOWN: Final = re.compile(
    r"Not responding\b|Node unexpectedly rebooted|Node not responding|ResumeTimeout reached|Low (?:RealMemory|TmpDisk)"
    r"|reboot timed out|Kill task failed.*set down",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeText:
    """What a tool shows of one or more hosts that are in one state.

    hosts: expanded. state: as printed, None where the tool does not print it. reason, user: as printed.
    since: when the reason was given, as :func:`clock_of` reads it. message: the part of the record that says so.
    """

    tool: str
    hosts: list[str]
    state: str | None
    reason: str | None
    user: str | None
    since: str | None
    message: str


def event_of(node: NodeText, offset: int, record: bytes) -> list[Found | Refused]:
    """The event of a host, none for one that works; a refusal beside it where its time cannot be read."""
    reason = (node.reason or "").strip()
    reason = "" if reason.lower() in _NO_REASON else reason
    state = (node.state or "").strip() or None
    if not node.hosts or not (reason or is_out(state)):
        return []
    alone = node.hosts[0] if len(node.hosts) == 1 else None
    row = SchedulerEvent(
        kind=_kind(state, reason),
        host=alone,
        host_raw=alone,
        hosts=node.hosts,
        user=_user(node.user),
        reason=reason or None,
        state=state,
        message=node.message.strip() or None,
    )
    problems = []
    reading = NO_CLOCK
    try:
        clock = clock_of(node.since)
    except ValueError as error:
        clock = None
        flaw = f"{node.tool}: time of the reason is not read: {error}"
        problems.append(Refused(offset, len(record), flaw, record[:EXCERPT]))
    if clock is not None:
        reading = Reading(clock.kind, clock.wall, resolution=SECOND, text=(node.since or "").strip())
    return [Found(row, reading, offset), *problems]


def is_out(state: str | None) -> bool:
    """Whether a host in this state takes no work for a reason that somebody should know."""
    upper = (state or "").upper()
    words = _WORDS.findall(upper)
    return any(_is_drain(word) or word == "DOWN" or _OUT.match(word) for word in words) or any(
        sign in upper for sign in _SIGNS
    )


def _is_drain(word: str) -> bool:
    return word.startswith("DRAIN") or word == "DRNG"


def _kind(state: str | None, reason: str) -> str:
    words = _WORDS.findall((state or "").upper())
    if any(_is_drain(word) for word in words):
        return "node_drain"
    if "DOWN" in words or (state is None and _SET_DOWN.match(reason)):
        return "node_down"
    # Without a state it is `sinfo -R`, which lists nothing but hosts that are out: whoever gives a reason drains.
    return "node_state" if state else "node_drain"


def _user(printed: str | None) -> str | None:
    """``root(0)`` as ``root``; the number alone where nobody has that name any more."""
    text = (printed or "").strip()
    match = _USER.match(text)
    if match is not None:
        text = match["uid"] if match["name"].strip().lower() in _NO_USER else match["name"].strip()
    return None if text.lower() in _NO_USER else text
