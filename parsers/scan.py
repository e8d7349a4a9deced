"""The multi-pattern scan: one pass over a block of bytes for the signatures of all formats.

Nothing is done per line until a signature matches. Hyperscan reports where a match ends and releases the interpreter
lock while it scans, so that several threads scan several blocks at once.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, cast

import hyperscan

from aftershock.parsers import envelopes
from aftershock.parsers.formats import LineFormat

# The id that stands for "an envelope that hides its text": every format has to look at the unwrapped message.
HIDDEN: Final = 0x7FFF_FFFF


# For short buffers Hyperscan makes an automaton of its own, which takes five times as long to compile as all the rest
# and finds nothing sooner. It makes none where one pattern is asked for its start, which costs long buffers a seventh
# of their speed; this one stands in no text.
_NO_SHORT: Final = rb"\xff\xfe[\xfc\xfd]\xff\xfe"


class PatternScanner:
    """Finds the places where one of many patterns ends. Patterns may share a number. ``lines``: buffers are short."""

    def __init__(self, patterns: Sequence[tuple[bytes, int]], *, lines: bool = True) -> None:
        self._patterns = tuple(patterns)
        self._numbers = tuple(number for _, number in self._patterns)
        self._lines = lines
        self._lock = threading.Lock()
        self._per_thread = threading.local()
        self._database: hyperscan.Database | None = None

    def hits(self, data: memoryview | bytes) -> list[tuple[int, int]]:
        """All (end of match, number of pattern) in ``data``, sorted; each once."""
        found: list[tuple[int, int]] = []

        def note(index: int, _start: int, end: int, _flags: int, _context: object) -> None:
            found.append((end, index))

        scratch = self._scratch()
        assert self._database is not None
        self._database.scan(cast(bytes, data), match_event_handler=note, scratch=scratch)
        if not found:
            return []
        numbers = self._numbers
        return sorted({(end, numbers[index]) for end, index in found if index < len(numbers)})

    def warm(self) -> None:
        """Compile the patterns now. The compiler releases the interpreter lock, so a thread may do this early."""
        with self._lock:
            if self._database is None:
                database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
                # Patterns that share an id compile two or three times as slowly.
                expressions = [pattern for pattern, _ in self._patterns]
                flags = [0] * len(expressions)
                if self._lines:
                    expressions.append(_NO_SHORT)
                    flags.append(hyperscan.HS_FLAG_SOM_LEFTMOST)
                ids = list(range(len(expressions)))
                database.compile(expressions=expressions, ids=ids, elements=len(ids), flags=flags)
                self._database = database

    def _scratch(self) -> hyperscan.Scratch:
        # The database is only read; the scratch memory of a scan must not be used by two threads at the same time.
        scratch = getattr(self._per_thread, "scratch", None)
        if scratch is None:
            self.warm()
            scratch = self._per_thread.scratch = hyperscan.Scratch(self._database)
        return scratch


class Scanner(PatternScanner):
    """Finds the places where a signature of one of ``formats`` ends; the numbers are their indexes, or ``HIDDEN``."""

    def __init__(self, formats: Sequence[LineFormat]) -> None:
        self.formats = tuple(formats)
        patterns = [(pattern, i) for i, fmt in enumerate(self.formats) for pattern in fmt.signatures]
        super().__init__(patterns + [(pattern, HIDDEN) for pattern in envelopes.SIGNATURES], lines=False)

    def inside(self, message: bytes) -> list[int]:
        """Indexes of the formats whose signature stands in a message that an envelope had hidden."""
        return sorted({index for _, index in self.hits(message) if index != HIDDEN})


@lru_cache(maxsize=16)
def scanner_for(formats: tuple[LineFormat, ...]) -> Scanner:
    """The scanner of a set of formats; compiled once per process."""
    return Scanner(formats)
