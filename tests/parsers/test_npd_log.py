"""The log of node-problem-detector: statuses that break off, and events that are not as they should be."""

from __future__ import annotations

import pytest

from aftershock.parsers.envelopes import unwrap
from aftershock.parsers.formats import Line, Refused
from aftershock.parsers.npd_log import FORMAT


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("{Severity:warn", "{Severity:dire", "npd: an event with other fields"),
        ("}] Conditions:[", "", "npd: the status breaks off"),
    ],
)
def test_what_cannot_be_read_is_refused(old: str, new: str, reason: str) -> None:
    text = FORMAT.samples[0].text.rstrip("\n").replace(old, new).encode()
    (item,) = FORMAT.read(Line(0, text, unwrap(text)))
    assert isinstance(item, Refused)
    assert item.reason == reason


def test_a_status_without_events_says_nothing() -> None:
    text = b"New status generated: &{Source:kernel-monitor Events:[] Conditions:[{Type:KernelDeadlock Status:False}]}"
    assert list(FORMAT.read(Line(0, text, unwrap(text)))) == []
