"""Values of Backend.AI's exports, in whatever spelling they come: JSON, JSON within a text, PostgreSQL, Python.

The same list of agents is ``["i-gpu012"]`` in an answer of the API and in a cell of its CSV, ``{i-gpu012}`` in a dump
of the database, and ``['i-gpu012']`` where a script wrote the file. Nothing is an empty cell, ``None``, ``null``,
``NaN`` or ``\\N``. Times are ISO 8601 with a zone, or in a dump ``2026-03-02 07:08:09.123+00``; numbers count from
1970.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from aftershock.parsers.clock import SECOND, fraction_micros, wall_micros, zone_offset_micros
from aftershock.parsers.documents.iso_clock import stated_time
from aftershock.parsers.slurm_words import Clock

_NOTHING: Final = frozenset({"", "none", "null", "nan", "nat", "\\n", "n/a", "<na>"})
# A value longer than this is no list of agents and no history.
_LONGEST: Final = 1 << 16
_MOST: Final = 10_000

_STAMP: Final = re.compile(
    r"""
    (?P<year>\d{4}) - (?P<month>\d\d) - (?P<day>\d\d)
    [T ]
    (?P<hour>\d\d) : (?P<minute>\d\d) (?: : (?P<second>\d\d) (?: [.,] (?P<fraction>\d{1,9}) )? )?
    [ ]? (?P<zone> Z | UTC | GMT | [+-]\d\d (?: :?\d\d (?: :\d\d )? )? )?
    \Z""",
    re.VERBOSE | re.ASCII,
)
_NUMBER: Final = re.compile(r"[0-9]{9,19}(?:\.[0-9]{1,9})?\Z")
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,18}(?:\.0{1,12})?\Z")
_SLOT: Final = ("resource_type", "resourceType", "slot_name", "slotName", "name")
_SEPARATORS: Final = re.compile(r"[\s,;|]+")


def text_of(value: Any) -> str | None:
    """A text that says something, without blanks around it; numbers as they are printed."""
    if isinstance(value, bool) or value is None or isinstance(value, (dict, list)):
        return None
    said = str(value).strip()
    return None if said.lower() in _NOTHING else said


def structure_of(value: Any) -> Any:
    """A value as it was before somebody put it into a text; texts that hold no structure stay."""
    said = value.strip() if isinstance(value, str) else ""
    if said[:1] not in ("{", "[", "(", '"') or len(said) > _LONGEST:
        return value
    try:
        inner = orjson.loads(said)
        return structure_of(inner) if isinstance(inner, str) and inner != value else inner
    except orjson.JSONDecodeError:
        pass
    if said[0] == "{" and said[-1] == "}" and ":" not in said:
        return [part.strip().strip("\"'") for part in said[1:-1].split(",") if part.strip()]
    try:
        return ast.literal_eval(said)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return value


def names_of(value: Any) -> list[str] | None:
    """A list of names; empty if the value says that there are none, None if it says nothing."""
    inner = structure_of(value)
    if isinstance(inner, (list, tuple, set)):
        return list(dict.fromkeys(name for item in list(inner)[:_MOST] if (name := _name(item))))
    if inner == {}:  # an empty array of PostgreSQL
        return []
    said = text_of(inner)
    return None if said is None else list(dict.fromkeys(part for part in _SEPARATORS.split(said)[:_MOST] if part))


def _name(item: Any) -> str | None:
    """A name, or that of an object that has one."""
    if isinstance(item, dict):
        return next((name for key in ("id", "agent_id", "agent", "name") if (name := text_of(item.get(key)))), None)
    return text_of(item)


def object_of(value: Any) -> dict[str, Any]:
    """An object with texts as keys; an empty one if the value is none."""
    inner = structure_of(value)
    return {str(key): item for key, item in inner.items()} if isinstance(inner, dict) else {}


def objects_of(value: Any) -> list[dict[str, Any]]:
    """The objects of a list, or of what GraphQL calls a connection (``{"edges": [{"node": {}}]}``)."""
    inner = structure_of(value)
    if isinstance(inner, dict):
        edges = inner.get("edges", inner.get("items"))
        inner = [item.get("node", item) if isinstance(item, dict) else item for item in edges] if edges else []
    return [item for item in inner if isinstance(item, dict)] if isinstance(inner, list) else []


def whole_of(value: Any) -> int | None:
    """A whole number, printed as one or with zeros behind a point."""
    said = text_of(value)
    return int(said.partition(".")[0]) if said and _WHOLE.match(said) else None


def truth_of(value: Any) -> bool | None:
    """True or false in the words of JSON, Python and PostgreSQL."""
    if isinstance(value, bool):
        return value
    word = (text_of(value) or "").lower()
    return True if word in ("true", "t", "yes", "1") else False if word in ("false", "f", "no", "0") else None


def clock_of(value: Any) -> Clock | None:
    """A time; None if the value says nothing.

    Raises:
        ValueError: it is no time, or one that cannot be.
    """
    said = text_of(value)
    if said is None:
        return None
    said = said.strip("\"'")
    if _NUMBER.match(said):
        reading = stated_time(float(said) if "." in said else int(said))
        if reading.wall is None:
            raise ValueError("not a time")
        return Clock("zoned", reading.wall)
    match = _STAMP.match(said)
    if match is None:
        raise ValueError("not a time")
    parts = (match["year"], match["month"], match["day"], match["hour"], match["minute"], match["second"] or "0")
    wall = wall_micros(*map(int, parts))
    if wall is None:
        raise ValueError("a date that does not exist")
    wall += fraction_micros(match["fraction"])[0]
    zone = match["zone"]
    if zone is None:
        return Clock("local", wall)
    offset = 0 if zone in ("Z", "UTC", "GMT") else zone_offset_micros(zone[:6])
    if offset is None:
        raise ValueError("not a zone")
    return Clock("zoned", wall - offset)


def history_of(value: Any) -> Iterator[tuple[str, Any]]:
    """(status, time as printed) of a status history: a map from status to time, or a list of objects or pairs."""
    inner = structure_of(value)
    if isinstance(inner, dict):
        for status, times in list(inner.items())[:_MOST]:
            several = times if isinstance(times, list) else [times]
            yield from ((str(status), _time_in(time)) for time in several[:_MOST])
    elif isinstance(inner, list):
        for item in inner[:_MOST]:
            if isinstance(item, dict):
                words = (text_of(item.get(key)) for key in ("status", "state", "to_status"))
                status = next((word for word in words if word), None)
                if status is not None:
                    yield status, _time_in(item)
            elif isinstance(item, (list, tuple)) and len(item) == 2:
                yield str(item[0]), item[1]


def _time_in(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    keys = ("timestamp", "time", "at", "changed_at", "created_at", "updated_at")
    return next((value[key] for key in keys if value.get(key) is not None), None)


def gpus_in(*slots: Any) -> int | None:
    """GPUs among resource slots (``cuda.device``, ``cuda.shares``, ``rocm.device``), the first that has some.

    A map from slot to quantity, or a list of ``{resource_type, quantity}``. 0 if there are slots and none is a GPU;
    None if there are no slots, or if a part of a GPU is all that there is.
    """
    told: list[float] = []
    for value in slots:
        amounts = _amounts(structure_of(value))
        if amounts:
            told.append(sum(amount for name, amount in amounts.items() if name.startswith(("cuda.", "rocm."))))
    count = next((amount for amount in told if amount > 0), 0.0 if told else None)
    return int(count) if count is not None and count == int(count) and count < SECOND else None


def _amounts(slots: Any) -> Mapping[str, float]:
    if isinstance(slots, dict) and isinstance(slots.get("entries"), list):
        slots = slots["entries"]
    if isinstance(slots, list):
        pairs = [
            (next((name for key in _SLOT if (name := text_of(item.get(key)))), None), item.get("quantity"))
            for item in slots
            if isinstance(item, dict)
        ]
    else:
        pairs = list(slots.items()) if isinstance(slots, dict) else []
    amounts = {}
    for name, quantity in pairs[:_MOST]:
        try:
            amount = float(str(quantity))
        except ValueError:
            continue
        if name and 0 <= amount < 1e9:
            amounts[str(name)] = amount
    return amounts
