"""Runs of Weights & Biases and of MLflow: blocks, pieces, values, exits."""

from __future__ import annotations

import io
import json
import math
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.detect import detect
from aftershock.parsers.documents import mlflow_metric, mlflow_run, wandb_metadata, wandb_run
from aftershock.parsers.documents.leveldb_log import BLOCK, LARGEST, LogRecord, checksum, log_records
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused
from aftershock.parsers.selfcheck import rows_of_text
from aftershock.schemas.events import TrainingEvent
from aftershock.schemas.training import TrainingStep

HEADER = b":W&B\xe1\xbe\x00"


def varint(value: int) -> bytes:
    data = bytearray()
    value &= (1 << 64) - 1
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*data, value))


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def text(field: int, data: bytes | str) -> bytes:
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def history(*items: tuple[str, Any]) -> bytes:
    """A record of a history; a name with a dot is a nested key."""
    made = []
    for name, value in items:
        keys = [text(2, part) for part in name.split(".")] if "." in name else [text(1, name)]
        made.append(text(1, b"".join(keys) + text(16, json.dumps(value))))
    return text(2, b"".join(made))


def run(**fields: Any) -> bytes:
    given = {"run_id": "7kq2", "project": "llm", "host": "gpu017", **fields}
    numbers = {"run_id": 1, "project": 3, "host": 13}
    parts = [text(numbers[name], value) for name, value in given.items() if name in numbers]
    parts.append(text(17, number(1, 1_772_360_430) + number(2, 500_000_000)))
    if given.get("resumed"):
        parts += [number(18, 1), number(14, given["starting_step"])]
    return text(17, b"".join(parts))


def log_of(*records: bytes) -> bytes:
    """The records as LevelDB lays them into blocks."""
    out = bytearray(HEADER)
    for record in records:
        rest, first = record, True
        while rest or first:
            room = BLOCK - len(out) % BLOCK
            if room < 7:
                out += b"\0" * room
                room = BLOCK
            piece, rest = rest[: room - 7], rest[room - 7 :]
            kind = (1 if first else 4) if not rest else (2 if first else 3)
            out += struct.pack("<IHB", checksum(kind, piece), len(piece), kind) + piece
            first = False
    return bytes(out)


def rows(data: bytes | str, fmt: DocumentFormat = wandb_run.FORMAT) -> list[Any]:
    return rows_of_text(data, fmt)


def refusals(data: bytes, fmt: DocumentFormat = wandb_run.FORMAT) -> list[Refused]:
    return [item for item in fmt.read(io.BytesIO(data)) if isinstance(item, Refused)]


SIZES = st.integers(0, 200) | st.sampled_from([BLOCK - 7 - d for d in range(12)]) | st.just(3 * BLOCK)


@settings(max_examples=60, deadline=None)
@given(st.lists(SIZES, max_size=6))
def test_records_of_any_size_come_back(sizes: list[int]) -> None:
    written = [bytes((n % 251,)) * size for n, size in enumerate(sizes)]
    got = list(log_records(io.BytesIO(log_of(*written)), len(HEADER)))
    assert [item.data for item in got if isinstance(item, LogRecord)] == written
    assert len(got) == len(written)


@settings(max_examples=60, deadline=None)
@given(st.integers(7, 3 * BLOCK), st.integers(1, 255))
def test_damage_costs_a_block_at_most(at: int, change: int) -> None:
    written = [struct.pack("<I", n) * 25 for n in range(900)]
    data = bytearray(log_of(*written))
    at = min(at, len(data) - 1)
    data[at] ^= change
    got = list(log_records(io.BytesIO(bytes(data)), len(HEADER)))
    kept = [item.data for item in got if isinstance(item, LogRecord)]
    assert all(record in written for record in kept)
    assert len(kept) >= len(written) - BLOCK // 107 - 2
    assert len(kept) < len(written)
    assert any(isinstance(item, Refused) for item in got)


def test_a_record_that_is_cut_off_is_refused():
    data = log_of(run(), history(("loss", 2.5), ("_step", 20)))[:-2]
    assert [row.kind for row in rows(data)] == ["start"]
    assert [one.reason for one in refusals(data)] == ["wandb_run: record is cut off"]


def test_a_record_without_bounds_is_refused_and_not_kept():
    data = log_of(b"x" * (LARGEST + 10), run())
    assert [row.kind for row in rows(data)] == ["start"]
    (refused,) = refusals(data)
    assert refused.reason == f"wandb_run: record of more than {LARGEST} bytes"
    assert refused.length == LARGEST + 10


