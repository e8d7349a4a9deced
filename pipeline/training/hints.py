"""What is known of the job of a log from outside its lines, and from lines that Slurm and trainers write into it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from aftershock.parsers.hosts import HostNames
from aftershock.pipeline.config import Config
from aftershock.pipeline.training.attempts import LogAttempt
from aftershock.pipeline.training.log_sessions import progress_said
from aftershock.pipeline.training.logs import Log
from aftershock.pipeline.training.staged import Staged
from aftershock.pipeline.training.ties import CONFIGURED, Hints, ids_in_name
from aftershock.schemas.batches import column_values

_PLACE: Final = re.compile(r":\d+\Z")


def hints_for(
    logs: Mapping[str, Log], attempts: Mapping[str, Sequence[LogAttempt]], staged: Staged, config: Config
) -> tuple[dict[str, Hints], dict[str, list[LogAttempt]]]:
    """Hints, and the attempts that they hold for, by a name: that of the source, or of a job in a file of many jobs."""
    sessions, jobs = _printed(staged, logs)
    names = HostNames(config.aliases)
    hints: dict[str, Hints] = {}
    groups: dict[str, list[LogAttempt]] = {}
    for source, log in logs.items():
        if log.is_progress:
            for job, own in _by_job(attempts[source]).items():
                key = f"{source}\n{job}"
                groups[key] = own
                hints[key] = Hints([(job, "job id printed in the file of progress")] if job else [])
            continue
        section = config.source_for(source)
        stated = section.job_id_of(source) if section else None
        host = names.of(section.host_of(source)) if section else None
        ids = [(stated, f"{CONFIGURED} {section.job_id_from}")] if stated and section else []
        hosts = {said.host for said in log.said if said.host}
        ids += [(job, "job id printed in the log") for job in jobs.get(source, ())]
        hints[source] = Hints(
            [*ids, *ids_in_name(source)], sessions.get(source, []), hosts | ({host} if host else set())
        )
        groups[source] = list(attempts[source])
    return hints, groups


def _by_job(attempts: Sequence[LogAttempt]) -> dict[str, list[LogAttempt]]:
    found: dict[str, list[LogAttempt]] = defaultdict(list)
    for attempt in attempts:
        found[progress_said([attempt])[0] or ""].append(attempt)
    return found


def _printed(staged: Staged, logs: Mapping[str, Log]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """By source the sessions that lines of Slurm in it belong to, and the jobs that they name, in order."""
    sessions: dict[str, list[str]] = defaultdict(list)
    jobs: dict[str, list[str]] = defaultdict(list)
    sources = pa.array(sorted(logs), pa.string())
    for batch in staged.batches("scheduler_events", _SCHEDULER):
        # A line that stands in two files has one row; mostly it stands in one.
        own = pc.is_in(batch.column("source"), value_set=sources)
        several = pc.greater(pc.list_value_length(batch.column("sources")), 1)
        # A script that submits the next job names that one.
        next_job = pc.fill_null(pc.equal(batch.column("kind"), "submitted"), False)
        here = pc.or_(pc.fill_null(own, False), pc.fill_null(several, False))
        rows = batch.filter(pc.and_(here, pc.invert(next_job))).select(_SCHEDULER[:-1])
        said = zip(*(column_values(column) for column in rows.columns), strict=True)
        for source, _, session_id, job_id, places in sorted(said, key=lambda row: (row[0] or "", row[1] or 0)):
            for name in {source, *(_PLACE.sub("", place) for place in places or ())} & logs.keys():
                if session_id and session_id not in sessions[name]:
                    sessions[name].append(session_id)
                if job_id and job_id not in jobs[name]:
                    jobs[name].append(job_id)
    return sessions, jobs


_SCHEDULER: Final = ("source", "byte_offset", "session_id", "job_id", "sources", "kind")
