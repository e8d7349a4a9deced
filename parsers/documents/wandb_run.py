"""The file of a run of Weights & Biases, ``wandb/run-*/run-ID.wandb`` (``offline-run-*`` where it was not sent).

    run      run_id "7kq2x9ab"  project "llm"  host "gpu017"  start_time 2026-03-01T10:20:30Z
    history  step 20  items: loss 2.5, train/grad_norm 0.75, _timestamp 1772360431.0, _step 20
    exit     exit_code 1  runtime 12

A log of LevelDB whose records are protocol buffers: wandb/proto/wandb_internal.proto. The values of a step are JSON.
What was printed on the console stands in ``files/output.log`` beside it, and is read there.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Final

from aftershock.parsers.clock import NO_CLOCK, SECOND, Reading
from aftershock.parsers.documents.leveldb_log import checksum, log_records
from aftershock.parsers.documents.proto_wire import BYTES, VARINT, NotProto, fields_of
from aftershock.parsers.documents.step_values import STEP_NAMES, StepValues, known, step_number
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.parsers.training.launchers.exits import role_of_exit
from aftershock.schemas.events import TrainingEvent

# The identifier, a number of Weights & Biases, the version of the log.
_MAGIC: Final = b":W&B\xe1\xbe"
_HEADER: Final = 7
_LATEST: Final = 7_258_118_400  # seconds: the year 2200
_EXCERPT: Final = 256
_LONGEST_TEXT: Final = 256
_LONGEST_VALUE: Final = 4096
_DEEPEST: Final = 8

# Numbers of fields: of a record, of an item, of a run, of an exit.
_HISTORY, _RUN, _EXIT, _PREEMPTING = 2, 17, 18, 23
_KEY, _NESTED_KEY, _VALUE_JSON = 1, 2, 16
_RUN_ID, _PROJECT, _DISPLAY_NAME, _HOST, _STARTING_STEP, _START_TIME, _RESUMED = 1, 3, 8, 13, 14, 17, 18
_EXIT_CODE, _RUNTIME = 1, 2

_TIMESTAMP: Final = "_timestamp"
_STEPS_FIRST: Final = {name: rank for rank, name in enumerate(STEP_NAMES)}


def detects(head: Head) -> float:
    """Sure of the header of such a file."""
    return 0.99 if head.data.startswith(_MAGIC) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The start, the steps and the exit of the run."""
    run = _Run()
    for record in log_records(stream, _HEADER):
        if isinstance(record, Refused):
            yield record._replace(reason=f"wandb_run: {record.reason}")
            continue
        try:
            yield from run.record(record.data, record.offset)
        except NotProto as error:
            yield Refused(record.offset, len(record.data), f"wandb_run: no record: {error}", record.data[:_EXCERPT])
    yield from run.steps.rest()


class _Run:
    def __init__(self) -> None:
        self.steps = StepValues()
        self._host: str | None = None
        self._start: Reading = NO_CLOCK
        self._resumed = False
        self._told = False

    def record(self, data: bytes, offset: int) -> Iterator[Found]:
        for field in fields_of(data):
            if field.wire != BYTES:
                continue
            if field.number == _HISTORY:
                yield from self._history(field.data, offset)
            elif field.number == _RUN and not self._told:
                yield self._begin(field.data, offset)
            elif field.number == _EXIT:
                yield from self.steps.rest()
                yield self._exit(field.data, offset)
            elif field.number == _PREEMPTING:
                yield Found(TrainingEvent(kind="preempting", host_raw=self._host), NO_CLOCK, offset)

    def _history(self, data: bytes, offset: int) -> Iterator[Found]:
        values: dict[str, float] = {}
        for field in fields_of(data):
            if field.number == 1 and field.wire == BYTES:
                values.update(_item(field.data))
        yield from rows_of_values(values, self.steps, offset)

    def _begin(self, data: bytes, offset: int) -> Found:
        texts: dict[int, str] = {}
        step = 0
        for field in fields_of(data):
            if field.number == _START_TIME and field.wire == BYTES:
                self._start = _timestamp(field.data)
            elif field.number == _RESUMED and field.wire == VARINT:
                self._resumed = bool(field.varint)
            elif field.number == _STARTING_STEP and field.wire == VARINT:
                step = field.signed()
            elif field.wire == BYTES and field.number in (_RUN_ID, _PROJECT, _DISPLAY_NAME, _HOST):
                texts[field.number] = field.text()[:_LONGEST_TEXT]
        self._told = True
        self._host = texts.get(_HOST) or None
        names = [name for number in (_RUN_ID, _DISPLAY_NAME, _PROJECT) if (name := texts.get(number))]
        event = TrainingEvent(
            kind="resume" if self._resumed else "start",
            step=step or None,
            host_raw=self._host,
            message=f"run of Weights & Biases: {', '.join(names)}",
        )
        return Found(event, self._start, offset)

    def _exit(self, data: bytes, offset: int) -> Found:
        code = runtime = 0
        for field in fields_of(data):
            if field.wire == VARINT and field.number == _EXIT_CODE:
                code = field.signed()
            elif field.wire == VARINT and field.number == _RUNTIME:
                runtime = field.signed()
        event = TrainingEvent(kind="exit", host_raw=self._host, message=f"run of Weights & Biases: exit code {code}")
        if runtime > 0:
            event.duration_s = float(runtime)
        if code:
            event.error_class, event.error_role = role_of_exit(code)
            event.error = f"exit code {code}"
        reading = NO_CLOCK
        # The run time of a run that was resumed counts what went before it.
        if runtime > 0 and not self._resumed and self._start.wall is not None and runtime < _LATEST:
            reading = Reading("epoch", self._start.wall + runtime * SECOND, resolution=SECOND)
        return Found(event, reading, offset)