VALUES = st.floats(allow_infinity=False, allow_nan=False, width=32)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(VALUES, st.none() | VALUES), max_size=6))
def test_what_is_logged_is_read(values: list[tuple[float, float | None]]) -> None:
    records = []
    for step, (loss, norm) in enumerate(values):
        items = [("train/loss", loss), ("_step", step), ("_timestamp", 1772360430.25 + step)]
        records.append(history(*items, *([("train.grad_norm", norm)] if norm is not None else [])))
    data = log_of(run(), *records)
    assert detect(Head("run-7kq2.wandb", data[: 1 << 16])).format == "wandb_run"
    got = [row for row in rows(data) if isinstance(row, TrainingStep)]
    wanted = [(n, loss, norm, 1772360430250000 + n * 10**6) for n, (loss, norm) in enumerate(values)]
    assert [(row.step, row.loss, row.grad_norm, row.time) for row in got] == wanted
    assert refusals(data) == []


def test_the_trainer_counts_the_steps_where_it_does():
    items = [("loss", 2.5), ("_step", 7), ("train/global_step", 700)]
    (row,) = [row for row in rows(log_of(history(*items))) if isinstance(row, TrainingStep)]
    assert row.step == 700


@pytest.mark.parametrize("value", ["NaN", float("nan")])
def test_a_loss_that_is_no_number_is_kept(value: Any) -> None:
    (row,) = rows(log_of(history(("loss", value), ("_step", 7))))
    assert math.isnan(row.loss)


def test_values_of_other_kinds_are_passed_over():
    items = [("loss", {"a": [1]}), ("lr", True), ("grad_norm", "x"), ("samples_seen", 10**400), ("_step", 7)]
    assert rows(log_of(history(*items))) == []


def test_a_run_that_was_resumed():
    data = log_of(run(resumed=True, starting_step=500), text(18, number(1, 255) + number(2, 90)))
    begin, end = rows(data)
    assert (begin.kind, begin.step, begin.host) == ("resume", 500, "gpu017")
    # Its run time counts what went before.
    assert (end.kind, end.error, end.time, end.duration_s) == ("exit", "exit code 255", None, 90.0)


def test_an_exit_of_zero_is_no_error():
    _, end = rows(log_of(run(), text(18, number(2, 90))))
    assert (end.kind, end.error_class, end.error_role, end.time) == ("exit", None, None, 1772360520500000)


def test_a_run_is_told_once():
    assert [row.kind for row in rows(log_of(run(), run(), text(23, b"")))] == ["start", "preempting"]


@given(st.binary(max_size=300))
def test_noise_in_a_record_never_raises(noise: bytes) -> None:
    for item in wandb_run.read(io.BytesIO(log_of(text(2, noise), text(17, noise), text(18, noise), noise))):
        assert isinstance(item, (Found, Refused))


def test_metadata_without_a_zone_is_utc():
    (row,) = rows('{"startedAt": "2026-03-01T10:20:30", "host": "gpu017", "program": "a.py"}', wandb_metadata.FORMAT)
    assert (row.time, row.time_basis, row.host) == (1772360430000000, "zoned", "gpu017")


METRIC = "1772360431000 2.5 20\n1772360441000 nan 30\n1772360441000 nan\nx\n"


@pytest.mark.parametrize(
    ("path", "column"),
    [
        ("mlruns/0/a/metrics/loss", "loss"),
        ("mlruns/0/a/metrics/train/loss.gz", "loss"),
        ("mlruns/0/a/metrics/train/grad_norm", "grad_norm"),
        ("loss", "loss"),
    ],
)
def test_the_path_names_the_metric(path: str, column: str) -> None:
    got = rows(METRIC.encode(), mlflow_metric.FORMAT.of_file(path))
    assert [(row.step, row.time) for row in got] == [(20, 1772360431000000), (30, 1772360441000000)]
    assert getattr(got[0], column) == 2.5
    assert math.isnan(getattr(got[1], column))


@pytest.mark.parametrize("path", ["mlruns/0/a/metrics/system/gpu_0_power_usage_watts", "", "mlruns/0/a/metrics/acc"])
def test_other_metrics_give_nothing(path: str) -> None:
    assert rows(METRIC.encode(), mlflow_metric.FORMAT.of_file(path)) == []


def test_lines_of_a_metric_that_are_none_are_refused():
    got = list(mlflow_metric.read_named(io.BytesIO(METRIC.encode()), "metrics/loss"))
    assert [(item.offset, item.excerpt) for item in got if isinstance(item, Refused)] == [(METRIC.index("x"), b"x")]


@pytest.mark.parametrize(
    ("status", "error"), [("3", None), ("FINISHED", None), ("4", "status FAILED"), ("KILLED", "status KILLED")]
)
def test_the_state_of_a_run_of_mlflow(status: str, error: str | None) -> None:
    notes = f"lifecycle_stage: active\nrun_id: 'a'\nstart_time: 1772360430000\nend_time: null\nstatus: {status}\n"
    assert detect(Head("meta.yaml", notes.encode())).format == "mlflow_run"
    begin, end = rows(notes, mlflow_run.FORMAT)
    assert isinstance(end, TrainingEvent)
    assert (begin.kind, end.kind, end.error, end.time) == ("start", "exit", error, None)
