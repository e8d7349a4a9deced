"""What the NVIDIA driver says beside errors: loads, identities of GPUs, GPUs that are gone.

    NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.161.07  ...
    NVRM: GPU at PCI:0000:3b:00: GPU-5d0f1c1e-...
    NVRM: GPU Board Serial Number: 1650000000017
    NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.

The driver prints identities once per load, before the first error of the GPU, and the serial number under the UUID that
it belongs to. https://github.com/NVIDIA/open-gpu-kernel-modules
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.kernel.xid import pci_of
from aftershock.schemas.columns import Row
from aftershock.schemas.events import NodeEvent
from aftershock.schemas.topology import Gpu

# Marks by which ``settle`` knows these rows.
IDENTITY, SERIAL, LOST, LOADED, BOOTED = "identity", "serial", "lost", "loaded", "booted"

SIGNATURES: Final = (
    rb"fallen off the bus",
    rb"NVRM: GPU at ",
    rb"NVRM: GPU Board Serial",
    rb"GPU serial number is",
    rb"NVRM: loading NVIDIA",
    rb"NVRM: The NVIDIA GPU",
    rb"NVRM: The NVIDIA probed GPU",
    rb"RmInitAdapter failed",
    rb"Linux version ",
)

_ADDRESS: Final = rb"(?:PCI:)?(?P<pci>(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
_UUID: Final = re.compile(
    rb"NVRM: GPU at " + _ADDRESS + rb": (?P<uuid>GPU-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})\b"
)
_BOARD_SERIAL: Final = re.compile(rb"NVRM: GPU Board Serial Number: ?(?P<serial>\w{4,32})\b")
_GPU_SERIAL: Final = re.compile(rb"NVRM: GPU (?:at )?" + _ADDRESS + rb": GPU serial number is (?P<serial>\w{4,32})\b")
_LOST: Final = re.compile(rb"NVRM: GPU (?:at )?" + _ADDRESS + rb":?(?: GPU)? has fallen off the bus")
# At probe time one printk of several lines, each with its own stamp or without one.
_LOST_AT_PROBE: Final = re.compile(rb"NVRM: The NVIDIA (?:probed )?GPU " + _ADDRESS)
_PROBE_LINES: Final = 5
_NO_START: Final = re.compile(rb"NVRM: GPU " + _ADDRESS + rb": RmInitAdapter failed")
# The version stands behind two blanks; the words before it say which flavour of the module it is.
_LOAD: Final = re.compile(
    rb"NVRM: loading NVIDIA UNIX (?:(?:[\w.-]{1,20} ){1,8}? ?(?P<version>\d{2,4}\.\d{1,4}(?:\.\d{1,4})?)\b)?"
)
_BOOT: Final = re.compile(rb"Linux version (?P<version>\d\S{1,100}) \(")


def read_gpu_line(message: bytes, following: bytes) -> tuple[Row, str] | None:
    """The row of such a line and its mark; None if it is none."""
    if message.startswith(b"Linux version "):
        boot = _BOOT.match(message)
        return None if boot is None else (NodeEvent(kind="boot", device=f"Linux {_text(boot['version'])}"), BOOTED)
    if not message.startswith(b"NVRM: "):
        return None
    load = _LOAD.match(message)
    if load is not None:
        version = load["version"]
        return NodeEvent(kind="driver_load", device=f"nvidia {_text(version)}" if version else "nvidia"), LOADED
    uuid = _UUID.match(message)
    if uuid is not None:
        identity = Gpu(pci=pci_of(uuid["pci"]), gpu_uuid=uuid["uuid"].decode("ascii"), how_known="kernel log")
        return identity, IDENTITY
    board = _BOARD_SERIAL.match(message)
    if board is not None:
        return Gpu(gpu_serial=board["serial"].decode("ascii", "replace"), how_known="kernel log"), SERIAL
    serial = _GPU_SERIAL.match(message)
    if serial is not None:
        number = serial["serial"].decode("ascii", "replace")
        return Gpu(pci=pci_of(serial["pci"]), gpu_serial=number, how_known="kernel log"), IDENTITY
    lost = _LOST.match(message)
    if lost is not None:
        return NodeEvent(kind="gpu_lost", device=pci_of(lost["pci"])), LOST
    probed = _LOST_AT_PROBE.match(message)
    if probed is not None:
        below = b" ".join(following.split(b"\n", _PROBE_LINES)[:_PROBE_LINES])
        if b"fallen off the bus" in message or b"fallen off the bus" in below:
            return NodeEvent(kind="gpu_lost", device=pci_of(probed["pci"])), LOST
        return None
    failed = _NO_START.match(message)
    if failed is not None:
        return NodeEvent(kind="gpu_init_failed", device=pci_of(failed["pci"])), ""
    return None


def _text(data: bytes) -> str:
    return data.decode("ascii", "backslashreplace")
