"""The word before a record: a label of a host has company, a person's name has a conversation around it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.schemas.events import GpuError
from tests.parsers.exported import read_in_ranges, rows_of

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=7, name=train, GPU has fallen off the bus."
STAMPED = f"[   77.000001] {XID}"


def hosts_of(text: str) -> list[str | None]:
    return [row.host for row in rows_of(text) if isinstance(row, GpuError)]


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        # Nothing speaks against a label that stands alone.
        (f"gpu017: {XID}\n", ["gpu017"]),
        (f"gpu017: {STAMPED}\n", ["gpu017"]),
        (f"\n\ngpu017: {XID}\n\n", ["gpu017"]),
        # Every line of a parallel shell is labelled.
        (f"gpu017: {XID}\ngpu018: {XID}\n", ["gpu017", "gpu018"]),
        (f"gpu017: {STAMPED}\ngpu017: {STAMPED.replace('79', '45')}\n", ["gpu017", "gpu017"]),
        (f"rack2-gpu9: {STAMPED}\nrack11-gpu10: Linux 6.1\nrack2-gpu9: up 3 days\n", ["rack2-gpu9"]),
        (f"gpu017: what a mess\ngpu018: really?\ngpu018: {XID}\n", ["gpu018"]),
        # ansible says itself what its label is.
        (f"gpu017 | CHANGED | rc=0 | (stdout) {XID}\nPLAY RECAP of all of it\n", ["gpu017"]),
        # The number of a task names no host.
        (f"3: {STAMPED}\nsrun: error: task 3 failed\n", [None]),
    ],
)
def test_labels_of_hosts(text: str, hosts: list[str | None]) -> None:
    assert hosts_of(text) == hosts


def test_a_record_that_names_its_host_needs_no_label() -> None:
    record = f"Mar  1 12:00:00 gpu017 kernel: {XID}\n"
    assert hosts_of(f"gpu017: {record}{record}") == ["gpu017", "gpu017"]
    assert hosts_of(f"gpu017: {record}Done.\n") == ["gpu017"]


@pytest.mark.parametrize(
    "text",
    [
        f"Checking the nodes of rack 7\nbob7: {XID}\nDone.\n",
        f"Mar  1 12:00:00 gpu017 kernel: x\nbob7: {STAMPED}\nMar  1 12:00:01 gpu017 kernel: y\n",
        f"line1: {XID}\n",
        f"alice: can you look at this?\nbob7: {STAMPED}\n",
    ],
)
def test_a_label_without_company_names_no_host(text: str) -> None:
    assert hosts_of(text) == [None]


@pytest.mark.parametrize(
    "text",
    [
        f"bob7: {XID}\nalice: did you reboot it?\n",
        f"alice: node 17 is dead again\nbob7: {XID}\n",
        f"bob7: what does it mean?\nbob7: {XID}\ncarla: thanks, I will look\n",
        f"12:30 - {XID}\n",
        f"[12:30] {XID}\n",
        f"01/03/2026, 12:30 - Bob7: {XID}\n",
        f"[9:05 pm] bob7: {XID}\n",
        f"[2026-03-01 12:30] bob7: {XID}\n",
        f"12:30:05 <bob7> {XID}\n",
        f"12:30:05 <bob7> {STAMPED}\n",
    ],
)
def test_what_people_quote_is_no_event(text: str) -> None:
    assert hosts_of(text) == []


@pytest.mark.parametrize("header", ["12:30:05", "2026-03-01 12:30", "[12:30:05.123]"])
def test_a_clock_of_a_log_is_a_header(header: str) -> None:
    assert hosts_of(f"{header} {XID}\n") == [None]


@pytest.mark.parametrize("header", ["2026-03-01 12:30:05 ", "12:30:05.123 gpu017 ", "[12:30:05]"])
def test_the_clock_of_the_kernel_stands_in_an_envelope_that_is_not_known(header: str) -> None:
    rows = [row for row in rows_of(f"{header}{STAMPED}\n") if isinstance(row, GpuError)]
    assert [(row.uptime_s, row.trust) for row in rows] == [(77.000001, "relayed")]


LINES = [f"gpu017: {STAMPED}", f"gpu018: {XID}", f"bob7: {XID}", "alice: is it dead?", "ok", "", f"line2: {XID}", XID]


@settings(deadline=None)
@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=20), st.integers(1, 400))
def test_any_cut_gives_the_same_hosts(lines: list[str], size: int) -> None:
    data = "\n".join(lines).encode()
    told = [(row.host, row.byte_offset) for row in rows_of(data) if isinstance(row, GpuError)]
    cut = [(row.host, row.byte_offset) for row in read_in_ranges(data, size) if isinstance(row, GpuError)]
    assert cut == told
