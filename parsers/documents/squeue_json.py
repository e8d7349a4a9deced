"""squeue --json and scontrol show job --json: the jobs that the controller knows, as one JSON document.

    {"jobs": [{"job_id": 812, "job_state": ["RUNNING"], "name": "bert", "user_name": "mira", "nodes": "dgx[07-08]",
               "submit_time": {"set": true, "number": 1738569600}, "start_time": {"set": true, "number": 1738569605},
               "excluded_nodes": "dgx03", "tres_alloc_str": "cpu=16,node=2,gres/gpu=16"}]}

Documented at https://slurm.schedmd.com/rest_api.html (schema of ``/slurm/jobs``), releases 20.11 to 25.11; the number
objects come with 23.02. Times are seconds since 1970. The start of a job that waits, and the end of one that runs, are
guesses of the scheduler and are not taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from aftershock.parsers.documents.slurm_job import JobText
from aftershock.parsers.documents.slurm_json import (
    digits_of,
    exit_pair_of,
    number_of,
    object_of,
    sessions_of,
    shown_id,
    state_word,
    text_of,
)
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect

# What the controller's jobs have, and those of the accounting have not.
_OWN: Final = (b'"job_state"', b'"tres_alloc_str"', b'"current_working_directory"')


def detects(head: Head) -> float:
    """Sure of a JSON object with an array of jobs that have what the controller's have."""
    start = head.data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if start != b"{" or b'"jobs"' not in head.data or b'"job_id"' not in head.data:
        return 0.0
    return 0.94 if any(mark in head.data for mark in _OWN) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The sessions of a document, job by job."""
    return sessions_of(stream, "squeue_json", _job_text)


def _job_text(job: dict[str, Any]) -> JobText | None:
    raw = number_of(job.get("job_id"))
    if raw is None:
        return None
    array = {
        "job_id": job.get("array_job_id"),
        "task_id": job.get("array_task_id"),
        "task": job.get("array_task_string"),
    }
    het = {"job_id": job.get("het_job_id"), "job_offset": job.get("het_job_offset")}
    return JobText(
        tool="squeue_json",
        job_id=shown_id(raw, array, het),
        raw_job_id=str(raw),
        cluster=text_of(job.get("cluster")),
        name=text_of(job.get("name")),
        user=text_of(job.get("user_name")) or digits_of(job.get("user_id")),
        work_dir=text_of(job.get("current_working_directory")),
        partition=text_of(job.get("partition")),
        nodes=text_of(job.get("nodes")) if "nodes" in job else None,
        n_nodes=digits_of(job.get("node_count")),
        tres=(text_of(job.get("tres_alloc_str")), text_of(job.get("tres_req_str"))),
        submit=digits_of(job.get("submit_time")),
        start=digits_of(job.get("start_time")) if "start_time" in job else None,
        end=digits_of(job.get("end_time")) if "end_time" in job else None,
        state=state_word(job.get("job_state")),
        exit=_exit(job.get("exit_code")),
        reason=text_of(job.get("state_reason")),
        excluded=text_of(job.get("excluded_nodes")) if "excluded_nodes" in job else None,
        wanted=text_of(job.get("required_nodes")),
        submit_line=text_of(job.get("submit_line")),
        command=text_of(job.get("command")),
    )


def _exit(code: Any) -> str | None:
    """``code:signal``; releases before 23.02 print the status of wait() as one number."""
    if isinstance(code, dict) and "return_code" in code:
        return exit_pair_of(object_of(code))
    status = number_of(code)
    return None if status is None else f"{status >> 8 & 0xFF}:{status & 0x7F}"


FORMAT: Final = DocumentFormat(
    name="squeue_json",
    doc="Jobs as `squeue --json` and `scontrol show job --json` print them: a row for each job that the controller "
    "knows.",
    url="https://slurm.schedmd.com/squeue.html#OPT_json",
    tables=("sessions",),
    detects=detects,
    read=read,
    samples=(
        Sample(
            '{"meta": {"plugin": {"type": "openapi/v0.0.38"}}, "jobs": [{"job_id": 812, "job_state": "RUNNING", '
            '"name": "bert", "user_name": "mira", "nodes": "dgx[07-08]", "submit_time": 1738569600, '
            '"start_time": 1738569605, '
            '"end_time": 1738656005, "array_job_id": 0, "array_task_id": null, "exit_code": 0, "excluded_nodes": "", '
            '"required_nodes": "dgx[07-08]", "node_count": 2, "tres_alloc_str": "cpu=16,node=2,gres/gpu=16", '
            '"command": "/home/mira/a.sh", "state_reason": "None"}]}\n',
            (
                expect(
                    "sessions",
                    job_id="812",
                    user="mira",
                    state="RUNNING",
                    hosts=["dgx07", "dgx08"],
                    n_gpus=16,
                    start_time=1738569605_000_000,
                    end_time=None,
                    excluded_hosts=[],
                    designated_hosts=["dgx07", "dgx08"],
                    command="/home/mira/a.sh",
                ),
            ),
        ),
        Sample(
            '{"jobs": [{"job_id": 81, "job_state": ["PENDING"], "name": "sweep", "user_name": "ines", "nodes": "", '
            '"submit_time": {"set": true, "infinite": false, "number": 1738569600}, "start_time": {"set": true, '
            '"infinite": false, "number": 1738600000}, "array_job_id": {"set": true, "number": 77}, "array_task_id": '
            '{"set": true, "infinite": false, "number": 4}, "excluded_nodes": "dgx03", "state_reason": "Priority", '
            '"tres_req_str": "cpu=8,gres/gpu=8"}], "meta": {"command": ["show", "jobs"]}}\n',
            (
                expect(
                    "sessions",
                    job_id="77_4",
                    raw_job_id="81",
                    state="PENDING",
                    start_time=None,
                    hosts=[],
                    excluded_hosts=["dgx03"],
                    end_reason="Priority",
                ),
            ),
        ),
        Sample(
            '{"jobs": [{"job_id": 82, "job_state": ["RUNNING"], "name": "bert", "user_name": "mira", "nodes": "dgx07", '
            '"node_count": {"set": true, "infinite": false, "number": 1}, "restart_cnt": 0, '
            '"submit_time": {"set": true, "infinite": false, "number": 1738569600}, "start_time": {"set": true, '
            '"infinite": false, "number": 1738569605}, "end_time": {"set": true, "infinite": false, "number": '
            '1738655999}}], "meta": {"plugin": {"type": "openapi\\/slurmctld", "data_parser": "data_parser\\/v0.0.42", '
            '"accounting_storage": "accounting_storage\\/slurmdbd"}, "slurm": {"release": "24.11.5"}}}\n',
            (
                expect(
                    "sessions",
                    job_id="82",
                    user="mira",
                    state="RUNNING",
                    start_time=1738569605_000_000,
                    end_time=None,
                ),
            ),
            "The controller names the plugin of its accounting",
        ),
    ),
    non_samples=(
        '{"jobs": [{"title": "baker", "job_state": "open"}]}\n',
        '{"meta": {}, "nodes": []}\n',
        '[{"job_id": 1, "job_state": "RUNNING"}]\n',
    ),
    aliases=("squeue", "scontrol_job"),
)
