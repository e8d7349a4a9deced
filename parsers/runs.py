"""Runs: lines that only repeat what the lines before them said, at another time, are counted and not read again.

    [ 9001.250000] NVRM: Xid (PCI:0000:3b:00): 95, ...          read
    [ 9001.250731] NVRM: Xid (PCI:0000:3b:00): 95, ...          counted
    [ 9001.251460] NVRM: Xid (PCI:0000:3b:00): 95, ...          counted

A unit of up to eight records (the three lines of an Xid 13) is read as ever. If the units behind it have the same
bytes but for the digits of their stamps, and these never fall back, then reading them would give the same rows at other
times. It is known without reading a stamp which of them are one burst: no step between two stamps is longer than the
time from the first to the last. The bytes are compared many lines at once.

What a line below can say about a record is looked for in ``LOOKAHEAD`` bytes: only units that have that many bytes of
the same run behind them are counted, so that the rows are exactly those of reading line by line and folding.
"""

from __future__ import annotations

import copy
import re
from collections import deque
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from aftershock.parsers.clock import Reading
from aftershock.parsers.envelopes import unwrap
from aftershock.parsers.fold import FOLDED, axis_of, position_of
from aftershock.parsers.formats import LOOKAHEAD, Envelope, Found

# Records in a unit, and the bytes of all its lines.
_MOST_RECORDS: Final = 8
_MOST_BYTES: Final = 8 << 10
# Fewer units than this are not worth the comparison.
_FEWEST: Final = 4
# Bytes that are compared at once.
_PIECE: Final = 1 << 20
# Lines that are read before another comparison is tried where one was in vain: twice as many each time, up to these.
_MOST_PAUSE: Final = 64

# Stamps at the beginning of a line, as far as their digits may differ from line to line: the date may not.
_STAMPS: Final = re.compile(
    rb"""
    (?:\d{4}-\d\d-\d\dT(?P<collected>\d\d:\d\d:\d\d\.\d{9})\S{1,6}\ std(?:out|err)\ F\ )?        # CRI
    (?:<\d{1,3}>)?(?:1\ )?(?:[a-z]{4,6}\ *:[a-z]{3,6}\ *:\ )?
    (?:
      [A-Z][a-z]{2}\ [ \d]\d\ (?P<bsd>\d\d:\d\d:\d\d)[ ]        # RFC 3164
    | \d{4}-\d\d-\d\dT(?P<iso>\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(?:Z|[+-]\d\d:?\d\d|\ )
    | \[[A-Z][a-z]{2}\ [A-Z][a-z]{2}\ [ \d]\d\ (?P<wall>\d\d:\d\d:\d\d)\ \d{4}\]                  # dmesg -T
    | (?P<unix>\d{9,10}\.\d{6})[ ]
    | \d{1,6},(?P<seq>\d{1,18}),(?P<kmsg>\d{1,16}),                                            # /dev/kmsg
    | \[\ *(?P<boot>\d{1,10}\.\d{6})\]
    )?
    (?:[^\n\[]{0,300}?\ kernel:\ \[\ *(?P<inner>\d{1,10}\.\d{6})\]                              # rsyslog
    |  \ \S{1,255}\ kernel\ -\ -\ -\ \[\ *(?P<structured>\d{1,10}\.\d{6})\])?                   # RFC 5424
    """,
    re.VERBOSE,
)
# Members of a journal entry in JSON: clocks, and names of the record that nothing is made of.
_CLOCKS: Final = re.compile(
    rb'(?<!\\)"(?:__REALTIME_TIMESTAMP|__MONOTONIC_TIMESTAMP|_SOURCE_REALTIME_TIMESTAMP|_SOURCE_MONOTONIC_TIMESTAMP)"'
    rb' ?: ?"(\d{1,17})"'
)
_DOCKER: Final = re.compile(
    rb'\{"log":"\[ *(\d{1,10}\.\d{6})\].*","time":"\d{4}-\d\d-\d\dT(\d\d:\d\d:\d\d(?:\.\d{1,9})?)Z"\}\Z'
)
_NAMES: Final = re.compile(rb'(?<!\\)"(?:__CURSOR|__SEQNUM)" ?: ?"([^"\\\n]{0,400})"')


