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

import orjson

from aftershock.parsers.documents.json_elements import Element, elements_of
from aftershock.parsers.documents.slurm_job import JobText, session_of
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.parsers.slurm_words import job_state
from aftershock.schemas.sessions import Session

# What only the accounting of Slurm has, not the job lists of squeue and scontrol, which are also {"jobs": [...]}.
_OWN: Final = (b"dbv0.", b"slurmdb", b'"sacct"', b'"association"', b'"kill_request_user"')


def detects(head: Head) -> float:
    """Sure of a JSON object with an array of jobs that have what accounting records have."""
    start = head.data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if start != b"{" or b'"jobs"' not in head.data:
        return 0.0
    return 0.95 if any(mark in head.data for mark in _OWN) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The sessions of a document, job by job."""
    for element in elements_of(stream, "jobs"):
        if isinstance(element, Refused):
            yield element._replace(reason=f"sacct_json: {element.reason}")
        else:
            yield from _rows(element)


def _rows(element: Element) -> Iterator[Found | Refused]:
    data = element.data
    try:
        job = orjson.loads(data)
    except orjson.JSONDecodeError:
        # Names of jobs are bytes to Slurm: it may print what is no UTF-8.
        try:
            job = orjson.loads(data.decode("utf-8", "replace"))
        except orjson.JSONDecodeError:
            yield Refused(element.offset, len(data), "sacct_json: record is not JSON", data[:512])
            return
    text = _job_text(job)
    if text is None:
        yield Refused(element.offset, len(data), "sacct_json: record has no job_id", data[:512])
        return
    for item in session_of(text, element.offset, data):
        if isinstance(item, Found) and isinstance(item.row, Session):
            _doubt_exit_code(item.row)
        yield item


def _doubt_exit_code(row: Session) -> None:
    """0 for a job that did not complete is what 22.05 prints for any exit code."""
    if row.state != "COMPLETED" and row.exit_code == 0:
        row.exit_code = None


def _job_text(job: dict[str, Any]) -> JobText | None:
    raw = _number(job.get("job_id"))
    if raw is None:
        return None
    time = _object(job.get("time"))
    association = _object(job.get("association"))
    state = _object(job.get("state"))
    tres = _object(job.get("tres"))
    return JobText(
        tool="sacct_json",
        job_id=_shown_id(job, raw),
        raw_job_id=str(raw),
        cluster=_text(job.get("cluster")) or _text(association.get("cluster")),
        name=_text(job.get("name")),
        user=_text(job.get("user")) or _text(association.get("user")),
        work_dir=_text(job.get("working_directory")),
        partition=_text(job.get("partition")),
        nodes=_text(job.get("nodes")) if "nodes" in job else None,
        n_nodes=_digits(job.get("allocation_nodes")),
        tres=(_tres(tres.get("allocated")), _tres(tres.get("requested"))),
        submit=_digits(time.get("submission")),
        start=_digits(time.get("start")) if "start" in time else None,
        end=_digits(time.get("end")) if "end" in time else None,
        elapsed=_digits(time.get("elapsed")),
        state=_state(state.get("current")),
        cancelled_by=_text(job.get("kill_request_user")),
        exit=_exit(_object(job.get("exit_code"))),
        reason=_text(state.get("reason")),
        submit_line=_text(job.get("submit_line")),
    )


def _shown_id(job: dict[str, Any], raw: int) -> str:
    """The id as sacct shows it in its tables: ``9_2``, ``9_[0-3]``, ``123+1`` or the plain number."""
    array, het = _object(job.get("array")), _object(job.get("het"))
    array_id, task = _number(array.get("job_id")), _number(array.get("task_id"))
    if array_id and task is not None:
        return f"{array_id}_{task}"
    tasks = _text(array.get("task"))
    if array_id and tasks:
        return f"{array_id}_[{tasks.strip('[]')}]"
    het_id, offset = _number(het.get("job_id")), _number(het.get("job_offset"))
    return f"{het_id}+{offset}" if het_id and offset is not None else str(raw)


def _state(current: Any) -> str | None:
    """The base state of a list that may hold flags too; a word alone as it is."""
    words = [word for word in current if isinstance(word, str)] if isinstance(current, list) else [_text(current)]
    known = [word for word in words if word and job_state(word)[0] == word.upper()]
    ended = [word for word in known if word.upper() not in ("PENDING", "RUNNING")]
    return next(iter(ended or known or [word for word in words if word]), None)


def _exit(code: dict[str, Any]) -> str | None:
    """``code:signal`` out of {status, return_code, signal}."""
    signal = _object(code.get("signal"))
    number = _number(signal.get("id"))
    if number is None:
        number = _number(signal.get("signal_id"))
    status = _number(code.get("return_code"))
    return f"{status or 0}:{number or 0}" if status is not None or number is not None else None


def _tres(entries: Any) -> str | None:
    """The GPUs of a list of {type, name, count}, as the tables print them."""
    if not isinstance(entries, list):
        return None
    counts = []
    for entry in entries:
        one = _object(entry)
        name, count = _text(one.get("name")) or "", _number(one.get("count"))
        if one.get("type") == "gres" and name.split(":", 1)[0] == "gpu" and count is not None:
            counts.append(f"gres/{name}={count}")
    return ",".join(counts)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int | None:
    """A whole number, plain or as {set, infinite, number}; None for one that is not set."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") is not False and not value.get("infinite") else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _digits(value: Any) -> str:
    """The same as text. Slurm writes 0 for a time that there is not; a word that is no number stays, to be refused."""
    number = _number(value)
    if number is None:
        return value if isinstance(value, str) else ""
    return str(number)


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
        '{"step": 10, "loss": 2.5}\n',
    ),
    aliases=("sacct",),
)
