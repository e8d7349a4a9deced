"""Sources settled with their steps as columns are what they are settled row by row, however they were cut and read."""

from __future__ import annotations

import io
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.blocks import BlockResult, Window, read_block
from aftershock.parsers.registry import format_named
from aftershock.parsers.resolve import ClockRules
from aftershock.parsers.scan import scanner_for
from aftershock.parsers.settle import Settled, SourceRules, settle_source
from aftershock.parsers.training.settle_steps import can_be_columns, settle_steps
from aftershock.parsers.training.step_columns import InMemory, plain
from aftershock.parsers.transit import is_found, pack, table_name, unpack
from aftershock.schemas.training import TrainingStep
from tests.parsers.training.made_logs import logs
from tests.parsers.training.reading import megatron

TRAINING = format_named("training")
ZONES = [
    ClockRules("UTC", nearby=True),
    ClockRules("Europe/Berlin", assumed=True, nearby=True),
    ClockRules("Asia/Kathmandu"),
    ClockRules(None, nearby=True),
]


def read(data: bytes, size: int, *, columns: bool) -> list[BlockResult]:
    """The blocks of a file that is cut into chunks."""
    scanner = scanner_for((TRAINING,))  # type: ignore[arg-type]
    results = []
    for begin in range(0, len(data), size):
        stream = io.BytesIO(data)
        stream.seek(max(0, begin - 1))
        window = Window(stream, max(0, begin - 1))
        results.append(read_block(window, begin, begin + size, scanner, columns=columns))
    return results


def rows_of(settled: Settled) -> list[str]:
    return [str(asdict(row)) for row in settled.rows if not isinstance(row, TrainingStep)]


def steps_of(settled: Settled) -> list[dict[str, Any]]:
    rows = [row for row in settled.rows if isinstance(row, TrainingStep)]
    rows.sort(key=lambda row: (row.byte_offset or 0, row.step is None, row.step or 0))
    return [asdict(row) for row in rows]


def both(data: bytes, size: int, rules: SourceRules) -> tuple[Settled, Settled, list[dict[str, Any]]]:
    """Settled row by row after reading line by line, and as columns after reading many lines at once."""
    lines = unpack(batch for block in read(data, len(data) or 1, columns=False) for batch in pack(block, "s"))
    wanted = settle_source(lines.found, lines.marks, rules, format_named)
    batches = [batch for block in read(data, size, columns=True) for batch in pack(block, "s")]
    steps = [batch for batch in batches if is_found(batch) and table_name(batch) == TrainingStep.table]
    got = unpack(batch for batch in batches if not any(batch is other for other in steps))
    assert got.records + got.lines == lines.records + lines.lines
    pieces = []
    for begin in range(0, len(data), size):
        # What a block gave in columns and what it gave as rows, in the order of the file.
        own = [plain(batch) for batch in steps if begin <= batch.column("@offset")[0].as_py() < begin + size]
        if own:
            whole = pa.Table.from_batches(own).combine_chunks().to_batches()[0]
            pieces.append(InMemory(whole.take(pc.sort_indices(whole.column("@offset")))))
    assert can_be_columns(pieces)
    sunk: list[pa.RecordBatch] = []
    settled = settle_steps(pieces, got.found, got.marks, rules, format_named, sunk.append)
    return wanted, settled, [row for batch in sunk for row in batch.to_pylist()]


def same(step: dict[str, Any], row: dict[str, Any]) -> bool:
    time = row["time"]
    micros = None if time is None else (time - EPOCH) // MICRO
    told = {**row, "time": micros, "source": "s"}
    return repr(sorted(step.items())) == repr(sorted({**dict.fromkeys(step), **told}.items()))


EPOCH = pa.scalar(0, pa.timestamp("us", tz="UTC")).as_py()
MICRO = pa.scalar(1, pa.duration("us")).as_py()


def check(data: bytes, size: int, clock: ClockRules) -> None:
    rules = SourceRules(source="s", format="training", clock=clock, burst_gap=60_000_000, neighbours=True)
    wanted, got, rows = both(data, size, rules)
    for step, row in zip(steps_of(wanted), rows, strict=True):
        assert same(step, row), (step, row)
    assert rows_of(got) == rows_of(wanted)
    assert got.source == wanted.source


@settings(max_examples=100, deadline=None)
@given(logs(), st.integers(600, 40_000), st.sampled_from(ZONES))
def test_both_ways(data: bytes, size: int, clock: ClockRules) -> None:
    check(data, size, clock)


@settings(max_examples=40, deadline=None)
@given(logs(), st.integers(-14, 14), st.lists(st.integers(0, 10**6), max_size=4))
def test_lines_with_absolute_times_tell_the_zone(data: bytes, hours: int, places: list[int]) -> None:
    epoch = 1_772_360_430_000 - hours * 3_600_000
    line = (
        f':::MLLOG {{"namespace": "", "time_ms": {epoch}, "event_type": "POINT_IN_TIME", "key": "eval_accuracy", '
        '"value": 0.5, "metadata": {"file": "a.py", "lineno": 1, "epoch_num": 1}}'
    )
    parts = data.split(b"\n")
    for place in places:
        parts.insert(place % len(parts), line.encode())
    check(b"\n".join(parts), 5000, ClockRules("UTC", assumed=True, nearby=True))


@pytest.mark.parametrize("labels", [[""], ["3: "], [f"{rank}: " for rank in range(8)]])
def test_many_steps(labels: list[str]) -> None:
    lines = [label + megatron(step) for step in [*range(1, 400), *range(200, 700)] for label in labels]
    lines[100:100] = ["[before the start of training step] datetime: 2026-03-01 10:20:30.123456 "]
    lines[3000:3000] = ["ValueError: no such shard", "saving checkpoint at iteration     250 to /ckpt in torch format"]
    check("\n".join([*lines, ""]).encode(), 1 << 16, ClockRules("UTC"))
