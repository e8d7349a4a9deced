"""The text of a kernel record: whether the kernel said it, and all of it where it goes on over several lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aftershock.parsers.envelopes import unwrap
from aftershock.parsers.envelopes.records import STORES
from aftershock.parsers.formats import LOOKAHEAD, Envelope, Line
from aftershock.parsers.kernel.broken import unbroken

# Programs whose business it is to pass on what the kernel said. Any other program only talks about it.
FORWARDERS: Final = frozenset(
    {
        *("dmesg", "journalctl", "rsyslogd", "syslog-ng", "systemd-journald", "fluent-bit", "fluentd", "vector"),
        *("promtail", "node-problem-detector", "gpud", "klogd"),
    }
)
_COLLECTORS: Final = frozenset({"docker", "cri", "collected", "pod"})
_DAEMONS: Final = frozenset({"slurm", "stamp"})

# A record that a terminal folded: at most so many lines more, indented, without a stamp of their own.
_MOST_FOLDS: Final = 4
_FOLD: Final = re.compile(rb"(?:\t| {4})\s*\S")
# What stands indented below other records are their details: registers, stacks, whether the kernel is tainted.
_FOLDED: Final = (b"NVRM", b"Xid (")
# Daemons that write to /dev/kmsg put their names before their words.
_DAEMON: Final = re.compile(rb"(systemd(?:-[a-z]{2,16})?|mmfs(?:d|64)?)(?:\[\d{1,10}\])?: ")
_REPEATED_BELOW: Final = re.compile(rb"-{0,3} ?last message (?:repeated|buffered) (\d{1,9}) times?", re.IGNORECASE)


def trust_of(envelope: Envelope) -> str | None:
    """Who says it: ``kernel``, ``user``, ``relayed``; None if a program says it that is not the kernel's voice."""
    if not _DAEMONS.isdisjoint(envelope.names):
        return None
    if envelope.tag is not None and envelope.tag not in ("kernel", "nvidia_dev_xid"):
        return "relayed" if envelope.tag in FORWARDERS else None
    if envelope.facility:
        return "user"
    if envelope.labels and envelope.labels.get("transport", "kernel") != "kernel":
        return "user"
    if not _COLLECTORS.isdisjoint(envelope.names) or (envelope.labels and "collected" in envelope.labels):
        return "relayed"
    # A store says the same of all lines; that the kernel wrote this one stands in its tag.
    return "relayed" if envelope.tag is None and not STORES.isdisjoint(envelope.names) else "kernel"


def is_by(envelope: Envelope, programs: tuple[str, ...]) -> bool:
    """Whether one of some programs can have written the line: by its name, or where no other is named."""
    if not {"slurm"}.isdisjoint(envelope.names):
        return False
    return envelope.tag is None or envelope.tag in FORWARDERS or envelope.tag.startswith(programs)


def whole_message(line: Line) -> bytes:
    """The message of the line, joined with the lines that continue it."""
    envelope = line.envelope
    message = envelope.message
    if not line.following:
        return message
    if not _FOLD.match(line.following) or "journal" in envelope.names or not any(words in message for words in _FOLDED):
        return unbroken(line, message) if b"Xid (" in message else message
    for below in line.following.split(b"\n", _MOST_FOLDS)[:_MOST_FOLDS]:
        if not _FOLD.match(below) or b"NVRM" in below or unwrap(below).names != ("plain",):
            break
        inner = below.strip()
        if unwrap(inner).names != ("plain",):
            break
        message = message.rstrip() + b" " + inner
    return message


def lines_below(line: Line, most: int) -> Iterator[bytes]:
    """The messages of the lines below, at most so many, as far as the same host wrote them."""
    below = line.following
    if len(below) >= LOOKAHEAD:
        below = below[: below.rfind(b"\n") + 1]  # the last line may go on
    for text in below.split(b"\n", most)[:most]:
        envelope = unwrap(text.rstrip(b"\r"))
        if envelope.host == line.envelope.host:
            yield envelope.message


def daemon_of(message: bytes) -> tuple[str, bytes] | None:
    """The daemon that wrote into the ring of the kernel under its own name, and what it said; None if none did."""
    found = _DAEMON.match(message)
    return None if found is None else (found[1].decode("ascii"), message[found.end() :])


def occurrences(line: Line) -> int:
    """How often the line was printed, where syslog counted: the count of a summary, or one more than the one below."""
    labels = line.envelope.labels
    if labels and "repeated" in labels:
        return int(labels["repeated"])
    if _REPEATED_BELOW.search(line.following, 0, 400):
        below = unwrap(line.following.split(b"\n", 1)[0])
        again = _REPEATED_BELOW.match(below.message)
        if again is not None and below.host == line.envelope.host:
            return 1 + int(again[1])
    return 1