class _Read(NamedTuple):
    """A line that was read: where it starts in the data, its envelope, what it gave, and where its message stands."""

    begin: int
    envelope: Envelope | None
    found: tuple[Found, ...]
    message: slice


class _Unit(NamedTuple):
    """Lines that may repeat: where they start, their length, the lines read, and where their bytes may differ."""

    begin: int
    length: int
    reads: tuple[_Read, ...]
    clocks: list[tuple[int, int]]
    names: list[tuple[int, int]]


class Run(NamedTuple):
    """Lines that need not be read: where they end in the data, their rows, folded, and how many rows they were."""

    stop: int
    found: list[Found]
    records: int


class Runs:
    """Finds runs within one block of bytes, of which the lines are read in order. ``gap``: of bursts."""

    def __init__(self, data: bytearray, base: int, end: int, gap: int) -> None:
        self._data = data
        self._base = base
        self._end = end
        self._gap = gap
        self._reads: deque[_Read] = deque(maxlen=_MOST_RECORDS)
        self._hopeless_until = 0
        self._pause = 1
        self._paused = 0

    def note(self, begin: int, stop: int, envelope: Envelope | None, found: list[Found]) -> None:
        """A line was read. ``envelope``: None if it does not stand for itself, or something in it was refused."""
        at = -1
        if envelope is not None:
            at = self._data.rfind(envelope.message, begin, stop)
        if envelope is None or at < 0:  # escaped, or in colours: it is not told from its stamps
            self._reads.append(_Read(begin, None, (), slice(begin, stop)))
        else:
            self._reads.append(_Read(begin, envelope, tuple(found), slice(at, at + len(envelope.message))))

    def at(self, begin: int) -> Run | None:
        """The run that begins with the line at ``begin``, which was not read yet."""
        if begin < self._hopeless_until:
            return None
        if self._paused:
            self._paused -= 1
            return None
        for count in range(1, len(self._reads) + 1):
            first = self._reads[-count]
            length = begin - first.begin
            if length > _MOST_BYTES or first.envelope is None:
                return None
            if not (self._repeats(first.message, length) and self._repeats(self._reads[-1].message, length)):
                continue
            unit = self._unit(first.begin, begin, count)
            run = self._count(unit) if unit is not None else None
            if run is not None:
                self._pause = 1
                return run
            self._paused, self._pause = self._pause, min(2 * self._pause, _MOST_PAUSE)
            return None
        return None

    def _repeats(self, message: slice, length: int) -> bool:
        """Whether a message stands behind itself again, at the distance of a unit."""
        return self._data[message] == self._data[message.start + length : message.stop + length]

    def _unit(self, start: int, begin: int, count: int) -> _Unit | None:
        reads = tuple(self._reads)[-count:]
        text = bytes(self._data[start:begin])
        if b"MESSAGE\n" in text:
            return None  # the lines below would be taken for raw bytes
        outputs = {_output_of(read.envelope) for read in reads}
        if outputs != {None} and (len(outputs) > 1 or text.count(b"\n") != count):
            return None  # what stands above a line of a container has a say
        for read in reads:
            if read.envelope is None or len(read.found) > 1:
                return None
            for item in read.found:
                if item.reading != read.envelope.reading or not isinstance(item.row, FOLDED) or axis_of(item) is None:
                    return None
        if not any(read.found for read in reads):
            return None
        clocks, names = _spans(text)
        for read in reads:
            if any(a < read.message.stop - start and b > read.message.start - start for a, b in clocks):
                return None  # what looks like a stamp stands in a message
        return _Unit(start, len(text), reads, clocks, names)

    def _count(self, unit: _Unit) -> Run | None:
        """Count the units behind a unit."""
        begin = unit.begin + unit.length
        same = self._same_units(unit)
        self._hopeless_until = begin + same * unit.length
        usable = min(same - -(-LOOKAHEAD // unit.length), (self._end + 1 - begin) // unit.length)
        if usable < _FEWEST:
            return None
        found = [item for read in unit.reads for item in self._bursts(unit, read, usable)]
        self._reads.clear()
        return Run(begin + usable * unit.length, found, usable * sum(len(read.found) for read in unit.reads))

    def _same_units(self, unit: _Unit) -> int:
        """How many units follow that differ in the digits of stamps only, which never fall back."""
        length = unit.length
        at = unit.begin
        count = 0
        batch = 16
        while True:
            # The last unit of one piece is the first of the next.
            units = min(batch, max(1, _PIECE // length), (len(self._data) - at) // length)
            if units < 2:
                return count
            array = np.frombuffer(self._data, dtype=np.uint8, count=units * length, offset=at).reshape(units, length)
            same = _same_rows(array, unit)
            del array  # it holds on to the data, which has to grow
            count += same - 1
            if same < units:
                return count
            at += (same - 1) * length
            batch = _PIECE

    def _bursts(self, unit: _Unit, read: _Read, units: int) -> Iterator[Found]:
        """The records that the line ``read`` of each of the units behind would give, folded."""
        if not read.found:
            return
        first = read.begin + unit.length
        length = self._line_length(read.begin)
        item = read.found[0]
        axis = axis_of(item)
        assert axis is not None

        def reading_at(number: int) -> Reading:
            begin = first + number * unit.length
            return unwrap(bytes(self._data[begin : begin + length])).reading

        def burst(low: int, high: int, begin: Reading, end: Reading) -> Iterator[Found]:
            if axis == "place" or position_of(end, axis) - position_of(begin, axis) <= self._gap:
                row: Any = copy.copy(item.row)
                row.count = (row.count or 1) * (high - low + 1)
                again = Found(row, begin, self._base + first + low * unit.length, item.mark, None, item.format)
                if high > low:
                    again.until = self._base + first + high * unit.length
                    again.last = None if axis == "place" else end
                yield again
                return
            middle = (low + high) // 2
            yield from burst(low, middle, begin, reading_at(middle))
            yield from burst(middle + 1, high, reading_at(middle + 1), end)

        yield from burst(0, units - 1, reading_at(0), reading_at(units - 1))

    def _line_length(self, begin: int) -> int:
        text = self._data[begin : self._data.find(b"\n", begin)]
        return len(text.rstrip(b"\r"))


def _output_of(envelope: Envelope | None) -> tuple[str, str | None] | None:
    """The runtime and the output of a container that a line comes from; None for other lines."""
    if envelope is None or envelope.names[0] not in ("cri", "docker"):
        return None
    return envelope.names[0], (envelope.labels or {}).get("stream")


def _spans(text: bytes) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Where the stamps of all lines stand, and where names of records do, as (begin, end) in the text."""
    clocks: list[tuple[int, int]] = []
    names: list[tuple[int, int]] = []
    at = 0
    while at < len(text):
        end = text.find(b"\n", at)
        docker = _DOCKER.match(text, at, end)
        if docker is not None:
            clocks += [docker.span(1), docker.span(2)]
        elif text[at : at + 1] == b"{":
            clocks += [found.span(1) for found in _CLOCKS.finditer(text, at, end)]
            names += [found.span(1) for found in _NAMES.finditer(text, at, end)]
        else:
            stamps = _STAMPS.match(text, at, end)
            assert stamps is not None
            clocks += [stamps.span(name) for name in stamps.groupdict() if stamps[name] is not None]
        at = end + 1
    return clocks, names


def _same_rows(array: Any, unit: _Unit) -> int:
    """How many rows, from the first, are the same unit as it."""
    rows = len(array)
    differs = array != array[0]
    for begin, stop in unit.names:
        # Anything that does not end the name or its line.
        part = array[:, begin:stop]
        differs[:, begin:stop] = (part == ord('"')) | (part == ord("\\")) | (part < ord(" "))
    for begin, stop in unit.clocks:
        part, wrong = array[:, begin:stop], differs[:, begin:stop]
        digits = (array[0, begin:stop] >= ord("0")) & (array[0, begin:stop] <= ord("9"))
        is_time = stop - begin >= 8 and array[0, begin + 2] == ord(":")
        number = np.zeros(rows, dtype=np.int64)
        for column in np.flatnonzero(digits).tolist():
            digit = part[:, column].astype(np.int64) - ord("0")
            most = 5 if is_time and column in (3, 6) else 9  # minutes and seconds end at 59
            wrong[:, column] = (digit < 0) | (digit > most)
            number = number * 10 + digit
        differs[1:, begin] |= np.diff(number) < 0
    bad = differs.any(axis=1)
    return max(1, int(np.argmax(bad))) if bad.any() else rows
