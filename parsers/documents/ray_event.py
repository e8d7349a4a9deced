r"""Ray: the event logs of a session, ``logs/events/event_GCS.log``, ``event_RAYLET_....log``, ``event_JOBS.log``.

    {"custom_fields":{"ip":"10.0.0.7","node_id":"ada3..."},"event_id":"1820...","host_name":"head","label":
     "RAY_NODE_REMOVED","message":"The node with node id: ada3... and address: 10.0.0.7 and node name: dgx07 has been
     marked dead because ...","pid":"65","severity":"ERROR","source_type":"GCS","timestamp":1738573811}
    {"event_id":"1Ac5","source_type":"JOBS","source_hostname":"head","severity":"INFO","message":"Completed a ray job
     bert with a status FAILED.","timestamp":"1738573811","custom_fields":{"submission_id":"bert"}}

One object a line. The members are in src/ray/util/event.cc and python/ray/_private/event/event_logger.py of
https://github.com/ray-project/ray; they are shown by ``ray list cluster-events``. Events that only inform, but for
those about jobs, are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from aftershock.parsers.documents.iso_clock import stated_time
from aftershock.parsers.documents.json_records import json_start, load_record, records_of, text_member
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.schemas.events import SchedulerEvent

_WORDS: Final = tuple(
    re.compile(rb'"' + word + rb'"\s*:\s*"')
    for word in (b"event_id", b"(?:host_name|source_hostname)", b"severity", b"message")
)
_SOURCES: Final = frozenset(
    ["COMMON", "CORE_WORKER", "GCS", "RAYLET", "CLUSTER_LIFECYCLE", "AUTOSCALER", "JOBS", "SERVE"]
)
_SOURCE: Final = re.compile(rf'"source_type"\s*:\s*"(?:{"|".join(sorted(_SOURCES))})"'.encode())
_NAME: Final = re.compile(r"\bnode name: (?P<name>[\w.-]{1,253})\b")
_ADDRESS: Final = re.compile(r"[0-9.]{7,15}\Z")
_JOB: Final = re.compile(
    r"(?P<what>Started|Completed) a ray job (?P<job>\S{1,128}?)(?:\.\s*\Z| with a status (?P<status>[A-Z]{4,12})\b)"
)
_STATES: Final = {"SUCCEEDED": "COMPLETED", "FAILED": "FAILED", "STOPPED": "CANCELLED"}
# What a label means: kind and state. A node that is dead is one of the session: the host may be well.
_LABELS: Final = {
    "RAY_NODE_REMOVED": ("node_state", "DEAD"),
    "RAYLET_MARKED_DEAD": ("node_state", "DEAD"),
    "RAY_FATAL_CHECK_FAILED": ("daemon_stop", "FAILED"),
    "RAY_WORKER_FAILURE": ("task_ended", "FAILED"),
    "RAY_DRIVER_FAILURE": ("task_ended", "FAILED"),
}
_LONGEST: Final = 4096


def detects(head: Head) -> float:
    """Sure of the members that only its events have together."""
    start = json_start(head.data)
    return 0.9 if _SOURCE.search(start) and all(word.search(start) for word in _WORDS) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The events about nodes, workers and jobs."""
    for element in records_of(stream):
        if isinstance(element, Refused):
            yield element._replace(reason=f"ray_event: {element.reason}")
            continue
        record = load_record(element)
        if record is None:
            yield Refused(element.offset, len(element.data), "ray_event: not JSON", element.data[:512])
            continue
        row = _row(record)
        if row is not None:
            yield Found(row, stated_time(record.get("timestamp")), element.offset)


def _row(record: dict[str, Any]) -> SchedulerEvent | None:
    message = (text_member(record, "message") or "").strip()
    label, host = (
        text_member(record, "label"),
        text_member(record, "host_name") or text_member(record, "source_hostname"),
    )
    source = text_member(record, "source_type")
    if source == "JOBS":
        return _job_row(record, message)
    known = _LABELS.get(label or "") if source in _SOURCES else None
    if known is None:
        return None
    row = SchedulerEvent(scheduler="ray", kind=known[0], state=known[1], reason=label, message=message[:_LONGEST])
    if label == "RAY_NODE_REMOVED":
        # The event is the head's: which node it is about stands in the message, by name or by address.
        named = _NAME.search(message)
        host = (
            named["name"] if named and not _ADDRESS.match(named["name"]) else text_member(record, "custom_fields", "ip")
        )
    row.host_raw = host
    row.hosts = [host] if host and row.kind == "node_state" else None
    job = text_member(record, "custom_fields", "job_id")
    if job and job.strip("f"):  # of the system itself
        row.job_id = row.raw_job_id = job
    return row


