"""What a cell of a table says: text, number, truth, hosts, a time. From CSV it is text, elsewhere it has a type.

Nothing is guessed: a time that could be read in two ways (``03/02/2026``) needs a format in the configuration, and a
number that is a time needs a unit if its size does not tell it.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from aftershock.parsers.clock import DAY, SECOND, ClockKind, fraction_micros, wall_micros, zone_offset_micros
from aftershock.parsers.column_map import NOTHING
from aftershock.parsers.hostlist import CAP, HostListError, expand_hosts

MOST_INT32: Final = 2**31 - 1
LATEST: Final = 7_258_118_400 * SECOND  # 2200

_LONGEST_NOTHING: Final = max(map(len, NOTHING))
_WHOLE: Final = re.compile(r"(?P<number>[+-]?[0-9]{1,18})(?:\.0{1,9})?\Z")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}(?:\.[0-9]{1,18})?(?:[eE][+-]?[0-9]{1,2})?\Z")
_TRUE: Final = frozenset({"true", "yes", "y", "t", "1", "planned"})
_FALSE: Final = frozenset({"false", "no", "n", "f", "0", "unplanned"})


class ArrowTime(NamedTuple):
    """A time of a typed column: microseconds, in UTC or on a wall clock without a zone."""

    micros: int
    utc: bool


class CellClock(NamedTuple):
    """A time: what it counts, microseconds, its smallest step in microseconds, its text."""

    kind: ClockKind
    wall: int
    resolution: int
    text: str


def text_cell(value: Any) -> str | None:
    """The text of a cell; None where there is nothing."""
    if value is None:
        return None
    if isinstance(value, str):
        word = value.strip()
        # No word for nothing is longer: most cells need no second look.
        return None if len(word) <= _LONGEST_NOTHING and word.lower() in NOTHING else word
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return (
            None if math.isnan(value) else str(int(value)) if value.is_integer() and abs(value) < 1e18 else str(value)
        )
    return None


def whole_cell(value: Any) -> int | None:
    """A whole number of 32 bits; ``8.0`` is one too.

    Raises:
        ValueError: it is something else.
    """
    text = text_cell(value)
    if text is None:
        return None
    match = _WHOLE.match(text)
    if match is None or abs(number := int(match["number"])) > MOST_INT32:
        raise ValueError("not a whole number")
    return number


def number_cell(value: Any) -> float | None:
    """A number.

    Raises:
        ValueError: it is something else.
    """
    text = text_cell(value)
    if text is None:
        return None
    if not _NUMBER.match(text):
        raise ValueError("not a number")
    return float(text)


def truth_cell(value: Any) -> bool | None:
    """True or false.

    Raises:
        ValueError: it is something else.
    """
    word = (text_cell(value) or "").lower()
    if not word:
        return None
    if word not in _TRUE and word not in _FALSE:
        raise ValueError("neither true nor false")
    return word in _TRUE


_LIST: Final = re.compile(r"[\[({]\s*['\"].*[\])}]\Z", re.DOTALL)
_QUOTED: Final = re.compile(r"'([^']*)'|\"([^\"]*)\"")
# Blanks and other marks between hosts become commas, but not within brackets.
_BETWEEN: Final = re.compile(r"\[[^\[\]]*\]|[\s;|]+")


def hosts_cell(value: Any, separator: str | None = None, most: int = CAP) -> list[str] | None:
    """Hosts, each once: a list, a host list of Slurm, names with a comma, semicolon, bar or blank between them.

    Raises:
        HostListError: it is something else, or stands for more than ``most`` hosts.
    """
    if isinstance(value, (list, tuple)):
        return _expanded([text for item in value if (text := text_cell(item)) is not None], most)
    text = text_cell(value)
    if text is None:
        return None
    if _LIST.match(text):  # how data frames and JSON write a list into a cell
        return _expanded([one or other for one, other in _QUOTED.findall(text)], most)
    if separator:
        return _expanded([part.strip() for part in text.split(separator) if part.strip()], most)
    text = _BETWEEN.sub(lambda mark: mark[0] if mark[0].startswith("[") else ",", text)
    return expand_hosts(re.sub(r",{2,}", ",", text).strip(","), most)


def _expanded(terms: Sequence[str], most: int) -> list[str]:
    if len(terms) > most:
        raise HostListError(f"host list stands for more than {most} hosts")
    return expand_hosts(",".join(terms), most) if terms else []


_TIME: Final = re.compile(
    r"""
    (?P<year>[0-9]{4}) (?P<mark>[-/]?) (?P<month>[0-9]{2}) (?P=mark) (?P<day>[0-9]{2})
    (?:
        [T\ ]\ ?
        (?P<hour>[0-9]{2}) :? (?P<minute>[0-9]{2}) (?: :? (?P<second>[0-9]{2}) (?: [.,] (?P<fraction>[0-9]{1,9}) )? )?
        \ ? (?P<zone> Z | UTC | GMT | [+-][0-9]{2}(?::?[0-9]{2})? )?
    )?
    \Z""",
    re.VERBOSE | re.ASCII,
)
_EPOCH: Final = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,9})?(?:[eE][+]?[0-9]{1,2})?\Z")
_UNITS: Final = {"s": SECOND, "ms": 1000, "us": 1}
# Seconds, milliseconds and microseconds since 1970 cannot be confused in this century; the rest are nanoseconds.
_SIZES: Final = ((10**8, None), (10**11, "s"), (10**14, "ms"), (10**17, "us"), (10**20, "ns"))
_LONGEST: Final = 64


def time_cell(value: Any, unit: str | None = None, time_format: str | None = None) -> CellClock | None:
    """A time; None where there is none. A date alone is its first moment, with a step of a day.

    Raises:
        ValueError: it is no time, or not known to be one.
    """
    if isinstance(value, ArrowTime):
        return _within(CellClock("epoch" if value.utc else "local", value.micros, 1, ""))
    text = text_cell(value)
    if text is None or text in ("0", "-1"):
        return None
    if len(text) > _LONGEST:
        raise ValueError("not a time")
    if time_format is not None:
        return _within(_formatted(text, time_format))
    if _EPOCH.match(text) and not (unit is None and len(text) == len("20260302") and _TIME.match(text)):
        return _within(_counted(text, unit))
    match = _TIME.match(text)
    if match is None:
        raise ValueError("not a time")
    return _within(_written(match, text))


def _within(clock: CellClock) -> CellClock:
    if not 0 < clock.wall < LATEST:
        raise ValueError("a time before 1970 or after 2200")
    return clock


def _counted(text: str, unit: str | None) -> CellClock:
    whole, _, fraction = text.partition(".")
    number = float(text)
    unit = unit or next((name for limit, name in _SIZES if abs(number) < limit), None)
    if unit is None:
        raise ValueError("a number that is no time: which unit does it count (time_unit)?")
    exact = "e" not in text.lower()
    if unit == "ns":
        micros = int(whole) // 1000 if exact else int(number / 1000)
        return CellClock("epoch", micros, 1, text)
    scale = _UNITS[unit]
    micros = int(whole) * scale + int(float(f"0.{fraction or 0}") * scale) if exact else int(number * scale)
    return CellClock("epoch", micros, 1 if fraction else scale, text)


def _formatted(text: str, time_format: str) -> CellClock:
    try:
        moment = dt.datetime.strptime(text, time_format)
    except (ValueError, OverflowError, re.error) as error:
        raise ValueError("not a time of the format that the configuration states") from error
    offset = moment.utcoffset()
    wall = (moment.replace(tzinfo=None) - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    step = 1 if moment.microsecond else SECOND
    if offset is None:
        return CellClock("local", wall, step, text)
    return CellClock("zoned", wall - offset // dt.timedelta(microseconds=1), step, text)


def _written(match: re.Match[str], text: str) -> CellClock:
    micros, step = fraction_micros(match["fraction"])
    date = (int(match["year"]), int(match["month"]), int(match["day"]))
    wall = wall_micros(*date, int(match["hour"] or 0), int(match["minute"] or 0), int(match["second"] or 0), micros)
    if wall is None:
        raise ValueError("a date that does not exist")
    if match["hour"] is None:
        return CellClock("local", wall, DAY, text)
    if match["second"] is None:
        step = 60 * SECOND
    zone = match["zone"]
    if zone is None:
        return CellClock("local", wall, step, text)
    offset = 0 if zone in ("UTC", "GMT") else zone_offset_micros(zone)
    if offset is None:
        raise ValueError("not a zone")
    return CellClock("zoned", wall - offset, step, text)
