"""Samples written as the tools write them as text and JSON, and read back from streams that give any pieces."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Sequence
from typing import BinaryIO, cast

from hypothesis import strategies as st

from aftershock.parsers.column_map import ColumnMap
from aftershock.parsers.documents import (
    openmetrics,
    prometheus_query,
    promtool_dump,
    samples_table,
    victoria_metrics,
)
from aftershock.parsers.formats import Refused
from aftershock.parsers.prometheus.columns import (
    EVERYTHING,
    NAME,
    Labels,
    MetricsSource,
    ReadColumns,
    SeriesBatch,
    Wanted,
)
from tests.parsers.prometheus.blocks import Samples, apart

Written = Sequence[tuple[Labels, Samples]]


class Dribble(io.RawIOBase):
    """A stream that gives at most so many bytes at once."""

    def __init__(self, data: bytes, most: int) -> None:
        self._inner = io.BytesIO(data)
        self._most = most

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._inner.read(self._most if size < 0 else min(size, self._most))


def read_with(
    reader: ReadColumns, text: str | bytes, wanted: Wanted = EVERYTHING, most: int = 1 << 20
) -> tuple[list[SeriesBatch], list[Refused]]:
    """The batches and refusals of a text."""
    data = text.encode() if isinstance(text, str) else text
    source = MetricsSource("text", lambda name: cast(BinaryIO, Dribble(data, most)))
    return apart(reader(source, wanted))


def series_in(reader: ReadColumns, text: str | bytes, wanted: Wanted = EVERYTHING) -> dict[Labels, Samples]:
    """The samples of a text of which nothing is refused."""
    batches, refused = read_with(reader, text, wanted)
    assert refused == []
    return samples_of(batches)


def samples_of(batches: list[SeriesBatch]) -> dict[Labels, Samples]:
    """The samples by the labels of their series, which may go on from batch to batch."""
    found: dict[Labels, Samples] = {}
    for batch in batches:
        assert batch.begins[0] == 0
        assert batch.begins[-1] == len(batch.times) == len(batch.values)
        assert len(batch.begins) == len(batch.labels) + 1 == len(set(batch.labels)) + 1
        for i, labels in enumerate(batch.labels):
            own = slice(batch.begins[i], batch.begins[i + 1])
            times = batch.times[own].tolist()
            assert times == sorted(times)
            found.setdefault(labels, []).extend(zip(times, batch.values[own].tolist(), strict=True))
    return {labels: samples for labels, samples in found.items() if samples}


def go_float(value: float) -> str:
    """A number as Go prints it with %g."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)


def go_quoted(text: str) -> str:
    """A text as Go quotes it."""
    names = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
    names |= {"\\": "\\\\", '"': '\\"'}

    def one(char: str) -> str:
        if char in names:
            return names[char]
        if char.isprintable():
            return char
        code = ord(char)
        return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

    return '"' + "".join(map(one, text)) + '"'


def exposed(text: str) -> str:
    """A text as expositions quote it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def as_dump(series: Written) -> str:
    """As ``promtool tsdb dump`` prints it."""
    lines = []
    for labels, samples in series:
        text = "{" + ", ".join(f"{name}={go_quoted(value)}" for name, value in labels) + "}"
        lines += [f"{text} {go_float(value)} {time}\n" for time, value in samples]
    return "".join(lines)


def as_openmetrics(series: Written) -> str:
    """As ``promtool tsdb dump-openmetrics`` prints it."""
    lines = []
    for labels, samples in series:
        inner = ",".join(f"{name}={go_quoted(value)}" for name, value in labels if name != NAME)
        text = dict(labels)[NAME] + "{" + inner + "}"
        lines += [f"{text} {go_float(value)} {time / 1000:.3f}\n" for time, value in samples]
    return "".join([*lines, "# EOF\n"])


def as_federation(series: Written) -> str:
    """As a server federates it, at all times one after the other."""
    found = []
    for labels, samples in series:
        inner = ",".join(f"{name}={exposed(value)}" for name, value in labels if name != NAME)
        found += [(time, f"{dict(labels)[NAME]}{{{inner}}} {go_float(value)} {time}\n") for time, value in samples]
    return "# TYPE up untyped\n" + "".join(line for _, line in sorted(found, key=lambda pair: pair[0]))


def as_query(series: Written, **more: object) -> str:
    """As the API answers an instant query with a range selector."""
    result = [
        {"metric": dict(labels), "values": [[time / 1000, go_float(value)] for time, value in samples]}
        for labels, samples in series
    ]
    answer = {"status": "success", "data": {"resultType": "matrix", "result": result}, **more}
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":"))


def as_pretty_query(series: Written) -> str:
    """The same, as a person may have had it formatted, with sorted keys."""
    return json.dumps(json.loads(as_query(series)), indent=2, sort_keys=True)


def as_victoria(series: Written) -> str:
    """As VictoriaMetrics exports it, at most three samples on a line."""
    lines = []
    for labels, samples in series:
        for at in range(0, len(samples), 3):
            part = samples[at : at + 3]
            values = [
                None if math.isnan(v) else ("Infinity" if v > 0 else "-Infinity") if math.isinf(v) else v
                for _, v in part
            ]
            record = {"metric": dict(labels), "values": values, "timestamps": [time for time, _ in part]}
            lines.append(json.dumps(record, ensure_ascii=False) + "\n")
    return "".join(lines)


def as_csv(series: Written) -> str:
    """As VictoriaMetrics exports it as CSV."""
    names = sorted({name for labels, _ in series for name, _ in labels})
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow([*names, "__value__", "__timestamp__:unix_ms"])
    for labels, samples in series:
        own = dict(labels)
        for time, value in samples:
            table.writerow([*(own.get(name, "") for name in names), go_float(value), time])
    return out.getvalue()


WRITERS: dict[str, tuple[Callable[[Written], str], ReadColumns]] = {
    "dump": (as_dump, promtool_dump.read_metrics),
    "dump-openmetrics": (as_openmetrics, openmetrics.read_metrics),
    "federation": (as_federation, openmetrics.read_metrics),
    "query": (as_query, prometheus_query.read_metrics),
    "query, formatted": (as_pretty_query, prometheus_query.read_metrics),
    "victoria": (as_victoria, victoria_metrics.read_metrics),
    "csv": (as_csv, samples_table.read_metrics),
}


def mapped(column_map: ColumnMap) -> ReadColumns:
    """The reader of tables with this map."""
    return lambda source, wanted: samples_table.read_metrics_mapped(source, wanted, column_map)


NAMES = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True).filter(lambda name: not name.startswith("__"))
TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12) | st.text('\\"{}, \t#=n', min_size=1, max_size=8)
TIMES = st.integers(1_500_000_000_000, 2_000_000_000_000)
VALUES = st.floats(width=64) | st.integers(-1000, 1000).map(float)


@st.composite
def written(draw: st.DrawFn, texts: st.SearchStrategy[str] = TEXTS) -> list[tuple[Labels, Samples]]:
    """Some series, each with some samples at times of its own."""
    found: dict[Labels, Samples] = {}
    for _ in range(draw(st.integers(1, 4))):
        labels = {NAME: draw(NAMES), **draw(st.dictionaries(NAMES, texts, max_size=3))}
        times = sorted(draw(st.sets(TIMES, min_size=1, max_size=6)))
        values = draw(st.lists(VALUES, min_size=len(times), max_size=len(times)))
        found[tuple(sorted(labels.items()))] = list(zip(times, values, strict=True))
    return list(found.items())
