"""The multi-pattern scan: one pass over a block of bytes for the signatures of all formats.

Nothing is done per line until a signature matches. Hyperscan reports where a match ends and releases the interpreter
lock while it scans, so that several threads scan several blocks at once.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import hyperscan

from aftershock.parsers import envelopes
from aftershock.parsers.formats import LineFormat

# The id that stands for "an envelope that hides its text": every format has to look at the unwrapped message.
HIDDEN: Final = 0x7FFF_FFFF

_per_thread = threading.local()


class Scanner:
    """Finds the places where a signature of one of ``formats`` ends."""

    def __init__(self, formats: Sequence[LineFormat]) -> None:
        self.formats = tuple(formats)
        patterns = [(pattern, i) for i, fmt in enumerate(self.formats) for pattern in fmt.signatures]
        self._patterns = patterns + [(pattern, HIDDEN) for pattern in envelopes.SIGNATURES]
        self._inner = [re.compile(b"|".join(b"(?:%s)" % s for s in fmt.signatures)) for fmt in self.formats]

    def hits(self, data: memoryview | bytes) -> list[tuple[int, int]]:
        """All (end of match, index of format) in ``data``, sorted; the index is ``HIDDEN`` for a hiding envelope."""
        hits: list[tuple[int, int]] = []

        def note(pattern_id: int, _start: int, end: int, _flags: int, _context: object) -> None:
            hits.append((end, pattern_id))

        self._database().scan(data, match_event_handler=note)
        hits.sort()
        return hits

    def inside(self, message: bytes) -> list[int]:
        """Indexes of the formats whose signature stands in a message that an envelope had hidden."""
        return [i for i, pattern in enumerate(self._inner) if pattern.search(message)]

    def _database(self) -> hyperscan.Database:
        # A database scans with scratch memory of its own, which two threads must not use at the same time.
        cache: dict[Scanner, hyperscan.Database] = _per_thread.__dict__.setdefault("databases", {})
        database = cache.get(self)
        if database is None:
            database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
            database.compile(
                expressions=[pattern for pattern, _ in self._patterns],
                ids=[number for _, number in self._patterns],
                elements=len(self._patterns),
                flags=[0] * len(self._patterns),
            )
            cache[self] = database
        return database


@lru_cache(maxsize=16)
def scanner_for(formats: tuple[LineFormat, ...]) -> Scanner:
    """The scanner of a set of formats; compiled once per process and thread."""
    return Scanner(formats)
