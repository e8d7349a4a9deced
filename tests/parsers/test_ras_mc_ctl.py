"""What ras-mc-ctl prints."""

from __future__ import annotations

import io

from hypothesis import given, settings
from hypothesis import strategies as st

from aftershock.parsers.documents import ras_mc_ctl
from aftershock.parsers.documents.ras_mc_ctl import FORMAT
from aftershock.parsers.formats import Found, Head, Refused
from aftershock.parsers.selfcheck import rows_of_text
from aftershock.schemas.events import NodeEvent

TEXT = FORMAT.samples[0].text


def test_an_event_that_nobody_dated_has_no_time() -> None:
    text = "MCE events:\n1 .. error: Corrected error, bank Load Store (bank=0), status=0xdc2040000400011b\n"
    (row,) = rows_of_text(text, FORMAT)
    assert isinstance(row, NodeEvent)
    assert (row.kind, row.device, row.severity, row.time) == ("machine_check", "bank 0", "correctable", None)


def test_severities_of_machine_checks() -> None:
    for status, severity in (("bc00000000000000", "uncorrectable"), ("be00000000000000", "fatal")):
        (row,) = rows_of_text(f"MCE events:\n1 2025-02-03 08:15:11 +0000 error: x, status=0x{status}\n", FORMAT)
        assert isinstance(row, NodeEvent)
        assert row.severity == severity


def test_sections_that_are_not_read_end_the_one_before() -> None:
    text = "PCIe AER events:\n\nDevlink events:\n1 2025-02-03 08:15:11 +0000 0000:3b:00.0 Corrected error: x\n"
    assert rows_of_text(text, FORMAT) == []


def test_an_error_that_has_other_fields_is_refused() -> None:
    text = "Memory controller events:\n1 2025-02-03 08:15:11 +0000 something else\n"
    found = list(ras_mc_ctl.read(io.BytesIO(text.encode())))
    assert [type(item) for item in found] == [Refused]


def test_a_torn_record_is_refused() -> None:
    record = b"2 2025-02-03 08:12:11 +0000 0000:3b:00.0 Uncorrected (Non-Fatal) error: Completion Timeout\n"
    found = list(ras_mc_ctl.read(io.BytesIO(b"PCIe AER events:\n1 2025-02-03 08:12\n" + record)))
    assert [type(item) for item in found] == [Refused, Found]


def test_a_host_without_errors_is_known_too() -> None:
    assert FORMAT.detects(Head("ras.txt", b"No Memory errors.\n\nNo PCIe AER errors.\n\nNo MCE errors.\n")) > 0
    assert FORMAT.detects(Head("ras.txt", b"No Memory errors.\n")) == 0


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(TEXT.splitlines()) | st.text(max_size=60), max_size=30))
def test_any_lines_are_read_in_order(lines: list[str]) -> None:
    data = "\n".join(lines).encode("utf-8", "surrogatepass")
    found = list(ras_mc_ctl.read(io.BytesIO(data)))
    offsets = [item.offset for item in found]
    assert offsets == sorted(offsets)
    assert all(isinstance(item, (Found, Refused)) for item in found)
