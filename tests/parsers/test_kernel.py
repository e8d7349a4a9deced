"""Kernel lines: every shape of Xid and SXid, what is joined, what is no event."""

from __future__ import annotations

from typing import Any

import pytest

from aftershock.parsers import dcgm_policy, fabric_manager, kernel, vgpu, windows_events
from aftershock.parsers.envelopes import unwrap
from aftershock.parsers.formats import Found, Line, LineFormat, Refused
from aftershock.parsers.selfcheck import problems_of, rows_of_text
from aftershock.schemas.columns import Row
from aftershock.schemas.events import GpuError

FORMATS = [m.FORMAT for m in (kernel, fabric_manager, vgpu, windows_events, dcgm_policy)]


def read_line(text: bytes, following: bytes = b"") -> list[Found | Refused]:
    return list(kernel.read(Line(0, text, unwrap(text), following)))


def settled(text: str) -> list[Row]:
    """The rows of a text, all lines read and settled."""
    data = text.encode("utf-8")
    found: list[Found] = []
    offset = 0
    for line in data.splitlines(keepends=True):
        end = offset + len(line)
        items = kernel.read(Line(offset, line.rstrip(b"\r\n"), unwrap(line.rstrip(b"\r\n")), data[end : end + 8192]))
        found += [item for item in items if isinstance(item, Found)]
        offset = end
    return [item.row for item in kernel.FORMAT.settle(found)]


def only(text: str, **fields: Any) -> None:
    rows = settled(text)
    assert len(rows) == 1, rows
    got = {name: getattr(rows[0], name) for name in fields}
    assert got == fields


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_samples_prove_the_format(fmt: LineFormat) -> None:
    assert problems_of(fmt) == []
    assert len(fmt.non_samples) >= len(fmt.samples)


@pytest.mark.parametrize(
    ("place", "pci", "raw"),
    [
        ("PCI:0000:9d:00", "0000:9d:00.0", "0000:9d:00"),
        ("0000:9d:00", "0000:9d:00.0", "0000:9d:00"),
        ("9d:00", "0000:9d:00.0", "9d:00"),
        ("PCI:00000000:9D:1E.0", "0000:9d:1e.0", "00000000:9D:1E.0"),
        ("PCI:000b:00:00", "000b:00:00.0", "000b:00:00"),
        ("PCI:00010000:9d:00.2", "00010000:9d:00.2", "00010000:9d:00.2"),
        ("PCI:...", None, "..."),
        ("PCI:0000:XX:00", None, "0000:XX:00"),
        ("PCI:<redacted>", None, "<redacted>"),
    ],
)
def test_addresses(place: str, pci: str | None, raw: str) -> None:
    only(f"NVRM: Xid ({place}): 79, GPU has fallen off the bus.", code=79, pci=pci, pci_raw=raw)


