"""The records of JSON documents, one at a time: an object alone, one object a line, or the elements of an array.

Tools export the same records in several wrappings: a single object, objects one after the other, an array of them, or
an object with the array under a known key. Only the ends of the records are looked for here, with a scan that knows
strings and brackets; what is inside is left to a JSON parser. Nothing recurses, and no more than one record is held.
A record that was torn off ends where a line begins with the next one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final

import orjson

from aftershock.parsers.documents.json_elements import EXCERPT, MAX_DEPTH, Element, ElementKeeper
from aftershock.parsers.formats import Refused

_CHUNK: Final = 1 << 20
_LONGEST_KEY: Final = 256

# A string without escapes is passed in one step. An object that begins a line with its first key is a new record,
# wherever it stands: indented documents have blanks before it, and those without indentation break the line behind it.
_OUTSIDE: Final = re.compile(rb'"[^"\\\n]*"|["{}\[\]]|\n(?=\{")')
_INSIDE: Final = re.compile(rb'["\\]|\n(?=\{")')
# A log may begin with a bracket too, around a stamp.
_OPENING: Final = re.compile(rb'(?:\xef\xbb\xbf)?\s*(?P<json>\{\s*["}]|\[\s*[{\]])')
_BETWEEN: Final = re.compile(rb"[{\[]")


def records_of(stream: BinaryIO, keys: Sequence[str] = ()) -> Iterator[Element | Refused]:
    """The records of a document, in order.

    ``keys``: of the outermost object; the objects in an array under one of them are the records, instead of the whole.
    """
    scan = _Scan(frozenset(key.encode("ascii") for key in keys))
    offset = 0
    carry = b""
    while chunk := stream.read(_CHUNK):
        data = carry + chunk
        # A newline at the end says nothing until the bytes behind it are there.
        carry = data[-1:] if data.endswith(b"\n") else data[-2:] if data.endswith(b"\n{") else b""
        data = data[: len(data) - len(carry)]
        yield from scan.take(data, offset)
        offset += len(data)
    yield from scan.take(carry, offset)
    yield from scan.rest(offset + len(carry))


def json_start(data: bytes) -> bytes:
    """The part of a file's head that tells what records are in it: nothing if it is no JSON that holds objects.

    Of objects one a line that is the first: those behind it may be of any kind.
    """
    opening = _OPENING.match(data)
    if opening is None:
        return b""
    text = data[opening.start("json") :]
    line = text.split(b"\n", 1)[0].rstrip()
    return line if line.startswith(b"{") and line.endswith(b"}") else text


def load_record(element: Element) -> dict[str, Any] | None:
    """The record as JSON, None if it is none; bytes that are no UTF-8 are replaced."""
    for data in (element.data, element.data.decode("utf-8", "replace")):
        try:
            record = orjson.loads(data)
        except orjson.JSONDecodeError:
            continue
        return record if isinstance(record, dict) else None
    return None


def member(record: Any, *path: str) -> Any:
    """What stands under a path of keys; None where something on the way is not an object."""
    for key in path:
        record = record.get(key) if isinstance(record, dict) else None
    return record


def text_member(record: Any, *path: str) -> str | None:
    """The text under a path of keys; None if it is empty or no text."""
    value = member(record, *path)
    return value if isinstance(value, str) and value else None


class _Scan(ElementKeeper):
    """Goes through a document chunk by chunk and keeps the bytes of the record that it is in."""

    def __init__(self, keys: frozenset[bytes]) -> None:
        super().__init__()
        self._keys = keys
        self._depth = 0
        self._base: int | None = 0  # depth at which an object is a record; None where none is
        self._in_outer = False  # in an outermost object whose records are in an array of it
        self._in_string = False
        self._escaped = False
        self._last_key = b""

    def take(self, chunk: bytes, base: int) -> Iterator[Element | Refused]:
        """The records that end in this chunk, which starts at ``base`` in the document."""
        at = kept = 0
        while True:
            if self._escaped:
                if at >= len(chunk):
                    break
                at, self._escaped = at + 1, False
            pattern = _INSIDE if self._in_string else (_OUTSIDE if self._depth else _BETWEEN)
            match = pattern.search(chunk, at)
            if match is None:
                break
            mark, begin, here = match.group(), at, match.start()
            at = match.end()
            if mark == b"\n":
                if self._parts is not None:
                    self._keep(chunk[kept:here])
                    yield self._torn(base + here)
                self._reset()
            elif self._in_string:
                self._last_key = (self._last_key + chunk[begin:here])[:_LONGEST_KEY]
                self._in_string = mark != b'"'
                self._escaped = mark == b"\\"
            elif len(mark) > 1:
                self._last_key = mark[1:-1][:_LONGEST_KEY]
            elif mark == b'"':
                self._in_string, self._last_key = True, b""
            elif mark in b"{[":
                if self._open(mark, base + here):
                    kept = here
            elif self._close() and self._parts is not None:
                self._keep(chunk[kept:at])
                yield self._element(base + at)
        if self._in_string:
            self._last_key = (self._last_key + chunk[at : at + _LONGEST_KEY])[:_LONGEST_KEY]
        if self._parts is not None:
            self._keep(chunk[kept:])

    def rest(self, end: int) -> Iterator[Refused]:
        """What the end of the document leaves open."""
        if self._parts is not None:
            yield self._torn(end)
        elif self._depth:
            yield Refused(end, 0, "document ends early")

    def _open(self, mark: bytes, offset: int) -> bool:
        """Go down one level; whether a record begins."""
        outside = self._depth
        self._depth += 1
        listed = mark == b"[" and outside == 1 and self._last_key in self._keys
        if self._parts is None:
            if mark == b"{" and outside == self._base:
                self._begin, self._parts, self._size, self._flaw = offset, [], 0, None
                return True
            if mark == b"[" and outside == 0:
                self._base = 1
            elif listed and self._in_outer:
                self._base = 2
        elif listed and self._base == 0:
            # The outermost object is no record: its array holds them.
            self._in_outer, self._parts, self._base = True, None, 2
        elif self._depth - (self._base or 0) > MAX_DEPTH:
            self._flaw = self._flaw or f"record is nested deeper than {MAX_DEPTH}"
        return False

    def _close(self) -> bool:
        """Go up one level; whether a record ends."""
        self._depth = max(0, self._depth - 1)
        if self._depth == 0:
            self._in_outer, self._base = False, 0
        elif self._parts is None and self._base is not None and self._depth < self._base:
            self._base = None  # the end of an array; the outermost object may have another one
        return self._depth == self._base

    def _torn(self, end: int) -> Refused:
        assert self._parts is not None
        return Refused(self._begin, end - self._begin, "record is cut off", b"".join(self._parts)[:EXCERPT])

    def _reset(self) -> None:
        """A record starts at the next byte: in the array that is open, or as a document of its own."""
        if self._base is None:
            self._base, self._in_outer = 0, False
        self._depth = self._base
        self._in_string = self._escaped = False
        self._parts = None
