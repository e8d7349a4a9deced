"""Patterns that are compiled at their first use do what compiled ones do."""

from __future__ import annotations

import pickle
import re

import pytest

from aftershock.parsers.patterns import later


def test_it_finds_what_a_compiled_pattern_finds() -> None:
    text = b"Xid 79, xid 13"
    made, compiled = later(rb"xid (?P<code>\d+)", re.IGNORECASE), re.compile(rb"xid (?P<code>\d+)", re.IGNORECASE)
    for _ in range(2):
        assert (
            [m["code"] for m in made.finditer(text)] == [m["code"] for m in compiled.finditer(text)] == [b"79", b"13"]
        )
        assert made.findall(text) == compiled.findall(text)
        assert made.sub(b"-", text) == compiled.sub(b"-", text)
        assert made.fullmatch(text) is None
        assert made.groupindex == compiled.groupindex
    assert (made.pattern, made.flags) == (compiled.pattern, compiled.flags)


def test_it_travels() -> None:
    made = pickle.loads(pickle.dumps(later(r"(a|b)+", re.ASCII)))
    found = made.match("abba!")
    assert found is not None
    assert found[0] == "abba"
    again = pickle.loads(pickle.dumps(made))
    assert again.pattern == "(a|b)+"


def test_what_is_wrong_is_said_at_the_first_use() -> None:
    made = later(r"(")
    with pytest.raises(re.error):
        made.match("(")
