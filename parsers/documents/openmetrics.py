"""Samples as text: what exporters and federation serve, ``promtool tsdb dump-openmetrics``, exports of VictoriaMetrics.

    # TYPE DCGM_FI_DEV_GPU_TEMP gauge
    DCGM_FI_DEV_GPU_TEMP{gpu="3",Hostname="gpu-a1",instance="gpu-a1:9400",job="dcgm"} 61 1772435289.321
    rpc_seconds_bucket{le="0.5"} 17 1772435289.321 # {trace_id="0123"} 0.31 1772435288.9
    {"gpu.temperature",gpu="3"} 61 1772435289.321
    # EOF

Text format 0.0.4 and OpenMetrics 1.0, documented at https://prometheus.io/docs/instrumenting/exposition_formats/ and
https://prometheus.io/docs/specs/om/open_metrics_spec/. The first has milliseconds, the second seconds: their size tells
them apart. What one look at an exporter gives has no times, and is refused for it. Exemplars are left out. Of classic
histograms and summaries ``le="1"`` becomes ``1.0``, as Prometheus 3 stores it. Markers of staleness are NaN in the
text, as others are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aftershock.parsers.formats import DocumentFormat, Head, Refused, Sample, expect
from aftershock.parsers.prometheus.columns import NAME, Labels, MetricsSource, SeriesBatch, Wanted
from aftershock.parsers.prometheus.labels_text import SERIES, unquoted, with_float_labels
from aftershock.parsers.prometheus.number_text import NUMBER
from aftershock.parsers.prometheus.rows import reader
from aftershock.parsers.prometheus.sample_lines import SampleLines
from aftershock.parsers.prometheus.text_samples import read_text

_NAME: Final = "openmetrics"

_TYPE: Final = re.compile(rb'#[\ \t]+TYPE[\ \t]+(?P<name>"[^"\\]*(?:\\.[^"\\]*)*"|\S+)[\ \t]+(?P<type>[a-z]+)\s*\Z')
_COMMENT: Final = re.compile(rb"# (?:HELP|TYPE|UNIT) \S|# EOF\Z")
_LINE: Final = re.compile(
    rb"%b[\ \t]+(?:%b)(?P<time>[\ \t]+-?[0-9][0-9.eE+]*)?(?:[\ \t]+[cs]t@[-0-9.eE+]+)?[\ \t]*(?:\#\ \{.*)?\Z"
    % (SERIES, NUMBER),
    re.VERBOSE | re.DOTALL,
)
_PLAIN_NAME: Final = re.compile(rb"[a-zA-Z_:][a-zA-Z0-9_:.]*(?:[{\s]|\Z)")
_SUFFIXES: Final = ("_bucket", "_count", "_sum")
_FLOAT_TYPES: Final = frozenset({"histogram", "gaugehistogram", "summary"})
_MOST_TYPES: Final = 1 << 16
_LOOKED_AT: Final = 20


def detects(head: Head) -> float:
    """Sure of its comments before samples, and of samples with labels and a time."""
    comments = samples = timed = labelled = 0
    for line in head.lines(_LOOKED_AT):
        if line.startswith(b"#"):
            comments += bool(_COMMENT.match(line))
            continue
        if not (line.startswith(b"{") or _PLAIN_NAME.match(line)):
            return 0.0
        match = _LINE.match(line)
        if match is None:
            return 0.0
        samples += 1
        timed += match["time"] is not None
        labelled += match["labels"] is not None
    if comments:
        # A page of one moment, without times, may be known better by somebody who asks for nothing but its labels.
        return 0.9 if timed else 0.55
    return 0.7 if labelled and timed == samples else 0.0


class _Types:
    """The types that comments tell, so far as they change what labels mean."""

    def __init__(self) -> None:
        self._types: dict[str, str] = {}

    def take(self, comments: list[bytes]) -> None:
        for line in comments:
            match = _TYPE.match(line)
            if match is None:
                continue
            quoted = match["name"].startswith(b'"')
            name = unquoted(match["name"]) if quoted else match["name"].decode("utf-8", "replace")
            kind = match["type"].decode("ascii")
            if kind in _FLOAT_TYPES and len(self._types) < _MOST_TYPES:
                self._types[name] = "summary" if kind == "summary" else "histogram"
            else:
                self._types.pop(name, None)

    def adapt(self, labels: Labels) -> Labels:
        if not self._types:
            return labels
        name = next((value for key, value in labels if key == NAME), "")
        base = next((name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix)), name)
        kind = self._types.get(base) or self._types.get(name)
        return labels if kind is None else with_float_labels(labels, kind)


def read_metrics(source: MetricsSource, wanted: Wanted) -> Iterator[SeriesBatch | Refused]:
    """The samples of all series that have a time."""
    types = _Types()
    return read_text(source, wanted, _NAME, SampleLines(types.adapt, types.take))


FORMAT: Final = DocumentFormat(
    name=_NAME,
    doc="Samples with times in the text format of Prometheus or in OpenMetrics: `promtool tsdb dump-openmetrics`, "
    "federation, files for backfilling, `/api/v1/export?format=prometheus` of VictoriaMetrics. Samples without times, "
    "as an exporter serves them, are refused with advice.",
    url="https://prometheus.io/docs/specs/om/open_metrics_spec/",
    tables=("series", "samples"),
    detects=detects,
    read=reader(read_metrics),
    read_metrics=read_metrics,
    samples=(
        Sample(
            'DCGM_FI_DEV_GPU_TEMP{Hostname="gpu-a1",gpu="3"} 61 1772435289.321\n'
            'DCGM_FI_DEV_GPU_TEMP{Hostname="gpu-a1",gpu="3"} NaN 1772435304.321\n'
            'up{instance="gpu-a1:9400",job="a \\"quoted\\" } job"} +Inf 1772435289.321\n# EOF\n',
            (
                expect("series", metric="DCGM_FI_DEV_GPU_TEMP", labels={"Hostname": "gpu-a1", "gpu": "3"}),
                expect("samples", time=1772435289321000, value=61.0),
                expect("samples", time=1772435304321000, stale=False),
                expect("series", metric="up", labels={"instance": "gpu-a1:9400", "job": 'a "quoted" } job'}),
                expect("samples", value=float("inf")),
            ),
            title="promtool tsdb dump-openmetrics",
        ),
        Sample(
            "# HELP DCGM_FI_DEV_XID_ERRORS last Xid\n# TYPE DCGM_FI_DEV_XID_ERRORS gauge\n"
            'DCGM_FI_DEV_XID_ERRORS{gpu="3", Hostname="gpu-a1",} 79 1772435289321\nup 1 1772435289321\n',
            (
                expect("series", metric="DCGM_FI_DEV_XID_ERRORS", labels={"Hostname": "gpu-a1", "gpu": "3"}),
                expect("samples", time=1772435289321000, value=79.0),
                expect("series", metric="up", labels={}),
                expect("samples", time=1772435289321000, value=1.0),
            ),
            title="federation, text format 0.0.4",
        ),
        Sample(
            '{"gpu.temperature","label"="x"} 61 1772435289\n# TYPE rpc_seconds histogram\n'
            'rpc_seconds_bucket{le="1"} 17 1772435289.5 # {trace_id="a b"} 0.31 17.5\n# EOF\n',
            (
                expect("series", metric="gpu.temperature", labels={"label": "x"}),
                expect("samples", time=1772435289000000, value=61.0),
                expect("series", metric="rpc_seconds_bucket", labels={"le": "1.0"}),
                expect("samples", time=1772435289500000, value=17.0),
            ),
            title="OpenMetrics: exemplars, quoted names",
        ),
    ),
    non_samples=(
        '# TYPE up gauge\nup{job="node"} 1\n# EOF\n',
        "# HELP\n# a comment\n",
        'up{job="node} 1 1772435289321\n',
        'up{job="node"} one 1772435289321\n',
        'up{job="node",job="twice"} 1 1772435289321\n',
        "step 100 loss 2.5\n",
    ),
)
