"""A JSON text read from its beginning to its end, value by value, without ever holding more than a piece of it.

Nothing recurses; what is skipped is not kept. Arrays of numbers, of which an answer of Prometheus mostly consists, are
handed out as text in large pieces that end between two elements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import orjson

_CHUNK: Final = 1 << 20
# Values that are held whole: labels, warnings, single samples. A native histogram has some kilobytes.
MOST: Final = 4 << 20

_BLANK: Final = re.compile(rb"[ \t\r\n]*")
_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_SCALAR: Final = re.compile(rb"[-+.0-9A-Za-z]+")
_MARK: Final = re.compile(rb'["{}\[\]]')
_LAST: Final = re.compile(rb"\][ \t\r\n]*\]")


class BadJson(Exception):
    """The text is no JSON, or ends early. ``offset``: where; the message says what."""

    def __init__(self, offset: int, text: str) -> None:
        super().__init__(text)
        self.offset = offset


class JsonCursor:
    """A place in a JSON text. All methods raise :class:`BadJson` where the text is not what it has to be."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._data = b""
        self._at = 0
        self._base = 0
        self._ended = False

    @property
    def offset(self) -> int:
        """Where in the text it stands."""
        return self._base + self._at

    def excerpt(self, size: int = 256) -> bytes:
        """The next bytes, as far as they are here."""
        return self._data[self._at : self._at + size]

    def _more(self) -> bool:
        """Reads on; False at the end of the text."""
        if self._ended:
            return False
        chunk = self._stream.read(_CHUNK)
        if not chunk:
            self._ended = True
            return False
        self._data = self._data[self._at :] + chunk
        self._base += self._at
        self._at = 0
        return True

    def peek(self) -> bytes:
        """The next character that is no blank; empty at the end of the text."""
        while True:
            blank = _BLANK.match(self._data, self._at)
            assert blank is not None
            self._at = blank.end()
            if self._at < len(self._data):
                return self._data[self._at : self._at + 1]
            if not self._more():
                return b""

    def skip_mark(self) -> None:
        """Beyond a byte order mark at the beginning."""
        while len(self._data) < 3 and self._more():
            pass
        if self._data.startswith(b"\xef\xbb\xbf"):
            self._at = 3

    def expect(self, mark: bytes) -> None:
        """Beyond this mark."""
        found = self.peek()
        if found != mark:
            raise self.bad(f"{mark.decode()} expected" if found else "ends early")
        self._at += 1

    def bad(self, text: str) -> BadJson:
        """An error at this place."""
        return BadJson(self.offset, text)

    def members(self) -> Iterator[str]:
        """The keys of the object that begins here. Whoever asks reads the value behind each before the next."""
        self.expect(b"{")
        if self.peek() == b"}":
            self._at += 1
            return
        while True:
            if self.peek() != b'"':
                raise self.bad("a key expected" if self.peek() else "ends early")
            key = self.value()
            self.expect(b":")
            yield str(key)
            if not self._goes_on(b"}"):
                return

    def elements(self) -> Iterator[int]:
        """The numbers of the elements of the array that begins here, each to be read before the next."""
        self.expect(b"[")
        if self.peek() == b"]":
            self._at += 1
            return
        number = 0
        while True:
            yield number
            number += 1
            if not self._goes_on(b"]"):
                return

    def _goes_on(self, end: bytes) -> bool:
        mark = self.peek()
        if mark not in (b",", end):
            raise self.bad(f", or {end.decode()} expected" if mark else "ends early")
        self._at += 1
        return mark == b","

    def value(self) -> Any:
        """The value that begins here; it may be of any kind, and is held whole."""
        text = self.text()
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            try:
                return orjson.loads(text.decode("utf-8", "replace"))
            except orjson.JSONDecodeError as error:
                raise BadJson(self.offset - len(text), f"not JSON: {error.msg[:80]}") from None

    def text(self) -> bytes:
        """The bytes of the value that begins here."""
        parts: list[bytes] = []
        size = 0
        for piece in self._value_pieces():
            size += len(piece)
            if size > MOST:
                raise self.bad(f"a value of more than {MOST} bytes")
            parts.append(piece)
        return b"".join(parts)

    def skip(self) -> None:
        """Beyond the value that begins here, of any size."""
        for _ in self._value_pieces():
            pass

    def _value_pieces(self) -> Iterator[bytes]:
        first = self.peek()
        if first == b'"':
            yield self._string()
            return
        if first not in (b"{", b"["):
            yield self._scalar()
            return
        depth = 0
        while True:
            mark = _MARK.search(self._data, self._at)
            if mark is None:
                piece = self._data[self._at :]
                self._at = len(self._data)
                yield piece
                if not self._more():
                    raise self.bad("ends early")
                continue
            if mark.group() == b'"':
                piece = self._data[self._at : mark.start()]
                self._at = mark.start()
                yield piece
                yield self._string()
                continue
            piece = self._data[self._at : mark.end()]
            self._at = mark.end()
            depth += 1 if mark.group() in b"{[" else -1
            yield piece
            if depth <= 0:
                return

    def _string(self) -> bytes:
        while True:
            match = _STRING.match(self._data, self._at)
            if match is not None:
                self._at = match.end()
                return match.group()
            if len(self._data) - self._at > MOST:
                raise self.bad(f"a text of more than {MOST} bytes")
            if not self._more():
                raise self.bad("ends early")

    def _scalar(self) -> bytes:
        while True:
            match = _SCALAR.match(self._data, self._at)
            if match is None:
                raise self.bad("a value expected" if self._at < len(self._data) else "ends early")
            if len(match.group()) > MOST:
                raise self.bad(f"a value of more than {MOST} bytes")
            # It may go on in what is not read yet.
            if match.end() < len(self._data) or not self._more():
                self._at += len(match.group())
                return match.group()

    def rows(self) -> Iterator[bytes]:
        """The text of the array of arrays that begins here, without its own brackets, cut between its elements."""
        self.expect(b"[")
        if self.peek() == b"]":
            self._at += 1
            return
        while True:
            if self.peek() != b"[":
                raise self.bad("an array expected" if self.peek() else "ends early")
            last = _LAST.search(self._data, self._at)
            if last is not None:
                piece = self._data[self._at : last.start() + 1]
                self._at = last.end()
                yield piece
                return
            cut = self._data.rfind(b"],", self._at)
            if cut >= 0:
                piece = self._data[self._at : cut + 1]
                self._at = cut + 2
                yield piece
                continue
            if len(self._data) - self._at > MOST:
                raise self.bad(f"a value of more than {MOST} bytes")
            if not self._more():
                raise self.bad("ends early")
