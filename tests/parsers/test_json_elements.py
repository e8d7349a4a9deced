"""The elements of an array in a JSON document, and what stands beside them."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.documents import json_elements
from aftershock.parsers.documents.json_elements import Element, elements_of
from aftershock.parsers.formats import Refused

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9999) | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def in_pieces(text: bytes, size: int, monkeypatch: pytest.MonkeyPatch) -> list[Element | Refused]:
    monkeypatch.setattr(json_elements, "_CHUNK", size)
    return list(elements_of(io.BytesIO(text), "jobs"))


@given(values=st.lists(VALUES, max_size=8), size=st.integers(1, 40), indent=st.sampled_from([None, 1]))
def test_every_element_comes_out_where_it_stands(values: list[Any], size: int, indent: int | None) -> None:
    text = json.dumps({"meta": {"jobs": [1]}, "jobs": values, "errors": [None]}, indent=indent).encode()
    with pytest.MonkeyPatch.context() as patch:
        found = in_pieces(text, size, patch)
    assert len(found) == len(values)
    for item, value in zip(found, values, strict=True):
        if isinstance(value, dict):
            assert isinstance(item, Element)
            assert json.loads(item.data) == value
            assert text[item.offset : item.offset + len(item.data)] == item.data
        else:
            assert isinstance(item, Refused)
            assert item.reason == "an element that is no object"
            assert json.loads(text[item.offset : item.offset + item.length]) == value
            assert item.excerpt == text[item.offset : item.offset + item.length][: json_elements.EXCERPT]


def test_many_strays_are_counted() -> None:
    found = list(elements_of(io.BytesIO(b'{"jobs":[' + b"null,\n" * 1000 + b'{"job_id":7}]}'), "jobs"))
    assert sum(isinstance(item, Refused) and item.length == 4 for item in found) == 100
    assert [item.data for item in found if isinstance(item, Element)] == [b'{"job_id":7}']
    assert isinstance(found[-1], Refused)
    assert found[-1].reason == "900 more elements that are no objects"


def test_a_document_that_ends_within_a_stray_says_both() -> None:
    stray, early = elements_of(io.BytesIO(b'{"jobs":[nul'), "jobs")
    assert isinstance(stray, Refused)
    assert (stray.offset, stray.length, stray.excerpt) == (9, 3, b"nul")
    assert isinstance(early, Refused)
    assert early.reason == "document ends early"
