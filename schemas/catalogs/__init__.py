"""Catalogues of error codes: what NVIDIA and others say about Xid and SXid codes, with source and date of every table.

The tables are data files beside this module; a table is read when it is first asked for. Where sources disagree both
values are kept: the one of NVIDIA's catalogue goes before, ``disagreement`` and ``others`` hold the rest.

>>> entry = xid(79)
>>> entry.mnemonic, entry.fault_class, entry.action
('ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS', 'hardware', 'RESTART_BM')
>>> xid(9999) is None
True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from aftershock.schemas.catalogs.nvlink5 import Nvlink5Rule, nvlink5_rule
from aftershock.schemas.catalogs.table import read_table, words

__all__ = ["FaultClass", "Nvlink5Rule", "SxidEntry", "XidEntry", "nvlink5_rule", "sxid", "xid"]

FaultClass = Literal["hardware", "fabric", "driver", "application", "thermal", "unknown"]

# The finer kinds of the tables as classes of the column ``fault_class``. Codes of engines (copy, video) and of the
# command front end come from bad work as well as from bad hardware: their class is not known from the code alone. So it
# is with codes that only follow others, that inform or test, and that current parts do not use.
_CLASS_OF_KIND: Final[Mapping[str, FaultClass]] = {
    "hardware_memory": "hardware",
    "hardware_board": "hardware",
    "hardware_power": "hardware",
    "hardware_pcie": "hardware",
    "hardware_resource": "hardware",
    "inforom_wear": "hardware",
    "fabric": "fabric",
    "fabric_nvlink": "fabric",
    "fabric_c2c": "fabric",
    "driver_or_firmware": "driver",
    "security_cc": "driver",
    "virtualisation": "driver",
    "application": "application",
    "thermal": "thermal",
}


@dataclass(frozen=True, slots=True)
class XidEntry:
    """What is known about an Xid code.

    mnemonic: as in NVIDIA's catalogue, else as in the driver's header. other_names: what another source calls it.
    kind: a finer class than ``fault_class``, for example ``hardware_memory`` or ``cleanup_followon``.
    action, investigate: immediate and investigatory action of NVIDIA's catalogue; None where it names none.
    gpus: generations that it applies to. xid154_since: driver from which an Xid 154 accompanies it.
    others: what other tools make of it, as ``tool=verdict``. disagreement: where the sources contradict each other.
    """

    code: int
    mnemonic: str
    other_names: tuple[str, ...]
    kind: str
    fault_class: FaultClass
    action: str | None
    investigate: str | None
    gpus: tuple[str, ...]
    xid154_since: str | None
    origin: str
    others: tuple[str, ...]
    disagreement: str | None
    description: str


@dataclass(frozen=True, slots=True)
class SxidEntry:
    """What is known about an SXid code. ``fatal``: whether the guide says that it is always, potentially or never so.

    The guide names no action for a single code, so ``action`` is always None.
    """

    code: int
    mnemonic: str
    kind: str
    fault_class: FaultClass
    fatal: str
    others: tuple[str, ...]
    disagreement: str | None
    action: str | None = None


def xid(code: int) -> XidEntry | None:
    """The entry of an Xid code; None for a code that no source names."""
    return _xids().get(code)


def sxid(code: int) -> SxidEntry | None:
    """The entry of an SXid code, which is also the code of fabric manager lines; None if no source names it."""
    return _sxids().get(code)


@lru_cache(maxsize=1)
def _xids() -> dict[int, XidEntry]:
    return {int(row[0]): _xid_entry(*row) for row in read_table("xid.tsv")}


def _xid_entry(
    code: str,
    mnemonic: str,
    other_names: str,
    kind: str,
    action: str,
    investigate: str,
    gpus: str,
    xid154_since: str,
    origin: str,
    others: str,
    disagreement: str,
    description: str,
) -> XidEntry:
    return XidEntry(
        code=int(code),
        mnemonic=mnemonic,
        other_names=words(other_names),
        kind=kind,
        fault_class=_CLASS_OF_KIND.get(kind, "unknown"),
        action=action or None,
        investigate=investigate or None,
        gpus=words(gpus),
        xid154_since=xid154_since or None,
        origin=origin,
        others=words(others),
        disagreement=disagreement or None,
        description=description,
    )


@lru_cache(maxsize=1)
def _sxids() -> dict[int, SxidEntry]:
    return {
        int(code): SxidEntry(
            code=int(code),
            mnemonic=mnemonic,
            kind=kind,
            fault_class=_CLASS_OF_KIND.get(kind, "unknown"),
            fatal=fatal,
            others=words(others),
            disagreement=disagreement or None,
        )
        for code, mnemonic, kind, fatal, others, disagreement in read_table("sxid.tsv")
    }
