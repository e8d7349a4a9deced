"""Exclusions that a scheduler tells of: hosts drained, down, cordoned, or set aside by a reservation.

A host can be out in several ways at once (drained, then down): each has its own row and its own end. A drain that both
the log and a list of states (`sinfo -R`, `scontrol show node`) tell of is one row: such a list prints since when.
Exclusions by requests and by retries follow from sessions, see `retries.py` and `roster.py`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Final

from aftershock.pipeline.attempts import ASSUMED, US, error_us, in_order
from aftershock.pipeline.exclusion_rules import ExclusionRules
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.ids import stable_id
from aftershock.schemas.sessions import Exclusion

NODE_KINDS: Final = frozenset(
    {
        "node_down",
        "node_up",
        "node_drain",
        "node_resume",
        "node_state",
        "node_cordon",
        "node_uncordon",
        "reservation",
        "epilog_error",
    }
)
# What a list of states can show without saying since when.
_SHOWN: Final = frozenset({"node_drain", "node_down", "node_cordon"})
# A printed state has signs and flags behind it: `DOWN*+DRAIN`, `IDLE~`.
_WORD: Final = re.compile(r"[A-Z_]+")
_BACK: Final = frozenset({"IDLE", "RESUME", "ALLOCATED", "ALLOC", "MIXED", "MIX"})
# In the log of the controller as `start=`, where the reservation itself is shown as `StartTime=`.
_RESERVED: Final = re.compile(r"\b(start|end|StartTime|EndTime)=(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\b")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


def find_exclusions(
    events: Sequence[SchedulerEvent], rules: ExclusionRules | None = None, host: str | None = None
) -> list[Exclusion]:
    """Drains, downs, cordons and reservations; an open end is null. Order does not matter.

    ``events``: the lines about hosts, of one host or of many; one that names several hosts counts for each. The end of
    a reservation names no hosts, so it must be among the events of every host. ``host``: only the rows of this host.
    What is only shown to be so, without a time, is a row without a start if nothing else tells of it. Times of an
    assumed zone are set against each other only.
    """
    rules = rules or ExclusionRules()
    told = in_order(e for e in events if e.kind in NODE_KINDS and e.time is not None)
    names = {event.cluster for event in told if event.cluster}
    only = names.pop() if len(names) == 1 else None
    groups: dict[tuple[str | None, bool], list[SchedulerEvent]] = defaultdict(list)
    for event in told:
        groups[event.cluster or only, event.time_basis == ASSUMED].append(event)
    found: list[Exclusion] = []
    for (cluster, _), group in sorted(groups.items(), key=lambda item: not item[0][1]):
        for name, lines in _by_host(group).items():
            if host is None or name == host:
                found += _states_of(cluster, name, lines, rules)
        found += [row for row in _reservations(cluster, group) if host is None or row.host == host]
    found += _undated([e for e in events if e.time is None and e.kind in _SHOWN], found, only, host)
    # What ended as it began, such as a reservation that was deleted before its start, kept no host from work. Equal
    # ids are one fact, told with a known and with an assumed zone.
    rows = {row.exclusion_id: row for row in found if row.end_time is None or row.end_time > (row.start_time or 0)}
    return sorted(
        rows.values(), key=lambda row: (row.start_time or 0, row.host or "", row.how or "", row.exclusion_id or "")
    )


def _undated(
    events: Iterable[SchedulerEvent], found: Sequence[Exclusion], only: str | None, host: str | None
) -> list[Exclusion]:
    known = {(row.cluster, row.host, row.how) for row in found}
    rows: dict[tuple[str | None, str | None, str | None], Exclusion] = {}
    for event in sorted(events, key=repr):
        for name in hosts_named(event):
            for how in sorted(_opens(event)):
                key = event.cluster or only, name, how
                if key not in known and host in (None, name):
                    row = rows.setdefault(key, _row(key[0], name, how, None, event.user))
                    row.reason, row.by = row.reason or event.reason, row.by or event.user
    return list(rows.values())


def hosts_named(event: SchedulerEvent) -> list[str]:
    """The hosts that a line is about."""
    return event.hosts or ([event.host] if event.host else [])


def _by_host(events: Iterable[SchedulerEvent]) -> dict[str, list[SchedulerEvent]]:
    groups: dict[str, list[SchedulerEvent]] = defaultdict(list)
    for event in events:
        for name in hosts_named(event):
            groups[name].append(event)
    return groups


def _states_of(
    cluster: str | None, host: str, events: Sequence[SchedulerEvent], rules: ExclusionRules
) -> list[Exclusion]:
    """Drains and downs of one host. What repeats an open one keeps it open."""
    rows: list[Exclusion] = []
    open_rows: dict[str, Exclusion] = {}
    errors: dict[str, int] = {}  # of the starts of open rows
    said: SchedulerEvent | None = None  # the latest line that gives a reason without a state
    listed: Exclusion | None = None  # a drain by a list that does not say whether it is one
    for event in events:
        time, error = event.time or 0, error_us(event)
        if listed is not None and open_rows.get("drain") is listed and "down" in _opens(event):
            if _is_same(listed, event, rules):
                listed.how = "down"
                open_rows["down"] = open_rows.pop("drain")
                errors["down"] = errors.pop("drain")
            listed = None
        if _is_listed(event) and "down" in open_rows and _is_same(open_rows["down"], event, rules):
            open_rows["down"].by = open_rows["down"].by or event.user
            open_rows["down"].reason = open_rows["down"].reason or event.reason
            continue
        if event.kind == "node_state" and event.reason and not event.state:
            said = event
        for how in sorted(_opens(event)):
            if how not in open_rows:
                open_rows[how] = _row(cluster, host, how, time, event.user)
                rows.append(open_rows[how])
                errors[how] = error
                listed = open_rows[how] if _is_listed(event) else listed
            elif error < errors[how] and time - (open_rows[how].start_time or 0) <= rules.reason_gap_s * US:
                # A list of states prints whole seconds, the log says when it was within the second.
                open_rows[how].start_time, errors[how] = time, error
        for row in open_rows.values():
            if row.reason is None and time - (row.start_time or 0) <= rules.reason_gap_s * US:
                row.reason = _reason(event, said, rules)
                row.by = row.by or event.user
        for how in _closes(event):
            if how in open_rows:
                open_rows.pop(how).end_time = time
    for row in rows:
        row.exclusion_id = stable_id("x", cluster, host, row.how, row.start_time, None)
    return rows


def _is_listed(event: SchedulerEvent) -> bool:
    """Whether it is a row of a list of reasons (`sinfo -R`), which prints times, but no states."""
    if event.kind != "node_drain" or event.state is not None or not event.reason or not event.time_local:
        return False
    return event.time_local in (event.message or "")


def _is_same(row: Exclusion, event: SchedulerEvent, rules: ExclusionRules) -> bool:
    """Whether a row and a line about the same time give the same reason; such a list cuts it short."""
    near = abs((event.time or 0) - (row.start_time or 0)) <= rules.reason_gap_s * US
    one, other = row.reason or "", event.reason or ""
    return near and (not one or not other or one.startswith(other) or other.startswith(one))


def _opens(event: SchedulerEvent) -> set[str]:
    """How a line takes its host out."""
    if event.kind == "node_drain":
        return {"drain"}
    if event.kind == "node_down":
        return {"down"}
    if event.kind == "node_cordon":
        return {"cordon"}
    if event.kind == "epilog_error":
        # Only some of the lines about an epilog say that the host is taken out for it.
        text = (event.message or "").lower()
        return {"drain"} if "drain" in text else {"down"} if "setting down" in text else set()
    if event.kind == "node_state":
        words = _WORD.findall((event.state or "").upper())
        drained = any(word.startswith("DRAIN") or word == "DRNG" for word in words)
        return ({"drain"} if drained else set()) | ({"down"} if "DOWN" in words else set())
    return set()


def _closes(event: SchedulerEvent) -> set[str]:
    """What a line ends. A host that answers again is still drained, and still down until it is returned to service."""
    words = _WORD.findall((event.state or "").upper())
    if event.kind == "node_resume":
        return {"drain"} if "UNDRAIN" in words else {"drain", "down"}
    if event.kind == "node_up":
        return set() if (event.reason or "").strip().lower() == "now responding" else {"down"}
    if event.kind == "node_uncordon":
        return {"cordon"}
    # A list of states shows a host that works again with the reason of its last drain, and with the time of that.
    if event.kind == "node_state" and not event.reason and not _opens(event) and _BACK & set(words):
        return {"drain", "down"}
    return set()


def _reason(event: SchedulerEvent, said: SchedulerEvent | None, rules: ExclusionRules) -> str | None:
    """The reason on the line, else one that was just given beside it."""
    if event.reason and (_opens(event) or event is said):
        return event.reason
    near = said is not None and (event.time or 0) - (said.time or 0) <= rules.reason_gap_s * US
    return said.reason if said is not None and near else None


def soft_exclusions(events: Iterable[SchedulerEvent], rules: ExclusionRules | None = None) -> list[Exclusion]:
    """Hosts that a scheduler leaves out for one session that they just failed: for an hour from the last time."""
    rules = rules or ExclusionRules()
    lasting = round(rules.soft_s * US)
    rows: dict[tuple[str | None, str, str | None], list[Exclusion]] = defaultdict(list)
    for event in in_order(e for e in events if e.kind == "hosts_failed" and e.time is not None):
        time = event.time or 0
        for host in hosts_named(event):
            before = rows[event.cluster, host, event.session_id]
            if before and time <= (before[-1].end_time or 0):
                before[-1].end_time = time + lasting
                continue
            row = _row(event.cluster, host, "soft", time, event.user or event.scheduler)
            row.exclusion_id = stable_id("x", event.cluster, host, "soft", time, event.session_id)
            row.end_time, row.session_id, row.reason = time + lasting, event.session_id, event.reason
            before.append(row)
    return [row for found in rows.values() for row in found]


def _row(cluster: str | None, host: str, how: str, start: int | None, by: str | None, *name: str) -> Exclusion:
    """``name``: of the reservation, several of which may begin together."""
    return Exclusion(
        exclusion_id=stable_id("x", cluster, host, how, start, None, *name),
        cluster=cluster,
        host=host,
        start_time=start,
        how=how,
        by=by,
    )


def _reservations(cluster: str | None, events: Iterable[SchedulerEvent]) -> list[Exclusion]:
    """Reservations by name, which is their reason. An update that leaves a host out ends it for that host."""
    rows: list[Exclusion] = []
    open_rows: dict[tuple[str, str], Exclusion] = {}  # by name and host
    for event in events:
        if event.kind != "reservation":
            continue
        name, time = event.reason or "", event.time or 0
        start, end = _reserved(event)
        gone = (event.state or "").upper() in ("DELETED", "ENDED")
        named = set(hosts_named(event))
        for key, row in list(open_rows.items()):
            over = row.end_time is not None and row.end_time <= time
            dropped = key[0] == name and (gone or (bool(named) and key[1] not in named))
            if over or dropped:
                del open_rows[key]
                if not over:
                    row.end_time = max(time, row.start_time or time)
        for host in [] if gone else sorted(named):
            if (name, host) not in open_rows:
                row = _row(cluster, host, "reservation", start if start is not None else time, event.user, name)
                row.reason = event.reason
                open_rows[name, host] = row
                rows.append(row)
            row = open_rows[name, host]
            row.end_time = end if end is not None else row.end_time
    return rows


def _reserved(event: SchedulerEvent) -> tuple[int | None, int | None]:
    """Planned start and end on the line, which stand in the clock of its time stamp."""
    shift = _shift(event)
    if shift is None:
        return None, None
    told: list[tuple[str, str]] = _RESERVED.findall(event.message or "")
    planned = {name.lower().removesuffix("time"): time for name, time in told}
    start, end = ((_wall(planned[name]) if name in planned else None) for name in ("start", "end"))
    return (None if start is None else start - shift), (None if end is None else end - shift)


def _shift(event: SchedulerEvent) -> int | None:
    """How far the printed clock is ahead of UTC, microseconds; null without a full printed time."""
    wall = _wall(event.time_local or "")
    # Stamps end with milliseconds, `time` may be more precise; no zone is finer than a minute.
    return None if wall is None or event.time is None else round((wall - event.time) / (60 * US)) * 60 * US


def _wall(text: str) -> int | None:
    """What the hands of the clock showed, as if it were UTC; None for a text that is no full time."""
    try:
        shown = datetime.fromisoformat(text.strip().removesuffix("Z")).replace(tzinfo=timezone.utc)
    except ValueError:
        return None
    return (shown - _EPOCH) // timedelta(microseconds=1)
