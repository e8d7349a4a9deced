"""Labels as text: ``name{label="value",...}`` of expositions, ``{__name__="name", label="value"}`` of promtool's dump.

Values are quoted as Go quotes them; expositions use three of its escapes (backslash, quote, newline). Names that are
not of the old kind are quoted too since Prometheus 3: ``{"my.metric","a label"="x"}``. The grammar stands in
https://github.com/prometheus/prometheus/blob/main/model/textparse/openmetricslex.l and ``promlex.l``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import Decimal
from itertools import pairwise
from typing import Final

from aftershock.parsers.prometheus.columns import NAME, Labels

_QUOTED: Final = rb'"[^"\\]*(?:\\.[^"\\]*)*"'

SERIES: Final = rb"""
    (?P<metric>[^\s{}"\#,=]+(?=[\s{]|\Z))?          # up
    (?:[\ \t]*\{(?P<labels>                         # {job="a", "a label"="b", "my.metric"}
        [^"{}]*(?:%b[^"{}]*)*
    )\})?
""" % (_QUOTED,)
"""A series, to be read in verbose mode over bytes. It matches the empty text too."""

_SERIES: Final = re.compile(SERIES + rb"\Z", re.VERBOSE | re.DOTALL)
_PAIR: Final = re.compile(
    rb"""
    \s*(?:(?P<name>[^\s{}"',=]+)|(?P<quoted>%b))    # job, or "a label", or the name of the metric
    \s*(?:=\s*(?P<value>%b))?
    \s*(?:,\s*|\Z)
    """
    % (_QUOTED, _QUOTED),
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(
    rb"""\\(?:
        u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})   # two halves of one character
      | (?:u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8}))
      | x(?P<byte>[0-9a-fA-F]{2})
      | (?P<octal>[0-3][0-7]{2})
      | (?P<letter>[abfnrtv\\"'])
    )""",
    re.VERBOSE,
)
_LETTERS: Final = {
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
    b"\\": b"\\",
    b'"': b'"',
    b"'": b"'",
}
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]{1,25}(?:\.[0-9]{0,25})?|\.[0-9]{1,25})(?:[eE][+-]?[0-9]{1,3})?\Z")


def unquoted(quoted: bytes) -> str:
    """The text of a quoted one, quotes included. An escape that is none stays; bytes that are no UTF-8 are replaced."""
    inner = quoted[1:-1]
    if b"\\" in inner:
        inner = _ESCAPE.sub(_unescaped, inner)
    return inner.decode("utf-8", "replace")


def _unescaped(match: re.Match[bytes]) -> bytes:
    kind = match.lastgroup
    text = match.group(kind or 0)
    if kind == "letter":
        return _LETTERS[text]
    if kind == "byte":
        return bytes((int(text, 16),))
    if kind == "octal":
        return bytes((int(text, 8),))
    code = int(text, 16)
    if kind == "low":
        code = 0x10000 + ((int(match["high"], 16) & 0x3FF) << 10) + (code & 0x3FF)
    if 0xD800 <= code < 0xE000 or code > 0x10FFFF:
        return "\N{REPLACEMENT CHARACTER}".encode()
    return chr(code).encode("utf-8")


def labels_of(pairs: Iterable[tuple[str, str]]) -> Labels | None:
    """The labels of these names and values, sorted; an empty value is as good as none. None if a name stands twice."""
    kept = sorted((name, value) for name, value in pairs if value)
    if any(one[0] == next_one[0] for one, next_one in pairwise(kept)):
        return None
    return tuple(kept)


def series_of(text: bytes) -> Labels | None:
    """The labels of a series as text; None if it is none."""
    match = _SERIES.match(text)
    if match is None:
        return None
    return matched_series(match)


def matched_series(match: re.Match[bytes]) -> Labels | None:
    """The labels of what :data:`SERIES` matched; None if they are not right, or there are none."""
    pairs: list[tuple[str, str]] = []
    if match["metric"] is not None:
        pairs.append((NAME, match["metric"].decode("utf-8", "replace")))
    inner = match["labels"]
    at = 0
    while inner and at < len(inner):
        pair = _PAIR.match(inner, at)
        if pair is None:
            return None
        name = pair["name"].decode("utf-8", "replace") if pair["name"] is not None else unquoted(pair["quoted"])
        if pair["value"] is not None:
            pairs.append((name, unquoted(pair["value"])))
        elif pair["quoted"] is not None:
            pairs.append((NAME, name))
        else:
            return None
        at = pair.end()
    return labels_of(pairs) or None


def with_float_labels(labels: Labels, type_name: str) -> Labels:
    """Labels as Prometheus 3 stores them: ``le`` of a histogram and ``quantile`` of a summary are floats: ``1.0``."""
    wanted = {"histogram": "le", "summary": "quantile"}.get(type_name)
    if wanted is None:
        return labels
    return tuple((name, _float_text(value) if name == wanted else value) for name, value in labels)


def _float_text(text: str) -> str:
    """A number as Prometheus writes it into such a label: Go's shortest digits, with a point or an exponent."""
    if not _NUMBER.match(text):
        return text
    number = float(text)
    if not math.isfinite(number):
        return "+Inf" if number > 0 else "-Inf"
    if number == 0:
        return "-0.0" if text.startswith("-") else "0.0"
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int)
    power = exponent + len(digits) - 1
    if -4 <= power < 6:
        plain = f"{Decimal(repr(number)).normalize():f}"
        return plain if "." in plain else plain + ".0"
    text = "".join(map(str, digits))
    mantissa = text[0] + ("." + text[1:] if len(text) > 1 else "")
    return f"{'-' if sign else ''}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"
