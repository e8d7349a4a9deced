"""Events: what a component of the cluster said about a node, a pod or a job, in both shapes of the API.

    {"kind": "Event", "involvedObject": {"kind": "Node", "name": "gpu-012"}, "reason": "NodeNotReady", "message": "...",
     "source": {"component": "node-controller"}, "firstTimestamp": "...", "lastTimestamp": "...", "count": 7}
    {"kind": "Event", "regarding": {"kind": "Pod", "name": "train-0"}, "reason": "FailedScheduling", "note": "...",
     "reportingController": "default-scheduler", "eventTime": "...", "series": {"count": 4, "lastObservedTime": "..."}}

Documented at https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/. An event folds what
repeats: it states how often, first and last. The newer shape leaves the old times null. The cluster keeps events for an
hour, so a file may hold several looks at one event; the settling keeps the latest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aftershock.parsers.clock import NO_CLOCK, Reading
from aftershock.parsers.documents.iso_clock import stated_time
from aftershock.parsers.documents.json_records import member, text_member
from aftershock.parsers.documents.kubernetes.event_words import (
    JOB_KINDS,
    Said,
    said_of_job,
    said_of_node,
    said_of_pod,
)
from aftershock.parsers.documents.kubernetes.marks import event_mark
from aftershock.parsers.documents.kubernetes.objects import JsonObject, Meta, full_name, meta_from, whole
from aftershock.parsers.documents.kubernetes.owners import Job, job_named, job_of_pod
from aftershock.parsers.documents.kubernetes.problems import event_problems, is_problem
from aftershock.parsers.formats import Found
from aftershock.schemas.events import NodeEvent, SchedulerEvent

_ASSIGNED: Final = re.compile(r"assigned \S{1,300} to (\S{1,253})")
_PREEMPTED_ON: Final = re.compile(r"\bon node (\S{1,253})")
# System OOM encountered, victim process: python3, pid: 4711
_VICTIM: Final = re.compile(r"victim process: (.{1,64}?), pid: (\d{1,10})")
# Who makes the pods of jobs, and what becomes of the pods of others is no matter of a scheduler of training jobs.
_FIRST: Final = ("firstTimestamp", "deprecatedFirstTimestamp", "eventTime")
_LAST: Final = ("lastTimestamp", "deprecatedLastTimestamp")


def event_rows(event: JsonObject, offset: int) -> Iterator[Found]:
    """The rows of one event: those of node-problem-detector and of Xid lines too."""
    reading, last, count = _times(event)
    yield from event_problems(event, reading, last, count, offset)
    row: SchedulerEvent | NodeEvent | None
    about = event.get("involvedObject", event.get("regarding"))
    kind, name = text_member(about, "kind"), text_member(about, "name")
    reason, message = text_member(event, "reason") or "", _message(event)
    if kind is None or name is None:
        return
    host = name if kind == "Node" else _writer_host(event)
    if kind == "Node":
        if is_problem(event):
            return
        row = _of_node(name, reason, message)
    elif kind == "Pod":
        row = _of_pod(meta_from(about, name), reason, message)
        row.hosts = row.hosts or ([host] if host else None)
    elif kind in JOB_KINDS:
        row = _of_job(kind, meta_from(about, name), reason, message)
    else:
        return
    row.host_raw, row.count, row.message = host, count, message
    row.cluster = text_member(event, "clusterName")
    about_name = full_name(text_member(about, "namespace"), name)
    key = text_member(event, "metadata", "uid") or text_member(event, "metadata", "name")
    yield Found(row, reading, offset, event_mark(kind, about_name, key), last)


def _of_node(name: str, reason: str, message: str) -> SchedulerEvent | NodeEvent:
    victim = _VICTIM.search(message) if reason == "SystemOOM" else None
    if victim:
        return NodeEvent(kind="oom_kill", process=victim[1], pid=int(victim[2]), trust="relayed")
    said = said_of_node(reason)
    return _row(said, reason, None, [name])


def _of_pod(pod: Meta, reason: str, message: str) -> SchedulerEvent:
    job = job_of_pod(pod)
    found = _ASSIGNED.search(message) if reason == "Scheduled" else _PREEMPTED_ON.search(message)
    row = _row(said_of_pod(reason, message), reason, job, [found[1].rstrip(".,")] if found else None)
    row.job_id = row.job_id or pod.name
    return row


def _of_job(kind: str, meta: Meta, reason: str, message: str) -> SchedulerEvent:
    job = job_named(kind, meta)
    row = _row(said_of_job(reason, message), reason, job, None)
    row.job_id = row.job_id or meta.name
    return row


def _row(said: Said, reason: str, job: Job | None, hosts: list[str] | None) -> SchedulerEvent:
    return SchedulerEvent(
        scheduler="kubernetes",
        kind=said.kind,
        state=said.state,
        reason=reason or None,
        job_id=job.name if job else None,
        raw_job_id=job.raw if job else None,
        hosts=hosts,
    )


def _message(event: JsonObject) -> str:
    return (text_member(event, "message") or text_member(event, "note") or "").strip()


def _writer_host(event: JsonObject) -> str | None:
    """The node of the kubelet that wrote an event: its instance, or the host of the source."""
    host = text_member(event, "source", "host")
    writer = text_member(event, "reportingComponent") or text_member(event, "reportingController")
    if host is None and writer == "kubelet":
        host = text_member(event, "reportingInstance")
    return host


def _times(event: JsonObject) -> tuple[Reading, Reading | None, int]:
    """First and last time of an event, and how often it happened."""
    series = member(event, "series")
    observed = stated_time(member(series, "lastObservedTime"))
    first = _first_stated(event, _FIRST)
    last = _first_stated(event, _LAST)
    if observed.wall is not None and (last.wall is None or observed.wall > last.wall):
        last = observed
    if first.wall is None:
        # Only the last occurrence has a time, or none has one: then the object itself was made at the first.
        first = last if last.wall is not None else stated_time(member(event, "metadata", "creationTimestamp"))
    counts = (member(series, "count"), event.get("count"), event.get("deprecatedCount"))
    count = max((number for value in counts if (number := whole(value)) is not None), default=1)
    later = last.wall is not None and first.wall is not None and last.wall > first.wall
    return first, last if later else None, max(1, count)


def _first_stated(event: JsonObject, keys: tuple[str, ...]) -> Reading:
    return next((reading for key in keys if (reading := stated_time(event.get(key))).wall is not None), NO_CLOCK)
