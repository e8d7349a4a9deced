"""What an error code can do in an episode: start it, belong to it, or only end it.

Of two codes in one episode the one with the lower rank is the cause; among equals the earlier one. The order follows
how sure a code is of a broken part: memory that lost data, a GPU that is gone, a link that is down, firmware that does
not answer, records of a repair, work that was bad.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from aftershock.schemas.catalogs import sxid, xid
from aftershock.schemas.events import GpuError


class Reach(Enum):
    """How far an error reaches."""

    GPU = "gpu"  # everything that uses the GPU
    FABRIC = "fabric"  # all GPUs of the host that share its links
    PROCESS = "process"  # one process and its channels
    TEARDOWN = "teardown"  # nothing: channels are taken down, whatever the reason was
    SUMMARY = "summary"  # nothing: the driver sums up other errors
    ALONE = "alone"  # nothing: tests and notices


class Nature(NamedTuple):
    """Reach and rank of an error. ``root``: whether it can be the root of an episode."""

    reach: Reach
    rank: int
    root: bool = True

    @property
    def major(self) -> bool:
        """Whether it takes down all that runs on its GPU, rather than being noted there."""
        return self.rank < _MINOR

    @property
    def kills(self) -> bool:
        """Whether a process that used the GPU may fail of it."""
        return self.major or self.rank == _CONTAINED


_MINOR: Final = 16
_CONTAINED: Final = 17
_OTHER: Final = 18
_PROCESS: Final = 20

# Ranks of codes that differ from their kind.
_XIDS: Final[Mapping[int, Nature]] = {
    48: Nature(Reach.GPU, 10),
    140: Nature(Reach.GPU, 10),
    # Both are printed for a 48 as well; without one they are the first sign.
    171: Nature(Reach.GPU, 11),
    172: Nature(Reach.GPU, 11),
    95: Nature(Reach.GPU, 15),
    # Records of a repair, and counts that ran high.
    63: Nature(Reach.GPU, _MINOR),
    64: Nature(Reach.GPU, _MINOR),
    92: Nature(Reach.GPU, _OTHER),
    93: Nature(Reach.GPU, _OTHER),
    156: Nature(Reach.GPU, _MINOR),
    157: Nature(Reach.GPU, _MINOR),
    160: Nature(Reach.GPU, _MINOR),
    161: Nature(Reach.GPU, _MINOR),
    168: Nature(Reach.GPU, _MINOR),
    176: Nature(Reach.GPU, _OTHER),
    177: Nature(Reach.GPU, _MINOR),
    # A contained error kills one application. The error behind it is printed before, or was lost.
    94: Nature(Reach.GPU, _CONTAINED, root=False),
    # Errors that a peer may have caused, or that were corrected.
    108: Nature(Reach.FABRIC, _OTHER),
    137: Nature(Reach.FABRIC, _OTHER),
    121: Nature(Reach.FABRIC, _OTHER),
    150: Nature(Reach.FABRIC, 13),
    43: Nature(Reach.TEARDOWN, 30, root=False),
    45: Nature(Reach.TEARDOWN, 30, root=False),
    154: Nature(Reach.SUMMARY, 31, root=False),
}
_KINDS: Final[Mapping[str, Nature]] = {
    "hardware_memory": Nature(Reach.GPU, 11),
    "hardware_pcie": Nature(Reach.GPU, 12),
    "fabric": Nature(Reach.FABRIC, 13),
    "fabric_nvlink": Nature(Reach.FABRIC, 13),
    "fabric_c2c": Nature(Reach.FABRIC, 13),
    "driver_or_firmware": Nature(Reach.GPU, 14),
    "hardware_board": Nature(Reach.GPU, 14),
    "hardware_power": Nature(Reach.GPU, _MINOR),
    "application": Nature(Reach.PROCESS, _PROCESS),
    "application_or_bus": Nature(Reach.PROCESS, _PROCESS),
    "engine": Nature(Reach.PROCESS, _PROCESS),
    "test": Nature(Reach.ALONE, 40, root=False),
    "informational": Nature(Reach.ALONE, 40, root=False),
}
_UNKNOWN: Final = Nature(Reach.GPU, _OTHER)
_SWITCH: Final = Nature(Reach.FABRIC, 13)
_SWITCH_NOTED: Final = Nature(Reach.FABRIC, _OTHER)


def nature_of(row: GpuError) -> Nature:
    """What the error of a row can do."""
    if row.family in ("sxid", "fabric_manager"):
        return _of_switch(row)
    if row.family != "xid" or row.code is None:
        return _UNKNOWN
    special = _XIDS.get(row.code)
    if special is not None:
        return special
    entry = xid(row.code)
    return _UNKNOWN if entry is None else _KINDS.get(entry.kind, _UNKNOWN)


def _of_switch(row: GpuError) -> Nature:
    """The line says how severe it is; else the catalogue."""
    if row.severity is not None:
        return _SWITCH if row.severity == "fatal" else _SWITCH_NOTED
    entry = sxid(row.code or 0)
    return _SWITCH_NOTED if entry is not None and entry.fatal == "never" else _SWITCH
