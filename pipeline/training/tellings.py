"""Who tells of which session: logs, and the documents beside them, put together before anything is decided."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from aftershock.parsers.formats import DocumentFormat
from aftershock.parsers.registry import format_named
from aftershock.pipeline.training.attempts import LogAttempt
from aftershock.pipeline.training.beside import run_beside
from aftershock.pipeline.training.logs import Log
from aftershock.pipeline.training.ties import Tie
from aftershock.pipeline.training.units import runs_of, side_by_side

BESIDE: Final = "beside a log of the session, or at its time"


@dataclass
class Telling:
    """All that tells of one session that a scheduler knows, or of one run that only logs know.

    session_id: None for the latter. runs: its attempts in order, each with its logs. documents: of each attempt what
    lies beside the logs. evidence: by source, what ties it to the session.
    """

    session_id: str | None
    runs: list[list[LogAttempt]]
    documents: list[list[LogAttempt]]
    evidence: dict[str, str] = field(default_factory=dict)

    def all_of(self, number: int) -> list[LogAttempt]:
        """Logs and documents of an attempt."""
        return [*self.runs[number], *self.documents[number]]


def is_document(log: Log) -> bool:
    """Whether a source is no log, but a file with the state, the metrics or the dump of a run."""
    fmt = format_named(log.format) if log.format else None
    return isinstance(fmt, DocumentFormat) and not _OF_TRAINING.isdisjoint(fmt.tables)


# A document that holds logs gives such rows too, but they are not its own.
_OF_TRAINING: Final = frozenset({"training_events", "training_steps"})


def tellings_of(
    logs: Mapping[str, Log], attempts: Mapping[str, Sequence[LogAttempt]], ties: Mapping[tuple[str, int], Tie]
) -> list[Telling]:
    """Sessions that a scheduler knows first, by id; then runs that only logs know."""
    documents = {source for source, log in logs.items() if is_document(log)}
    tied = list(_tied(attempts, ties, documents))
    free = [
        attempt
        for source, own in attempts.items()
        for attempt in own
        if source not in documents
        and attempt.name not in ties
        and (attempt.is_training or logs[source].format == "training")
    ]
    tellings = [*tied, *(Telling(None, runs, [[] for _ in runs]) for runs in runs_of(free))]
    left = [a for source in sorted(documents) for a in attempts[source] if a.name not in ties]
    alone = [document for document in left if not _put_beside(document, tellings)]
    # Where there is no log at all, what a tracker kept of a run is all that is known of it.
    steps = [document for document in alone if document.stretches]
    return [*tellings, *(Telling(None, runs, [[] for _ in runs]) for runs in runs_of(steps))]


def _tied(
    attempts: Mapping[str, Sequence[LogAttempt]], ties: Mapping[tuple[str, int], Tie], documents: set[str]
) -> Iterator[Telling]:
    by_session: dict[str, dict[str, list[LogAttempt]]] = defaultdict(lambda: defaultdict(list))
    evidence: dict[str, dict[str, str]] = defaultdict(dict)
    for source, own in attempts.items():
        for attempt in own:
            known = ties.get(attempt.name)
            if known is not None:
                by_session[known.session_id][source].append(attempt)
                evidence[known.session_id].setdefault(source, known.evidence)
    for session_id, sources in sorted(by_session.items()):
        logs = [own for source, own in sources.items() if source not in documents]
        beside = [attempt for source, own in sources.items() if source in documents for attempt in own]
        runs = side_by_side(logs or [[attempt] for attempt in beside])
        telling = Telling(session_id, runs, [[] for _ in runs], evidence[session_id])
        for attempt in beside if logs else ():
            at = run_beside(attempt, runs)
            telling.documents[len(runs) - 1 if at is None else at].append(attempt)
        yield telling


def _put_beside(document: LogAttempt, tellings: Sequence[Telling]) -> bool:
    places = [(telling, number) for telling in tellings for number in range(len(telling.runs))]
    at = run_beside(document, [telling.runs[number] for telling, number in places])
    if at is None:
        return False
    telling, number = places[at]
    telling.documents[number].append(document)
    telling.evidence.setdefault(document.source, BESIDE)
    return True
