"""Maps of columns in the configuration: what stands in ``[[sources]]`` about a table that a site made itself.

[[sources]]
glob = "jobs/*.csv"
format = "job_table"           # or "changes"; a preset names its own
preset = "helios"
[sources.columns]
user = "owner"
[sources.states]               # of jobs; [sources.kinds] of changes
Aborted = "CANCELLED"
[sources.values]
cluster = "solar"
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from aftershock.parsers.column_map import (
    CHANGE_COLUMNS,
    JOB_COLUMNS,
    PRESETS,
    SAMPLE_COLUMNS,
    STEP_COLUMNS,
    TIME_UNITS,
    ColumnMap,
    Value,
)
from aftershock.pipeline.config_values import Wrong, kind_of, text_value
from aftershock.schemas.changes import CHANGE_KINDS
from aftershock.schemas.sessions import SESSION_STATES

MAP_KEYS: Final = ("preset", "columns", "states", "kinds", "values", "time_unit", "time_format", "host_separator")

# Formats that take a map, and the columns that it may name.
_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "job_table": JOB_COLUMNS,
    "step_table": STEP_COLUMNS,
    "samples_table": SAMPLE_COLUMNS,
    "changes": CHANGE_COLUMNS,
    "alertmanager": CHANGE_COLUMNS,
    "grafana_annotations": CHANGE_COLUMNS,
}
# The key under which the words of a table are told, and what they may mean; of numbers there are none.
_JOB_WORDS: Final = ("states", SESSION_STATES)
_CHANGE_WORDS: Final = ("kinds", CHANGE_KINDS)
_WORDS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "job_table": _JOB_WORDS,
    "step_table": ("", ()),
    "samples_table": ("", ()),
}
_PATH = tuple[str, ...]


class WrongMap(Exception):
    """What is wrong, and the keys below ``[[sources]]`` where it stands."""

    def __init__(self, path: _PATH, text: str) -> None:
        super().__init__(text)
        self.path = path


def column_map_of(table: Mapping[str, Any], format_name: str | None) -> tuple[str | None, ColumnMap | None]:
    """The format and the map of one ``[[sources]]``; the format as it was stated where there is no map.

    Raises:
        WrongMap: a value is wrong, or a key is about another format.
    """
    given = [key for key in MAP_KEYS if key in table]
    if not given:
        return format_name, None
    base = ColumnMap()
    if "preset" in table:
        name = _chosen(table["preset"], PRESETS, ("preset",), "preset in [[sources]]")
        preset = PRESETS[name]
        if format_name not in (None, preset.format):
            text = f'preset "{name}" is for format "{preset.format}", not for "{format_name}"'
            raise WrongMap(("preset",), text)
        format_name, base = preset.format, preset.map
        given.remove("preset")
    if format_name is None or format_name not in _COLUMNS:
        if not given:
            return format_name, None
        stated = f'not with "{format_name}"' if format_name else "and none is stated"
        text = f"{given[0]} in [[sources]] goes with the formats {', '.join(_COLUMNS)}; {stated}"
        raise WrongMap((given[0],), text)
    return format_name, _map(table, format_name).over(base)


def _map(table: Mapping[str, Any], format_name: str) -> ColumnMap:
    allowed = _COLUMNS[format_name]
    key, words = _WORDS.get(format_name, _CHANGE_WORDS)
    for other in ("states", "kinds"):
        if other in table and other != key:
            has = f"it has {key}" if key else "it has neither states nor kinds"
            raise WrongMap((other,), f'{other} in [[sources]] do not go with "{format_name}": {has}')
    unit = _optional(table, "time_unit", lambda value, path, title: _chosen(value, TIME_UNITS, path, title))
    return ColumnMap(
        columns=tuple(_section(table, "columns", allowed, _places)),
        values=tuple(_section(table, "values", allowed, _value)),
        words=tuple(
            (word.strip().lower(), meant)
            for word, meant in _section(table, key, None, lambda v, path, title: _chosen(v, words, path, title))
            if key
        ),
        time_unit=unit,
        time_format=_optional(table, "time_format", _text),
        host_separator=_optional(table, "host_separator", _text),
    )


Read = Callable[[Any, _PATH, str], Any]


def _optional(table: Mapping[str, Any], key: str, read: Read) -> Any:
    return read(table[key], (key,), f"{key} in [[sources]]") if key in table else None


def _section(
    table: Mapping[str, Any], name: str, allowed: Iterable[str] | None, read: Read
) -> Iterable[tuple[str, Any]]:
    """The pairs of a table below ``[[sources]]``; ``allowed``: the keys that it may have."""
    section = table.get(name, {})
    if not isinstance(section, dict):
        raise WrongMap((name,), f"{name} in [[sources]] must be a table: write [sources.{name}] above its keys")
    for key, value in section.items():
        if allowed is not None:
            _chosen(key, allowed, (name, key), f"[sources.{name}]")
        yield key, read(value, (name, key), f"{key} in [sources.{name}]")


def _chosen(value: Any, known: Iterable[str], path: _PATH, title: str) -> str:
    given = _text(value, path, title)
    names = list(known)
    if given not in names:
        near = difflib.get_close_matches(given, names, n=1) or difflib.get_close_matches(given.upper(), names, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"known are {', '.join(names)}"
        raise WrongMap(path, f'{title}: unknown "{given}"; {hint}')
    return given


def _text(value: Any, path: _PATH, title: str) -> str:
    try:
        return text_value(value)
    except Wrong as wrong:
        raise WrongMap(path, f"{title} {wrong}") from None


def _places(value: Any, path: _PATH, title: str) -> tuple[str, ...]:
    """One name of a column, or several of which the first that is not empty counts."""
    if isinstance(value, list):
        return tuple(_text(item, path, title) for item in value)
    return (_text(value, path, title),)


def _value(value: Any, path: _PATH, title: str) -> Value:
    if isinstance(value, (bool, int, float)):
        return value
    if not isinstance(value, str):
        raise WrongMap(path, f"{title} must be text, a number, true or false, not {kind_of(value)}")
    return _text(value, path, title)
