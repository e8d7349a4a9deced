"""The records of a stream that may be large, read the short way where its layout allows that.

Exports and watches have one object a line, and ``kubectl get -o json`` indents by four, so that the objects of a list
begin and end with lines of their own. Both are cut at those lines, which JSON cannot hide in a string, and each piece
has to be an object; from where that fails, the scan of :mod:`aftershock.parsers.documents.json_records` goes on. It
finds the same records in any layout, at a tenth of the speed.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple, cast

import orjson

from aftershock.parsers.documents.json_elements import EXCERPT, MAX_ELEMENT
from aftershock.parsers.documents.json_records import load_record, records_of
from aftershock.parsers.documents.kubernetes.objects import JsonObject
from aftershock.parsers.formats import Refused

_CHUNK: Final = 1 << 20
_LISTS: Final = ("items",)
_INDENTED: Final = re.compile(rb'\s*\{\n {4}"apiVersion": "[^"\n\\]{0,80}",\n {4}"items": \[\n {8}(?=\{\n)')
_BEGIN: Final = b",\n        {\n"
_END: Final = b"\n        }"
_LIST: Final = b'{"items":['


class Record(NamedTuple):
    """An object, and where it starts in the document."""

    offset: int
    data: JsonObject


def objects_of(stream: BinaryIO) -> Iterator[Record | Refused]:
    """The records of a document, in order: one a line, in the items of lists, or one after the other."""
    offset = 0
    waiting = b""  # a line that is no object: it was torn off, or begins a document of several lines
    while line := stream.readline(MAX_ELEMENT):
        record = _object(line)
        if record is None and waiting:
            break
        if waiting:
            yield from _any_layout(io.BytesIO(waiting), offset - len(waiting))
            waiting = b""
        if record is None:
            waiting = line if line.strip() else b""
        elif isinstance(record.get("items"), list):
            yield from _any_layout(io.BytesIO(line), offset)
        else:
            yield Record(offset + line.index(b"{"), record)
        offset += len(line)
    if waiting:
        yield from _document(stream, waiting + line, offset - len(waiting))


def _object(line: bytes) -> JsonObject | None:
    if not line.rstrip().endswith(b"}"):
        return None
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return record if isinstance(record, dict) else None


def _document(stream: BinaryIO, begun: bytes, offset: int) -> Iterator[Record | Refused]:
    """What begins with these bytes and goes on in the stream: the items of an indented list, and what comes then."""
    begun += stream.read(_CHUNK)
    listed = _INDENTED.match(begun)
    at = listed.end() if listed else 0
    while listed:
        end = begun.find(_END, at)
        if end < 0 or len(begun) < end + len(_END) + len(_BEGIN):
            more = stream.read(_CHUNK) if len(begun) - at < MAX_ELEMENT else b""
            if not more:
                break
            begun, offset, at = begun[at:] + more, offset + at, 0
            continue
        stop = end + len(_END)
        record = _object(begun[at:stop])
        if record is None:
            break
        yield Record(offset + at, record)
        follows = begun.startswith(_BEGIN, stop)
        at = stop + len(_BEGIN) - 2 if follows else stop
        if not follows:
            break
    if listed:  # the rest stands inside a list, and is read as the rest of one: an item may itself have `items`
        at += begun.startswith(b",", at)
        begun, offset, at = _LIST + begun[at:], offset + at - len(_LIST), 0
    yield from _any_layout(with_begin(begun[at:], stream), offset + at)


def _any_layout(stream: BinaryIO, offset: int) -> Iterator[Record | Refused]:
    for element in records_of(stream, _LISTS):
        if isinstance(element, Refused):
            yield element._replace(offset=element.offset + offset)
            continue
        record = load_record(element)
        if record is None:
            yield Refused(element.offset + offset, len(element.data), "not JSON", element.data[:EXCERPT])
        else:
            yield Record(element.offset + offset, record)


def with_begin(begun: bytes, stream: BinaryIO) -> BinaryIO:
    """A stream of which the beginning has been read already, as a whole again."""
    return cast(BinaryIO, io.BufferedReader(_Rest(begun, stream), _CHUNK))


class _Rest(io.RawIOBase):
    def __init__(self, begun: bytes, stream: BinaryIO) -> None:
        self._begun = io.BytesIO(begun)
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._begun.read(len(buffer)) or self._stream.read(len(buffer)) or b""
        buffer[: len(data)] = data
        return len(data)
