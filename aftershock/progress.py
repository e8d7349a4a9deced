"""A line of progress on the terminal while a run reads."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from aftershock.pipeline import tally


@contextmanager
def showing_progress(*, enabled: bool) -> Iterator[None]:
    """Redraw one line of stderr ten times a second; wiped at the end. Nothing at all if it is not enabled."""
    if not enabled:
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_redraw, args=(ended, time.monotonic()), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _redraw(ended: threading.Event, began: float) -> None:
    while not ended.wait(0.1):
        seconds = time.monotonic() - began
        done = tally.bytes_read()
        text = f"reading  {done / 1e6:,.0f} MB  {done / 1e6 / max(seconds, 0.1):,.0f} MB/s  {seconds:.0f} s"
        sys.stderr.write(f"\r\x1b[K{tally.said() or text}")
        sys.stderr.flush()
