"""TensorBoard event files, ``events.out.tfevents.SECONDS.HOST.PID.N``: the scalars of a run, step by step.

    wall_time 1772360430.5  file_version "brain.Event:2"
    wall_time 1772360431.0  step 20  summary { value { tag "train/loss" simple_value 2.5 } }
    wall_time 1772360431.5  session_log { status CHECKPOINT  checkpoint_path "/ckpt/model.ckpt-20" }

A file is a TFRecord of protocol buffers: event.proto and summary.proto of tensorflow/core (util and framework).
Known scalars (``lm loss``, ``train/loss``, ``grad-norm``, ``learning-rate``, ``iteration-time``, ``tflops`` and others)
become one row for each step; a file begins where its run was started or started again. Images, histograms and graphs
are passed over. DeepSpeed counts its scalars by samples, not steps: such rows have samples and no step.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO, Final

from aftershock.parsers.clock import NO_CLOCK, SECOND, Reading
from aftershock.parsers.documents.proto_wire import BYTES, FIXED32, VARINT, Field, NotProto, fields_of
from aftershock.parsers.documents.step_values import Known, StepValues, known
from aftershock.parsers.documents.tfrecord import masked_crc32c, records_of, starts_here
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.schemas.events import TrainingEvent

_VERSION: Final = b"brain.Event:"
_LATEST: Final = 7_258_118_400  # seconds: the year 2200
_EXCERPT: Final = 256
_FLOAT: Final = struct.Struct("<f")
_LONGEST_TEXT: Final = 4096

# Numbers of fields: of an event, a value, a tensor, a session log.
_WALL_TIME, _STEP, _FILE_VERSION, _SUMMARY, _SESSION_LOG = 1, 2, 3, 5, 7
_TAG, _SIMPLE_VALUE, _TENSOR = 1, 2, 8
_DTYPE, _CONTENT = 1, 4
_STATUS, _CHECKPOINT_PATH, _MSG = 1, 2, 3

# Types of tensors: how a value is packed, and the field that holds it if it is not in the content.
_TYPES: Final = {1: ("<f", 5), 2: ("<d", 6), 3: ("<i", 7), 9: ("<q", 10)}
_SESSIONS: Final = {1: "start", 2: "exit", 3: "save_end"}

# Floats of 32 bits hold whole numbers up to here: larger counts are rounded, and no counts.
_EXACT: Final = 1 << 24
_COUNTS: Final = frozenset({"samples", "tokens", "total_steps"})
_BY_SAMPLES: Final = "train/samples/"


def detects(head: Head) -> float:
    """Sure of a first record that says which version of events follows."""
    data = head.data
    if not starts_here(data):
        return 0.0
    return 0.98 if _VERSION in data[12 : 12 + min(struct.unpack_from("<Q", data)[0], 4096)] else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The steps, and the begins and saves of sessions."""
    steps = StepValues()
    for record in records_of(stream):
        if isinstance(record, Refused):
            yield record._replace(reason=f"tensorboard_events: {record.reason}")
        elif record.data is not None:
            try:
                yield from _read_event(record.data, record.offset, steps)
            except NotProto as error:
                reason = f"tensorboard_events: no event: {error}"
                yield Refused(record.offset, len(record.data) + 16, reason, record.data[:_EXCERPT])
    yield from steps.rest()


def _read_event(data: bytes, offset: int, steps: StepValues) -> Iterator[Found]:
    reading, step = NO_CLOCK, 0
    bodies: list[Field] = []
    for field in fields_of(data):
        if field.number == _WALL_TIME:
            reading = _clock(field.real())
        elif field.number == _STEP:
            step = field.signed()
        elif field.wire == BYTES and field.number in (_FILE_VERSION, _SUMMARY, _SESSION_LOG):
            bodies.append(field)
    for body in bodies:
        if body.number == _SUMMARY:
            yield from _read_summary(body.data, step, reading, offset, steps)
        elif body.number == _SESSION_LOG:
            yield from _read_session(body.data, step, reading, offset)
        elif body.data.startswith(_VERSION):
            event = TrainingEvent(kind="start", message=f"event file of TensorBoard, {body.text()[:64]}")
            yield Found(event, reading, offset)


def _clock(seconds: float | None) -> Reading:
    if seconds is None or not 0 < seconds < _LATEST:
        return NO_CLOCK
    return Reading("epoch", round(seconds * SECOND))


def _read_summary(data: bytes, step: int, reading: Reading, offset: int, steps: StepValues) -> Iterator[Found]:
    for field in fields_of(data):
        if field.number != 1 or field.wire != BYTES:
            continue
        tag, value = _read_value(field.data)
        if tag is None or value is None:
            continue
        by_samples = tag.lower().startswith(_BY_SAMPLES)
        meaning = known(tag[len(_BY_SAMPLES) :] if by_samples else tag)
        if meaning is None or (meaning.column in _COUNTS and abs(value) > _EXACT):
            continue
        if not by_samples:
            yield from steps.take(step, meaning, value, reading, offset)
        elif meaning.column == "loss":
            # A row of its own: what else is logged at this number of samples may be of another step.
            alone = StepValues()
            yield from alone.take(None, meaning, value, reading, offset)
            yield from alone.take(None, Known("samples", 0, megatron=False), float(step), reading, offset)
            yield from alone.rest()


