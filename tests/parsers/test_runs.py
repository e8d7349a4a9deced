"""Runs of repeated lines are counted: the rows must be those of reading every line."""

from __future__ import annotations

import io
from dataclasses import astuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers import blocks
from aftershock.parsers.blocks import BlockResult, Window, read_block
from aftershock.parsers.clock import SECOND
from aftershock.parsers.fold import fold
from aftershock.parsers.registry import line_formats
from aftershock.parsers.scan import scanner_for

GAP = 60 * SECOND

XIDS = (
    "NVRM: Xid (PCI:0000:3b:00): 95, pid=4242, name=python3, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No",
    "NVRM: Xid (PCI:0000:3b:00): 13, pid=77, name=train, Graphics SM Warp Exception on (GPC 7, TPC 7, SM 0): x",
    "NVRM: Xid (PCI:0000:3b:00): 13, pid=77, name=train, Graphics Exception: ESR 0x57c730=0xc04000b",
    "nfs: server 192.0.2.5 not responding, still trying",
    "nvme nvme0: nothing of interest",
    "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
    "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.",
)


def of_day(micros: int) -> str:
    second = micros // SECOND % 86400
    return f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def bare(_: int, text: str) -> str:
    return text


def dmesg(micros: int, text: str) -> str:
    return f"[{micros // SECOND:5d}.{micros % SECOND:06d}] {text}"


def wall(micros: int, text: str) -> str:
    return f"[Sun Mar  1 {of_day(micros)} 2026] {text}"


def rfc3164(micros: int, text: str) -> str:
    return f"Mar  1 {of_day(micros)} gpu017 kernel: {dmesg(micros, text)}"


def iso(micros: int, text: str) -> str:
    return f"2026-03-01T{of_day(micros)}.{micros % SECOND:06d}+00:00 gpu017 kernel: {text}"


def rfc5424(micros: int, text: str) -> str:
    return f"<4>1 2026-03-01T{of_day(micros)}.{micros % SECOND:06d}Z gpu017 kernel - - - {dmesg(micros, text)}"


def unix(micros: int, text: str) -> str:
    return f"{1772323200 + micros // SECOND}.{micros % SECOND:06d} gpu017 kernel: {text}"


def kmsg(micros: int, text: str) -> str:
    return f"4,{micros // 7 + 10},{micros},-;{text}"


def journal(micros: int, text: str) -> str:
    real = 1772323200 * SECOND + micros
    return (
        f'{{"__CURSOR":"s=1;i={real * 7 % 65536:04x};t={real:x}","__REALTIME_TIMESTAMP":"{real}",'
        f'"_HOSTNAME":"gpu017","_TRANSPORT":"kernel","MESSAGE":"{text}"}}'
    )


def cri(micros: int, text: str) -> str:
    return f"2026-03-01T{of_day(micros)}.{micros % SECOND:06d}000Z stdout F {dmesg(micros, text)}"


def docker(micros: int, text: str) -> str:
    return f'{{"log":"{dmesg(micros, text)}\\n","stream":"stdout","time":"2026-03-01T{of_day(micros)}Z"}}'


ENVELOPES = (bare, dmesg, wall, rfc3164, iso, rfc5424, unix, kmsg, journal, cri, docker)


def read(data: bytes, size: int, gap: int | None) -> BlockResult:
    scanner = scanner_for(line_formats())
    whole = BlockResult()
    for begin in range(0, len(data), size):
        base = max(0, begin - blocks.REACH)
        stream = io.BytesIO(data)
        stream.seek(base)
        block = read_block(Window(stream, base), begin, begin + size, scanner, gap)
        block.found = fold(block.found, GAP)
        whole.add(block)
    whole.found = fold(whole.found, GAP)
    return whole


def told(result: BlockResult) -> list[object]:
    rows = [(i.offset, i.until, i.reading, i.last, i.mark, i.format, astuple(i.row)) for i in result.found]  # type: ignore[call-overload]
    return [rows, result.records, result.lines, result.refused]


# A stretch of a log: its envelope, the lines of one round, how many rounds, the step from line to line, and what it
# ends with.
STRETCHES = st.lists(
    st.tuples(
        st.sampled_from(ENVELOPES),
        st.lists(st.sampled_from(XIDS), min_size=1, max_size=4),
        st.integers(1, 260),
        st.sampled_from([0, 731, 999_983, 7 * SECOND, 61 * SECOND]),
        st.sampled_from(
            [
                "",
                "last message repeated 3 times\n",
                "    Contained: no\n",
                "[    0.000000] Linux version 6.1.0 (a@b) #1\n",
                "[    3.000000] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.161.07  x\n",
                f"{XIDS[0][:-1]}\n",
                f"[   17.000001] {XIDS[0]}\n",
                "MESSAGE\n",
            ]
        ),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(stretches=STRETCHES, size=st.sampled_from([1 << 30, 9_000, 40_000]), start=st.integers(0, 86_400 * SECOND))
def test_counting_runs_gives_the_rows_of_reading_every_line(
    stretches: list[tuple[object, list[str], int, int, str]], size: int, start: int
) -> None:
    text, now = "", start
    for envelope, texts, rounds, step, ending in stretches:
        for _ in range(rounds):
            for said in texts:
                text += envelope(now, said) + "\n"  # type: ignore[operator]
                now += step
        text += ending
    data = text.encode()
    assert told(read(data, size, GAP)) == told(read(data, size, None))


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_few_lines_of_a_run_are_read(envelope: object, monkeypatch: pytest.MonkeyPatch) -> None:
    read_lines = []
    monkeypatch.setattr(blocks, "read_line", lambda line, *rest: read_lines.append(line) or inner(line, *rest))
    lines = (envelope(500_000 * SECOND // 10 + n * 1000, XIDS[n % 3]) for n in range(3000))  # type: ignore[operator]
    data = "\n".join(lines).encode()
    result = read(data, 1 << 30, GAP)
    assert result.records == 3000
    assert sum(item.row.count or 0 for item in result.found) == 3000  # type: ignore[attr-defined]
    assert len(read_lines) < 400


inner = blocks.read_line


@pytest.mark.parametrize(
    "other",
    [
        XIDS[0].replace("4242", "4243"),  # a digit, but not of a stamp
        XIDS[0].replace("3b", "3c"),
    ],
)
def test_a_line_that_says_something_else_is_read(other: str) -> None:
    lines = [dmesg(n * 1000, other if n == 1500 else XIDS[0]) for n in range(3000)]
    result = read("\n".join(lines).encode(), 1 << 30, GAP)
    assert sorted(item.row.count or 0 for item in result.found) == [1, 2999]  # type: ignore[attr-defined]


def test_a_clock_that_falls_back_ends_a_run() -> None:
    lines = [dmesg(100 * SECOND + n % 1000 * 1000, XIDS[0]) for n in range(3000)]
    lines[1500:] = [line.replace("[  10", "[   2") for line in lines[1500:]]
    result = read("\n".join(lines).encode(), 1 << 30, GAP)
    assert [item.row.count for item in result.found] == [1500, 1500]  # type: ignore[attr-defined]
