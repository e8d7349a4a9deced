"""Backend.AI: sessions, kernels, agents, scheduling history and audit log as exported, JSON or CSV.

    {"items": [{"id": "6b1f0a52-...", "name": "llm-7b", "status": "TERMINATED", "status_info": "agent-termination",
                "result": "FAILURE", "agent_ids": ["i-gpu012", "i-gpu031"], "status_history": {"PENDING": "2026-..."}}]}
    ID,Name,Status,Created At,Terminated At,Resource Group Name,Kernel Agent           (a row for each kernel)

The members are the columns of src/ai/backend/manager/models of https://github.com/lablup/backend.ai, read here for
releases 24.03 to 26.8; the CSV is BEP-1025 (proposals/BEP-1025-server-side-csv-export.md), whose caller picks the
columns. Links of retries are those that BEP-1053 proposed (``parent_session_id``). A session's agents are its hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

from aftershock.parsers.documents.backendai_agents import agent_rows, audit_rows, history_rows
from aftershock.parsers.documents.backendai_merge import settle
from aftershock.parsers.documents.backendai_records import Kind, Record, detects, records
from aftershock.parsers.documents.backendai_sessions import kernel_rows, session_rows
from aftershock.parsers.formats import DocumentFormat, Found, Refused, Sample, expect

_ROWS: Final[dict[Kind, Callable[[Record], list[Found | Refused]]]] = {
    "session": session_rows,
    "kernel": kernel_rows,
    "agent": agent_rows,
    "history": history_rows,
    "audit": audit_rows,
}


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The rows of all records."""
    for record in records(stream):
        items = [record] if isinstance(record, Refused) else _ROWS[record.kind](record)
        for item in items:
            if isinstance(item, Refused):
                yield item._replace(reason=f"backendai_export: {item.reason}")
            else:
                yield item


_S1: Final = "6b1f0a52-93c4-4e6d-8a17-0f2d9c55e101"
_S2: Final = "6b1f0a52-93c4-4e6d-8a17-0f2d9c55e102"
_K1: Final = "d04c7e9a-1b2f-4f0e-9d61-7700aa31c201"
_K2: Final = "d04c7e9a-1b2f-4f0e-9d61-7700aa31c202"

