"""Cycles of NVIDIA's resiliency extension, ``nvrx/cycle_info.JOB.ATTEMPT.CYCLE``: when workers ran, on which nodes.

    {
      "job_id": "4001",
      "attempt_index": 0,
      "cycle_number": 1,
      "cycle_start_time": "2026-03-01T10:20:30.123456Z",
      "cycle_end_time": "2026-03-01T11:20:30.123456Z",
      "cycle_log_file": "/logs/train_cycle1.log",
      "active_nodes": "gpu[017-018]",
      "standby_nodes": "gpu019",
      "active_ranks": "0-15"
    }

src/nvidia_resiliency_ext/fault_tolerance/cycle_info_writer.py. The first cycle of an attempt is a start, each later one
a restart in place. A cycle without an end is running, or was killed with its host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from aftershock.parsers.clock import NO_CLOCK, SECOND
from aftershock.parsers.documents.iso_clock import stated_time
from aftershock.parsers.documents.json_elements import Element
from aftershock.parsers.documents.json_records import json_start, load_record, records_of, text_member
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.schemas.events import TrainingEvent

_MARKS: Final = (b'"job_id"', b'"cycle_start_time"', b'"active_nodes"')
_RANGE: Final = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?\Z")
_MOST_RANKS: Final = 65_536
_LONGEST_TEXT: Final = 4096
_EXCERPT: Final = 256


def detects(head: Head) -> float:
    """Sure of the keys of a cycle."""
    start = json_start(head.data)
    return 0.95 if all(mark in start for mark in _MARKS) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The start and the end of each cycle."""
    for element in records_of(stream):
        if isinstance(element, Refused):
            yield element._replace(reason=f"nvrx_cycle_info: {element.reason}")
            continue
        record = load_record(element)
        if record is None or text_member(record, "cycle_start_time") is None:
            yield _refused(element, "a cycle without its start")
        else:
            yield from _cycle(record, element)


def _refused(element: Element, reason: str) -> Refused:
    return Refused(element.offset, len(element.data), f"nvrx_cycle_info: {reason}", element.data[:_EXCERPT])


def _cycle(record: dict[str, Any], element: Element) -> Iterator[Found | Refused]:
    started, ended = (stated_time(record.get(f"cycle_{which}_time")) for which in ("start", "end"))
    if started is NO_CLOCK:
        yield _refused(element, "its start is no time")
    number = record.get("cycle_number", 0)
    path = (text_member(record, "cycle_log_file") or "")[:_LONGEST_TEXT] or None
    ranks = _ranks(text_member(record, "active_ranks"))
    about = f"cycle {number} of attempt {record.get('attempt_index', 0)} of job {text_member(record, 'job_id') or '?'}"
    nodes = text_member(record, "active_nodes")
    placed = f"{about} on {nodes[:_LONGEST_TEXT]}" if nodes else about
    kind = "restart" if number not in (0, "0") else "start"
    yield Found(TrainingEvent(kind=kind, path=path, ranks=ranks, message=placed), started, element.offset)
    if ended is not NO_CLOCK:
        event = TrainingEvent(kind="exit", path=path, message=f"end of {about}")
        if started.wall is not None and ended.wall is not None and ended.wall >= started.wall:
            event.duration_s = (ended.wall - started.wall) / SECOND
        yield Found(event, ended, element.offset)


def _ranks(text: str | None) -> list[int] | None:
    """``0-3,8`` as numbers; None if it is something else."""
    ranks: list[int] = []
    for part in (text or "").split(","):
        found = _RANGE.match(part.strip())
        if found is None:
            return None
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first or len(ranks) + last - first >= _MOST_RANKS:
            return None
        ranks.extend(range(first, last + 1))
    return ranks


FORMAT: Final = DocumentFormat(
    name="nvrx_cycle_info",
    doc="Cycles of NVIDIA's resiliency extension (`--ft-cycle-info-dir`): start and end of the workers of each cycle, "
    "their nodes and ranks.",
    url="https://github.com/NVIDIA/nvidia-resiliency-ext",
    tables=("training_events",),
    detects=detects,
    read=read,
    samples=(
        Sample(
            '{\n  "job_id": "4001",\n  "attempt_index": 0,\n  "cycle_number": 1,\n'
            '  "cycle_start_time": "2026-03-01T10:20:30.500000Z",\n  "cycle_end_time": "2026-03-01T11:20:30.500000Z",\n'
            '  "cycle_log_file": "/logs/train_cycle1.log",\n  "active_nodes": "gpu[017-018]",\n'
            '  "standby_nodes": "gpu019",\n  "generation": 1,\n  "active_ranks": "0-3"\n}\n',
            (
                expect(
                    "training_events",
                    kind="restart",
                    path="/logs/train_cycle1.log",
                    ranks=[0, 1, 2, 3],
                    message="cycle 1 of attempt 0 of job 4001 on gpu[017-018]",
                    time=1772360430500000,
                    time_basis="zoned",
                ),
                expect("training_events", kind="exit", duration_s=3600.0, time=1772364030500000),
            ),
            title="A cycle that ended",
        ),
        Sample(
            '{"job_id": "4001", "cycle_start_time": "2026-03-01T10:00:00Z", "active_nodes": "gpu017"}\n',
            (expect("training_events", kind="start", ranks=None, time=1772359200000000),),
            title="The first cycle of an attempt, with the zeros left out",
        ),
    ),
    non_samples=(
        '{"job_id": "4001", "active_nodes": "gpu017"}\n',
        '{"cycle": {"cycle_start_time": "2026-03-01T10:00:00Z"}}\n',
    ),
)
