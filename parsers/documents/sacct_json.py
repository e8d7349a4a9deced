"""sacct --json: Slurm's accounting as one JSON document, releases 21.08 to 25.11.

    {"jobs": [{"job_id": 812, "array": {"job_id": 0, ...}, "state": {"current": ["NODE_FAIL"], "reason": "None"},
               "time": {"submission": 1738569600, "start": 1738569605, "end": 1738570205, "elapsed": 600},
               "nodes": "dgx[07-08]", "exit_code": {"status": ["ERROR"], "return_code": {"set": true, "number": 1}}}]}

Documented at https://slurm.schedmd.com/sacct.html (--json) and https://slurm.schedmd.com/rest_api.html (schema of
``/slurmdb/jobs``). Times are seconds since 1970. From 23.02 on a number may be ``{"set": ..., "infinite": ...,
"number": ...}``, and states and statuses are lists. 22.05 prints the exit code of every job as 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from aftershock.parsers.documents.slurm_job import JobText
from aftershock.parsers.documents.slurm_json import (
    digits_of,
    exit_pair_of,
    gpus_of,
    number_of,
    object_of,
    sessions_of,
    shown_id,
    state_word,
    text_of,
)
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.schemas.sessions import Session

# What only the accounting of Slurm has, not the job lists of squeue and scontrol, which are also {"jobs": [...]}.
_OWN: Final = (
    b"dbv0.",
    b"openapi/slurmdb",
    b"openapi\\/slurmdb",
    b'"sacct"',
    b'"association"',
    b'"kill_request_user"',
    b'"submission"',
    b'"elapsed"',
)


def detects(head: Head) -> float:
    """Sure of a JSON object with an array of jobs that have what accounting records have.

    What the controller prints may name the plugin of the accounting too; the state of its jobs is called otherwise.
    """
    start = head.data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if start != b"{" or b'"jobs"' not in head.data or b'"job_state"' in head.data:
        return 0.0
    return 0.95 if any(mark in head.data for mark in _OWN) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The sessions of a document, job by job."""
    for item in sessions_of(stream, "sacct_json", _job_text):
        if isinstance(item, Found) and isinstance(item.row, Session):
            _doubt_exit_code(item.row)
        yield item


def _doubt_exit_code(row: Session) -> None:
    """0 for a job that did not complete is what 22.05 prints for any exit code."""
    if row.state != "COMPLETED" and row.exit_code == 0:
        row.exit_code = None


def _job_text(job: dict[str, Any]) -> JobText | None:
    raw = number_of(job.get("job_id"))
    if raw is None:
        return None
    time = object_of(job.get("time"))
    association = object_of(job.get("association"))
    state = object_of(job.get("state"))
    tres = object_of(job.get("tres"))
    return JobText(
        tool="sacct_json",
        job_id=shown_id(raw, object_of(job.get("array")), object_of(job.get("het"))),
        raw_job_id=str(raw),
        cluster=text_of(job.get("cluster")) or text_of(association.get("cluster")),
        name=text_of(job.get("name")),
        user=text_of(job.get("user")) or text_of(association.get("user")),
        work_dir=text_of(job.get("working_directory")),
        partition=text_of(job.get("partition")),
        nodes=text_of(job.get("nodes")) if "nodes" in job else None,
        n_nodes=digits_of(job.get("allocation_nodes")),
        tres=(gpus_of(tres.get("allocated")), gpus_of(tres.get("requested"))),
        submit=digits_of(time.get("submission")),
        start=digits_of(time.get("start")) if "start" in time else None,
        end=digits_of(time.get("end")) if "end" in time else None,
        elapsed=digits_of(time.get("elapsed")),
        state=state_word(state.get("current")),
        cancelled_by=text_of(job.get("kill_request_user")),
        exit=exit_pair_of(object_of(job.get("exit_code"))),
        reason=text_of(state.get("reason")),
        submit_line=text_of(job.get("submit_line")),
    )


_SAMPLES: Final = (
    # 22.05: words and plain numbers.
    Sample(
        '{"meta": {"plugin": {"type": "openapi\\/dbv0.0.38"}}, "errors": [], "jobs": [{"job_id": 812, "name": "bert",'
        ' "array": {"job_id": 0, "task": null, "task_id": null}, "het": {"job_id": 0, "job_offset": null},'
        ' "association": {"cluster": "alpha", "user": "mira"}, "allocation_nodes": 2, "nodes": "dgx[07-08]",'
        ' "state": {"current": "FAILED", "reason": "None"}, "exit_code": {"status": "SUCCESS", "return_code": 0},'
        ' "time": {"submission": 1738569600, "start": 1738569605, "end": 1738570205, "elapsed": 600},'
        ' "tres": {"allocated": [{"type": "gres", "name": "gpu", "count": 16}]}, "kill_request_user": null}]}\n',
        (
            expect(
                "sessions",
                cluster="alpha",
                job_id="812",
                user="mira",
                state="FAILED",
                hosts=["dgx07", "dgx08"],
                n_gpus=16,
                exit_code=None,
                duration_s=600.0,
            ),
        ),
    ),
    # 24.05: lists and number objects; an array task that was cancelled before it started.
    Sample(
        '{"jobs": [{"job_id": 81, "name": "sweep", "array": {"job_id": 77, "task_id": {"set": true, "infinite": false,'
        ' "number": 4}, "task": ""}, "association": {"cluster": "alpha", "user": "ines"}, "nodes": "None assigned",'
        ' "state": {"current": ["CANCELLED"], "reason": "Priority"}, "exit_code": {"status": ["SUCCESS"],'
        ' "return_code": {"set": true, "infinite": false, "number": 0}, "signal": {"id": {"set": false, "number": 0},'
        ' "name": ""}}, "time": {"submission": 1738569600, "start": 0, "end": 1738570205, "elapsed": 0},'
        ' "kill_request_user": "ines", "submit_line": "sbatch -x dgx03 a.sh"}], "meta": {"command": ["sacct"]}}\n',
        (
            expect(
                "sessions",
                job_id="77_4",
                raw_job_id="81",
                state="CANCELLED",
                cancelled_by="ines",
                start_time=None,
                hosts=[],
                end_reason="Priority",
                excluded_hosts=["dgx03"],
            ),
        ),
    ),
)

FORMAT: Final = DocumentFormat(
    name="sacct_json",
    doc="Slurm accounting as `sacct --json` prints it: a row for each placement of a job.",
    url="https://slurm.schedmd.com/sacct.html#OPT_json",
    tables=("sessions",),
    detects=detects,
    read=read,
    samples=_SAMPLES,
    non_samples=(
        '{"jobs": [{"title": "baker"}]}\n',
        '{"meta": {}, "nodes": []}\n',
        '[{"job_id": 1, "association": {}}]\n',
        '{"meta": {"plugin": {"accounting_storage": "accounting_storage\\/slurmdbd"}}, "jobs": [{"title": "baker"}]}\n',
        '{"step": 10, "loss": 2.5}\n',
    ),
    aliases=("sacct",),
)
