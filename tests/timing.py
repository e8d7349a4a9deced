"""How long something takes, for tests that a cost is linear: nothing else is timed."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def seconds(action: Callable[[], object], runs: int = 3, enough: float = 0.0) -> float:
    """Processor seconds of the fastest of some runs; the first below ``enough`` will do.

    Processor time, since others use the machine too, and without the collector: where it happens to run it looks
    through all that the tests before have left.
    """
    best = float("inf")
    collects = gc.isenabled()
    gc.disable()
    try:
        for _ in range(runs):
            began = time.process_time()
            action()
            best = min(best, time.process_time() - began)
            if best < enough:
                break
    finally:
        if collects:
            gc.enable()
    return best
