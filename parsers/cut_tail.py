"""A last line without line end: it may be whole, or a writer was cut off in the middle of it.

Nobody can tell the one from the other. Where the line ends in a digit, what was read may be the beginning of a longer
number: ``WEXITSTATUS 1`` of ``WEXITSTATUS 139``, ``node gpu00`` of ``node gpu004``. The row stays, and a reject beside
it says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from aftershock.parsers.formats import Found, Refused

REASON: Final = "last line has no line end: its last number may be cut"
_ENDS_IN_NUMBER: Final = re.compile(rb"[0-9]\Z")


def doubts(found: Iterable[Found], begin: int, line: bytes) -> Iterator[tuple[str, Refused]]:
    """(format, refusal) for each format that read a row from the last line, which begins at ``begin``."""
    if not _ENDS_IN_NUMBER.search(line):
        return
    for name in sorted({item.format for item in found if item.offset == begin}):
        yield name, Refused(begin, len(line), f"{name}: {REASON}", line[:512])
