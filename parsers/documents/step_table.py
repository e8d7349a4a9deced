"""Steps as a table: ``metrics.csv`` of Lightning, exports of trackers, what a script wrote; CSV, JSON or Parquet.

    epoch,lr-AdamW,step,train_loss,val_loss
    0,,49,2.5,
    0,0.0003,49,,
    0,,49,,2.75

A table needs a column for the step and one for the loss; ``_step``, ``_timestamp`` and ``loss`` of Weights & Biases are
known, and so are the names that trainers print. Rows of one step are one row. In charts that were exported a name has
the name of the run before it (``bert-7 - train/loss``); if there are several runs it is nobody's. Objects of JSON that
stand one on a line are read as lines of training output. A table with other names is read with a map:

    [[sources]]
    glob = "runs/*.csv"
    format = "step_table"
    time_unit = "ms"                # of times that are numbers; their size tells it as a rule
    [sources.columns]
    step = "Step"
    loss = ["Value", "ce"]          # the first that is not empty
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, BinaryIO, Final

from aftershock.parsers.clock import NO_CLOCK, Reading
from aftershock.parsers.column_map import STEP_COLUMNS, ColumnMap
from aftershock.parsers.documents.cell_values import text_cell, time_cell
from aftershock.parsers.documents.json_records import json_start
from aftershock.parsers.documents.step_values import STEP_NAMES, VALIDATION, Known, StepValues, known, names_of
from aftershock.parsers.documents.table_layout import Layout
from aftershock.parsers.documents.table_records import TableRecord, looks_like, table_records
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect
from aftershock.parsers.training.rules import number, whole

_VALIDATION: Final = "validation"
_TIMES: Final = ("_timestamp", "timestamp", "wall_time", "wall time", "time", "datetime", "date", "created_at", "ts")
_NUMBERS: Final = tuple(column for column in STEP_COLUMNS if column not in ("step", "time"))
# Only of these it means something that they are no number.
_MAY_BE_NAN: Final = frozenset({"loss", "grad_norm"})
_NOT_FINITE: Final = frozenset({"nan", "inf", "+inf", "-inf", "infinity", "-infinity"})
_OF_RUN: Final = " - "
_EXCERPT: Final = 512
_NO_MAP: Final = ColumnMap()

# Where the columns stand if nobody says otherwise.
_KNOWN: Final = ColumnMap(
    columns=(
        ("step", STEP_NAMES),
        ("time", _TIMES),
        *((column, (column, *names_of(column))) for column in _NUMBERS),
        (_VALIDATION, tuple(sorted(VALIDATION))),
    )
)


class _StepLayout(Layout):
    """A table of steps. Names may have the name of a run before them."""

    def __init__(self, mapped: ColumnMap) -> None:
        needs = (("step",), ("loss",)) if mapped == _NO_MAP else (("step",), _NUMBERS)
        super().__init__((*STEP_COLUMNS, _VALIDATION), needs, mapped.over(_KNOWN), 2)

    def places(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        plain: dict[str, str] = {}
        twice: set[str] = set()
        for name in names:
            own = name.rpartition(_OF_RUN)[2]
            if own in plain and own != name:
                twice.add(own)
            plain.setdefault(own, name)
        for name in twice:
            del plain[name]
        found = {column: tuple(plain[own] for own in places) for column, places in super().places(list(plain)).items()}
        if "learning_rate" not in found:
            rates = (name for own, name in plain.items() if (k := known(own)) and k.column == "learning_rate")
            rate = next(rates, None)
            if rate is not None:
                found["learning_rate"] = (rate,)
        return found


@lru_cache(maxsize=1)
def _ours() -> _StepLayout:
    return _StepLayout(_NO_MAP)


def detects(head: Head) -> float:
    """Sure of a header with a step and a loss; objects of JSON one on a line are lines."""
    start = json_start(head.data)
    if start and start.startswith(b"{"):
        return 0.0
    return 0.7 if looks_like(head, _ours()) else 0.0


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """The steps of a table with known names."""
    yield from _read(stream, _ours(), _NO_MAP)


def read_mapped(stream: BinaryIO, column_map: ColumnMap) -> Iterator[Found | Refused]:
    """The steps of a table with the names of a map."""
    yield from _read(stream, _StepLayout(column_map), column_map)


def _read(stream: BinaryIO, layout: Layout, mapped: ColumnMap) -> Iterator[Found | Refused]:
    steps = StepValues()
    stated = bool(mapped.names_of("time")) and mapped.names_of("time") != ("time",)
    for record in table_records(stream, layout, "step_table"):
        if isinstance(record, Refused):
            yield record
            continue
        problems: list[str] = []
        step = whole(_bytes(record.values.get("step")))
        if step is None or step < 0:
            if any(text_cell(value) is not None for value in record.values.values()):
                yield _refused(record, "a row without a step")
            continue
        reading = _clock(record.values, mapped, problems if stated else [])
        yield from _row(record, step, reading, steps, problems)
        for problem in problems:
            yield _refused(record, problem)
    yield from steps.rest()


def _row(
    record: TableRecord, step: int, reading: Reading, steps: StepValues, problems: list[str]
) -> Iterator[Found | Refused]:
    for column in _NUMBERS:
        value = _number(record.values.get(column), column, problems)
        if value is not None:
            yield from steps.take(step, Known(column, 0, megatron=False), value, reading, record.offset)
    if text_cell(record.values.get(_VALIDATION)) is not None:
        yield from steps.take(step, Known(_VALIDATION, 0, megatron=False), 0.0, reading, record.offset)


def _refused(record: TableRecord, reason: str) -> Refused:
    return Refused(record.offset, len(record.raw), f"step_table: {reason}", record.raw[:_EXCERPT])


def _bytes(value: Any) -> bytes | None:
    text = text_cell(value)
    return text.encode("utf-8", "replace") if text is not None and len(text) < 64 else None


def _clock(values: Mapping[str, Any], mapped: ColumnMap, problems: list[str]) -> Reading:
    try:
        clock = time_cell(values.get("time"), mapped.time_unit, mapped.time_format)
    except ValueError as error:
        # Without a map it may be seconds since the start of the run.
        problems.append(f"time is not read: {error}: {str(values.get('time'))[:64]}")
        return NO_CLOCK
    if clock is None:
        return NO_CLOCK
    return Reading(clock.kind, clock.wall, resolution=clock.resolution, text=clock.text or None)


def _number(value: Any, column: str, problems: list[str]) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, float) or (isinstance(value, str) and value.strip().lower() in _NOT_FINITE):
        number_of = float(value)
        return number_of if column in _MAY_BE_NAN or abs(number_of) < 1e300 else None
    text = _bytes(value)
    found = number(text)
    if found is None and text_cell(value) is not None:
        problems.append(f"{column} is not read: not a number: {str(value)[:64]}")
    return found


FORMAT: Final = DocumentFormat(
    name="step_table",
    doc="Steps of training as CSV, JSON or Parquet: `metrics.csv` of Lightning, exports of Weights & Biases and of "
    f"other trackers. Its columns are those of the table `training_steps`: {', '.join(STEP_COLUMNS)}; the names that "
    "trainers and trackers use for them are known, others are told in the configuration, below a `[[sources]]` with "
    '`format = "step_table"`: `[sources.columns]` (our name = theirs), `[sources.values]`, `time_unit`, `time_format`.',
    url="https://lightning.ai/docs/pytorch/stable/extensions/generated/lightning.pytorch.loggers.CSVLogger.html",
    tables=("training_steps", "training_events"),
    detects=detects,
    read=read,
    read_mapped=read_mapped,
    samples=(
        Sample(
            "epoch,lr-AdamW,step,train_loss,val_loss\n0,,49,2.5,\n0,0.0003,49,,\n0,,49,,2.75\n0,,99,nan,\n",
            (
                expect("training_steps", step=49, loss=2.5, learning_rate=0.0003, time=None),
                expect("training_events", kind="validation", step=49),
                expect("training_steps", step=99),
            ),
            title="Lightning: metrics.csv",
        ),
        Sample(
            '"_step","_runtime","_timestamp","loss","train/grad_norm"\n"20","1.5","1772360431.25","2.5","0.75"\n',
            (expect("training_steps", step=20, loss=2.5, grad_norm=0.75, time=1772360431250000, time_basis="epoch"),),
            title="Weights & Biases: a history",
        ),
        Sample(
            '"Step","bert-7 - train/loss","bert-7 - train/loss__MIN","bert-7 - train/loss__MAX"\n"20","2.5","2","3"\n',
            (expect("training_steps", step=20, loss=2.5),),
            title="Weights & Biases: a chart",
        ),
        Sample(
            '[{"step": 20, "loss": 2.5, "time": "2026-03-01T10:20:31Z"},\n {"step": 30, "loss": null}]\n',
            (expect("training_steps", step=20, loss=2.5, time=1772360431000000, time_basis="zoned"),),
            title="JSON: an array of objects",
        ),
    ),
    non_samples=(
        "epoch,accuracy\n0,0.5\n",
        "step,name,seconds\n1,build,12.5\n",
        "Step,bert-7 - loss,bert-8 - loss\n20,2.5,2.25\n",
        "loss,interface\n0.02,eth0\n",
    ),
)
