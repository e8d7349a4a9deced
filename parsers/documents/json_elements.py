"""The elements of one array of a JSON document, one at a time, however large the document is.

Only the ends of the elements are looked for here, with a scan that knows strings and brackets; what is inside is left
to a JSON parser. Nothing recurses, so depth costs nothing, and no more than one element is held. A value of the array
that is no object is refused where it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from aftershock.parsers.formats import Refused

# An accounting record of a job with thousands of steps has some megabytes.
MAX_ELEMENT: Final = 32 << 20
# Deeper than any record that a tool writes, shallower than what a parser's stack may not bear.
MAX_DEPTH: Final = 200
EXCERPT: Final = 512

_CHUNK: Final = 1 << 20
_LONGEST_KEY: Final = 256

# A string without escapes that ends in the chunk is passed in one step, any other character by character class.
_OUTSIDE: Final = re.compile(rb'"[^"\\]*"|["{}\[\]]')
_INSIDE: Final = re.compile(rb'["\\]')
# Between the elements: what parts values, or a piece of a value.
_BETWEEN: Final = re.compile(rb"(?P<gap>[\s,]+)|[^\s,]+")
# Values that are no objects are told one by one up to this number, the others are counted.
_MOST_STRAYS: Final = 100


class Element(NamedTuple):
    """The bytes of an object of the array, and where they start in the document."""

    offset: int
    data: bytes


class ElementKeeper:
    """Keeps the bytes of one object while a scan goes through it, up to a size; a flaw makes a refusal of it."""

    def __init__(self) -> None:
        self._begin = 0
        self._parts: list[bytes] | None = None  # None: not in an object that is kept
        self._size = 0
        self._flaw: str | None = None

    def _keep(self, data: bytes) -> None:
        assert self._parts is not None
        self._size += len(data)
        if self._size > MAX_ELEMENT:
            self._flaw = self._flaw or f"record of more than {MAX_ELEMENT} bytes"
        if self._flaw is None:
            self._parts.append(data)
        else:
            self._parts = [b"".join(self._parts)[:EXCERPT]]

    def _element(self, end: int) -> Element | Refused:
        assert self._parts is not None
        data, self._parts = b"".join(self._parts), None
        if self._flaw:
            return Refused(self._begin, end - self._begin, self._flaw, data[:EXCERPT])
        return Element(self._begin, data)


class _Strays:
    """The values of an array that are no objects, with their places."""

    def __init__(self) -> None:
        self._begin: int | None = None
        self._text = b""
        self._told = 0
        self._more = 0

    @property
    def open(self) -> bool:
        """Whether a value has begun and not ended."""
        return self._begin is not None

    def add(self, piece: bytes, offset: int) -> None:
        """The beginning or the next piece of a value."""
        if self._begin is None:
            self._begin, self._text = offset, b""
        if len(self._text) < EXCERPT:
            self._text = (self._text + piece[:EXCERPT])[:EXCERPT]

    def between(self, text: bytes, offset: int) -> Iterator[Refused]:
        """What stands between two brackets or strings of the array."""
        for match in _BETWEEN.finditer(text):
            if match["gap"] is None:
                self.add(match.group(), offset + match.start())
            else:
                yield from self.end(offset + match.start())

    def end(self, offset: int) -> Iterator[Refused]:
        """The value ends before this offset, if there is one."""
        if self._begin is None:
            return
        begin, self._begin = self._begin, None
        if self._told < _MOST_STRAYS:
            self._told += 1
            yield Refused(begin, offset - begin, "an element that is no object", self._text)
        else:
            self._more += 1

    def count(self, offset: int) -> Iterator[Refused]:
        """At the end of the array: how many were not told."""
        if self._more:
            yield Refused(offset, 0, f"{self._more} more elements that are no objects")
        self._told = self._more = 0


class _Scan(ElementKeeper):
    """Goes through a document chunk by chunk and keeps the bytes of the element it is in."""

    def __init__(self, key: bytes) -> None:
        super().__init__()
        self._key = key
        self._depth = 0
        self._array_depth: int | None = None  # depth inside the array that is looked for
        self._in_string = False
        self._escaped = False
        self._last_key = b""
        self._key_open = False
        self._strays = _Strays()

    @property
    def inside(self) -> bool:
        """Whether the document has begun and not ended."""
        return self._depth > 0 or self._in_string

    def take(self, chunk: bytes, base: int) -> Iterator[Element | Refused]:
        """The elements that end in this chunk, which starts at ``base`` in the document."""
        at = kept = 0
        while True:
            if self._escaped:
                if at >= len(chunk):
                    break
                if self._strays.open:
                    self._strays.add(chunk[at : at + 1], base + at)
                at, self._escaped = at + 1, False
            match = (_INSIDE if self._in_string else _OUTSIDE).search(chunk, at)
            if self._array_depth is not None and self._parts is None:
                yield from self._aside(chunk, base, at, match)
            if match is None:
                if self._key_open:
                    self._last_key = (self._last_key + chunk[at : at + _LONGEST_KEY])[:_LONGEST_KEY]
                break
            mark, here = match.group(), match.start()
            if len(mark) > 1:
                self._last_key = mark[1:-1][:_LONGEST_KEY]
                at = match.end()
                continue
            if self._in_string:
                if self._key_open:
                    self._last_key = (self._last_key + chunk[at:here])[:_LONGEST_KEY]
                self._in_string = mark != b'"'
                self._escaped = mark == b"\\"
                self._key_open = self._key_open and self._in_string
            elif mark == b'"':
                self._in_string = True
                if self._parts is None and self._array_depth is None:
                    self._key_open, self._last_key = True, b""
            elif mark in b"{[":
                self._open(mark, base + here)
                if self._parts is not None and self._size == 0 and not self._parts:
                    kept = max(kept, self._begin - base)
            else:
                ended = self._close()
                if ended and self._parts is not None:
                    self._keep(chunk[kept : here + 1])
                    yield self._element(base + here + 1)
                    kept = here + 1
            at = here + 1
        if self._parts is not None:
            self._keep(chunk[kept:])

    def _aside(self, chunk: bytes, base: int, at: int, match: re.Match[bytes] | None) -> Iterator[Refused]:
        """What stands in the array beside its objects, up to the next mark and with it."""
        here, end = (len(chunk), len(chunk)) if match is None else match.span()
        if self._in_string or self._depth != self._array_depth:
            if self._strays.open:
                self._strays.add(chunk[at:end], base + at)
            return
        yield from self._strays.between(chunk[at:here], base + at)
        if match is None:
            return
        mark = match.group()
        if mark not in (b"{", b"}", b"]"):
            self._strays.add(mark, base + here)
            return
        yield from self._strays.end(base + here)
        if mark != b"{":
            yield from self._strays.count(base + here)

    def rest(self, end: int) -> Iterator[Refused]:
        """What the end of the document leaves open."""
        yield from self._strays.end(end)
        if self._parts is not None:
            yield Refused(
                self._begin, end - self._begin, "document ends within a record", b"".join(self._parts)[:EXCERPT]
            )
        elif self.inside:
            yield Refused(end, 0, "document ends early")

    def _open(self, mark: bytes, offset: int) -> None:
        self._depth += 1
        if self._array_depth is None:
            if mark == b"[" and self._depth == 2 and self._last_key == self._key:
                self._array_depth = self._depth
        elif mark == b"{" and self._depth == self._array_depth + 1:
            self._begin, self._parts, self._size, self._flaw = offset, [], 0, None
        elif self._parts is not None and self._depth - self._array_depth > MAX_DEPTH:
            self._flaw = self._flaw or f"record is nested deeper than {MAX_DEPTH}"

    def _close(self) -> bool:
        """Whether the element ends here."""
        self._depth = max(0, self._depth - 1)
        if self._array_depth is None:
            return False
        if self._depth < self._array_depth:
            self._array_depth = None
        return self._depth == self._array_depth


def elements_of(stream: BinaryIO, key: str) -> Iterator[Element | Refused]:
    """The objects in the array under ``key`` of the outermost object, in order; of several documents in a row too."""
    scan = _Scan(key.encode("ascii"))
    offset = 0
    while chunk := stream.read(_CHUNK):
        yield from scan.take(chunk, offset)
        offset += len(chunk)
    yield from scan.rest(offset)
