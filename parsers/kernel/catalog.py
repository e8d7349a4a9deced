"""What the catalogues know about an error, put on its row: mnemonic, class, action. Evidence on the line goes first.

Xid 94, 95:    Contained: SM (0x1). RST: No, D-RST: No      the line says whether the GPU needs a reset
Xid 154:       ... changed from 0x0 (None) to 0x1 (GPU Reset Required)
Xid 144-150:   the words in brackets, read by the layout of the driver that printed them
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.schemas.catalogs import nvlink5_rule, sxid, xid
from aftershock.schemas.events import GpuError

NVLINK5: Final = range(144, 151)

_RESET: Final = re.compile(r"(?<!D-)\bRST: (?P<reset>Yes|No)\b(?:, D-RST: (?P<drain>Yes|No)\b)?")
_RECOVERY_TO: Final = re.compile(r"recovery action changed from [^;]{1,60}? to (?P<to>0x[0-9a-fA-F]{1,8}|\d{1,9})\b")
# By the numbers of Xid 154, in the words of the catalogue where it has them.
_ACTIONS: Final = (
    "IGNORE",  # the GPU has recovered
    "RESET_GPU",
    "RESTART_BM",
    "DRAIN_P2P",
    "DRAIN_AND_RESET",
    "RECOVER_IMEX_DOMAIN",
)
# Where only the words were kept: what tells them apart, in the order of the numbers. Drains name a reset too.
_WORDS: Final = (
    ("imex", "RECOVER_IMEX_DOMAIN"),
    ("drain and reset", "DRAIN_AND_RESET"),
    ("drain", "DRAIN_P2P"),
    ("reboot", "RESTART_BM"),
    ("reset", "RESET_GPU"),
    ("none", "IGNORE"),
)
_WORDS_OF_NVLINK5: Final = re.compile(r"\((?P<intrinfo>0x[0-9a-fA-F]{1,8}) (?P<status>0x[0-9a-fA-F]{1,8})\b")
_DRIVER: Final = re.compile(r"NVRM: loading NVIDIA UNIX .{0,80}?\b(?P<major>\d{3,4})\.\d{1,3}(?:\.\d{1,3})?\b")

# The Windows driver numbers its events 13, 14 and 153 whatever the Xid; only the first is what the catalogue means.
_WINDOWS: Final = "windows_events"
_WINDOWS_CODES: Final = (13,)


def describe(row: GpuError, format_name: str = "") -> None:
    """Fill mnemonic, class and action of an error from its line and from the catalogue; what is there already stays."""
    if row.code is None or (format_name == _WINDOWS and row.code not in _WINDOWS_CODES):
        return
    if row.family == "xid":
        _describe_xid(row, row.code)
    elif row.family in ("sxid", "fabric_manager"):
        switch = sxid(row.code)
        if switch is not None:
            row.mnemonic = row.mnemonic or switch.mnemonic
            row.fault_class = row.fault_class or switch.fault_class


def _describe_xid(row: GpuError, code: int) -> None:
    row.action = row.action or _action_on_line(row, code)
    entry = xid(code)
    if entry is not None:
        row.mnemonic = row.mnemonic or entry.mnemonic
        row.fault_class = row.fault_class or entry.fault_class
        row.action = row.action or entry.action


def _action_on_line(row: GpuError, code: int) -> str | None:
    message = row.message or ""
    if code in (94, 95):
        said = _RESET.search(message)
        if said is None:
            return None
        if said["drain"] == "Yes":
            return "DRAIN_AND_RESET"
        return "RESET_GPU" if said["reset"] == "Yes" else "RESTART_APP"
    if code == 154:
        number = _RECOVERY_TO.search(message)
        if number is not None:
            to = int(number["to"], 0) if number["to"].startswith("0x") else int(number["to"])
            return _ACTIONS[to] if to < len(_ACTIONS) else None
        words = (row.recovery_to or "").lower()
        return next((action for word, action in _WORDS if word in words), None)
    return None


def driver_of(message: str | None) -> int | None:
    """The major version of the NVIDIA driver in the line that it prints when it is loaded."""
    found = _DRIVER.search(message or "")
    return int(found["major"]) if found is not None else None


def decode_nvlink5(row: GpuError, driver: int | None) -> None:
    """Put on an NVLink 5 error what its words mean under that driver; nothing where that is not known for sure."""
    words = _WORDS_OF_NVLINK5.search(row.message or "")
    if words is None or row.unit is None or row.code is None or row.code not in NVLINK5:
        return
    rule = nvlink5_rule(row.code, row.unit, int(words["intrinfo"], 16), int(words["status"], 16), driver)
    if rule is None:
        return
    row.action = row.action or rule.action
    # A fault of the link's firmware is the driver's; whether SW means driver or application the table does not say.
    row.fault_class = row.fault_class or ("driver" if rule.origin == "FW" else "fabric")
