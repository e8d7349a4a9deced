"""Times as JSON documents state them: ISO 8601 texts, seconds and nanoseconds, and MongoDB's wrappings of both."""

from __future__ import annotations

from typing import Any, Final

from aftershock.parsers.clock import NO_CLOCK, SECOND, Reading
from aftershock.parsers.envelopes.syslog import iso_reading

# Seconds, milliseconds, microseconds and nanoseconds since 1970 cannot be confused in this century.
_UNITS: Final = ((100_000_000_000, SECOND), (100_000_000_000_000, 1000), (100_000_000_000_000_000, 1))
_LATEST: Final = 7_258_118_400 * SECOND  # 2200


def stated_time(value: Any) -> Reading:
    """The clock of a member that states a time; no clock where it states none, or one that cannot be."""
    if isinstance(value, str):
        return _stated_text(value)
    if isinstance(value, dict):
        for key in ("$date", "$numberLong"):
            if key in value and not isinstance(value[key], (list, dict)):
                return stated_time(value[key])
        if isinstance(value.get("$date"), dict):
            return stated_time({"$numberLong": value["$date"].get("$numberLong")})
        seconds, nanos = value.get("seconds"), value.get("nanos", 0)
        if isinstance(seconds, str) and seconds.isascii() and seconds.isdigit() and len(seconds) < 12:
            seconds = int(seconds)
        if isinstance(seconds, int) and isinstance(nanos, int) and abs(seconds) < _LATEST:
            return _epoch(seconds * SECOND + nanos // 1000, str(seconds))
        return NO_CLOCK
    return _number(value) if _is_number(value) else NO_CLOCK


def _stated_text(text: str) -> Reading:
    digits = text.strip()
    if digits.isascii() and digits.isdigit() and 9 <= len(digits) <= 19:
        return _number(int(digits))
    if len(digits) > 64 or digits.startswith("0"):
        return NO_CLOCK  # 0001-01-01T00:00:00Z is how Go and .NET write that there is no time
    return iso_reading(digits.encode("utf-8", "replace")) or NO_CLOCK


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e19


def _number(value: float) -> Reading:
    for limit, factor in _UNITS:
        if 0 < value < limit:
            return _epoch(int(value * factor), str(value))
    return _epoch(int(value) // 1000, str(value)) if value > 0 else NO_CLOCK


def _epoch(micros: int, text: str) -> Reading:
    return Reading("epoch", micros, None, None, 1, text) if 0 < micros < _LATEST else NO_CLOCK
