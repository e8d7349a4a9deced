"""What the lines around a line say about it: pieces of cut lines, fields of journal entries. No cut changes it."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from aftershock.schemas.events import GpuError
from tests.parsers.exported import XID, facts_of, read_in_ranges, rows_of

STAMP = "2026-03-02T12:00:00.987654321Z"
STAMPED = f"[   12.300000] {XID}"


def cri(text: str, *, part: str = "F", output: str = "stdout") -> str:
    return f"{STAMP} {output} {part} {text}\n"


def docker(text: str, output: str = "stdout") -> str:
    return json.dumps({"log": text, "stream": output, "time": STAMP}, separators=(",", ":")) + "\n"


def pieces(cuts: list[int]) -> list[str]:
    places = sorted({0, *(cut % len(STAMPED) for cut in cuts), len(STAMPED)})
    return [STAMPED[a:b] for a, b in itertools.pairwise(places)]


@settings(max_examples=120)
@given(
    cuts=st.lists(st.integers(0, 10_000), max_size=4),
    between=st.lists(st.sampled_from(["", "hello", "NVRM: loading"]), max_size=3),
    runtime=st.sampled_from(["cri", "docker"]),
    size=st.integers(40, 900),
)
def test_pieces_are_one_record_whatever_the_cuts(cuts: list[int], between: list[str], runtime: str, size: int) -> None:
    parts = pieces(cuts)
    # Docker does not say what is cut: what begins with the driver's words is taken for a record of its own.
    assume(runtime == "cri" or not any(part.startswith("NVRM:") for part in parts[1:]))
    lines = [cri("before") if runtime == "cri" else docker("before\n")]
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if runtime == "cri":
            lines.append(cri(part, part="F" if last else "P"))
            lines += [cri(text, output="stderr") for text in between]
        else:
            lines.append(docker(part + "\n" if last else part))
            lines += [docker(text + "\n", "stderr") for text in between]
    lines.append(cri("after") if runtime == "cri" else docker("after\n"))
    data = "".join(lines).encode()
    for rows in (rows_of(data), read_in_ranges(data, size)):
        errors = [(row.code, row.process, row.message, row.byte_offset) for row in rows if isinstance(row, GpuError)]
        assert errors == [(31, "a.out", XID, len(lines[0]))]


def test_both_outputs_are_joined_each_for_itself() -> None:
    a, b = STAMPED[:40], STAMPED[40:]
    text = cri(a, part="P") + cri(a, part="P", output="stderr") + cri(b) + cri(b, output="stderr")
    assert facts_of(text, "message") == [(XID,), (XID,)]


def test_records_of_docker_that_lost_their_line_ends_stay_apart() -> None:
    text = docker(STAMPED) + docker(STAMPED.replace("12.3", "13.3")) + docker(XID)
    assert facts_of(text, "message", "time_local") == [(XID, "12.300000"), (XID, "13.300000"), (XID, None)]


def test_a_record_of_pieces_as_long_as_runtimes_cut_them() -> None:
    long = "x" * 16_300
    text = cri(f"[   12.300000] {long}", part="P") + cri(long, part="P") + cri(f" [   12.400000] {XID}")
    assert facts_of(text, "code", "byte_offset", "time_local") == [(31, 0, "12.400000")]
    text = cri(f"[   12.300000] {XID} {long[:16_000]}", part="P") + cri(long, output="stderr") + cri(long)
    assert facts_of(text, "code", "byte_offset") == [(31, 0)]


ENTRY = "__REALTIME_TIMESTAMP=1772452800250000\n_TRANSPORT=kernel\n_HOSTNAME=n-1\n"


def binary(message: bytes) -> bytes:
    return b"MESSAGE\n" + len(message).to_bytes(8, "little") + message + b"\n"


@pytest.mark.parametrize("length", [len(XID), 256, 266, 512, 2560, 2570])  # 10 is the line end
def test_a_message_of_raw_bytes_of_any_length(length: int) -> None:
    message = XID.encode().ljust(length - 1) + b"\x07" if length > len(XID) else XID.encode()
    data = ENTRY.encode() + binary(message) + b"PRIORITY=3\n\n"
    assert facts_of(data, "code", "time", "host", "trust") == [(31, 1_772_452_800_250_000, "n-1", "kernel")]
    assert facts_of(binary(message) + ENTRY.encode() + b"\n", "time", "host") == [(1_772_452_800_250_000, "n-1")]


def test_every_line_of_raw_bytes_is_a_line() -> None:
    data = b"MESSAGE=x\n\n" + ENTRY.encode() + binary(f"first\n{STAMPED}\nlast".encode()) + b"\n"
    assert facts_of(data, "message", "time") == [(XID, 1_772_452_800_250_000)]


def test_an_entry_ends_at_a_blank_line() -> None:
    text = f"__REALTIME_TIMESTAMP=1772452800000000\n_HOSTNAME=n-9\n\nMESSAGE={XID}\n_HOSTNAME=n-1\n_TRANSPORT=kernel\n\n_HOSTNAME=n-8\n"
    assert facts_of(text, "time", "host") == [(None, "n-1")]


def test_an_entry_of_another_program_is_none() -> None:
    assert rows_of(f"{ENTRY.replace('kernel', 'syslog')}SYSLOG_IDENTIFIER=python3\nMESSAGE={XID}\n\n") == []
    text = f"Mon 2026-03-02 12:00:00 UTC [s=0b;i=2;b=ff;m=1;t=2;x=5]\n    SYSLOG_IDENTIFIER=bash\n    MESSAGE={XID}\n"
    assert rows_of(text) == []


@settings(max_examples=60)
@given(size=st.integers(30, 400), raw=st.booleans())
def test_entries_do_not_hang_on_cuts(size: int, raw: bool) -> None:
    message = binary(XID.encode()) if raw else f"MESSAGE={XID}\n".encode()
    data = b"".join(ENTRY.replace("0250000", f"{n:07d}").encode() + message + b"PRIORITY=3\n\n" for n in range(5))
    rows = [row for row in read_in_ranges(data, size) if isinstance(row, GpuError)]
    assert [row.time for row in rows] == [1_772_452_800_000_000 + n for n in range(5)]


WRAPPED = "[168429.114550] NVRM: Xid (PCI:0000:9d:00): 94, pid='<unknown>', name=<unknown>, Contained: CE User Channel (0x9). RST: No"


@pytest.mark.parametrize("width", [80, 100])
def test_a_record_that_a_terminal_broke(width: int) -> None:
    text = f"{WRAPPED[:width]}\n{WRAPPED[width:]}\n[168429.2] usb 1-1: new device\n"
    assert facts_of(text, "code", "message") == [(94, WRAPPED[17 - 1 :])]


@pytest.mark.parametrize("at", [34, 41, 46, 47])
def test_a_record_that_has_no_event_without_its_rest(at: int) -> None:
    text = f"{WRAPPED[:at]}\n{WRAPPED[at:]}\n"
    assert facts_of(text, "code", "pci") == [(94, "0000:9d:00.0")]


def test_a_record_that_was_broken_at_a_comma() -> None:
    head, tail = WRAPPED.split(" Contained")
    assert facts_of(f"{head}\nContained{tail}\n", "message") == [(WRAPPED[16:],)]
    assert facts_of("[ 12.3] NVRM: Xid (PCI:0000:9d:00): 94,\npid=7, name=a.out, Ch 3\n", "pid", "process") == [
        (7, "a.out")
    ]


def test_a_line_below_that_is_another_record_is_not_taken() -> None:
    for below in ("[ 12.4] usb 1-1: new device", "usb 1-1: new device", XID, ""):
        messages = facts_of(f"[   12.300000] {XID}\n{below}\n", "message")
        assert messages[0] == (XID,)


@pytest.mark.parametrize(
    ("below", "count"),
    [
        ("Mar  2 12:00:09 n-1 last message repeated 3 times", 4),
        ("Mar  2 12:00:09 n-1 --- last message repeated 3 times ---", 4),
        ("Mar  2 12:00:09 n-2 last message repeated 3 times", 1),
        ("Mar  2 12:00:09 n-1 kernel: net_ratelimit: 12 callbacks suppressed", 1),
        ("Mar  2 12:00:09 n-1 kernel: __ratelimit: 5 callbacks suppressed", 1),
    ],
)
def test_counts_where_the_text_states_them(below: str, count: int) -> None:
    assert facts_of(f"Mar  2 12:00:00 n-1 kernel: {XID}\n{below}\n", "count") == [(count,)]


def test_a_record_that_says_how_many_were_suppressed() -> None:
    assert facts_of(f"[ 12.3] {XID} (5 similar messages suppressed)\n", "count") == [(6,)]


def test_another_line_of_a_message_as_verbose_prints_it() -> None:
    def entry(number: int, *lines: str) -> str:
        message = ("\n" + " " * 12).join(lines)
        head = (
            f"Sun 2026-03-01 12:00:0{number}.123456 UTC [s=ab;i={number};b=cd;m={number + 16:x};t=64bfa0f2f1a40;x=1]\n"
        )
        return f"{head}    _TRANSPORT=kernel\n    MESSAGE={message}\n    _HOSTNAME=n-{number}\n    PRIORITY=3\n"

    text = entry(1, "first", XID, "last") + entry(2, "first", "second", XID) + entry(3, XID, "last")
    assert facts_of(text, "host", "uptime_s", "trust") == [
        ("n-1", 17e-6, "kernel"),
        ("n-2", 18e-6, "kernel"),
        ("n-3", 19e-6, "kernel"),
    ]
    assert facts_of(f"notes:\n{' ' * 12}{XID}\n", "host") == []
