"""The index of a block (version 2): symbols, and of every series its labels and where its chunks are.

    magic 0xBAAAD700, version | symbols | series, each at a multiple of 16 | postings | table of contents (52 bytes)

A series is: uvarint length | count of labels, (name, value) as numbers of symbols | count of chunks, of each its first
and last time and its place | CRC32C. https://github.com/prometheus/prometheus/blob/main/tsdb/docs/format/index.md.
Postings are not needed: all series are read, in windows, and all numbers of a window at once. What stands before a
damage or a cut is read; behind damage the next series with a sound checksum is looked for.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from aftershock.parsers.formats import Refused
from aftershock.parsers.prometheus.file_ranges import FileRanges
from aftershock.parsers.prometheus.ragged import begins_of, positions, running_sums
from aftershock.parsers.prometheus.varints import all_uvarints, all_zigzags, read_uvarint

Ints = NDArray[np.int64]

# Where a series is in the data at hand: its length, its body, the end of that.
_Place = tuple[int, int, int]

MAGIC: Final = b"\xba\xaa\xd7\x00"
_HEADER: Final = 5
_VERSION: Final = 2
_TOC: Final = struct.Struct(">6QI")
_ALIGN: Final = 16
_SUM: Final = 4
_EXCERPT: Final = 64

# Bytes of series that are taken apart together.
_WINDOW: Final = 4 << 20
# No block has more: what claims it is damage.
_LARGEST_SYMBOLS: Final = 2 << 30
_LONGEST_SERIES: Final = 64 << 20
# Behind damage only short series are believed, and only so many bytes are summed in the search for one.
_LONGEST_AFTER_DAMAGE: Final = 64 << 10
_SEARCH_BYTES: Final = 256 << 20


class IndexDamage(ValueError):
    """An index that nothing can be read from; the text says why."""


@dataclass(frozen=True)
class SeriesWindow:
    """Some series, as numbers.

    refs: what tombstones call a series. labels: (name, value) as numbers of symbols, those of series i at
    [label_begins[i], label_begins[i + 1]). chunks: likewise; first and last time of each, and its place.
    """

    refs: Ints
    label_begins: Ints
    names: Ints
    values: Ints
    chunk_begins: Ints
    first_times: Ints
    last_times: Ints
    places: Ints


@dataclass(frozen=True)
class Index:
    """An opened index: its symbols, and where its series stand."""

    file: FileRanges
    symbols: Sequence[str]
    series_begin: int
    series_end: int
    damage: tuple[Refused, ...]

    def windows(self) -> Iterator[SeriesWindow | Refused]:
        """All series in order, in windows; refusals where some cannot be read."""
        walk = _Walk()
        at, size = self.series_begin, _WINDOW
        while at < self.series_end and not walk.lost:
            data = self.file.read(at, min(size, self.series_end - at))
            ended = len(data) < size
            found, used = walk.through(data, at, ended=ended)
            if found:
                window, senseless = _taken_apart(data, at, found, len(self.symbols))
                yield window
                if senseless:
                    yield Refused(
                        at, used, f"index: {senseless} series that make no sense, between {at} and {at + used}"
                    )
            yield from walk.refused
            walk.refused.clear()
            # A series that is longer than the window: the same place again, with a larger one.
            size = _WINDOW if used else 4 * size
            at += used
            if ended:
                break
        if not self.damage or walk.lost:
            # Without a table of contents, what follows the series looks like damage.
            walk.refuse_until(self.series_end)
            yield from walk.refused


def open_index(file: FileRanges) -> Index:
    """Read symbols and table of contents.

    Raises:
        IndexDamage: it is no index, or one whose symbols cannot be read.
    """
    head = file.read(0, _HEADER)
    if head[:4] != MAGIC:
        raise IndexDamage("is empty" if not head else "does not begin as an index does")
    if head[4:] != bytes((_VERSION,)):
        raise IndexDamage(f"is of version {head[4] if len(head) > 4 else '?'}, not {_VERSION}")
    damage = []
    places = _read_toc(file)
    if places is None:
        reason = "index: the table of contents at its end is cut off or damaged; its series are read as far as they go"
        damage.append(Refused(max(0, file.size - _TOC.size), _TOC.size, reason))
        symbols_at, series_at, series_end = _HEADER, 0, file.size
    else:
        symbols_at, series_at, *others = places
        behind = [place for place in others if place > series_at]
        series_end = min([*behind, file.size - _TOC.size])
    symbols, end = _read_symbols(file, symbols_at)
    if places is None:
        series_at = end
    # The first series stands at a multiple too, behind what fills up to it.
    return Index(file, symbols, -(-series_at // _ALIGN) * _ALIGN, series_end, tuple(damage))


def _read_toc(file: FileRanges) -> tuple[int, ...] | None:
    """Where symbols, series, and all that follows them begin."""
    data = file.read(file.size - _TOC.size, _TOC.size) if file.size >= _TOC.size + _HEADER else b""
    if len(data) < _TOC.size:
        return None
    *places, checksum = _TOC.unpack(data)
    if google_crc32c.value(data[:-_SUM]) != checksum or any(place > file.size for place in places):
        return None
    return tuple(places)


def _read_symbols(file: FileRanges, at: int) -> tuple[list[str], int]:
    head = file.read(at, 8)
    if len(head) < 8:
        raise IndexDamage("ends before its symbols")
    length, number = struct.unpack(">II", head)
    if length > min(_LARGEST_SYMBOLS, file.size) or number > length:
        raise IndexDamage(f"has symbols of {length} bytes, more than it has itself")
    data = file.read(at + 4, length + _SUM)
    if len(data) < length + _SUM:
        raise IndexDamage("ends within its symbols")
    if google_crc32c.value(data[:length]) != int.from_bytes(data[length:], "big"):
        raise IndexDamage(f"has symbols with a wrong checksum at {at}")
    symbols: list[str] = []
    place = 4
    for _ in range(number):
        size = data[place] if place < length else 0
        place += 1
        if size >= 0x80:
            found = read_uvarint(data, place - 1)
            if found is None:
                raise IndexDamage(f"has a symbol without end at {at + 4 + place}")
            size, place = found
        if place + size > length:
            raise IndexDamage(f"has a symbol without end at {at + 4 + place}")
        symbols.append(data[place : place + size].decode("utf-8", "replace"))
        place += size
    return symbols, at + 4 + length + _SUM


class _Walk:
    """Goes from series to series."""

    def __init__(self) -> None:
        self.lost = False
        self._budget = _SEARCH_BYTES
        self._damaged_from: int | None = None
        self.refused: list[Refused] = []

    def through(self, data: bytes, base: int, *, ended: bool) -> tuple[list[_Place], int]:
        """The series in the data, which begins at offset ``base`` (a multiple of 16), and how much of it was used."""
        found: list[_Place] = []
        at, length = 0, len(data)
        while at < length:
            size, body = data[at], at + 1
            if size >= 0x80:
                size, body = read_uvarint(data, at) or (_LONGEST_SERIES + 1, at)
            if size == 0:
                at += _ALIGN  # padding
                continue
            stop = body + size
            believed = size <= (_LONGEST_SERIES if self._damaged_from is None else _LONGEST_AFTER_DAMAGE)
            if believed and stop + _SUM > length and not ended:
                break
            sound = believed and google_crc32c.value(data[body:stop]) == int.from_bytes(data[stop : stop + _SUM], "big")
            if sound and stop + _SUM <= length:
                if self._damaged_from is not None:
                    self.refuse_until(base + at)
                found.append((at, body, stop))
                at = -(-(stop + _SUM) // _ALIGN) * _ALIGN
                continue
            if self._damaged_from is None:
                self._damaged_from = base + at
            self._budget -= min(size, _LONGEST_AFTER_DAMAGE)
            at += _ALIGN
            if self._budget <= 0:
                self.lost = True
                break
        return found, at

    def refuse_until(self, end: int) -> None:
        """Say that everything from the damage on to here was passed over."""
        begin = self._damaged_from
        if begin is not None:
            reason = f"index: a series with a wrong checksum at {begin}; {end - begin} bytes are passed over"
            self.refused.append(Refused(begin, end - begin, reason))
            self._damaged_from = None


def _taken_apart(data: bytes, base: int, found: list[_Place], symbols: int) -> tuple[SeriesWindow, int]:
    """The numbers of all series that were found, and how many of these make no sense."""
    starts, begins, ends = (np.array(column, np.int64) for column in zip(*found, strict=True))
    array = np.frombuffer(data, np.uint8)
    whole = array[ends - 1] < 0x80
    starts, begins, ends = starts[whole], begins[whole], ends[whole]
    body = array[positions(begins, ends - begins)]
    numbers, behind = all_uvarints(body)
    limits = np.searchsorted(behind, begins_of(ends - begins), side="right")
    first, present = limits[:-1], np.diff(limits)

    labels = numbers.take(first, mode="clip").view(np.int64)
    sound = (labels >= 0) & (2 * labels + 2 <= present) & (present > 0)
    labels = np.where(sound, labels, 0)
    chunks = numbers.take(first + 1 + 2 * labels, mode="clip").view(np.int64)
    sound &= (chunks >= 0) & (chunks < present)
    sound &= 2 + 2 * labels + 3 * chunks == present
    first, labels, chunks, starts = first[sound], labels[sound], chunks[sound], starts[sound]
    pairs = numbers[positions(first + 1, 2 * labels)]
    known = pairs < np.uint64(symbols)
    if not known.all():
        unknown = np.repeat(np.arange(len(first)), 2 * labels)[~known]
        good = np.ones(len(first), np.bool_)
        good[unknown] = False
        first, labels, chunks, starts = first[good], labels[good], chunks[good], starts[good]
        pairs = numbers[positions(first + 1, 2 * labels)]

    metas = numbers[positions(first + 2 + 2 * labels, 3 * chunks)].reshape(-1, 3)
    chunk_begins = begins_of(chunks)
    firsts = chunk_begins[:-1][chunks > 0]
    gaps, spans = metas[:, 0].view(np.int64).copy(), metas[:, 1].view(np.int64)
    gaps[firsts] = all_zigzags(metas[firsts, 0])
    last_times = running_sums(gaps + spans, chunk_begins)
    places = all_zigzags(metas[:, 2])
    places[firsts] = metas[firsts, 2].view(np.int64)
    window = SeriesWindow(
        refs=(base + starts) // _ALIGN,
        label_begins=begins_of(labels),
        names=pairs[0::2].view(np.int64),
        values=pairs[1::2].view(np.int64),
        chunk_begins=chunk_begins,
        first_times=last_times - spans,
        last_times=last_times,
        places=running_sums(places, chunk_begins),
    )
    return window, len(found) - len(first)
