"""Line protocol of InfluxDB and Telegraf: measurement, tags, fields, time.

    cpu,host=gpu-a1,cpu=cpu\\ 0 usage_user=12.5,usage_system=3i 1772435289321000000

Documented at https://docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol/. Each field that is a number or a
truth is a sample of the metric ``measurement_field``, as VictoriaMetrics names it; texts are none. Times count
nanoseconds, or what their size tells. Lines without a time are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from aftershock.parsers.formats import DocumentFormat, Head, Refused, Sample, expect
from aftershock.parsers.prometheus.columns import NAME, MetricsSource, SeriesBatch, Wanted
from aftershock.parsers.prometheus.gather import Gather
from aftershock.parsers.prometheus.labels_text import labels_of
from aftershock.parsers.prometheus.line_blocks import EXCERPT, line_blocks
from aftershock.parsers.prometheus.number_text import float_of
from aftershock.parsers.prometheus.rows import reader

_NAME: Final = "influx_line"
_MOST_BAD: Final = 1000
_MOST_TAGS: Final = 200
_LATEST: Final = 7_258_118_400_000  # 2200
# Nanoseconds, microseconds, milliseconds, seconds: how much a millisecond is, from which size on.
_SIZES: Final = ((10**17, 10**6), (10**14, 10**3), (10**11, 1))

_WORD: Final = rb"(?:[^,=\s\\\"]|\\.)(?:[^,=\s\\]|\\.)*"
_VALUE: Final = rb"\"[^\"\\]*(?:\\.[^\"\\]*)*\"|[-+0-9.eE]+[iu]?|[tTfF]|true|True|TRUE|false|False|FALSE"
_LINE: Final = re.compile(
    rb"""
    (?P<measurement>(?:[^,=\s\\\#]|\\.)(?:[^,=\s\\]|\\.)*)
    (?P<tags>(?:,%b=%b)*)
    [ ]+(?P<fields>%b=(?:%b)(?:,%b=(?:%b))*)
    (?:[ ]+(?P<time>-?[0-9]{1,20}))?
    [ ]*\r?\Z
    """
    % (_WORD, _WORD, _WORD, _VALUE, _WORD, _VALUE),
    re.VERBOSE,
)
_TAG: Final = re.compile(rb",(?P<key>%b)=(?P<value>%b)" % (_WORD, _WORD))
_FIELD: Final = re.compile(rb",?(?P<key>%b)=(?P<value>%b)" % (_WORD, _VALUE))
_ESCAPE: Final = re.compile(rb"\\([,= \\])")
_TRUTHS: Final = {b"t": 1.0, b"true": 1.0, b"f": 0.0, b"false": 0.0}


def detects(head: Head) -> float:
    """Sure of lines that all have tags, fields and a time of nineteen digits."""
    lines = [line for line in head.lines(10) if not line.startswith(b"#")]
    matches = [_LINE.match(line) for line in lines]
    sure = all(match and match["tags"] and match["time"] and len(match["time"]) == 19 for match in matches)
    return 0.7 if matches and sure else 0.0


def read_metrics(source: MetricsSource, wanted: Wanted) -> Iterator[SeriesBatch | Refused]:
    """The samples of all lines."""
    gather = Gather(wanted)
    bad = 0
    with source.open("") as stream:
        for block in line_blocks(stream, _NAME):
            if isinstance(block, Refused):
                yield block
                continue
            at = block.offset
            for line in block.data[:-1].split(b"\n"):
                problem = _take(gather, line)
                if problem is not None:
                    bad += 1
                    if bad <= _MOST_BAD:
                        yield Refused(at, len(line), f"{_NAME}: {problem}", line[:EXCERPT])
                at += len(line) + 1
            if gather.full and (batch := gather.take()) is not None:
                yield batch
    if (batch := gather.take()) is not None:
        yield batch
    if bad > _MOST_BAD:
        yield Refused(0, 0, f"{_NAME}: {bad - _MOST_BAD} more lines that are not read")


def _take(gather: Gather, line: bytes) -> str | None:
    """Reads a line; says what is wrong with it."""
    line = line.lstrip(b" ")
    if not line.strip() or line.startswith(b"#"):
        return None
    match = _LINE.match(line)
    if match is None:
        return "no line of a measurement, fields and a time"
    if match["time"] is None:
        return "a line without a time"
    time = _millis(int(match["time"]))
    if not 0 < time < _LATEST:
        return "a time before 1970 or after 2200"
    tags = [(_plain(tag["key"]), _plain(tag["value"])) for tag in _TAG.finditer(match["tags"])]
    if len(tags) > _MOST_TAGS:
        return f"more than {_MOST_TAGS} tags"
    measurement = _plain(match["measurement"])
    for field in _FIELD.finditer(match["fields"]):
        value = _number(field["value"])
        labels = labels_of([(NAME, f"{measurement}_{_plain(field['key'])}"), *tags])
        if labels is None:
            return "a tag that stands twice"
        if value is not None:
            gather.add(labels, np.array([time]), np.array([value]))
        elif not field["value"].startswith(b'"'):
            return "a field that is no number"
    return None


def _millis(number: int) -> int:
    scale = next((scale for size, scale in _SIZES if abs(number) >= size), None)
    return number * 1000 if scale is None else number // scale


def _number(text: bytes) -> float | None:
    truth = _TRUTHS.get(text.lower())
    return float_of(text.rstrip(b"iu")) if truth is None else truth


def _plain(text: bytes) -> str:
    return _ESCAPE.sub(rb"\1", text).decode("utf-8", "replace")


FORMAT: Final = DocumentFormat(
    name=_NAME,
    doc="Samples in the line protocol of InfluxDB, as Telegraf writes them to files: each field that is a number is a "
    "sample of the metric `measurement_field`.",
    url="https://docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol/",
    tables=("series", "samples"),
    detects=detects,
    read=reader(read_metrics),
    read_metrics=read_metrics,
    samples=(
        Sample(
            'nvidia_smi,host=gpu-a1,index=3,name=NVIDIA\\ H100 temperature_gpu=61i,ps="P0",ok=t 1772435289321000000\n'
            "nvidia_smi,host=gpu-a1,index=3,name=NVIDIA\\ H100 temperature_gpu=62.5 1772435299321000000\n",
            (
                expect(
                    "series",
                    metric="nvidia_smi_temperature_gpu",
                    labels={"host": "gpu-a1", "index": "3", "name": "NVIDIA H100"},
                ),
                expect("samples", time=1772435289321000, value=61.0, stale=False),
                expect("samples", time=1772435299321000, value=62.5),
                expect("series", metric="nvidia_smi_ok"),
                expect("samples", time=1772435289321000, value=1.0),
            ),
        ),
    ),
    non_samples=(
        "nvidia_smi,host=gpu-a1 temperature_gpu=61i\n",
        "nvidia_smi,host=gpu-a1 temperature_gpu=hot 1772435289321000000\n",
        'nvidia_smi,host=gpu-a1 pstate="P0" 1772435289321000000\n',
        "host=gpu-a1 temperature=61\n",
        "step=5 loss=2.5 1772435289321000000\n",
    ),
)
