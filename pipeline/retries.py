"""Retries and chains: which session took up the work of which, and how each piece of work ended.

Three things link sessions. A requeue is certain: the scheduler places the same job again. A retry may be stated, by the
record of the later session or by its submit line. A resubmission is inferred: the same user starts a job of the same
name, or from the same folder, soon after one that failed (`same_work.py`, `links.py`). Every link names its rule and
how sure it is; a session has at most one before it and one after it, so that chains are paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from aftershock.pipeline.attempts import US
from aftershock.pipeline.links import History, Link, id_of, is_placed
from aftershock.pipeline.retry_modes import Mode, mode_of_chain, modes_of
from aftershock.pipeline.retry_rules import RetryRules
from aftershock.pipeline.same_work import FAILED_ENDS, stem_of
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.ids import stable_id
from aftershock.schemas.sessions import Chain, Exclusion, Retry, Session

__all__ = ["History", "Linked", "RetryRules", "link", "link_retries", "stem_of"]


@dataclass(frozen=True)
class Linked:
    """What follows from sessions: retries, chains, and the hosts that retries and requests left out."""

    retries: list[Retry]
    chains: list[Chain]
    exclusions: list[Exclusion]


class Work(NamedTuple):
    """One chain: its sessions in order and the links between them. ``waits``: the row that waits in the queue after
    the last requeue; ``never``: it was put back and not placed again."""

    members: list[Session]
    path: list[Link]
    waits: Session | None
    never: bool


def link_retries(sessions: Sequence[Session], requeues: Sequence[SchedulerEvent], rules: RetryRules) -> Linked:
    """Retries, chains and exclusions of all sessions of one or more lineages. Order does not matter.

    ``sessions`` have ids; all of one cluster and user must be given together. ``requeues``: log lines of kind
    ``requeued`` with the session that each ended. A chain is a path of at least one retry, or a job that was requeued
    and never placed again; its ``last_session_id`` is then the row that waited in the queue.
    """
    return link(History(sessions, requeues, rules))


def link(history: History) -> Linked:
    """The rows of a history under its own rules."""
    rules = history.rules
    retries: list[Retry] = []
    chains: list[Chain] = []
    chain_of: dict[str, str] = {}
    swaps: list[Exclusion] = []
    jobs = history.linked(rules)[0]
    for work in works(history, rules):
        modes = modes_of(work.path, rules)
        chain = _chain(work, modes, rules)
        chains.append(chain)
        for member in work.members:
            chain_of[id_of(member)] = chain.chain_id or ""
            if (waits := jobs.waiting.get(id_of(member))) is not None:
                chain_of[id_of(waits)] = chain.chain_id or ""
        for number, (step, mode) in enumerate(zip(work.path, modes, strict=True), start=2):
            retry = _retry(step, mode, chain.chain_id, number)
            retries.append(retry)
            swaps += _swapped_out(step, retry)
    return Linked(retries, chains, swaps + _exclude_lists(history.ordered, chain_of))


def works(history: History, rules: RetryRules) -> list[Work]:
    """Links put together to chains, in the order of their first sessions."""
    jobs, links = history.linked(rules)
    after = {step.earlier.session_id: step for step in links}
    followers = {step.later.session_id for step in links}
    found = []
    for head in history.beginnings(jobs, (step.earlier for step in links)):
        if head.session_id in followers or not is_placed(head):
            continue
        path: list[Link] = []
        members = [head]
        last = head
        while (step := after.get(last.session_id)) is not None:
            path.append(step)
            last = step.later
            members.append(last)
        never = history.is_put_back(last, jobs)
        if path or never:
            found.append(Work(members, path, jobs.waiting.get(id_of(last)), never))
    return found


def _retry(step: Link, mode: Mode, chain_id: str | None, number: int) -> Retry:
    old, new = step.earlier.hosts, step.later.hosts
    known = bool(old) and bool(new)
    before, now = set(old or ()), set(new or ())
    return Retry(
        chain_id=chain_id,
        from_session_id=step.earlier.session_id,
        to_session_id=step.later.session_id,
        attempt=number,
        trigger=step.trigger,
        mode=mode.mode,
        mode_evidence=mode.evidence,
        interval_s=interval_of(step),
        requeue_interval_s=requeue_interval_of(step),
        hosts_kept=sorted(before & now) if known else None,
        hosts_dropped=sorted(before - now) if known else None,
        hosts_added=sorted(now - before) if known else None,
        rule=step.rule,
        confidence=step.confidence,
    )


def interval_of(step: Link) -> float | None:
    """Seconds from the end of the earlier session to the start of the later one."""
    return _seconds(step.earlier.end_time, step.later.start_time)


def requeue_interval_of(step: Link) -> float | None:
    """Seconds from the decision to requeue to the start."""
    return _seconds(step.decided, step.later.start_time)


def _seconds(since: int | None, until: int | None) -> float | None:
    """Accounting rounds to seconds: a start within the second of the end is not before it."""
    return None if since is None or until is None else max(0, until - since) / US


def _chain(work: Work, modes: Sequence[Mode], rules: RetryRules) -> Chain:
    head, row = work.members[0], work.waits or work.members[-1]
    intervals = [interval for step in work.path if (interval := interval_of(step)) is not None]
    lost = [s.gpu_seconds_lost for s in work.members if s.gpu_seconds_lost is not None]
    dropped: set[str] = set()
    for step in work.path:
        if step.earlier.hosts and step.later.hosts:
            dropped.update(set(step.earlier.hosts) - set(step.later.hosts))
    return Chain(
        chain_id=stable_id("c", head.session_id),
        cluster=head.cluster,
        name=head.name,
        user=head.user,
        n_attempts=len(work.members),
        first_session_id=head.session_id,
        last_session_id=row.session_id,
        start_time=head.start_time,
        end_time=row.end_time,
        mode=mode_of_chain(modes),
        outcome=outcome_of(work.members[-1], rules, never=work.never),
        median_interval_s=median(intervals) if intervals else None,
        hosts_dropped=sorted(dropped),
        gpu_seconds_lost=sum(lost) if lost else None,
    )


def outcome_of(last: Session, rules: RetryRules, *, never: bool) -> str | None:
    """How a chain ended whose last placement this is; null where nobody knows. ``never``: it was put back into the
    queue and not placed again."""
    if never:
        return "never_restarted"
    if last.state == "RUNNING":
        return "running"
    long = last.duration_s is not None and last.duration_s >= rules.success_min_runtime_s
    if last.state == "COMPLETED" or (long and last.last_step is not None):
        return "succeeded"
    if last.state == "CANCELLED":
        return "cancelled"
    return "failed" if last.state in FAILED_ENDS else None


def _swapped_out(step: Link, retry: Retry) -> list[Exclusion]:
    """Hosts that the later session did without, for as long as it ran."""
    later = step.later
    return [
        _exclusion(later, host, "swapped_out", step.earlier.end_time, retry.chain_id)
        for host in retry.hosts_dropped or ()
    ]


def _exclude_lists(sessions: Iterable[Session], chain_of: Mapping[str, str]) -> list[Exclusion]:
    return [
        _exclusion(
            s,
            host,
            "exclude_list",
            s.submit_time if s.submit_time is not None else s.start_time,
            chain_of.get(id_of(s)),
        )
        for s in sessions
        if s.excluded_hosts
        for host in sorted(set(s.excluded_hosts))
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
