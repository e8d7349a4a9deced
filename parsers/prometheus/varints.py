"""Varints of Go's encoding/binary: one after the other in Python, or all of a buffer at once."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

LONGEST: Final = 10
_MASK: Final = (1 << 64) - 1


def read_uvarint(data: bytes | memoryview, at: int) -> tuple[int, int] | None:
    """An unsigned varint and the place behind it; None where the data ends before it, or it does not end."""
    value = shift = 0
    for byte in data[at : at + LONGEST]:
        value |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if byte < 0x80:
            return value & _MASK, at
    return None


def zigzag(value: int) -> int:
    """The signed number that an unsigned varint stands for."""
    return value >> 1 ^ -(value & 1)


def all_uvarints(data: NDArray[np.uint8]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """All varints of a buffer that holds nothing else, and the place behind each."""
    ends = np.flatnonzero(data < 0x80)
    begins = np.concatenate((np.zeros(1, np.int64), ends[:-1] + 1)) if len(ends) else ends
    sizes = ends - begins
    values = (data[begins] & 0x7F).astype(np.uint64)
    longer = np.flatnonzero(sizes)
    for k in range(1, LONGEST):
        if not len(longer):
            break
        values[longer] |= (data[begins[longer] + k] & 0x7F).astype(np.uint64) << np.uint64(7 * k)
        longer = longer[sizes[longer] > k]
    return values, ends + 1


def all_zigzags(values: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The signed numbers that unsigned varints stand for."""
    one = np.uint64(1)
    signed: NDArray[np.int64] = (values >> one).view(np.int64) ^ -(values & one).view(np.int64)
    return signed
