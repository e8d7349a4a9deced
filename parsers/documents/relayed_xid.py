"""Xid and SXid errors that an agent tells: as the driver's own line within its message, or as a number in its words.

    NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, name=python3, GPU has fallen off the bus.
    XID 79 (GPU has fallen off the bus) detected on GPU PCI:0000:3b:00 UUID:GPU-5d0f1c1e-...
    ErrorCode:79 PCI:0000:3b:00 GPU_UUID:GPU-5d0f1c1e-...

What an agent says is marked ``relayed``: the kernel log, where it is given too, is the better witness.
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.kernel.xid import EVENT_START, INT32_MAX, Torn, pci_of, read_event
from aftershock.schemas.events import GpuError

UUID: Final = re.compile(r"\bGPU-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")

_NUMBER: Final = re.compile(
    r"\b(?P<family>S?)Xid(?: error)?(?: code)?s?[ :=#]{1,3}\(?(?P<code>\d{1,9})\b", re.IGNORECASE
)
_PCI: Final = re.compile(r"\bPCI:((?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)\b")


def relayed_error(message: str, code: int | None = None, family: str = "xid") -> GpuError | None:
    """The error that a message tells, if it tells one; ``code`` and ``family``: as the agent states them beside it."""
    row = _kernel_line(message)
    if row is None:
        told = _NUMBER.search(message) if code is None else None
        if told is not None:
            code, family = int(told["code"]), "sxid" if told["family"] else "xid"
        if code is None or not 0 < code <= INT32_MAX:
            return None
        row = GpuError(family=family, code=code)
        place = _PCI.search(message)
        if place is not None:
            row.pci_raw, row.pci = place[1], pci_of(place[1].encode("ascii"))
    uuid = UUID.search(message)
    if uuid is not None:
        row.gpu_uuid = uuid[0]
    row.message = message
    row.trust = row.trust or "relayed"
    return row


def _kernel_line(message: str) -> GpuError | None:
    text = message.encode("utf-8", "surrogatepass")
    start = EVENT_START.search(text)
    if start is None:
        return None
    row = read_event(text[start.start() :].split(b"\n", 1)[0])
    return None if row is None or isinstance(row, Torn) else row
