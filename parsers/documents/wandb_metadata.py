"""``wandb-metadata.json``: where and when a run of Weights & Biases was started, as it is shown beside the run.

    {"os": "Linux-5.15", "startedAt": "2026-03-01T10:20:30.123456Z", "program": "/app/train.py", "host": "gpu017",
     "git": {"commit": "4f1c0a5e"}, "gpu_count": 8}

wandb/sdk/internal/system/system_info.py. The time is UTC, also where older versions print no zone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

from aftershock.parsers.clock import NO_CLOCK
from aftershock.parsers.documents.iso_clock import stated_time
from aftershock.parsers.documents.json_records import json_start, load_record, records_of, text_member
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.schemas.events import TrainingEvent

_MARKS: Final = (b'"startedAt"', b'"host"')
_ONE_OF: Final = (b'"codePath"', b'"program"', b'"executable"')
_LONGEST_TEXT: Final = 512
_EXCERPT: Final = 256


def detects(head: Head) -> float:
    """Sure of a start, a host and a program."""
    start = json_start(head.data)
    return 0.9 if all(mark in start for mark in _MARKS) and any(mark in start for mark in _ONE_OF) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The start of the run."""
    for element in records_of(stream):
        if isinstance(element, Refused):
            yield element._replace(reason=f"wandb_metadata: {element.reason}")
            continue
        record = load_record(element)
        printed = text_member(record, "startedAt")
        reading = stated_time(printed)
        if reading.kind == "local":
            reading = reading._replace(kind="zoned")
        program = text_member(record, "codePath") or text_member(record, "program") or text_member(record, "executable")
        if reading is NO_CLOCK or program is None:
            reason = "wandb_metadata: no start of a run"
            yield Refused(element.offset, len(element.data), reason, element.data[:_EXCERPT])
            continue
        event = TrainingEvent(
            kind="start",
            host_raw=text_member(record, "host"),
            message=f"run of Weights & Biases: {program[:_LONGEST_TEXT]}",
        )
        yield Found(event, reading, element.offset)


FORMAT: Final = DocumentFormat(
    name="wandb_metadata",
    doc="What Weights & Biases notes of the place of a run, `wandb-metadata.json`: its start and its host.",
    url="https://docs.wandb.ai/guides/app/settings-page/system-metrics/",
    tables=("training_events",),
    detects=detects,
    read=read,
    samples=(
        Sample(
            '{\n  "os": "Linux-5.15.0-105-generic-x86_64",\n  "python": "3.10.12",\n'
            '  "startedAt": "2026-03-01T10:20:30.500000Z",\n  "program": "/app/train.py",\n  "codePath": "train.py",\n'
            '  "git": {\n    "remote": "https://git.example/llm.git",\n    "commit": "4f1c0a5e"\n  },\n'
            '  "host": "gpu017",\n  "gpu_count": 8\n}\n',
            (expect("training_events", kind="start", host="gpu017", time=1772360430500000, time_basis="zoned"),),
        ),
        Sample(
            '{"startedAt": "2023-03-01T10:20:30.500000", "host": "gpu018", "program": "train.py"}\n',
            (expect("training_events", kind="start", host="gpu018", time=1677666030500000),),
            title="Older versions: UTC without a zone",
        ),
    ),
    non_samples=('{"startedAt": "2026-03-01T10:20:30Z", "pod": "trainer-0"}\n', '{"host": "gpu017"}\n'),
)
