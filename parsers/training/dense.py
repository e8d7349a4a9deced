"""Steps of Megatron-LM by the block: lines of exactly known shape, read into columns without a look at each.

     [2026-03-01 10:20:30.123456] iteration       20/    1000 | consumed samples:         5120 | elapsed time per ...
     3: iteration      695/  115311 | consumed samples:      1841584 | consumed tokens:   3771564032 | elapsed time ...

Lines of one length that differ in nothing but digits have their values in the same columns. One pattern reads the first
of them; the others are compared with it as a whole, and their numbers are cut out of the same places. A log in which
every line is a step is read many times as fast as line by line, with the same rows (a property test says so). What has
any other shape is left to the rules of :mod:`aftershock.parsers.training.trainers.megatron`: another key, another
order, a message glued to the line, a label of another kind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from aftershock.parsers.formats import FoundColumns, FoundLines
from aftershock.parsers.training.digits import Bytes, Ints
from aftershock.parsers.training.line_places import line_ends, spans_of
from aftershock.parsers.training.templates import EARLIEST, LATEST

# A line that holds this is worth a look; a block without any is not read at all.
_WORD: Final = b"| consumed samples: "

_FLOAT: Final = rb"-?\d{1,15}(?:\.\d{1,9})?(?:E[-+]\d\d)?"
_DATE: Final = rb"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d"
_LINE: Final = re.compile(
    rb"(?P<label> {0,6}(?:\d{1,6}: ?)?(?:\[default(?P<local>\d{1,4})\]: ?)?)"
    rb" ?(?:\[(?P<time>" + _DATE + rb"(?:\.\d{6})?)\] )?iteration {1,8}(?P<step>\d{1,12})/ {0,8}(?P<total>\d{1,12}) \|"
    rb" consumed samples: {1,12}(?P<samples>\d{1,15}) \|"
    rb"(?: consumed tokens: {1,12}(?P<tokens>\d{1,18}) \|)?"
    rb" elapsed time per iteration (?:\(ms\): (?P<millis>\d{1,12}\.\d)|\(s\): (?P<seconds>\d{1,9}\.\d\d)) \|"
    rb"(?: throughput per GPU \(TFLOP/s/GPU\): (?P<tflops>\d{1,9}\.\d) \|)?"
    rb" learning rate: (?P<rate>" + _FLOAT + rb") \|"
    rb" global batch size: {1,5}\d{1,9} \|"
    rb"(?: lm[ -]loss: (?P<loss>" + _FLOAT + rb") \|)?"
    rb"(?: loss scale: -?\d{1,15}\.\d \|)?"
    rb"(?: grad norm: (?P<norm>" + _FLOAT + rb"|nan|inf) \|)?"
    rb"(?: num zeros: \d{1,15}(?:\.\d)? \|)?"
    rb"(?: params norm: \d{1,12}\.\d{3} \|)?"
    rb" number of skipped iterations: {1,3}(?P<skipped>\d{1,9}) \|"
    rb" number of nan iterations: {1,3}(?P<nan>\d{1,9}) \|"
    rb"(?: samples per second: \d{1,12}\.\d{3} \| TFLOPs: (?P<behind>\d{1,9}\.\d\d) \|)?"
    rb" ?"
)
# The shortest and the longest line that may have this shape.
_SHORTEST, _LONGEST = 150, 800

_INTS: Final = {
    "step": "step",
    "total_steps": "total",
    "samples": "samples",
    "tokens": "tokens",
    "skipped": "skipped",
    "nan": "nan",
    "local_rank": "local",
}
_FLOATS: Final = {"learning_rate": "rate", "loss": "loss", "grad_norm": "norm"}
# The first of these that a line has.
_TFLOPS: Final = ("tflops", "behind")

# Lines that are read together: few enough to stay in the cache. Shapes that are tried on them: a log has a handful, for
# numbers grow by a digit now and then.
_SLICE: Final = 4096
_MOST_SHAPES: Final = 24


@dataclass(frozen=True, slots=True)
class _Shape:
    """A line of which any digit may be another one, and where its values stand; ``read``: whether it is a step at all.

    lowest: each byte, digits as 0; above: how much larger it may be, which is 9 for digits.
    """

    line: bytes
    lowest: Bytes
    above: Bytes
    places: dict[str, tuple[int, int]]
    read: bool

    @staticmethod
    def of(line: bytes) -> _Shape:
        data = np.frombuffer(line, dtype=np.uint8)
        digit = (data >= 48) & (data <= 57)
        lowest, above = np.where(digit, np.uint8(48), data), np.where(digit, np.uint8(9), np.uint8(0))
        found = _LINE.fullmatch(line)
        places = {} if found is None else {name: found.span(name) for name, value in found.groupdict().items() if value}
        return _Shape(line, lowest, above, places, found is not None)

    def fits(self, rows: Bytes) -> npt.NDArray[np.bool_]:
        """Which lines have this shape."""
        return np.asarray(((rows - self.lowest) <= self.above).all(axis=1))


@dataclass(slots=True)
class _Group:
    """Lines of one shape: their numbers within the slice, and their columns."""

    lines: Ints
    columns: dict[str, pa.Array] = field(default_factory=dict)


def dense_steps(block: bytes | bytearray, begin: int, end: int, base: int) -> FoundLines | None:
    """The steps of known shape among the lines of ``block[begin:end]``; None if there are none.

    begin: the first byte of a line. end: behind the line end of one. base: offset of the block in its file. The columns
    hold the writer of a line under ``@mark``, as a row that is read by itself does.
    """
    if block.find(_WORD, begin, end) < 0:
        return None
    data = np.frombuffer(block, dtype=np.uint8)
    ends = line_ends(data, begin, end)
    starts = np.concatenate(([begin], ends[:-1] + 1))
    ends = ends - (data[ends - 1] == 13)
    lengths = ends - starts
    likely = np.flatnonzero((lengths >= _SHORTEST) & (lengths <= _LONGEST))
    starts, lengths = starts[likely], lengths[likely]
    shapes: dict[int, list[_Shape]] = {}
    parts: list[dict[str, pa.Array]] = []
    taken: list[Ints] = []
    for first in range(0, len(starts), _SLICE):
        some = slice(first, first + _SLICE)
        groups = _groups_of(block, data, starts[some], lengths[some], shapes)
        if groups:
            lines = np.concatenate([group.lines for group in groups])
            order = np.argsort(lines, kind="stable")
            parts.append(_in_order(groups, order))
            taken.append(lines[order] + first)
    if not parts:
        return None
    which = np.concatenate(taken)
    columns = {name: pa.concat_arrays([part[name] for part in parts]) for name in parts[0]}
    at = starts[which]
    columns["@offset"] = pa.array(at + base)
    return FoundLines(FoundColumns("training_steps", len(which), columns), spans_of(at, at + lengths[which]))


def _groups_of(
    block: bytes | bytearray, data: Bytes, starts: Ints, lengths: Ints, shapes: dict[int, list[_Shape]]
) -> list[_Group]:
    groups = []
    for length in np.unique(lengths).tolist():
        left = np.flatnonzero(lengths == length)
        rows = np.lib.stride_tricks.sliding_window_view(data, length)[starts[left]]
        known = shapes.setdefault(length, [])
        for number in range(_MOST_SHAPES):
            if number == len(known):
                at = int(starts[left[0]])
                known.append(_Shape.of(bytes(block[at : at + length])))
            fits = known[number].fits(rows)
            if not fits.any():
                continue
            whole = bool(fits.all())
            group = _read(known[number], left if whole else left[fits], rows if whole else rows[fits])
            if group is not None:
                groups.append(group)
            if whole:
                break
            left, rows = left[~fits], rows[~fits]
    return groups


def _read(shape: _Shape, lines: Ints, rows: Bytes) -> _Group | None:
    """The columns of lines of one shape; None if it is no step, or if one has a date that there is not."""
    if not shape.read:
        return None
    count = len(lines)

    def column(name: str | None, kind: pa.DataType) -> pa.Array:
        place = None if name is None else shape.places.get(name)
        return pa.nulls(count, kind) if place is None else _strings(rows[:, slice(*place)]).cast(kind)

    columns = {name: column(printed, pa.int64()) for name, printed in _INTS.items()}
    columns |= {name: column(printed, pa.float64()) for name, printed in _FLOATS.items()}
    columns["tflops_per_gpu"] = column(next((n for n in _TFLOPS if n in shape.places), None), pa.float64())
    millis = column("millis", pa.float64())
    columns["step_time_s"] = _seconds(millis) if "millis" in shape.places else column("seconds", pa.float64())
    columns["local_rank"] = columns["local_rank"].cast(pa.int32())
    columns["copies"] = pa.repeat(pa.scalar(1, pa.int32()), count)
    try:
        columns |= _clocks(shape, rows)
    except pa.ArrowInvalid:
        return None
    columns["@mark"] = _marks(shape, rows)
    return _Group(lines, columns)


def _strings(cells: Bytes) -> pa.Array:
    """A column of cells of one width, which hold nothing but ASCII."""
    count, width = cells.shape
    offsets = np.arange(0, (count + 1) * width, width or 1, dtype=np.int32)[: count + 1]
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(cells)))


def _seconds(millis: pa.Array) -> pa.Array:
    """Milliseconds of one decimal as the seconds that the same digits print: ``19932.4`` is 19.9324."""
    return pa.array(np.rint(millis.to_numpy() * 10) / 10_000)


def _clocks(shape: _Shape, rows: Bytes) -> dict[str, pa.Array]:
    count = len(rows)
    place = shape.places.get("time")
    if place is None:
        return {
            "@kind": pa.repeat(pa.scalar("none"), count),
            "@wall": pa.nulls(count, pa.int64()),
            "@resolution": pa.repeat(pa.scalar(1, pa.int64()), count),
            "@text": pa.nulls(count, pa.string()),
        }
    text = _strings(rows[:, slice(*place)])
    wall = text.cast(pa.timestamp("us")).cast(pa.int64())
    walls = wall.to_numpy()
    if walls.min() < EARLIEST or walls.max() >= LATEST:
        raise pa.ArrowInvalid("a year that no log is of")
    resolution = 1_000_000 if place[1] - place[0] == len("2026-03-01 10:20:30") else 1
    return {
        "@kind": pa.repeat(pa.scalar("local"), count),
        "@wall": wall,
        "@resolution": pa.repeat(pa.scalar(resolution, pa.int64()), count),
        "@text": text,
    }


def _marks(shape: _Shape, rows: Bytes) -> pa.Array:
    """The writers, as they stand in the marks of single rows."""
    begin, end = shape.places.get("label", (0, 0))
    begin += len(shape.line[begin:end]) - len(shape.line[begin:end].lstrip(b" "))
    if begin == end:
        return pa.repeat(pa.scalar(""), len(rows))
    cells = np.full((len(rows), end - begin + 1), ord("@"), dtype=np.uint8)
    cells[:, 1:] = rows[:, begin:end]
    return _strings(cells)


def _in_order(groups: list[_Group], order: Ints) -> dict[str, pa.Array]:
    if len(groups) == 1:
        return groups[0].columns
    take = pa.array(order)
    return {name: pa.concat_arrays([group.columns[name] for group in groups]).take(take) for name in groups[0].columns}
