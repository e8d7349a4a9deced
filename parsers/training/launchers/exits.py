"""What an exit status says, when nothing else is known."""

from __future__ import annotations

from typing import Final

_CRASHES: Final = frozenset({11, 4, 8})
_BUS_ERROR: Final = 7
# Signals of processes that were told to end, or that ended themselves after somebody else had failed.
_TOLD_TO_END: Final = frozenset({0, 6, 15, 13, 1, 2})


def role_of_exit(code: int | None) -> tuple[str, str]:
    """Class and role of an exit status as shells and Python print it; a signal is negative, or 128 and its number.

    >>> role_of_exit(-11), role_of_exit(139)
    (('process_crash', 'root'), ('process_crash', 'root'))
    >>> role_of_exit(1)
    ('unknown', 'symptom')
    """
    if code is None:
        return "unknown", "symptom"
    signal = -code if code < 0 else code - 128 if 128 < code < 160 else None
    if signal in _CRASHES:
        return "process_crash", "root"
    if signal == _BUS_ERROR:
        return "host_shm", "root"
    if signal in _TOLD_TO_END or code == 0:
        return "teardown", "teardown"
    return "unknown", "symptom"
