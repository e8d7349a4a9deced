"""Records of JSON in all the ways in which they are wrapped."""

from __future__ import annotations

import io
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.documents import json_records as records
from aftershock.parsers.documents.json_records import records_of

OBJECT = st.dictionaries(
    st.sampled_from(["a", "items", "x y"]),
    st.none() | st.integers() | st.text(max_size=8) | st.lists(st.just({})),
    max_size=3,
)


@settings(max_examples=200)
@given(
    objects=st.lists(OBJECT, max_size=6),
    wrapping=st.sampled_from(["lines", "array", "indented", "key"]),
    cut=st.integers(1, 40),
)
def test_records_are_found_in_every_wrapping_wherever_it_is_cut(objects: list[Any], wrapping: str, cut: int) -> None:
    text = {
        "lines": "".join(json.dumps(o) + "\n" for o in objects),
        "array": json.dumps(objects),
        "indented": json.dumps(objects, indent=2),
        "key": json.dumps({"kind": "List", "other": {"list": [{}]}, "list": objects, "end": {"a": 1}}),
    }[wrapping]
    keys = ("list",) if wrapping == "key" else ()

    class Pieces(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(cut)

    found = list(records_of(Pieces(text.encode()), keys))
    assert [json.loads(r.data) for r in found if isinstance(r, records.Element)] == objects
    assert len(found) == len(objects)


def test_a_torn_record_does_not_take_the_next_one_with_it() -> None:
    found = list(records_of(io.BytesIO(b'{"a":{"b":"tor\n{"c":1}\n{"d":[')))
    assert [type(r).__name__ for r in found] == ["Refused", "Element", "Refused"]
    assert [found[0].offset, found[1].offset] == [0, 15]