@pytest.mark.parametrize(
    ("process", "pid", "name"),
    [
        ("", None, None),
        ("pid=17, ", 17, None),
        ("name=a.out, ", None, "a.out"),
        ("pid=17, name=a.out, ", 17, "a.out"),
        ("pid='17', name='a.out', ", 17, "a.out"),
        ("pid='<unknown>', name=<unknown>, ", None, None),
        ("pid=<unknown>, name=<unknown>, ", None, None),
        ("pid=, name=, ", None, None),
        ("pid=17, name=Web Content, ", 17, "Web Content"),
        ("pid=17, name=(sd-pam), ", 17, "(sd-pam)"),
        ("pid=17, name=a,b, ", 17, "a,b"),
        ("pid=17, name=a, b, ", 17, "a, b"),
        ("pid=17, name=x): 79, y, ", 17, "x): 79, y"),
        ("pid=17, name=Stray-Win64-Shi, ", 17, "Stray-Win64-Shi"),
    ],
)
def test_processes(process: str, pid: int | None, name: str | None) -> None:
    only(f"NVRM: Xid (PCI:0000:9d:00): 43, {process}Ch 00000008, x", code=43, pid=pid, process=name)


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("NVRM: Xid (PCI:0000:9d:00): 46", {"code": 46}),
        ("NVRM: Xid (PCI:0000:9d:00): 79, GPU has fallen off the bus.)", {"code": 79}),
        ("NVRM: Xid (PCI:0000:9d:00): 62, 0a36(3164) 00000000", {"code": 62, "pid": None}),
        ("NVRM: Xid (0000:9d:00): 13, 0005 00000000", {"code": 13, "pid": None}),
        ("NVRM: Xid (PCI:0000:9d:00): 901, something new", {"code": 901}),
        ("NVRM: Xid (PCI:0000:9d:00 GPU-I:05): 94, pid=7, Contained: CE", {"mig_gi": 5, "mig_ci": None, "pid": 7}),
        ("NVRM: Xid (PCI:0000:9d:00 GPU-I:05 GPU-CI:02): 43, Ch 8", {"mig_gi": 5, "mig_ci": 2}),
        ("NVRM: Xid (PCI:0000:9d:00): 45, Ch 1 caused by previous Xid 149", {"code": 45, "caused_by": 149}),
        (
            "NVRM: Xid (PCI:0000:9d:00): 154, GPU recovery action changed from 0x2 (Node Reboot) to 0x0 (None)",
            {"recovery_from": "Node Reboot", "recovery_to": "None"},
        ),
        (
            "NVRM: Xid (PCI:0000:9d:00): 154, GPU recovery action changed from 0x0 to 0x4",
            {"recovery_from": "None", "recovery_to": "Drain and Reset"},
        ),
        (
            "NVRM: Xid (PCI:0000:9d:00): 145, RLW_RXPIPE Nonfatal XC1 i0 Link 07 (0x1 0x2 0x0",
            {"unit": "RLW_RXPIPE", "severity": "nonfatal", "link": 7, "trust": "kernel"},
        ),
        (
            "NVRM: Xid (PCI:0000:9d:00): 144, SAW_MVB Fatal XC0 i1 Link -1 (0x1 0x2)",
            {"unit": "SAW_MVB", "severity": "fatal", "link": None, "trust": "injected"},
        ),
        ("NVRM: Xid (PCI:0000:9d:00): 74, NVLink: fatal error detected on link 6(0x0)", {"link": 6}),
        (
            "nvidia-nvswitch2: SXid (PCI:0000:84:00.0): 24007, Fatal, Link 14 sourcetrack timeout error (First)",
            {"family": "sxid", "severity": "fatal", "link": 14},
        ),
        (
            "nvidia-nvswitch2: SXid (PCI:0000:84:00.0): 10001, Non-fatal, PRI WRITE SYSB error, instance=3",
            {"family": "sxid", "severity": "nonfatal", "link": None},
        ),
        ("nvidia-nvswitch2: SXid (PCI:0000:84:00.0): 12022, Correctable, x", {"severity": "correctable"}),
    ],
)
def test_bodies(line: str, fields: dict[str, Any]) -> None:
    only(line, **fields)


