"""The grammar of Xid and SXid lines: what the NVIDIA driver prints when a GPU or an NVSwitch fails.

    NVRM: Xid (PCI:0000:3b:00): 31, pid=4242, name=python3, Ch 00000010, intr 00000000. MMU Fault: ...
    NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6 ...)
    nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, Non-fatal, Link 44 Minion Link DLREQ interrupt

The shapes changed over the years: ``PCI:`` came, the function digit is there or not, MIG names stand in the brackets,
process and pid are both there, one of them, none, or unknown.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from aftershock.schemas.events import GpuError

INT32_MAX: Final = 2**31 - 1

# The kernel cuts a thread's name at 15 bytes, so that a comma behind them ends the name.
_NAME_BYTES: Final = 15

# Where an event of the driver begins. ``Xid (`` alone is the text of the trace event nvidia_dev_xid.
EVENT_START: Final = re.compile(rb"(?:NVRM: ?Xid|(?:nvidia-nvswitch\d*: ?)?(?<![A-Za-z])SXid|\AXid) \(")

_EVENT: Final = re.compile(
    rb"""
    (?:NVRM:\ ?|nvidia-nvswitch\d*:\ ?)?(?P<family>S?Xid)\ \(
    (?:PCI:\ ?)?
    (?P<place>[^()\s]{1,64}?)                          # 0000:3b:00, 00000000:3B:00.0, or blackened
    (?:\ GPU-I:(?P<gi>\d{1,4}))?(?:\ GPU-CI:(?P<ci>\d{1,4}))?
    \)\s?:\s*
    (?P<code>\d{1,12})
    # After the code comes a comma or nothing; a sentence about a code goes on with a word.
    (?:\s*(?:,\s*|$)|\s+(?=channel\b|intr\b|engmask\b|caused\b|[^a-z]|[a-z]+[^a-z\s]))
    """,
    re.VERBOSE,
)
_ADDRESS: Final = re.compile(rb"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.([0-7]))?")
_BLACKENED: Final = re.compile(
    rb"(?i)\.{3,}|\xe2\x80\xa6|[0-9a-fx*#?]{2,8}(?::[0-9a-fx*#?]{2}){1,2}(?:\.[0-7x*#?])?|[x*#?]+|[<\[]?(?:redacted|removed|masked|hidden)[>\]]?"
)
# A line that was cut within the address, behind it, or within the code.
_TORN: Final = re.compile(
    rb"(?:NVRM: ?|nvidia-nvswitch\d*: ?)?S?Xid \((?:P?C?I?:?[0-9a-fA-F:.]{0,16}\s*\Z"
    rb"|(?:PCI:)?[0-9a-fA-F:.]{5,16}(?: GPU-C?I:\d+)*(?:\)?\s?:?\s*\Z|\):\s*(?:\d+(?![\d,\s])|\d{13}|-\d)))"
)

# The kernel's own record all the same, where something else stands for the rest of its address or for its code.
_GARBLED: Final = re.compile(
    rb"(?:NVRM: ?|nvidia-nvswitch\d*: ?)?S?Xid \((?:PCI:)?[0-9a-fA-F]{2,8}:[0-9a-fA-F:.]{1,14}"
    rb"(?:\s(?!\s*GPU-)|\)\s?:\s*[^\d\s])"
)

_PID: Final = re.compile(rb"pid=(?:'?(?P<pid>\d{1,10})'?|'?<unknown>'?|'?'?)(?:,\s*|\s+|$)")
_UNKNOWN: Final = frozenset({b"", b"<unknown>", b"'<unknown>'", b"''"})
# How the driver's own text goes on behind the name of a process.
_TEXT_START: Final = re.compile(
    rb"[A-Z][A-Z0-9_]+\s+(?:Fatal|Non-?fatal|Correctable)\b"
    rb"|Ch\b|Ch(?:ID|Id)\b|[Cc]hannel\b|[A-Z][A-Za-z]+[ :]|GPU\b|intr\b|engmask\b|errorString\b|[0-9a-f]{4,8}\b|\.\.\."
)

_CUT_NAME: Final = re.compile(rb"\bname=([^,]{1,15})\Z")
_NAME_END: Final = re.compile(rb"([^,\s]{1,15}), +")

_CAUSED_BY: Final = re.compile(rb"caused by previous Xid (\d{1,9})\b")
_RECOVERY: Final = re.compile(
    rb"recovery action changed from (0x[0-9a-fA-F]+|\d+)(?: \(([^()]*)\))? to (0x[0-9a-fA-F]+|\d+)(?: \(([^()]*)\)?)?"
)
# The numbers of the recovery actions are stable; the words are not always printed.
_RECOVERY_WORDS: Final = (
    "None",
    "GPU Reset",
    "Node Reboot",
    "Drain P2P",
    "Drain and Reset",
    "Recover IMEX Domain",
)
_NVLINK5: Final = re.compile(
    rb"(?P<unit>[A-Z][A-Z0-9_]+)\s+(?P<severity>Fatal|Non-?fatal|Correctable)\s+XC\d\s+i(?P<injected>\d)\s+Link\s+(?P<link>-?\d{1,4})",
    re.IGNORECASE,
)
_NVLINK: Final = re.compile(
    rb"(?:(?P<severity>non-?fatal|fatal) error[^,]{0,40}? )?on link (?P<link>\d{1,4})", re.IGNORECASE
)
_SWITCH: Final = re.compile(
    rb"(?P<severity>Fatal|Non-fatal|Correctable)\b(?:,\s*)?(?:Link (?P<link>-?\d{1,4})\b)?", re.IGNORECASE
)
# Lines that only spell out the SXid line before them.
_SWITCH_DETAIL: Final = re.compile(rb"(?:Severity \d|Data ?\{)")
_SEVERITIES: Final = {b"fatal": "fatal", b"nonfatal": "nonfatal", b"correctable": "correctable"}


class Torn(NamedTuple):
    """An event whose code cannot be read."""

    reason: str


def read_event(text: bytes) -> GpuError | Torn | None:
    """The row of an event of the driver that begins at the beginning of ``text``.

    None: a detail of the event before, or no event at all. The row has what the text says; trust only where the event
    itself says that it was injected.
    """
    found = _EVENT.match(text)
    if found is None:
        return Torn("the line is cut off before or within its code") if _TORN.match(text) else None
    place = found["place"]
    pci = pci_of(place)
    if pci is None and not _BLACKENED.fullmatch(place):
        return None
    code = int(found["code"])
    if code > INT32_MAX:
        return Torn("the code does not fit into 32 bits")
    row = GpuError(
        family="sxid" if found["family"] == b"SXid" else "xid",
        code=code,
        pci=pci,
        pci_raw=place.decode("utf-8", "backslashreplace"),
        mig_gi=None if found["gi"] is None else int(found["gi"]),
        mig_ci=None if found["ci"] is None else int(found["ci"]),
    )
    body = text[found.end() :]
    if row.family == "sxid":
        return _read_switch_body(row, body)
    _read_xid_body(row, body)
    return row


def is_garbled(text: bytes) -> bool:
    """Whether a text begins as an event and has neither an address nor a code that can be read."""
    return _GARBLED.match(text) is not None


def pci_of(printed: bytes) -> str | None:
    """``dddd:bb:dd.f`` in lower case; None if it is no PCI address. A domain above ffff keeps its eight digits."""
    found = _ADDRESS.fullmatch(printed)
    if found is None:
        return None
    domain = int(found[1] or b"0", 16)
    bus, device = found[2].decode().lower(), found[3].decode().lower()
    return f"{domain:0{4 if domain <= 0xFFFF else 8}x}:{bus}:{device}.{(found[4] or b'0').decode()}"


def _read_xid_body(row: GpuError, body: bytes) -> None:
    body = _read_process(row, body)
    cause = _CAUSED_BY.search(body)
    if cause is not None and int(cause[1]) <= INT32_MAX:
        row.caused_by = int(cause[1])
    if row.code == 154:
        _read_recovery(row, body)
    elif row.code is not None and 144 <= row.code <= 150:
        _read_nvlink5(row, body)
    elif row.code == 74:
        link = _NVLINK.search(body)
        if link is not None:
            row.link = int(link["link"])
            row.severity = _severity(link["severity"])


def _read_process(row: GpuError, body: bytes) -> bytes:
    """Take pid and name off the front of the body."""
    pid = _PID.match(body)
    if pid is not None:
        row.pid = int(pid["pid"]) if pid["pid"] else None
        body = body[pid.end() :]
    if not body.startswith(b"name="):
        return body
    name, body = _split_name(body[5:])
    if name not in _UNKNOWN and not (len(name) > 1 and b"<unknown>".startswith(name.rstrip(b">"))):
        if len(name) > 2 and name[:1] == name[-1:] == b"'":
            name = name[1:-1]
        row.process = name.decode("utf-8", "backslashreplace")
    return body


def goes_on_in_name(text: bytes, rest: bytes) -> bool:
    """Whether an event that ends within the name of a process goes on in ``rest``, words behind it."""
    name = _CUT_NAME.search(text)
    end = _NAME_END.match(rest)
    if name is None or end is None or len(name[1]) + len(end[1]) > _NAME_BYTES:
        return False
    return _TEXT_START.match(rest, end.end()) is not None


def _split_name(text: bytes) -> tuple[bytes, bytes]:
    """A process name and what follows it. The name may itself hold commas: the driver's words tell where it ends."""
    first = text.find(b",")
    if first < 0:
        name = text.strip()
        # A pager that cuts lines marks the cut; "<unknown>" ends in one of its own.
        return name[:-1] if name.endswith(b">") and b"<" not in name else name, b""
    at = first
    while 0 <= at <= _NAME_BYTES:
        rest = text[at + 1 :].lstrip()
        if not rest or (text[at + 1 : at + 2] == b" " and _TEXT_START.match(rest)):
            return text[:at].strip(), rest
        at = text.find(b",", at + 1)
    # No words that are known: the first comma that is followed by a blank ends the name.
    blank = text.find(b", ")
    end = blank if blank >= 0 else first
    return text[:end].strip(), text[end + 1 :].lstrip()


