"""The file of one metric of an MLflow run, ``mlruns/EXPERIMENT/RUN/metrics/NAME``: a value on each line.

    1772360431000 2.5 20
    1772360441000 2.25 30

Milliseconds since 1970, the value, the step (``mlflow/store/tracking/file_store.py``; the oldest files have no step).
What is measured is said by the path of the file alone. Metrics that are known (``loss``, ``train/grad_norm``,
``learning_rate``) make rows of steps; of others, such as those of the machine, no row is made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final

from aftershock.parsers.clock import Reading
from aftershock.parsers.documents.step_values import StepValues, known
from aftershock.parsers.documents.text_lines import chunks_of, lines_of
from aftershock.parsers.formats import DocumentFormat, Found, Head, Refused, Sample, expect

# Milliseconds from 2001 to 2286 have thirteen digits.
_LINE: Final = re.compile(
    rb"(?P<millis>[0-9]{13}) (?P<value>[+-]?(?:[0-9][0-9.]{0,30}(?:[eE][+-]?[0-9]{1,3})?|nan|inf))"
    rb"(?: (?P<step>[0-9]{1,18}))?\Z"
)
_METRICS: Final = "metrics/"
_COMPRESSED: Final = (".gz", ".zst", ".bz2", ".xz")
_EXCERPT: Final = 256


def detects(head: Head) -> float:
    """Sure of lines that are nothing but a time, a value and a step."""
    lines = head.lines()
    stepped = [found for line in lines if (found := _LINE.match(line)) and found["step"] is not None]
    return 0.8 if lines and len(stepped) == len(lines) else 0.0


def metric_of(source: str) -> str:
    """The name of the metric, by the path of its file: what stands below ``metrics``, else the base name."""
    name = source.rpartition(_METRICS)[2] if _METRICS in source else source.rpartition("/")[2]
    for suffix in _COMPRESSED:
        name = name.removesuffix(suffix)
    return name


def read(stream: BinaryIO) -> Iterator[Found | Refused]:
    """Nothing but refusals: without its name nobody knows what was measured."""
    yield from read_named(stream, "")


def read_named(stream: BinaryIO, source: str) -> Iterator[Found | Refused]:
    """The steps of a metric that is known."""
    meaning = known(metric_of(source))
    steps = StepValues()
    for offset, line in lines_of(chunks_of(stream)):
        if not line.strip():
            continue
        found = _LINE.match(line)
        value = _value(found["value"]) if found is not None else None
        if found is None or value is None:
            yield Refused(offset, len(line), "mlflow_metric: no time, value and step", line[:_EXCERPT])
        elif meaning is not None and found["step"] is not None:
            millis = found["millis"].decode("ascii")
            reading = Reading("epoch", int(millis) * 1000, resolution=1000, text=millis)
            yield from steps.take(int(found["step"]), meaning, value, reading, offset)
    yield from steps.rest()


def _value(printed: bytes) -> float | None:
    try:
        return float(printed)
    except ValueError:  # two points
        return None


FORMAT: Final = DocumentFormat(
    name="mlflow_metric",
    doc="""Metrics of MLflow runs in files: the values of known metrics as steps, with their time. The path of a file
    names its metric; give the folder `mlruns`.""",
    url="https://mlflow.org/docs/latest/ml/tracking/backend-stores/",
    tables=("training_steps", "training_events"),
    detects=detects,
    read=read,
    read_named=read_named,
    samples=(
        Sample(
            "1772360431000 2.5 20\n1772360441000 2.25 30\n",
            (
                expect("training_steps", step=20, loss=2.5, time=1772360431000000, time_basis="epoch"),
                expect("training_steps", step=30, loss=2.25, time=1772360441000000),
            ),
            name="mlruns/0/4f1c/metrics/train/loss",
        ),
        Sample(
            "1772360431000 2.75 20\n",
            (expect("training_events", kind="validation", step=20, time=1772360431000000),),
            name="mlruns/0/4f1c/metrics/eval/loss",
        ),
    ),
    non_samples=("1772360431000 2.5 20\n", "1772360431 2.5\n", "1772360431000 GET 200\n", "20 2.5 1772360431000\n"),
)
