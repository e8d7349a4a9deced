"""Which session a log belongs to, and by what evidence.

The surest evidence counts: the job id that the configuration finds in the path, that Slurm printed into the log, that
the name of the file holds as Slurm names it; then the working folder, the hosts, and the time alone. A job that was
requeued has several sessions: which of them an attempt belongs to is told by time, or else by their order. Times of
an assumed zone are set against each other only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aftershock.pipeline.attempts import ASSUMED, US
from aftershock.pipeline.training.attempts import LogAttempt
from aftershock.schemas.batches import column_values
from aftershock.schemas.columns import TIMESTAMP

# What Slurm calls the output of a job if nobody says otherwise, and what sites make of it.
_SLURM_NAME: Final = re.compile(r"(?:\A|[._-])slurm-(\d{1,12}(?:_\d{1,9})?)(?:[._-]|\Z)")
_NUMBER: Final = re.compile(r"(?<![0-9A-Za-z])(\d{3,12}(?:_\d{1,9})?)(?![0-9A-Za-z])")
# A log may begin before accounting says that the job started, and end a little after it.
_SLACK: Final = 120 * US
# A folder that is no deeper than this is no sign: `/`, `/home`.
_LEAST_DEPTH: Final = 2
# Part of a session that a log must cover to be tied to it by time alone.
_LEAST_COVER: Final = 0.5

# Evidence that is treated by itself: the user's own word, and a number that may be anything.
CONFIGURED: Final = "job_id_from"
NUMBER_IN_NAME: Final = "number in the file name that is a job id, and the time"

COLUMNS: Final = ("session_id", "job_id", "raw_job_id", "work_dir", "hosts", "start_time", "end_time", "time_basis")


class Placed(NamedTuple):
    """A session as a log is compared with it. Times in microseconds UTC."""

    session_id: str
    job_id: str | None
    raw_job_id: str | None
    work_dir: str | None
    hosts: frozenset[str]
    start: int | None
    end: int | None
    assumed: bool


class Tie(NamedTuple):
    """The session of an attempt, and what says so."""

    session_id: str
    evidence: str


@dataclass
class Hints:
    """What is known of the job of a log besides its lines.

    job_ids: ids with the evidence for each, the surest first. sessions: those that Slurm's own lines in it belong to.
    hosts: that it names or that its path names.
    """

    job_ids: list[tuple[str, str]] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    @property
    def stated(self) -> list[tuple[str, str]]:
        """Job ids that need no session to be believed."""
        return [one for one in self.job_ids if one[1] != NUMBER_IN_NAME]


def ids_in_name(path: str) -> Iterator[tuple[str, str]]:
    """Job ids that the name of a file may hold, with the evidence that this is."""
    name = path.rsplit("/", 1)[-1]
    found = _SLURM_NAME.search(name)
    if found is not None:
        yield found[1], "job id in a file name of Slurm"
    for number in _NUMBER.findall(name):
        yield number, NUMBER_IN_NAME


class Sessions:
    """The sessions of a run, found by id, folder, hosts or time. Only those that come into question become rows."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        found = list(batches)
        self._table = pa.Table.from_batches(found) if found else None
        if self._table is not None:
            starts = self._table.column("start_time").cast(TIMESTAMP).cast(pa.int64())
            ends = self._table.column("end_time").cast(TIMESTAMP).cast(pa.int64())
            self._starts = starts.fill_null(np.iinfo(np.int64).max).to_numpy()
            self._ends = ends.fill_null(np.iinfo(np.int64).max).to_numpy()
            assumed = pc.fill_null(pc.equal(self._table.column("time_basis"), ASSUMED), False)
            self._assumed = assumed.to_numpy()

    def by_job(self, job_ids: Iterable[str]) -> dict[str, list[Placed]]:
        """Sessions by each of the ids: the one that is shown, or the scheduler's own number."""
        wanted = set(job_ids)
        if self._table is None or not wanted:
            return {}
        values = pa.array(sorted(wanted))
        mask = pc.or_(
            pc.fill_null(pc.is_in(self._table.column("job_id"), value_set=values), False),
            pc.fill_null(pc.is_in(self._table.column("raw_job_id"), value_set=values), False),
        )
        found: dict[str, list[Placed]] = {}
        for row in _rows(self._table.filter(mask)):
            for name in {row.job_id, row.raw_job_id} & wanted:
                found.setdefault(name or "", []).append(row)
        return {name: sorted(rows, key=_by_start) for name, rows in found.items()}

    def by_id(self, session_ids: Iterable[str]) -> list[Placed]:
        """Sessions by their own ids."""
        wanted = sorted(set(session_ids))
        if self._table is None or not wanted:
            return []
        mask = pc.fill_null(pc.is_in(self._table.column("session_id"), value_set=pa.array(wanted)), False)
        return sorted(_rows(self._table.filter(mask)), key=_by_start)

    def around(self, first: int, last: int, *, assumed: bool) -> list[Placed]:
        """Sessions that ran all the time from the first to the last moment, a little slack aside."""
        if self._table is None:
            return []
        mask = (self._starts - _SLACK <= first) & (self._ends >= last - _SLACK) & (self._assumed == assumed)
        if int(mask.sum()) > _MOST_AROUND:
            # So many at a time are told apart by nothing but hosts or folders, of which few are equal.
            return list(_rows(self._table.filter(pa.array(mask))))
        return sorted(_rows(self._table.filter(pa.array(mask))), key=_by_start)

    def in_folders(self, folders: Iterable[str]) -> list[Placed]:
        """Sessions whose working folder is one of these."""
        wanted = sorted(set(folders))
        if self._table is None or not wanted:
            return []
        mask = pc.fill_null(pc.is_in(self._table.column("work_dir"), value_set=pa.array(wanted)), False)
        return sorted(_rows(self._table.filter(mask)), key=_by_start)


