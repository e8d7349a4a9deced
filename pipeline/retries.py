"""Retries and chains: which session took up the work of which, and how each piece of work ended.

Two things link sessions. A requeue is certain: the scheduler places the same job again. A resubmission is inferred: the
same user starts a job of the same name, or from the same folder, soon after one that failed. Every link names its rule
and how sure it is; a session has at most one before it and one after it, so that chains are paths.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from aftershock.pipeline.attempts import ASSUMED, REQUEUE_ENDS, US
from aftershock.pipeline.sessions import array_task_of
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.ids import stable_id
from aftershock.schemas.sessions import Chain, Exclusion, Retry, Session

# Ends after which work is taken up again. A cancel is a decision to stop.
FAILED_ENDS: Final = frozenset(
    {"FAILED", "NODE_FAIL", "TIMEOUT", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE", "PREEMPTED"}
)
# What people and launchers append to the name of a further try: `-retry2`, `_attempt_3`, `_v3`, `.2`, `(2)`.
_FURTHER_TRY: Final = re.compile(
    r"(?:[-_. ]+(?:retry|attempt|restart|resume|resubmit|rerun)[-_. ]*\d*"
    r"|[-_. ]+(?:try|run|v)?[-_. ]*\d+|[ ]*\(\d+\))$",
    re.IGNORECASE,
)
_COMPONENT: Final = re.compile(r"\d+(?:_\d+)?\+(\d+)")


@dataclass(frozen=True)
class RetryRules:
    """When a later session counts as a retry, and when a chain counts as a success."""

    max_gap_s: float = 7200.0  # from a failed end to the start of a resubmission
    success_min_runtime_s: float = 86400.0
    # A launcher that sees its job die may submit before accounting has closed it.
    early_submit_s: float = 5.0
    # A folder that more differently named jobs of one user share is no sign that two of them are the same work.
    names_per_folder: int = 2


@dataclass(frozen=True)
class Linked:
    """What follows from sessions: retries, chains, and the hosts that retries and requests left out."""

    retries: list[Retry]
    chains: list[Chain]
    exclusions: list[Exclusion]


@dataclass(frozen=True)
class _Edge:
    earlier: Session
    later: Session
    trigger: str
    mode: str
    rule: str
    confidence: float
    decided: int | None = None  # when the requeue was decided, microseconds


@dataclass
class _Jobs:
    """Placements in order for each job, what was put back without a further placement, and requeue decisions."""

    edges: list[_Edge]
    waiting: dict[str, Session]  # by the session before it: the stay in the queue after the last requeue
    decided: dict[str, int]  # by the session that it ended


def link_retries(sessions: Sequence[Session], requeues: Sequence[SchedulerEvent], rules: RetryRules) -> Linked:
    """Retries, chains and exclusions of all sessions of one or more lineages. Order does not matter.

    ``sessions`` have ids; all of one cluster and user must be given together. ``requeues``: log lines of kind
    ``requeued`` with the session that each ended. A chain is a path of at least one retry, or a job that was requeued
    and never placed again; its ``last_session_id`` is then the row that waited in the queue.
    """
    ordered = sorted({_id(s): s for s in sessions}.values(), key=_order)
    jobs = _requeued_jobs(ordered, requeues, rules)
    edges = jobs.edges + _resubmissions(ordered, jobs, rules)
    after = {_id(edge.earlier): edge for edge in edges}
    followers = {_id(edge.later) for edge in edges}
    heads = [s for s in ordered if _id(s) not in followers]
    retries: list[Retry] = []
    chains: list[Chain] = []
    chain_of: dict[str, str] = {}
    swaps: list[Exclusion] = []
    for head in heads:
        path = _path(head, after)
        members = [head, *(edge.later for edge in path)]
        last = members[-1]
        if not path and not (_id(last) in jobs.waiting or _id(last) in jobs.decided or last.state == "REQUEUED"):
            continue
        if not _placed(head):
            continue
        chain = _chain(members, path, jobs, rules)
        chains.append(chain)
        chain_of |= {_id(s): chain.chain_id or "" for m in members for s in (m, jobs.waiting.get(_id(m), m))}
        for number, edge in enumerate(path, start=2):
            retry = _retry(edge, chain.chain_id, number)
            retries.append(retry)
            swaps += _swapped_out(edge, retry)
    return Linked(retries, chains, swaps + _exclude_lists(ordered, chain_of))


def _id(session: Session) -> str:
    return session.session_id or ""


def _order(session: Session) -> tuple[bool, int, str]:
    moment = next((t for t in (session.start_time, session.submit_time, session.end_time) if t is not None), None)
    return moment is None, moment or 0, _id(session)


def _placed(session: Session) -> bool:
    return session.start_time is not None or session.attempt is not None or bool(session.hosts)


def _lineage(session: Session) -> tuple[Hashable, ...]:
    """Times of an assumed zone are set against each other only."""
    return session.cluster, session.scheduler, session.user, session.time_basis == ASSUMED


def _by(sessions: Iterable[Session], key: Callable[[Session], Hashable]) -> list[list[Session]]:
    groups: dict[Hashable, list[Session]] = defaultdict(list)
    for session in sessions:
        groups[key(session)].append(session)
    return list(groups.values())


def _requeued_jobs(ordered: Sequence[Session], requeues: Sequence[SchedulerEvent], rules: RetryRules) -> _Jobs:
    jobs = _Jobs([], {}, {})
    for event in requeues:
        if event.kind == "requeued" and event.session_id and event.time is not None:
            jobs.decided[event.session_id] = min(event.time, jobs.decided.get(event.session_id, event.time))
    for rows in _by(ordered, lambda s: (_lineage(s), s.raw_job_id or s.job_id or _id(s), array_task_of(s.job_id))):
        last: Session | None = None
        for row in rows:
            if _placed(row):
                if last is not None and row.attempt == (last.attempt or 0) + 1 and row.attempt > 1:
                    decided = jobs.decided.get(_id(last), _reset_submit(last, row, rules))
                    jobs.edges.append(_Edge(last, row, "requeue", "auto", "requeue", 1.0, decided))
                    jobs.waiting.pop(_id(last), None)
                last = row
            elif last is not None and _put_back(last, row, jobs, rules):
                jobs.waiting[_id(last)] = row
    return jobs


def _reset_submit(earlier: Session, later: Session, rules: RetryRules) -> int | None:
    """Slurm resets Submit when it requeues: without a log it tells when that was."""
    submit, end = later.submit_time, earlier.end_time
    return submit if submit is not None and end is not None and submit >= end - _us(rules.early_submit_s) else None


def _put_back(last: Session, row: Session, jobs: _Jobs, rules: RetryRules) -> bool:
    """Whether a row that never got hosts is the requeue of the placement before it, and not a job with a reused id."""
    if (row.name or last.name) != (last.name or row.name):
        return False
    if _id(last) in jobs.decided or last.state in REQUEUE_ENDS:
        return True
    submit, end = row.submit_time, last.end_time
    return submit is not None and end is not None and abs(submit - end) <= _us(rules.early_submit_s)


def _us(seconds: float) -> int:
    return round(seconds * US)


def _resubmissions(ordered: Sequence[Session], jobs: _Jobs, rules: RetryRules) -> list[_Edge]:
    """Pairs of a failed session and a later one of another job, by the most specific rule first."""
    taken = {_id(edge.earlier) for edge in jobs.edges}
    taken |= {before for before, row in jobs.waiting.items() if row.state == "PENDING"}  # still to be placed
    first = {_id(edge.later) for edge in jobs.edges}
    owned = [s for s in ordered if s.user]
    failed = [s for s in owned if s.state in FAILED_ENDS and s.end_time is not None and _placed(s)]
    failed = [s for s in failed if _id(s) not in taken]
    fresh = [s for s in owned if s.start_time is not None and _id(s) not in first and (s.attempt or 1) == 1]
    edges: list[_Edge] = []
    for rule, confidence, key in _same_work(owned, rules):
        for earlier, later in _pair(failed, fresh, key, rules):
            edges.append(_Edge(earlier, later, "resubmit", "unknown", rule, confidence))
        linked = {_id(edge.earlier) for edge in edges}
        failed = [s for s in failed if _id(s) not in linked]
        linked = {_id(edge.later) for edge in edges}
        fresh = [s for s in fresh if _id(s) not in linked]
    return edges


Key = Callable[[Session], Hashable | None]


def _same_work(sessions: Sequence[Session], rules: RetryRules) -> list[tuple[str, float, Key]]:
    """Rules, how sure they are, and what two sessions must share; None where a rule does not apply."""
    names: dict[Hashable, set[str]] = defaultdict(set)
    for session in sessions:
        if session.name:
            names[_lineage(session), session.work_dir].add(session.name)

    def part(session: Session) -> tuple[Hashable, ...]:
        component = _COMPONENT.fullmatch(session.job_id or "")
        return _lineage(session), array_task_of(session.job_id), component and component.group(1)

    def name_and_folder(s: Session) -> Hashable | None:
        return (part(s), s.name, s.work_dir) if s.name and s.work_dir else None

    def name_alone(s: Session) -> Hashable | None:
        return (part(s), s.name) if s.name else None

    def folder_and_stem(s: Session) -> Hashable | None:
        return (part(s), s.work_dir, stem_of(s.name)) if s.name and s.work_dir else None

    def folder_alone(s: Session) -> Hashable | None:
        specific = len(names[_lineage(s), s.work_dir]) <= rules.names_per_folder
        return (part(s), s.work_dir) if s.work_dir and specific else None

    return [
        ("same_name_and_folder", 0.9, name_and_folder),
        ("same_name", 0.8, name_alone),
        ("same_folder_and_stem", 0.7, folder_and_stem),
        ("same_folder", 0.5, folder_alone),
    ]


def stem_of(name: str) -> str:
    """The name without what marks a further try.

    >>> stem_of("llama-70b-retry2"), stem_of("llama_v3.2"), stem_of("retry")
    ('llama-70b', 'llama', 'retry')
    """
    while (stem := _FURTHER_TRY.sub("", name)) and stem != name:
        name = stem
    return name


def _pair(
    failed: Sequence[Session], fresh: Sequence[Session], key: Key, rules: RetryRules
) -> list[tuple[Session, Session]]:
    """Each fresh session, in the order of starts, with the last one that failed before it and has no retry yet."""
    groups: dict[Hashable, list[Session]] = defaultdict(list)
    for session in failed:
        if (shared := key(session)) is not None:
            groups[shared].append(session)
    ends: dict[Hashable, list[int]] = {}
    for shared, group in groups.items():
        group.sort(key=lambda s: (s.end_time or 0, _id(s)))
        ends[shared] = [s.end_time or 0 for s in group]
    pairs: list[tuple[Session, Session]] = []
    for later in fresh:
        shared = key(later)
        if shared is None or shared not in groups:
            continue
        at = bisect_right(ends[shared], _latest_end(later, rules)) - 1
        # Sessions that failed within their own second would find themselves or each other.
        while at >= 0 and _order(groups[shared][at]) >= _order(later):
            at -= 1
        if at >= 0 and (later.start_time or 0) - ends[shared][at] <= _us(rules.max_gap_s):
            pairs.append((groups[shared].pop(at), later))
            ends[shared].pop(at)
    return pairs


def _latest_end(later: Session, rules: RetryRules) -> int:
    """The last moment at which a session may have failed for this one to be its resubmission."""
    start, submit = later.start_time or 0, later.submit_time
    return start if submit is None else min(start, submit + _us(rules.early_submit_s))


def _path(head: Session, after: dict[str, _Edge]) -> list[_Edge]:
    path: list[_Edge] = []
    edge = after.get(_id(head))
    while edge is not None:
        path.append(edge)
        edge = after.get(_id(edge.later))
    return path


def _retry(edge: _Edge, chain_id: str | None, number: int) -> Retry:
    old, new = edge.earlier.hosts, edge.later.hosts
    known = bool(old) and bool(new)
    before, now = set(old or ()), set(new or ())
    return Retry(
        chain_id=chain_id,
        from_session_id=edge.earlier.session_id,
        to_session_id=edge.later.session_id,
        attempt=number,
        trigger=edge.trigger,
        mode=edge.mode,
        interval_s=_seconds(edge.earlier.end_time, edge.later.start_time),
        requeue_interval_s=_seconds(edge.decided, edge.later.start_time),
        hosts_kept=sorted(before & now) if known else None,
        hosts_dropped=sorted(before - now) if known else None,
        hosts_added=sorted(now - before) if known else None,
        rule=edge.rule,
        confidence=edge.confidence,
    )


def _seconds(since: int | None, until: int | None) -> float | None:
    """Accounting rounds to seconds: a start within the second of the end is not before it."""
    return None if since is None or until is None else max(0, until - since) / US


def _chain(members: Sequence[Session], path: Sequence[_Edge], jobs: _Jobs, rules: RetryRules) -> Chain:
    head, last = members[0], members[-1]
    waiting = jobs.waiting.get(_id(last))
    never = waiting is not None or _id(last) in jobs.decided or last.state == "REQUEUED"
    row = waiting or last
    retries = [_retry(edge, None, 2) for edge in path]
    intervals = [retry.interval_s for retry in retries if retry.interval_s is not None]
    modes = {edge.mode for edge in path} or {"auto"}  # a requeue alone is the scheduler's
    lost = [s.gpu_seconds_lost for s in members if s.gpu_seconds_lost is not None]
    return Chain(
        chain_id=stable_id("c", head.session_id),
        cluster=head.cluster,
        name=head.name,
        user=head.user,
        n_attempts=len(members),
        first_session_id=head.session_id,
        last_session_id=row.session_id,
        start_time=head.start_time,
        end_time=row.end_time,
        mode=modes.pop() if len(modes) == 1 else "unknown",
        outcome="never_restarted" if never else _outcome(last, rules),
        median_interval_s=median(intervals) if intervals else None,
        hosts_dropped=sorted({host for retry in retries for host in retry.hosts_dropped or ()}),
        gpu_seconds_lost=sum(lost) if lost else None,
    )


def _outcome(last: Session, rules: RetryRules) -> str | None:
    """How the last placement ended; null where nobody knows."""
    if last.state == "RUNNING":
        return "running"
    long = last.duration_s is not None and last.duration_s >= rules.success_min_runtime_s
    if last.state == "COMPLETED" or (long and last.last_step is not None):
        return "succeeded"
    if last.state == "CANCELLED":
        return "cancelled"
    return "failed" if last.state in FAILED_ENDS else None


def _swapped_out(edge: _Edge, retry: Retry) -> list[Exclusion]:
    """Hosts that the later session did without, for as long as it ran."""
    later = edge.later
    return [
        _exclusion(later, host, "swapped_out", edge.earlier.end_time, retry.chain_id)
        for host in retry.hosts_dropped or ()
    ]


def _exclude_lists(sessions: Iterable[Session], chain_of: dict[str, str]) -> list[Exclusion]:
    return [
        _exclusion(
            s, host, "exclude_list", s.submit_time if s.submit_time is not None else s.start_time, chain_of.get(_id(s))
        )
        for s in sessions
        for host in sorted(set(s.excluded_hosts or ()))
    ]


def _exclusion(session: Session, host: str, how: str, start: int | None, chain_id: str | None) -> Exclusion:
    return Exclusion(
        exclusion_id=stable_id("x", session.cluster, host, how, start, session.session_id),
        cluster=session.cluster,
        host=host,
        start_time=start,
        end_time=session.end_time,
        how=how,
        by=session.user if how == "exclude_list" else None,
        session_id=session.session_id,
        chain_id=chain_id,
    )
