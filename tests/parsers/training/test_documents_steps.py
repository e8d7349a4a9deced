"""Tables and documents of steps, error files, cycles: what they say, and what of them is refused."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.clock import NO_CLOCK
from aftershock.parsers.column_map import column_map
from aftershock.parsers.detect import detect
from aftershock.parsers.documents import nvrx_cycle_info, step_table, torchelastic_error, trainer_state
from aftershock.parsers.documents.step_values import StepValues, known
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused
from aftershock.parsers.resolve import ClockRules
from aftershock.parsers.selfcheck import rows_of_text
from aftershock.parsers.settle import SourceRules
from aftershock.schemas.training import TrainingStep

NO_ZONE = SourceRules(source="x", clock=ClockRules(None, inferred=False))


def rows(text: str | bytes, fmt: DocumentFormat = step_table.FORMAT) -> list[Any]:
    return rows_of_text(text, fmt, NO_ZONE)


def refusals(text: str | bytes, fmt: DocumentFormat = step_table.FORMAT) -> list[str]:
    data = text.encode() if isinstance(text, str) else text
    return [item.reason for item in fmt.read(io.BytesIO(data)) if isinstance(item, Refused)]


VALUE = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(VALUE, st.none() | VALUE), min_size=1, max_size=8), st.sampled_from(",;\t|"))
def test_a_table_comes_back(values: list[tuple[float, float | None]], mark: str) -> None:
    lines = ["epoch,global_step,train/loss,grad_norm,_timestamp".replace(",", mark)]
    for step, (loss, norm) in enumerate(values):
        lines.append(mark.join(map(str, (0, step, loss, "" if norm is None else norm, 1772360430.5 + step))))
    text = "\n".join(lines) + "\n"
    assert detect(Head("metrics.csv", text.encode())).format == "step_table"
    got = [(row.step, row.loss, row.grad_norm, row.time) for row in rows(text)]
    assert got == [(n, loss, norm, 1772360430500000 + n * 10**6) for n, (loss, norm) in enumerate(values)]
    assert refusals(text) == []


def test_parquet_of_steps_is_read_where_it_is_said_to_be_one():
    file = io.BytesIO()
    pq.write_table(pa.table({"step": [20, 30], "loss": [2.5, float("nan")], "note": ["a", "b"]}), file)
    first, second = rows(file.getvalue())
    assert (first.step, first.loss, second.step) == (20, 2.5, 30)
    assert math.isnan(second.loss)


def test_a_map_names_the_columns():
    fmt = step_table.FORMAT.mapped(column_map({"loss": "ce", "step": "Iter", "time": "at"}))
    text = "Iter,ce,at\n20,2.5,1772360431\n30,2.25,yesterday\n"
    assert [(row.step, row.loss, row.time) for row in rows(text, fmt)] == [
        (20, 2.5, 1772360431000000),
        (30, 2.25, None),
    ]
    assert refusals(text, fmt) == ["step_table: time is not read: not a time: yesterday"]


def test_seconds_since_the_start_are_no_time():
    (row,) = rows("step,loss,time\n20,2.5,12.25\n")
    assert (row.time, row.time_basis) == (None, "none")
    assert refusals("step,loss,time\n20,2.5,12.25\n") == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("x,2.5", ["step_table: a row without a step"]),
        (",2.5", ["step_table: a row without a step"]),
        ("-1,2.5", ["step_table: a row without a step"]),
        ("20,high", ["step_table: loss is not read: not a number: high"]),
        ("20", ["step_table: cells do not fit the header"]),
        (",", []),
        ("20,", []),
    ],
)
def test_rows_that_are_none(line: str, said: list[str]) -> None:
    text = f"step,loss\n{line}\n30,2.25\n"
    assert [row.step for row in rows(text)] == [30]
    assert refusals(text) == said


def test_charts_of_several_runs_are_nobodys():
    one = '"Step","bert-7 - loss","bert-7 - loss__MIN"\n"20","2.5","2.5"\n'
    two = '"Step","bert-7 - loss","bert-8 - loss"\n"20","2.5","2.25"\n'
    assert detect(Head("x.csv", one.encode())).format == "step_table"
    assert detect(Head("x.csv", two.encode())).format != "step_table"


def test_objects_one_on_a_line_are_lines():
    text = '{"step": 20, "loss": 2.5}\n{"step": 30, "loss": 2.25}\n'
    assert detect(Head("x.jsonl", text.encode())).how == "lines"


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.sampled_from(["loss", "lr", "grad_norm", "val_loss", "acc"])), max_size=90
    )
)
def test_no_value_of_a_step_is_lost(values: list[tuple[int, str]]) -> None:
    steps = StepValues()
    found: list[Found] = []
    for number, (step, name) in enumerate(values):
        found += steps.add(step, name, float(number), NO_CLOCK, number)
    found += steps.rest()
    told = [item.row for item in found if isinstance(item.row, TrainingStep)]
    columns = {"loss": "loss", "lr": "learning_rate", "grad_norm": "grad_norm"}
    got = {(row.step, column, getattr(row, column)) for row in told for column in columns.values()}
    wanted = {(step, columns[name], float(n)) for n, (step, name) in enumerate(values) if name in columns}
    assert {one for one in got if one[2] is not None} == wanted


def test_names_in_any_case_and_of_any_optimiser():
    assert [known(name).column for name in ("Loss/train", "LM LOSS", "lr-AdamW/pg1")] == [  # type: ignore[union-attr]
        *("loss", "loss", "learning_rate")
    ]
    assert [known(name) for name in ("accuracy", "lr-a/b/c", "x" * 10**6)] == [None] * 3


def state_file(*entries: Any, **more: Any) -> str:
    state = {"epoch": 0.5, "global_step": 30, "log_history": list(entries), "max_steps": 1000, **more}
    return json.dumps(state, indent=2)


def test_a_state_tells_how_many_steps_are_meant():
    entries = [{"epoch": 0.1, "loss": 2.5 - n / 1e3, "step": n} for n in range(300)]
    got = rows(state_file(*entries, is_hyper_param_search=False), trainer_state.FORMAT)
    assert [(row.step, row.loss) for row in got] == [(entry["step"], entry["loss"]) for entry in entries]
    assert {row.total_steps for row in got} == {1000}


def test_a_loss_of_python_that_is_no_number():
    (row,) = rows(state_file({"loss": float("nan"), "step": 7}), trainer_state.FORMAT)
    assert math.isnan(row.loss)


def test_entries_of_a_state_that_are_none():
    text = state_file({"loss": 2.5}, 7, {"loss": True, "step": 1}, {"eval_a_loss": 1.5, "step": 3})
    assert [(row.table, row.step) for row in rows(text, trainer_state.FORMAT)] == [("training_events", 3)]
    assert refusals(text, trainer_state.FORMAT) == [
        "trainer_state: entry without step",
        "trainer_state: an element that is no object",
    ]


def error_file(message: Any, timestamp: Any = "1772360430") -> str:
    extra = {"py_callstack": "Traceback (most recent call last):\n", "timestamp": timestamp}
    return json.dumps({"message": {"message": message, "extraInfo": extra}})


@pytest.mark.parametrize(
    ("message", "error_class"),
    [
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "gpu_memory_ecc"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "user_gpu_oom"),
        ("Nothing that anybody knows", "unknown"),
    ],
)
def test_an_error_file_has_one_error_of_a_class(message: str, error_class: str) -> None:
    fmt = torchelastic_error.FORMAT.of_file("/logs/none_x/attempt_0/5/error.json")
    text = error_file(message)
    assert detect(Head("error.json", text.encode())).format == "torchelastic_error"
    (row,) = rows(text, fmt)
    assert (row.error_class, row.error_role, row.local_rank, row.time) == (error_class, "root", 5, 1772360430000000)


def test_an_error_file_without_a_message():
    assert refusals(error_file({"a": 1}), torchelastic_error.FORMAT) == [
        "torchelastic_error: no message of an exception"
    ]


def cycle(**more: Any) -> str:
    given = {"job_id": "4001", "cycle_start_time": "2026-03-01T10:20:30Z", "active_nodes": "gpu017", **more}
    return json.dumps(given, indent=2)


@pytest.mark.parametrize(
    ("text", "ranks"),
    [("0-2,8", [0, 1, 2, 8]), ("5", [5]), ("", None), ("3-1", None), ("0-9999999", None), ("a", None)],
)
def test_ranks_of_a_cycle(text: str, ranks: list[int] | None) -> None:
    (row,) = rows(cycle(active_ranks=text, cycle_number=2, cycle_end_time=""), nvrx_cycle_info.FORMAT)
    assert (row.kind, row.ranks) == ("restart", ranks)


def test_a_cycle_that_ends_before_it_begins_has_no_duration():
    _, end = rows(cycle(cycle_end_time="2026-03-01T10:20:29Z"), nvrx_cycle_info.FORMAT)
    assert (end.kind, end.duration_s) == ("exit", None)
    assert refusals(cycle(cycle_start_time="soon"), nvrx_cycle_info.FORMAT) == ["nvrx_cycle_info: its start is no time"]
