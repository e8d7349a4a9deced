"""Which sessions may be retries of which: every pair that shares something, and how sure it is.

Looked at are, for each session, the latest ones of the same owner that failed before it under the same name, in the
same folder, or with the same command. A sweep of a thousand jobs under one name has a million pairs: of those that
failed only the latest few are compared one by one, and what is left over is paired by time.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log1p
from typing import Final

from aftershock.pipeline.attempts import ASSUMED, US
from aftershock.pipeline.retry_rules import RetryRules
from aftershock.pipeline.sessions import array_task_of
from aftershock.schemas.sessions import Session

# Ends after which work is taken up again. A cancel is a decision to stop.
FAILED_ENDS: Final = frozenset(
    {"FAILED", "NODE_FAIL", "TIMEOUT", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE", "PREEMPTED"}
)


def retried_ends(rules: RetryRules) -> frozenset[str]:
    """Ends after which the rules look for a retry."""
    more = (("CANCELLED", rules.factor_cancelled), ("COMPLETED", rules.factor_completed))
    return FAILED_ENDS.union(state for state, factor in more if factor)


# How many of the sessions that failed under one key are compared with a later one.
MOST_COMPARED: Final = 12
# What people and launchers append to the name of a further try: `-retry2`, `_attempt_3`, `_v3`, `.2`, `(2)`.
_FURTHER_TRY: Final = re.compile(
    r"(?:[-_. ]+(?:retry|attempt|restart|resume|resubmit|rerun)[-_. ]*\d*"
    r"|[-_. ]+(?:try|run|v)?[-_. ]*\d+|[ ]*\(\d+\))$",
    re.IGNORECASE,
)
_COMPONENT: Final = re.compile(r"\d+(?:_\d+)?\+(\d+)")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
# Options of a submit line that a further try may change, though the work is the same.
_REQUEST: Final = re.compile(
    r"\s(?:--(?:exclude|nodelist|job-name|dependency|nodes|time|begin|reservation|comment|output|error)(?:=|\s+)\S+"
    r"|-[xwJdNtoe][= ]*\S+|--(?:parsable|requeue|no-requeue|exclusive|wait)\b)"
)


@lru_cache(maxsize=65536)
def stem_of(name: str) -> str:
    """The name without what marks a further try.

    >>> stem_of("llama-70b-retry2"), stem_of("llama_v3.2"), stem_of("retry")
    ('llama-70b', 'llama', 'retry')
    """
    while (stem := _FURTHER_TRY.sub("", name)) and stem != name:
        name = stem
    return name


@lru_cache(maxsize=65536)
def work_of(command: str) -> str:
    """The command without what it says about hosts, names and times.

    >>> work_of("sbatch -N3 --exclude=n1,n4  train.sh --lr 0.1")
    'sbatch train.sh --lr 0.1'
    """
    line = command if not command.startswith(("sbatch ", "srun ", "salloc ")) else _REQUEST.sub(" ", command)
    return " ".join(line.split())


@lru_cache(maxsize=65536)
def shape_of(work: str) -> str:
    """A command with all its numbers alike."""
    return _NUMBER.sub("0", work)


@dataclass(eq=False, slots=True)
class Look:
    """A session as it is compared: what it is part of (task of an array, component) and what identifies its work."""

    session: Session
    number: int  # its place in time among all
    part: Hashable
    stem: str | None
    command: str | None  # without what may differ between tries
    shape: str | None  # that with all numbers alike
    hosts: frozenset[str]


@dataclass(slots=True)
class Pair:
    """An earlier session and a later one that may be its retry.

    likeness: how sure it is but for the gap. gap, early: from the end to the start, and from the submit to the end,
    microseconds. names: differently named jobs in their folder, if the folder is all that speaks for it. fit: what
    decides between pairs that are equally sure, from 0 to 1.
    """

    earlier: Look
    later: Look
    rule: str
    likeness: float
    gap: int
    early: int
    names: int
    fit: float

    def confidence(self, rules: RetryRules) -> float:
        """How sure it is under the rules; 0 if they do not allow it."""
        if self.gap > rules.max_gap_s * US or self.early > rules.early_submit_s * US:
            return 0.0
        if self.names > rules.names_per_folder:
            return 0.0
        late = 1.0
        near, most = rules.near_gap_s, rules.max_gap_s
        if self.gap > near * US and most > near:
            late = 1 - (1 - rules.factor_late) * (self.gap / US - near) / (most - near)
        return round(self.likeness * late, 6)


def lineage_of(session: Session) -> tuple[Hashable, ...]:
    """Whose it is. Times of an assumed zone are set against each other only."""
    return session.cluster, session.scheduler, session.user, session.time_basis == ASSUMED


def _names_in(sessions: Iterable[Session]) -> dict[str, int]:
    """How many names the jobs of each folder have."""
    names: dict[str, set[str]] = defaultdict(set)
    for session in sessions:
        if session.name and session.work_dir:
            names[session.work_dir].add(session.name)
    return {folder: len(found) for folder, found in names.items()}


def _part_of(job_id: str | None) -> Hashable:
    """Task of an array and component of a job of several, if it is one."""
    if job_id is None or job_id.isdigit():
        return None
    component = _COMPONENT.fullmatch(job_id)
    part = array_task_of(job_id), component and component.group(1)
    return part if any(part) else None


class Candidates:
    """The pairs of one lineage."""

    def __init__(
        self,
        sessions: Sequence[tuple[int, Session]],
        failed: Iterable[tuple[int, Session]],
        rules: RetryRules,
        names: Mapping[str, int] | None = None,
    ) -> None:
        """``sessions``: all of the lineage, in order, with their place. ``failed``: those that may be retried.
        ``names``: how many names the jobs of each folder have, if the sessions are not all that there are."""
        self._rules = rules
        self._names = _names_in(session for _, session in sessions) if names is None else names
        self.index: dict[Hashable, list[Look]] = defaultdict(list)
        self._ends: dict[Hashable, list[int]] = {}
        looks = [self.look(number, session) for number, session in failed]
        looks.sort(key=lambda look: (look.session.end_time or 0, look.number))
        for look in looks:
            for key in self.keys(look):
                self.index[key].append(look)
        for key, members in self.index.items():
            self._ends[key] = [look.session.end_time or 0 for look in members]
        self._most_gap, self._early = round(rules.max_gap_s * US), round(rules.early_submit_s * US)
        # Under which keys anything failed, by what the keys are made of: most sessions are one of few kinds of work.
        self._shared: dict[Hashable, list[tuple[list[int], list[Look]]]] = {}

    def look(self, number: int, session: Session) -> Look:
        """What a session is compared by."""
        stem = stem_of(session.name) if session.name else None
        command = work_of(session.command) if session.command else None
        shape = shape_of(command) if command else None
        hosts = frozenset(session.hosts or ())
        return Look(session, number, _part_of(session.job_id), stem, command, shape, hosts)

    def keys(self, look: Look) -> list[Hashable]:
        """What two sessions must share to be compared."""
        session = look.session
        keys = self._keys(look.part, session.name, session.work_dir)
        if look.command and look.stem:
            keys.append(("command", look.part, look.stem, look.command))
        if look.hosts and session.name:
            keys.append(("host", look.part, session.name, min(look.hosts)))
        return keys

    def _keys(self, part: Hashable, name: str | None, folder: str | None) -> list[Hashable]:
        """Those of the name and of the folder, the most specific first."""
        keys: list[Hashable] = []
        if name:
            keys.append(("name", part, name))
        if folder:
            if name:
                keys.append(("stem", part, folder, stem_of(name)))
            if self._names.get(folder, 0) <= self._rules.names_per_folder:
                keys.append(("folder", part, folder))
        return keys

    def span(self, session: Session) -> tuple[int, int]:
        """The first and the last moment at which a session may have ended for this one to be its retry."""
        start, submit = session.start_time or 0, session.submit_time
        last = start if submit is None or submit + self._early > start else submit + self._early
        return start - self._most_gap, last

    def of(self, number: int, session: Session) -> tuple[list[Pair], Look | None]:
        """The pairs of a later session, and itself if there were more than are compared."""
        job_id = session.job_id
        part = None if job_id is None or job_id.isdigit() else _part_of(job_id)
        work = part, session.name, session.work_dir
        shared = self._shared.get(work)
        if shared is None:
            keys = [key for key in self._keys(*work) if key in self._ends]
            shared = self._shared[work] = [(self._ends[key], self.index[key]) for key in keys]
        if session.command and session.name:
            shared = shared + self._under("command", part, stem_of(session.name), work_of(session.command))
        earliest, last = self.span(session)
        near = []
        for ends, members in shared:
            at = bisect_right(ends, last)
            if at and ends[at - 1] >= earliest:
                near.append((ends, members))
        if not near:
            return [], None
        found = _Found(self, number, session)
        cut = False
        for ends, members in near:
            cut = found.add(ends, members) or cut
        if cut and session.name and session.hosts:
            # Of a sweep those on the same host, however many there are.
            for ends, members in self._under("host", part, session.name, min(session.hosts)):
                found.add(ends, members)
        return found.pairs, found.later if cut else None

    def _under(self, *key: Hashable) -> list[tuple[list[int], list[Look]]]:
        return [(self._ends[key], self.index[key])] if key in self._ends else []

    def pair(self, one: Look, other: Look) -> Pair | None:
        """What two sessions share, and how sure that makes it that the later one takes up the work of the earlier."""
        rules = self._rules
        earlier, later = one.session, other.session
        if earlier.raw_job_id is not None and earlier.raw_job_id == later.raw_job_id and one.part == other.part:
            return None  # one job is requeued, or its id was given to another
        same_name = bool(earlier.name) and earlier.name == later.name
        like_name = not same_name and one.stem is not None and one.stem == other.stem
        same_folder = bool(earlier.work_dir) and earlier.work_dir == later.work_dir
        doubt, names = 1.0, 0
        if same_name:
            doubt *= 1 - rules.weight_name
        elif like_name:
            doubt *= 1 - rules.weight_stem
        if same_folder:
            doubt *= 1 - rules.weight_folder
            if not (same_name or like_name):
                names = self._names.get(earlier.work_dir or "", 0)
        command, factor = self._command(one, other)
        doubt *= 1 - command
        size = _same(earlier.n_gpus, later.n_gpus) and _same(_count(earlier), _count(later))
        factor *= 1.0 if size else rules.factor_size
        overlap = 1.0
        if one.hosts and other.hosts:
            overlap = len(one.hosts & other.hosts) / len(one.hosts | other.hosts)
            factor *= 1.0 if overlap else rules.factor_hosts
        if earlier.state == "CANCELLED":
            factor *= rules.factor_cancelled
        elif earlier.state == "COMPLETED":
            factor *= rules.factor_completed
        if not later.user:
            factor *= rules.factor_no_user
        likeness = (1 - doubt) * factor
        if likeness < rules.min_confidence - 1e-9:
            return None
        gap = (later.start_time or 0) - (earlier.end_time or 0)
        early = 0 if later.submit_time is None else (earlier.end_time or 0) - later.submit_time
        near = 1 - log1p(max(0, gap) / US) / log1p(max(1.0, rules.max_gap_s))
        exact = one.command == other.command
        return Pair(
            earlier=one,
            later=other,
            rule=_rule(same_name, like_name, same_folder, command, exact=exact),
            likeness=likeness,
            gap=gap,
            early=early,
            names=names,
            fit=0.4 * overlap + 0.2 * size + 0.2 * exact + 0.2 * max(0.0, near),
        )

    def _command(self, one: Look, other: Look) -> tuple[float, float]:
        """Weight and factor of the two commands."""
        rules = self._rules
        if one.shape is None or other.shape is None:
            return 0.0, 1.0
        if one.command == other.command:
            return rules.weight_command, 1.0
        return (rules.weight_command_shape, 1.0) if one.shape == other.shape else (0.0, rules.factor_command)


class _Found:
    """The pairs of one later session, as they are found under its keys."""

    def __init__(self, candidates: Candidates, number: int, session: Session) -> None:
        self._candidates = candidates
        self._number = number
        self._session = session
        self._earliest, self._last = candidates.span(session)
        self._compared: set[int] = set()
        self.later: Look | None = None
        self.pairs: list[Pair] = []

    def add(self, ends: Sequence[int], members: Sequence[Look]) -> bool:
        """Compare it with the latest of some that failed; whether there were more of them than are compared."""
        at = bisect_right(ends, self._last) - 1
        found = 0
        while at >= 0 and ends[at] >= self._earliest:
            earlier = members[at]
            at -= 1
            # Sessions that failed within their own second would find themselves or each other.
            if earlier.number >= self._number:
                continue
            if found == MOST_COMPARED:
                return True
            found += 1
            if earlier.number not in self._compared:
                self._compared.add(earlier.number)
                self.later = self.later or self._candidates.look(self._number, self._session)
                pair = self._candidates.pair(earlier, self.later)
                if pair is not None:
                    self.pairs.append(pair)
        return False


def _same(one: int | None, other: int | None) -> bool:
    return one is None or other is None or one == other


def _count(session: Session) -> int | None:
    return session.n_hosts if session.n_hosts is not None else len(session.hosts) if session.hosts else None


def _rule(same_name: bool, like_name: bool, same_folder: bool, command: float, *, exact: bool) -> str:
    if same_folder:
        word = "same_name_and_folder" if same_name else "same_folder_and_stem" if like_name else "same_folder"
    else:
        word = "same_name" if same_name else "same_stem" if like_name else ""
    words = [word] if word else []
    if command:
        words.append("same_command" if exact else "like_command")
    return "+".join(words)
