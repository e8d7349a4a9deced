"""Raw samples of VictoriaMetrics, as ``/api/v1/export`` gives them: an object of JSON on each line.

    {"metric":{"__name__":"up","job":"node","instance":"gpu-a1:9100"},"values":[1,0],"timestamps":[1772435289321,1772435304321]}

Documented at https://docs.victoriametrics.com/victoriametrics/#how-to-export-data-in-json-line-format. Times are
milliseconds. A series may stand on several lines, and may have one time twice. ``null`` is a NaN (which markers of
staleness are, too: they cannot be told apart), infinities are text. The native format of VictoriaMetrics is documented
nowhere and changes with its version: it is recognised, and refused with advice.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from aftershock.parsers.formats import DocumentFormat, Head, Refused, Sample, expect
from aftershock.parsers.prometheus.columns import MetricsSource, SeriesBatch, Wanted
from aftershock.parsers.prometheus.gather import Gather
from aftershock.parsers.prometheus.json_samples import metric_labels
from aftershock.parsers.prometheus.line_blocks import EXCERPT, line_blocks
from aftershock.parsers.prometheus.number_text import float_of, times_of
from aftershock.parsers.prometheus.rows import reader

_NAME: Final = "victoria_metrics"

# A line holds a whole series unless the export is told otherwise: a million samples and more.
_LONGEST_LINE: Final = 32 << 20
_ADVICE: Final = ": export with max_rows_per_line=100000"
_NATIVE: Final = (
    "the native format of VictoriaMetrics, which is documented nowhere: export with /api/v1/export (JSON lines) instead"
)

_LINE: Final = re.compile(
    rb'\s*\{\s*"metric"\s*:\s*\{(?:[^{}"]|"[^"\\]*(?:\\.[^"\\]*)*")*\}\s*,\s*"(?:values|timestamps)"\s*:\s*\[',
    re.DOTALL,
)
# A native export begins with two times, as big-endian numbers whose sign is the last bit, and the length of a name.
_NATIVE_HEAD: Final = struct.Struct(">QQI")
_NATIVE_NAME: Final = re.compile(rb"[a-zA-Z_:][a-zA-Z0-9_:.]{0,254}\x01")
_LATEST: Final = 4_102_444_800_000 * 16


def _is_native(data: bytes) -> bool:
    if len(data) < _NATIVE_HEAD.size:
        return False
    least, most, length = _NATIVE_HEAD.unpack_from(data)
    if least & 1 or most & 1 or not least >> 1 <= most >> 1 <= _LATEST:
        return False
    return 2 <= length <= 1 << 16 and bool(_NATIVE_NAME.match(data, _NATIVE_HEAD.size))


def detects(head: Head) -> float:
    """Sure of an object with labels and arrays of values; of a native export too, which is refused then."""
    return 0.95 if _LINE.match(head.data) or _is_native(head.data) else 0.0


def read_metrics(source: MetricsSource, wanted: Wanted) -> Iterator[SeriesBatch | Refused]:
    """The samples of all lines."""
    gather = Gather(wanted)
    with source.open("") as stream:
        blocks = line_blocks(stream, _NAME, longest=_LONGEST_LINE)
        for block in blocks:
            if isinstance(block, Refused):
                yield block._replace(reason=block.reason + _ADVICE)
                continue
            if block.offset == 0 and _is_native(block.data):
                yield Refused(0, 0, f"{_NAME}: {_NATIVE}", b"")
                return
            at = 0
            while at < len(block.data):
                end = block.data.index(b"\n", at)
                problem = _take(gather, block.data[at:end])
                if problem:
                    text = block.data[at : min(end, at + EXCERPT)]
                    yield Refused(block.offset + at, end - at, f"{_NAME}: {problem}", text)
                at = end + 1
                if gather.full and (batch := gather.take()) is not None:
                    yield batch
    if (batch := gather.take()) is not None:
        yield batch


def _take(gather: Gather, line: bytes) -> str | None:
    """Reads a line; says what is wrong with it, or with a part of it."""
    if not line.strip():
        return None
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        try:
            record = orjson.loads(line.decode("utf-8", "replace"))
        except orjson.JSONDecodeError:
            return "not JSON, or a line that is cut off"
    if not isinstance(record, dict):
        return "no object"
    labels = metric_labels(record.get("metric"))
    values, times = record.get("values"), record.get("timestamps")
    if labels is None or not isinstance(values, list) or not isinstance(times, list):
        return "an object without labels, values and timestamps"
    number = min(len(values), len(times))
    read_times, are_times = _numbers(times[:number])
    read_values, are_values = _numbers(values[:number])
    millis, possible = times_of(read_times)
    good = are_times & are_values & possible
    if good.all():
        gather.add(labels, millis, read_values)
    else:
        gather.add(labels, millis[good], read_values[good])
        return f"{number - int(good.sum())} samples of the line are not read"
    if len(values) != len(times):
        return f"{len(values)} values and {len(times)} timestamps: the first {number} of both are read"
    return None


def _numbers(items: list[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The numbers of a JSON array, and which of its elements are some; null is NaN."""
    try:
        plain = np.array(items)
    except (ValueError, OverflowError):
        plain = np.zeros(0, np.object_)
    if plain.dtype.kind in "iuf" and plain.ndim == 1:
        return plain.astype(np.float64), np.ones(len(items), np.bool_)
    read = [_number(item) for item in items]
    good = np.array([number is not None for number in read], np.bool_)
    return np.array([0.0 if number is None else number for number in read], np.float64), good


_NUMBERS: Final = frozenset({int, float})


def _number(item: Any) -> float | None:
    if item is None:
        return float("nan")
    if isinstance(item, str):
        return float_of(item.encode("utf-8", "replace"))
    return float(item) if type(item) in _NUMBERS else None


_METRIC: Final = '{"metric":{"__name__":"DCGM_FI_DEV_GPU_TEMP","Hostname":"gpu-a1","gpu":"3"},'

FORMAT: Final = DocumentFormat(
    name=_NAME,
    doc="Raw samples of VictoriaMetrics as JSON lines, from `/api/v1/export`. NaN and markers of staleness are both "
    "`null` there, and read as NaN. Its CSV is read as `samples_table`; its native format is refused.",
    url="https://docs.victoriametrics.com/victoriametrics/#how-to-export-data-in-json-line-format",
    tables=("series", "samples"),
    detects=detects,
    read=reader(read_metrics),
    read_metrics=read_metrics,
    binary=True,
    samples=(
        Sample(
            _METRIC
            + '"values":[61,null,"Infinity"],"timestamps":[1772435289321,1772435304321,1772435319321]}\n'
            + _METRIC
            + '"values":[60.5],"timestamps":[1772435274321]}\n',
            (
                expect("series", metric="DCGM_FI_DEV_GPU_TEMP", labels={"Hostname": "gpu-a1", "gpu": "3"}),
                expect("samples", time=1772435274321000, value=60.5),
                expect("samples", time=1772435289321000, value=61.0, stale=False),
                expect("samples", time=1772435304321000, stale=False),
                expect("samples", time=1772435319321000, value=float("inf")),
            ),
        ),
    ),
    non_samples=(
        _METRIC + '"values":[61,',
        '{"metric":"loss","values":[2.5],"timestamps":[1772435289321]}\n',
        '{"metric":{"__name__":"up"},"value":1}\n',
        _METRIC + '"values":["high"],"timestamps":[1772435289321]}\n',
    ),
)
