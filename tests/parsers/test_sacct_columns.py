"""sacct's table read column by column gives what it gives when it is read record by record."""

from __future__ import annotations

import io
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.detect import detect
from aftershock.parsers.documents import sacct_columns
from aftershock.parsers.formats import Found, FoundColumns, Head, Refused
from aftershock.parsers.source import read_stream
from aftershock.parsers.transit import pack, unpack

HEADER = "JobID|JobIDRaw|JobName|User|State|ExitCode|Submit|Start|End|ElapsedRaw|NNodes|NodeList|AllocTRES|SubmitLine"
LINE = (
    "{n}|{n}|bert|mira|COMPLETED|0:0|2025-02-03T08:00:00|2025-02-03T08:00:05|2025-02-03T09:00:05|3600|2|d[1-2]|"
    "cpu=8,gres/gpu=8|sbatch -x d9 a.sh"
)


def read(data: bytes, *, columns: bool) -> tuple[list[Any], list[Any]]:
    """Rows and refusals, after the way that they travel."""
    detected = detect(Head("sacct.txt", data), "sacct")
    blocks = list(read_stream(io.BytesIO(data), detected, columns=columns))
    got = unpack(batch for block in blocks for batch in pack(block, "s"))
    assert sum(block.records for block in blocks) == got.records
    for item in got.found:
        item.reading = item.reading._replace(text=None)  # no session keeps it
    rejects = sorted((r.byte_offset, r.length, r.reason, r.excerpt) for r in got.rejects)
    return sorted(got.found, key=lambda item: item.offset), rejects


def same(data: bytes) -> tuple[list[Any], list[Any]]:
    by_record = read(data, columns=False)
    assert read(data, columns=True) == by_record
    return by_record


def in_columns(data: bytes) -> int:
    """How many rows came as columns."""
    return sum(item.count for item in sacct_columns.read_columns(io.BytesIO(data)) if isinstance(item, FoundColumns))


def test_plain_lines_come_as_columns() -> None:
    data = "\n".join([HEADER, *(LINE.format(n=n) for n in range(1, 101)), ""]).encode()
    found, rejects = same(data)
    assert (len(found), rejects) == (100, [])
    assert in_columns(data) == 98  # the last line of a block may go on


def test_steps_are_no_rows() -> None:
    lines = [LINE.format(n=f"{n}{step}") for n in range(1, 40) for step in ("", ".batch", ".0")]
    found, _ = same("\n".join([HEADER, *lines, ""]).encode())
    assert len(found) == 39


CELLS: dict[str, tuple[str, ...]] = {
    "JobID": ("7", "7_3", "8+1", "7.batch", "7_[1-3%2]", "7_[0-3", "12345678901234567890123", "x", "", " 9"),
    "JobIDRaw": ("7", "8", "9.extern", "", "x"),
    "JobName": ("a", " a ", "", "a|b", "a\nb", "é", "token=abcdefgh", "2025-02-03T08:00:05"),
    "User": ("mira", "", " mira", "a|b"),
    "UID": ("40", "", "x"),
    "State": ("COMPLETED", "FAILED", "CANCELLED by 40", "FAILED by 40", "CANCELLED+", "PENDING", "RUNNING", "REQUEUED", "", "ODD",
              "completed", "NODE_FAIL", "RESIZING", "REVOKED"),
    "ExitCode": ("0:0", "1:0", "0:9", "0:125", "", "x", "1"),
    "Submit": ("2025-02-03T08:00:00", "Unknown", "None", "", "1738569600"),
    "Start": ("2025-02-03T08:00:05", "Unknown", "2025-02-30T00:00:00", "####", "2025-02-03T08:00:05+09:00", "",
              "2025-02-03 08:00:05", "1969-02-03T08:00:05", "2024-02-29T23:59:60", "2023-02-29T23:59:59"),
    "End": ("2025-02-03T09:00:05", "Unknown", "", "2025-02-03T09:00:61"),
    "ElapsedRaw": ("3600", "0", "", "99999999999", "1-00:00:00"),
    "Elapsed": ("01:00:00", "00:00:00", "1-00:00:00", "", "INVALID"),
    "NNodes": ("2", "1", "", "x"),
    "AllocNodes": ("2", ""),
    "NodeList": ("d[1-2]", "d1", "None assigned", "", "d[1-", "d[1-99999999]", "d1 d2"),
    "ExcNodeList": ("d9", "", "(null)", "d["),
    "AllocTRES": ("cpu=8,gres/gpu=8", "", "gres/gpu:h100=4", "cpu=1 x"),
    "ReqTRES": ("gres/gpu=4", ""),
    "Reason": ("None", "NonZeroExitCode", "Priority", "", "token=abcdefgh"),
    "Partition": ("long", ""),
    "Cluster": ("alpha", "", "be|ta"),
    "WorkDir": ("/home/mira", "", "/a|b", "/a\nb"),
    "SubmitLine": ("sbatch a.sh", "sbatch -x d[7-8] -w d[1-2] a.sh", "sbatch --exclude=d[ a.sh", "", "a\n|b", "x --key abcdefgh"),
    "Colour": ("red", "", "|"),
}  # fmt: skip


