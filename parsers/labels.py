"""Whether the word before a record is the label of a host.

    gpu017: [  77.000001] NVRM: ...           pdsh and clush label every line of what they print
    gpu018: [  78.000001] NVRM: ...

    bob7: NVRM: Xid (PCI:0000:3b:00): 79      a person, in the middle of a conversation
    alice: did you reboot it?

A label of a host has company: lines around it are labelled too, with names that differ in their numbers at most. One
that has none is not taken for a host, unless there is no other line at all: then nothing speaks against it. A bare
record (no stamp, no tag) in the middle of a conversation is quoted, and is no event.
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.envelopes import unwrap
from aftershock.parsers.envelopes.plain import counts_lines, label_of, peel_label, stem_of
from aftershock.parsers.formats import Envelope

# Lines that are looked at on either side, and how far away they may be.
_MOST_LINES: Final = 8
_REACH: Final = 16 << 10

# Words before a colon that no people are called: levels, programs of this trade, and what a report names.
_NO_SPEAKER: Final = re.compile(
    rb"(?i)(?:info|warn(?:ing)?|err(?:or)?|debug|fatal|notice|crit(?:ical)?|trace|note|usage|kernel|nvrm|host|node|name"
    rb"|time|date|status|result|output|file|path|version|driver|job|user|reason|ssh|scp|srun|sbatch|salloc|slurmstepd"
    rb"|slurmd|pdsh|clush|ansible|salt|kubectl|sudo|(?:ba|z)?sh|grep|dmesg|journalctl|python3?)\Z"
)
# Plain words, as people write them.
_SPOKEN: Final = re.compile(
    rb"\b[A-Za-z']{1,20}[,.!]? [A-Za-z']{1,20}[,.!]? [A-Za-z']{1,20}\b|\?\s*\Z|\A(?i:yes|no|thanks|ok)\b"
)


def has_company(envelope: Envelope, data: bytes | bytearray, begin: int) -> bool:
    """Whether the line above or below has a record under a label like this one. Cheap: the others are weighed."""
    if envelope.host is None:
        return True  # the number of a task, which names no host
    stem = stem_of(envelope.host.encode())
    end = data.find(b"\n", begin)
    above = data[data.rfind(b"\n", max(0, begin - _REACH), max(0, begin - 1)) + 1 : max(0, begin - 1)]
    below = b"" if end < 0 else data[end + 1 : end + 1 + 600]
    return any(_is_alike(bytes(line), stem) for line in (above, below)) and not counts_lines(envelope.host.encode())


def weigh_label(text: bytes, envelope: Envelope, before: bytes, after: bytes) -> Envelope | None:
    """The envelope of a labelled line, without the host if the label is none; None if somebody quotes a record."""
    host = (envelope.host or "").encode()
    own = label_of(text)
    if own is None or own[0] != host:
        return envelope  # ansible's label: it says itself what it is
    if counts_lines(host):
        return envelope._replace(host=None)
    lines = _lines_around(before, after)
    stem = stem_of(host)
    labels = [label for label in map(label_of, lines) if label is not None]
    if all(label is not None and stem_of(label[0]) == stem for label in map(label_of, lines)):
        return envelope
    if any(_is_alike(line, stem) for line in lines):
        return envelope
    if envelope.names == ("label",) and any(_is_spoken(*label) for label in labels):
        return None
    return envelope._replace(host=unwrap(own[1]).host)  # a record that names its host needs no label


def _lines_around(before: bytes, after: bytes) -> list[bytes]:
    above = [line for line in before[-_REACH:].split(b"\n") if line.strip()][-_MOST_LINES:]
    below = [line for line in after[:_REACH].split(b"\n") if line.strip()][:_MOST_LINES]
    return above + below


def _is_alike(line: bytes, stem: bytes) -> bool:
    """Whether a line is a record under a label of this kind."""
    label = label_of(line)
    return label is not None and stem_of(label[0]) == stem and peel_label(line) is not None


def _is_spoken(label: bytes, said: bytes) -> bool:
    return not _NO_SPEAKER.match(label) and _SPOKEN.search(said, 0, 400) is not None