def _read_recovery(row: GpuError, body: bytes) -> None:
    found = _RECOVERY.search(body)
    if found is not None:
        row.recovery_from = _recovery_word(found[1], found[2])
        row.recovery_to = _recovery_word(found[3], found[4])


def _recovery_word(number: bytes, word: bytes | None) -> str:
    if word:
        return word.decode("utf-8", "backslashreplace")
    value = int(number, 16) if number[:2] == b"0x" else int(number)
    return _RECOVERY_WORDS[value] if value < len(_RECOVERY_WORDS) else number.decode()


def _read_nvlink5(row: GpuError, body: bytes) -> None:
    found = _NVLINK5.search(body)
    if found is None:
        return
    row.unit = found["unit"].decode("ascii")
    row.severity = _severity(found["severity"])
    link = int(found["link"])
    row.link = link if link >= 0 else None  # -1: the error belongs to no link
    if found["injected"] != b"0":
        row.trust = "injected"


def _read_switch_body(row: GpuError, body: bytes) -> GpuError | None:
    if _SWITCH_DETAIL.match(body):
        return None
    found = _SWITCH.match(body)
    if found is not None:
        row.severity = _severity(found["severity"])
        if found["link"] is not None and int(found["link"]) >= 0:
            row.link = int(found["link"])
    return row


def _severity(word: bytes | None) -> str | None:
    return None if word is None else _SEVERITIES.get(word.lower().replace(b"-", b""))
