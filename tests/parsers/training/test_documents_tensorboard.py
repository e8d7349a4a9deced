"""Event files of TensorBoard: what the protobuf library encodes is decoded, damage is refused where it stands."""

from __future__ import annotations

import io
import math
import struct
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.detect import detect
from aftershock.parsers.documents import tensorboard_events, tfrecord
from aftershock.parsers.documents.proto_wire import NotProto, fields_of
from aftershock.parsers.documents.tfrecord import LARGEST, Record, masked_crc32c, records_of
from aftershock.parsers.formats import Found, Head, Refused
from aftershock.parsers.selfcheck import rows_of_text
from aftershock.schemas.events import TrainingEvent
from aftershock.schemas.training import TrainingStep

_KINDS = descriptor_pb2.FieldDescriptorProto
START = 1772360430.5


def messages() -> dict[str, Any]:
    """Classes for the few messages of an event file, made of their published definition."""
    file = descriptor_pb2.FileDescriptorProto(name="event.proto", package="t", syntax="proto3")
    fields = {
        "Tensor": [("dtype", 1, _KINDS.TYPE_INT32), ("tensor_content", 4, _KINDS.TYPE_BYTES)],
        "Value": [("tag", 1, _KINDS.TYPE_STRING), ("simple_value", 2, _KINDS.TYPE_FLOAT), ("tensor", 8, "Tensor")],
        "Summary": [("value", 1, "Value")],
        "SessionLog": [("status", 1, _KINDS.TYPE_INT32), ("checkpoint_path", 2, _KINDS.TYPE_STRING)],
        "Event": [
            ("wall_time", 1, _KINDS.TYPE_DOUBLE),
            ("step", 2, _KINDS.TYPE_INT64),
            ("file_version", 3, _KINDS.TYPE_STRING),
            ("graph_def", 4, _KINDS.TYPE_BYTES),
            ("summary", 5, "Summary"),
            ("session_log", 7, "SessionLog"),
        ],
    }
    repeated = {("Summary", "value"), ("Tensor", "float_val"), ("Tensor", "int64_val")}
    fields["Tensor"] += [("float_val", 5, _KINDS.TYPE_FLOAT), ("int64_val", 10, _KINDS.TYPE_INT64)]
    for name, own in fields.items():
        message = file.message_type.add(name=name)
        if name == "Value":
            message.oneof_decl.add(name="value")
        for field_name, number, kind in own:
            field = message.field.add(name=field_name, number=number)
            field.label = _KINDS.LABEL_REPEATED if (name, field_name) in repeated else _KINDS.LABEL_OPTIONAL
            if isinstance(kind, str):
                field.type, field.type_name = _KINDS.TYPE_MESSAGE, f".t.{kind}"
            else:
                field.type = kind
            if name == "Value" and field_name != "tag":
                field.oneof_index = 0  # written also where it is zero
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"t.{name}")) for name in fields}


PROTO = messages()


def event(step: int = 0, at: float = START, **scalars: float) -> Any:
    made = PROTO["Event"](wall_time=at, step=step)
    for tag, value in scalars.items():
        made.summary.value.add(tag=tag.replace("__", "/"), simple_value=value)
    return made


def framed(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    sums = struct.pack("<I", masked_crc32c(length)), struct.pack("<I", masked_crc32c(data))
    return length + sums[0] + data + sums[1]


def file_of(*events: Any) -> bytes:
    first = PROTO["Event"](wall_time=START, file_version="brain.Event:2")
    return b"".join(framed(one.SerializeToString()) for one in (first, *events))


def steps(data: bytes) -> list[TrainingStep]:
    return [row for row in rows_of_text(data, tensorboard_events.FORMAT) if isinstance(row, TrainingStep)]


def events(data: bytes) -> list[TrainingEvent]:
    return [row for row in rows_of_text(data, tensorboard_events.FORMAT) if isinstance(row, TrainingEvent)]


def refusals(data: bytes) -> list[Refused]:
    return [item for item in tensorboard_events.read(io.BytesIO(data)) if isinstance(item, Refused)]


def test_the_checksum_is_crc32c():
    # The published check value of CRC-32C, masked as TFRecord has it.
    crc = 0xE3069283
    assert masked_crc32c(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def single(value: float) -> bytes | None:
    """The float of 32 bits that a number is; None for NaN, and zero whatever its sign."""
    return None if math.isnan(value) else struct.pack("<f", value + 0.0)


def test_floats_of_32_bits_are_the_numbers_that_were_logged():
    (row,) = steps(file_of(event(20, train__loss=2.4, train__grad_norm=16777217.0)))
    assert (row.loss, row.grad_norm) == (2.4, 16777216.0)


FLOATS = st.floats(width=32, allow_infinity=False)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2**40), FLOATS, st.none() | FLOATS), max_size=8, unique_by=lambda row: row[0]))
def test_what_is_encoded_is_decoded(rows: list[tuple[int, float, float | None]]) -> None:
    written = []
    for number, (step, loss, rate) in enumerate(rows):
        at = START + number
        written.append(event(step, at, train__loss=loss))
        if rate is not None:
            written.append(event(step, at, train__learning_rate=rate))
    data = file_of(*written)
    assert detect(Head("x", data[: 1 << 16])).format == "tensorboard_events"
    got = {row.step: row for row in steps(data)}
    assert list(got) == [row[0] for row in rows]
    for number, (step, loss, rate) in enumerate(rows):
        row = got[step]
        assert row.loss is not None
        assert single(row.loss) == single(loss)
        assert row.learning_rate is None if rate is None else single(row.learning_rate or 0.0) == single(rate)
        assert (row.time, row.time_basis) == (round((START + number) * 1e6), "epoch")
    assert refusals(data) == []


