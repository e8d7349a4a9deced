"""The signatures of all formats: literals, or patterns that are a handful of literals."""

from __future__ import annotations

import re

import pytest

from aftershock.parsers import envelopes
from aftershock.parsers.kernel.rules import literal
from aftershock.parsers.registry import line_formats
from aftershock.parsers.scan import HIDDEN, PatternScanner, Scanner

SIGNATURES = sorted({s for fmt in line_formats() for s in fmt.signatures} | set(envelopes.SIGNATURES))


@pytest.mark.parametrize("signature", SIGNATURES, ids=repr)
def test_no_signature_has_a_repeat(signature: bytes) -> None:
    """One pattern with a repeat beside two hundred literals makes the compiler ten times slower, at every start."""
    bare = re.sub(rb"\\.|\[[^\]]*\]", b"x", signature)
    assert not re.search(rb"[*+{.]", bare), "repeats and dots: name a literal, and let the grammar look at the rest"


def test_a_literal_is_found_as_it_stands() -> None:
    words = bytes(range(32, 127))
    assert re.fullmatch(literal(words), words)


def test_each_format_is_found_inside_a_message() -> None:
    scanner = Scanner(line_formats())
    names = {fmt.name: number for number, fmt in enumerate(scanner.formats)}
    assert scanner.inside(b"Oops: 0000 [#1] SMP") == [names["kernel"]]
    assert scanner.inside(b"nothing of note") == []
    assert HIDDEN not in scanner.inside(b'"MESSAGE":[1,2]')


@pytest.mark.parametrize("lines", [True, False])
def test_patterns_that_share_a_number_tell_of_an_end_once(lines: bool) -> None:
    scanner = PatternScanner([(b"lost", 7), (b"is lost", 7), (b"is los[ty]", 9), (b"gpu", 3)], lines=lines)
    assert scanner.hits(b"gpu0 is lost") == [(3, 3), (12, 7), (12, 9)]
    assert scanner.hits(b"gpu0 is fine") == [(3, 3)]


@pytest.mark.parametrize("lines", [True, False])
def test_nothing_is_found_that_was_not_asked_for(lines: bool) -> None:
    scanner = PatternScanner([(b"lost", 7)], lines=lines)
    every = bytes(range(256)) * 2
    assert scanner.hits(every + every[::-1] + b"\xff\xfe\xfc\xff\xfe lost") == [(1034, 7)]