MESSAGES = [
    (b"NVRM: Xid (PCI:0000:9d:00): 31, pid=7, name=a.out, Ch 00000010", 31, "0000:9d:00.0"),
    (b"NVRM: Xid (PCI:00000000:9E:00.0): 45, Ch 1 caused by previous Xid 31", 45, "0000:9e:00.0"),
    (b"NVRM: Xid (0000:05:00): 3, C 00000005", 3, "0000:05:00.0"),
    (b"nvidia-nvswitch2: SXid (PCI:0000:84:00.0): 12022, Non-fatal, Link 3 x", 12022, "0000:84:00.0"),
]
ENVELOPES = [
    b"%s",
    b"kernel: %s",
    b"May  7 01:39:28 n-1 kernel: %s",
    b"May  7 01:39:28 n-1 kernel: [ 4117.304981] %s",
    b"<4>May  7 01:39:28 n-1 kernel: %s\r",
    "6月 27 03:51:52 n-1 kernel: %s".encode(),
    b"2026-03-01T12:00:00+0900 n-1 kernel: %s",
    b"1757508815.654321 n-1 kernel: %s",
    b"<4>1 2026-03-01T12:00:00Z n-1 kernel - - - [ 4242.000001] %s",
    b"[   52.731904] %s",
    b"[   52.731904][ T1946] %s",
    b"[Sat Aug 31 10:44:08 2024] %s",
    b"kern  :err   : [   52.731904] %s",
    b"<3>[   52.731904] %s",
    b"4,77,52731904,-;%s",
    b"192.0.2.9: kern:     err: [2026-05-05T05:05:05.000000009Z]: %s",
    b"gpu017: [   52.731904] %s",
    b"3: [   52.731904] %s",
    b"MESSAGE=%s",
    b"2026-03-01T12:00:00.987654321Z stdout F kern  :err   : [   52.731904] %s",
    b'{"__REALTIME_TIMESTAMP":"1757508815654321","_TRANSPORT":"kernel","MESSAGE":"%s"}',
    b'{"log":"[   52.731904] %s\\n","stream":"stderr","time":"2026-02-02T02:02:02.5Z"}',
    b'{"event":{"Message":"%s"}}',
    b'  "Message" : "%s",',
    b"\x1b[32m[   52.731904] \x1b[0m\x1b[33m%s\x1b[0m",
]


@pytest.mark.parametrize("envelope", ENVELOPES)
@pytest.mark.parametrize(("message", "code", "pci"), MESSAGES)
def test_any_message_in_any_envelope(envelope: bytes, message: bytes, code: int, pci: str) -> None:
    items = read_line(envelope % message)
    assert len(items) == 1
    assert isinstance(items[0], Found)
    row = items[0].row
    assert isinstance(row, GpuError)
    assert (row.code, row.pci, row.message) == (code, pci, message.decode())


@pytest.mark.parametrize(
    ("line", "trust"),
    [
        (b"[ 1.5] %s", "kernel"),
        (b"%s", "kernel"),
        (b"12,77,1500000,-;%s", "user"),
        (b"user  :notice: [ 1.5] %s", "user"),
        (b'{"_TRANSPORT":"syslog","SYSLOG_IDENTIFIER":"kernel","MESSAGE":"%s"}', "user"),
        (b"2026-03-01T12:00:00Z stdout F [ 1.5] %s", "relayed"),
        (b"May  7 01:39:28 n-1 gpud[7]: %s", "relayed"),
        (b'{"node":"n-1","text":"%s"}', "relayed"),
        (b'level=error msg="%s"', "relayed"),
        (b"E0505 12:00:00.000000 1 watch.go:12] %s", "relayed"),
    ],
)
def test_trust(line: bytes, trust: str) -> None:
    items = read_line(line % MESSAGES[0][0])
    assert isinstance(items[0], Found)
    assert isinstance(items[0].row, GpuError)
    assert items[0].row.trust == trust


def test_loki_hands_on_time_and_host() -> None:
    values = b'[["1760000000000000001","%s"],["1760000001000000000","%s"]]' % (MESSAGES[0][0], MESSAGES[0][0])
    items = read_line(b'{"streams":[{"stream":{"host":"n-2"},"values":%s}]}' % values)
    assert [(i.reading.kind, i.reading.wall) for i in items if isinstance(i, Found)] == [
        ("epoch", 1_760_000_000_000_000),
        ("epoch", 1_760_000_001_000_000),
    ]
    assert all(isinstance(i, Found) and isinstance(i.row, GpuError) and i.row.host_raw == "n-2" for i in items)


def test_a_message_as_an_array_of_bytes() -> None:
    numbers = ",".join(str(byte) for byte in MESSAGES[0][0]).encode()
    items = read_line(b'{"_TRANSPORT":"kernel","MESSAGE":[%s]}' % numbers)
    assert len(items) == 1


