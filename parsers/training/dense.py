"""Steps of Megatron-LM by the block: lines of exactly known shape, read by one pattern into columns.

     [2026-03-01 10:20:30.123456] iteration       20/    1000 | consumed samples:         5120 | elapsed time per ...
     3: iteration      695/  115311 | consumed samples:      1841584 | consumed tokens:   3771564032 | elapsed time ...

A log in which every line is a step is read many times as fast as line by line, with the same rows (a property test says
so). What has any other shape is left to the rules of :mod:`aftershock.parsers.training.trainers.megatron`: another key,
another order, a message glued to the line, a label of another kind.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aftershock.parsers.formats import FoundColumns


class Dense(NamedTuple):
    """What a block gave. ``spans``: the runs of bytes that were read, within the block, in order: each begins with the
    first byte of a line and ends behind the last byte of one, its newline not counted.

    The columns hold the writer of a line under ``@mark``, as a row that is read by itself does.
    """

    steps: FoundColumns
    spans: list[tuple[int, int]]


# A line that holds this is worth a look; a block without any is not read at all.
_WORD: Final = b"| consumed samples: "

_FLOAT: Final = rb"-?\d{1,15}(?:\.\d{1,9})?(?:E[-+]\d\d)?"
_DATE: Final = rb"20\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01]) (?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d"

# The groups in their order. A pattern that begins with a newline is looked for at newlines only.
_NAMES: Final = (
    *("label", "time", "step", "total", "samples", "tokens", "millis", "seconds", "tflops", "rate", "loss", "norm"),
    *("skipped", "nan", "tflops_behind"),
)
_LINE: Final = re.compile(
    rb"\n((?: {0,6}\d{1,6}: ?)?(?:\[default\d{1,4}\]: ?)?)"
    rb" ?(?:\[(" + _DATE + rb"(?:\.\d{6})?)\] )?iteration {1,8}(\d{1,12})/ {0,8}(\d{1,12}) \|"
    rb" consumed samples: {1,12}(\d{1,15}) \|"
    rb"(?: consumed tokens: {1,12}(\d{1,18}) \|)?"
    rb" elapsed time per iteration (?:\(ms\): (\d{1,12}\.\d)|\(s\): (\d{1,9}\.\d\d)) \|"
    rb"(?: throughput per GPU \(TFLOP/s/GPU\): (\d{1,9}\.\d) \|)?"
    rb" learning rate: (" + _FLOAT + rb") \|"
    rb" global batch size: {1,5}\d{1,9} \|"
    rb"(?: lm[ -]loss: (" + _FLOAT + rb") \|)?"
    rb"(?: loss scale: -?\d{1,15}\.\d \|)?"
    rb"(?: grad norm: (" + _FLOAT + rb"|nan|inf) \|)?"
    rb"(?: num zeros: \d{1,15}(?:\.\d)? \|)?"
    rb"(?: params norm: \d{1,12}\.\d{3} \|)?"
    rb" number of skipped iterations: {1,3}(\d{1,9}) \|"
    rb" number of nan iterations: {1,3}(\d{1,9}) \|"
    rb"(?: samples per second: \d{1,12}\.\d{3} \| TFLOPs: (\d{1,9}\.\d\d) \|)?"
    rb" ?(?=\r?\n)"
)
# Lines whose fields are turned into columns together: few enough to stay in the cache.
_SLICE: Final = 2048
_NUMBER_OF: Final = {name: number for number, name in enumerate(_NAMES)}


def dense_steps(block: bytes, base: int, begin: int = 0, end: int | None = None) -> Dense | None:
    """The steps of all lines of known shape that begin behind the first newline of ``block[begin:end]`` and end before
    the last one. None if there are none, or if what they print is no number or date after all: then nothing was read.

    base: offset of the block in its file.
    """
    end = len(block) if end is None else end
    if block.find(_WORD, begin, end) < 0:
        return None
    starts: list[int] = []
    stops: list[int] = []
    parts: list[dict[str, pa.Array]] = []
    lines = _LINE.finditer(block, begin, end)
    while some := list(islice(lines, _SLICE)):
        starts += [found.start() for found in some]
        stops += [found.end() for found in some]
        try:
            parts.append(_columns(list(zip(*(found.groups() for found in some), strict=True))))
        except pa.ArrowInvalid:
            return None
    if not parts:
        return None
    at = np.array(starts, dtype=np.int64) + 1
    columns = {name: pa.concat_arrays([part[name] for part in parts]) for name in parts[0]}
    columns["@offset"] = pa.array(at + base)
    return Dense(FoundColumns("training_steps", len(at), columns), _runs(at, np.array(stops, dtype=np.int64)))


def _columns(groups: Sequence[tuple[bytes | None, ...]]) -> dict[str, pa.Array]:
    def column(name: str, kind: pa.DataType) -> pa.Array:
        values = groups[_NUMBER_OF[name]]
        if values[0] is None and not any(values):
            return pa.nulls(len(values), kind)
        return pa.array(values, pa.binary()).cast(pa.string()).cast(kind)

    millis = column("millis", pa.float64())
    tflops = pc.coalesce(column("tflops", pa.float64()), column("tflops_behind", pa.float64()))
    times = column("time", pa.string())
    columns = {
        "step": column("step", pa.int64()),
        "total_steps": column("total", pa.int64()),
        "samples": column("samples", pa.int64()),
        "tokens": column("tokens", pa.int64()),
        "step_time_s": pc.coalesce(_seconds(millis), column("seconds", pa.float64())),
        "tflops_per_gpu": tflops,
        "learning_rate": column("rate", pa.float64()),
        "loss": column("loss", pa.float64()),
        "grad_norm": column("norm", pa.float64()),
        "skipped": column("skipped", pa.int64()),
        "nan": column("nan", pa.int64()),
    }
    count = len(times)
    columns["copies"] = pa.repeat(pa.scalar(1, pa.int32()), count)
    columns |= _clocks(times)
    labels = groups[0]
    columns["local_rank"] = pa.array(
        [_local_rank(label) for label in labels] if any(labels) else [None] * count, pa.int32()
    )
    columns["@mark"] = (
        pa.array([f"@{label.decode('latin-1').lstrip(' ')}" if label else "" for label in labels], pa.string())
        if any(labels)
        else pa.repeat(pa.scalar("", pa.string()), count)
    )
    return columns


def _local_rank(label: bytes | None) -> int | None:
    _, role, rest = (label or b"").partition(b"[default")
    return int(rest.partition(b"]")[0]) if role else None


def _seconds(millis: pa.Array) -> pa.Array:
    """Milliseconds of one decimal as the seconds that the same digits print: ``19932.4`` is 19.9324."""
    if millis.null_count == len(millis):
        return millis
    tenths = np.rint(millis.to_numpy(zero_copy_only=False) * 10)
    return pa.array(tenths / 10_000, mask=np.asarray(millis.is_null()))


def _clocks(times: pa.Array) -> dict[str, Any]:
    count = len(times)
    if times.null_count == count:
        return {
            "@kind": pa.repeat(pa.scalar("none"), count),
            "@wall": pa.nulls(count, pa.int64()),
            "@resolution": pa.repeat(pa.scalar(1, pa.int64()), count),
            "@text": times,
        }
    there = times.is_valid()
    fine = pc.equal(pc.binary_length(times), len("2026-03-01 10:20:30.123456"))
    return {
        "@kind": pc.if_else(there, "local", "none"),
        "@wall": times.cast(pa.timestamp("us")).cast(pa.int64()),
        "@resolution": pc.if_else(pc.and_kleene(there, pc.invert(pc.fill_null(fine, True))), 1_000_000, 1),
        "@text": times,
    }


def _runs(
    starts: np.ndarray[Any, np.dtype[np.int64]], stops: np.ndarray[Any, np.dtype[np.int64]]
) -> list[tuple[int, int]]:
    """Lines that follow each other as one run."""
    gaps = np.flatnonzero(starts[1:] > stops[:-1] + 2)
    firsts = np.concatenate(([0], gaps + 1))
    lasts = np.concatenate((gaps, [len(starts) - 1]))
    return list(zip(starts[firsts].tolist(), stops[lasts].tolist(), strict=True))
