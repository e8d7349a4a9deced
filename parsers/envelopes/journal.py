"""``journalctl -o json``: one object for each entry.

    {"__REALTIME_TIMESTAMP":"1757508815654321","_TRANSPORT":"kernel","MESSAGE":"NVRM: ...","PRIORITY":"3"}

All numbers are strings. A message with bytes that are not UTF-8 or not printable is an array of numbers, which hides
its text from a scan. https://systemd.io/JOURNAL_EXPORT_FORMATS/
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aftershock.parsers.clock import NO_CLOCK, Reading
from aftershock.parsers.envelopes.layer import Layer

# More digits than this are no microseconds of this millennium.
_MOST_DIGITS: Final = 17

# Fields by which an entry is told from other objects with a message; forwarders leave some of them out.
_OF_THE_JOURNAL: Final = frozenset(
    {"__REALTIME_TIMESTAMP", "_SOURCE_REALTIME_TIMESTAMP", "_TRANSPORT", "_BOOT_ID", "SYSLOG_IDENTIFIER"}
)


def peel_entry(entry: Mapping[str, Any]) -> Layer | None:
    """The layer of a journal entry; None if the object is none."""
    if "MESSAGE" not in entry or _OF_THE_JOURNAL.isdisjoint(entry):
        return None
    transport = _word(entry, "_TRANSPORT")
    tag = _word(entry, "SYSLOG_IDENTIFIER") or ("kernel" if transport == "kernel" else _word(entry, "_COMM"))
    return Layer(
        "journal",
        _message(entry["MESSAGE"]),
        _reading(entry),
        _word(entry, "_HOSTNAME"),
        tag,
        _number(entry, "SYSLOG_FACILITY"),
        _number(entry, "PRIORITY"),
        {"transport": transport} if transport else None,
    )


def _reading(entry: Mapping[str, Any]) -> Reading:
    boot = _number(entry, "_SOURCE_MONOTONIC_TIMESTAMP")
    if boot is None:
        boot = _number(entry, "__MONOTONIC_TIMESTAMP")
    for key in ("__REALTIME_TIMESTAMP", "_SOURCE_REALTIME_TIMESTAMP"):
        wall = _number(entry, key)
        if wall is not None:
            return Reading("epoch", wall, boot, None, 1, str(entry[key]))
    return NO_CLOCK if boot is None else Reading("none", None, boot)


def _message(value: Any) -> bytes:
    """The message as bytes: from a string, an array of bytes, or an array of either (a field that came twice)."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, list):
        try:
            return bytes(value)
        except (TypeError, ValueError):
            return b"\n".join(_message(part) for part in value if isinstance(part, str))
    return b""


def _word(entry: Mapping[str, Any], key: str) -> str | None:
    value = entry.get(key)
    return value if isinstance(value, str) and value else None


def _number(entry: Mapping[str, Any], key: str) -> int | None:
    value = entry.get(key)
    if isinstance(value, str) and len(value) <= _MOST_DIGITS and value.isascii() and value.isdigit():
        return int(value)
    return value if type(value) is int and 0 <= value < 10**_MOST_DIGITS else None