_MOST_AROUND: Final = 100_000


def _rows(table: pa.Table) -> Iterator[Placed]:
    columns = [column_values(_whole(table.column(name))) for name in COLUMNS]
    for session_id, job, raw, folder, hosts, start, end, basis in zip(*columns, strict=True):
        if session_id:
            yield Placed(session_id, job, raw, folder, frozenset(hosts or ()), start, end, basis == ASSUMED)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def _by_start(row: Placed) -> tuple[int, str]:
    return row.start if row.start is not None else 1 << 62, row.session_id


def tie(
    attempts: Mapping[str, Sequence[LogAttempt]], hints: Mapping[str, Hints], sessions: Sessions
) -> dict[tuple[str, int], Tie]:
    """The session of each attempt that has one. ``attempts``, ``hints``: by source."""
    by_job = sessions.by_job(name for hint in hints.values() for name, _ in hint.job_ids)
    ties: dict[tuple[str, int], Tie] = {}
    for source, own in attempts.items():
        hint = hints.get(source) or Hints()
        found = _by_ids(own, hint, by_job, sessions)
        for attempt in own:
            if attempt.name not in found and (near := _by_place(attempt, hint, sessions)) is not None:
                found[attempt.name] = near
        ties.update(found)
    return ties


def _by_ids(
    attempts: Sequence[LogAttempt], hint: Hints, by_job: Mapping[str, list[Placed]], sessions: Sessions
) -> dict[tuple[str, int], Tie]:
    """Ties by what names the job: the first that names a session of the run."""
    candidates: list[tuple[list[Placed], str]] = []
    configured = [one for one in hint.stated if one[1].startswith(CONFIGURED)]
    candidates += [(by_job[name], evidence) for name, evidence in configured if name in by_job]
    if hint.sessions:
        candidates.append((sessions.by_id(hint.sessions), "job id printed in the log"))
    others = [one for one in hint.job_ids if one not in configured]
    candidates += [(by_job[name], evidence) for name, evidence in others if name in by_job]
    for placed, evidence in candidates:
        found = _shared_out(attempts, placed, evidence)
        if found:
            return found
    return {}


def _shared_out(attempts: Sequence[LogAttempt], placed: Sequence[Placed], evidence: str) -> dict[tuple[str, int], Tie]:
    """Attempts among the sessions of one job: by time, or else by order."""
    rows = [row for row in placed if row.start is not None or row.hosts] or list(placed)
    if not rows:
        return {}
    found: dict[tuple[str, int], Tie] = {}
    for number, attempt in enumerate(attempts):
        row = _in_time(attempt, rows)
        if row is None and evidence == NUMBER_IN_NAME:
            continue
        if row is None:
            row = rows[0] if len(rows) == 1 else rows[number] if len(rows) == len(attempts) else None
        if row is not None:
            found[attempt.name] = Tie(row.session_id, evidence)
    return found


def _in_time(attempt: LogAttempt, rows: Sequence[Placed]) -> Placed | None:
    """The session that ran when an attempt began: the latest one that had started."""
    first, last = attempt.first_time, attempt.last_time
    if first is None or last is None:
        return None
    fitting = [row for row in rows if _overlaps(row, first, last, assumed=attempt.assumed)]
    return max(fitting, key=_by_start) if fitting else None


def _overlaps(row: Placed, first: int, last: int, *, assumed: bool) -> bool:
    if row.assumed != assumed or row.start is None:
        return False
    return row.start - _SLACK <= last and (row.end is None or first <= row.end + _SLACK)


def _by_place(attempt: LogAttempt, hint: Hints, sessions: Sessions) -> Tie | None:
    """The tie of an attempt whose job nothing names."""
    first, last = attempt.first_time, attempt.last_time
    folders = set(_folders(attempt.source))
    for save in attempt.saves:
        if save.path and save.path.startswith("/"):
            folders.update(_folders(save.path))
            folders.add(save.path)
    at_home = sessions.in_folders(folders)
    if first is None or last is None:
        return Tie(at_home[0].session_id, "working folder") if len(at_home) == 1 else None
    near = _nearest([row for row in at_home if _overlaps(row, first, last, assumed=attempt.assumed)], first)
    if near is not None:
        return Tie(near.session_id, "working folder and time")
    around = sessions.around(first, last, assumed=attempt.assumed)
    if hint.hosts:
        on_hosts = [row for row in around if row.hosts and row.hosts >= hint.hosts]
        near = _nearest(on_hosts, first)
        if near is not None:
            return Tie(near.session_id, "hosts and time")
        around = [row for row in around if not row.hosts]
    if len(around) == 1 and _covers(around[0], first, last):
        return Tie(around[0].session_id, "time alone: no other session ran all that time")
    return None


def _covers(row: Placed, first: int, last: int) -> bool:
    return row.start is not None and row.end is not None and last - first >= _LEAST_COVER * (row.end - row.start)


def _nearest(rows: Sequence[Placed], first: int) -> Placed | None:
    """The session that began nearest to an attempt; none if two did."""
    ordered = sorted(rows, key=lambda row: (abs((row.start or 0) - first), row.session_id))
    if len(ordered) > 1 and ordered[0].start == ordered[1].start:
        return None
    return ordered[0] if ordered else None


def _folders(path: str) -> Iterator[str]:
    """The folders that a path lies in, as absolute paths."""
    at = os.path.dirname(os.path.abspath(path)) if "://" not in path else ""
    while at.count("/") >= _LEAST_DEPTH:
        yield at
        at = os.path.dirname(at)
