"""The records of JSON of any size and shape, one at a time: small values are taken whole, large ones are gone into.

    {"status":"success","data":{"result":[{"stream":{"host":"n1"},"values":[["1772366400000000000","line"], ...]}]}}

An answer of a log store is one value with thousands of records somewhere within. A value that is longer than a record
may be, that is an array, or that holds arrays of the kinds that stores use, is not parsed but walked: its own members
and elements are looked at in the same way. What comes out are leaves: the bytes of an object (or of a ``[time, line]``
pair), where they start, and the small members of the objects around it. A table (rows without names below the names of
its columns) gives its rows; one that is told column by column is a leaf as a whole. Parts in which no signature stands
are passed over unparsed. No more than one leaf and one piece of the stream are held; depth is bounded.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
import orjson

from aftershock.parsers.documents.json_tables import holds_columns, is_row_of_table, names_columns
from aftershock.parsers.formats import Refused
from aftershock.parsers.scan import Scanner

# The longest leaf; as the longest line.
MAX_LEAF: Final = 1 << 20
# Levels of arrays and objects around a record. Stores have up to six.
_DEEPEST: Final = 16
_PIECE: Final = 1 << 20
# The longest text that a signature matches, for those that lie over the edge of two pieces.
_OVERLAP: Final = 512
# What is kept of the members around a leaf: facts, not texts.
_FACT_BYTES: Final = 4 << 10
_MOST_FACTS: Final = 64
_MOST_FLAWS: Final = 20
# Levels of brackets of which the ends are looked up at once; deeper ones are counted one by one.
_LOOKED_UP: Final = 6
_OPEN: Final = -1  # no end in this piece

# Arrays in which stores put their records.
_HOLDS_RECORDS: Final = re.compile(
    rb'"(?:values|streams|result|results|hits|events|logEvents|entries|records|data|rows'
    rb'|resourceLogs|scopeLogs|logRecords|dmesg)"\s*:\s*\['
)
# Arrays that are records themselves: a pair of time and line, a row of named fields.
_IS_PAIR: Final = re.compile(
    rb'\[\s*(?:"\d{10,20}"|\d{9,19}(?:\.\d+)?|\[\s*\d{9,19}(?:\.\d+)?\s*,\s*\{[^{}]*\}\s*\])\s*,'
)
_IS_ROW: Final = re.compile(rb'\[\s*\{\s*"(?:field|value)"\s*:')

_SPACE: Final = re.compile(rb"[\s,\x1e]*")
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]"]', re.DOTALL)

_MARK: Final = re.compile(rb'[{}\[\]"]')
_BODY: Final = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_SCALAR: Final = re.compile(rb"[^\s,\]}\x1e]*")
_ESCAPE: Final = re.compile(rb"\\.", re.DOTALL)
_BRACKETS: Final = np.isin(np.arange(256), [ord(c) for c in "{}[]"])


class Leaf(NamedTuple):
    """A record: where it starts, its bytes, and the members of the objects around it, the nearest first."""

    offset: int
    data: bytes
    around: tuple[dict[str, Any], ...]


class _BrokenError(Exception):
    """What stands there is not JSON."""


def leaves_of(stream: BinaryIO, scanner: Scanner | None) -> Iterator[Leaf | Refused]:
    """The leaves of all values of a stream in which a signature of ``scanner`` stands (all leaves without one)."""
    text = _Text(stream, scanner)
    flaws = 0
    while text.next_byte():
        began = text.at
        try:
            if text.next_byte() in (b"{", b"["):
                yield from _walk(text, (), 0)
            else:
                text.skip_line()
        except _BrokenError as flaw:
            flaws += 1
            if flaws <= _MOST_FLAWS:
                yield Refused(began, text.at - began, f"JSON breaks off: {flaw}", text.excerpt())
            text.skip_line()


class _Text:
    """A stream seen from one place in it, which only goes forward, and the places of signatures ahead."""

    def __init__(self, stream: BinaryIO, scanner: Scanner | None) -> None:
        self._stream = stream
        self._scanner = scanner
        self._data = b""
        self._base = 0
        self._ended = False
        self._hits: list[int] = []
        self._ends: dict[int, int] = {}
        self.at = 0

    def next_byte(self) -> bytes:
        """The next byte that is neither blank nor comma; nothing at the end."""
        while True:
            found = _SPACE.match(self._data, self.at - self._base)
            assert found is not None
            self.at = self._base + found.end()
            if found.end() < len(self._data):
                return self._data[found.end() : found.end() + 1]
            if not self._fill():
                return b""

    def end_of_value(self) -> int | None:
        """Offset behind the value that begins here; None if it is longer than a leaf or the stream ends in it."""
        while True:
            here = self.at - self._base
            if self._data[here : here + 1] not in (b"{", b"["):
                return self._end(self.at)
            end = self._ends.get(here)
            if end is None:
                return self._end(self.at)
            if end != _OPEN:
                return self._base + end if end - here <= MAX_LEAF else None
            if len(self._data) - here > MAX_LEAF or not self._fill():
                return None

    def skip_value(self) -> None:
        """Go behind the value that begins here, however long. No more than a piece of it is held."""
        depth = 0
        while True:
            here = self.at - self._base
            if depth == 0 and self._data[here : here + 1] not in (b"{", b"["):
                if self._data[here : here + 1] == b'"':
                    self._skip_string()
                else:
                    self.at = self._end_of_scalar()
                return
            token = _MARK.search(self._data, here)
            if token is None:
                self.at = self._base + len(self._data)
                if not self._fill(look=False):
                    return
                continue
            self.at = self._base + token.start()
            if token.group() == b'"':
                self._skip_string()
                continue
            self.at += 1
            depth += 1 if token.group() in (b"{", b"[") else -1
            if depth <= 0:
                return

    def _skip_string(self) -> None:
        """Go behind the string that begins here."""
        self.at += 1
        while True:
            found = _BODY.match(self._data, self.at - self._base)
            end = len(self._data) if found is None else found.end()
            self.at = self._base + end
            if self._data[end : end + 1] == b'"':
                self.at += 1
                return
            if not self._fill(look=False):
                self.at = self._base + len(self._data)
                return

    def _end_of_scalar(self) -> int:
        while True:
            found = _SCALAR.match(self._data, self.at - self._base)
            end = len(self._data) if found is None else found.end()
            if end < len(self._data) or not self._fill():
                return self._base + end

    def take(self, end: int) -> bytes:
        """The bytes up to an offset; the place goes there."""
        data = self._data[self.at - self._base : end - self._base]
        self.at = end
        return data

    def peek(self, end: int) -> bytes:
        """The bytes up to an offset."""
        return self._data[self.at - self._base : end - self._base]

    def has_hit(self, end: int) -> bool:
        """Whether a signature ends between here and an offset."""
        if self._scanner is None:
            return True
        at = bisect.bisect_right(self._hits, self.at)
        return at < len(self._hits) and self._hits[at] <= end

    def is_text_with_hit(self) -> bool:
        """Whether a signature stands in the text that begins here."""
        end = self.end_of_value()
        return self._scanner is not None and end is not None and self.has_hit(end)

    def skip_line(self) -> None:
        """Go to the next line: after a flaw, where quotes and brackets cannot be counted on."""
        self._ends = {}
        while True:
            end = self._data.find(b"\n", self.at - self._base)
            if end >= 0:
                self.at = self._base + end + 1
                return
            self.at = self._base + len(self._data)
            if not self._fill():
                return

    def excerpt(self) -> bytes:
        """The next bytes, for a reject."""
        return self._data[self.at - self._base : self.at - self._base + 512]

    def _end(self, begin: int) -> int | None:
        """The same, counted bracket by bracket."""
        depth = 0
        at = begin
        while True:
            here = at - self._base
            if depth == 0 and self._data[here : here + 1] not in (b"{", b"[", b'"'):
                return self._end_of_scalar()
            token = _TOKEN.search(self._data, here)
            if token is None or token.group() == b'"':
                # Nothing more in this piece, or a string that goes on behind it.
                at = self._base + (len(self._data) if token is None else token.start())
                if self._base + len(self._data) - begin > MAX_LEAF or not self._fill():
                    return None
                continue
            mark = token.group()
            at = self._base + token.end()
            if at - begin > MAX_LEAF:
                return None
            if mark in (b"{", b"["):
                depth += 1
            elif mark in (b"}", b"]"):
                depth -= 1
            if depth <= 0:
                return at

    def _fill(self, *, look: bool = True) -> bool:
        """Read another piece; forget what lies before the place. Whether there was more."""
        if self._ended:
            return False
        piece = self._stream.read(_PIECE)
        if not piece:
            self._ended = True
            return False
        kept = self._data[self.at - self._base :]
        if self._scanner is not None:
            tail = self._data[-_OVERLAP:]
            origin = self._base + len(self._data) - len(tail)
            del self._hits[: bisect.bisect_right(self._hits, self.at)]
            new = {origin + end for end, _ in self._scanner.hits(tail + piece)}
            self._hits = sorted(new.union(self._hits))
        self._base = self.at
        self._data = kept + piece
        self._ends = _ends_in(self._data) if look else {}
        return True


def _ends_in(data: bytes) -> dict[int, int]:
    """Where each bracket of the upper levels is closed (the place behind), counted over the whole piece at once.

    The piece begins outside of strings. An open bracket that is not closed in it has the value ``_OPEN``.
    """
    array = np.frombuffer(_ESCAPE.sub(b"__", data) if b"\\" in data else data, dtype=np.uint8)
    quotes = np.flatnonzero(array == ord('"'))
    places = np.flatnonzero(_BRACKETS[array])
    places = places[np.searchsorted(quotes, places) % 2 == 0]
    opens = (array[places] | 0x20) == ord("{")  # the two opening brackets differ in this bit alone
    depth = np.cumsum(np.where(opens, 1, -1))
    level = np.where(opens, depth, depth + 1)
    order = np.argsort(level, kind="stable")
    here, there = order[:-1], order[1:]
    paired = (level[here] == level[there]) & opens[here] & ~opens[there]
    ends = np.full(len(places), _OPEN, dtype=np.int64)
    ends[here[paired]] = places[there[paired]] + 1
    wanted = opens & (level <= _LOOKED_UP)
    return dict(zip(places[wanted].tolist(), ends[wanted].tolist(), strict=True))


def _walk(text: _Text, around: tuple[dict[str, Any], ...], depth: int) -> Iterator[Leaf | Refused]:
    """The leaves of the container that begins here."""
    begin = text.at
    end = text.end_of_value()
    if end is not None:
        if not text.has_hit(end):
            text.at = end
            return
        data = text.peek(end)
        is_object = data.startswith(b"{")
        is_one = is_object and (holds_columns(data) or not _HOLDS_RECORDS.search(data))
        if is_one or _IS_PAIR.match(data) or _IS_ROW.match(data) or (not is_object and is_row_of_table(data, around)):
            text.at = end
            yield Leaf(begin, data, around)
            return
    if depth >= _DEEPEST:
        text.skip_value()
        yield Refused(begin, text.at - begin, f"JSON is nested deeper than {_DEEPEST} around a record")
        return
    if text.next_byte() == b"{":
        yield from _walk_object(text, around, depth)
    else:
        yield from _walk_array(text, around, depth)


def _walk_array(text: _Text, around: tuple[dict[str, Any], ...], depth: int) -> Iterator[Leaf | Refused]:
    text.at += 1
    told = False
    while True:
        first = text.next_byte()
        if first in (b"{", b"["):
            yield from _walk(text, around, depth + 1)
        elif first == b'"' and not told and text.is_text_with_hit():
            told = True
            yield Refused(text.at, 0, "log lines in an array without names", text.excerpt())
            text.skip_value()
        elif first == b"]":
            text.at += 1
            return
        elif first in (b"", b"}"):
            raise _BrokenError("an array without end")
        else:
            text.skip_value()


def _walk_object(text: _Text, around: tuple[dict[str, Any], ...], depth: int) -> Iterator[Leaf | Refused]:
    begin = text.at
    text.at += 1
    facts: dict[bytes, bytes] = {}  # name in quotes: value, small ones
    is_record = False
    while True:
        first = text.next_byte()
        if first == b"}":
            text.at += 1
            break
        if first != b'"':
            raise _BrokenError("an object without end")
        end = text.end_of_value()
        if end is None:
            raise _BrokenError("a name without end")
        name = text.take(end)
        if text.next_byte() != b":":
            raise _BrokenError("a member without a value")
        text.at += 1
        first = text.next_byte()
        end = text.end_of_value()
        is_small = end is not None and end - text.at <= _FACT_BYTES
        if is_small and end is not None and names_columns(name, text.peek(end)):
            facts[name] = text.take(end)
        elif first in (b"{", b"[") and (end is None or text.has_hit(end) or (end - text.at) > _FACT_BYTES):
            yield from _walk(text, (_members(facts), *around), depth + 1)
        elif end is None:
            refused = Refused(text.at, 0, f"value longer than {MAX_LEAF} bytes", text.excerpt())
            text.skip_value()
            yield refused._replace(length=text.at - refused.offset)
        else:
            is_record |= text.has_hit(end)
            data = text.take(end)
            if len(facts) < _MOST_FACTS and (len(data) <= _FACT_BYTES or is_record):
                facts[name] = data
    if is_record:
        yield Leaf(begin, b"{" + b",".join(name + b":" + value for name, value in facts.items()) + b"}", around)


def _members(facts: dict[bytes, bytes]) -> dict[str, Any]:
    """The members as far as they can be read."""
    read = ((_read(name), _read(value)) for name, value in facts.items())
    return {name: value for name, value in read if isinstance(name, str)}


def _read(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