_SAMPLES: Final = (
    # A session that an agent took down with it, and the session that retries it, with the agents it may use.
    Sample(
        '{"count": 2, "total_count": 2, "items": [{"session_id": "' + _S1 + '", "name": "llm-7b", "type": "batch", '
        '"scaling_group": "b200", "user_email": "mira@example.org", "access_key": "AKIAQ2WVX7NEXAMPLE00", '
        '"status": "TERMINATED", "status_info": "agent-termination", "status_data": null, "result": "UNDEFINED", '
        '"agent_ids": ["i-gpu012", "i-gpu031"], "occupying_slots": {"cpu": "64", "cuda.device": "16"}, '
        '"created_at": "2026-03-02T07:00:00.000000+00:00", "terminated_at": "2026-03-02T09:00:00+00:00", '
        '"status_history": {"PENDING": "2026-03-02T07:00:00+00:00", "SCHEDULED": "2026-03-02T07:00:02+00:00", '
        '"PREPARING": "2026-03-02T07:00:03+00:00", "RUNNING": "2026-03-02T07:01:00+00:00", '
        '"TERMINATED": "2026-03-02T09:00:00+00:00"}}, {"session_id": "' + _S2 + '", "name": "llm-7b", '
        '"scaling_group": "b200", "status": "RUNNING", "status_info": "triggered-by-scheduler", "result": "UNDEFINED", '
        '"agent_ids": ["i-gpu013", "i-gpu031"], "designated_agent_ids": ["i-gpu013", "i-gpu031", "i-gpu032"], '
        '"parent_session_id": "' + _S1 + '", "retry_count": 1, "status_history": {"PENDING": '
        '"2026-03-02T09:10:00+00:00", "RUNNING": "2026-03-02T09:11:00+00:00"}}]}\n',
        (
            expect(
                "sessions",
                scheduler="backendai",
                job_id=_S1,
                user="mira@example.org",
                partition="b200",
                hosts=["i-gpu012", "i-gpu031"],
                n_gpus=16,
                submit_time=1772434800000000,
                start_time=1772434860000000,
                end_time=1772442000000000,
                duration_s=7140.0,
                state="NODE_FAIL",
                end_reason="agent-termination",
            ),
            expect(
                "sessions",
                job_id=_S2,
                state="RUNNING",
                retry_of=_S1,
                designated_hosts=["i-gpu013", "i-gpu031", "i-gpu032"],
                end_reason=None,
                end_time=None,
            ),
        ),
        title="Sessions as the command line and the API answer them",
        url="https://github.com/lablup/backend.ai/tree/main/src/ai/backend/client/cli",
    ),
    # Back to the queue: what stands before the second PENDING belongs to a placement whose agents are not known.
    Sample(
        '{"id": "' + _S1 + '", "name": "llm-7b", "cluster_mode": "multi-node", "status": "ERROR", '
        '"status_info": "failed-to-start", "result": "FAILURE", "agent_ids": ["i-gpu031"], "created_at": '
        '"2026-03-02T07:00:00+00:00", "status_history": {"PREPARING": "2026-03-02T07:00:03+00:00", '
        '"RUNNING": "2026-03-02T07:01:00+00:00", "PENDING": "2026-03-02T08:00:00+00:00", '
        '"SCHEDULED": "2026-03-02T08:00:05+00:00", "ERROR": "2026-03-02T08:02:00+00:00"}}\n',
        (
            expect("scheduler_events", kind="submitted", job_id=_S1, time=1772434800000000),
            expect("scheduler_events", kind="started", job_id=_S1, time=1772434860000000),
            expect("scheduler_events", kind="requeued", job_id=_S1, time=1772438400000000),
            expect(
                "sessions",
                job_id=_S1,
                submit_time=1772438400000000,
                start_time=1772438405000000,
                hosts=["i-gpu031"],
                state="FAILED",
                end_reason="failed-to-start",
            ),
        ),
        title="Sessions as the command line and the API answer them",
    ),
    Sample(
        "\ufeffID,Name,Status,Status Info,Resources Used,Created At,Terminated At,Resource Group Name,Kernel Role,"
        "Kernel Agent\n"
        f'{_S1},llm-7b,TERMINATED,task-finished,"{{""cpu"": ""64"", ""cuda.shares"": ""16.0""}}",'
        "2026-03-02T07:00:00+00:00,2026-03-02T09:00:00+00:00,b200,sub,i-gpu031\n"
        f'{_S1},llm-7b,TERMINATED,task-finished,"{{""cpu"": ""64"", ""cuda.shares"": ""16.0""}}",'
        "2026-03-02T07:00:00+00:00,2026-03-02T09:00:00+00:00,b200,main,i-gpu012\n",
        (
            expect(
                "sessions",
                job_id=_S1,
                partition="b200",
                hosts=["i-gpu012", "i-gpu031"],
                n_hosts=2,
                n_gpus=16,
                start_time=None,
                state="COMPLETED",
                end_reason="task-finished",
            ),
        ),
        title="The CSV export",
        url="https://github.com/lablup/backend.ai/blob/main/proposals/BEP-1025-server-side-csv-export.md",
    ),
    # The kernels of one session: it is over when the last is, and failed as the one that failed.
    Sample(
        f'[{{"id": "{_K2}", "session_id": "{_S1}", "agent": "i-gpu031", "cluster_role": "sub", "cluster_idx": 1, '
        '"status": "TERMINATED", "status_info": "self-terminated", "status_data": {"kernel": {"exit_code": 137}}, '
        '"occupied_slots": {"cuda.device": "8"}, "status_history": {"PENDING": "2026-03-02T07:00:00Z", '
        '"RUNNING": "2026-03-02T07:01:00Z", "TERMINATED": "2026-03-02T09:00:00Z"}},'
        f'{{"id": "{_K1}", "session_id": "{_S1}", "agent": "i-gpu012", "cluster_role": "main", "cluster_idx": 1, '
        '"status": "TERMINATED", "status_info": "user-requested", "status_data": null, '
        '"occupied_slots": {"cuda.device": "8"}, "status_history": {"PENDING": "2026-03-02T07:00:00Z", '
        '"RUNNING": "2026-03-02T07:01:05Z", "TERMINATED": "2026-03-02T09:00:03Z"}}]\n',
        (
            expect(
                "sessions",
                job_id=_S1,
                hosts=["i-gpu012", "i-gpu031"],
                n_gpus=16,
                exit_code=137,
                state="FAILED",
                start_time=1772434865000000,
                end_time=1772442003000000,
                time_error_s=60.0,
            ),
        ),
        title="Kernels",
    ),
    Sample(
        '{"items": [{"id": "i-gpu012", "status": "LOST", "scaling_group": "b200", "schedulable": true, '
        '"first_contact": "2026-01-05T00:00:00Z", "lost_at": "2026-03-02T09:00:00Z", '
        '"compute_plugins": "{\\"cuda\\": {\\"nvidia_version\\": \\"580.95.05\\"}}"}, '
        '{"id": "i-gpu013", "status": "ALIVE", "scaling_group": "b200", "schedulable": false, '
        '"first_contact": "2026-01-05T00:00:00Z", "lost_at": null, "compute_plugins": "{}"}]}\n',
        (
            expect("hosts", host="i-gpu012", partition="b200", driver="580.95.05", valid_to=1772442000000000),
            expect("scheduler_events", kind="node_down", host="i-gpu012", state="LOST", time=1772442000000000),
            expect("hosts", host="i-gpu013", valid_from=1767571200000000, valid_to=None),
            expect("scheduler_events", kind="node_cordon", host="i-gpu013", time=None),
        ),
        title="Agents",
    ),
    Sample(
        f'{{"session_id": "{_S1}", "phase": "check-creating-progress", "from_status": "CREATING", '
        '"to_status": "RUNNING", "result": "SUCCESS", "error_code": null, "message": "ok", "attempts": 1, '
        '"created_at": "2026-03-02T07:01:00+00:00"}\n'
        f'{{"session_id": "{_S2}", "phase": "start-sessions", "from_status": "PREPARED", "to_status": null, '
        '"result": "NEED_RETRY", "error_code": null, "message": "...", "attempts": 7, '
        '"created_at": "2026-03-02T07:02:00+00:00"}\n',
        (expect("scheduler_events", kind="started", job_id=_S1, time=1772434860000000),),
        title="Scheduling history",
    ),
    Sample(
        "ID,Entity Type,Entity ID,Operation,Status,Created At,Description,Triggered By\n"
        f"{_K1},session,{_S1},delete,success,2026-03-02T09:00:00+00:00,terminated,4b1e7f3a\n",
        (expect("scheduler_events", kind="cancelled", job_id=_S1, user="4b1e7f3a", time=1772442000000000),),
        title="Audit log",
    ),
)

