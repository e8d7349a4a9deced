"""Line protocol of InfluxDB: what is written comes back, and what is wrong with a line is told."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.documents import influx_line
from aftershock.parsers.prometheus.columns import NAME, Labels
from tests.parsers.prometheus.blocks import Samples
from tests.parsers.prometheus.texts import Written, go_float, read_with, samples_of, series_in, written

T0 = 1_772_435_289_321
TEMP: Labels = ((NAME, "m_temp"), ("host", "gpu-a1"))
# A quote, a comment or a backslash at the border of a word mean something else to other readers of the format.
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=8).filter(
    lambda text: not set(text) & set('\\"#') and not text.isspace()
)


def escaped(text: str) -> str:
    return re.sub(r"([,= ])", r"\\\1", text)


def as_lines(series: Written) -> str:
    lines = []
    for labels, samples in series:
        tags = "".join(f",{escaped(key)}={escaped(value)}" for key, value in labels if key != NAME)
        lines += [f"m{tags} {escaped(dict(labels)[NAME])}={go_float(v)} {t}000000\n" for t, v in samples]
    return "".join(lines)


@settings(max_examples=150, deadline=None)
@given(written(TEXTS | TEXTS.map(lambda text: f"{text} = ,{text}")))
def test_samples_come_back(series: Written) -> None:
    finite = [(labels, [(t, v) for t, v in samples if abs(v) < 1e308]) for labels, samples in series]
    expected: dict[Labels, Samples] = {}
    for labels, samples in finite:
        own = tuple(sorted((key, f"m_{value}" if key == NAME else value) for key, value in labels))
        if samples:
            expected[own] = samples
    assert series_in(influx_line.read_metrics, as_lines(finite)) == expected


def test_numbers_truths_and_texts() -> None:
    text = f'# a comment\n\nm,host=gpu-a1 temp=61i,on=True,off=f,state="P0 a=1, b",u=7u {T0 * 10**6}\r\n'
    found = series_in(influx_line.read_metrics, text)
    assert {dict(labels)[NAME]: samples for labels, samples in found.items()} == {
        "m_temp": [(T0, 61.0)],
        "m_on": [(T0, 1.0)],
        "m_off": [(T0, 0.0)],
        "m_u": [(T0, 7.0)],
    }


@pytest.mark.parametrize("stated", [T0 * 10**6, T0 * 10**3, T0])
def test_the_size_of_a_time_tells_its_unit(stated: int) -> None:
    assert series_in(influx_line.read_metrics, f"m,host=gpu-a1 temp=1 {stated}\n") == {TEMP: [(T0, 1.0)]}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("m,host=gpu-a1 temp=1", "without a time"),
        ("m,host=a,host=b temp=1 1772435289321000000", "stands twice"),
        ("m,host=gpu-a1 temp=1.2.3 1772435289321000000", "no number"),
        ("m,host=gpu-a1 temp=warm 1772435289321000000", "no line of"),
        ("m,host=gpu-a1 temp=1 -5", "before 1970"),
        ("m" + ",a=b" * 300 + " temp=1 1772435289321000000", "tags"),
    ],
)
def test_a_bad_line_is_told_and_costs_no_other(line: str, said: str) -> None:
    batches, refused = read_with(influx_line.read_metrics, f"m,host=gpu-a1 temp=1 {T0 * 10**6}\n{line}\n")
    assert samples_of(batches) == {TEMP: [(T0, 1.0)]}
    assert [said in one.reason for one in refused] == [True]
