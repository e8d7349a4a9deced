"""Syslog lines: RFC 3164 (no year, months of any language), RFC 5424, ISO stamps, and what journalctl prints.

    May  7 01:39:28 gpu017 kernel: [ 4117.304981] NVRM: ...         RFC 3164, the traditional file format
    2025 May  7 01:39:28 gpu017 kernel: ...                         the same with a year, before it, in it or behind it
    <4>1 2026-03-01T12:00:00.123456+00:00 gpu017 kernel - - - ...   RFC 5424
    2026-09-27T10:01:02+0000 gpu017 kernel: ...                     rsyslog's file format, journalctl -o short-iso
    Sun 2026-03-01 12:00:00 UTC gpu017 kernel: ...                  journalctl -o short-full
    1757508815.654321 gpu017 kernel: ...                            journalctl -o short-unix

https://www.rfc-editor.org/rfc/rfc3164, https://www.rfc-editor.org/rfc/rfc5424
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from aftershock.parsers.clock import (
    NO_CLOCK,
    SECOND,
    YEARLESS,
    ClockKind,
    Reading,
    fraction_micros,
    wall_micros,
    zone_offset_micros,
)
from aftershock.parsers.envelopes.layer import FACILITIES, LEVELS, Layer, text_of
from aftershock.parsers.envelopes.months import month_number

# Month, day and time, the year somewhere or nowhere: the month in letters of any language, or as East Asian locales
# write it.
_BSD_STAMP: Final = re.compile(
    rb"((?:\d{4}\ {1,2})?(?:[A-Za-z\x80-\xff]{3,24}\.?|\d{1,2}(?:\xe6\x9c\x88|\xec\x9b\x94))\ {1,2}\d{1,2}\ "
    rb"(?:\d{4}\ )?\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?"
    # a year behind the time, before host and program; a host is not called like that
    rb"(?:\ ((?:19|20)\d\d)(?=\ (?:[^\s:]{1,255}\ )?[^\s:]{1,128}:\ ))?(?:\ |$)"
)
_BSD_PARTS: Final = re.compile(rb"(?:(\d{4}) +)?(\S+) +(\d+) (?:(\d{4}) )?(\d\d):(\d\d):(\d\d)")

_ISO_STAMP: Final = re.compile(
    rb"""
    (?:[^\s\d]{2,12}\ (?=\d{4}-\d\d-\d\d\ ))?                     # short-full begins with the day of the week
    (((?:\d{4}-\d\d-\d\d|\d{4}/\d\d/\d\d(?=\ ))([T\ ])\d\d:\d\d:\d\d)(?:([.,])(\d{1,9}))?
    (?:\ ?(Z|[+-]\d\d:?\d\d)
    # a zone in letters belongs to a time behind a blank: short-full, with microseconds or without
    |(?:(?<=\ ..:..:..)|(?<=\ ..:..:..\.\d{6}))\ ([A-Z]{3,5}))?)(?:\ |$)
    """,
    re.VERBOSE,
)

# asctime: Sat Aug 31 10:44:08 2024, with the zone of date(1) or without one.
_ASCTIME: Final = re.compile(
    rb"([A-Z][a-z]{2}\ ([A-Z][a-z]{2})\ {1,2}(\d{1,2})\ (\d\d):(\d\d):(\d\d)\ (?:([A-Z]{3,5})\ )?(\d{4}))\ "
)

_UNIX_STAMP: Final = re.compile(rb"((\d{9,10})\.(\d{6}))\ ")

# Who wrote it: host, then the program with or without its pid. A host may be missing; busybox puts facility and level
# before the program. Words of the driver and levels of other loggers are no programs and no hosts.
_WRITER: Final = re.compile(
    rb"""
    (?:(?!(?i:info|warn|warning|error|debug|fatal|trace|notice|critical)\b)([^\s:\[\]{"'=(]\S{0,254}(?<!:))\ )?
    (?:([a-z]+\d?)\.([a-z]+)\ )?
    (?!NVRM:|nvidia-nvswitch\d|(?:error|debug\d?|verbose|info|fatal|warning):)
    ([^\s:\[\]"'{]{1,128})(?:\[[^\]\s]{0,32}\])?:(?:\ |$|(?=\[)|(?<=\ kernel:))
    """,
    re.VERBOSE,
)
_KERNEL_ON_HOST: Final = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]{0,254} kernel: ")
_HOST_ONLY: Final = re.compile(
    rb"([A-Za-z0-9][A-Za-z0-9._-]{0,254})\ (?=(?:--- )?[lL]ast message|message repeated|NVRM:|nvidia-nvswitch|\[ *\d)"
)

# A relay puts its own stamp and name before a record that has both.
_RELAY: Final = re.compile(
    rb"""
    ([A-Za-z0-9][A-Za-z0-9._:-]{0,254})[ ]
    (?=(?:<\d{1,3}>)?(?:[A-Z][a-z]{2}\ [ \d]\d\ \d\d:\d\d:\d\d\ |\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d))
    """,
    re.VERBOSE,
)

_PRI: Final = re.compile(rb"<(\d{1,3})>")

_RFC5424: Final = re.compile(
    rb"""
    (?:<(\d{1,3})>)?1\                                               # priority, version
    (-|(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d))\     # time
    (\S{1,255})\ (\S{1,128})\ \S{1,128}\ \S{1,64}\                   # host, program, process id, message id
    (?:-|(?:\[(?:[^\]\\]|\\.)*\])+)                                  # structured data
    (?:\ (?:\xef\xbb\xbf)?|$)
    """,
    re.VERBOSE | re.DOTALL,
)


def peel_bsd(data: bytes) -> Layer | None:
    """RFC 3164: no year and no zone; ``journalctl -o short`` and ``short-precise`` look the same."""
    stamp = _BSD_STAMP.match(data)
    if stamp is None:
        return None
    printed, fraction, year = stamp.groups()
    read = _bsd_wall(printed, year)
    if read is None:
        return None
    kind, wall = read
    text = data[: stamp.end()].rstrip().decode("utf-8", "backslashreplace")
    if wall is None:
        reading = Reading(text=text)
    elif fraction is None:
        reading = Reading(kind, wall, None, None, SECOND, text)
    else:
        micros, resolution = fraction_micros(fraction)
        reading = Reading(kind, wall + micros, None, None, resolution, text)
    return _written_by("rfc3164", data, stamp.end(), reading)


@lru_cache(maxsize=8192)
def _bsd_wall(printed: bytes, year_behind: bytes | None) -> tuple[ClockKind, int | None] | None:
    """Kind and wall clock of ``May  7 01:39:28``; wall None for a day that does not exist, None if it is no date."""
    parts = _BSD_PARTS.match(printed)
    month = month_number(parts[2]) if parts else None
    if parts is None or month is None:
        return None
    year = parts[1] or parts[4] or year_behind
    wall = wall_micros(
        int(year) if year else YEARLESS,
        month,
        *(int(parts[i]) for i in (3, 5, 6, 7)),
    )
    return ("local" if year else "yearless"), wall


def peel_iso(data: bytes) -> Layer | None:
    """ISO 8601 with a zone or without one, of rsyslog, journalctl and ``dmesg --time-format iso``."""
    stamp = _ISO_STAMP.match(data)
    if stamp is None:
        return None
    printed, second, separator, point, fraction, zone, zone_word = stamp.groups()
    if separator == b" " and b" kernel:" not in data[:300]:
        return None  # so write programs of all kinds: their own grammar reads it
    reading = _reading(_iso_wall(second), fraction, zone or zone_word, printed)
    is_of_dmesg = point == b"," and separator == b"T" and zone is not None and len(fraction) == 6
    if is_of_dmesg and not _KERNEL_ON_HOST.match(data, stamp.end()):
        # Of the kernel's printers only dmesg writes a comma, microseconds and a zone; it names neither host nor
        # program, and what looks like a program (a thread that died) belongs to the message.
        return Layer("dmesg", data[stamp.end() :], reading)
    layer = _written_by("iso", data, stamp.end(), reading)
    if layer.tag is not None:
        return layer if separator == b"T" or layer.tag == "kernel" else None
    if separator == b" ":
        return None
    if fraction is not None and len(fraction) == 9 and zone is not None:
        # docker logs -t, kubectl logs --timestamps: nanoseconds of whoever collected the line
        return Layer("collected", data[stamp.end() :], labels={"collected": text_of(printed)}, open=True)
    return layer._replace(open=True)


@lru_cache(maxsize=8192)
def _iso_wall(second: bytes) -> int | None:
    """``2026-03-01T12:00:00`` as a wall clock."""
    return wall_micros(
        int(second[:4]),
        int(second[5:7]),
        int(second[8:10]),
        int(second[11:13]),
        int(second[14:16]),
        int(second[17:]),
    )


@lru_cache(maxsize=256)
def _zone(word: bytes) -> int | None:
    """Microseconds east of UTC; of the abbreviations only those count that mean the same everywhere."""
    return 0 if word in (b"UTC", b"GMT") else zone_offset_micros(word)


def _reading(wall: int | None, fraction: bytes | None, zone: bytes | None, printed: bytes) -> Reading:
    text = text_of(printed)
    if wall is None:
        return Reading(text=text)
    micros, resolution = fraction_micros(fraction)
    offset = None if zone is None else _zone(zone)
    if offset is None:
        return Reading("local", wall + micros, None, None, resolution, text)
    return Reading("zoned", wall + micros - offset, None, None, resolution, text)


def iso_reading(printed: bytes) -> Reading | None:
    """The reading of an ISO stamp alone, as talosctl prints it; None if it is none."""
    stamp = _ISO_STAMP.fullmatch(printed)
    if stamp is None:
        return None
    return _reading(_iso_wall(stamp[2]), stamp[5], stamp[6] or stamp[7], printed)


def peel_asctime(data: bytes) -> Layer | None:
    """``Sat Aug 31 10:44:08 2024``, as date(1) and asctime(3) print it."""
    stamp = _ASCTIME.match(data)
    if stamp is None:
        return None
    month = month_number(stamp[2])
    if month is None:
        return None
    wall = wall_micros(int(stamp[8]), month, *(int(stamp[i]) for i in (3, 4, 5, 6)))
    return _written_by("asctime", data, stamp.end(), _reading(wall, None, stamp[7], stamp[1]))


def peel_unix(data: bytes) -> Layer | None:
    """``journalctl -o short-unix``: seconds since 1970 and the writer."""
    stamp = _UNIX_STAMP.match(data)
    if stamp is None:
        return None
    wall = int(stamp[2]) * SECOND + int(stamp[3])
    layer = _written_by("journalctl", data, stamp.end(), Reading("epoch", wall, None, None, 1, text_of(stamp[1])))
    return layer if layer.tag is not None else None


def peel_rfc5424(data: bytes) -> Layer | None:
    """RFC 5424, with priority or (in files) without it."""
    found = _RFC5424.match(data)
    if found is None:
        return None
    printed_priority, printed, second, fraction, zone, host, program = found.groups()
    priority = None if printed_priority is None else int(printed_priority)
    return Layer(
        "rfc5424",
        data[found.end() :],
        NO_CLOCK if second is None else _reading(_iso_wall(second), fraction, zone, printed),
        None if host == b"-" else text_of(host),
        None if program == b"-" else text_of(program),
        None if priority is None else priority >> 3,
        None if priority is None else priority & 7,
        open=program == b"-",
        weak=program == b"-",
    )


def peel_writer(data: bytes) -> Layer | None:
    """``gpu017 kernel: `` or ``kernel: `` without a time, before a message of the kernel."""
    found = _WRITER.match(data)
    if found is None or found[4] != b"kernel":
        return None
    return _written_by("tag", data, 0, NO_CLOCK)


def priority_of(data: bytes) -> tuple[int, int, int] | None:
    """(facility, level, length) of a ``<4>`` at the beginning."""
    found = _PRI.match(data)
    number = int(found[1]) if found else 192
    if found is None or number > 191:
        return None
    return number >> 3, number & 7, found.end()


def _written_by(name: str, data: bytes, begin: int, reading: Reading) -> Layer:
    """The layer whose writer stands at ``begin``; host and program stay None where they are not named."""
    relay = _RELAY.match(data, begin)
    if relay is not None:
        return Layer(name, data[relay.end() :], reading, text_of(relay[1]), open=True, weak=True)
    writer = _WRITER.match(data, begin)
    if writer is None:
        alone = _HOST_ONLY.match(data, begin)
        if alone is None:
            return Layer(name, data[begin:], reading)
        return Layer(name, data[alone.end() :], reading, alone[1].decode("ascii"))
    host, facility, level, tag = writer.groups()
    return Layer(
        name,
        data[writer.end() :],
        reading,
        None if host is None else host.decode("utf-8", "backslashreplace"),
        tag.decode("utf-8", "backslashreplace"),
        FACILITIES.get(facility) if facility else None,
        LEVELS.get(level) if level else None,
    )
