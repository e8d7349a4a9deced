"""A row of a job table as a session: states, times of one kind, hosts, and what of it cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from aftershock.parsers.clock import NO_CLOCK, SECOND, ClockKind, Reading
from aftershock.parsers.column_map import ColumnMap
from aftershock.parsers.documents.cell_values import (
    CellClock,
    hosts_cell,
    number_cell,
    text_cell,
    time_cell,
    truth_cell,
    whole_cell,
)
from aftershock.parsers.documents.table_records import TableRecord
from aftershock.parsers.formats import Found, Refused
from aftershock.parsers.hostlist import CAP, HostListError
from aftershock.parsers.slurm_words import exit_pair, job_state
from aftershock.schemas.sessions import SESSION_STATES, Session

# Hosts that the lists of a table may stand for: some, and more with each byte of it. A job of a thousand hosts needs
# ten for each byte of its row.
FREE_HOSTS: Final = 1_000_000
HOSTS_PER_BYTE: Final = 16
# Names and commands are kept to this length.
_LONGEST_TEXT: Final = 4096
_EXCERPT: Final = 512
_TIMES: Final = ("end_time", "start_time", "submit_time")
_UTC: Final = frozenset({"epoch", "zoned"})

# What other schedulers call the states, where the word has one meaning. "Killed" and "stopped" have several.
_WORDS: Final = {
    "succeeded": "COMPLETED",
    "success": "COMPLETED",
    "successful": "COMPLETED",
    "done": "COMPLETED",
    "complete": "COMPLETED",
    "finished": "COMPLETED",
    "pass": "COMPLETED",
    "passed": "COMPLETED",
    "error": "FAILED",
    "failure": "FAILED",
    "fail": "FAILED",
    "canceled": "CANCELLED",
    "oom": "OUT_OF_MEMORY",
    "oomkilled": "OUT_OF_MEMORY",
    "timed out": "TIMEOUT",
    "timedout": "TIMEOUT",
    "node failure": "NODE_FAIL",
    "queued": "PENDING",
    "waiting": "PENDING",
    "submitted": "PENDING",
    "evicted": "PREEMPTED",
}
# States of jobs that may never have got hosts.
_UNPLACED: Final = frozenset({"PENDING", "CANCELLED", "DEADLINE"})
_OPEN: Final = frozenset({"PENDING", "RUNNING"})

T = TypeVar("T")


class JobRows:
    """Makes sessions of the rows of one table."""

    def __init__(self, mapped: ColumnMap) -> None:
        self._allowed = FREE_HOSTS
        self._words = _WORDS | dict(mapped.words)
        self._separator = mapped.host_separator
        self._unit, self._format = mapped.time_unit, mapped.time_format

    def of(self, record: TableRecord) -> Iterator[Found | Refused]:
        """The session of a row, and a refusal for each of its cells that cannot be read (that column is then null)."""
        self._allowed += HOSTS_PER_BYTE * len(record.raw)
        yield from _session(_Row(record.values, self), record)

    def hosts(self, value: Any) -> list[str] | None:
        """A cell as hosts.

        Raises:
            HostListError: it is no list of hosts, or the lists of the table stand for too many.
        """
        try:
            hosts = hosts_cell(value, self._separator, min(CAP, self._allowed))
        except HostListError:
            if self._allowed < CAP:
                raise HostListError("lists that stand for more hosts than the size of the table allows") from None
            raise
        self._allowed -= len(hosts or ())
        return hosts

    def time(self, value: Any) -> CellClock | None:
        """A cell as a time."""
        return time_cell(value, self._unit, self._format)

    def state(self, word: str) -> str | None:
        """The state of a session that a word means."""
        return self._words.get(word.lower()) or job_state(word)[0]


def _session(row: _Row, record: TableRecord) -> Iterator[Found | Refused]:
    job_id = text_cell(record.values.get("job_id"))
    if job_id is None:
        yield _refused(record, "a row without a job id")
        return
    state, printed = row.state()
    times, reading = row.times()
    hosts = row.hosts("hosts")
    elapsed = row.cell("duration_s", number_cell)
    if times["start_time"] is not None and times["end_time"] is not None:
        if times["end_time"] < times["start_time"]:
            row.problems.append("end_time is before start_time")
            times["end_time"] = None
        elif state not in _OPEN:
            elapsed = (times["end_time"] - times["start_time"]) / SECOND
    placed = _is_placed(record.values, state, hosts, elapsed, times["start_time"])
    exit_code, exit_signal = row.exit()
    session = Session(
        job_id=job_id,
        raw_job_id=row.text("raw_job_id") or job_id,
        attempt=row.cell("attempt", whole_cell),
        cluster=row.text("cluster"),
        scheduler=row.text("scheduler"),
        name=row.text("name"),
        user=row.text("user"),
        work_dir=row.text("work_dir"),
        partition=row.text("partition"),
        hosts=hosts if placed else [],
        n_hosts=(len(hosts) if hosts else row.count("n_hosts")) if placed else 0,
        n_gpus=row.count("n_gpus"),
        submit_time=times["submit_time"],
        start_time=times["start_time"] if placed else None,
        end_time=times["end_time"] if state not in _OPEN else None,
        duration_s=elapsed if placed and elapsed is not None and elapsed >= 0 else None,
        state=state,
        exit_code=exit_code,
        exit_signal=exit_signal,
        end_reason=row.text("end_reason") or printed,
        cancelled_by=row.text("cancelled_by"),
        planned=row.cell("planned", truth_cell),
        excluded_hosts=row.hosts("excluded_hosts"),
        designated_hosts=row.hosts("designated_hosts"),
        command=row.text("command"),
        retry_of=row.text("retry_of"),
    )
    yield Found(session, reading, record.offset)
    for problem in row.problems:
        yield _refused(record, problem)


def _refused(record: TableRecord, reason: str) -> Refused:
    return Refused(record.offset, len(record.raw), f"job_table: {reason}", record.raw[:_EXCERPT])


def _is_placed(
    values: Mapping[str, Any], state: str | None, hosts: list[str] | None, elapsed: float | None, start: int | None
) -> bool:
    """Whether the job got hosts. Only a table that has starts can say that one has none."""
    if state == "PENDING":
        return False
    if start is not None or hosts or elapsed:
        return True
    says_none = "start_time" in values and text_cell(values["start_time"]) in (None, "0", "-1")
    return not (says_none and (state is None or state in _UNPLACED))


class _Row:
    """The cells of a row, and what is wrong with them."""

    def __init__(self, values: Mapping[str, Any], rules: JobRows) -> None:
        self._values = values
        self._rules = rules
        self.problems: list[str] = []

    def text(self, column: str) -> str | None:
        """A cell as text."""
        text = text_cell(self._values.get(column))
        return text if text is None or len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT]

    def cell(self, column: str, read: Callable[[Any], T | None]) -> T | None:
        """A cell as ``read`` reads it, None if it cannot."""
        value = self._values.get(column)
        if value is None:
            return None
        try:
            return read(value)
        except ValueError as error:
            self.problems.append(f"{column} is not read: {error}: {str(value)[:64]}")
            return None

    def hosts(self, column: str) -> list[str] | None:
        """A cell as hosts."""
        return self.cell(column, self._rules.hosts)

    def count(self, column: str) -> int | None:
        """A cell as a number of things."""
        number = self.cell(column, whole_cell)
        if number is not None and number < 0:
            return None  # how some write that they do not know
        return number

    def state(self) -> tuple[str | None, str | None]:
        """The state, and the printed word where it has no counterpart."""
        word = self.text("state")
        if word is None:
            return None, None
        state = self._rules.state(word)
        return (state, None) if state in SESSION_STATES and state != "UNKNOWN" else ("UNKNOWN", word)

    def exit(self) -> tuple[int | None, int | None]:
        """Exit status and signal; ``1:0`` in one cell is both, as Slurm prints them."""
        code, signal = exit_pair(self.text("exit_code"))
        if code is None:
            code = self.cell("exit_code", whole_cell)
        return code, signal if signal is not None else self.cell("exit_signal", whole_cell) or None

    def times(self) -> tuple[dict[str, int | None], Reading]:
        """The times of the row, all of one kind, and the clock that says of which."""
        times: dict[str, int | None] = dict.fromkeys(_TIMES)
        kind: ClockKind = "none"
        first: CellClock | None = None
        resolution = 1
        for column in _TIMES:
            clock = self.cell(column, self._rules.time)
            if clock is None:
                continue
            if first is not None and not (kind == clock.kind or {kind, clock.kind} <= _UTC):
                self.problems.append(f"{column} is not read: its clock is not that of the other times")
                continue
            first, kind = first or clock, first.kind if first else clock.kind
            times[column] = clock.wall
            resolution = max(resolution, clock.resolution)
        if first is None:
            return times, NO_CLOCK
        return times, Reading(kind, first.wall, resolution=resolution, text=first.text or None)
