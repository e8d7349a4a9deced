"""Sessions of jobs with one record and no log line, column by column: what most jobs of an accounting are.

:func:`aftershock.pipeline.sessions.build_sessions` says what becomes of one record; here it is said of all of them at
once, and a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from aftershock.parsers.transit import origin_of, table_name
from aftershock.pipeline.attempts import OPEN_STATES, UNPLACED_STATES, US, Attempt, SessionRules
from aftershock.pipeline.ends import END_STATES, SITE_TABLES, end_reason
from aftershock.pipeline.keys import job_keys, joined
from aftershock.pipeline.sessions import array_task_of, build_sessions
from aftershock.schemas.columns import TIMESTAMP
from aftershock.schemas.ids import encoded_parts, joined_parts, stable_ids
from aftershock.schemas.sessions import Session

Bools = npt.NDArray[np.bool_]

_LISTS: Final = pa.list_(pa.string())
_HOST_LISTS: Final = ("hosts", "designated_hosts")


@dataclass(frozen=True)
class Split:
    """Batches of job records: sessions whose job has no other record, and all else."""

    lone: list[pa.RecordBatch]
    others: list[pa.RecordBatch]


def split_lone(batches: Sequence[pa.RecordBatch]) -> Split:
    """Take the records apart whose job is told of once."""
    if not batches:
        return Split([], [])
    keys = pa.concat_arrays([job_keys(batch) for batch in batches]).dictionary_encode()
    places = keys.indices.to_numpy()
    once = np.bincount(places) == 1
    once &= np.array([bool(name) for name in keys.dictionary.to_pylist()], np.bool_)
    alone = once[places] if len(places) else np.zeros(0, np.bool_)
    lone, others = [], []
    begin = 0
    for batch in batches:
        chosen = alone[begin : begin + batch.num_rows]
        begin += batch.num_rows
        if table_name(batch) != Session.table or not chosen.any():
            others.append(batch)
        elif chosen.all():
            lone.append(batch)
        else:
            lone.append(batch.filter(pa.array(chosen)))
            others.append(batch.filter(pa.array(~chosen)))
    return Split(*(list(joined(b for b in part if b.num_rows)) for part in (lone, others)))


def lone_sessions(batch: pa.RecordBatch, rules: SessionRules) -> pa.RecordBatch:
    """The sessions of a batch of records, each of which is all that is known of its job."""
    columns: dict[str, pa.Array] = {name: batch.column(name) for name in batch.schema.names}
    for name in ("session_id", "attempt", "conflicts"):
        columns[name] = pa.nulls(batch.num_rows, batch.schema.field(name).type)
    columns["raw_job_id"] = _filled(columns["raw_job_id"])
    columns["job_id"] = pc.coalesce(_filled(columns["job_id"]), columns["raw_job_id"])
    placed = _mean_times(columns)
    _place(columns, placed, rules)
    _end(columns, placed, rules, origin_of(batch))
    _last(columns, placed)
    scheduler = build_sessions([(origin_of(batch), Session(job_id="0"))], [], rules).sessions[0].scheduler
    if scheduler:
        columns["scheduler"] = pc.coalesce(_filled(columns["scheduler"]), scheduler)
    columns["attempt"] = _where(placed, pa.scalar(1, pa.int32()))
    columns["session_id"] = _ids(columns)
    return pa.RecordBatch.from_arrays([columns[name] for name in batch.schema.names], schema=batch.schema)


def of_several_hosts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The sessions that ran on more than one host."""
    return batch.filter(pa.array(_mask(pc.greater(pc.list_value_length(batch.column("hosts")), 1))))


def _mean_times(columns: dict[str, pa.Array]) -> Bools:
    """Drop times that are no facts, as :func:`.as_meant` does; which rows were placed."""
    start, end, hosts, state = (columns[name] for name in ("start_time", "end_time", "hosts", "state"))
    no_hosts = _mask(pc.equal(pc.list_value_length(hosts), 0))
    some_hosts = _mask(pc.greater(pc.list_value_length(hosts), 0))
    unplaced_state = _is_in(state, UNPLACED_STATES)
    hostless = no_hosts & (unplaced_state | _mask(pc.equal(start, end)))
    meant = _known(start) & ~(hostless | _is_in(state, {"PENDING"}))
    columns["start_time"] = _only(start, meant)
    columns["end_time"] = _only(end, ~_is_in(state, OPEN_STATES))
    return meant | some_hosts | (~_known(hosts) & ~unplaced_state)


def _place(columns: dict[str, pa.Array], placed: Bools, rules: SessionRules) -> None:
    """Hosts, their number, and GPUs; what was never placed has none."""
    some = {name: _mask(pc.greater(pc.list_value_length(columns[name]), 0)) for name in _HOST_LISTS}
    lengths = pc.list_value_length(columns["hosts"]).cast(pa.int32())
    counts = pc.if_else(pa.array(some["hosts"]), lengths, columns["n_hosts"])
    columns["n_hosts"] = pc.if_else(pa.array(placed), counts, pa.scalar(0, pa.int32()))
    columns["n_gpus"] = _only(columns["n_gpus"], placed)
    if rules.gpus_per_host is not None:
        by_hosts = pc.multiply(columns["n_hosts"].cast(pa.int64()), rules.gpus_per_host).cast(pa.int32())
        columns["n_gpus"] = pc.coalesce(columns["n_gpus"], by_hosts)
    hosts = _only(columns["hosts"], some["hosts"])
    nobody = pa.array([[]], _LISTS).take(pa.array(np.zeros(len(placed), np.int32)))
    columns["hosts"] = _choose(placed, hosts, nobody)
    columns["designated_hosts"] = _only(columns["designated_hosts"], some["designated_hosts"])


