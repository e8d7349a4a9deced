"""Where the keys of a TOML text stand: the standard reader gives values without lines.

The scan follows the shape of the text only (keys, brackets, strings, comments) and trusts that the text has been read
without error before.
"""

from __future__ import annotations

import json
import re
from typing import Final

KeyPath = tuple[str | int, ...]
"""How a value is reached: keys, and positions in arrays of tables: ``("sources", 0, "glob")``."""

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
# The four kinds of strings; the long ones first, because they begin like the short ones.
_STRING: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{1,2}(?!"))?' + r"|'''.*?'''(?:'{1,2}(?!'))?" + r'|"(?:\\.|[^"\\\n])*"' + r"|'[^'\n]*'",
    re.DOTALL,
)
_COMMENT: Final = re.compile(r"#[^\n]*")


def key_lines(text: str) -> dict[KeyPath, int]:
    """Line numbers, from 1, of all keys and table headers; a path that is written twice has its first line.

    >>> key_lines('[cluster]\\nname = "solar"\\n[[sources]]\\nglob = "*"\\n')[("sources", 0, "glob")]
    4
    """
    scan = _Scan(text)
    scan.document()
    return scan.lines


class _Scan:
    """A walk through the text, one position at a time."""

    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._text = text
        self._at = 0
        self._table: KeyPath = ()
        self._counts: dict[KeyPath, int] = {}  # tables so far in each array of tables

    def document(self) -> None:
        """All statements."""
        while self._skip_blank() < len(self._text):
            if self._next() == "[":
                self._header()
            else:
                self._assignment(self._table)

    def _header(self) -> None:
        """``[a.b]`` or ``[[a.b]]``."""
        line = self._line()
        many = self._text.startswith("[[", self._at)
        self._at += 2 if many else 1
        path = self._inside(self._keys())
        if many:
            count = self._counts.get(path, 0)
            self._counts[path] = count + 1
            self.lines.setdefault(path, line)
            path = (*path, count)
        self.lines.setdefault(path, line)
        self._table = path
        self._at = self._end_of_line()

    def _inside(self, keys: list[str]) -> KeyPath:
        """The path of a header: where a part of it is an array of tables, its last table is meant."""
        path: KeyPath = ()
        for key in keys[:-1]:
            path = (*path, key)
            if path in self._counts:
                path = (*path, self._counts[path] - 1)
        return (*path, keys[-1]) if keys else path

    def _assignment(self, table: KeyPath) -> None:
        """``key.key = value``; also within an inline table."""
        line = self._line()
        path = table
        for key in self._keys():
            path = (*path, key)
            self.lines.setdefault(path, line)
        self._at += 1  # the sign of equality
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        self._skip_blank(newlines=False)
        mark = self._next()
        if mark == "{":
            self._listed("}", path)
        elif mark == "[":
            self._listed("]", path)
        elif mark in "\"'":
            self._string()
        else:
            ends = (self._text.find(sign, self._at) for sign in ",]}#\n")
            self._at = min((end for end in ends if end >= 0), default=len(self._text))

    def _listed(self, close: str, path: KeyPath) -> None:
        """An inline table or an array, up to its closing bracket."""
        self._at += 1
        position = 0
        while self._skip_blank() < len(self._text) and self._next() != close:
            if self._next() == ",":
                self._at += 1
                position += 1
            elif close == "}":
                self._assignment(path)
            else:
                self.lines.setdefault((*path, position), self._line())
                self._value((*path, position))
        self._at += 1

    def _keys(self) -> list[str]:
        """A key with its dots, up to the sign that ends it."""
        keys = []
        while self._skip_blank(newlines=False) < len(self._text):
            sign = self._next()
            if sign == ".":
                self._at += 1
            elif sign in "\"'":
                keys.append(_unquoted(self._string()))
            elif bare := _BARE.match(self._text, self._at):
                keys.append(bare.group())
                self._at = bare.end()
            else:
                break
        return keys

    def _string(self) -> str:
        found = _STRING.match(self._text, self._at)
        self._at = found.end() if found else self._at + 1
        return found.group() if found else ""

    def _skip_blank(self, *, newlines: bool = True) -> int:
        """Go on past spaces and, where they may stand, line ends and comments; the new position."""
        blank = " \t\r\n" if newlines else " \t"
        while self._at < len(self._text):
            if self._text[self._at] in blank:
                self._at += 1
            elif newlines and (comment := _COMMENT.match(self._text, self._at)):
                self._at = comment.end()
            else:
                break
        return self._at

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _end_of_line(self) -> int:
        end = self._text.find("\n", self._at)
        return len(self._text) if end < 0 else end

    def _line(self) -> int:
        return self._text.count("\n", 0, self._at) + 1


def _unquoted(string: str) -> str:
    """The text of a quoted key."""
    if string.startswith("'"):
        return string[1:-1]
    try:
        # The escapes that both languages have are the ones that occur in keys.
        return str(json.loads(string))
    except ValueError:
        return string[1:-1]
