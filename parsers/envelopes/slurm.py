"""The stamps of Slurm's daemons, in every ``LogTimeFormat``.

    [2026-12-01T20:11:09.190] error: ...                     iso8601_ms, the default; iso8601 has no fraction
    [2026-12-01T20:11:09.190+09:00] error: ...               rfc5424_ms, rfc5424, rfc3339
    [May 01 10:20:30] error: ...                             short
    [May 01 10:20:30.190    12345 srvcn        0x7f2a11b2c700]    thread_id: microseconds are not padded with zeros
    sched: [2026-12-01T20:11:09.190] ...                     SlurmSchedLogFile
    {"log":"error: ...","stream":"stderr","time":"2026-12-01T20:11:09"}      a log as JSON

``clock`` and ``omit`` print no time that can be told from other text, and are read by the formats of the daemons.
https://slurm.schedmd.com/slurm.conf.html#OPT_LogTimeFormat
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from aftershock.parsers.clock import (
    SECOND,
    YEARLESS,
    Reading,
    fraction_micros,
    wall_micros,
    zone_offset_micros,
)
from aftershock.parsers.envelopes.layer import Layer, text_of
from aftershock.parsers.envelopes.months import month_number

_ISO: Final = re.compile(rb"\[((\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?)\] ?")
_MEMBERS: Final = frozenset({"log", "stream", "time"})
_JSON_TIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:[+-][0-9]{2}:?[0-9]{2})?"
    r"|[A-Za-z]{3} [0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}"
)
_SHORT: Final = re.compile(
    rb"""
    \[(([A-Za-z\x80-\xff]{3,24}\.?)\ {1,2}(\d{1,2})\ (?:(\d{4})\ )?(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)
    (\ {1,16}\d{1,10}\ {1,16}(?:[^\]\n\ ][^\]\n]{0,15}?\ {1,16})?(?:0x[0-9a-f]{1,16}|\(nil\)))?\ *\]\ ?
    """,
    re.VERBOSE,
)


def peel_bracket(data: bytes) -> Layer | None:
    """The stamp of slurmctld, slurmd, slurmdbd or slurmstepd, a wall clock in square brackets."""
    found = _ISO.match(data)
    if found is None:
        return _peel_short(data)
    printed, stamp, fraction, zone = found.groups()
    rest = data[found.end() :]
    wall = _wall(stamp)
    text = printed.decode("ascii")
    if wall is None:
        return Layer("slurm", rest, Reading(text=text))
    micros, resolution = fraction_micros(fraction)
    offset = None if zone is None else zone_offset_micros(zone)
    if offset is None:
        return Layer("slurm", rest, Reading("local", wall + micros, None, None, resolution, text))
    return Layer("slurm", rest, Reading("zoned", wall + micros - offset, None, None, resolution, text))


def peel_sched(data: bytes) -> Layer | None:
    """The stamp of the log of the scheduler, which stands behind a word."""
    return peel_bracket(data[7:]) if data.startswith(b"sched: [") else None


def peel_json(entry: Mapping[str, Any]) -> Layer | None:
    """An entry of a log as JSON. It has the members of docker's, but a time of its own, never with ``Z``."""
    text, time = entry.get("log"), entry.get("time")
    if not isinstance(text, str) or not isinstance(time, str) or text.endswith("\n") or len(entry) != len(_MEMBERS):
        return None
    if not _MEMBERS.issuperset(entry):
        return None
    found = _JSON_TIME.fullmatch(time)
    layer = peel_bracket(b"[%b] " % time.encode("ascii")) if found else None
    return layer._replace(rest=text.encode("utf-8", "surrogatepass")) if layer else None


@lru_cache(maxsize=8192)
def _wall(stamp: bytes) -> int | None:
    day, time = stamp.split(b"T")
    year, month, dom = day.split(b"-")
    hour, minute, second = time.split(b":")
    return wall_micros(int(year), int(month), int(dom), int(hour), int(minute), int(second))


def _peel_short(data: bytes) -> Layer | None:
    found = _SHORT.match(data)
    month = month_number(found[2]) if found else None
    if found is None or month is None:
        return None
    year = int(found[4]) if found[4] else YEARLESS
    wall = wall_micros(year, month, int(found[3]), int(found[5]), int(found[6]), int(found[7]))
    rest = data[found.end() :]
    text = text_of(found[1])
    if wall is None:
        return Layer("slurm", rest, Reading(text=text))
    if found[9] is not None:  # thread_id prints the number of microseconds, not a decimal fraction
        micros, resolution = int(found[8] or 0), 1
    else:
        micros, resolution = fraction_micros(found[8]) if found[8] else (0, SECOND)
    return Layer(
        # A year within the brackets is the fabric manager's; the layer is the same.
        "slurm" if found[4] is None else "stamp",
        rest,
        Reading("local" if found[4] else "yearless", wall + micros, None, None, resolution, text),
    )
