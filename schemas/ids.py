"""Short ids that are the same in every process, on every machine and with every version of Python."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

# 64 bits: among a million ids of one kind the chance that any two are equal is about 3 in 100 million.
_DIGEST_BYTES = 8


def stable_id(prefix: str, *parts: object) -> str:
    """``prefix-`` and 16 hexadecimal digits made from the parts, their kinds and the borders between them.

    Parts are None, bool, int, float, str, bytes, or lists and tuples of these. The prefix counts too: the
    same parts under two prefixes have different digits.

    >>> stable_id("session", "solar", "4001", 1772366400)
    'session-81f9d156836068d5'
    >>> stable_id("x", "a", "bc") == stable_id("x", "ab", "c")
    False

    Raises:
        TypeError: a part of another type, whose text need not be the same tomorrow.
    """
    encoded = b"".join([_encode(prefix), *map(_encode, parts)])
    return f"{prefix}-{hashlib.blake2b(encoded, digest_size=_DIGEST_BYTES).hexdigest()}"


def _encode(part: Any) -> bytes:
    """Kind, length and content: no two different sequences of parts give the same bytes."""
    # The common kinds first, by their exact type: ids are made for every row.
    kind = type(part)
    if kind is str:
        # Lone surrogates stand for bytes of the input that are no UTF-8; they must not be an error here.
        content = part.encode("utf-8", "surrogatepass")
        return b"s%d:%b" % (len(content), content)
    if part is None:
        return b"n0:"
    if kind is int:
        content = b"%d" % part
        return b"i%d:%b" % (len(content), content)
    return _encode_seldom(part)


def _encode_seldom(part: object) -> bytes:
    if isinstance(part, bool):
        kind, content = b"b", b"1" if part else b"0"
    elif isinstance(part, str):
        return _encode(str(part))
    elif isinstance(part, int):
        return _encode(int(part))
    elif isinstance(part, float):
        kind, content = b"f", float.hex(part).encode("ascii")
    elif isinstance(part, bytes):
        kind, content = b"y", part
    elif isinstance(part, (list, tuple)):
        kind, content = b"l", b"".join(map(_encode, part))
    else:
        raise TypeError(f"cannot make an id from {type(part).__name__}")
    return b"%b%d:%b" % (kind, len(content), content)


def stable_ids(prefix: str, parts: Sequence[pa.Array]) -> pa.Array:
    """The ids of many rows at once, from columns of parts; each column says of what its rows are made.

    A column is of strings or of integers, or one that :func:`encoded_parts` or :func:`joined_parts` made. The ids are
    those that :func:`stable_id` gives for the same parts row by row.
    """
    rows = joined_parts([pa.scalar(_encode(prefix)), *parts])
    digest = hashlib.blake2b
    ids = [f"{prefix}-{digest(row, digest_size=_DIGEST_BYTES).hexdigest()}" for row in rows.to_pylist()]
    return pa.array(ids, pa.string())


def joined_parts(parts: Sequence[pa.Array | pa.Scalar]) -> pa.Array:
    """Parts that follow each other, row by row."""
    return pc.binary_join_element_wise(*map(encoded_parts, parts), b"")


def encoded_parts(column: pa.Array | pa.Scalar) -> pa.Array | pa.Scalar:
    """A column of strings or integers as it enters an id; one of bytes has been made so before."""
    if pa.types.is_binary(column.type):
        return column
    kind, text = (b"i", column.cast(pa.string())) if pa.types.is_integer(column.type) else (b"s", column)
    content = text.cast(pa.binary())
    length = pc.binary_length(content).cast(pa.string()).cast(pa.binary())
    return pc.fill_null(pc.binary_join_element_wise(kind, length, b":", content, b""), b"n0:")
