"""The error file of a worker of torchrun (``@record``), ``.../attempt_0/LOCAL_RANK/error.json``: the first exception.

    {"message": {"message": "RuntimeError: CUDA error: out of memory", "extraInfo": {"py_callstack": "Traceback ...",
     "timestamp": "1772360430"}}}

torch/distributed/elastic/multiprocessing/errors/error_handler.py. The time is in seconds since 1970; by it torchrun
finds its root cause. Of what class an error is, is told by the rules for lines of training output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from aftershock.parsers.clock import SECOND, Reading
from aftershock.parsers.documents.iso_clock import stated_time
from aftershock.parsers.documents.json_elements import Element
from aftershock.parsers.documents.json_records import json_start, load_record, member, records_of, text_member
from aftershock.parsers.envelopes.layer import Layer
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.parsers.inner_lines import read_layer
from aftershock.schemas.events import TrainingEvent

_HEAD: Final = re.compile(rb'\{\s*"message"\s*:\s*\{')
_EXTRA: Final = b'"extraInfo"'
_LOCAL_RANK: Final = re.compile(r"attempt_\d{1,6}/(?P<rank>\d{1,4})/[^/]*\Z")
_LONGEST_TEXT: Final = 4096
_EXCERPT: Final = 256


def detects(head: Head) -> float:
    """Sure of the frame that torch elastic puts around an exception."""
    start = json_start(head.data)
    return 0.95 if _HEAD.match(start) and _EXTRA in start else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The error."""
    yield from read_named(stream, "")


def read_named(stream: BinaryIO, source: str) -> Iterator[Found | Refused]:
    """The error, of the worker whose number is in the path of the file."""
    place = _LOCAL_RANK.search(source)
    for element in records_of(stream):
        if isinstance(element, Refused):
            yield element._replace(reason=f"torchelastic_error: {element.reason}")
            continue
        record = load_record(element)
        text = text_member(record, "message", "message")
        if text is None:
            reason = "torchelastic_error: no message of an exception"
            yield Refused(element.offset, len(element.data), reason, element.data[:_EXCERPT])
        else:
            yield from _error(text, record, element, int(place["rank"]) if place else None)


def _error(text: str, record: Any, element: Element, local_rank: int | None) -> Iterator[Found | Refused]:
    reading = stated_time(member(record, "message", "extraInfo", "timestamp"))
    if reading.kind == "epoch":
        reading = Reading("epoch", reading.wall, resolution=SECOND, text=reading.text)
    text = text[:_LONGEST_TEXT]
    layer = Layer("torchelastic_error", text.encode("utf-8", "surrogatepass"), reading)
    rows = [item for item in read_layer(element.offset, layer) if _is_error(item)]
    if not rows:
        event = TrainingEvent(kind="error", error_class="unknown", error_role="root", error=text, message=text)
        rows = [Found(event, reading, element.offset)]
    for item in rows:
        if isinstance(item, Found) and isinstance(item.row, TrainingEvent) and item.row.local_rank is None:
            item.row.local_rank = local_rank
        yield item


def _is_error(item: Found | Refused) -> bool:
    return isinstance(item, Found) and isinstance(item.row, TrainingEvent) and item.row.error_class is not None


FORMAT: Final = DocumentFormat(
    name="torchelastic_error",
    doc="Error files of torchrun's workers: the exception, its class and its time; the local rank, by the path.",
    url="https://docs.pytorch.org/docs/stable/elastic/errors.html",
    tables=("training_events",),
    detects=detects,
    read=read,
    read_named=read_named,
    samples=(
        Sample(
            '{"message": {"message": "FileNotFoundError: [Errno 2] No such file or directory: \'/data/a.bin\'", '
            '"extraInfo": {"py_callstack": "Traceback (most recent call last):\\n  File \\"train.py\\", line 12\\n", '
            '"timestamp": "1772360430"}}}',
            (
                expect(
                    "training_events",
                    kind="error",
                    error_class="user_data_path",
                    error_role="root",
                    local_rank=3,
                    time=1772360430000000,
                    time_basis="epoch",
                ),
            ),
            name="logs/none_7kq2/attempt_0/3/error.json",
        ),
    ),
    non_samples=(
        '{"message": "FileNotFoundError: x", "level": "error"}\n',
        '{"message": {"text": "FileNotFoundError: x"}, "extraInfo": 1}\n',
    ),
)