@pytest.mark.parametrize(
    "text",
    [
        b"NVRM: Xid (PCI:0000:9d:00): ",
        b"NVRM: Xid (PCI:0000:9d:00)",
        b"NVRM: Xid (PCI:0000",
        b"NVRM: Xid (PCI:0000:9d:00): 7[ 12.3] usb 1-1: new device",
        b"NVRM: Xid (PCI:0000:9d:00): 2147483648, x",
    ],
)
def test_torn_lines_are_refused(text: bytes) -> None:
    items = read_line(b"[ 12.300000] " + text)
    assert [type(item) for item in items] == [Refused]


def test_the_rest_of_a_torn_record_before_a_whole_one() -> None:
    for before in (b"=a.out, Ch 0000", b"[ 12.300000] Graphics Exc"):
        items = read_line(before + b"[ 12.400000] " + MESSAGES[0][0])
        assert len(items) == 1
        assert isinstance(items[0], Found)
        assert items[0].reading.boot == 12_400_000


def test_a_record_torn_within_its_own_stamp_has_no_time() -> None:
    for stamp in ("[ 8123.4", "[ 8123", "[Tue Mar  3 07:1"):
        only(
            f"{stamp}NVRM: Xid (PCI:0000:9d:00): 45, pid=7, name=a.out, Ch 1", code=45, process="a.out", time_local=None
        )


@pytest.mark.parametrize(
    "text",
    [
        b"[ 12.300000] NVRM: Xid (PCI:0000:9d:0 lost",
        b"[ 12.300000] NVRM: Xid (PCI:0000:9d:00): none",
        b"Mar  3 07:15:42 gpu021 kernel: NVRM: Xid (PCI:0000:9d:0 lost",
        b'{"_TRANSPORT":"kernel","MESSAGE":"NVRM: Xid (PCI:0000:9d:00): 48, pid=7, na',
        b'{"_TRANSPORT":"kernel","MESSAGE":"NVRM: Xid (PCI:0000:9d:00): 48, name=\\ud800, x"}',
        b'{"stream":"stdout","log":"[ 1.5] NVRM: Xid (PCI:0000:9d:00): 48, pi',
    ],
)
def test_records_that_cannot_be_read_are_refused(text: bytes) -> None:
    (item,) = read_line(text)
    assert isinstance(item, Refused)
    assert "cannot be read" in item.reason


@pytest.mark.parametrize(
    ("first", "second", "name"),
    [
        ("pid='<unknown>', name=<un", "known>, Contained: CE User Channel (0x9)", None),
        ("pid=7, name=pt_mai", "n_thread, Ch 00000008", "pt_main_thread"),
    ],
)
def test_a_record_that_was_cut_within_a_name_is_one(first: str, second: str, name: str | None) -> None:
    text = f"[ 812.300125] NVRM: Xid (PCI:0000:9d:00): 94, {first}\n{second}\n"
    only(text, process=name, message=f"NVRM: Xid (PCI:0000:9d:00): 94, {first}{second}")


def test_a_name_that_a_pager_cut() -> None:
    only("NVRM: Xid (PCI:0000:9d:00): 94, pid=7, name=pt_ma>", pid=7, process="pt_ma")
    only("NVRM: Xid (PCI:0000:9d:00): 94, pid=7, name=<unk>", pid=7, process=None)


def test_a_name_with_a_comma_before_a_unit_of_nvlink() -> None:
    line = "NVRM: Xid (PCI:0000:9d:00): 149, pid=7, name=a, b, NETIR_LINK_EVT  Nonfatal XC0 i0 Link 03 (0x1)"
    only(line, process="a, b", unit="NETIR_LINK_EVT", link=3)


