"""squeue: the jobs in the queue at one moment, as a delimited table (``--format``, ``--Format``) or in its own layout.

    JOBID|NAME|USER|STATE|SUBMIT_TIME|START_TIME|NODELIST|REASON|EXC_NODES
    812|bert|mira|PENDING|2025-02-03T08:10:05|N/A||Priority|dgx08

Documented at https://slurm.schedmd.com/squeue.html. The end that it prints for a job is where the time limit will end
it, and the start of a job that waits is a guess: neither is taken. Short states (``PD``, ``R``) are read too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import BinaryIO, Final

from aftershock.parsers.documents.slurm_header import Columns
from aftershock.parsers.documents.slurm_job import JobText, session_of
from aftershock.parsers.documents.slurm_table import has_header, read_table
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.parsers.slurm_words import job_state, shown_job

_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}.*|N/A|Unknown|[0-9]+")
_COUNT: Final = re.compile(r"[0-9]+(?:-[0-9]+)?")

# Names that only squeue gives to its columns; sacct has none of them.
_OWN_NAMES: Final = "submit_time start_time time_left nodes exc_nodes st nodelist(reason) tres_alloc work_dir"
_OWN: Final = frozenset(_OWN_NAMES.split())
_FREE_NAMES: Final = "name command comment work_dir feature features dependency nodelist(reason)"
_SHARED_NAMES: Final = "jobid name user state partition nodelist reason time account qos command priority"

COLUMNS: Final = Columns(
    required=_OWN,
    known=_OWN | frozenset(_SHARED_NAMES.split()),
    shapes={
        "jobid": re.compile(r"[0-9]+(?:[_+]\S*)?"),
        "state": re.compile(r"[A-Z_]+"),
        "st": re.compile(r"[A-Z]{1,4}"),
        "submit_time": _TIME,
        "start_time": _TIME,
        "nodes": _COUNT,
        "time": re.compile(r"[0-9:-]+|INVALID"),
    },
    free=frozenset(_FREE_NAMES.split()),
    needed=frozenset({"jobid"}),
    laid_out=True,
)


def detects(head: Head) -> float:
    """Sure of a header that names a column as only squeue does."""
    return 0.95 if has_header(head.lines(8), COLUMNS) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The sessions of a table: those that run, and those that wait."""
    for record in read_table(stream, COLUMNS, "squeue"):
        if isinstance(record, Refused):
            yield record
            continue
        shown = shown_job(record.cells.get("jobid", ""))
        if shown is None:
            yield Refused(record.offset, len(record.raw), "squeue: JOBID is not a job id", record.raw[:512])
        elif shown[1] is None:
            yield from session_of(_job_text(shown[0], record.cells), record.offset, record.raw)


def _job_text(job_id: str, cells: Mapping[str, str]) -> JobText:
    nodes, reason = _nodes_or_reason(cells)
    return JobText(
        tool="squeue",
        job_id=job_id,
        cluster=cells.get("cluster"),
        name=cells.get("name"),
        user=cells.get("user"),
        work_dir=cells.get("work_dir"),
        partition=cells.get("partition"),
        nodes=nodes,
        n_nodes=cells.get("nodes"),
        tres=(cells.get("tres_alloc"),),
        submit=cells.get("submit_time"),
        start=cells.get("start_time"),
        elapsed=cells.get("time"),
        state=_state(cells.get("state") or cells.get("st")),
        reason=reason,
        excluded=cells.get("exc_nodes"),
        wanted=cells.get("req_nodes"),
        command=cells.get("command"),
    )


def _nodes_or_reason(cells: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Hosts, and the reason: one column shows the hosts of a job that has some, else why it has none, in brackets."""
    both = cells.get("nodelist(reason)")
    if both is None:
        return cells.get("nodelist"), cells.get("reason")
    if both.startswith("("):
        return "", both.removeprefix("(").removesuffix(")")
    return both, None


def _state(printed: str | None) -> str | None:
    """The state; one that was cut at the width of its column is marked as sacct does it."""
    return f"{printed}+" if printed and job_state(printed)[0] == "UNKNOWN" else printed


FORMAT: Final = DocumentFormat(
    name="squeue",
    doc="Jobs in Slurm's queue as `squeue` prints them, with a delimiter between the columns or in its default layout: "
    "a row for each job that runs or waits.",
    url="https://slurm.schedmd.com/squeue.html",
    tables=("sessions",),
    detects=detects,
    read=read,
    samples=(
        Sample(
            "JOBID|NAME|USER|STATE|SUBMIT_TIME|START_TIME|NODELIST|REASON|EXC_NODES\n"
            "812|bert|mira|PENDING|2025-02-03T08:10:05|2025-02-04T00:00:00||Priority|dgx08\n"
            "815_2|eval|ines|RUNNING|2025-02-03T08:00:00|2025-02-03T08:00:10|dgx[07,09]|None|\n",
            (
                expect(
                    "sessions",
                    job_id="812",
                    state="PENDING",
                    start_time=None,
                    hosts=[],
                    end_reason="Priority",
                    excluded_hosts=["dgx08"],
                ),
                expect("sessions", job_id="815_2", state="RUNNING", hosts=["dgx07", "dgx09"], end_time=None),
            ),
        ),
        Sample(
            "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n"
            "               812      long big bert     mira PD       0:00      2 (Resources)\n"
            "       815_[0-7%2]      long    sweep     ines PD       0:00      1 (launch failed requeued held)\n"
            "             815_8      long    sweep     ines  R 1-02:03:04      2 dgx[07,09]\n",
            (
                expect("sessions", job_id="812", name="big bert", state="PENDING", hosts=[], end_reason="Resources"),
                expect("sessions", job_id="815_[0-7%2]", state="PENDING", end_reason="launch failed requeued held"),
                expect("sessions", job_id="815_8", state="RUNNING", hosts=["dgx07", "dgx09"], duration_s=93784.0),
            ),
        ),
    ),
    non_samples=(
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n",
        "JobID|JobIDRaw|State|Start|End|NodeList\n812|812|FAILED|None|None|dgx07\n",
        "JOBID|COLOUR\n1|red\n",
    ),
)