FORMAT: Final = DocumentFormat(
    name="backendai_export",
    doc="Sessions, kernels, agents, scheduling history and audit log of Backend.AI, as its command line, its API, its "
    "CSV export and dumps of its database have them.",
    url="https://github.com/lablup/backend.ai/tree/main/src/ai/backend/manager/models",
    tables=("sessions", "scheduler_events", "hosts"),
    detects=detects,
    read=read,
    settle=settle,
    samples=_SAMPLES,
    non_samples=(
        '{"items": [{"id": "1", "status": "done", "created_at": "2026-03-02T07:00:00Z"}], "total_count": 1}\n',
        '{"session_id": "a1", "agent_ids": ["planner", "coder"], "messages": []}\n',
        '{"session_id": "a1", "container_id": "0a1b", "status": "ok"}\n',
        f'{{"session_id": "{_S2}", "phase": "start-sessions", "from_status": "PREPARED", "to_status": null, '
        '"result": "NEED_RETRY", "attempts": 5, "created_at": "2026-03-02T07:02:00+00:00"}\n',
        "ID,Name,Status,Created At\n1,a,ok,2026-03-02T07:00:00+00:00\n",
        "JobID|JobIDRaw|State|Start|End|NodeList\n812|812|FAILED|None|None|dgx07\n",
    ),
)
