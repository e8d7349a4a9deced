"""Texts of sample lines, from the stream to batches: what promtool's dumps and the expositions have in common."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from aftershock.parsers.formats import Refused
from aftershock.parsers.prometheus.columns import MetricsSource, SeriesBatch, Wanted
from aftershock.parsers.prometheus.gather import Buckets, Gather
from aftershock.parsers.prometheus.line_blocks import EXCERPT, line_blocks
from aftershock.parsers.prometheus.number_text import float_of
from aftershock.parsers.prometheus.sample_lines import LineSample, SampleLines

_NO_TIME: Final = (
    "samples without a time, so that nothing says when they were: give history instead, for example of "
    "promtool tsdb dump, or the answer to a query with a range selector"
)
# Lines that are no samples are told one by one up to this number, the others are counted.
_MOST_BAD: Final = 1000

_BUCKET: Final = re.compile(rb"[\[(](?P<lower>[^,\s\[\]()]+),(?P<upper>[^,\s\[\]()]+)[\])]:(?P<count>[^,\s}]+)")
_COUNT: Final = re.compile(rb"\{count:(?P<count>[^,\s}]+),\s*sum:(?P<sum>[^,\s}]+)")


def read_text(source: MetricsSource, wanted: Wanted, tool: str, lines: SampleLines) -> Iterator[SeriesBatch | Refused]:
    """The samples of a text; lines that are none are refused, one by one."""
    gather = Gather(wanted)
    untimed, first_untimed = 0, 0
    bad = 0
    with source.open("") as stream:
        for block in line_blocks(stream, tool):
            if isinstance(block, Refused):
                yield block
                continue
            found = lines.read(block.data)
            for labels, times, values in found.series:
                gather.add(labels, times, values)
            for offset, sample in found.alone:
                if sample.time is None:
                    first_untimed = first_untimed if untimed else block.offset + offset
                    untimed += 1
                elif not _take(gather, sample):
                    found.bad.append((offset, b""))
            for offset, line in found.bad:
                bad += 1
                if bad <= _MOST_BAD:
                    text = f"{tool}: a line that is no sample"
                    yield Refused(block.offset + offset, len(line), text, line[:EXCERPT])
            if gather.full and (batch := gather.take()) is not None:
                yield batch
    batch = gather.take()
    if batch is not None:
        yield batch
    if bad > _MOST_BAD:
        yield Refused(0, 0, f"{tool}: {bad - _MOST_BAD} more lines that are no samples")
    if untimed:
        yield Refused(first_untimed, 0, f"{tool}: {untimed} {_NO_TIME}")


def _take(gather: Gather, sample: LineSample) -> bool:
    """Whether a sample with a time could be read."""
    assert sample.time is not None
    if isinstance(sample.value, float):
        gather.add(sample.labels, np.array([sample.time]), np.array([sample.value]))
        return True
    histogram = histogram_of_text(sample.value)
    if histogram is None:
        return False
    gather.add_histogram(sample.labels, sample.time, *histogram)
    return True


def histogram_of_text(text: bytes) -> tuple[float, float, Buckets] | None:
    """Count, sum and buckets of ``{count:3, sum:2.5, (0.5,1]:2, (1,2]:1}``; None if it is no histogram."""
    head = _COUNT.match(text)
    if head is None:
        return None
    count, total = float_of(head["count"]), float_of(head["sum"])
    if count is None or total is None:
        return None
    buckets: list[tuple[float, float, float]] = []
    for match in _BUCKET.finditer(text, head.end()):
        numbers = [float_of(match[name]) for name in ("lower", "upper", "count")]
        if numbers[0] is None or numbers[1] is None or numbers[2] is None:
            return None
        buckets.append((numbers[0], numbers[1], numbers[2]))
    return count, total, tuple(buckets)
