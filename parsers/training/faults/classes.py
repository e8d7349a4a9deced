"""The class of an error by its words: what an exception, or the text of one, means in the failure taxonomy.

The words are a table beside this module (``classes.tsv``), asked from top to bottom: what is surest goes first. A text
says more than the type of an exception, for a ``RuntimeError`` may be anything.
"""

from __future__ import annotations

import pkgutil
import re
from functools import lru_cache
from typing import Final

from aftershock.parsers.scan import PatternScanner

# As much of a text as is looked at: what an error means stands at its beginning.
_MOST: Final = 1000


_BY_TYPE: Final[dict[bytes, tuple[str, str]]] = {
    b"FileNotFoundError": ("user_data_path", "root"),
    b"NotADirectoryError": ("user_data_path", "root"),
    b"IsADirectoryError": ("user_data_path", "root"),
    b"PermissionError": ("user_permission", "root"),
    b"ModuleNotFoundError": ("user_environment", "root"),
    b"ImportError": ("user_environment", "root"),
    b"OutOfMemoryError": ("user_gpu_oom", "root"),
    b"MemoryError": ("host_oom", "root"),
    b"UnpicklingError": ("checkpoint_load_failure", "root"),
    b"RendezvousConnectionError": ("rendezvous_failure", "root"),
    b"RendezvousTimeoutError": ("rendezvous_failure", "root"),
    b"RendezvousClosedError": ("rendezvous_failure", "root"),
    b"HTTPError": ("external_service", "root"),
    b"ConnectionResetError": ("peer_exit", "symptom"),
    b"ConnectionAbortedError": ("peer_exit", "symptom"),
    b"BrokenPipeError": ("peer_exit", "symptom"),
    b"BrokenProcessPool": ("peer_exit", "symptom"),
    # LLM Foundry's end of a run whose loss is too high (``spikes`` has what it says before).
    b"LossSpikeError": ("numeric_divergence", "root"),
    b"HighLossError": ("numeric_divergence", "root"),
    # The other end of a pipe is gone. A file that ends too early says so in its text.
    b"EOFError": ("peer_exit", "symptom"),
    b"ConnectionRefusedError": ("rendezvous_failure", "root"),
    b"KeyboardInterrupt": ("user_or_admin_cancel", "root"),
    # What launchers raise when their workers have failed, and what ends a process that was told to.
    b"ChildFailedError": ("teardown", "teardown"),
    b"CalledProcessError": ("teardown", "teardown"),
    b"SignalException": ("teardown", "teardown"),
    b"SIGTERMException": ("teardown", "teardown"),
    b"SystemExit": ("teardown", "teardown"),
    b"ProcessExitedException": ("teardown", "symptom"),
    b"ProcessRaisedException": ("teardown", "symptom"),
    b"TrainingFailedError": ("teardown", "teardown"),
    b"WorkerGroupError": ("teardown", "teardown"),
    b"WorkerGroupFailureException": ("teardown", "teardown"),
    b"NoRestartRequested": ("teardown", "teardown"),
    b"CancelledError": ("teardown", "teardown"),
    b"GeneratorExit": ("teardown", "teardown"),
}
# Classes that a name alone decides; only how a process ended stands in the text.
_OF_OTHERS: Final = frozenset({"teardown", "user_or_admin_cancel"})
# A GPU runs out of memory for other reasons than its own process where others hold most of it.
_MINE: Final = re.compile(rb"this process has ([\d.]{1,12}) ([KMG])iB memory in use")
_OTHERS: Final = re.compile(rb"Process \d{1,9} has ([\d.]{1,12}) ([KMG])iB memory in use")
_UNIT: Final = {b"K": 1 << 10, b"M": 1 << 20, b"G": 1 << 30}


@lru_cache(maxsize=1)
def _table() -> tuple[list[tuple[str, str]], PatternScanner]:
    """Class and role of every row of the table, and the scan for their patterns."""
    data = pkgutil.get_data(__package__ or __name__.rpartition(".")[0], "classes.tsv")
    assert data is not None
    lines = [line.split("\t") for line in data.decode("utf-8").splitlines() if not line.startswith("#")][1:]
    patterns = [(pattern.encode(), number) for number, (_, _, pattern) in enumerate(lines)]
    return [(name, role) for name, role, _ in lines], PatternScanner(patterns)


@lru_cache(maxsize=4096)
def class_of_text(text: bytes) -> tuple[str, str] | None:
    """Class and role of an error by its text alone; None if the words say nothing.

    >>> class_of_text(b"CUDA error: an illegal memory access was encountered")
    ('cuda_kernel_fault', 'root')
    """
    classes, scanner = _table()
    first = min((number for _, number in scanner.hits(text[:_MOST])), default=None)
    if first is None:
        return None
    if classes[first][0] == "user_gpu_oom" and _others_hold_it(text):
        return "gpu_unhealthy_suspect", "root"
    return classes[first]


def class_of(name: bytes, text: bytes) -> tuple[str, str]:
    """Class and role of an exception by its name (with or without its modules) and its text.

    >>> class_of(b"RuntimeError", b"CUDA error: an illegal memory access was encountered")
    ('cuda_kernel_fault', 'root')
    >>> class_of(b"ValueError", b"x")
    ('user_code_exception', 'root')
    """
    known = _BY_TYPE.get(name.rpartition(b".")[2])
    if known is not None and known[0] in _OF_OTHERS and name.rpartition(b".")[2] != b"ProcessExitedException":
        return known
    return class_of_text(name + b": " + text) or known or ("user_code_exception", "root")


def _others_hold_it(text: bytes) -> bool:
    mine = _MINE.search(text)
    if mine is None:
        return False
    held = sum(float(size) * _UNIT[unit] for size, unit in _sizes(_OTHERS, text))
    return held > float(mine[1]) * _UNIT[mine[2]]


def _sizes(pattern: re.Pattern[bytes], text: bytes) -> list[tuple[bytes, bytes]]:
    return [(found[1], found[2]) for found in pattern.finditer(text, 0, _MOST) if found[1].count(b".") < 2]
