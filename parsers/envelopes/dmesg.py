"""The kernel's own clock: dmesg in all its options, raw kmsg records, serial consoles, talosctl, ftrace.

    [   52.731904] NVRM: ...                      seconds since boot
    [   52.731904][ T1946] ...                    with the thread or processor that printed it
    [   52.731904 <    0.000004>] ...             dmesg -d; journalctl -o short-delta, with host and program behind it
    [Sat Aug 31 10:44:08 2024] ...                dmesg -T: the wall clock of the host, without a zone
    kern  :warn  : [   52.731904] ...             dmesg -x
    [Aug31 10:44] ...   [  +0.000004] ...         dmesg -H
    4,1234,5678901,-;NVRM: ...                    /dev/kmsg: priority, sequence, microseconds, flags
    192.0.2.7: kern:  err: [2026-05-05T05:05:05.000000001Z]: ...    talosctl dmesg
    python3-900  [001] d.h1.   200.000001: nvidia_dev_xid: ...      ftrace

https://man7.org/linux/man-pages/man1/dmesg.1.html, https://docs.kernel.org/trace/ftrace.html,
https://www.kernel.org/doc/Documentation/ABI/testing/dev-kmsg
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.clock import (
    MINUTE,
    NO_CLOCK,
    SECOND,
    YEARLESS,
    Reading,
    fraction_micros,
    wall_micros,
)
from aftershock.parsers.envelopes.layer import FACILITIES, LEVELS, Layer, text_of
from aftershock.parsers.envelopes.months import month_number
from aftershock.parsers.envelopes.syslog import iso_reading, peel_writer

# A thread (T) or processor (C) of kernels with CONFIG_PRINTK_CALLER.
_CALLER: Final = rb"(?:\ ?\[\ *[TC]\d+\])?"

_BOOT: Final = re.compile(rb"\[ *((\d{1,10})\.(\d{1,9}))(?: *<[ +*\d.]*>)?\]" + _CALLER + rb" ?")
_WALL: Final = re.compile(
    rb"\[([^\s\d\[\]]{1,16}\ ([^\s\[\]]{1,24})\ {1,2}(\d{1,2})\ (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?\ (\d{4}))"
    rb"(?:\ *<[\ +\d.]*>)?\]" + _CALLER + rb"\ ?"
)
_HUMAN: Final = re.compile(
    rb"\[(?:(([^\s\d\[\]]{3,24}|\d{1,2}\xe6\x9c\x88) ?(\d{1,2}) (\d\d):(\d\d))|( *<?\+? *\d*\.\d+>?))\] ?"
)
_DECODED: Final = re.compile(rb"([a-z]{2,8}[0-7]?) *:([a-z]{3,6}) *: ?")
_KMSG: Final = re.compile(rb"(\d{1,6}),(\d{1,20}),(\d{1,16}),[^;\s]{1,64};")
# What the kernel escapes in a record of /dev/kmsg, beside control characters: bytes outside ASCII, and the backslash.
_ESCAPED: Final = re.compile(rb"\\x([89a-f][0-9a-f]|5c)")
_TALOS: Final = re.compile(rb"([^\s:]\S{0,254}): ([a-z]+\d?): +([a-z]+): \[([0-9T:.+Z-]{19,40})\]: ")
_FTRACE: Final = re.compile(
    rb"\s*\S.{0,31}?-\d{1,10}\s+(?:\(\s*[\d-]+\)\s+)?\[\d{1,5}\]\s+(?:[\w.#]{4,6}\s+)?((\d{1,10})\.(\d{1,9})):\s(?:\w+:)?(\w+):\s"
)

# Nothing has been up for thirty years: larger numbers count from 1970 (tools that print both forms alike do exist).
_LONGEST_UPTIME_S: Final = 1_000_000_000


def peel_bracket(data: bytes) -> Layer | None:
    """Any of the stamps that dmesg puts in square brackets."""
    boot = _BOOT.match(data)
    if boot is not None:
        printed, seconds, fraction = boot.groups()
        if len(fraction) == 6:  # as the kernel prints it: nothing to scale
            micros, resolution = int(seconds + fraction), 1
        else:
            micros, resolution = fraction_micros(fraction)
            micros += int(seconds) * SECOND
        if micros < _LONGEST_UPTIME_S * SECOND:
            reading = Reading("none", None, micros, None, resolution, printed.decode("ascii"))
        else:
            reading = Reading("epoch", micros, None, None, resolution, printed.decode("ascii"))
        return _named(data[boot.end() :], reading)
    wall = _WALL.match(data)
    if wall is not None:
        return _by_wall(data, wall)
    human = _HUMAN.match(data)
    if human is None:
        return None
    if human[1] is None:
        # Only the time since the line before: no clock of its own, and not a time as printed either.
        return Layer("dmesg", data[human.end() :])
    month = month_number(human[2])
    if month is None:
        return None
    micros_or_none = wall_micros(YEARLESS, month, int(human[3]), int(human[4]), int(human[5]), 0)
    if micros_or_none is None:
        return Layer("dmesg", data[human.end() :], Reading(text=text_of(human[1])))
    return Layer(
        "dmesg",
        data[human.end() :],
        Reading("yearless", micros_or_none, None, None, MINUTE, text_of(human[1])),
    )


def _by_wall(data: bytes, wall: re.Match[bytes]) -> Layer | None:
    month = month_number(wall[2])
    if month is None:
        return None
    micros = wall_micros(int(wall[8]), month, *(int(wall[i]) for i in (3, 4, 5, 6)))
    fraction, resolution = fraction_micros(wall[7])
    text = text_of(wall[1])
    if micros is None:
        return _named(data[wall.end() :], Reading(text=text))
    return _named(data[wall.end() :], Reading("local", micros + fraction, None, None, resolution, text))


def _named(rest: bytes, reading: Reading) -> Layer:
    """``journalctl -o short-monotonic`` prints host and program behind the bracket."""
    if b"kernel:" in rest[:264]:
        writer = peel_writer(rest)
        if writer is not None:
            return writer._replace(name="dmesg", reading=reading)
    return Layer("dmesg", rest, reading)


def peel_decoded(data: bytes) -> Layer | None:
    """``dmesg -x``: facility and level in words."""
    found = _DECODED.match(data)
    if found is None or found[1] not in FACILITIES or found[2] not in LEVELS:
        return None
    return Layer(
        "dmesg-x",
        data[found.end() :],
        NO_CLOCK,
        facility=FACILITIES[found[1]],
        level=LEVELS[found[2]],
        open=True,
    )


def peel_kmsg(data: bytes) -> Layer | None:
    """A record of /dev/kmsg. The facility tells who wrote it: the kernel (0) or a user (not 0)."""
    found = _KMSG.match(data)
    if found is None:
        return None
    rest = data[found.end() :]
    if b"\\x" in rest:
        rest = _ESCAPED.sub(lambda byte: bytes((int(byte[1], 16),)), rest)
    priority, sequence, micros = int(found[1]), found[2], int(found[3])
    reading = Reading("none", None, micros, None, 1, found[3].decode("ascii"))
    return Layer(
        "kmsg",
        rest,
        reading,
        facility=priority >> 3,
        level=priority & 7,
        labels={"seq": sequence.decode("ascii")},
    )


def peel_talos(data: bytes) -> Layer | None:
    """``talosctl dmesg``: the node, facility and level in words, an absolute time."""
    found = _TALOS.match(data)
    if found is None or found[2] not in FACILITIES:
        return None
    return Layer(
        "talos",
        data[found.end() :],
        iso_reading(found[4]) or Reading(text=text_of(found[4])),
        text_of(found[1]),
        facility=FACILITIES[found[2]],
        level=LEVELS.get(found[3]),
    )


def peel_ftrace(data: bytes) -> Layer | None:
    """A line of the trace buffer. Its task is the one that was interrupted, and is not kept."""
    found = _FTRACE.match(data)
    if found is None:
        return None
    micros, resolution = fraction_micros(found[3])
    reading = Reading("none", None, int(found[2]) * SECOND + micros, None, resolution, found[1].decode("ascii"))
    return Layer("ftrace", data[found.end() :], reading, tag=text_of(found[4]))
