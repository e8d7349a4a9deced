"""Globs with ``**`` as regular expressions, for paths that need not exist and for addresses of object stores."""

from __future__ import annotations

import fnmatch
import os
import re
from functools import lru_cache
from typing import Final

_SIGN: Final = re.compile(r"\[!?\]?[^\]/]*\]|\*+|.", re.DOTALL)


@lru_cache(maxsize=1024)
def glob_pattern(folder: str, glob: str) -> re.Pattern[str]:
    """What the whole of a path must match: the glob, from the folder on unless it is absolute or an address.

    >>> bool(glob_pattern("/data", "logs/**/*.log").fullmatch("/data/logs/kernel/gpu001.log"))
    True
    >>> bool(glob_pattern("/data", "logs/*.log").fullmatch("/data/logs/kernel/gpu001.log"))
    False
    """
    if not folder or os.path.isabs(glob):
        return re.compile(_translated(glob), re.DOTALL)
    while glob.startswith(("./", "../")):
        step, glob = glob.split("/", 1)
        folder = os.path.dirname(folder) if step == ".." else folder
    # The folder stands as it is: a bracket in its name is no glob.
    return re.compile(re.escape(folder.rstrip("/")) + "/" + _translated(glob), re.DOTALL)


def _translated(glob: str) -> str:
    """``**`` is zero or more folders (at the end: everything below), ``*``, ``?`` and ``[...]`` stay within a name."""
    # A doubled slash is one, except after the scheme of an address.
    *parents, last = re.sub(r"(?<!:)//+", "/", glob).split("/")
    folders = ["(?:[^/]+/)*" if part == "**" else _name(part) + "/" for part in parents]
    return "".join(folders) + (".*" if last == "**" else _name(last))


def _name(part: str) -> str:
    return "".join(map(_sign, _SIGN.findall(part)))


def _sign(sign: str) -> str:
    if sign.startswith("*"):
        return "[^/]*"
    if sign == "?":
        return "[^/]"
    if len(sign) == 1:
        return re.escape(sign)
    # The standard library knows all about brackets, but not that they must not match a slash.
    return "(?!/)" + fnmatch.translate(sign).removeprefix("(?s:").rsplit(")", 1)[0]
