"""The rows of Arrow IPC: the file format (``.arrow``, Feather version 2) and the stream format.

Documented at https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc. A
file is eight bytes, a stream, and a footer that is not needed to read it in order. It is laid down in an unnamed file
and mapped, so that what is not packed takes no memory; what packed columns claim to hold is looked at before they are
unpacked.
"""

from __future__ import annotations

import mmap
import struct
import tempfile
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import pyarrow as pa

from aftershock.parsers.documents.parquet_records import (
    DAMAGE,
    FREE_ROWS,
    MAX_FILE,
    MAX_GROUP,
    Choose,
    Unfit,
    chosen_columns,
    damage,
    lay_down,
    typed_rows,
)
from aftershock.parsers.formats import Refused

ARROW_MAGIC: Final = b"ARROW1"
# What a message of a stream begins with.
_CONTINUES: Final = b"\xff\xff\xff\xff"
# The magic and what fills it up to eight bytes.
_BEFORE_STREAM: Final = 8

_DICTIONARY, _ROWS = 2, 3  # kinds of messages


def arrow_names(head: bytes) -> list[str] | None:
    """The columns of a file or stream by its first bytes; None for something else, and where these are too few."""
    stream = _stream_in(pa.py_buffer(head))
    if stream is None:
        return None
    try:
        return list(pa.ipc.read_schema(stream).names)
    except DAMAGE:
        return None


def is_arrow(head: bytes) -> bool:
    """Whether first bytes are those of a file, or of a stream whose columns they name."""
    return head.startswith(ARROW_MAGIC) or arrow_names(head) is not None


def arrow_rows(stream: BinaryIO, choose: Choose, tool: str) -> Iterator[tuple[int, dict[str, Any]] | Refused]:
    """(number of the row from 0, its values by the names of the columns). Times are as those of Parquet."""
    with tempfile.TemporaryFile() as file:
        size = lay_down(stream, file)
        if size > MAX_FILE:
            yield Refused(0, 0, f"{tool}: a file of more than {MAX_FILE} bytes")
            return
        try:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except DAMAGE as error:
            yield damage(error, 0, tool)
            return
        yield from typed_rows(_batches(pa.py_buffer(mapped), choose), tool)


def _stream_in(data: pa.Buffer) -> pa.Buffer | None:
    start = data.slice(0, min(_BEFORE_STREAM, data.size)).to_pybytes()
    if start.startswith(ARROW_MAGIC):
        return data.slice(min(_BEFORE_STREAM, data.size))
    return data if start.startswith(_CONTINUES) else None


def _batches(data: pa.Buffer, choose: Choose) -> Iterator[pa.RecordBatch]:
    stream = _stream_in(data)
    if stream is None:
        raise Unfit("neither a file nor a stream of Arrow")
    schema = pa.ipc.read_schema(stream)
    chosen = chosen_columns(schema, choose)
    _check_claims(stream)
    fields = [schema.names.index(name) for name in chosen]
    reader = pa.ipc.open_stream(stream, options=pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False))
    for batch in reader:
        batch.validate(full=True)  # nothing of it was looked at so far, and what is looked at is trusted
        yield batch


def _check_claims(stream: pa.Buffer) -> None:
    """Refuse what would take more memory than a sound file of its size may."""
    rows = 0
    for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(stream)):
        claim = _claim(message)
        if claim is None:
            continue
        rows += claim[0]
        if claim[1] > MAX_GROUP:
            raise Unfit(f"a batch of more than {MAX_GROUP} bytes: write the file with smaller ones")
        if rows > max(FREE_ROWS, stream.size):
            raise Unfit(f"{rows} rows in {stream.size} bytes: looks like a bomb")


def _claim(message: Any) -> tuple[int, int] | None:
    """How many rows a message says that it has, and how many bytes it says that they take once they are unpacked.

    The head of a message is a table of FlatBuffers (``Message.fbs``): a packed buffer begins with its full size.
    """
    head = message.metadata.to_pybytes()
    root = _unsigned(head, 0)
    kind_at, header_at = _field(head, root, 1), _field(head, root, 2)
    kind = head[kind_at] if kind_at else 0
    if kind not in (_DICTIONARY, _ROWS) or not header_at:
        return None
    table = header_at + _unsigned(head, header_at)
    if kind == _DICTIONARY:
        data_at = _field(head, table, 1)
        if not data_at:
            return None
        table = data_at + _unsigned(head, data_at)
    length_at, buffers_at = _field(head, table, 0), _field(head, table, 2)
    rows = _signed(head, length_at) if length_at else 0
    if not buffers_at or message.body is None:
        return max(0, rows), 0
    packed = bool(_field(head, table, 3))
    vector = buffers_at + _unsigned(head, buffers_at)
    size = 0
    for number in range(_unsigned(head, vector)):
        offset, length = struct.unpack_from("<qq", head, vector + 4 + 16 * number)
        if packed and length >= 8:
            length = max(length, _signed(message.body.slice(offset, 8).to_pybytes(), 0))
        size += max(0, length)
    return max(0, rows), size


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a table stands, 0 if it is not there."""
    layout = table - struct.unpack_from("<i", data, table)[0]
    place = 4 + 2 * number
    if place + 2 > struct.unpack_from("<H", data, layout)[0]:
        return 0
    offset: int = struct.unpack_from("<H", data, layout + place)[0]
    return table + offset if offset else 0


def _unsigned(data: bytes, at: int) -> int:
    number: int = struct.unpack_from("<I", data, at)[0]
    return number


def _signed(data: bytes, at: int) -> int:
    number: int = struct.unpack_from("<q", data, at)[0]
    return number
