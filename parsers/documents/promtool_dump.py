"""``promtool tsdb dump``: all samples of a database, series by series, with times in milliseconds.

    {__name__="DCGM_FI_DEV_GPU_TEMP", Hostname="gpu-a1", gpu="3", instance="gpu-a1:9400", job="dcgm"} 61 1772435289321
    {__name__="rpc_seconds", job="api"} {count:3, sum:2.5, (0.5,1]:2, (1,2]:1} 1772435289321

Written by https://github.com/prometheus/prometheus/blob/main/cmd/promtool/tsdb.go. Values of labels are quoted as Go
does it. The text cannot tell a marker of staleness from a NaN that was scraped: promtool prints both as ``NaN``, and
they are read as NaN. ``promtool tsdb dump-openmetrics`` writes the format ``openmetrics``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aftershock.parsers.formats import DocumentFormat, Head, Refused, Sample, expect
from aftershock.parsers.prometheus.columns import MetricsSource, SeriesBatch, Wanted
from aftershock.parsers.prometheus.rows import reader
from aftershock.parsers.prometheus.sample_lines import SampleLines
from aftershock.parsers.prometheus.text_samples import read_text

_NAME: Final = "promtool_dump"

_LINE: Final = re.compile(
    rb'\{(?:[^"{}]*"[^"\\]*(?:\\.[^"\\]*)*")+\} (?:[-+0-9.eE]+|NaN|[+-]Inf|\{count:[^{}]*\}) -?[0-9]+\Z'
)
_LOOKED_AT: Final = 5


def detects(head: Head) -> float:
    """Sure of lines of labels, value and milliseconds."""
    lines = head.lines(_LOOKED_AT)
    return 0.95 if lines and all(line.startswith(b"{") and _LINE.match(line) for line in lines) else 0.0


def read_metrics(source: MetricsSource, wanted: Wanted) -> Iterator[SeriesBatch | Refused]:
    """The samples of all series."""
    return read_text(source, wanted, _NAME, SampleLines())


FORMAT: Final = DocumentFormat(
    name=_NAME,
    doc="All samples of a Prometheus database as `promtool tsdb dump` prints them. Markers of staleness cannot be told "
    "from NaN in it: both are read as NaN; the blocks themselves (format `tsdb`) keep them apart.",
    url="https://prometheus.io/docs/prometheus/latest/command-line/promtool/#promtool-tsdb",
    tables=("series", "samples"),
    detects=detects,
    read=reader(read_metrics),
    read_metrics=read_metrics,
    samples=(
        Sample(
            '{__name__="DCGM_FI_DEV_GPU_TEMP", Hostname="gpu-a1", gpu="3"} 61 1772435289321\n'
            '{__name__="DCGM_FI_DEV_GPU_TEMP", Hostname="gpu-a1", gpu="3"} NaN 1772435304321\n'
            '{__name__="up", instance="gpu-a1:9400", job="a \\"quoted\\" } job\\n"} 1e+06 1772435289321\n',
            (
                expect("series", metric="DCGM_FI_DEV_GPU_TEMP", labels={"Hostname": "gpu-a1", "gpu": "3"}),
                expect("samples", time=1772435289321000, value=61.0, stale=False),
                expect("samples", time=1772435304321000, stale=False),
                expect("series", metric="up", labels={"instance": "gpu-a1:9400", "job": 'a "quoted" } job\n'}),
                expect("samples", value=1e6),
            ),
        ),
        Sample(
            '{__name__="rpc_seconds", job="api"} {count:3, sum:2.5, [-1e-128,1e-128]:1, (0.5,1]:2} 1772435289321\n',
            (
                expect("series", metric="rpc_seconds_count", labels={"job": "api"}),
                expect("samples", time=1772435289321000, value=3.0),
                expect("series", metric="rpc_seconds_sum"),
                expect("samples", value=2.5),
            ),
            title="native histograms",
        ),
    ),
    non_samples=(
        '{"__name__": "up", "job": "node"}\n',
        '{__name__="up", job="node"}\n',
        '{__name__="up", job="node"} 1\n',
        '{__name__="up", job="node} 1 1772435289321\n',
        '{__name__="up", job="node"} one 1772435289321\n',
    ),
)
