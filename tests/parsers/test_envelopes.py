"""Envelopes: every layer, layers in layers, and that nothing in a line can make unwrapping fail."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.clock import MINUTE, SECOND, Reading
from aftershock.parsers.envelopes import MOST_LAYERS, unwrap
from aftershock.parsers.envelopes.months import month_number
from tests.timing import seconds


def micros(text: str) -> int:
    """Microseconds of an ISO time, read as UTC where it has no zone."""
    moment = dt.datetime.fromisoformat(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.timezone.utc)
    return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)) // dt.timedelta(microseconds=1)


# line, layers, host, program, kind, wall clock (UTC or as printed), seconds since boot
STAMPS = [
    (b"May  7 01:39:28 n-1 kernel: x", "rfc3164", "n-1", "kernel", "yearless", "1972-05-07T01:39:28", None),
    (b"May 07 01:39:28.250000 n-1 kernel: x", "rfc3164", "n-1", "kernel", "yearless", "1972-05-07T01:39:28.25", None),
    (b"May  7 2025 01:39:28 n-1 kernel: x", "rfc3164", "n-1", "kernel", "local", "2025-05-07T01:39:28", None),
    (b"2025 May  7 01:39:28 n-1 kernel: x", "rfc3164", "n-1", "kernel", "local", "2025-05-07T01:39:28", None),
    (b"May  7 01:39:28 2025 n-1 kernel: x", "rfc3164", "n-1", "kernel", "local", "2025-05-07T01:39:28", None),
    (b"May  7 01:39:28.250 2025 n-1 app[7]: x", "rfc3164", "n-1", "app", "local", "2025-05-07T01:39:28.25", None),
    (b"2026/03/01 12:00:00 n-1 kernel: x", "iso", "n-1", "kernel", "local", "2026-03-01T12:00:00", None),
    (b"812:May  7 01:39:28 n-1 kernel: x", "grep+rfc3164", "n-1", "kernel", "yearless", "1972-05-07T01:39:28", None),
    (b"812:[   12.500000] x", "grep+dmesg", None, None, "none", None, 12.5),
    (b"2026-03-01T12:00:00,250Z n-1 kernel: x", "iso", "n-1", "kernel", "zoned", "2026-03-01T12:00:00.25", None),
    (b"2026-03-01T12:00:00,250125Z n-1 kernel: x", "iso", "n-1", "kernel", "zoned", "2026-03-01T12:00:00.250125", None),
    (b"2026-03-01T12:00:00.250000+00:00 n-1/kern kernel: x", "cloudwatch+tag", "n-1", "kernel", "zoned", "2026-03-01T12:00:00.25", None),
    (b"Feb 29 00:00:60 n-1 kernel: x", "rfc3164", "n-1", "kernel", "yearless", "1972-02-29T00:01:00", None),
    ("6月 27 03:51:52 n-1 kernel: x".encode(), "rfc3164", "n-1", "kernel", "yearless", "1972-06-27T03:51:52", None),
    ("6월 27 03:51:52 n-1 kernel: x".encode(), "rfc3164", "n-1", "kernel", "yearless", "1972-06-27T03:51:52", None),
    ("févr. 27 03:51:52 n-1 kernel: x".encode(), "rfc3164", "n-1", "kernel", "yearless", "1972-02-27T03:51:52", None),
    ("Mär 27 03:51:52 n-1 kernel: x".encode(), "rfc3164", "n-1", "kernel", "yearless", "1972-03-27T03:51:52", None),
    (b"Okt 27 03:51:52 n-1 kernel: x", "rfc3164", "n-1", "kernel", "yearless", "1972-10-27T03:51:52", None),
    (b"ene 27 03:51:52 n-1 kernel: x", "rfc3164", "n-1", "kernel", "yearless", "1972-01-27T03:51:52", None),
    (b"May  7 01:39:28 kernel: x", "rfc3164", None, "kernel", "yearless", "1972-05-07T01:39:28", None),
    (b"May  7 01:39:28 n-1 slurmd[77]: x", "rfc3164", "n-1", "slurmd", "yearless", "1972-05-07T01:39:28", None),
    (b"May  7 01:39:28 fe80::17 kernel: x", "rfc3164", "fe80::17", "kernel", "yearless", "1972-05-07T01:39:28", None),
    (b"<4>May  7 01:39:28 n-1 kernel: x", "rfc3164", "n-1", "kernel", "yearless", "1972-05-07T01:39:28", None),
    (b"May  7 01:39:28 n-1 kern.err kernel: x", "rfc3164", "n-1", "kernel", "yearless", "1972-05-07T01:39:28", None),
    (b"2026-03-01T12:00:00+0900 n-1 kernel: x", "iso", "n-1", "kernel", "zoned", "2026-03-01T03:00:00", None),
    (b"2026-03-01T12:00:00.5-07:00 n-1 kernel: x", "iso", "n-1", "kernel", "zoned", "2026-03-01T19:00:00.5", None),
    (b"2026-03-01T12:00:00 n-1 kernel: x", "iso", "n-1", "kernel", "local", "2026-03-01T12:00:00", None),
    (b"2026-03-01 12:00:00 n-1 kernel: x", "iso", "n-1", "kernel", "local", "2026-03-01T12:00:00", None),
    (b"Sun 2026-03-01 12:00:00 UTC n-1 kernel: x", "iso", "n-1", "kernel", "zoned", "2026-03-01T12:00:00", None),
    (b"Sun 2026-03-01 12:00:00 KST n-1 kernel: x", "iso", "n-1", "kernel", "local", "2026-03-01T12:00:00", None),
    (b"1757508815.654321 n-1 kernel: x", "journalctl", "n-1", "kernel", "epoch", "2025-09-10T12:53:35.654321", None),
    (b"<4>1 2026-03-01T12:00:00.5+00:00 n-1 kernel - - - x", "rfc5424", "n-1", "kernel", "zoned", "2026-03-01T12:00:00.5", None),
    (b'<4>1 2026-03-01T12:00:00Z n-1 app 7 ID [a b="c\\]"][d] \xef\xbb\xbfx', "rfc5424", "n-1", "app", "zoned", "2026-03-01T12:00:00", None),
    (b"<4>1 - - - - - - x", "rfc5424", None, None, "none", None, None),
    (b"[   52.731904] x", "dmesg", None, None, "none", None, 52.731904),
    (b"[   52.731904] [ T1946] x", "dmesg", None, None, "none", None, 52.731904),
    (b"[   52.731904][    C3] x", "dmesg", None, None, "none", None, 52.731904),
    (b"[   52.731904 <    0.000004>] x", "dmesg", None, None, "none", None, 52.731904),
    (b"[1757508815.654321] x", "dmesg", None, None, "epoch", "2025-09-10T12:53:35.654321", None),
    (b"[ 4117.304981] n-1 kernel: x", "dmesg", "n-1", "kernel", "none", None, 4117.304981),
    (b"[Sat Aug 31 10:44:08 2024] x", "dmesg", None, None, "local", "2024-08-31T10:44:08", None),
    ("[五 8月 31 10:44:08 2024] x".encode(), "dmesg", None, None, "local", "2024-08-31T10:44:08", None),
    (b"[Aug31 10:44] x", "dmesg", None, None, "yearless", "1972-08-31T10:44:00", None),
    (b"[  +0.000004] x", "dmesg", None, None, "none", None, None),
    (b"<4>[   52.731904] x", "dmesg", None, None, "none", None, 52.731904),
    (b"kern  :warn  : [   52.731904] x", "dmesg-x+dmesg", None, None, "none", None, 52.731904),
    (b"kern  :err   : 2025-01-22T05:42:45,385061+00:00 x", "dmesg-x+dmesg", None, None, "zoned", "2025-01-22T05:42:45.385061", None),
    (b"2025-01-22T05:42:45,385061+01:00 x", "dmesg", None, None, "zoned", "2025-01-22T04:42:45.385061", None),
    (b"6,77,52731904,-;x", "kmsg", None, None, "none", None, 52.731904),
    (b"6,77,52731904,-,caller=T1;x", "kmsg", None, None, "none", None, 52.731904),
    (b"192.0.2.9: kern:     err: [2026-05-05T05:05:05.000000009Z]: x", "talos", "192.0.2.9", None, "zoned", "2026-05-05T05:05:05", None),
    (b"          <idle>-0       [007] d.h1.   200.000001: nvidia_dev_xid: x", "ftrace", None, "nvidia_dev_xid", "none", None, 200.000001),
    (b"[2026-12-01T20:11:09.190] x", "slurm", None, None, "local", "2026-12-01T20:11:09.19", None),
    (b"[2026-12-01T20:11:09] x", "slurm", None, None, "local", "2026-12-01T20:11:09", None),
    (b"[2026-12-01T20:11:09.190+09:00] x", "slurm", None, None, "zoned", "2026-12-01T11:11:09.19", None),
    (b"[May 01 10:20:30] x", "slurm", None, None, "yearless", "1972-05-01T10:20:30", None),
    (b"[May  1 10:20:30.190    12345 srvcn           0x7f2a11b2c700] x", "slurm", None, None, "yearless", "1972-05-01T10:20:30.00019", None),
    (b"[Feb 11 2025 10:11:12] x", "stamp", None, None, "local", "2025-02-11T10:11:12", None),
    (b"Sat Aug 31 10:44:08 2024 x", "asctime", None, None, "local", "2024-08-31T10:44:08", None),
    (b'{"__REALTIME_TIMESTAMP":"1757508815654321","_HOSTNAME":"n-1","_TRANSPORT":"kernel","MESSAGE":"x"}', "journal", "n-1", "kernel", "epoch", "2025-09-10T12:53:35.654321", None),
    (b'{"__MONOTONIC_TIMESTAMP":"52731904","_TRANSPORT":"kernel","MESSAGE":[120]}', "journal", None, "kernel", "none", None, 52.731904),
    (b'{"log":"x\\n","stream":"stderr","time":"2026-02-02T02:02:02.5Z"}', "docker", None, None, "none", None, None),
    (b"2026-03-01T12:00:00.987654321Z stdout F x", "cri", None, None, "none", None, None),
    (b"2026-03-01T12:00:00.987654321Z x", "collected", None, None, "none", None, None),
    (b"kernel: x", "tag", None, "kernel", "none", None, None),
    (b" kernel:[   52.731904] x", "tag+dmesg", None, "kernel", "none", None, 52.731904),
    (b"n-9: May  7 01:39:28 n-1 kernel: x", "label+rfc3164", "n-1", "kernel", "yearless", "1972-05-07T01:39:28", None),
    (b'ok: [n-1] => {"log":"[   52.731904] x","stream":"stdout","time":"2026"}', "label+docker+dmesg", "n-1", None, "none", None, 52.731904),
    (b"May  7 01:39:30 relay May  7 01:39:28 n-1 kernel: x", "rfc3164+rfc3164", "n-1", "kernel", "yearless", "1972-05-07T01:39:28", None),
    (b"2026-03-01T12:00:05Z relay 2026-03-01T12:00:00Z n-1 kernel: x", "iso+iso", "n-1", "kernel", "zoned", "2026-03-01T12:00:00", None),
    (b"<4>1 2026-03-01T12:00:05Z relay - - - - May  7 01:39:28 n-1 kernel: x", "rfc5424+rfc3164", "n-1", "kernel", "yearless", "1972-05-07T01:39:28", None),
    (b"n-1 login: [   52.731904] x", "console+dmesg", "n-1", None, "none", None, 52.731904),
    (b"/var/log/kern.log:17:May  7 01:39:28 n-1 kernel: x", "grep+rfc3164", "n-1", "kernel", "yearless", "1972-05-07T01:39:28", None),
    (b"./n-1/messages-20260301:2026-03-01T12:00:00Z n-1 kernel: x", "grep+iso", "n-1", "kernel", "zoned", "2026-03-01T12:00:00", None),
    (b"kern.log.2.gz:[   52.731904] x", "grep+dmesg", None, None, "none", None, 52.731904),
    (b"gpu017: [   52.731904] x", "label+dmesg", "gpu017", None, "none", None, 52.731904),
    (b"x", "plain", None, None, "none", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("line", "names", "host", "tag", "kind", "wall", "boot"), STAMPS)
def test_every_envelope(
    line: bytes, names: str, host: str | None, tag: str | None, kind: str, wall: str | None, boot: float | None
) -> None:
    envelope = unwrap(line)
    assert envelope.message == b"x"
    assert "+".join(envelope.names) == names
    assert (envelope.host, envelope.tag) == (host, tag)
    assert envelope.reading.kind == kind
    assert envelope.reading.wall == (None if wall is None else micros(wall))
    assert envelope.reading.boot == (None if boot is None else round(boot * SECOND))


@pytest.mark.parametrize(
    ("line", "facility", "level"),
    [
        (b"<4>[ 1.5] x", 0, 4),
        (b"<13>May  7 01:39:28 n-1 me: x", 1, 5),
        (b"11,22,33,-;x", 1, 3),
        (b"user  :notice: [ 1.5] x", 1, 5),
        (b"192.0.2.9: kern: warning: [2026-05-05T05:05:05Z]: x", 0, 4),
        (b'{"_TRANSPORT":"kernel","SYSLOG_FACILITY":"0","PRIORITY":"3","MESSAGE":"x"}', 0, 3),
        (b"<999>x", None, None),
    ],
)
def test_facility_and_level(line: bytes, facility: int | None, level: int | None) -> None:
    envelope = unwrap(line)
    assert (envelope.facility, envelope.level) == (facility, level)


def test_the_clock_of_the_kernel_stands_beside_that_of_syslog() -> None:
    reading = unwrap(b"May  7 01:39:28 n-1 kernel: [ 4117.304981] x").reading
    assert reading == Reading("yearless", micros("1972-05-07T01:39:28"), 4_117_304_981, None, SECOND, "May  7 01:39:28")


def test_an_absolute_time_around_a_local_one_is_its_anchor() -> None:
    reading = unwrap(b"2026-12-01T11:11:09.195000+00:00 ctl slurmctld[7]: [2026-12-01T20:11:09.190] x").reading
    assert (reading.kind, reading.wall) == ("local", micros("2026-12-01T20:11:09.19"))
    assert reading.epoch == micros("2026-12-01T11:11:09.195")


def test_escapes_of_the_kernel_are_read_in_its_own_records_only() -> None:
    escaped = rb"name=na\xc3\xafve \x5c \x09 \xzz"
    assert unwrap(b"3,7,52731904,-;" + escaped).message == "name=na\u00efve \\ ".encode() + rb"\x09 \xzz"
    assert unwrap(b"[   52.731904] " + escaped).message == escaped


def test_days_that_do_not_exist_are_no_time() -> None:
    for line in (b"Feb 30 01:39:28 n-1 kernel: x", b"2026-02-30T01:39:28Z n-1 kernel: x", b"[2026-02-30T01:39:28] x"):
        reading = unwrap(line).reading
        assert (reading.kind, reading.wall) == ("none", None)
        assert reading.text is not None
        assert "30" in reading.text


def test_resolution_is_what_was_printed() -> None:
    assert unwrap(b"[  49.26] x").reading.resolution == 10_000
    assert unwrap(b"May  7 01:39:28 n-1 kernel: x").reading.resolution == SECOND
    assert unwrap(b"[Aug31 10:44] x").reading.resolution == MINUTE
    assert unwrap(b"[2026-12-01T20:11:09.190] x").reading.resolution == 1_000


def test_a_pod_that_prints_the_kernel_log() -> None:
    envelope = unwrap(b"2026-03-01T12:00:00.987654321Z stdout F kern  :warn  : [23456.789012] x")
    assert envelope.names == ("cri", "dmesg-x", "dmesg")
    assert envelope.reading.kind == "none"
    assert envelope.reading.boot == 23_456_789_012
    assert envelope.labels == {"collected": "2026-03-01T12:00:00.987654321Z", "stream": "stdout"}


def test_partial_lines_are_marked() -> None:
    labels = unwrap(b"2026-03-01T12:00:00Z stdout P half of a li").labels
    assert labels is not None
    assert labels["partial"] == "P"


def test_repeats_keep_the_outer_clock() -> None:
    envelope = unwrap(b"May  7 01:39:33 n-1 kernel: message repeated 5 times: [ [ 4117.304981] x]")
    assert envelope.message == b"x"
    assert envelope.labels == {"repeated": "5"}
    assert (envelope.reading.wall, envelope.reading.boot) == (micros("1972-05-07T01:39:33"), None)
    other = unwrap(b"May  7 01:39:33 n-1 Last message 'x' repeated 7 times, suppressed by syslog-ng on n-1")
    assert (other.message, other.labels) == (b"x", {"repeated": "7"})


def test_colours_line_ends_and_zero_bytes_go() -> None:
    assert unwrap(b"\x1b[32m[23456.789012] \x1b[0m\x1b[33mNVRM\x1b[0m: x\r\n").message == b"NVRM: x"
    assert unwrap(b"#033[31mx#033[0m").message == b"x"
    assert unwrap(b"\0\0\0May  7 01:39:28 n-1 kernel: x").message == b"x"
    assert unwrap(b"\xef\xbb\xbf[ 1.5] x").message == b"x"
    assert unwrap(b'{"log":"\\u001b[31m[ 1.5] x\\u001b[0m\\n","stream":"stdout"}').message == b"x"


@pytest.mark.parametrize(
    "line",
    [
        b"iteration 12/ 500 | loss 2.5",
        b"NVRM: Xid (PCI:0000:9d:00): 79, x",
        b"2026-03-01 12:00:00 UTC [4242] ERROR:  could not",
        b"2026-03-01 12:00:00,123 INFO trainer: step 5",
        b"2026/03/01 12:00:00 trainer: step 5",
        b"12:30:05 x",
        b"Example: NVRM: Xid (PCI:0000:9d:00): 79",
        b"foo 12 10:20:30 is no date",
        b'{"level":"info","msg":"text"}',
        b'{"log":',
        b"[rank3]: Traceback",
        b"12 monkeys",
    ],
)
def test_what_is_no_envelope_stays_whole(line: bytes) -> None:
    envelope = unwrap(line)
    assert envelope.names == ("plain",)
    assert envelope.message == line


def test_a_program_cannot_pass_for_the_kernel() -> None:
    assert unwrap(b"May  7 01:39:28 n-1 python[7]: May  7 01:39:28 n-1 kernel: x").tag == "python"
    assert unwrap(b"May  7 01:39:28 n-1 python[7]: kernel: x").tag == "python"


def test_months_that_are_ambiguous_are_none() -> None:
    assert month_number(b"lis") is None
    assert month_number(b"foo") is None
    assert month_number("ตุลาคม".encode()) == 10


@pytest.mark.parametrize(("name", "number"), [("Mär", 3), ("févr.", 2), ("août", 8), ("déc.", 12)])
def test_months_in_latin_1(name: str, number: int) -> None:
    assert month_number(name.encode("latin-1")) == month_number(name.encode()) == number
    envelope = unwrap(f"{name} 07 01:39:28 n-1 kernel: x".encode("latin-1"))
    assert (envelope.host, envelope.tag, envelope.message) == ("n-1", "kernel", b"x")


PREFIXES = [line[:-1] for line, *_ in STAMPS if line.endswith(b" x")]


@given(st.binary(max_size=400))
def test_arbitrary_bytes_never_raise(data: bytes) -> None:
    unwrap(data)


@given(st.lists(st.sampled_from(PREFIXES), max_size=9), st.binary(max_size=60))
def test_nested_prefixes_never_raise_and_are_bounded(prefixes: list[bytes], tail: bytes) -> None:
    envelope = unwrap(b"".join(prefixes) + tail)
    assert 1 <= len(envelope.names) <= MOST_LAYERS


@pytest.mark.parametrize("line", [b"[ " * 500_000, b"\x1b]" * 500_000, b"<4>" * 300_000, b'{"log":"' * 100_000, b"a" * 1_000_000, b" " * 1_000_000, b"1 " * 500_000, b"[May " * 200_000])  # fmt: skip
def test_long_lines_take_linear_time(line: bytes) -> None:
    assert seconds(lambda: unwrap(line), enough=1.0) < 1.0


def test_a_job_step_in_a_log_of_slurm_is_no_clock() -> None:
    envelope = unwrap(b"[2026-03-01T12:00:00.124] [41.0] task 0 (17189) started")
    assert envelope.names == ("slurm",)
    assert envelope.reading.boot is None
    assert envelope.message == b"[41.0] task 0 (17189) started"