def test_tensors_with_one_number_are_scalars():
    one = PROTO["Event"](wall_time=START, step=7)
    one.summary.value.add(tag="loss").tensor.MergeFrom(PROTO["Tensor"](dtype=1, float_val=[2.5]))
    content = PROTO["Tensor"](dtype=2, tensor_content=struct.pack("<d", 0.75))
    one.summary.value.add(tag="grad_norm").tensor.MergeFrom(content)
    one.summary.value.add(tag="consumed_samples").tensor.MergeFrom(PROTO["Tensor"](dtype=9, int64_val=[2**40]))
    one.summary.value.add(tag="lr").tensor.MergeFrom(PROTO["Tensor"](dtype=1, float_val=[1.0, 2.0]))
    (row,) = steps(file_of(one))
    assert (row.loss, row.grad_norm, row.learning_rate) == (2.5, 0.75, None)
    # Counts come as floats of 32 bits as a rule, and those of this size are rounded: no count.
    assert row.samples is None


def test_tags_of_megatron():
    tags = {"lm loss": 2.5, "grad-norm": 0.75, "learning-rate": 0.5, "iteration-time": 1.25, "throughput": 400.0}
    (row,) = steps(file_of(*(event(3, **{tag: value, f"{tag} vs samples": 9.0}) for tag, value in tags.items())))
    assert (row.loss, row.grad_norm, row.learning_rate, row.step_time_s) == (2.5, 0.75, 0.5, 1.25)
    assert row.tflops_per_gpu == 400.0


def test_throughput_of_others_may_be_anything():
    (row,) = steps(file_of(event(3, train__loss=2.5, throughput=400.0)))
    assert row.tflops_per_gpu is None


def test_deepspeed_counts_samples():
    rows = steps(file_of(event(1024, Train__Samples__train_loss=2.5), event(1024, Train__Samples__lr=0.5)))
    assert [(row.step, row.samples, row.loss) for row in rows] == [(None, 1024, 2.5)]


def test_a_step_that_is_reached_again_is_a_row_of_its_own():
    rows = steps(file_of(event(20, train__loss=2.5), event(30, train__loss=2.25), event(20, train__loss=2.0)))
    assert sorted((row.step, row.loss) for row in rows) == [(20, 2.0), (20, 2.5), (30, 2.25)]


def test_sessions_of_tensorflow():
    save = PROTO["Event"](wall_time=START + 1, step=20)
    save.session_log.status, save.session_log.checkpoint_path = 3, "/ckpt/model.ckpt-20"
    assert [(row.kind, row.step, row.path) for row in events(file_of(save))] == [
        ("start", None, None),
        ("save_end", 20, "/ckpt/model.ckpt-20"),
    ]


def test_a_writer_that_was_killed_leaves_a_record_that_is_cut_off():
    whole = file_of(event(20, train__loss=2.5))
    data = whole + framed(event(30, train__loss=2.25).SerializeToString())[:-3]
    assert [row.step for row in steps(data)] == [20]
    (refused,) = refusals(data)
    assert (refused.offset, refused.offset + refused.length) == (len(whole), len(data))
    assert refused.reason == "tensorboard_events: record is cut off"


def test_a_wrong_checksum_costs_one_record():
    parts = [file_of(event(20, train__loss=2.5)), framed(event(30, train__loss=2.25).SerializeToString())]
    damaged = bytearray(parts[1])
    damaged[20] ^= 1
    data = parts[0] + bytes(damaged) + framed(event(40, train__loss=2.0).SerializeToString())
    assert [row.step for row in steps(data)] == [20, 40]
    assert [(one.offset, one.reason) for one in refusals(data)] == [
        (len(parts[0]), "tensorboard_events: record has a wrong checksum")
    ]


@given(st.binary(min_size=1, max_size=200))
def test_reading_goes_on_behind_damage(noise: bytes) -> None:
    before, after = file_of(event(20, train__loss=2.5)), framed(event(40, train__loss=2.0).SerializeToString())
    data = before + b"\xff" + noise + after
    got = list(records_of(io.BytesIO(data)))
    assert Record(len(before) + 1 + len(noise), after[12:-4]) in got
    assert any(isinstance(item, Refused) for item in got)


def test_large_records_are_passed_over():
    large = PROTO["Event"](wall_time=START, graph_def=b"x" * (LARGEST + 1))
    data = file_of(large, event(20, train__loss=2.5))
    assert [row.step for row in steps(data)] == [20]
    assert refusals(data) == []


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_framed_noise_is_refused_or_nothing(noise: bytes) -> None:
    for item in tensorboard_events.read(io.BytesIO(framed(noise))):
        assert isinstance(item, (Found, Refused))


@pytest.mark.parametrize("data", [b"\x0a\x7fabc", b"\x08" + b"\xff" * 11, b"\x0b\x00", b"\x00\x00", b"\x09abc"])
def test_no_message(data: bytes) -> None:
    with pytest.raises(NotProto):
        list(fields_of(data))


def test_damage_that_was_made_to_look_like_beginnings_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tfrecord, "_MOST_TRIES", 10)
    data = (
        file_of(event(20, train__loss=2.5)) + b"\x01" + b"\0\0\0\0\0\0\0\x01" * 20 + file_of(event(30, train__loss=2.0))
    )
    assert [row.step for row in steps(data)] == [20]
    assert [one.reason for one in refusals(data)] == [
        "tensorboard_events: length has a wrong checksum: nothing behind it"
    ]
