"""Text for people: what logs say made harmless, and tables as plain text or with rich.

A log may hold anything, also what moves the cursor, changes the title of the window or turns the direction of writing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TextIO

# Cells of tables and excerpts: a line of a log fits on a screen, and a whole log does not.
LONGEST_CELL: Final = 72

# Controls (C0, C1), what is formatted by but not seen (direction overrides, tags, marks), line and paragraph
# separators, and halves of surrogate pairs, which are what bytes that are no UTF-8 were decoded to.
_HIDDEN_KINDS: Final = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs"})

# Several scripts cannot be written without the joiners.
_JOINERS: Final = "\u200c\u200d"

_PLAIN: Final = re.compile(r"[ -~]*\Z")


def printable(text: str) -> str:
    r"""The text with everything that is not seen, or that acts on a terminal, written out.

    >>> print(printable("ok \x1b[31mred\u202e \udc80"))
    ok \x1b[31mred\u202e \x80
    """
    if _PLAIN.match(text):
        return text
    return "".join(map(_visible, text))


def _visible(sign: str) -> str:
    if unicodedata.category(sign) not in _HIDDEN_KINDS or sign in _JOINERS:
        return sign
    code = ord(sign)
    if sign in "\t\n\r":
        return {"\t": r"\t", "\n": r"\n", "\r": r"\r"}[sign]
    if 0xDC80 <= code <= 0xDCFF:  # how Python keeps a byte that is no UTF-8
        code -= 0xDC00
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def cut(text: str, most: int = LONGEST_CELL) -> str:
    """The text, or its beginning with three dots so that the whole has at most so many characters."""
    return text if len(text) <= most else text[: max(0, most - 3)] + "..."


def span(seconds: float | None) -> str:
    """A duration as people say it: ``41 s``, ``12 min``, ``3.2 h``, ``2.5 d``; empty if it is unknown."""
    if seconds is None:
        return ""
    size = abs(seconds)
    if size < 120:
        return f"{seconds:.0f} s"
    if size < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if size < 48 * 3600 else f"{seconds / 86400:.1f} d"


@dataclass(frozen=True)
class Section:
    """A heading with a table, lines of text, or both below it. Cells hold the text as it was found.

    numbers: columns, by their headings, that are set flush right. loud: a warning.
    """

    title: str
    headings: tuple[str, ...] = ()
    rows: tuple[tuple[object, ...], ...] = ()
    lines: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    loud: bool = False


def write_sections(sections: Iterable[Section], out: TextIO, terminal: bool) -> None:
    """Print sections: with rich on a terminal, else as plain text that is the same for the same rows."""
    if terminal:
        _write_rich(sections, out)
        return
    text = "\n".join("\n".join(_plain_section(section)) + "\n" for section in sections)
    # A pipe may be ASCII only (LANG=C); a name in another script is no reason to fail.
    encoding = getattr(out, "encoding", None) or "utf-8"
    out.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _title(section: Section) -> str:
    return f"{'! ' if section.loud else ''}{printable(section.title)}"


def _cells(section: Section) -> list[list[str]]:
    """Rows as texts: harmless, cut, empty where nothing is known. Numbers are written whole."""
    return [["" if cell is None else cut(printable(str(cell))) for cell in row] for row in section.rows]


def _plain_section(section: Section) -> list[str]:
    lines = [_title(section)]
    if section.rows:
        table = [list(section.headings), *_cells(section)]
        widths = [max(map(_width, column)) for column in zip(*table, strict=True)]
        right = [heading in section.numbers for heading in section.headings]
        lines += ["  " + _aligned(row, widths, right) for row in table]
    return lines + [f"  {printable(line)}".rstrip() for line in section.lines]


def _aligned(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    cells = []
    for cell, width, flush in zip(row, widths, right, strict=True):
        space = " " * (width - _width(cell))
        cells.append(space + cell if flush else cell + space)
    return "  ".join(cells).rstrip()


def _width(text: str) -> int:
    """Columns that the text takes on a screen: letters of East Asia take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text
    )


def _write_rich(sections: Iterable[Section], out: TextIO) -> None:
    # Text objects only: rich reads a str as markup, and a log may hold brackets.
    from rich.console import Console  # noqa: PLC0415 - not needed in a pipe
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console: Any = Console(file=out, force_terminal=True, highlight=False, markup=False, emoji=False)
    for section in sections:
        console.print(Text(_title(section), style="bold red" if section.loud else "bold"))
        if section.rows:
            table: Any = Table(box=None, pad_edge=True, header_style="dim", padding=(0, 1))
            for heading in section.headings:
                justify: Any = "right" if heading in section.numbers else "left"
                table.add_column(Text(heading), justify=justify, overflow="fold")
            for row in _cells(section):
                table.add_row(*map(Text, row))
            console.print(table)
        for line in section.lines:
            # Commands are copied from here, so the console must not break them.
            console.print(Text(f"  {printable(line)}", style="red" if section.loud else ""), soft_wrap=True)
        console.print()