def _end(columns: dict[str, pa.Array], placed: Bools, rules: SessionRules, origin: str) -> None:
    """State and reason, where there is no log to tell them."""
    state = columns["state"]
    unsaid = ~_is_in(state, END_STATES) & _is_in(state, {None, "PENDING"})
    running = _known(columns["start_time"])
    known = pc.if_else(pa.array(running), "RUNNING", pc.if_else(pa.array(placed), "UNKNOWN", "PENDING"))
    columns["state"] = pc.if_else(pa.array(unsaid), known, state)
    slurm = _is_in(columns["scheduler"], {None, "slurm"} if origin not in SITE_TABLES else set())
    reasons = columns["end_reason"].dictionary_encode()
    words = reasons.dictionary.to_pylist()
    told = [pa.array([_reason(word, attempt, rules) for word in words], pa.string()) for attempt in (_RAN, _WAITED)]
    by_end, by_wait = (each.take(reasons.indices) for each in told)
    columns["end_reason"] = pc.if_else(pa.array(placed & slurm), by_end, by_wait)


# An attempt that was placed, and one that never was.
_RAN: Final = Attempt(start=0)
_WAITED: Final = Attempt()


def _reason(word: str | None, attempt: Attempt, rules: SessionRules) -> str | None:
    row = Session(end_reason=word)
    return end_reason(attempt, row, [("", row)], None, rules)


def _last(columns: dict[str, pa.Array], placed: Bools) -> None:
    """How long it ran, on how many GPUs."""
    start, end, duration = (columns[name] for name in ("start_time", "end_time", "duration_s"))
    span = pc.divide(
        pc.max_element_wise(pc.subtract(_micros(end), _micros(start)), 0, skip_nulls=False).cast(pa.float64()), US
    )
    counted = _known(start) & _known(end) & ~_known(duration)
    duration = _only(pc.if_else(pa.array(counted), span, duration), placed)
    columns["duration_s"] = duration
    by_gpus = pc.multiply(duration, columns["n_gpus"].cast(pa.float64()))
    columns["gpu_seconds"] = _only(pc.coalesce(columns["gpu_seconds"], by_gpus), placed)


def _ids(columns: dict[str, pa.Array]) -> pa.Array:
    """Ids by the start in whole seconds, else by the submit, else by the end."""
    start, submit, end = (_seconds(columns[name]) for name in ("start_time", "submit_time", "end_time"))
    never = pa.nulls(len(start), pa.int64())
    late = joined_parts([never, never, end])
    when = _choose(_known(start), encoded_parts(start), _choose(_known(submit), joined_parts([never, submit]), late))
    names = ("cluster", "scheduler", "raw_job_id")
    return stable_ids("s", [*(columns[name] for name in names), _tasks(columns["job_id"]), when])


def _tasks(jobs: pa.Array) -> pa.Array:
    """The task of each job id; most have none."""
    of_arrays = pa.array(_mask(pc.match_substring_regex(jobs, "[^0-9]")))
    if not pc.any(of_arrays).as_py():
        return pa.nulls(len(jobs), pa.string())
    tasks = pa.array([array_task_of(job) for job in jobs.filter(of_arrays).to_pylist()], pa.string())
    return pc.replace_with_mask(pa.nulls(len(jobs), pa.string()), of_arrays, tasks)


def _micros(column: pa.Array) -> pa.Array:
    return column.cast(TIMESTAMP).cast(pa.int64())


def _seconds(column: pa.Array) -> pa.Array:
    known = _known(column)
    values = _micros(column).fill_null(0).to_numpy(zero_copy_only=False) // US
    return pa.array(values, mask=~known)


def _filled(column: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(column, ""), None, column)


def _known(column: pa.Array) -> Bools:
    known: Bools = column.is_valid().to_numpy(zero_copy_only=False)
    return known


def _mask(column: pa.Array) -> Bools:
    mask: Bools = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
    return mask


def _is_in(column: pa.Array, values: Iterable[str | None]) -> Bools:
    """Whether each value is one of some; a null too, where None is one of them."""
    wanted = set(values)
    found = _mask(pc.is_in(column, value_set=pa.array(sorted(v for v in wanted if v is not None), pa.string())))
    return found | ~_known(column) if None in wanted else found & _known(column)


def _only(column: pa.Array, where: Bools) -> pa.Array:
    return _choose(where, column, pa.nulls(len(column), column.type))


def _choose(where: Bools, one: pa.Array, other: pa.Array) -> pa.Array:
    return pc.if_else(pa.array(where), one, other)


def _where(where: Bools, value: Any) -> pa.Array:
    return pc.if_else(pa.array(where), value, pa.scalar(None, value.type))