@pytest.mark.parametrize(
    "left_out",
    ["", "JobIDRaw", "State", "NodeList", "Start", "ElapsedRaw", "SubmitLine NodeList", "ExcNodeList ReqTRES"],
)
def test_every_pair_of_odd_cells(left_out: str) -> None:
    names = [name for name in CELLS if name not in left_out.split()]
    usual = {name: CELLS[name][0] for name in names}
    odd = [{a: x, b: y} for a, b in combinations(names, 2) for x in CELLS[a][1:] for y in CELLS[b][1:]]
    rows = ["|".join((usual | cells).values()) for cells in odd if not any("\n" in cell for cell in cells.values())]
    found, _ = same("\n".join(["|".join(names), *rows, "|".join(usual.values()), ""]).encode())
    assert len(found) > 1000


@st.composite
def tables(draw: Any) -> bytes:
    out: list[str] = []
    for _ in range(draw(st.integers(1, 2))):
        names = draw(st.lists(st.sampled_from([*CELLS, "JobID", "End"]), min_size=1, max_size=14))
        names = ["JobID", *names] if draw(st.booleans()) else [*names, "JobIDRaw"]
        mark = draw(st.sampled_from(["|", "|", "|", ";", "|#", ","]))
        end = draw(st.sampled_from(["", "", mark]))
        line_end = draw(st.sampled_from(["\n", "\n", "\n", "\r\n"]))
        out.append(mark.join(names) + end + line_end)
        odd = draw(st.sampled_from([1, 3, 30]))  # one cell in so many
        for _ in range(draw(st.integers(0, 12))):
            cells = [
                draw(st.sampled_from(CELLS[name])) if draw(st.integers(1, odd)) == 1 else CELLS[name][0]
                for name in names
            ]
            if draw(st.integers(0, 9)) == 0:
                cells = cells[: draw(st.integers(0, len(cells)))]
            out.append(mark.join(cells) + end + line_end)
            if draw(st.integers(0, 14)) == 0:
                out.append(draw(st.sampled_from(["\n", "sacct: error: x\n", out[0], "-----\n", "\x00\n", "a|b|c\n"])))
    text = "".join(out)
    return text[: draw(st.integers(0, len(text)))].encode() if draw(st.integers(0, 5)) == 0 else text.encode()


@settings(max_examples=400, deadline=None)
@given(tables(), st.sampled_from([1 << 22, 700, 97, 13]))
def test_any_table_gives_the_same_both_ways(data: bytes, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sacct_columns, "_BLOCK", block)
        same(data)


@settings(max_examples=100, deadline=None)
@given(tables(), st.data())
def test_damage_gives_the_same_both_ways(data: bytes, draw: Any) -> None:
    text = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        at = draw.draw(st.integers(0, len(text)))
        text[at : at + draw.draw(st.integers(0, 12))] = draw.draw(st.binary(max_size=6))
    same(bytes(text))


@pytest.mark.parametrize("extra", [b"\xff\xfe", b"\r", b'"', b"'", b"\x00", b"\xe2\x80\xa8", b"\x85", b"\x0b"])
def test_odd_bytes_in_names(extra: bytes) -> None:
    lines = [LINE.format(n=n).encode() for n in range(1, 30)]
    lines[7] = lines[7].replace(b"bert", b"be" + extra + b"rt")
    found, _ = same(b"\n".join([HEADER.encode(), *lines, b""]))
    assert len(found) == 29


def test_a_line_beyond_reason_is_refused_and_costs_no_others() -> None:
    lines = [LINE.format(n=n) for n in range(1, 30)]
    lines.insert(9, "9" * (6 << 20))
    data = "\n".join([HEADER, *lines, ""]).encode()
    found, rejects = same(data)
    assert (len(found), len(rejects)) == (29, 1)
    assert in_columns(data) >= 24


def test_many_headers_cost_no_more_than_their_lines() -> None:
    other = HEADER.replace("JobName", "Account")
    text = "".join(f"{h}\n{LINE.format(n=n)}\n" for n in range(1, 3000) for h in (HEADER, other))
    found, rejects = same(text.encode())
    assert (len(found), rejects) == (5998, [])


def test_refusals_and_rows_of_single_records_come_too() -> None:
    text = "\n".join([HEADER, LINE.format(n=1), LINE.format(n=2).replace("d[1-2]", "d["), LINE.format(n=3), ""])
    items = list(sacct_columns.read_columns(io.BytesIO(text.encode())))
    assert {type(item) for item in items} == {Found, FoundColumns, Refused} or {Found, Refused}
    assert len(same(text.encode())[1]) == 1
