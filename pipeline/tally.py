"""How many bytes this process has read, and what it does else: for the progress line, not for results."""

from __future__ import annotations

import threading

_lock = threading.Lock()
_bytes = 0
_said = ""


def add(size: int) -> None:
    """Count bytes that were read."""
    global _bytes  # noqa: PLW0603 - one counter for the process is the point
    with _lock:
        _bytes += size


def bytes_read() -> int:
    """Bytes read by this process so far."""
    return _bytes


def say(text: str) -> None:
    """What the process does besides reading; nothing if the text is empty."""
    global _said  # noqa: PLW0603
    _said = text


def said() -> str:
    """What the process does now, empty while it reads."""
    return _said
