"""The text of a kernel record: whether the kernel said it, and all of it where it goes on over several lines."""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.envelopes import unwrap
from aftershock.parsers.formats import Envelope, Line

# Programs whose business it is to pass on what the kernel said. Any other program only talks about it.
FORWARDERS: Final = frozenset(
    {
        *("dmesg", "journalctl", "rsyslogd", "syslog-ng", "systemd-journald", "fluent-bit", "fluentd", "vector"),
        *("promtail", "node-problem-detector", "gpud", "klogd"),
    }
)
_COLLECTORS: Final = frozenset({"docker", "cri", "collected"})
_DAEMONS: Final = frozenset({"slurm", "stamp"})

# A record that a terminal folded: at most so many lines more, indented, without a stamp of their own.
_MOST_FOLDS: Final = 4
_FOLD: Final = re.compile(rb"(?:\t| {4})\s*\S")
_REPEATED_BELOW: Final = re.compile(rb"last message repeated (\d{1,9}) times?")


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
    return "kernel" if _COLLECTORS.isdisjoint(envelope.names) else "relayed"


def whole_message(line: Line) -> bytes:
    """The message of the line, joined with the lines that continue it."""
    envelope = line.envelope
    message = envelope.message
    if not line.following:
        return message
    if envelope.labels and "partial" in envelope.labels:
        return message + _rest_of_partial(line.following)
    if line.following[:1] not in (b" ", b"\t"):
        return message
    for below in line.following.split(b"\n", _MOST_FOLDS)[:_MOST_FOLDS]:
        if not _FOLD.match(below) or b"NVRM" in below or unwrap(below).names != ("plain",):
            break
        inner = below.strip()
        if unwrap(inner).names != ("plain",):
            break
        message = message.rstrip() + b" " + inner
    return message


def _rest_of_partial(following: bytes) -> bytes:
    """What a container runtime cut off a long line: the pieces up to the first that is not partial."""
    pieces = []
    for below in following.split(b"\n"):
        envelope = unwrap(below)
        if not envelope.labels or "collected" not in envelope.labels:
            break
        pieces.append(envelope.message)
        if "partial" not in envelope.labels:
            break
    return b"".join(pieces)


def occurrences(line: Line) -> int:
    """How often the line was printed, where syslog counted: the count of a summary, or one more than the one below."""
    labels = line.envelope.labels
    if labels and "repeated" in labels:
        return int(labels["repeated"])
    if b"last message repeated" in line.following[:200]:
        below = unwrap(line.following.split(b"\n", 1)[0])
        again = _REPEATED_BELOW.match(below.message)
        if again is not None and below.host == line.envelope.host:
            return 1 + int(again[1])
    return 1