def _read_value(data: bytes) -> tuple[str | None, float | None]:
    tag: str | None = None
    value: float | None = None
    for field in fields_of(data):
        if field.number == _TAG and field.wire == BYTES:
            tag = field.text()
            if known(tag) is None and not tag.lower().startswith(_BY_SAMPLES):
                return None, None
        elif field.number == _SIMPLE_VALUE and field.wire == FIXED32:
            value = shortest(field.data)
        elif field.number == _TENSOR and field.wire == BYTES:
            value = _scalar(field.data)
    return tag, value


def shortest(data: bytes) -> float:
    """A float of 32 bits as the shortest number that it stands for: 2.4, not 2.4000000953674316."""
    value = float(_FLOAT.unpack(data)[0])
    for digits in (6, 7, 8):
        short = float(f"{value:.{digits}g}")
        try:
            if _FLOAT.pack(short) == data:
                return short
        except OverflowError:  # rounded up beyond the largest
            continue
    return value


def _scalar(data: bytes) -> float | None:
    """The value of a tensor that holds one number."""
    fields = list(fields_of(data))
    dtype = next((field.varint for field in fields if field.number == _DTYPE and field.wire == VARINT), 0)
    if dtype not in _TYPES:
        return None
    packing, number = _TYPES[dtype]
    for field in fields:
        if field.number == _CONTENT and len(field.data) == struct.calcsize(packing):
            return _unpacked(packing, field.data)
        if field.number == number:
            return _number(field, packing)
    return None


def _unpacked(packing: str, data: bytes) -> float:
    return shortest(data) if packing == "<f" else float(struct.unpack(packing, data)[0])


def _number(field: Field, packing: str) -> float | None:
    if field.wire == VARINT:
        return float(field.signed())
    if field.wire != BYTES:
        return field.real()
    if packing in ("<f", "<d"):
        return _unpacked(packing, field.data) if len(field.data) == struct.calcsize(packing) else None
    # A packed varint is a message of one field without its key.
    number = next(iter(fields_of(b"\x08" + field.data)), None) if field.data else None
    return None if number is None or len(field.data) > 10 else float(number.signed())


def _read_session(data: bytes, step: int, reading: Reading, offset: int) -> Iterator[Found]:
    status, path, message = 0, None, None
    for field in fields_of(data):
        if field.number == _STATUS and field.wire == VARINT:
            status = field.varint
        elif field.number == _CHECKPOINT_PATH and field.wire == BYTES:
            path = field.text()[:_LONGEST_TEXT]
        elif field.number == _MSG and field.wire == BYTES:
            message = field.text()[:_LONGEST_TEXT]
    if status in _SESSIONS:
        event = TrainingEvent(kind=_SESSIONS[status], step=step or None, path=path or None, message=message)
        yield Found(event, reading, offset)


def _record(data: bytes) -> bytes:
    header = struct.pack("<Q", len(data))
    return b"".join((header, struct.pack("<I", masked_crc32c(header)), data, struct.pack("<I", masked_crc32c(data))))


def _message(number: int, data: bytes) -> bytes:
    assert len(data) < 128
    return bytes((number << 3 | BYTES, len(data))) + data


def _sample_event(seconds: float, step: int = 0, **scalars: float) -> bytes:
    assert 0 <= step < 128
    values = (
        _message(1, _message(_TAG, tag.replace("__", "/").encode()) + b"\x15" + struct.pack("<f", value))
        for tag, value in scalars.items()
    )
    return b"\x09" + struct.pack("<d", seconds) + bytes((_STEP << 3, step)) + _message(_SUMMARY, b"".join(values))


_SAMPLE: Final = b"".join(
    _record(event)
    for event in (
        b"\x09" + struct.pack("<d", 1772360430.5) + _message(_FILE_VERSION, b"brain.Event:2"),
        _sample_event(1772360431.0, 20, train__loss=2.5),
        _sample_event(1772360431.0, 20, train__grad_norm=0.75),
        _sample_event(1772360431.0, 20, train__epoch=0.5),
        _sample_event(1772360441.0, 30, train__loss=2.25, eval__loss=2.5),
    )
).decode("utf-8", "surrogateescape")

FORMAT: Final = DocumentFormat(
    name="tensorboard_events",
    doc="""Event files of TensorBoard: the known scalars of each step with the time at which they were logged, when a
    run was started, checkpoints of TensorFlow sessions. Give the folder of the run, or its files.""",
    url="https://github.com/tensorflow/tensorboard",
    tables=("training_steps", "training_events"),
    detects=detects,
    read=read,
    binary=True,
    samples=(
        Sample(
            _SAMPLE,
            (
                expect("training_events", kind="start", time=1772360430500000, time_basis="epoch"),
                expect("training_steps", step=20, loss=2.5, grad_norm=0.75, time=1772360431000000),
                expect("training_steps", step=30, loss=2.25, grad_norm=None, time=1772360441000000),
                expect("training_events", kind="validation", step=30),
            ),
            title="Scalars, as torch.utils.tensorboard writes them",
        ),
    ),
    non_samples=("events.out.tfevents.1772360430.gpu017.8114.0\n", "brain.Event:2\n"),
)
