"""Attempts: the runs of all pods of one job, told apart as the placements that a person would call attempts.

Where a label counts restarts or names the cluster of an attempt, it tells them apart. Otherwise, and within one label,
an attempt ends where a place in the job is taken again: its container runs anew, or another pod stands in for one that
failed. The pods that were not replaced go on in the next attempt on the hosts that they have, and what is taken over
within some minutes belongs to the same new attempt: pods of one job fall one after the other, and come back so.

An attempt begins with its first run, not with its last: its hosts are taken from then on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import zip_longest
from typing import Final

from aftershock.parsers.clock import MINUTE, SECOND
from aftershock.parsers.documents.kubernetes.marks import RunMark
from aftershock.parsers.documents.kubernetes.pods import session_reading
from aftershock.parsers.formats import Found
from aftershock.schemas.sessions import Session

# How long after the first the other pods of a job are replaced: a node that is lost is given up after five minutes.
_SAME_RESTART: Final = 10 * MINUTE
# What says most about an end goes first: peers of a lost pod fail by their own before its node is given up.
_PRECEDENCE: Final = ("NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "TIMEOUT", "FAILED")
_OPEN: Final = frozenset({"RUNNING", "PENDING"})


@dataclass(frozen=True)
class Run:
    """One run of a pod: its mark, its row, and where the pod stands in its file."""

    mark: RunMark
    row: Session
    offset: int

    @property
    def begin(self) -> int | None:
        """When it started; of one that states only its end, the end."""
        return self.row.start_time if self.row.start_time is not None else self.row.end_time

    @property
    def failed(self) -> bool:
        """Whether it ended badly."""
        return self.row.state in _PRECEDENCE


@dataclass
class _Attempt:
    """Runs by their place in the job. ``kept``: places whose run began in an attempt before."""

    runs: dict[str, Run] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    opened: int = 0

    @property
    def own(self) -> list[Run]:
        """The runs that began in it, by their place."""
        return [run for slot, run in sorted(self.runs.items()) if slot not in self.kept]

    @property
    def start(self) -> int | None:
        """When its first run began."""
        return min((run.row.start_time for run in self.own if run.row.start_time is not None), default=None)

    @property
    def at_least(self) -> int:
        """Its number by what a label counts before it, and by the restarts of its containers."""
        return 1 + max(max(run.mark.restarts or 0, run.mark.ordinal) for run in self.runs.values())


def sessions_of(runs: Iterable[Run]) -> list[Found]:
    """The sessions of one job, in order."""
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in _latest(runs):
        groups[run.mark.group].append(run)
    attempts = sorted((attempt for group in groups.values() for attempt in _told_apart(group)), key=_position)
    sessions: list[Found] = []
    number = 0
    for attempt, follower in zip_longest(attempts, attempts[1:]):
        number = max(number + 1, attempt.at_least)
        sessions.append(_session(attempt, number, follower))
    return sessions


def _latest(runs: Iterable[Run]) -> list[Run]:
    """Each run once: of several looks at it the one that saw its end, else the last. Waiting counts until it runs."""
    best: dict[tuple[str, str, int], Run] = {}
    started: set[tuple[str, str]] = set()
    for run in sorted(runs, key=lambda run: (run.row.end_time is not None, run.offset)):
        best[run.mark.group, run.mark.pod, run.mark.ordinal] = run
        if run.mark.ordinal >= 0:
            started.add((run.mark.group, run.mark.pod))
    return [
        _after(run, best) for (group, pod, ordinal), run in best.items() if ordinal >= 0 or (group, pod) not in started
    ]


def _after(run: Run, best: dict[tuple[str, str, int], Run]) -> Run:
    """A run that was only seen while it ran, but has been followed by another one, is over."""
    following = (run.mark.group, run.mark.pod, run.mark.ordinal + 1)
    if run.row.state in _OPEN and run.mark.ordinal >= 0 and following in best:
        return replace(run, row=replace(run.row, state="UNKNOWN"))
    return run


def _told_apart(runs: Sequence[Run]) -> list[_Attempt]:
    attempts = [_Attempt()]
    for slot, run in _in_slots(runs):
        now = attempts[-1]
        before = now.runs.get(slot)
        if before is not None:
            begin = run.begin if run.begin is not None else before.row.end_time
            if begin is None:
                continue  # two pods in one place, of which one waits: the other may not have gone yet
            if slot not in now.kept or begin - now.opened > _SAME_RESTART:
                now = _next(now, begin)
                attempts.append(now)
        now.runs[slot] = run
        now.kept.discard(slot)
    return attempts


def _next(now: _Attempt, begin: int) -> _Attempt:
    """The attempt that begins then: with the runs that go on, and without those that had ended."""
    going_on = {s: r for s, r in now.runs.items() if r.row.end_time is None or r.row.end_time > begin}
    return _Attempt({s: r for s, r in going_on.items() if r.row.state != "UNKNOWN"}, set(going_on), begin)


def _in_slots(runs: Sequence[Run]) -> list[tuple[str, Run]]:
    """Runs in the order of their start, each with its place. A pod without one takes that of the first that failed."""
    ordered = sorted(runs, key=lambda run: (run.begin is None, run.begin or 0, run.mark.ordinal, run.offset))
    slots: dict[str, str] = {}
    failed: list[tuple[int, str]] = []  # a heap: when the run in a place failed
    free: dict[str, int] = {}  # the same by place, of those that nobody has taken since
    found: list[tuple[str, Run]] = []
    for run in ordered:
        pod, slot = run.mark.pod, run.mark.slot
        if slot is None and pod not in slots:
            while failed and free.get(failed[0][1]) != failed[0][0]:
                heappop(failed)
            if failed and (run.begin is None or failed[0][0] <= run.begin):
                slot = heappop(failed)[1]
        slots.setdefault(pod, slot if slot is not None else f"pod {pod}")
        free.pop(slots[pod], None)
        if run.failed and run.mark.slot is None and run.row.end_time is not None:
            free[slots[pod]] = run.row.end_time
            heappush(failed, (run.row.end_time, slots[pod]))
        found.append((slots[pod], run))
    return found


def _position(attempt: _Attempt) -> tuple[bool, int, int, int]:
    """By time; what has none comes last, in the order of its restarts."""
    ends = [run.row.end_time for run in attempt.runs.values() if run.row.end_time is not None]
    moment = attempt.start if attempt.start is not None else min(ends, default=None)
    offset = min(run.offset for run in attempt.runs.values())
    return moment is None, moment or 0, attempt.at_least, offset


def _session(attempt: _Attempt, number: int, follower: _Attempt | None) -> Found:
    """One attempt as a row. Where another one follows it is over, whether its end is known or not."""
    rows = [run.row for _, run in sorted(attempt.runs.items())]
    own = attempt.own
    bad = sorted((run.row for run in own if run.failed), key=lambda row: (row.end_time is None, row.end_time or 0))
    hosts = sorted({host for one in rows for host in one.hosts or []})
    gpus = [one.n_gpus for one in rows if one.n_gpus is not None]
    row = replace(rows[0], exit_code=None, exit_signal=None, end_reason=None, duration_s=None, attempt=number)
    row.user = next((one.user for one in rows if one.user), None)
    row.partition = next((one.partition for one in rows if one.partition), None)
    row.hosts = hosts or (None if any(one.hosts is None for one in rows) else [])
    row.n_hosts = None if row.hosts is None else len(row.hosts)
    row.n_gpus = sum(gpus) if gpus else None
    row.start_time = attempt.start
    row.state = _state_of(rows, bad, superseded=follower is not None)
    row.end_time = _end_of(own, follower) if row.state not in _OPEN else None
    _say_why(row, bad, rows)
    if row.start_time is not None and row.end_time is not None and row.end_time >= row.start_time:
        row.duration_s = (row.end_time - row.start_time) / SECOND
    return Found(row, session_reading(row), min(run.offset for run in attempt.runs.values()))


def _end_of(runs: Sequence[Run], follower: _Attempt | None) -> int | None:
    """The last end; but where another attempt follows, of those before it: some pods are late to go."""
    ends = [run.row.end_time for run in runs if run.row.end_time is not None]
    start = follower.start if follower is not None else None
    before = [end for end in ends if start is None or end <= start]
    return max(before, default=min(ends, default=None))


def _state_of(rows: Sequence[Session], bad: Sequence[Session], *, superseded: bool) -> str | None:
    states = {row.state for row in rows}
    if bad:
        return next(state for state in _PRECEDENCE if any(row.state == state for row in bad))
    if superseded and states & {*_OPEN, "UNKNOWN", None}:
        return "UNKNOWN"
    for state in ("RUNNING", "PENDING", "UNKNOWN", "COMPLETED"):
        if state in states:
            return "RUNNING" if state == "PENDING" and "COMPLETED" in states else state
    return None


def _say_why(row: Session, bad: Sequence[Session], rows: Sequence[Session]) -> None:
    """Exit code and reason: the code of the first that failed, the reason of the one that gives the state."""
    told = next((one for one in bad if one.exit_code is not None or one.exit_signal is not None), None)
    if told is not None:
        row.exit_code, row.exit_signal = told.exit_code, told.exit_signal
    elif row.state == "COMPLETED":
        row.exit_code = next((one.exit_code for one in rows if one.exit_code is not None), None)
    deciding = [one for one in bad if one.state == row.state] if bad else list(rows)
    row.end_reason = next((one.end_reason for one in deciding if one.end_reason), None)
