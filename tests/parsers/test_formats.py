"""What holds for every format that the registry finds."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aftershock.parsers.blocks import BlockResult, Window, read_block
from aftershock.parsers.detect import Detected, detect
from aftershock.parsers.formats import DocumentFormat, Found, Head, LineFormat, Sample, expect
from aftershock.parsers.registry import BadFormat, check_declarations, formats, line_formats
from aftershock.parsers.resolve import ClockRules
from aftershock.parsers.scan import scanner_for
from aftershock.parsers.selfcheck import problems_of
from aftershock.parsers.settle import SourceRules, settle_source
from aftershock.parsers.source import read_stream
from aftershock.parsers.transit import pack, unpack

FORMATS = formats()
RULES = SourceRules(source="s", clock=ClockRules("UTC", year=2026), burst_gap=60_000_000)
NAMED = {fmt.name: fmt for fmt in FORMATS}

# A long text of every kind of line: the samples of all line formats, and prose.
LINES = "\n".join(
    text for fmt in line_formats() for text in [*(sample.text for sample in fmt.samples), *fmt.non_samples]
).encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_samples_give_their_rows_and_other_texts_none(fmt: Any) -> None:
    assert problems_of(fmt) == []


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_declarations_are_for_readers(fmt: Any) -> None:
    assert fmt.url.startswith("https://")
    assert fmt.doc.endswith(".")
    assert len(fmt.doc) > 40


def rows_in_order(results: list[BlockResult]) -> list[Any]:
    """The settled rows of all blocks, after the way that they travel in a run."""
    got = unpack(batch for result in results for batch in pack(result, "s"))
    return [dataclasses.astuple(row) for row in settle_source(got.found, got.marks, RULES, NAMED.get).rows]


def cut(data: bytes, size: int) -> list[BlockResult]:
    scanner = scanner_for(line_formats())
    results = []
    for begin in range(0, len(data), size):
        stream = io.BytesIO(data)
        stream.seek(max(0, begin - 1))
        results.append(read_block(Window(stream, max(0, begin - 1)), begin, begin + size, scanner))
    return results


WHOLE = rows_in_order(cut(LINES, len(LINES)))


@settings(max_examples=25, deadline=None)
@given(st.integers(64, 4096) | st.sampled_from([64, 65, 127, 1 << 16]))
def test_any_chunk_size_gives_the_same_events(size: int) -> None:
    assert rows_in_order(cut(LINES, size)) == WHOLE
    assert len(WHOLE) > 20


@settings(max_examples=15, deadline=None)
@given(st.randoms())
def test_any_order_of_blocks_gives_the_same_events(order: Any) -> None:
    blocks = cut(LINES, 997)
    order.shuffle(blocks)
    assert rows_in_order(blocks) == WHOLE


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_damaged_samples_never_raise(fmt: Any, data: Any) -> None:
    """Bytes cut out of, put into or changed in a sample: rows, refusals or nothing, but never an error."""
    text = bytearray(data.draw(st.sampled_from(fmt.samples)).text.encode("utf-8", "surrogateescape"))
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(text)))
        text[at : at + data.draw(st.integers(0, 12))] = data.draw(st.binary(max_size=6))
    detected = (
        Detected("lines", fmt.name, formats=(fmt,))
        if isinstance(fmt, LineFormat)
        else Detected("document", fmt.name, document=fmt)
    )
    results = list(read_stream(io.BytesIO(bytes(text)), detected))
    rows_in_order(results)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_arbitrary_bytes_are_recognised_without_error(data: bytes) -> None:
    found = detect(Head("any.log", data))
    if found.how != "refused":
        rows_in_order(list(read_stream(io.BytesIO(data), found)))


@pytest.mark.parametrize("fmt", [f for f in FORMATS if isinstance(f, DocumentFormat)], ids=lambda fmt: fmt.name)
def test_documents_are_recognised_by_content(fmt: DocumentFormat) -> None:
    for sample in fmt.samples:
        found = detect(Head("unknown.txt", sample.text.encode("utf-8", "surrogateescape")))
        assert found.format == fmt.name


def toy(**changed: Any) -> LineFormat:
    given: dict[str, Any] = {
        "name": "toy",
        "doc": "A toy.",
        "url": "https://example.org",
        "tables": ("node_events",),
        "detects": lambda head: 0.0,
        "signatures": (b"toy",),
        "read": lambda line: list[Found](),
        "samples": (Sample("toy", (expect("node_events", kind="boot"),)),),
        "non_samples": ("other",),
    }
    return LineFormat(**{**given, **changed})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"samples": ()}, "has no samples"),
        ({"non_samples": ()}, "has no non_samples"),
        ({"url": ""}, "has no url"),
        ({"tables": ("toys",)}, "tables that do not exist: toys"),
        ({"signatures": ()}, "has no signatures"),
    ],
)
def test_the_registry_refuses_a_format_that_cannot_prove_itself(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(BadFormat, match=said):
        check_declarations([toy(**changed)])


def test_the_registry_refuses_a_name_that_is_taken() -> None:
    with pytest.raises(BadFormat, match="two formats are named 'toy'"):
        check_declarations([toy(), toy()])


def test_the_check_says_what_a_sample_gives_instead() -> None:
    assert problems_of(toy()) == ["toy: sample 1: gives 0 rows (none), expected 1"]
