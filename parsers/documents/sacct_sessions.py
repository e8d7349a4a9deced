"""Sessions out of the columns of sacct: what :mod:`.sacct` and :mod:`.slurm_job` do for one record, for many at once.

What a cell means is worked out once for each different cell of a column, by the same functions; what depends on several
cells of a record is worked out for all records together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from aftershock.parsers.clock import SECOND
from aftershock.parsers.documents.sacct_record import COLUMNS, EXCLUDED_NAMES, NODE_COUNT_NAMES
from aftershock.parsers.documents.slurm_job import (
    command_of,
    designated_hosts,
    reason_words,
    state_reason,
    whole_number,
)
from aftershock.parsers.documents.slurm_times import local_times
from aftershock.parsers.formats import FoundColumns
from aftershock.parsers.hostlist import HostListError, expand_hosts
from aftershock.parsers.redact import may_hold_credentials, redact
from aftershock.parsers.slurm_words import elapsed_seconds, exit_pair, gpu_count, host_options_in, job_state

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

_TIMES: Final = ("submit", "eligible", "start", "end")
# Ids in their usual form. Sets of array tasks are left to the reader of single records.
_ID: Final = r"^[0-9]{1,20}(_[0-9]{1,10})?(\+[0-9]{1,10})?(\.[!-~]+)?$"
_SECONDS: Final = r"^[0-9]{0,11}$"
_TEXT_NAMES: Final = "jobname workdir submitline user uid cluster partition reason"

HOST_LISTS: Final = pa.list_(pa.string())


class Words:
    """A column by its different cells."""

    def __init__(self, column: pa.Array) -> None:
        encoded = column.dictionary_encode()
        self.values: list[str] = encoded.dictionary.to_pylist()
        self.places: npt.NDArray[np.int32] = encoded.indices.to_numpy()

    def all_of(self, function: Callable[[str], Any], kind: pa.DataType) -> pa.Array:
        """What a function says of each cell."""
        return pa.array([function(value) for value in self.values], kind).take(pa.array(self.places))

    def where(self, function: Callable[[str], bool]) -> Bools:
        """The cells of which a function is true."""
        return np.array([function(value) for value in self.values], np.bool_)[self.places]


class Cells:
    """The cells of many lines of one table, and which of these lines are plain."""

    USED: ClassVar[frozenset[str]] = (
        frozenset(COLUMNS.shapes)
        | frozenset(_TEXT_NAMES.split())
        | frozenset(NODE_COUNT_NAMES)
        | frozenset(EXCLUDED_NAMES)
    )

    def __init__(self, names: Sequence[str], columns: Sequence[pa.Array], count: int) -> None:
        self.plain: Bools = np.ones(count, np.bool_)
        self._columns: dict[str, pa.Array] = {}
        self._times: dict[str, pa.Array] = {}
        for name, column in zip(names, columns, strict=True):
            self._check(name, column)
            self._columns.setdefault(name, column)
        ids = self._columns.get("jobid", self._columns.get("jobidraw"))
        steps = pc.match_substring(ids, ".").to_numpy(zero_copy_only=False)
        # What is worked out for sessions is not worked out for steps, of which there are more.
        self.rows: Ints = np.flatnonzero(self.plain & ~steps)
        self._keep_rows()
        bad = ~self._readable()
        if bad.any():
            self.plain[self.rows[bad]] = False
            self.rows = self.rows[~bad]
            chosen = pa.array(~bad)
            self._columns = {name: column.filter(chosen) for name, column in self._columns.items()}
            self._times = {name: column.filter(chosen) for name, column in self._times.items()}

    def _check(self, name: str, column: pa.Array) -> None:
        """Whether each cell has the shape of its column, in the form that is read here."""
        if name in _TIMES:
            wall, fine = local_times(column)
            self._times.setdefault(name, wall)
        elif name in ("jobid", "jobidraw"):
            fine = pc.match_substring_regex(column, _ID).to_numpy(zero_copy_only=False)
        elif name == "elapsedraw":
            fine = pc.match_substring_regex(column, _SECONDS).to_numpy(zero_copy_only=False)
        elif name in COLUMNS.free:
            return
        else:
            shape = COLUMNS.shapes.get(name)
            fine = Words(column).where(lambda cell: cell == cell.strip() and _fits(shape, cell))
        self.plain &= fine

    def _keep_rows(self) -> None:
        chosen = pa.array(self.rows)
        self._columns = {name: column.take(chosen) for name, column in self._columns.items()}
        self._times = {name: column.take(chosen) for name, column in self._times.items()}

    def _readable(self) -> Bools:
        """The rows whose host lists can be expanded."""
        fine: Bools = np.ones(len(self.rows), np.bool_)
        for name in ("nodelist", *EXCLUDED_NAMES):
            if name in self._columns:
                fine &= self.words(name).where(_expands)
        if "submitline" in self._columns:
            lines = self.words("submitline")
            fine &= lines.where(lambda line: _expands(host_options_in(line).excluded or ""))
        return fine

    def has(self, name: str) -> bool:
        """Whether the table has such a column."""
        return name in self._columns

    def words(self, name: str) -> Words:
        """The column by its different cells; it is there."""
        return Words(self._columns[name])

    def text(self, name: str) -> pa.Array:
        """The cells of a column, null where they are empty or where there is no such column."""
        column = self._columns.get(name)
        if column is None:
            return pa.nulls(len(self.rows), pa.string())
        return pc.if_else(pc.equal(column, ""), None, column)

    def time(self, name: str) -> pa.Array:
        """The times of a column, null where there are none."""
        return self._times.get(name, pa.nulls(len(self.rows), pa.int64()))

    def masked(self, name: str) -> pa.Array:
        """As :meth:`text`, with credentials masked."""
        return _masked(self.text(name))


def sessions_of(cells: Cells, chosen: Ints, offsets: Ints) -> FoundColumns | None:
    """The sessions of some lines, which are given by their numbers among the cells and by where they start."""
    at = np.searchsorted(cells.rows, chosen)
    is_row = (
        (at < len(cells.rows)) & (cells.rows[np.minimum(at, max(len(cells.rows) - 1, 0))] == chosen)
        if len(cells.rows)
        else np.zeros(len(chosen), np.bool_)
    )
    if not is_row.any():
        return None
    columns = _columns_of(cells)
    taken = pa.array(at[is_row])
    columns = {name: column.take(taken) for name, column in columns.items()}
    columns["@offset"] = pa.array(offsets[is_row])
    return FoundColumns("sessions", int(is_row.sum()), columns)


def _columns_of(cells: Cells) -> dict[str, pa.Array]:
    count = len(cells.rows)
    state, cancelled_by, open_, pending, unstated = _states(cells)
    elapsed = _elapsed(cells)
    hosts, given = _hosts(cells)
    times = {name: cells.time(name) for name in ("submit", "start", "end")}
    start_known, end_known = (times[name].is_valid().to_numpy(zero_copy_only=False) for name in ("start", "end"))
    started = start_known if cells.has("start") else np.ones(count, np.bool_)
    lasted = pc.fill_null(pc.not_equal(elapsed, 0.0), False).to_numpy(zero_copy_only=False)
    placed = ~pending & (lasted | (given if hosts is not None else started))
    ended = np.where(unstated, end_known, ~open_)
    exits = cells.words("exitcode") if cells.has("exitcode") else None
    row_times = {
        "submit": times["submit"],
        "start": _only(times["start"], placed),
        "end": _only(times["end"], ended),
    }
    n_nodes = _node_counts(cells)
    columns = {
        "scheduler": pa.repeat(pa.scalar("slurm"), count),
        "cluster": cells.text("cluster"),
        "job_id": cells.text("jobid") if cells.has("jobid") else cells.text("jobidraw"),
        "raw_job_id": pc.coalesce(cells.text("jobidraw"), cells.text("jobid")),
        "name": cells.masked("jobname"),
        "user": _masked(pc.coalesce(cells.text("user"), cells.text("uid"))),
        "work_dir": cells.masked("workdir"),
        "partition": cells.text("partition"),
        "n_gpus": pc.coalesce(_gpus(cells, "alloctres"), _gpus(cells, "reqtres")),
        "submit_time": row_times["submit"],
        "start_time": row_times["start"],
        "end_time": row_times["end"],
        "duration_s": _only(elapsed, placed),
        "state": state,
        "end_reason": _masked(_end_reasons(cells, placed)),
        "cancelled_by": cancelled_by,
        "excluded_hosts": _excluded(cells),
        "designated_hosts": _designated(cells, n_nodes),
        "command": _masked(cells.words("submitline").all_of(command_of, pa.string()))
        if cells.has("submitline")
        else pa.nulls(count, pa.string()),
    }
    if exits is not None:
        over = placed & ended
        columns["exit_code"] = _only(exits.all_of(lambda text: exit_pair(text)[0], pa.int32()), over)
        columns["exit_signal"] = _only(exits.all_of(lambda text: exit_pair(text)[1], pa.int32()), over)
    if hosts is None:
        columns["hosts"] = _lists([None, []], np.where(placed, 0, 1))
        columns["n_hosts"] = pc.if_else(pa.array(placed), n_nodes, pa.scalar(0, pa.int32()))
    else:
        lists, places = hosts
        columns["hosts"] = _lists([*lists, []], np.where(placed, places, len(lists)))
        columns["n_hosts"] = pa.array(np.array([*map(len, lists), 0], np.int32)[np.where(placed, places, len(lists))])
    return columns | _clock(row_times)


def _clock(row_times: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """The clock of a row is that of its end, else of its start, else of its submit. No session keeps it as printed."""
    wall = pc.coalesce(*(row_times[name] for name in ("end", "start", "submit")))
    known = wall.is_valid()
    return {
        "@kind": pc.if_else(known, "local", "none"),
        "@wall": wall,
        "@resolution": pc.if_else(known, pa.scalar(SECOND, pa.int64()), pa.scalar(1, pa.int64())),
    }


def _states(cells: Cells) -> tuple[pa.Array, pa.Array, Bools, Bools, Bools]:
    """State, who cancelled it; and where the state is open, is that of a job that waits, or is not told."""
    count = len(cells.rows)
    if not cells.has("state"):
        nothing, no = pa.nulls(count, pa.string()), np.zeros(count, np.bool_)
        return nothing, nothing, no, no, np.ones(count, np.bool_)
    words = cells.words("state")

    def by(text: str) -> str | None:
        state, person = job_state(text)
        return person if state == "CANCELLED" else None

    return (
        words.all_of(lambda text: job_state(text)[0], pa.string()),
        words.all_of(by, pa.string()),
        words.where(lambda text: job_state(text)[0] in ("PENDING", "RUNNING")),
        words.where(lambda text: job_state(text)[0] == "PENDING"),
        words.where(lambda text: job_state(text)[0] is None),
    )


def _elapsed(cells: Cells) -> pa.Array:
    """Seconds: of ElapsedRaw, else of Elapsed."""
    seconds = pa.nulls(len(cells.rows), pa.float64())
    if cells.has("elapsedraw"):
        seconds = cells.text("elapsedraw").cast(pa.int64()).cast(pa.float64())
    if cells.has("elapsed") and seconds.null_count:
        seconds = pc.coalesce(seconds, cells.words("elapsed").all_of(elapsed_seconds, pa.float64()))
    return seconds


def _hosts(cells: Cells) -> tuple[tuple[list[list[str]], npt.NDArray[Any]] | None, Bools]:
    """The host lists, and for each row which of them; and which rows have hosts. None without such a column."""
    if not cells.has("nodelist"):
        return None, np.zeros(len(cells.rows), np.bool_)
    words = cells.words("nodelist")
    lists = [list(_expanded(text) or ()) for text in words.values]
    return (lists, words.places), np.array([bool(hosts) for hosts in lists], np.bool_)[words.places]


def _node_counts(cells: Cells) -> pa.Array:
    counts = pa.nulls(len(cells.rows), pa.int32())
    texts = [cells.text(name) for name in NODE_COUNT_NAMES if cells.has(name)]
    if texts:
        counts = Words(pc.fill_null(pc.coalesce(*texts), "")).all_of(whole_number, pa.int32())
    return counts


def _gpus(cells: Cells, name: str) -> pa.Array:
    return cells.words(name).all_of(gpu_count, pa.int32()) if cells.has(name) else pa.nulls(len(cells.rows), pa.int32())


def _end_reasons(cells: Cells, placed: Bools) -> pa.Array:
    """Why it ended; of what was never placed also why it waited."""
    count = len(cells.rows)
    reasons = pa.nulls(count, pa.string())
    if cells.has("reason"):
        words = cells.words("reason")
        any_reason = words.all_of(lambda text: reason_words(text)[0], pa.string())
        end_reason = words.all_of(lambda text: reason_words(text)[1], pa.string())
        reasons = pc.if_else(pa.array(placed), end_reason, any_reason)
    if cells.has("state"):
        reasons = pc.coalesce(reasons, cells.words("state").all_of(state_reason, pa.string()))
    return reasons


def _excluded(cells: Cells) -> pa.Array:
    """Hosts left out: of a column if it names some, else of the submit line, else none if the column is empty."""
    column = next((cells.words(name) for name in EXCLUDED_NAMES if cells.has(name)), None)
    lists: list[list[str] | None] = [None]
    places = np.zeros(len(cells.rows), np.int64)
    if cells.has("submitline"):
        lines = cells.words("submitline")
        options = [host_options_in(text).excluded for text in lines.values]
        lists += [None if text is None else expand_hosts(text) for text in options]
        places = lines.places.astype(np.int64) + 1
    if column is not None:
        named = [expand_hosts(text) for text in column.values]
        has_hosts = np.array([bool(hosts) for hosts in named], np.bool_)[column.places]
        no_line = np.array([hosts is None for hosts in lists], np.bool_)[places]
        places = np.where(has_hosts | no_line, column.places + len(lists), places)
        lists += named
    return _lists(lists, places)


def _designated(cells: Cells, n_nodes: pa.Array) -> pa.Array:
    count = len(cells.rows)
    if not cells.has("submitline"):
        return pa.nulls(count, HOST_LISTS)
    lines = cells.words("submitline")
    wanted = [host_options_in(text).wanted for text in lines.values]
    asks = np.array([text is not None for text in wanted], np.bool_)[lines.places]
    found: list[list[str] | None] = [None] * count
    for i in np.flatnonzero(asks).tolist():
        found[i] = designated_hosts(wanted[lines.places[i]], n_nodes[i].as_py())
    return pa.array(found, HOST_LISTS)


def _lists(lists: Sequence[list[str] | None], places: npt.NDArray[Any]) -> pa.Array:
    return pa.array(lists, HOST_LISTS).take(pa.array(places))


def _only(column: pa.Array, where: Bools) -> pa.Array:
    return pc.if_else(pa.array(where), column, pa.scalar(None, column.type))


def _masked(column: pa.Array) -> pa.Array:
    words = Words(pc.fill_null(column, ""))
    if not may_hold_credentials("\n".join(words.values)):
        return pc.if_else(pc.equal(column, ""), None, column)
    return words.all_of(lambda text: redact(text) or None, pa.string())


def _expands(text: str) -> bool:
    return _expanded(text) is not None


# The same lists come again in every block.
@lru_cache(maxsize=8192)
def _expanded(text: str) -> tuple[str, ...] | None:
    """The hosts of a list, or None where it cannot be expanded."""
    try:
        return tuple(expand_hosts(text))
    except HostListError:
        return None


def _fits(shape: re.Pattern[str] | None, cell: str) -> bool:
    return shape is None or not cell or shape.fullmatch(cell) is not None
