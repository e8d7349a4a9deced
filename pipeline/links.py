"""Links between sessions: requeues that the scheduler made, retries that it states, resubmissions that are inferred.

Of each kind a session has at most one before it and one after it, so that chains are paths; what is certain goes first,
and of what is inferred the best pairing of all is taken (`pairing.py`), not the first that comes.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from aftershock.pipeline.attempts import REQUEUE_ENDS, SLURM, US, grouped
from aftershock.pipeline.left_over import LeftOver
from aftershock.pipeline.pair_table import PairTable
from aftershock.pipeline.retry_rules import RetryRules, widest
from aftershock.pipeline.same_work import FAILED_ENDS, Candidates, Look, Pair, lineage_of, retried_ends
from aftershock.pipeline.sessions import array_task_of
from aftershock.schemas.events import SchedulerEvent
from aftershock.schemas.sessions import Session

# What a submit line says of the job that it waits for: `--dependency=afternotok:812`, `-d afterany:812_3`.
_DEPENDENCY: Final = re.compile(r"(?:--dependency|-d)[= ]*\S{0,200}?after(?:notok|any):(\d+(?:_\d+)?)")


NamesInFolders = Mapping[Hashable, Mapping[str, int]]


@dataclass(slots=True)
class Link:
    """A step from a session to the one that took up its work."""

    earlier: Session
    later: Session
    trigger: str
    rule: str
    confidence: float
    decided: int | None = None  # when the requeue was decided, microseconds
    decided_by: str | None = None


@dataclass
class Jobs:
    """Placements in order for each job, what was put back without a further placement, and requeue decisions."""

    links: list[Link] = field(default_factory=list)
    waiting: dict[str, Session] = field(default_factory=dict)  # by the session before: the stay in the queue after it


@dataclass
class _Lineage:
    """One lineage: what is compared in it, and the sessions that had more before them than are compared."""

    candidates: Candidates
    cut: list[Look]


def id_of(session: Session) -> str:
    return session.session_id or ""


def is_placed(session: Session) -> bool:
    return session.start_time is not None or session.attempt is not None or bool(session.hosts)


class History:
    """Sessions of one or more lineages, made ready to be linked under any rules."""

    def __init__(
        self,
        sessions: Sequence[Session],
        requeues: Iterable[SchedulerEvent],
        rules: RetryRules,
        names: NamesInFolders | None = None,
    ) -> None:
        """``names``: how many names the jobs of each folder have, by lineage, if these are not all sessions."""
        self.rules = rules
        self._names = names
        self.ordered = _ordered(sessions)
        self.decided: dict[str, tuple[int, str | None]] = {}  # by the session that it ended: when, and by whom
        for event in requeues:
            if event.kind == "requeued" and event.session_id and event.time is not None:
                said = event.time, event.user
                before = self.decided.get(event.session_id, said)
                self.decided[event.session_id] = (min(said[0], before[0]), before[1] or said[1])
        self.place = {id_of(session): number for number, session in enumerate(self.ordered)}
        self.restarts: list[Link] = []  # that logs of the sessions tell of
        self._of_jobs = _several(self.ordered)
        self._naming = _naming(self.ordered)
        self._put_back_at_last = [id_of(s) for s in self.ordered if s.state == "REQUEUED"]
        self._pairs: tuple[PairTable, list[_Lineage]] | None = None
        self._linked: dict[RetryRules, tuple[Jobs, list[Link]]] = {}

    def beginnings(self, jobs: Jobs, earlier: Iterable[Session]) -> list[Session]:
        """Sessions that may be the first of a chain, in order: those that have a retry or wait for one."""
        places = {self.place[session.session_id or ""] for session in earlier}
        places.update(self._places_put_back(jobs))
        return [self.ordered[at] for at in sorted(places)]

    def put_back(self, jobs: Jobs) -> list[Session]:
        """Sessions that were put back into the queue, in order; some were placed again."""
        return [self.ordered[at] for at in sorted(self._places_put_back(jobs))]

    def is_put_back(self, session: Session, jobs: Jobs) -> bool:
        """Whether a session was put back into the queue."""
        name = session.session_id or ""
        return name in jobs.waiting or name in self.decided or session.state == "REQUEUED"

    def _places_put_back(self, jobs: Jobs) -> set[int]:
        names = (*jobs.waiting, *self.decided, *self._put_back_at_last)
        return {self.place[name] for name in names if name in self.place}

    def _jobs(self, rules: RetryRules) -> Jobs:
        """Requeues and restarts in place: the placements of each job that has several rows."""
        jobs = Jobs(list(self.restarts))
        restarted = {id_of(link.later) for link in self.restarts}
        for rows in self._of_jobs:
            last: Session | None = None
            for row in rows:
                if is_placed(row):
                    if id_of(row) in restarted:
                        pass
                    elif last is not None and row.attempt == (last.attempt or 0) + 1 and row.attempt > 1:
                        jobs.links.append(self._requeue(last, row, rules))
                        jobs.waiting.pop(id_of(last), None)
                    last = row
                elif last is not None and self._put_back(last, row, rules):
                    jobs.waiting[id_of(last)] = row
        return jobs

    def _requeue(self, last: Session, row: Session, rules: RetryRules) -> Link:
        decided = self.decided.get(id_of(last))
        when = decided[0] if decided else _reset_submit(last, row, rules)
        in_place = (
            row.scheduler not in (None, SLURM)
            and decided is None
            and last.state not in REQUEUE_ENDS
            and bool(row.hosts)
            and set(row.hosts or ()) == set(last.hosts or ())
        )
        trigger, rule = ("restart_in_place", "same_job_same_hosts") if in_place else ("requeue", "requeue")
        return Link(last, row, trigger, rule, 1.0, None if in_place else when, decided[1] if decided else None)

    def _put_back(self, last: Session, row: Session, rules: RetryRules) -> bool:
        """Whether a row that never got hosts is the requeue of the placement before it, no job with a reused id."""
        if (row.name or last.name) != (last.name or row.name):
            return False
        if id_of(last) in self.decided or last.state in REQUEUE_ENDS:
            return True
        submit, end = row.submit_time, last.end_time
        return submit is not None and end is not None and abs(submit - end) <= rules.early_submit_s * US

    def linked(self, rules: RetryRules) -> tuple[Jobs, list[Link]]:
        """The jobs and all links under the rules; when a chain counts as a success makes no difference to them."""
        same = replace(rules, success_min_runtime_s=0.0)
        found = self._linked.get(same)
        if found is None:
            jobs = self._jobs(rules)
            found = self._linked[same] = jobs, self._links(rules, jobs)
        return found

    def _links(self, rules: RetryRules, jobs: Jobs) -> list[Link]:
        links = list(jobs.links)
        after = {id_of(link.earlier): link for link in links}
        before = {id_of(link.later) for link in links}
        for link in self._stated(after, before):
            after[id_of(link.earlier)] = link
            before.add(id_of(link.later))
            links.append(link)
        held = {name for name, row in jobs.waiting.items() if row.state == "PENDING"}  # still to be placed
        table, lineages = self._candidates(jobs)
        taken = {self.place[name] for name in held.union(after)}
        used = {self.place[name] for name in before}
        found = table.best(rules, taken, used)
        taken.update(pair.earlier.number for pair, _ in found)
        used.update(pair.later.number for pair, _ in found)
        for lineage in lineages:
            found += _left_over(lineage, rules, taken, used)
        found.sort(key=lambda one: one[0].later.number)
        links += [
            Link(pair.earlier.session, pair.later.session, "resubmit", pair.rule, round(confidence, 3))
            for pair, confidence in found
        ]
        return links

    def _stated(self, after: dict[str, Link], before: set[str]) -> list[Link]:
        """Retries that a record or a submit line states: of the last placement of the job that it names."""
        if not self._naming:
            return []
        named: dict[Hashable, list[tuple[int, Session]]] = defaultdict(list)
        for number, session in enumerate(self.ordered):
            if is_placed(session):
                for name in {session.session_id, session.raw_job_id, session.job_id} - {None}:
                    named[session.cluster, session.scheduler, name].append((number, session))
        links = []
        tails = {name: link.later for name, link in after.items()}
        for number, later, name, rule in self._naming:
            if not is_placed(later) or id_of(later) in before or (later.attempt or 1) != 1:
                continue
            members = [s for at, s in named[later.cluster, later.scheduler, name] if at < number]
            if not members:
                continue
            # Where each retry names the first of all, it takes up the last one so far.
            earlier = members[-1]
            while (tail := tails.get(id_of(earlier))) is not None and self.place[id_of(tail)] < number:
                earlier = tail
            if id_of(earlier) in tails or (rule == "dependency" and earlier.state not in FAILED_ENDS):
                continue
            tails[id_of(earlier)] = later
            links.append(Link(earlier, later, "resubmit", rule, 1.0))
        return links

    def _candidates(self, jobs: Jobs) -> tuple[PairTable, list[_Lineage]]:
        """All pairs under the widest rules, and the lineages where more than those may be made; made once."""
        if self._pairs is None:
            retried = {id_of(link.earlier) for link in jobs.links}
            requeued = {id_of(link.later) for link in jobs.links}
            self._pairs = _pairs_of(self.ordered, retried, requeued, widest(self.rules), self._names)
        return self._pairs


def _ordered(sessions: Sequence[Session]) -> list[Session]:
    """Each session once, by the first of its times that is known; those without any come last.

    Records are in whole seconds, so a job may fail and its retry start in the same one: then the times of submission
    and of the end tell which came first.
    """
    placed: dict[tuple[int, int, int, str], Session] = {}
    late = 1 << 62
    for s in sessions:
        submit = late if s.submit_time is None else s.submit_time
        end = late if s.end_time is None else s.end_time
        moment = next(time for time in (s.start_time, s.submit_time, end) if time is not None)
        placed[moment, submit, end, s.session_id or ""] = s
    return [placed[key] for key in sorted(placed)]


def _naming(ordered: Sequence[Session]) -> list[tuple[int, Session, str, str]]:
    """Sessions that name the job whose work they take up: place, session, the name, and the rule."""
    naming = []
    for number, later in enumerate(ordered):
        if later.retry_of:
            naming.append((number, later, later.retry_of, "stated"))
        elif later.command:
            naming += [(number, later, name, "dependency") for name in dependencies_in(later.command)]
    return naming


def dependencies_in(command: str | None) -> list[str]:
    """The job that a submit line says it waits for the failure of."""
    found = _DEPENDENCY.search(command) if command and "after" in command else None
    return [found[1]] if found else []


def _several(ordered: Sequence[Session]) -> list[list[Session]]:
    """Rows of one job, of jobs that have several."""
    count = Counter([s.raw_job_id or s.job_id for s in ordered])
    rows = [s for s in ordered if count[s.raw_job_id or s.job_id] > 1]

    def job(s: Session) -> Hashable:
        return lineage_of(s), s.raw_job_id or s.job_id or id_of(s), array_task_of(s.job_id)

    return [members for members in grouped(rows, job).values() if len(members) > 1]


def _reset_submit(earlier: Session, later: Session, rules: RetryRules) -> int | None:
    """Slurm resets Submit when it requeues: without a log it tells when that was."""
    submit, end = later.submit_time, earlier.end_time
    early = rules.early_submit_s * US
    return submit if submit is not None and end is not None and submit >= end - early else None


def _pairs_of(
    ordered: Sequence[Session], retried: set[str], requeued: set[str], rules: RetryRules, names: NamesInFolders | None
) -> tuple[PairTable, list[_Lineage]]:
    ends = retried_ends(rules)
    failed: dict[Hashable, list[tuple[int, Session]]] = defaultdict(list)
    for number, s in enumerate(ordered):
        if s.state in ends and s.end_time is not None and is_placed(s) and s.session_id not in retried:
            failed[lineage_of(s)].append((number, s))
    members: dict[Hashable, list[tuple[int, Session]]] = {key: [] for key in failed}
    for number, session in enumerate(ordered):
        own = members.get(lineage_of(session))
        if own is not None:
            own.append((number, session))
    pairs: list[Pair] = []
    lineages = []
    for key, lost in failed.items():
        candidates = Candidates(members[key], lost, rules, None if names is None else names.get(key, {}))
        found = _Lineage(candidates, [])
        for number, session in members[key]:
            if session.start_time is None or session.attempt not in (None, 1) or session.session_id in requeued:
                continue
            own_pairs, cut = candidates.of(number, session)
            if own_pairs:
                pairs += own_pairs
            if cut is not None:
                found.cut.append(cut)
        if found.cut:
            lineages.append(found)
    return PairTable(pairs), lineages


def _left_over(lineage: _Lineage, rules: RetryRules, taken: set[int], used: set[int]) -> list[tuple[Pair, float]]:
    """Sessions that had more before them than were compared: each with the last one that is still without a retry."""
    free = LeftOver(lineage.candidates, lambda look: look.number in taken)
    found = []
    for later in lineage.cut:
        if later.number in used:
            continue
        likely = [(pair, pair.confidence(rules)) for pair in free.pairs_of(later)]
        likely = [one for one in likely if one[1] >= rules.min_confidence and one[1]]
        if likely:
            best = max(likely, key=lambda one: (one[1], one[0].fit, one[0].earlier.number))
            free.take(best[0].earlier)
            found.append(best)
    return found
