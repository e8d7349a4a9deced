"""Slurm host lists: ``gpu[001-004,007],login1`` as the names that it stands for.

The notation is described at https://slurm.schedmd.com/scontrol.html (``show hostlist``). A list is comma separated; a
term may hold several bracket groups, which multiply; a range keeps the width of its first number. How many names a
list stands for is worked out before any of them is made, so that ``n[0-9999999999]`` costs nothing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Final

# More hosts than any cluster that Slurm runs; a longer list is damage or an attack.
CAP: Final = 65_536

# The longest name that the domain name system allows. It bounds the memory that one term can ask for.
_LONGEST_NAME: Final = 255

# Eighteen digits are below 2**63; longer numbers are refused before they are turned into integers.
_MOST_DIGITS: Final = 18

# What Slurm's tools print where there are no hosts.
_NO_HOSTS: Final = frozenset({"", "(null)", "none assigned", "none", "n/a", "unknown"})

# A term is literal text and groups in turn. Brackets do not nest.
_PIECE: Final = re.compile(r"(?P<literal>[^\[\]]+)|\[(?P<group>[^\[\]]*)\]")
_RANGE: Final = re.compile(r"(?P<low>[0-9]+)(?:-(?P<high>[0-9]+))?\Z")
_LITERAL: Final = re.compile(r"[^\s\[\](){}|=\"'\\<>;*]+\Z")


class HostListError(ValueError):
    """A host list that cannot be expanded; the message says why."""


class _Group:
    """The numbers in one pair of brackets, as ranges of (first, last, width)."""

    def __init__(self, text: str) -> None:
        self._ranges = [_range_of(item) for item in text.split(",")]
        self.size = sum(last - first + 1 for first, last, _ in self._ranges)

    def __iter__(self) -> Iterator[str]:
        for first, last, width in self._ranges:
            for number in range(first, last + 1):
                yield str(number).zfill(width)


def expand_hosts(text: str, cap: int = CAP) -> list[str]:
    """The hosts of a list in the order that it prints them, each once; nothing for ``(null)``, ``None assigned``.

    >>> expand_hosts("r[1-2]c[08-09],login1")
    ['r1c08', 'r1c09', 'r2c08', 'r2c09', 'login1']

    Raises:
        HostListError: the list is malformed, has a reversed range, or stands for more than ``cap`` hosts.
    """
    if text.strip().lower() in _NO_HOSTS:
        return []
    terms = [_pieces_of(term.strip()) for term in _split_terms(text)]
    total = 0
    for term in terms:
        size = 1
        for piece in term:
            size *= piece.size if isinstance(piece, _Group) else 1
        total += size
        if total > cap:
            raise HostListError(f"host list stands for more than {cap} hosts")
    names = ("".join(parts) for term in terms for parts in itertools.product(*(_choices(piece) for piece in term)))
    return list(dict.fromkeys(names))


def _choices(piece: str | _Group) -> list[str]:
    return [piece] if isinstance(piece, str) else list(piece)


def _split_terms(text: str) -> list[str]:
    """The text cut at the commas that stand outside of brackets."""
    terms: list[str] = []
    depth = begin = 0
    for match in re.finditer(r"[\[\],]", text):
        mark = match.group()
        if mark == "[":
            depth += 1
            if depth > 1:
                raise HostListError("bracket within brackets in host list")
        elif mark == "]":
            depth -= 1
            if depth < 0:
                raise HostListError("bracket closed but never opened in host list")
        elif depth == 0:
            terms.append(text[begin : match.start()])
            begin = match.end()
    if depth:
        raise HostListError("bracket never closed in host list")
    return [*terms, text[begin:]]


def _pieces_of(term: str) -> list[str | _Group]:
    if not term:
        raise HostListError("empty name in host list")
    pieces: list[str | _Group] = []
    length = 0
    for match in _PIECE.finditer(term):
        literal = match["literal"]
        if literal is None:
            pieces.append(_Group(match["group"]))
            length += 1
        else:
            if not _LITERAL.match(literal):
                raise HostListError("a character that no host name has in host list")
            pieces.append(literal)
            length += len(literal)
    if length > _LONGEST_NAME:
        raise HostListError(f"host name of more than {_LONGEST_NAME} characters in host list")
    return pieces


def _range_of(item: str) -> tuple[int, int, int]:
    match = _RANGE.match(item)
    if not match:
        raise HostListError("not a range of numbers within the brackets of a host list")
    low, high = match["low"], match["high"] or match["low"]
    if max(len(low), len(high)) > _MOST_DIGITS:
        raise HostListError("number too long in host list")
    first, last = int(low), int(high)
    if last < first:
        raise HostListError(f"reversed range {low}-{high} in host list")
    return first, last, len(low)
