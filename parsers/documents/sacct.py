"""sacct: Slurm's accounting as a table, ``sacct --parsable2`` or ``--parsable``, or in columns of fixed width.

    JobID|JobIDRaw|JobName|State|ExitCode|Submit|Start|End|NodeList|AllocTRES
    812|812|bert|NODE_FAIL|1:0|2025-02-03T08:00:00|2025-02-03T08:00:05|2025-02-03T09:10:11|dgx[07-08]|gres/gpu=16,node=2

Documented at https://slurm.schedmd.com/sacct.html. Columns come in any number and order. With ``--duplicates`` a job
that was requeued has a row for each of its placements, all under the same id. Times are local and have no zone unless
``SLURM_TIME_FORMAT`` gave them one. In columns of fixed width a cell that was cut (``pretraini+``) is left out. sacct
prints exit statuses above 128 less 128, so that 9 may have been 137. Tables that another tool wrote again, with commas,
quotes around some cells and perhaps a number before each row, are read too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

from aftershock.parsers.documents.sacct_columns import read_columns
from aftershock.parsers.documents.sacct_record import COLUMNS, rows_of_record
from aftershock.parsers.documents.slurm_table import has_header, read_table
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect


def detects(head: Head) -> float:
    """Sure where one of the first lines is a header; warnings of the tool may stand above it.

    A little less sure than of a header of squeue, which has columns of its own beside some of these.
    """
    return 0.85 if has_header(head.lines(8), COLUMNS) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The sessions of a table."""
    for record in read_table(stream, COLUMNS, "sacct"):
        if isinstance(record, Refused):
            yield record
        else:
            yield from rows_of_record(record)


_SAMPLES: Final = (
    # A job that lost a host, was requeued, and ended well: one id, two rows. Its steps are no sessions.
    Sample(
        "JobID|JobIDRaw|JobName|User|State|ExitCode|Submit|Start|End|ElapsedRaw|NNodes|NodeList|AllocTRES\n"
        "812|812|bert|mira|NODE_FAIL|1:0|2025-02-03T08:00:00|2025-02-03T08:00:05|2025-02-03T08:10:05|600|2|dgx[07-08]"
        "|cpu=16,gres/gpu=16,node=2\n"
        "812.batch|812.batch|batch||CANCELLED|0:15|2025-02-03T08:00:05|2025-02-03T08:00:05|2025-02-03T08:10:06|601|1"
        "|dgx07|cpu=8\n"
        "812|812|bert|mira|COMPLETED|0:0|2025-02-03T08:10:05|2025-02-03T08:12:31|2025-02-03T09:12:31|3600|2|dgx[07,09]"
        "|cpu=16,gres/gpu=16,node=2\n",
        (
            expect(
                "sessions",
                job_id="812",
                raw_job_id="812",
                name="bert",
                user="mira",
                state="NODE_FAIL",
                hosts=["dgx07", "dgx08"],
                n_hosts=2,
                n_gpus=16,
                duration_s=600.0,
                exit_code=1,
                exit_signal=None,
            ),
            expect("sessions", job_id="812", state="COMPLETED", hosts=["dgx07", "dgx09"], exit_code=0),
        ),
    ),
    # Cancelled while it waited; a submit line over two lines with the delimiter in it; an array that waits.
    Sample(
        "JobID|JobIDRaw|State|Start|End|NodeList|SubmitLine|\n"
        "77_4|81|CANCELLED by 4021|None|2025-02-03T10:00:00|None assigned|sbatch --exclude=dgx[03-04] a.sh\n| tail|\n"
        "90_[0-7%2]|90|PENDING|Unknown|Unknown|None assigned|sbatch --array=0-7%2 b.sh|\n",
        (
            expect(
                "sessions",
                job_id="77_4",
                raw_job_id="81",
                state="CANCELLED",
                cancelled_by="4021",
                start_time=None,
                hosts=[],
                excluded_hosts=["dgx03", "dgx04"],
            ),
            expect("sessions", job_id="90_[0-7%2]", state="PENDING", start_time=None, end_time=None, hosts=[]),
        ),
    ),
    # As people see it: a name and a state that did not fit.
    Sample(
        "JobID           JobName  Partition      State ExitCode        NodeList               Start \n"
        "------------ ---------- ---------- ---------- -------- --------------- ------------------- \n"
        "812          pretraini+       long CANCELLED+      0:0      dgx[07,09] 2025-02-03T08:12:31 \n"
        "812.batch         batch            CANCELLED+     0:15           dgx07 2025-02-03T08:12:31 \n",
        (expect("sessions", job_id="812", name=None, partition="long", state="CANCELLED", hosts=["dgx07", "dgx09"]),),
    ),
    # Written again by a library for tables, with its numbers of rows.
    Sample(
        ",JobID,JobName,State,ExitCode,Start,End,NodeList\n"
        '0,812,"bert, long",NODE_FAIL,1:0,2025-02-03T08:00:05,2025-02-03T08:10:05,"dgx[07,09]"\n'
        '1,813,say "hi",COMPLETED,0:0,2025-02-03T08:20:05,2025-02-03T08:30:05,dgx07\n',
        (
            expect("sessions", job_id="812", name="bert, long", state="NODE_FAIL", hosts=["dgx07", "dgx09"]),
            expect("sessions", job_id="813", name='say "hi"', state="COMPLETED", hosts=["dgx07"]),
        ),
    ),
    Sample(
        '"JobID";"State";"ExitCode";"NodeList"\n"812";"FAILED";"7:0";"dgx[07-08]"\n',
        (expect("sessions", job_id="812", state="FAILED", exit_code=7, hosts=["dgx07", "dgx08"]),),
    ),
)

FORMAT: Final = DocumentFormat(
    name="sacct",
    doc="Slurm accounting as `sacct --parsable2` or `--parsable` prints it, best with `--duplicates`: a row for each "
    "placement of a job. Steps are left out. Columns of fixed width are read too, but for the cells that were cut.",
    url="https://slurm.schedmd.com/sacct.html",
    tables=("sessions",),
    detects=detects,
    read=read,
    read_columns=read_columns,
    samples=_SAMPLES,
    non_samples=(
        "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode \n",
        "NODELIST|STATE|REASON|USER|TIMESTAMP\ndgx07|idle|none|Unknown|Unknown\n",
        "JobID|colour|taste\n1|red|sweet\n",
        '"JobID","colour","taste"\n"1","red","sweet"\n',
        ",step,loss,lr\n0,1,2.5,0.1\n",
        "step|loss|lr\n1|2.5|0.1\n",
    ),
)
