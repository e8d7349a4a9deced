"""Stable ids."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.schemas.ids import encoded_parts, joined_parts, stable_id, stable_ids

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
PARTS = st.lists(SCALARS | st.lists(SCALARS, max_size=3), max_size=4)


def exact(value: object) -> object:
    """Equal only for equal values of equal kinds: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if isinstance(value, list):
        return [exact(item) for item in value]
    return type(value).__name__, repr(value)


@given(PARTS, PARTS)
def test_ids_are_equal_only_for_equal_parts(one: list[object], two: list[object]) -> None:
    assert (stable_id("x", *one) == stable_id("x", *two)) == (exact(one) == exact(two))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (("a", "bc"), ("ab", "c")),
        (("a", ""), ("a",)),
        ((), ("",)),
        ((None,), ("None",)),
        ((None,), ("",)),
        ((None,), ()),
        ((0,), (False,)),
        ((1,), ("1",)),
        ((1,), (1.0,)),
        (("a",), (b"a",)),
        ((["a", "b"],), ("a", "b")),
        ((["a"], ["b"]), (["a", "b"], [])),
        (("s1:a",), ("a",)),
    ],
)
def test_parts_are_unambiguous(one: tuple[object, ...], two: tuple[object, ...]) -> None:
    assert stable_id("x", *one) != stable_id("x", *two)


def test_shape() -> None:
    assert re.fullmatch(r"session-[0-9a-f]{16}", stable_id("session", "solar", "4001"))
    assert stable_id("a", 1).removeprefix("a-") != stable_id("b", 1).removeprefix("b-")


def test_lists_and_tuples_are_alike() -> None:
    assert stable_id("x", ["a", 1]) == stable_id("x", ("a", 1))


def test_bytes_that_are_no_utf8_are_no_error() -> None:
    assert stable_id("x", b"\xff".decode("utf-8", "surrogateescape")) != stable_id("x", "\ufffd")


@pytest.mark.parametrize("part", [{"a"}, {"a": 1}, object(), datetime(2026, 3, 1)], ids=repr)
def test_a_part_without_a_stable_text_is_an_error(part: object) -> None:
    with pytest.raises(TypeError, match="cannot make an id from"):
        stable_id("x", part)


def test_an_id_never_changes() -> None:
    """Ids stand in tables that people keep."""
    assert stable_id("session", "solar", "slurm", "4001", None, 1_772_366_400) == "session-bf83c29ff827531b"
    assert stable_id("x", 1.5, b"\x00", True, ["é"]) == "x-679c2e7e194a8f39"


def test_another_process_gives_the_same_id() -> None:
    code = "from aftershock.schemas.ids import stable_id; print(stable_id('x', 'a', 1, None, ('b', 2.5)))"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert outputs == {stable_id("x", "a", 1, None, ("b", 2.5))}


@given(st.lists(st.tuples(st.none() | st.text(), st.none() | st.integers(-(2**63), 2**63 - 1), st.text()), max_size=5))
def test_many_at_once(rows: list[tuple[str | None, int | None, str]]) -> None:
    rows = [row for row in rows if not any("\ud800" <= char <= "\udfff" for text in row[::2] for char in text or "")]
    a, b, c = (
        pa.array([row[n] for row in rows], kind) for n, kind in enumerate((pa.string(), pa.int64(), pa.string()))
    )
    assert stable_ids("s", [a, b, c]).to_pylist() == [stable_id("s", *row) for row in rows]
    assert (
        stable_ids("s", [a, joined_parts([b, encoded_parts(c)])]).to_pylist() == stable_ids("s", [a, b, c]).to_pylist()
    )