def _job_row(record: dict[str, Any], message: str) -> SchedulerEvent | None:
    told = _JOB.match(message)
    if told is None:
        return None
    job = text_member(record, "custom_fields", "submission_id") or told["job"]
    row = SchedulerEvent(scheduler="ray", job_id=job, raw_job_id=job, message=message[:_LONGEST])
    row.kind = "started" if told["what"] == "Started" else "ended"
    if row.kind == "ended":
        row.state = _STATES.get(told["status"] or "", told["status"])
        row.reason = message[told.end() :].strip(". ")[:512] or None
    return row


_REMOVED: Final = (
    '{"custom_fields":{"ip":"10.0.0.7","node_id":"4f2e"},"event_id":"1820787c","host_name":"head1",'
    '"label":"RAY_NODE_REMOVED","message":"The node with node id: 4f2e and address: 10.0.0.7 and node name: NAME has '
    'been marked dead because the detector has missed too many heartbeats from it.","pid":"65","severity":"ERROR",'
    '"source_type":"GCS","timestamp":1738573811}\n'
)

FORMAT: Final = DocumentFormat(
    name="ray_event",
    doc="The event logs of a Ray session: nodes that died, workers and drivers that failed, jobs that began and ended.",
    url="https://docs.ray.io/en/latest/ray-observability/reference/cli.html",
    tables=("scheduler_events",),
    detects=detects,
    read=read,
    samples=(
        Sample(
            _REMOVED.replace("NAME", "dgx07")
            + _REMOVED.replace("NAME", "10.0.0.7")
            + '{"custom_fields":{"node_id":"4f2e"},"event_id":"03cd","host_name":"dgx08","label":"RAYLET_MARKED_DEAD",'
            '"message":"[Timeout] Exiting because this node manager has mistakenly been marked as dead by the GCS",'
            '"pid":"89","severity":"FATAL","source_type":"RAYLET","timestamp":1738573812}\n'
            '{"custom_fields":{"job_id":"01000000","worker_id":"aa"},"event_id":"03ce","host_name":"dgx08","label":'
            '"RAY_WORKER_FAILURE","message":"A worker died or was killed while executing a task by an unexpected '
            'system error.","pid":"89","severity":"ERROR","source_type":"RAYLET","timestamp":1738573813}\n',
            (
                expect("scheduler_events", kind="node_state", hosts=["dgx07"], time=1_738_573_811_000_000),
                expect("scheduler_events", kind="node_state", hosts=["10.0.0.7"]),
                expect("scheduler_events", kind="node_state", hosts=["dgx08"], host="dgx08"),
                expect("scheduler_events", kind="task_ended", job_id="01000000", host="dgx08", state="FAILED"),
            ),
        ),
        Sample(
            '{"event_id":"1Ac5","source_type":"JOBS","source_hostname":"head1","source_pid":568,"severity":"INFO",'
            '"message":"Started a ray job bert-1.","timestamp":"1738573811","custom_fields":{"submission_id":"bert-1"}}'
            '\n{"event_id":"1Ac6","source_type":"JOBS","source_hostname":"head1","source_pid":568,"severity":"ERROR",'
            '"message":"Completed a ray job bert-1 with a status FAILED. Job entrypoint command failed with exit code '
            '1","timestamp":"1738573911","custom_fields":{"submission_id":"bert-1"}}\n',
            (
                expect("scheduler_events", kind="started", job_id="bert-1", time=1_738_573_811_000_000),
                expect(
                    "scheduler_events",
                    kind="ended",
                    state="FAILED",
                    reason="Job entrypoint command failed with exit code 1",
                ),
            ),
        ),
    ),
    non_samples=(
        '{"source_type":"GCS","bucket":"raw"}\n',
        '{"event_id":"1","source_type":"GCS","host_name":"h","severity":"INFO","message":"Cluster started"}\n',
        '{"event_id":"1","source_type":"email","host_name":"h","severity":"ERROR","message":"x","label":"RAY_NODE_REMOVED"}\n',
    ),
)
