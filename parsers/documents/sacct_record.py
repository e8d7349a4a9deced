"""One record of sacct's table: what its columns are, and the session that it is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from aftershock.parsers.documents.slurm_header import Columns
from aftershock.parsers.documents.slurm_job import JobText, session_of
from aftershock.parsers.documents.slurm_table import Record
from aftershock.parsers.formats import Found, Refused
from aftershock.parsers.slurm_words import shown_job

# Shapes tell whether a record with too many delimiters was cut in the right place. An empty cell always passes.
_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}.*|[A-Za-z()/]+|#+|[0-9]+", re.DOTALL)
_ELAPSED: Final = re.compile(r"[0-9:.-]+|INVALID|Partition_Limit|UNLIMITED")
_COUNT: Final = re.compile(r"[0-9]+")
_HOSTS: Final = re.compile(r"None assigned|\S+")
_TRES: Final = re.compile(r"\S+")
_EXIT: Final = re.compile(r"[0-9]+:[0-9]+")

# Columns under any of these names, the first that is there.
NODE_COUNT_NAMES: Final = ("nnodes", "allocnodes")
EXCLUDED_NAMES: Final = ("excnodelist", "excnodes", "exc_nodes")

_KNOWN: Final = (
    "jobid jobidraw cluster partition qos account group gid user uid submit eligible start end elapsed elapsedraw "
    "exitcode derivedexitcode state nnodes ncpus reqcpus reqmem reqtres alloctres alloccpus timelimit nodelist "
    "jobname workdir submitline reason comment restarts dbindex maxrss totalcpu"
)
_FREE: Final = "submitline comment admincomment systemcomment jobname workdir extra constraints container"

COLUMNS: Final = Columns(
    required=frozenset({"jobid", "jobidraw"}),
    known=frozenset(_KNOWN.split()),
    shapes={
        "jobid": re.compile(r"[0-9]+(?:[_+.]\S*)?"),
        "jobidraw": re.compile(r"[0-9]+(?:[_+.]\S*)?"),
        "state": re.compile(r"[A-Z_?]+\+?(?: by \S+)?"),
        "exitcode": _EXIT,
        "derivedexitcode": _EXIT,
        "submit": _TIME,
        "eligible": _TIME,
        "start": _TIME,
        "end": _TIME,
        "elapsed": _ELAPSED,
        "elapsedraw": _COUNT,
        "timelimit": _ELAPSED,
        "nnodes": _COUNT,
        "ncpus": _COUNT,
        "uid": _COUNT,
        "nodelist": _HOSTS,
        "alloctres": _TRES,
        "reqtres": _TRES,
    },
    free=frozenset(_FREE.split()),
    ruled=True,
)


def rows_of_record(record: Record) -> Iterator[Found | Refused]:
    """The session of a record, none for a step."""
    cells = record.cells
    printed = cells.get("jobid") or cells.get("jobidraw") or ""
    shown = shown_job(printed)
    if shown is None:
        yield Refused(record.offset, len(record.raw), "sacct: JobID is not a job id", record.raw[:512])
        return
    job_id, step = shown
    if step is None:
        yield from session_of(_job_text(job_id, cells), record.offset, record.raw)


def _job_text(job_id: str, cells: Mapping[str, str]) -> JobText:
    return JobText(
        tool="sacct",
        job_id=job_id,
        raw_job_id=cells.get("jobidraw") or job_id,
        cluster=cells.get("cluster"),
        name=cells.get("jobname"),
        user=cells.get("user") or cells.get("uid"),
        work_dir=cells.get("workdir"),
        partition=cells.get("partition"),
        nodes=cells.get("nodelist"),
        n_nodes=next((cells[name] for name in NODE_COUNT_NAMES if cells.get(name)), None),
        tres=(cells.get("alloctres"), cells.get("reqtres")),
        submit=cells.get("submit"),
        start=cells.get("start"),
        end=cells.get("end"),
        elapsed=cells.get("elapsedraw") or cells.get("elapsed"),
        state=cells.get("state"),
        exit=cells.get("exitcode"),
        reason=cells.get("reason"),
        excluded=next((cells[name] for name in EXCLUDED_NAMES if name in cells), None),
        submit_line=cells.get("submitline"),
    )
