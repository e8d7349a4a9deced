"""Why an attempt ended: one cause with what speaks for it, who was only hit, who may be behind it, and what is missing.

Candidates come from the kernel of the session's hosts, from the scheduler, and from the roots that the logs name. The
order of the taxonomy decides between them, but an act of the scheduler or of a person that came when all had failed or
stood still ended nothing. Symptoms make no candidate, and an attempt that came to its end has none.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from aftershock.pipeline.attempts import US
from aftershock.pipeline.training.attempts import LogAttempt
from aftershock.pipeline.training.hangs import Hang, find_hang
from aftershock.pipeline.training.logs import Said
from aftershock.pipeline.training.parts_played import Ranks
from aftershock.pipeline.training.taxonomy import (
    ACTS,
    CONFIRMED,
    HANG,
    KINDS,
    OF_STATE,
    SYMPTOMS,
    UNKNOWN,
    class_of_gpu,
    class_of_node,
    is_hardware,
    is_of_process,
)
from aftershock.schemas.events import EventRow, GpuError, NodeEvent, SchedulerEvent, TrainingEvent

# How far before the last progress and behind the end a fault may lie that has to do with the end.
REACH_S: Final = 120.0
# Where no progress is known: so long before the end.
BLIND_S: Final = 600.0
# Two sources that say the same are surer than one.
_AGREED: Final = 0.98
_SURE_ALONE: Final = 0.7
# Faults that come and go, and stop nothing that a person stops anyway.
_PASSING: Final = frozenset({"nic_or_link", "storage_io"})
_MOST_NAMED: Final = 8
_MOST_WORDS: Final = 200


class Ended(NamedTuple):
    """What is known of the session of an attempt from outside its logs. Times in microseconds UTC.

    state: None if no scheduler knows it. assumed: whether its times rest on an assumed zone.
    """

    state: str | None
    hosts: frozenset[str]
    start: int | None
    end: int | None
    n_gpus: int | None = None
    assumed: bool = False


@dataclass
class Cause:
    """``error_class`` None: it has none."""

    error_class: str | None = None
    event_id: str | None = None
    confidence: float | None = None
    evidence: list[str] = field(default_factory=list)
    suspects: list[str] = field(default_factory=list)
    victims: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


class Candidate(NamedTuple):
    """One thing that may be the cause. ``confirmed``: said by the kernel or the scheduler. ``words``: what was seen."""

    error_class: str
    confidence: float
    confirmed: bool
    time: int | None
    event_id: str | None
    words: str
    suspects: tuple[str, ...] = ()
    late: bool = True  # whether nothing was done any more when it came

    @property
    def group(self) -> int:
        """Hardware that is sure, acts, what processes did."""
        if is_hardware(self.error_class) and (self.confirmed or self.confidence >= _SURE_ALONE):
            return 0
        return 1 if self.error_class in ACTS else 2

    @property
    def place(self) -> tuple[int, int]:
        """Of what processes did, the earliest goes first; where that is not known, the order of the taxonomy."""
        return self.time if self.time is not None else 1 << 62, KINDS[self.error_class].precedence


def window_of(logs: Sequence[LogAttempt], ended: Ended) -> tuple[int, int] | None:
    """Between which times a fault has to do with the end of an attempt; microseconds UTC."""
    lasts = [attempt.last_time for attempt in logs if attempt.last_time is not None]
    end = ended.end if ended.end is not None else max(lasts, default=None)
    if end is None:
        return None
    reach = round(REACH_S * US)
    errors = [s.time for a in logs for s in a.said if s.kind == "error" and s.time is not None and s.role != "noise"]
    done = [attempt.last_progress for attempt in logs if attempt.last_progress is not None]
    since = max(done) if done else min(errors) if errors else end - round(BLIND_S * US)
    since = min(since, end)
    if ended.start is not None:
        since = max(since, ended.start + reach)
    return since - reach, end + reach


def cause_of(
    logs: Sequence[LogAttempt],
    ended: Ended,
    faults: Iterable[EventRow],
    told: Sequence[SchedulerEvent],
    seen: frozenset[str],
    votes: Sequence[TrainingEvent] = (),
) -> Cause:
    """The cause of the end of an attempt.

    faults: errors of GPUs and of hosts; those of other hosts and times are left aside. told: what the scheduler said of
    the session. seen: hosts of which anything of the kernel was read. votes: the suspects of flight recorders.
    """
    if ended.state == "COMPLETED" or ended.state in ("RUNNING", "PENDING"):
        return Cause()
    if ended.state in (None, "UNKNOWN") and any(attempt.succeeded for attempt in logs):
        return Cause()
    lasts = [attempt.last_time for attempt in logs if attempt.last_time is not None]
    end = ended.end if ended.end is not None else max(lasts, default=None)
    hang = find_hang(logs, end)
    own = [*_of_kernel(logs, ended, faults, hang), *_of_scheduler(ended, told), *_of_logs(logs), *_of_votes(votes)]
    silent = hang is not None and not _spoke(logs)
    chosen = _choose(own, hang, silent=silent)
    ranks = Ranks.of(logs, ended.n_gpus).voted(votes)
    cause = Cause(victims=ranks.victims())
    if chosen is None and silent and hang is not None:
        usual = "unknown" if hang.usual_s is None else f"{hang.usual_s:.3g} s"
        words = f"{HANG}: no step for {hang.silent_s:.0f} s, usual is one in {usual}; last: {hang.phase}"
        cause.error_class, cause.confidence, cause.evidence = HANG, KINDS[HANG].alone, [words]
    elif chosen is None:
        if not _failed(logs, ended):
            return Cause()
        cause.error_class = UNKNOWN
        cause.suspects = ranks.suspects()
    else:
        _fill(cause, chosen, own, ranks)
    voted = [f"flight recorders: {vote.error}" for vote in votes]
    cause.evidence = list(dict.fromkeys([*cause.evidence, *voted]))[:_MOST_NAMED]
    cause.missing = _missing(cause, chosen, logs, ended, seen)
    return cause


def _failed(logs: Sequence[LogAttempt], ended: Ended) -> bool:
    """Whether anything says that it did not come to its end: a log that just stops does not."""
    if ended.state not in (None, "UNKNOWN"):
        return True
    if any(attempt.followed for attempt in logs):
        return True
    return any(
        said.is_failure or (said.kind == "error" and said.role in ("root", "symptom")) for a in logs for said in a.said
    )


def _fill(cause: Cause, chosen: Candidate, own: Sequence[Candidate], ranks: Ranks) -> None:
    cause.error_class, cause.event_id, cause.confidence = chosen.error_class, chosen.event_id, chosen.confidence
    same = [c for c in own if c.error_class == chosen.error_class]
    if len({c.confirmed for c in same}) > 1:
        cause.confidence = max(_AGREED, chosen.confidence)
    others = [c for c in own if c.error_class != chosen.error_class]
    named = [chosen, *(c for c in same if c is not chosen), *sorted(others, key=lambda c: (c.group, c.place))]
    cause.evidence = list(dict.fromkeys(f"{c.error_class}: {c.words}" for c in named))[:_MOST_NAMED]
    suspects = [member for c in same for member in c.suspects]
    if chosen.error_class in ACTS:
        cause.suspects = []
        return
    cause.suspects = sorted(set(suspects)) or ([] if chosen.confirmed else ranks.suspects())
    cause.victims = [member for member in cause.victims if member not in cause.suspects]


def _spoke(logs: Sequence[LogAttempt]) -> bool:
    """Whether anything was said to be wrong: then it was no silent hang. What ends all speaks of nothing else."""
    return any(
        said.kind == "error" and said.role != "noise" and said.error_class not in (*ACTS, "teardown")
        for attempt in logs
        for said in attempt.said
    )


def _choose(own: Sequence[Candidate], hang: Hang | None, *, silent: bool) -> Candidate | None:
    hardware = [c for c in own if c.group == 0]
    if hardware:
        return min(hardware, key=lambda c: (not c.confirmed, KINDS[c.error_class].precedence, c.place))
    acts = [c for c in own if c.group == 1]
    rest = [c for c in own if c.group == 2]
    if not acts:
        return min(rest, key=lambda c: c.place) if rest else None
    late = [c for c in rest if c.late]
    if late:
        return min(late, key=lambda c: c.place)
    if hang is not None and silent:
        return None
    return min(acts, key=lambda c: (not c.confirmed, KINDS[c.error_class].precedence))


def _of_kernel(
    logs: Sequence[LogAttempt], ended: Ended, faults: Iterable[EventRow], hang: Hang | None
) -> Iterable[Candidate]:
    window = window_of(logs, ended)
    if window is None or not ended.hosts:
        return
    assumed = ended.assumed or any(attempt.assumed for attempt in logs)
    stopped = hang is not None or ended.state not in ("CANCELLED", "TIMEOUT", "PREEMPTED", "REQUEUED", "DEADLINE")
    for row in faults:
        if row.host not in ended.hosts or row.time is None or (row.time_basis == "assumed_zone") != assumed:
            continue
        slack = round((row.time_error_s or 0.0) * US)
        last = row.last_time if row.last_time is not None else row.time
        if last + slack < window[0] or row.time - slack > window[1]:
            continue
        if isinstance(row, GpuError):
            error_class = class_of_gpu(row)
            if error_class is None and is_of_process(row):
                yield Candidate("cuda_kernel_fault", CONFIRMED, True, row.time, row.event_id, *_words(row))
        else:
            error_class = class_of_node(row) if isinstance(row, NodeEvent) else None
        if error_class is not None and (stopped or error_class not in _PASSING):
            yield Candidate(error_class, CONFIRMED, True, row.time, row.event_id, *_words(row))


def _words(row: EventRow) -> tuple[str, tuple[str, ...]]:
    """What a fault is called, and the GPU or host that it names."""
    host = row.host or ""
    if isinstance(row, GpuError):
        member = host if row.gpu_index is None else f"{host}/gpu{row.gpu_index}"
        where = member if row.gpu_index is not None or row.pci is None else f"{host} {row.pci}"
        return f"{row.family} {row.code} on {where}", (member,)
    assert isinstance(row, NodeEvent)
    return f"{row.kind} on {host}", (host,)


def _of_scheduler(ended: Ended, told: Sequence[SchedulerEvent]) -> Iterable[Candidate]:
    error_class = OF_STATE.get(ended.state or "")
    if error_class is None:
        return
    events = [row for row in told if row.kind in _ENDING]
    event = events[-1] if events else None
    failed = tuple(row.host for row in told if row.kind == "node_down" and row.host)
    time = event.time if event is not None else ended.end
    event_id = event.event_id if event is not None else None
    yield Candidate(error_class, CONFIRMED, True, time, event_id, f"state {ended.state}", failed)


_ENDING: Final = frozenset({"ended", "time_limit", "cancelled", "requeued", "preempted", "node_down"})


def _of_logs(logs: Sequence[LogAttempt]) -> Iterable[Candidate]:
    for attempt in logs:
        done = max((stretch.end for stretch in attempt.stretches), default=-1)
        for said in attempt.said:
            error_class = said.error_class or UNKNOWN
            if said.role != "root" or error_class not in KINDS or error_class in (UNKNOWN, *SYMPTOMS):
                continue
            words = (said.error or said.message or said.kind)[:_MOST_WORDS]
            kind = KINDS[error_class]
            late = said.offset > done
            yield Candidate(error_class, kind.alone, False, said.time, said.event_id, words, _members(said), late)


def _of_votes(votes: Sequence[TrainingEvent]) -> Iterable[Candidate]:
    """What flight recorders prove by themselves; that a rank is silent has a cause of its own."""
    for vote in votes:
        kind = KINDS.get(vote.error_class or "")
        if vote.error_role == "root" and vote.error_class is not None and kind is not None:
            words = (vote.error or "")[:_MOST_WORDS]
            suspects = (f"rank:{vote.rank}",)
            yield Candidate(vote.error_class, kind.alone, False, vote.time, vote.event_id, words, suspects)


def _members(said: Said) -> tuple[str, ...]:
    if said.error_class in ACTS:
        return ()
    if said.host is not None and is_hardware(said.error_class or ""):
        return (said.host,)
    return tuple(f"rank:{rank}" for rank in sorted(said.who))


def _missing(
    cause: Cause, chosen: Candidate | None, logs: Sequence[LogAttempt], ended: Ended, seen: frozenset[str]
) -> list[str]:
    """What would have to be looked at to know better."""
    if chosen is not None and (chosen.confirmed or chosen.error_class in ACTS):
        return []
    if (
        chosen is not None
        and chosen.confidence >= KINDS["gpu_memory_ecc"].alone
        and not is_hardware(chosen.error_class)
    ):
        return []
    missing = []
    if ended.state in (None, "UNKNOWN"):
        missing.append("scheduler record: state, exit status and hosts of the session")
    window = window_of(logs, ended)
    about = "" if window is None else f" from {_text(window[0])} to {_text(window[1])}"
    unseen = sorted(ended.hosts - seen)
    if unseen:
        more = f" and {len(unseen) - _MOST_NAMED} more" if len(unseen) > _MOST_NAMED else ""
        missing.append(f"kernel log of {', '.join(unseen[:_MOST_NAMED])}{more}{about}")
    elif not ended.hosts:
        missing.append(f"kernel log of its hosts{about}")
    if cause.error_class == UNKNOWN:
        missing += [f"output and exit status of {member}" for member in cause.suspects[:_MOST_NAMED]]
    waited = any(said.error_class == "collective_timeout" for attempt in logs for said in attempt.said)
    dumped = any(said.kind == "flight_record" for attempt in logs for said in attempt.said)
    if (waited or cause.error_class == HANG) and not dumped:
        missing.append("flight recorder dumps or stacks of all ranks")
    return missing


def _text(micros: int) -> str:
    return dt.datetime.fromtimestamp(micros // US, dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
