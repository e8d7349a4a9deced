"""Sources that were printed newest first: what belongs together is joined as in a file that goes forward."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.schemas.columns import Row
from aftershock.schemas.events import GpuError
from aftershock.schemas.topology import Gpu
from tests.parsers.exported import rows_of

FIRST, SECOND = "GPU-7c1d2e3f-4a5b-4c6d-8e9f-0a1b2c3d4e5f", "GPU-00aa11bb-2c3d-4e5f-8a9b-0c1d2e3f4a5b"
XID = "NVRM: Xid (PCI:0000:3b:00): 31, pid=7, name=train, Ch 00000010"
LOAD = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.161.07  Sat Feb 17 22:55:48 UTC 2024"


def named(uuid: str) -> str:
    return f"NVRM: GPU at PCI:0000:3b:00: {uuid}"


SERIAL = "NVRM: GPU Board Serial Number: 1650000000017"

# Seconds and texts as the driver prints them: two loads of the driver, another GPU in the second.
STORY = (
    (0, LOAD),
    (100, named(FIRST)),
    (100, SERIAL),
    (100, XID),
    (200, XID),
    (900, LOAD),
    (950, named(SECOND)),
    (950, XID.replace("31", "79")),
)


def loki(lines: list[tuple[int, str]]) -> str:
    values = [[f"{1772366400 + second}000000000", text] for second, text in lines]
    return json.dumps({"streams": [{"stream": {"host": "gpu017", "job": "kern"}, "values": values}]})


def stamped(lines: list[tuple[int, str]]) -> str:
    return "".join(f"[{1000 + second:5d}.{number:06d}] {text}\n" for number, (second, text) in enumerate(lines))


def errors(rows: list[Row]) -> list[tuple[int | None, str | None, str | None]]:
    return [(row.code, row.gpu_uuid, row.gpu_serial) for row in rows if isinstance(row, GpuError)]


WANTED = [(31, FIRST, "1650000000017"), (31, FIRST, "1650000000017"), (79, SECOND, None)]


def backward(text: str) -> str:
    return "".join(f"{line}\n" for line in reversed(text.splitlines()))


def test_forward() -> None:
    assert errors(rows_of(loki(list(STORY)))) == WANTED
    assert errors(rows_of(stamped(list(STORY)))) == WANTED


def test_backward() -> None:
    assert errors(rows_of(loki(list(STORY[::-1])))) == WANTED[::-1]
    assert errors(rows_of(backward(stamped(list(STORY))))) == WANTED[::-1]
    assert [row.gpu_uuid for row in rows_of(loki(list(STORY[::-1]))) if isinstance(row, Gpu)] == [SECOND, FIRST]


@pytest.mark.parametrize("lines", [(named(FIRST), XID), (named(FIRST), SERIAL, XID), (named(FIRST), XID, XID)])
def test_lines_of_one_second_and_without_a_clock(lines: tuple[str, ...]) -> None:
    for text in ("\n".join(lines), loki([(5, line) for line in lines])):
        assert {uuid for _, uuid, _ in errors(rows_of(text))} == {FIRST}
    for text in ("\n".join(lines[::-1]), loki([(5, line) for line in lines[::-1]])):
        assert {uuid for _, uuid, _ in errors(rows_of(text))} == {FIRST}


def test_a_load_between_an_error_and_a_name_in_a_forward_file() -> None:
    assert errors(rows_of("\n".join([XID, LOAD, named(SECOND), XID]))) == [(31, None, None), (31, SECOND, None)]


def test_boots_that_follow_each_other_are_no_file_printed_backward() -> None:
    text = f"[ 9000.000001] {XID}\n[  700.000001] {XID}\n[   60.000001] {named(SECOND)}\n"
    assert errors(rows_of(text)) == [(31, None, None), (31, None, None)]


@given(st.lists(st.sampled_from([XID, XID.replace("3b", "3c"), named(FIRST), SERIAL, LOAD]), max_size=8))
def test_both_directions_say_the_same(lines: list[str]) -> None:
    forward = stamped([(number, line) for number, line in enumerate(lines)])
    told = errors(rows_of(forward))
    assert errors(rows_of(backward(forward))) == told[::-1]
    assert len(told) == len(re.findall("Xid", forward))
