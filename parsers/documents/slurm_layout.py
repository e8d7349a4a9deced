"""Tables that Slurm's tools print for people: columns of fixed width under a header, no delimiter.

    REASON               USER      TIMESTAMP           NODELIST
    bad dimm slot 4      root      2025-02-03T08:00:05 dgx[07-08]

    JobID           JobName      State ExitCode
    ------------ ---------- ---------- --------
    812          pretraini+ CANCELLED+      0:0

A cell that is too long is cut at the width of its column (sacct puts a ``+`` there), or moves everything behind it
where its column has no width. So a line is cut at the places of the header's words, and only if that makes no sense by
its blanks, of which no cell but a free text has any. What fits neither way is not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

# The tools print a line for each record. What is longer is damage, and costs no more than this.
LONGEST: Final = 8192
_MOST_COLUMNS: Final = 200

_BOM: Final = b"\xef\xbb\xbf"
_WORD: Final = re.compile(rb"\S+")
_WORD_OF_TEXT: Final = re.compile(r"\S+")
_NAME: Final = re.compile(rb"[A-Za-z][A-Za-z0-9_/().:%-]{0,40}\Z")
_RULE: Final = re.compile(rb"\s*-+(?: +-+)*\s*\Z")
# squeue and sinfo print the time above their long layouts.
_DATE: Final = re.compile(rb"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?:[A-Z]{2,5} )?\d{4}\s*\Z")


@dataclass(frozen=True, slots=True)
class Layout:
    """A header: its names (lower case), where each column begins and ends, and what its cells look like.

    ruled: the columns are as wide as the dashes below the header; a cell that ends with ``+`` was cut.
    text: the number of the column that may have blanks where cells are told by their blanks, -1 for none.
    """

    names: tuple[str, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    shapes: tuple[re.Pattern[str] | None, ...]
    free: tuple[bool, ...]
    ruled: bool
    text: int

    def cells(self, line: bytes) -> dict[str, str] | None:
        """The cells of a line by the name of their column (the first of each name), None if there is no way."""
        text = line.rstrip(b"\r\n")
        if self.ruled:
            return self._fitting(self._ruled(text))
        ways = [self._between(text, self.starts, 0), self._between(text, self.ends, 1)]
        if text[:1] == b" ":
            ways.reverse()
        found = next((named for way in ways if way and (named := self._fitting(way)) is not None), None)
        return found if found is not None else self._fitting(self._by_blanks(_text(text)))

    def is_cut(self, name: str, cell: str) -> bool:
        """Whether a cell was cut at the width of its column. A state is known by its beginning, a step by its dot."""
        if name == "state" or (name in ("jobid", "jobidraw") and "." in cell):
            return False
        at = self.names.index(name)
        return self.ruled and cell.endswith("+") and len(cell.encode()) >= self.ends[at] - self.starts[at]

    def _ruled(self, text: bytes) -> list[str] | None:
        if any(text[end : end + 1] not in (b" ", b"") for end in self.ends):
            return None
        return [_text(text[start:end]) for start, end in zip(self.starts, self.ends, strict=True)]

    def _by_blanks(self, text: str) -> list[str] | None:
        """Cells between blanks; what is left over between them is the text that may have some, or nothing."""
        words = [match.span() for match in _WORD_OF_TEXT.finditer(text)]
        behind = len(self.names) - self.text - 1
        if self.text < 0 or len(words) < self.text + behind:
            return [text[start:end] for start, end in words] if len(words) == len(self.names) else None
        inner = words[self.text : len(words) - behind]
        middle = text[inner[0][0] : inner[-1][1]] if inner else ""
        before, after = words[: self.text], words[len(words) - behind :]
        return [*(text[a:b] for a, b in before), middle, *(text[a:b] for a, b in after)]

    def _between(self, text: bytes, edges: tuple[int, ...], side: int) -> list[str] | None:
        """Cells from edge to edge: where the words of the header begin (``side`` 0), or where they end."""
        inner = edges[1:] if side == 0 else edges[:-1]
        if any(text[(at - 1 if side == 0 else at) :][:1] not in (b" ", b"") for at in inner):
            return None
        marks = (0, *inner, len(text))
        return [_text(text[begin:end]) for begin, end in pairwise(marks)]

    def _fitting(self, cells: list[str] | None) -> dict[str, str] | None:
        if cells is None:
            return None
        named: dict[str, str] = {}
        for name, cell, shape, free in zip(self.names, cells, self.shapes, self.free, strict=True):
            word = cell.strip()
            if word and not free and not (shape.fullmatch(word) if shape else " " not in word):
                return None
            named.setdefault(name, word)
        return named


def layout_of(line: bytes, shapes: Mapping[str, re.Pattern[str]], free: frozenset[str]) -> Layout | None:
    """The layout that a line states whose words are all names, in capitals: prose is not."""
    text = line.removeprefix(_BOM)
    if len(text) > LONGEST or text != text.upper():
        return None
    found = list(_WORD.finditer(text))
    if not 2 <= len(found) <= _MOST_COLUMNS or not all(_NAME.match(match.group()) for match in found):
        return None
    names = tuple(match.group().decode("ascii").lower() for match in found)
    return _layout(names, [match.span() for match in found], shapes, free, ruled=False)


def ruled_layout_of(
    line: bytes, rule: bytes, shapes: Mapping[str, re.Pattern[str]], free: frozenset[str]
) -> Layout | None:
    """The layout of a header with dashes below it, as sacct prints it."""
    if not is_rule(rule) or len(rule) > LONGEST:
        return None
    spans = [match.span() for match in _WORD.finditer(rule)]
    names = [line.removeprefix(_BOM)[start:end].strip() for start, end in spans]
    if len(spans) > _MOST_COLUMNS or not all(_NAME.match(name) for name in names):
        return None
    return _layout(tuple(name.decode("ascii").lower() for name in names), spans, shapes, free, ruled=True)


def is_rule(line: bytes) -> bool:
    """Whether a line is the dashes below a header."""
    return line[:1] == b"-" and _RULE.match(line) is not None


def is_date(line: bytes) -> bool:
    """Whether a line is the time that stands above a long layout."""
    return _DATE.match(line) is not None


def _layout(
    names: tuple[str, ...],
    spans: list[tuple[int, int]],
    shapes: Mapping[str, re.Pattern[str]],
    free: frozenset[str],
    *,
    ruled: bool,
) -> Layout:
    is_free = tuple(name in free for name in names)
    # By blanks alone two texts in one line cannot be told apart: only the last one may have some.
    text = max((at for at, one in enumerate(is_free) if one), default=-1)
    starts, ends = zip(*spans, strict=True)
    return Layout(names, starts, ends, tuple(shapes.get(name) for name in names), is_free, ruled, text)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")
