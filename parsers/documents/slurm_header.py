"""The header of a table that one of Slurm's tools printed: which columns, and what stands between them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from aftershock.parsers.documents.slurm_layout import Layout, layout_of, ruled_layout_of

# Slurm has some hundred columns.
_LONGEST: Final = 16_384
_BOM: Final = b"\xef\xbb\xbf"
_NAME: Final = re.compile(rb"[A-Za-z][A-Za-z0-9_/().:-]{0,63}\Z")
# What stands behind the first name, up to the next one: a bar, unless ``--delimiter`` or a format says otherwise.
_FIRST: Final = re.compile(rb"\s{0,64}[A-Za-z][A-Za-z0-9_/().:-]{0,63}\s{0,64}(?P<mark>[\t!#$&*+,;<>?@^`|~]{1,4})")
# Delimiters that Slurm itself does not print unless told to: tools that write a table again do, and quote cells.
REWRITTEN: Final = (b",", b";", b"\t")
_QUOTED: Final = re.compile(
    rb"""(?:[,;\t]|""[,;\t])?"[A-Za-z][A-Za-z0-9_/().:-]{0,63}"(?:[,;\t]"[A-Za-z][A-Za-z0-9_/().:-]{0,63}"){1,256}\s*\Z"""
)


@dataclass(frozen=True, slots=True)
class Columns:
    """What a tool's columns are.

    required: a header has one of these (lower case); needed: it has all of these; barred: it has none of
        these. known: names of which a header has at least two.
    shapes: patterns that a cell of a column must match as a whole. free: columns whose cells may hold anything.
    laid_out: the tool also prints columns of fixed width; ruled: with dashes below the header.
    """

    required: frozenset[str]
    known: frozenset[str]
    shapes: Mapping[str, re.Pattern[str]]
    free: frozenset[str]
    needed: frozenset[str] = frozenset()
    barred: frozenset[str] = frozenset()
    laid_out: bool = False
    ruled: bool = False


class Header(NamedTuple):
    """Names in the order of the columns, the delimiter, and whether each line ends with one more of it."""

    names: tuple[str, ...]
    delimiter: bytes
    closed: bool

    @property
    def delimiters(self) -> int:
        """How many delimiters a record has."""
        return len(self.names) - (not self.closed)


def header_of(line: bytes, columns: Columns) -> Header | None:
    """The header with delimiters that a line is, or None."""
    if len(line) > _LONGEST:
        return None
    text = line.removeprefix(_BOM).rstrip(b"\r\n")
    if _QUOTED.match(text):
        text = text.replace(b'"', b"")
    # Another tool that wrote the table again may have numbered its rows, under no name.
    number = text[:1] if text[:1] in REWRITTEN else b""
    first = _FIRST.match(text, len(number))
    if first is None or number not in (b"", first["mark"]):
        return None
    delimiter = first["mark"]
    closed = text.endswith(delimiter)
    names = (text.removesuffix(delimiter) if closed else text).split(delimiter)
    if not all(_NAME.match(name.strip()) for name in names[len(number) :]):
        return None
    lower = tuple(name.strip().decode("ascii").lower() for name in names)
    return Header(lower, delimiter, closed) if _names_suit(frozenset(lower), columns) else None


def laid_out_header_of(line: bytes, below: bytes, columns: Columns) -> Layout | None:
    """The header without delimiters that a line is; where the tool prints dashes, they stand in the line below."""
    layout: Layout | None = None
    if columns.ruled:
        layout = ruled_layout_of(line.rstrip(b"\r\n"), below.rstrip(b"\r\n"), columns.shapes, columns.free)
    elif columns.laid_out:
        layout = layout_of(line.rstrip(b"\r\n"), columns.shapes, columns.free)
    return layout if layout and _names_suit(frozenset(layout.names), columns) else None


def _names_suit(names: frozenset[str], columns: Columns) -> bool:
    suits = bool(names & columns.required) and columns.needed <= names and not columns.barred & names
    return suits and len(names & columns.known) >= 2
