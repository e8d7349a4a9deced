"""The table reference: as text for a terminal, and as the page ``docs/tables.md``.

Both are made from the row classes alone. ``python -m aftershock.table_docs`` writes the page anew, below the
current folder.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import pyarrow as pa

from aftershock.schemas.columns import Column, Table
from aftershock.schemas.tables import TABLES

PAGE = Path("docs", "tables.md")

# Width of text for a terminal: the width that terminals open with.
_WIDTH = 80
_INDENT = " " * 4

_INTRODUCTION = """\
# Tables

<!-- Made by `python -m aftershock.table_docs` from the row classes in `schemas/`; edit those. -->

A result is a folder with one sub-folder for each table, even if it has no rows. Null means unknown,
never zero. Times are UTC with microseconds, durations are seconds, ids are strings. Columns with a list of
words are written as dictionaries whose first entries are these words in this order; other words may follow.
"""


def describe_tables(name: str | None = None) -> str:
    """Text for a terminal: the list of tables, or one table with its columns. Ends with a line end.

    Raises:
        KeyError: there is no table of that name.
    """
    if name is None:
        width = max(map(len, TABLES))
        return "".join(_hanging(f"{table.name:<{width}}  ", _first_paragraph(table.doc)) for table in TABLES.values())
    table = TABLES[name]
    parts = [f"{table.name}\n", _wrapped_doc(table.doc), f"\n    key: {', '.join(table.key)}\n\n"]
    parts += [_terminal_column(column) for column in table.columns]
    return "".join(parts)


def page_text() -> str:
    """The whole of ``docs/tables.md``."""
    contents = "".join(f"- [{name}](#{name}): {_first_paragraph(t.doc)}\n" for name, t in TABLES.items())
    return "\n".join([_INTRODUCTION, contents, *(_section(table) for table in TABLES.values())])


def type_name(kind: pa.DataType) -> str:
    """An Arrow type in short: ``list<string>`` instead of ``list<item: string>``."""
    if pa.types.is_list(kind):
        return f"list<{type_name(kind.value_type)}>"
    return "double" if pa.types.is_float64(kind) else str(kind).replace("item: ", "")


def meaning(column: Column) -> str:
    """What a column means, with the words that it may hold."""
    if not column.values:
        return column.doc
    return f"{column.doc} Words: {', '.join(f'`{word}`' for word in column.values)}."


def _terminal_column(column: Column) -> str:
    unit = f", {column.unit}" if column.unit else ""
    head = f"{column.name} ({type_name(column.type)}{unit})\n"
    return head + _indented(meaning(column))


def _section(table: Table) -> str:
    key = ", ".join(f"`{name}`" for name in table.key)
    lines = [
        f"## {table.name}",
        "",
        table.doc,
        "",
        f"Key: {key}.",
        "",
        "| column | type | unit | meaning |",
        "|---|---|---|---|",
        *(f"| `{c.name}` | {_cell(type_name(c.type))} | {c.unit or ''} | {_cell(meaning(c))} |" for c in table.columns),
        "",
    ]
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Text that neither ends a cell of a Markdown table nor reads as HTML."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _first_paragraph(doc: str) -> str:
    return " ".join(doc.split("\n\n", maxsplit=1)[0].split())


def _wrapped_doc(doc: str) -> str:
    return "\n".join(_indented(" ".join(paragraph.split())) for paragraph in doc.split("\n\n"))


def _hanging(head: str, text: str) -> str:
    return textwrap.fill(head + text, _WIDTH, subsequent_indent=" " * len(head)) + "\n"


def _indented(text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT) + "\n"


def main() -> None:
    """Write the page below the current folder."""
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
