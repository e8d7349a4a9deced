"""Patterns of a grammar that are compiled when a line first asks for them.

Formats hold some hundred patterns, of which a log needs a handful. Compiling all of them took longer than importing the
formats, for each process that parses.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, Final, cast

_METHODS: Final = ("match", "fullmatch", "search", "finditer", "findall", "sub")


class _Later:
    """Has the methods of a compiled pattern as its own from the first use on."""

    def __init__(self, pattern: Any, flags: int) -> None:
        self._source: Final = pattern, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        compiled = re.compile(*self._source)
        vars(self).update({method: getattr(compiled, method) for method in _METHODS})
        return getattr(compiled, name)

    def __reduce__(self) -> Any:
        return later, self._source


def later(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """The pattern, not compiled yet. What is wrong with it is found at its first use: each needs a sample.

    >>> later(rb"Xid (\\d+)").search(b"NVRM: Xid 79")[1]
    b'79'
    """
    return cast(re.Pattern[AnyStr], _Later(pattern, flags))
