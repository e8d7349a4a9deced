"""Reading lines out of a block of bytes: the part of a file that one worker owns.

A block owns the lines that *start* in [begin, stop) and reads on to finish the last of them, up to ``SPAN``. A longer
line is a reject. A block in which no line starts owns nothing. What comes out does not depend on where the cuts are.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Final, NamedTuple

import numpy as np
import xxhash

from aftershock.parsers.cut_tail import doubts
from aftershock.parsers.envelopes import unwrap
from aftershock.parsers.formats import LOOKAHEAD, Envelope, Found, FoundColumns, Line, Mark, Refused
from aftershock.parsers.inner_lines import read_line
from aftershock.parsers.many_lines import hits_outside, take_lines
from aftershock.parsers.redact import redact_row
from aftershock.parsers.runs import Runs
from aftershock.parsers.scan import HIDDEN, Scanner
from aftershock.parsers.streams import StreamError
from aftershock.parsers.surroundings import REACH, is_alone, look_around

__all__ = ["MARK_EVERY", "REACH", "SPAN", "Aside", "BlockResult", "Mark", "Window", "read_block", "read_blocks"]

# The longest line that is read as one record.
SPAN: Final = 1 << 20

# Lines that lie over a multiple of this offset tell the clock of the file along the way, whatever the scan finds.
MARK_EVERY: Final = 1 << 20

# Newlines are counted in pieces that stay in the cache.
_COUNT_PIECE: Final = 1 << 18


class Aside(NamedTuple):
    """Steps that were written to a file where they were parsed: where it is, the offset of the first, and how many."""

    path: str
    begin: int
    rows: int


@dataclass
class BlockResult:
    """What one block gave: rows not yet resolved, refusals, clock marks and counts of what it owns."""

    found: list[Found] = field(default_factory=list)
    columns: list[tuple[str, FoundColumns]] = field(default_factory=list)  # (format, rows)
    aside: list[Aside] = field(default_factory=list)
    refused: list[tuple[str, Refused]] = field(default_factory=list)  # (format, refusal)
    marks: list[Mark] = field(default_factory=list)
    lines: int = 0
    bytes: int = 0
    records: int = 0
    pieces: list[tuple[int, str]] = field(default_factory=list)  # (begin, digest of the bytes up to stop)

    def add(self, other: BlockResult) -> None:
        """Take in what another block of the same source gave."""
        self.found += other.found
        self.columns += other.columns
        self.aside += other.aside
        self.refused += other.refused
        self.marks += other.marks
        self.lines += other.lines
        self.bytes += other.bytes
        self.records += other.records
        self.pieces += other.pieces

    @property
    def rows(self) -> int:
        """How many rows and refusals there are."""
        return len(self.found) + len(self.refused) + sum(item.count for _, item in self.columns)


class Window:
    """A growing view of a stream: bytes [base, base + len(data)) of it, with the front dropped when it is done with.

    spare: a buffer that nobody needs any more, to be used again. New memory costs a third of what reading into it does.
    """

    def __init__(self, stream: BinaryIO, base: int, spare: bytearray | None = None) -> None:
        self._stream = stream
        self._spare = spare
        self.base = base
        self.data = bytearray()
        self.ended = False
        self.damage: StreamError | None = None

    @property
    def until(self) -> int:
        """Offset behind the last byte held."""
        return self.base + len(self.data)

    def fill(self, until: int) -> None:
        """Read on to ``until``, or to the end of the stream. Damage is an end too; ``damage`` keeps it."""
        while not self.ended and self.until < until:
            held = len(self.data)
            if held:
                self.data.extend(bytes(until - self.until))
            else:
                self.data = self._buffer(until - self.until)
            with memoryview(self.data) as view:
                got = self._read_into(view[held:])
            del self.data[held + got :]
            self.ended = held + got < until - self.base

    def _buffer(self, size: int) -> bytearray:
        spare, self._spare = self._spare, None
        if spare is None or len(spare) < size:
            return bytearray(size)
        del spare[size:]
        return spare

    def _read_into(self, view: memoryview) -> int:
        filled = 0
        try:
            while filled < len(view):
                got: int | None = self._stream.readinto(view[filled:])  # type: ignore[attr-defined]
                if not got:
                    break
                filled += got
        except StreamError as error:
            self.damage = StreamError(str(error))  # the error itself would hold on to the buffer through its frames
        return filled

    def drop(self, before: int) -> None:
        """Forget what stands before an offset."""
        if before > self.base:
            del self.data[: before - self.base]
            self.base = before


def read_block(
    window: Window,
    begin: int,
    stop: int,
    scanner: Scanner,
    gap: int | None = None,
    *,
    columns: bool = False,
    digest: xxhash.xxh3_64 | None = None,
) -> BlockResult:
    """Read the lines that start in [begin, stop).

    ``window`` must hold the byte before ``begin`` (unless it is 0), and should hold the REACH bytes before it.
    ``gap``: of bursts, in microseconds, if what repeats is folded anyway: then long runs of it are counted, not read.
    ``columns``: rows may come as columns, where a format reads many lines at once. ``digest``: of the piece that the
    block is a part of; without one the block is a piece of its own.
    """
    result = BlockResult()
    window.fill(stop + REACH + LOOKAHEAD)  # more than most last lines need: one read for the whole block
    stop = min(stop, window.until)
    with memoryview(window.data) as view:
        owned = view[begin - window.base : max(begin, stop) - window.base]
        if digest is None:
            result.pieces.append((begin, xxhash.xxh3_64_hexdigest(owned)))
        else:
            digest.update(owned)
        owned.release()
    result.bytes = max(0, stop - begin)
    first = _first_line(window, begin, stop)
    if first is None:
        return result
    last = window.data.rfind(b"\n", first - window.base, stop - 1 - window.base) + 1 + window.base
    if last <= window.base:
        last = first
    end = _end_of(window, last)
    too_long = end - last > SPAN
    if too_long:
        at = last - window.base
        result.refused.append(("", _too_long(last, bytes(window.data[at : at + 512]))))
        result.lines += 1
        end = last - 1
    if end >= first:
        window.fill(end + 1 + REACH)
        _read_owned(window, first, end, scanner, gap, result, columns=columns)
        if window.ended and window.until <= end + 1 and not too_long:
            _mark_last(window, first, end, result)
            if window.until == end:
                begins = max(window.data.rfind(b"\n", first - window.base, end - window.base) + 1, first - window.base)
                line = bytes(window.data[begins : end - window.base])
                result.refused += doubts(result.found, window.base + begins, line)
    return result


def read_blocks(
    stream: BinaryIO, size: int, scanner: Scanner, gap: int | None = None, *, columns: bool = False
) -> Iterator[BlockResult]:
    """Read a stream from its beginning to its end in blocks of ``size`` bytes; memory is bounded by the block.

    Raises:
        StreamError: the stream is damaged; everything before the damage was given.
    """
    window = Window(stream, 0)
    begin = 0
    while True:
        yield read_block(window, begin, begin + size, scanner, gap, columns=columns)
        window.fill(begin + size + 1)
        if window.ended and window.until <= begin + size:
            break
        begin += size
        window.drop(begin - REACH)
    if window.damage:
        raise window.damage


def _first_line(window: Window, begin: int, stop: int) -> int | None:
    """Offset of the first line that starts in [begin, stop)."""
    if begin >= stop:
        return None
    if begin == 0:
        return 0
    at = window.data.find(b"\n", begin - 1 - window.base, stop - 1 - window.base)
    return None if at < 0 else window.base + at + 1


def _end_of(window: Window, line: int) -> int:
    """Offset behind the last byte of the line at ``line``, its newline not counted; beyond SPAN if it is too long."""
    window.fill(line + 1)
    searched = line
    while True:
        at = window.data.find(b"\n", searched - window.base)
        if at >= 0:
            return window.base + at
        searched = window.until
        if window.ended or searched - line > SPAN:
            return searched
        window.fill(min(searched + (64 << 10), line + SPAN + 2))


def _too_long(offset: int, excerpt: bytes) -> Refused:
    return Refused(offset, 0, f"line longer than {SPAN} bytes", excerpt)


def _read_owned(
    window: Window, first: int, end: int, scanner: Scanner, gap: int | None, result: BlockResult, *, columns: bool
) -> None:
    data, base = window.data, window.base
    newlines, long_lines = _count_lines(data, first - base, end - base)
    result.lines += newlines + 1
    for at, length in long_lines:
        result.refused.append(("", _too_long(base + at, bytes(data[at : at + min(length, 512)]))))
    skip = {at for at, _ in long_lines}
    taken, spans = take_lines(data, base, first - base, end - base, scanner) if columns else ([], [])
    result.columns += taken
    result.records += sum(rows.count for _, rows in taken)
    hits = hits_outside(data, first - base, end - base, spans, scanner)
    runs = None if gap is None else Runs(data, base, end - base, gap)
    _read_hits(data, base, first - base, end - base, hits, scanner, skip, runs, result)
    _mark_lines(data, base, first - base, end - base, skip, result)


def _count_lines(data: bytearray, first: int, end: int) -> tuple[int, list[tuple[int, int]]]:
    """Newlines in data[first:end], and the (position, length) of lines longer than SPAN that end within it."""
    array = np.frombuffer(data, dtype=np.uint8)[first:end]
    equal = np.empty(min(_COUNT_PIECE, len(array)), dtype=np.bool_)
    count = 0
    empty_pieces: list[int] = []
    for start in range(0, len(array), _COUNT_PIECE):
        piece = array[start : start + _COUNT_PIECE]
        flags = equal[: len(piece)]
        np.equal(piece, 10, out=flags)
        found = int(np.count_nonzero(flags))
        count += found
        if not found and len(piece) == _COUNT_PIECE:
            empty_pieces.append(first + start)
    del array
    long_lines: list[tuple[int, int]] = []
    for at in empty_pieces:
        begin = data.rfind(b"\n", first, at) + 1 or first
        stop = data.find(b"\n", at, end)
        stop = end if stop < 0 else stop
        if stop - begin > SPAN and (not long_lines or long_lines[-1][0] != begin):
            long_lines.append((begin, stop - begin))
    return count, long_lines


def _read_hits(
    data: bytearray,
    base: int,
    first: int,
    end: int,
    hits: list[tuple[int, int]],
    scanner: Scanner,
    skip: set[int],
    runs: Runs | None,
    result: BlockResult,
) -> None:
    """Read every line that a signature was found in: once, with all formats that it may belong to."""
    i = 0
    while i < len(hits):
        at = first + hits[i][0] - 1  # the last byte of the match: it stands inside the line
        begin = data.rfind(b"\n", first, at) + 1 or first
        stop = data.find(b"\n", at, end)
        stop = end if stop < 0 else stop
        run = None if runs is None else runs.at(begin)
        if run is not None:
            result.found += run.found
            result.records += run.records
            i = bisect.bisect_right(hits, (run.stop - first, HIDDEN), i)
            continue
        wanted: list[int] = []
        while i < len(hits) and first + hits[i][0] - 1 <= stop:
            if hits[i][1] not in wanted:
                wanted.append(hits[i][1])
            i += 1
        if begin not in skip:
            number = len(result.found)
            envelope = _read_line(data, base, begin, stop, wanted, scanner, result)
            if runs is not None:
                runs.note(begin, stop, envelope, result.found[number:])


def _read_line(
    data: bytearray,
    base: int,
    begin: int,
    stop: int,
    wanted: list[int],
    scanner: Scanner,
    result: BlockResult,
) -> Envelope | None:
    """Read one line. Gives its envelope, None if lines around it had a say, or something in it was refused."""
    text = bytes(data[begin:stop]).rstrip(b"\r")
    envelope = unwrap(text)
    alone = is_alone(envelope, data, begin)
    if not alone:
        before, after = bytes(data[max(0, begin - REACH) : begin]), bytes(data[stop : stop + REACH])
        whole = look_around(text, envelope, before, after)
        if whole is None:
            return None
        if whole is not envelope:
            envelope, wanted = whole, [HIDDEN]
    line = Line(base + begin, text, envelope, bytes(data[stop + 1 : stop + 1 + LOOKAHEAD]))
    if HIDDEN in wanted:
        wanted = scanner.inside(envelope.message)
    for index, item in read_line(line, wanted, scanner):
        result.records += 1
        name = scanner.formats[index].name
        if isinstance(item, Refused):
            result.refused.append((name, item))
            alone = False
        else:
            item.format = name
            redact_row(item.row)
            result.found.append(item)
    return envelope if alone else None


def _mark_lines(data: bytearray, base: int, first: int, end: int, skip: set[int], result: BlockResult) -> None:
    """Note the clocks of the lines that lie over a multiple of MARK_EVERY (offset 0 is one)."""
    at = -(-(base + first) // MARK_EVERY) * MARK_EVERY - base
    while at <= end:
        begin = data.rfind(b"\n", first, at) + 1 or first
        stop = data.find(b"\n", at, end)
        stop = end if stop < 0 else stop
        if begin not in skip:
            _note(data, base, begin, stop, result)
        at += MARK_EVERY


def _mark_last(window: Window, first: int, end: int, result: BlockResult) -> None:
    """Note the clock of the last line of the file."""
    begin = window.data.rfind(b"\n", first - window.base, end - window.base) + 1 or first - window.base
    if not result.marks or result.marks[-1].offset != window.base + begin:
        _note(window.data, window.base, begin, end - window.base, result)


def _note(data: bytearray, base: int, begin: int, stop: int, result: BlockResult) -> None:
    envelope = unwrap(bytes(data[begin : min(stop, begin + 4096)]).rstrip(b"\r"))
    result.marks.append(Mark(base + begin, envelope.reading, "+".join(envelope.names)))
