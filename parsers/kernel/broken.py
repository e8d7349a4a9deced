"""Records of the driver that something on their way broke over two lines, or counted instead of printing them.

    [168429.114550] NVRM: Xid (PCI:0000:65:00): 94, pid='<unknown>', name=<unknown>,
    Contained: CE User Channel (0x9). RST: No, D-RST: No

A terminal breaks lines at its width, in the middle of a word; a mail at a blank. Without an indent only evidence tells
the second part from another record.
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.envelopes import unwrap
from aftershock.parsers.formats import Line
from aftershock.parsers.kernel.xid import EVENT_START, Torn, goes_on_in_name, read_event
from aftershock.schemas.events import GpuError

# Lines that a record may be broken into, after the first.
_MOST_PARTS: Final = 4
# Widths at which terminals, pagers and mail programs break lines.
_WIDTHS: Final = frozenset({72, 76, 78, 79, 80, 96, 100, 120, 128, 132, 160, 200, 240})
# A record that was broken at a comma goes on with one of the driver's words, or with one that has a colon.
_GOES_ON: Final = re.compile(
    rb"(?:pid|name)=|Ch\b|Ch(?:ID|Id)\b|[Cc]hannel\b|intr\b|engmask\b|errorString\b|GPU\b|Graphics\b|[A-Z][\w ]{2,40}:"
)
# What most lines of logs begin with: they are told from parts of a record without unwrapping them.
_STAMPED: Final = re.compile(
    rb"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d |\d{4}-\d\d-\d\d[T ]\d\d:|\[[ \d]{1,10}\.\d{6}\] |<\d{1,3}>"
)
# Only a record that itself says so stands for more: "12 callbacks suppressed" alone names no record.
_SUPPRESSED: Final = re.compile(
    rb"\b(\d{1,9}) (?:[a-z]{1,12} )?(?:messages?|callbacks?|events?|records?|prints?) (?:were |was )?suppressed\b"
)


def unbroken(line: Line, message: bytes) -> bytes:
    """The message of a line with the lines below that evidently complete it.

    Evidence: the line ends at a comma and the next goes on in the driver's words; or it has no readable event without
    the next; or it ends within the name of a process, and the next holds the end of the name and the driver's words; or
    it has a stamp and is as wide as a terminal, and the next has neither stamp nor indent.
    """
    if _STAMPED.match(line.following) or not line.text.rstrip().endswith(message.rstrip()[-16:]):
        return message  # a line of its own follows, or it stands in JSON or the like, where nothing breaks lines
    width = _columns(line.text)
    for number, below in enumerate(line.following.split(b"\n", _MOST_PARTS)[:_MOST_PARTS]):
        rest = below.rstrip(b"\r")
        if not rest.strip() or b"NVRM" in rest or unwrap(rest).names != ("plain",):
            break
        if number == 0 and message.rstrip().endswith(b",") and _GOES_ON.match(rest.lstrip()):
            return message.rstrip() + b" " + rest.lstrip()
        if number == 0 and goes_on_in_name(message, rest):
            return message + rest
        is_wide = line.envelope.names != ("plain",) and width in _WIDTHS and _columns(rest) <= width
        if not is_wide and not (number == 0 and _completes(message, rest)):
            break
        message += rest
        if _columns(rest) != width:
            break
    return message


def _columns(text: bytes) -> int:
    return len(text.decode("utf-8", "replace"))


def _completes(message: bytes, rest: bytes) -> bool:
    """Whether there is an event only with the rest."""
    start = EVENT_START.search(message)
    if start is None or not isinstance(read_event(message[start.start() :]), Torn):
        return False
    return isinstance(read_event(message[start.start() :] + rest), GpuError)


def suppressed_in(text: bytes) -> int:
    """How many more records a record says that it stands for: a lower bound."""
    found = _SUPPRESSED.search(text)
    return int(found[1]) if found is not None else 0
