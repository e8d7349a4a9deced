"""The step as a whole: logs to attempts, attempts to sessions, sessions to causes and lost work, and all of it written.

It runs when the tables of a run stand in the staging folder, and only if there are rows of training output among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aftershock.parsers.transit import lean_batch
from aftershock.pipeline.attempts import ASSUMED, US
from aftershock.pipeline.config import Config
from aftershock.pipeline.links import Link
from aftershock.pipeline.occurrences import give_ids
from aftershock.pipeline.training.around import Around
from aftershock.pipeline.training.attempts import LogAttempt, attempts_of
from aftershock.pipeline.training.causes import Cause, Ended, cause_of
from aftershock.pipeline.training.chains import relink
from aftershock.pipeline.training.follow_ons import following, only_failed_to_connect
from aftershock.pipeline.training.hints import hints_for
from aftershock.pipeline.training.log_sessions import (
    LogRun,
    Run,
    progress_said,
    restarts_between,
    resumptions,
    session_id_of,
    session_of,
    state_of,
    tell,
)
from aftershock.pipeline.training.logs import read_logs
from aftershock.pipeline.training.lost_work import progress_of
from aftershock.pipeline.training.number_events import Numbers, explain
from aftershock.pipeline.training.rewrite import Places, Range, fill_sessions, patched
from aftershock.pipeline.training.staged import Staged
from aftershock.pipeline.training.tellings import BESIDE, Telling, tellings_of
from aftershock.pipeline.training.ties import COLUMNS, Hints, Sessions, tie
from aftershock.pipeline.window import Window
from aftershock.schemas.events import TrainingEvent
from aftershock.schemas.sessions import Session

_NOT_ENDED: Final = frozenset({None, "UNKNOWN", "RUNNING", "PENDING"})
# What a log tells of a session that a scheduler knows.
_TOLD: Final = (
    "first_step",
    "last_step",
    "last_saved_step",
    "gpu_seconds_lost",
    "cause_class",
    "cause_event_id",
    "cause_confidence",
    "cause_evidence",
    "suspects",
    "victims",
    "missing_evidence",
    "log_evidence",
    "sources",
    "end_reason",
    "state",
    "start_time",
    "end_time",
    "duration_s",
    "n_gpus",
    "gpu_seconds",
)


@dataclass
class _Found:
    """What comes of the logs: rows to change, rows to add, and where the rows of logs belong."""

    patches: dict[str, dict[str, Any]] = field(default_factory=dict)
    own: list[Session] = field(default_factory=list)
    restarts: list[Link] = field(default_factory=list)
    places: Places = field(default_factory=Places)
    sessions: dict[tuple[str, int], tuple[str, int]] = field(default_factory=dict)  # by attempt: session and run
    derived: list[TrainingEvent] = field(default_factory=list)
    risen: list[TrainingEvent] = field(default_factory=list)  # what the numbers of steps tell; without ids at first
    runs: int = 0


def settle_training(folder: Path, table_format: str, config: Config, window: Window) -> None:
    """Tie logs to sessions and write what follows into the tables of a staging folder."""
    staged = Staged(folder, table_format)
    logs = read_logs(staged)
    if not logs:
        return
    attempts = {source: attempts_of(log) for source, log in logs.items()}
    hints, groups = hints_for(logs, attempts, staged, config)
    ties = tie(groups, hints, Sessions(staged.batches(Session.table, COLUMNS)))
    by_source = {attempt.name: hints[key] for key, own in groups.items() for attempt in own}
    found = _Found()
    around = Around.of(staged, attempts, {known.session_id for known in ties.values()}, by_source)
    numbers = Numbers.of(staged, attempts, config.training, config.cluster.name)
    own: list[Run] = []
    for telling in tellings_of(logs, attempts, ties):
        if telling.session_id is not None:
            _tell_known(telling, around, numbers, found)
        else:
            own.append(_tell_own(telling, by_source, around, numbers, config, found))
    give_ids(found.risen)
    found.derived += found.risen
    found.restarts += resumptions(own, config.chains)
    _set_places(attempts, found)
    fill_sessions(staged, found.places)
    if found.derived:
        staged.append(TrainingEvent.table, lean_batch(window.kept(found.derived), TrainingEvent.table))
    _write_sessions(staged, found, config, window)


def _tell_known(telling: Telling, around: Around, numbers: Numbers, found: _Found) -> None:
    """A session that a scheduler knows."""
    row = around.sessions[telling.session_id or ""]
    runs = telling.runs
    _number(found, row.session_id or "", telling)
    ended = Ended(
        row.state, frozenset(row.hosts or ()), row.start_time, row.end_time, row.n_gpus, row.time_basis == ASSUMED
    )
    risen = [numbers.events_of(telling.all_of(number), row.session_id) for number in range(len(runs))]
    cause = _cause_of_last(telling, ended, around, risen, found)
    found.risen += [event for events in risen for event in events]
    _complete(row, runs, cause)
    survived = True if row.state == "COMPLETED" else None if row.state in _NOT_ENDED else False
    tell(row, cause, progress_of(runs, row.start_time, row.end_time, survived=survived))
    row.log_evidence = [f"{source}: {words}" for source, words in sorted(telling.evidence.items())]
    places = {f"{attempt.source}:{attempt.begin}" for number in range(len(runs)) for attempt in telling.all_of(number)}
    known_sources = {place.rpartition(":")[0] for place in row.sources or ()}
    row.sources = sorted({*(row.sources or ()), *(p for p in places if p.rpartition(":")[0] not in known_sources)})
    found.patches[row.session_id or ""] = {name: getattr(row, name) for name in _TOLD}


def _cause_of_last(
    telling: Telling, ended: Ended, around: Around, risen: Sequence[Sequence[TrainingEvent]], found: _Found
) -> Cause:
    """Why a session ended: the cause of its last attempt, or of the one that this one follows from."""
    told = around.told.get(telling.session_id or "", ())
    own: Cause | None = None
    for number in range(len(telling.runs), 0, -1):
        logs = telling.all_of(number - 1)
        votes = around.votes_on(logs, telling.session_id)
        found.derived += votes
        if own is not None:
            lasts = [attempt.last_time for attempt in logs if attempt.last_time is not None]
            ended = ended._replace(end=max(lasts, default=ended.end))
        cause = cause_of(logs, ended, around.faults, told, around.seen, votes)
        explain(cause, risen[number - 1], logs)
        if not only_failed_to_connect(logs, cause):
            return cause if own is None else following(cause, number) if cause.error_class is not None else own
        own = own or cause
    assert own is not None
    return own


def _complete(row: Session, runs: Sequence[Sequence[LogAttempt]], cause: Cause) -> None:
    """Fill in what no record tells of a session: how it ended, when it ran and on how many GPUs."""
    if row.state in (None, "UNKNOWN"):
        row.state = state_of(runs[-1], cause)
    if row.n_gpus is None:
        row.n_gpus = progress_said(runs[-1])[1]
    _complete_times(row, runs)
    if row.gpu_seconds is None and row.n_gpus is not None and row.duration_s is not None:
        row.gpu_seconds = row.duration_s * row.n_gpus


def _complete_times(row: Session, runs: Sequence[Sequence[LogAttempt]]) -> None:
    times = [time for run in runs for attempt in run for time in attempt.times]
    if not times or any(attempt.assumed for run in runs for attempt in run) != (row.time_basis == ASSUMED):
        return
    if row.start_time is None and (row.end_time is None or min(times) <= row.end_time):
        row.start_time = min(times)
    if row.end_time is None and row.state not in _NOT_ENDED:
        row.end_time = max(times)
    if row.duration_s is None and row.start_time is not None and row.end_time is not None:
        row.duration_s = max(0, row.end_time - row.start_time) / US


def _number(found: _Found, session_id: str, telling: Telling, only: int | None = None) -> None:
    """Give the runs of a session numbers; those of which several logs tell are looked at for copies.

    A document beside the logs has its own steps, which are no copies of printed ones. only: one of the runs.
    """
    for place, run in enumerate(telling.runs):
        if only not in (None, place):
            continue
        number, found.runs = found.runs, found.runs + 1
        if len({attempt.source for attempt in run}) > 1:
            found.places.shared.add(number)
        for attempt in run:
            found.sessions[attempt.name] = session_id, number
        for attempt in telling.documents[place]:
            found.sessions[attempt.name] = session_id, -1


def _tell_own(
    telling: Telling,
    hints: Mapping[tuple[str, int], Hints],
    around: Around,
    numbers: Numbers,
    config: Config,
    found: _Found,
) -> Run:
    """A run that only logs know: a session for each attempt."""
    runs = telling.runs
    hosts = sorted({host for run in runs for attempt in run for host in hints[attempt.name].hosts})
    own: list[Session] = []
    failed: tuple[Cause, int] | None = None  # the last attempt that did more than fail to connect, if that failed
    for place, run in enumerate(runs):
        told_id, told_gpus = progress_said(run)
        named = [name for attempt in run for name, _ in hints[attempt.name].stated]
        gpus = config.cluster.gpus_per_host
        n_gpus = told_gpus if told_gpus is not None else len(hosts) * gpus if hosts and gpus else None
        known = LogRun(config.cluster.name, told_id or next(iter(named), None), tuple(hosts), n_gpus)
        logs = telling.all_of(place)
        ended = Ended(None, frozenset(hosts), None, None, n_gpus, any(attempt.assumed for attempt in run))
        session_id = session_id_of(run, place + 1, known)
        votes = around.votes_on(logs, session_id)
        risen = numbers.events_of(logs, session_id)
        found.derived += votes
        found.risen += risen
        cause = cause_of(logs, ended, around.faults, (), around.seen, votes)
        explain(cause, risen, logs)
        state = state_of(logs, cause)
        if failed is not None and only_failed_to_connect(logs, cause):
            cause = following(*failed)
        else:
            failed = None if cause.error_class is None else (cause, place + 1)
        survived = True if state == "COMPLETED" else None if state in _NOT_ENDED else False
        progress = progress_of([run], None, None, survived=survived)
        row = session_of(run, place + 1, known, state, cause, progress)
        beside = telling.documents[place]
        row.log_evidence = [*(row.log_evidence or ()), *sorted({f"{a.source}: {BESIDE}" for a in beside})]
        row.sources = sorted({*(row.sources or ()), *(f"{a.source}:{a.begin}" for a in beside)})
        own.append(row)
        _number(found, row.session_id or "", telling, place)
    found.own += own
    found.restarts += restarts_between(own)
    return Run(own, runs)


def _set_places(attempts: Mapping[str, Sequence[LogAttempt]], found: _Found) -> None:
    for source, own in attempts.items():
        ranges = []
        for attempt in own:
            session_id, number = found.sessions.get(attempt.name, (None, -1))
            ranges.append(Range(attempt.begin, session_id, number))
        found.places.ranges[source] = ranges


def _write_sessions(staged: Staged, found: _Found, config: Config, window: Window) -> None:
    for path in staged.parts(Session.table):
        batch = staged.read(Session.table, path)
        changed = patched(batch, "session_id", found.patches) if found.patches else None
        if changed is not None:
            staged.replace(Session.table, path, changed)
    if found.own or _in_chains(staged, found, config):
        relink(staged, found.own, found.restarts, config.chains, window)
    own = window.kept(found.own)
    if own:
        staged.append(Session.table, lean_batch(own, Session.table))


def _in_chains(staged: Staged, found: _Found, config: Config) -> bool:
    """Whether anything that links or chains are made of has changed."""
    names = [
        name for batch in staged.batches("retries", ["from_session_id", "to_session_id"]) for name in _values(batch)
    ]
    names += [
        name for batch in staged.batches("chains", ["first_session_id", "last_session_id"]) for name in _values(batch)
    ]
    return bool(found.patches.keys() & set(names))


def _values(batch: Any) -> list[str]:
    return [value for column in batch.columns for value in column.to_pylist() if value is not None]