def rows_of_values(values: Mapping[str, float], steps: StepValues, offset: int) -> Iterator[Found]:
    """The rows of one record of a history: numbers by their names, the step and the time among them."""
    named = min((name for name in values if name.lower() in _STEPS_FIRST), key=_rank, default=None)
    step = step_number(values[named]) if named is not None else None
    if step is None:
        return
    reading = _epoch(values.get(_TIMESTAMP))
    for name, value in values.items():
        meaning = known(name)
        if meaning is not None:
            yield from steps.take(step, meaning, value, reading, offset)


def _rank(name: str) -> int:
    return _STEPS_FIRST[name.lower()]


def _item(data: bytes) -> Iterator[tuple[str, float]]:
    name, value = "", b""
    nested: list[str] = []
    for field in fields_of(data):
        if field.wire != BYTES:
            continue
        if field.number == _KEY:
            name = field.text()[:_LONGEST_TEXT]
        elif field.number == _NESTED_KEY and len(nested) < _DEEPEST:
            nested.append(field.text()[:_LONGEST_TEXT])
        elif field.number == _VALUE_JSON:
            value = field.data
    yield from _values(name or "/".join(nested), value)


def _values(name: str, data: bytes) -> Iterator[tuple[str, float]]:
    """The number under a name, or those of an object under it (``train/loss``)."""
    wanted = data.startswith(b"{") or known(name) is not None or name == _TIMESTAMP or name.lower() in _STEPS_FIRST
    if not wanted or len(data) > _LONGEST_VALUE:
        return
    try:
        value: Any = json.loads(data)
    except (ValueError, RecursionError):
        return
    named = {f"{name}/{key}": one for key, one in value.items()} if isinstance(value, dict) else {name: value}
    for key, one in named.items():
        number = number_in_json(one)
        if number is not None:
            yield key, number


def number_in_json(value: object) -> float | None:
    """A number; Weights & Biases writes those that JSON has no word for as texts (``"NaN"``)."""
    if isinstance(value, str):
        return float(value) if value in ("NaN", "Infinity", "-Infinity") else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _epoch(seconds: float | None) -> Reading:
    if seconds is None or not 0 < seconds < _LATEST:
        return NO_CLOCK
    return Reading("epoch", round(seconds * SECOND), text=repr(seconds))


def _timestamp(data: bytes) -> Reading:
    """``google.protobuf.Timestamp``: seconds and nanoseconds."""
    seconds = nanos = 0
    for field in fields_of(data):
        if field.wire == VARINT and field.number == 1:
            seconds = field.signed()
        elif field.wire == VARINT and field.number == 2:
            nanos = field.signed()
    if not 0 < seconds < _LATEST or not 0 <= nanos < 10**9:
        return NO_CLOCK
    return Reading("epoch", seconds * SECOND + nanos // 1000)


def _number(number: int, value: int) -> bytes:
    data = _varint(number << 3 | VARINT)
    return data + _varint(value)


def _message(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | BYTES) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    data = bytearray()
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*data, value))


def _sample_history(**values: object) -> bytes:
    items = (
        _message(
            1, _message(_KEY, name.replace("__", "/").encode()) + _message(_VALUE_JSON, json.dumps(value).encode())
        )
        for name, value in values.items()
    )
    return _message(_HISTORY, b"".join(items))


def _sample_log(*records: bytes) -> bytes:
    pieces = (struct.pack("<IHB", checksum(1, data), len(data), 1) + data for data in records)
    return _MAGIC + b"\0" + b"".join(pieces)


_SAMPLE: Final = _sample_log(
    _message(
        _RUN,
        _message(_RUN_ID, b"7kq2x9ab")
        + _message(_PROJECT, b"llm")
        + _message(_HOST, b"gpu017")
        + _message(_START_TIME, _number(1, 1_772_360_430) + _number(2, 500_000_000)),
    ),
    _sample_history(loss=2.5, train__grad_norm=0.75, _timestamp=1772360431.0, _step=0, train__global_step=20),
    _sample_history(loss="NaN", examples=["a"], _timestamp=1772360441.0, _step=1, train__global_step=30),
    _message(_EXIT, _number(_EXIT_CODE, 1) + _number(_RUNTIME, 12)),
).decode("utf-8", "surrogateescape")

FORMAT: Final = DocumentFormat(
    name="wandb_run",
    doc="""Runs of Weights & Biases as they lie on disk, sent or not: the known values of each step with their time,
    start and exit of the run with its host and exit code. Give the folder `wandb`; what was printed is read from
    `output.log` in it.""",
    url="https://docs.wandb.ai/support/run_wandb_offline",
    tables=("training_steps", "training_events"),
    detects=detects,
    read=read,
    magics=(_MAGIC,),
    samples=(
        Sample(
            _SAMPLE,
            (
                expect("training_events", kind="start", host="gpu017", time=1772360430500000, time_basis="epoch"),
                expect("training_steps", step=20, loss=2.5, grad_norm=0.75, time=1772360431000000),
                expect("training_steps", step=30, time=1772360441000000),
                expect("training_events", kind="exit", error="exit code 1", duration_s=12.0, time=1772360442500000),
            ),
        ),
    ),
    non_samples=(":W&B\n", "wandb: Run history:\nwandb: loss 2.5\n"),
)