def test_a_blackened_address_matches_any_gpu_nearby_but_one() -> None:
    lost = "[ 50.300{} NVRM: GPU 0000:{}:00.0: GPU has fallen off the bus.\n"
    xid = "[ 50.300001] NVRM: Xid (PCI:...): 79, pid=, name=, GPU has fallen off the bus.\n"
    only(xid + lost.format("021]", "9d"), code=79, pci=None)
    rows = settled(xid + lost.format("021]", "9d") + lost.format("041]", "9e"))
    assert [getattr(row, "device", None) for row in rows] == [None, "0000:9e:00.0"]
    only("NVRM: Xid (PCI:0000:**:00): 31, pid=7, name=a.out, Ch 1", code=31, pci=None, process="a.out")


@pytest.mark.parametrize(
    ("record", "trust"),
    [
        (b'{"_source":{"@timestamp":"2026-03-03T07:15:42Z","message":"%s","log":{"file":{"path":"/var/log/kern.log"}}}}', "kernel"),
        (b'{"_source":{"@timestamp":"2026-03-03T07:15:42Z","message":"%s","log":{"file":{"path":"/var/log/app.log"}}}}', "relayed"),
        (b'{"labels":{"host":"n-2","facility":"kern"},"line":"%s","timestamp":"2026-03-03T07:15:42Z"}', "kernel"),
        (b'2026-03-03T07:15:42Z {host="n-2", unit="kernel"} %s', "kernel"),
        (b'2026-03-03T07:15:42Z {host="n-2", facility="kern"} %s', "kernel"),
        (b'{"time":1772522142.5,"host":"n-2","source":"/var/log/kern.log","sourcetype":"linux","event":"%s"}', "kernel"),
        (b'{"logStreamName":"gpu021/kern","timestamp":1772522142500,"message":"%s","ingestionTime":1}', "kernel"),
        (b'{"logStreamName":"gpu021","timestamp":1772522142500,"message":"%s","ingestionTime":1}', "relayed"),
        (b'{"streams":[{"stream":{"host":"n-2","filename":"/var/log/kern.log"},"values":[["1772522142500000000","%s"]]}]}', "kernel"),
        (b'{"streams":[{"stream":{"host":"n-2","job":"app"},"values":[["1772522142500000000","%s"]]}]}', "relayed"),
    ],
)  # fmt: skip
def test_labels_that_say_kernel(record: bytes, trust: str) -> None:
    (item,) = read_line(record % b"NVRM: Xid (PCI:0000:9d:00): 79, GPU has fallen off the bus.")
    assert isinstance(item, Found)
    assert isinstance(item.row, GpuError)
    assert item.row.trust == trust


def test_a_folded_record_is_one() -> None:
    rows = settled(
        "[ 12.300000] NVRM: Xid (PCI:0000:9d:00): 94, pid='<unknown>', name=<unknown>,\n"
        "                Contained: SM (0x1). RST: No, D-RST: Yes\n"
        "     a.out-71        [002] d.h1.    12.400000: nvidia_dev_xid: Xid (PCI:0000:9d:00): 48, DBE\n"
    )
    assert [row.code for row in rows if isinstance(row, GpuError)] == [94, 48]
    assert isinstance(rows[0], GpuError)
    assert rows[0].message is not None
    assert rows[0].message.endswith("name=<unknown>, Contained: SM (0x1). RST: No, D-RST: Yes")


def test_a_line_that_its_runtime_cut() -> None:
    rows = rows_of_text(
        "2026-03-01T12:00:00Z stdout P NVRM: Xid (PCI:0000:9d:00): 31, pid=7, na\n"
        "2026-03-01T12:00:00Z stdout F me=a.out, Ch 00000002\n",
        kernel.FORMAT,
    )
    assert [row.process for row in rows if isinstance(row, GpuError)] == ["a.out"]


def test_repeats_of_both_kinds_of_syslog() -> None:
    only("May  7 01:39:28 n-1 kernel: message repeated 5 times: [ NVRM: Xid (PCI:0000:9d:00): 31, Ch 2]", count=5)
    only(
        "May  7 01:39:28 n-1 kernel: NVRM: Xid (PCI:0000:9d:00): 31, Ch 2\nMay  7 01:39:40 n-1 last message repeated 3 times",
        count=4,
    )
