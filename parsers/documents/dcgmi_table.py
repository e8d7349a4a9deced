"""The tables that dcgmi draws on a terminal: rows of two cells, with a rule between sections.

+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
|-----  Deployment  --------+------------------------------------------------|
| Denylist                  | Pass                                           |
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from aftershock.parsers.documents.text_lines import chunks_of, lines_of

RESULTS: Final = {
    **{"pass": "pass", "healthy": "pass", "fail": "fail", "failure": "fail", "warn": "warn", "warning": "warn"},
    **{"skip": "skip", "skipped": "skip", "not run": "skip"},
}
"""The words of dcgmi for results, in lower case."""

_CELLS: Final = re.compile(rb"\| (?P<left>[^|\n]{1,200}?) *\|(?: (?P<right>[^|\n]{0,400}?) *\|)?\s*\Z")
_RULE: Final = re.compile(rb"[+|]-{2,}")


class TableRow(NamedTuple):
    """A row of a table: where it stands, how deep its label is indented, label and value (empty if there is none)."""

    offset: int
    indent: int
    label: str
    value: str


def table_rows(stream: BinaryIO) -> Iterator[TableRow]:
    """The rows, headings of one cell too; rules and everything around the table are left out."""
    for offset, line in lines_of(chunks_of(stream)):
        if _RULE.match(line):
            continue
        found = _CELLS.match(line)
        if found is None:
            continue
        left = found["left"].decode("utf-8", "replace")
        label = left.strip()
        indent = len(left) - len(left.lstrip())
        if label.startswith("->"):
            label = label[2:].strip()
            indent += 3
        yield TableRow(offset, indent, label, (found["right"] or b"").decode("utf-8", "replace").strip())
