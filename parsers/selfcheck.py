"""Every format proves itself: its samples give the rows that it says, texts that are none of it give no row."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

from aftershock.parsers.blocks import Mark
from aftershock.parsers.detect import Detected
from aftershock.parsers.formats import DocumentFormat, Expect, Format, Found, LineFormat, Sample
from aftershock.parsers.registry import line_formats
from aftershock.parsers.resolve import ClockRules
from aftershock.parsers.settle import SourceRules, settle_source
from aftershock.parsers.source import read_stream
from aftershock.schemas.columns import Row

# Samples are read as if their local times were UTC, so that their times can be stated.
SAMPLE_RULES = SourceRules(source="sample", clock=ClockRules(zone="UTC", year=2026))


def rows_of_text(text: str | bytes, fmt: Format, rules: SourceRules = SAMPLE_RULES) -> list[Row]:
    """The settled rows that one format finds in a text."""
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    if isinstance(fmt, LineFormat):
        detected = Detected("lines", fmt.name, formats=(fmt,))
    else:
        detected = Detected("document", fmt.name, document=fmt)
    found: list[Found] = []
    marks: list[Mark] = []
    for block in read_stream(io.BytesIO(data), detected):
        found += block.found
        marks += block.marks
    # A document may hold lines of other formats.
    inside = () if isinstance(fmt, LineFormat) else line_formats()
    known: dict[str, Format] = {one.name: one for one in (*inside, fmt)}
    return settle_source(found, marks, rules, known.get).rows


def problems_of(fmt: Format) -> list[str]:
    """What is wrong with a format, one line each; nothing if it is sound."""
    problems: list[str] = []
    for number, sample in enumerate(fmt.samples, 1):
        problems += [f"{fmt.name}: sample {number}: {what}" for what in _differences(sample, fmt)]
    for number, text in enumerate(fmt.non_samples, 1):
        rows = rows_of_text(text, fmt)
        if rows:
            problems.append(f"{fmt.name}: text {number} that must not match gives {len(rows)} row(s): {text[:80]!r}")
    return problems


def _differences(sample: Sample, fmt: Format) -> Iterable[str]:
    rows = rows_of_text(sample.text, fmt.of_file(sample.name) if isinstance(fmt, DocumentFormat) else fmt)
    if len(rows) != len(sample.rows):
        tables = ", ".join(row.table for row in rows) or "none"
        yield f"gives {len(rows)} rows ({tables}), expected {len(sample.rows)}"
        return
    for number, (row, wanted) in enumerate(zip(rows, sample.rows, strict=True), 1):
        yield from _row_differences(number, row, wanted, fmt)


def _row_differences(number: int, row: Row, wanted: Expect, fmt: Format) -> Iterable[str]:
    if row.table != wanted.table:
        yield f"row {number} is of {row.table}, expected {wanted.table}"
        return
    if row.table not in fmt.tables:
        yield f"row {number} is of {row.table}, which the format does not say it feeds"
    for name, value in wanted.fields.items():
        got: Any = getattr(row, name)
        if got != value:
            yield f"row {number}: {name} is {got!r}, expected {value!r}"
