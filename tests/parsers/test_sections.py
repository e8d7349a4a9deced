"""Files within a file: reports with sections, the output of one command on many hosts."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.clock import SECOND, Reading
from aftershock.parsers.resolve import ClockRules, SourceClock
from aftershock.parsers.source import SourceFile, look, read_whole
from aftershock.schemas.events import GpuError
from tests.parsers.exported import XID, facts_of, read_all, rows_of

LINE = "_" * 44 + "\n"
START = (
    f"{LINE}\nStart of NVIDIA bug report log file.  Please include this file, along\nwith a detailed description.\n\n"
    "nvidia-bug-report.sh Version: 35120001\n\nDate: Mon Mar  2 12:30:00 UTC 2026\n"
    "uname: Linux n-1 5.15.0-105-generic #115-Ubuntu SMP x86_64 GNU/Linux\ncommand line flags: \n\n"
)
NOON = 1_772_452_800 * SECOND


def section(title: str, text: str) -> str:
    return f"{LINE}\n{title}\n\n{text}\n"


def test_a_report_as_its_script_packs_it(tmp_path: Path) -> None:
    text = START + section("dmesg:", f"[    0.000000] usb\n[   77.000001] {XID}")
    path = tmp_path / "nvidia-bug-report.log.gz"
    # The script appends one compressed member after another.
    path.write_bytes(gzip.compress(text[:200].encode()) + gzip.compress(text[200:].encode()))
    opened = look(SourceFile(str(path), "report", path.stat().st_size))
    assert opened.detected.format == "nvidia_bug_report"
    found = [item for block in read_whole(opened) for item in block.found]
    assert [(item.format, item.offset, item.row.host_raw) for item in found if isinstance(item.row, GpuError)] == [
        ("kernel", text.index("[   77.000001]"), "n-1")
    ]


def test_every_section_has_its_own_boot() -> None:
    """The journal of the boot before prints both clocks, dmesg only one: its offset must not be taken from there."""
    journal = f"2026-03-02T11:00:00.000000+0000 n-1 kernel: [ 100.000000] {XID}"
    text = START + section("journalctl -b -1:", journal) + section("dmesg:", f"[  160.000000] {XID}")
    assert facts_of(text, "time", "time_local") == [
        (NOON - 3600 * SECOND, "2026-03-02T11:00:00.000000+0000"),
        (None, "160.000000"),
    ]
    alone = f"{journal}\n[  160.000000] {XID}\n"
    assert facts_of(alone, "time_basis") == [("zoned",), ("boot_offset",)]


def test_the_date_of_the_report_tells_year_and_zone() -> None:
    logs = f"  /var/log/messages:\nMar  2 12:00:00 n-1 kernel: {XID}\n  /var/log/kern.log:\nDec 31 12:00:00 n-1 kernel: {XID}\n"
    text = START + section("Scanning kernel log files for NVRM messages:", logs)
    assert facts_of(text, "time", "time_basis") == [
        (NOON, "inferred_zone"),
        (NOON - 61 * 86_400 * SECOND, "inferred_zone"),
    ]
    local = text.replace("UTC 2026", "KST 2026")
    assert facts_of(local, "time") == [(None,), (None,)]
    half = text.replace("12:30:00 UTC", "09:30:00 PM +09")
    assert facts_of(half, "time")[0] == (NOON - 9 * 3600 * SECOND,)


def test_the_same_record_of_two_sections_is_two_rows() -> None:
    text = (
        START
        + section("dmesg:", f"[   77.000001] {XID}")
        + section("journalctl -b -0:", f"Mar 02 12:00:00 n-1 kernel: {XID}")
    )
    offsets = [offset for (offset,) in facts_of(text, "byte_offset")]
    assert [text[offset:].split(" ", 1)[0] for offset in offsets] == ["[", "Mar"]


def test_what_a_section_is_tells_its_beginning() -> None:
    entry = f'{{"__REALTIME_TIMESTAMP":"1772452800000000","_TRANSPORT":"kernel","MESSAGE":"{XID}"}}'
    text = START + section("journalctl -o json:", entry) + section("*** /tmp/loki.json", "{\n" + entry[1:])
    assert facts_of(text, "time", "host") == [(NOON, "n-1"), (NOON, "n-1")]


def test_hosts_with_the_same_output_each_have_the_event() -> None:
    text = f"----------------\ngpu[01-02,05],login1 (4)\n----------------\n[   77.000001] {XID}\n"
    assert [host for (host,) in facts_of(text, "host")] == ["gpu01", "gpu02", "gpu05", "login1"]


def test_a_host_named_in_the_line_is_kept() -> None:
    text = f"gpu01 | CHANGED | rc=0 >>\nMar  2 12:00:00 gpu77 kernel: {XID}\n\ngpu02 | FAILED | rc=1 >>\nnon-zero return code\n"
    assert facts_of(text, "host") == [("gpu77",)]


def test_the_output_of_a_task_counts_once() -> None:
    lines = [f"[   77.000001] {XID}", f"[   78.000001] {XID}"]
    out = {"changed": True, "stderr": "", "stderr_lines": [], "stdout": "\n".join(lines), "stdout_lines": lines}
    wanted = [("n-1", "77.000001"), ("n-1", "78.000001"), ("n-2", "77.000001"), ("n-2", "78.000001")]
    start = "PLAY [all] ***\n\nTASK [Gathering Facts] ***\nok: [n-1]\nok: [n-2]\n\nTASK [debug] ***\n"
    for indent in (4, None):
        for value in (out, {"out.stdout_lines": lines}, {"msg": "\n".join(lines)}):
            text = start + "".join(f"ok: [n-{n}] => {json.dumps(value, indent=indent)}\n" for n in (1, 2))
            assert facts_of(text, "host", "time_local") == wanted, text


def test_blocks_of_salt() -> None:
    text = f"n-1:\n    {XID}\nn-2.cluster:\n    [   77.000001] usb\n    [   78.000001] {XID}\n"
    assert facts_of(text, "host", "time_local", "byte_offset") == [
        ("n-1", None, 5),
        ("n-2", "78.000001", len(text) - len(XID) - 20),
    ]


def test_settings_are_no_blocks_of_salt() -> None:
    for text in (
        f"example-1:\n    {XID}\n",
        f"rules-1:\n    name: x\n    pattern: {XID}\n",
        f"n-1:\n  - {XID}\n",
        f"n-1:\n    {XID}\nnotes: none\n",
    ):
        assert rows_of(text) == [], text


def test_rules_in_a_text_are_no_frames() -> None:
    for text in (
        f"----------------\n[   77.000001] {XID}\n----------------\n",
        f"----------\nepoch 1\n----------\n[   77.000001] {XID}\n",
    ):
        assert facts_of(text, "host", "code") == [(None, 31)]


def test_a_report_within_a_block_is_read_as_lines() -> None:
    text = f"gpu01 | CHANGED | rc=0 >>\n{START}{section('dmesg:', f'[   77.000001] {XID}')}"
    assert facts_of(text, "host") == [("gpu01",)]


def test_sections_of_the_clock() -> None:
    both = Reading("zoned", NOON, boot=100 * SECOND)
    alone = Reading(boot=160 * SECOND)
    assert SourceClock([(0, both), (80, alone)], ClockRules(), sections=[50]).resolve(80, alone).time is None
    assert SourceClock([(0, both), (80, alone)], ClockRules(), sections=[100]).resolve(80, alone).time is not None
    december = Reading("yearless", 86_400 * SECOND * (730 + 364), resolution=SECOND)
    january = Reading("yearless", 86_400 * SECOND * 731, resolution=SECOND)
    readings = [(0, december), (80, january)]
    rules = ClockRules("UTC", year=2025)
    whole, parts = SourceClock(readings, rules), SourceClock(readings, rules, sections=[50])
    assert (whole.resolve(80, january).time or 0) - (parts.resolve(80, january).time or 0) == 365 * 86_400 * SECOND


def test_a_long_section_goes_through_a_file() -> None:
    noise = "[    1.000000] usb 1-1: new device\n" * 300_000
    text = START + section("dmesg:", noise + f"[   77.000001] {XID}")
    assert len(text) > 8 << 20
    rows, result = read_all(text)
    assert len(rows) == 1
    assert result.found[0].offset == text.index("[   77.000001]")


PARTS = st.sampled_from(
    [LINE, "\n", "dmesg:\n", "*** /var/log/x\n", f"[ 7.1] {XID}\n", "  /var/log/kern.log:\n", "----------------\n", "gpu[01-03]\n", "gpu01\n", "gpu02 | CHANGED | rc=0 >>\n", "\xff\n", "[1] 07:30:00 [SUCCESS] gpu9\n", '{"a": [\n'],
)  # fmt: skip


@given(
    st.sampled_from([START, "gpu02 | CHANGED | rc=0 >>\n", "--------\ngpu1\n--------\n"]), st.lists(PARTS, max_size=25)
)
def test_any_mixture_of_parts_is_read(start: str, parts: list[str]) -> None:
    text = (start + "".join(parts)).encode("latin-1")
    rows = [row for row in rows_of(text) if isinstance(row, GpuError)]
    assert len({row.byte_offset for row in rows}) == text.count(XID.encode())
    assert all(text[row.byte_offset or 0 :].startswith(b"[ 7.1]") for row in rows)
