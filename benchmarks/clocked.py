"""The clock of the benchmarks: wall time of whole processes, the fastest of several runs."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence


def best_of(runs: int, action: Callable[[], None]) -> float:
    """Seconds of the fastest of several runs."""
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        action()
        times.append(time.perf_counter() - began)
    return min(times)


def check(command: Sequence[str]) -> None:
    """Run a command that has to end well."""
    # A pipe, not the null device: grep stops at its first hit where nobody reads what it prints.
    subprocess.run(command, check=True, stdout=subprocess.PIPE)
