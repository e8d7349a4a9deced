"""Words of a message that a stamp before them makes look like a host and a program.

    2026-03-01T10:20:30.123456789Z ValueError: too many values to unpack
    2026-03-01T10:20:30.123456789Z bash: line 12:   811 Killed                  python train.py
    2026-03-01T10:20:30.123456789Z iter 100: loss 3.2012, time 120.10ms

So prints a collector that puts a time before each line (``kubectl logs --timestamps``, ``docker logs -t``), and syslog
puts host and program there. What no host is called like is no host, and without one nobody wrote a program either. A
program that names its pid is one.
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.formats import Envelope, Line

# What stands before a message: a stamp, and what was taken for its writer.
_WRITER: Final = re.compile(rb"(?:\A|(?<= ))(?:(?P<host>[^\s:]\S{0,254}) )?(?P<tag>[^\s:\[\]\"'{]{1,128}): ?\Z")
# Hosts have a number, or a name of several parts.
_HOST: Final = re.compile(r"[A-Za-z][\w.-]{0,254}")
_EXCEPTION: Final = re.compile(r"(?:[A-Za-z_]\w{0,40}\.){0,6}\w{0,60}(?:Error|Exception|Interrupt)")
# As much as a stamp, a host and a program have.
_MOST: Final = 400


def words_given_back(text: bytes, envelope: Envelope) -> Envelope | None:
    """The envelope of a line with the words that may belong to its message; None if there are none.

    >>> from aftershock.parsers.envelopes import unwrap
    >>> line = b"2026-03-01T10:20:30Z ValueError: too many values"
    >>> words_given_back(line, unwrap(line)).message
    b'ValueError: too many values'
    """
    if envelope.tag is None or not text.endswith(envelope.message):
        return None
    before = text[: len(text) - len(envelope.message)]
    found = _WRITER.search(before[-_MOST:])
    if found is None:
        return None
    host = envelope.host
    named = host is not None and _is_host(host)
    if named and not _EXCEPTION.fullmatch(envelope.tag):
        return None
    first = "tag" if named or host is None else "host"
    words = before[-_MOST:][found.start(first) :]
    return envelope._replace(message=words + envelope.message, host=host if named else None, tag=None)


def line_with_words(line: Line) -> Line | None:
    """The line whose message begins with the words that were taken for its writer; None if there are none."""
    if line.envelope.tag is None:
        return None
    envelope = words_given_back(line.text.rstrip(b"\r\n"), line.envelope)
    return None if envelope is None else line._replace(envelope=envelope)


def _is_host(name: str) -> bool:
    return _HOST.fullmatch(name) is not None and any(char.isdigit() or char in ".-" for char in name)
