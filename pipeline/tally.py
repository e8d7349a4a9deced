"""How many bytes this process has read: for the progress line, not for results."""

from __future__ import annotations

import threading

_lock = threading.Lock()
_bytes = 0


def add(size: int) -> None:
    """Count bytes that were read."""
    global _bytes  # noqa: PLW0603 - one counter for the process is the point
    with _lock:
        _bytes += size


def bytes_read() -> int:
    """Bytes read by this process so far."""
    return _bytes
