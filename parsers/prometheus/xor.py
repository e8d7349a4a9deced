"""Chunks of floats (Gorilla XOR, encoding 1 of Prometheus), many at once.

    uint16 samples | varint t0 | float64 v0 | uvarint t1 - t0 | xor v1 | dod t2 | xor v2 | ...       (bits, high first)

``dod`` is the difference between two distances in time: ``0`` for none, else ``10``, ``110``, ``1110`` or ``1111`` and
14, 17, 20 or 64 bits; above half of its range it is negative. ``xor`` is a value against the one before it: ``0`` for
none, ``10`` and as many bits as the last time, or ``11``, leading zeros (5 bits), number of bits (6, 0 means 64), bits.
https://github.com/prometheus/prometheus/blob/main/tsdb/docs/format/chunks.md, tsdb/chunkenc/xor.go.

Where a sample begins is known only when the one before it was read, so a chunk is read in order; but sample i of all
chunks is read in one step of numpy. Blocks, streams of remote read and Parquet files hold the same chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aftershock.parsers.prometheus.ragged import begins_of, positions

Ints: TypeAlias = NDArray[np.int64]
Words: TypeAlias = NDArray[np.uint64]

# Bytes around the chunks, so that no look back or ahead leaves the buffer.
_BEFORE: Final = 8
_BEHIND: Final = 64
_HEADER: Final = 2
_LONGEST_VARINT: Final = 10
# The first sample takes 9 bytes or more, the second 2 bits and a byte, all others 2 bits or more.
_SAMPLES_PER_BYTE: Final = 4

# What the first four bits of a sample say about its time: bits before the number, bits of the number.
_DOD_PREFIX: Final = np.array([1] * 8 + [2] * 4 + [3] * 2 + [4] * 2, dtype=np.uint64)
_DOD_BITS: Final = np.array([0] * 8 + [14] * 4 + [17] * 2 + [20, 64], dtype=np.uint64)

_U: Final = np.uint64
_TOP: Final = _U(1 << 63)
_SECOND: Final = _U(1 << 62)
_TOP_TWO: Final = _U(3 << 62)


@dataclass(frozen=True)
class Decoded:
    """Samples of chunks, chunk after chunk.

    begins: where the samples of each chunk begin, and behind them the end: one more than there are chunks.
    damaged: chunks whose bits end before their samples do, or make no sense; no sample of them is here.
    """

    times: Ints
    values: NDArray[np.float64]
    begins: Ints
    damaged: NDArray[np.bool_]


def decode_chunks(chunks: Sequence[bytes]) -> Decoded:
    """The samples of chunks, each from its count of samples on."""
    sizes = np.fromiter(map(len, chunks), np.int64, len(chunks))
    stops = np.cumsum(sizes)
    return decode_xor(b"".join(chunks), stops - sizes, stops)


def decode_xor(buffer: bytes | bytearray | memoryview, starts: Ints, stops: Ints) -> Decoded:
    """The samples of chunks that lie at [start, stop) of a buffer, each from its count of samples on."""
    data = np.zeros(_BEFORE + len(buffer) + _BEHIND, np.uint8)
    data[_BEFORE : _BEFORE + len(buffer)] = np.frombuffer(buffer, np.uint8)
    sizes = stops - starts
    at = starts + _BEFORE
    counts = data[at].astype(np.int64) << 8 | data[at + 1]
    counts[sizes < _HEADER] = 0
    damaged = (counts > _SAMPLES_PER_BYTE * sizes) | (sizes < _HEADER)
    damaged |= (counts > 0) & (sizes < _HEADER + 9)
    counts[damaged] = 0
    # 64 bits from every second byte on: a sample that begins anywhere has 49 bits in one of them.
    words = np.ndarray(((len(data) - 8) // 2 + 1,), ">u8", data, strides=(2,)).astype(np.uint64)

    begins = begins_of(counts)
    times = np.empty(begins[-1], np.int64)
    values = np.empty(begins[-1], np.float64)
    # The longest first: those that still have samples are the first of their group at every step.
    order = np.argsort(-counts, kind="stable")
    order = order[: np.count_nonzero(counts)]
    while len(order):
        size = max(int(np.count_nonzero(2 * counts[order] >= counts[order[0]])), 1)
        group, order = order[:size], order[size:]
        bits = _Bits(data, words, starts[group] + _BEFORE, stops[group] + _BEFORE)
        got_times, got_values, bad = _read_group(bits, counts[group])
        damaged[group[bad]] = True
        _put(got_times, times, begins[group], counts[group])
        _put(got_values.view(np.float64), values, begins[group], counts[group])
    if damaged.any():
        times, values, begins = _without(damaged, times, values, begins)
    return Decoded(times, values, begins, damaged)


def _put(rows: NDArray[np.generic], into: NDArray[np.generic], begins: Ints, counts: Ints) -> None:
    """Sample i of all chunks (a row) to all samples of chunk after chunk."""
    shortest = int(counts[-1])
    columns = rows.T
    if shortest == counts[0]:
        runs = begins[0] + shortest * np.arange(len(begins))
        if np.array_equal(begins, runs):
            into[begins[0] : begins[0] + len(begins) * shortest].reshape(len(begins), shortest)[:] = columns
            return
    present = np.arange(len(rows)) < counts[:, None]
    into[positions(begins, counts)] = columns[present]


def _without(
    damaged: NDArray[np.bool_], times: Ints, values: NDArray[np.float64], begins: Ints
) -> tuple[Ints, NDArray[np.float64], Ints]:
    """The same without the samples of damaged chunks."""
    counts = np.diff(begins)
    kept = np.repeat(~damaged, counts)
    left = np.where(damaged, 0, counts)
    return times[kept], values[kept], begins_of(left)


class _Bits:
    """Where each chunk of a group is read: positions in bits, and what stands there."""

    def __init__(self, data: NDArray[np.uint8], words: Words, starts: Ints, stops: Ints) -> None:
        self._data = data
        self._words = words
        self.at: Words = ((starts + _HEADER) * 8).astype(np.uint64)
        self.stop: Words = (stops * 8).astype(np.uint64)

    def ahead(self, at: Words) -> Words:
        """The next bits at each position: the upper 49 are right, the rest may be missing."""
        found: Words = self._words.take((at >> _U(4)).view(np.int64), mode="clip")
        found <<= at & _U(15)
        return found

    def before(self, end: Words, sizes: Words) -> Words:
        """The bits (up to 64) that end at each position, as the lowest bits of a word; above them anything."""
        index = (end - _U(49)) >> _U(4)
        spare = (index << _U(4)) + _U(64) - end
        found: Words = self._words.take(index.view(np.int64), mode="clip")
        found >>= spare
        wide = np.flatnonzero(sizes > _U(49))
        if len(wide):
            more = self._words.take(index[wide].view(np.int64) - 4, mode="clip")
            # A shift by 64 gives 0.
            found[wide] |= np.left_shift(more, _U(64) - spare[wide])
        return found

    def varint(self, rows: Ints) -> Words:
        """The varint (of whole bytes) at the positions of some chunks, which are passed over."""
        value = np.zeros(len(rows), np.uint64)
        place = (self.at[rows] >> _U(3)).view(np.int64)
        open_ = np.arange(len(rows))
        for k in range(_LONGEST_VARINT):
            byte = self._data.take(place[open_], mode="clip")
            value[open_] |= (byte & 0x7F).astype(np.uint64) << _U(7 * k)
            place[open_] += 1
            open_ = open_[byte >= 0x80]
            if not len(open_):
                break
        self.at[rows] = place.view(np.uint64) << _U(3)
        return value


def _read_group(bits: _Bits, counts: Ints) -> tuple[Ints, Words, NDArray[np.bool_]]:
    """Times and bits of values, a row for sample i of all chunks; and which chunks are damaged.

    ``counts`` falls: the chunks that have a sample i are the first ones.
    """
    most, number = int(counts[0]), len(counts)
    active = np.searchsorted(-counts, -np.arange(most), side="left")
    times = np.empty((most, number), np.int64)
    values = np.empty((most, number), np.uint64)
    window = _Window(number)

    first = bits.varint(np.arange(number))
    times[0] = (first >> _U(1)).view(np.int64) ^ -(first & _U(1)).view(np.int64)
    bits.at += _U(64)
    values[0] = bits.before(bits.at, np.full(number, 64, np.uint64))
    delta = np.zeros(number, np.int64)
    if most > 1:
        rows = np.arange(active[1])
        delta[rows] = bits.varint(rows).view(np.int64)
        np.add(times[0, : rows.size], delta[: rows.size], out=times[1, : rows.size])
        values[1, : rows.size] = values[0, : rows.size]
        window.read(bits, rows, bits.at[rows], bits.ahead(bits.at[rows]), values[1])
    for i in range(2, most):
        size = int(active[i])
        at = bits.at[:size]
        ahead = bits.ahead(at)
        at += _U(2)
        busy = np.flatnonzero(ahead >= _SECOND)
        values[i, :size] = values[i - 1, :size]
        if len(busy):
            _read_busy(bits, busy, ahead.take(busy), delta, values[i], window)
        np.add(times[i - 1, :size], delta[:size], out=times[i, :size])
    return times, values, window.broken | (bits.at > bits.stop)


def _read_busy(bits: _Bits, busy: Ints, ahead: Words, delta: Ints, values: Words, window: _Window) -> None:
    """A sample of the chunks in which the distance in time changed, or the value; 2 bits of it are passed over."""
    at = bits.at.take(busy) - _U(1)
    moved = np.flatnonzero(ahead >= _TOP)
    kind = (ahead[moved] >> _U(60)).view(np.int64)
    ahead <<= _U(1)
    if len(moved):
        size = _DOD_BITS.take(kind)
        end = at[moved] - _U(1) + _DOD_PREFIX.take(kind) + size
        shift = _U(64) - size
        # Up to the top and back, with the sign: as in the source, exactly half of the range is positive.
        number = np.left_shift(bits.before(end, size), shift) >> shift
        half = np.left_shift(_U(1), size - _U(1))
        wraps = (number > half) & (size < _U(64))
        number -= np.where(wraps, half << _U(1), _U(0))
        delta[busy[moved]] += number.view(np.int64)
        at[moved] = end
        ahead[moved] = bits.ahead(end)
    window.read(bits, busy, at, ahead, values)


class _Window:
    """Of each chunk: how many leading zeros its last changed value had, and how many bits."""

    def __init__(self, number: int) -> None:
        self._leading = np.zeros(number, np.uint64)
        self._size = np.full(number, 64, np.uint64)
        self.broken = np.zeros(number, np.bool_)

    def read(self, bits: _Bits, rows: Ints, at: Words, ahead: Words, values: Words) -> None:
        """Change the values of some chunks by the bits at each position, of which the next are known."""
        changed = np.flatnonzero(ahead >= _TOP)
        if len(changed) == len(rows):
            chosen, place = rows, at + _U(2)
        else:
            chosen, place, ahead = rows.take(changed), at.take(changed) + _U(2), ahead.take(changed)
        new = np.flatnonzero(ahead >= _TOP_TWO)
        if len(new):
            header = ahead[new]
            leading = header >> _U(57) & _U(31)
            size = header >> _U(51) & _U(63)
            size[size == 0] = 64
            self._leading[chosen[new]] = leading
            self._size[chosen[new]] = size
            wrong = leading + size > _U(64)
            if wrong.any():
                self.broken[chosen[new[wrong]]] = True
            place[new] += _U(11)
        size = self._size.take(chosen)
        place += size
        found = bits.before(place, size)
        found <<= _U(64) - size
        found >>= self._leading.take(chosen)
        values[chosen] ^= found
        if len(changed) == len(rows):
            bits.at[rows] = place
        else:
            at += _U(1)
            at[changed] = place
            bits.at[rows] = at
