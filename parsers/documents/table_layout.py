"""Which tables of a site are read as tables of ours, and where their rows hold what: a map of columns put to use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aftershock.parsers.column_map import ColumnMap


class Layout:
    """The columns of ours that a table may have. It is one of ours if it has ``least`` of them, and what it ``needs``.

    needs: groups of columns; of each group one must be there, or be stated for all rows.
    """

    def __init__(
        self, columns: Sequence[str], needs: Sequence[Sequence[str]], mapped: ColumnMap, least: int = 1
    ) -> None:
        self._columns = columns
        self._needs = needs
        self._least = least
        self._map = mapped
        self._stated = dict(mapped.values)
        self._names = frozenset(name.lower() for column in columns for name in mapped.names_of(column))

    def places(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Our columns, and where in a table with these columns each may stand. Case counts only where it must."""
        lower: dict[str, str] = {}
        for name in names:
            lower.setdefault(name.lower(), name)
        present = set(names)
        found: dict[str, tuple[str, ...]] = {}
        for column in self._columns:
            wanted = self._map.names_of(column)
            there = [name if name in present else lower.get(name.lower()) for name in wanted]
            if any(there):
                found[column] = tuple(place for place in there if place is not None)
        return found

    def is_header(self, names: Sequence[str]) -> bool:
        """Whether a table with these columns is one of ours."""
        # Nearly every line that is asked about is no header at all.
        if self._least and self._names.isdisjoint([name.lower() for name in names]):
            return False
        return self._is_ours(self.places(names))

    def is_record(self, record: Mapping[str, Any]) -> bool:
        """Whether a JSON object is a row of a table of ours."""
        return self._is_ours([c for c in self._columns if any(_under(record, p)[0] for p in self._map.names_of(c))])

    def _is_ours(self, columns: Sequence[str] | Mapping[str, Any]) -> bool:
        known = {*columns, *self._stated}
        return len(columns) >= self._least and all(not known.isdisjoint(group) for group in self._needs)

    def chosen(self, names: Sequence[str]) -> Sequence[str] | None:
        """The columns of a table that are needed, or None if it is not ours."""
        if not self.is_header(names):
            return None
        return list(dict.fromkeys(place for places in self.places(names).values() for place in places))

    def row_values(self, row: Mapping[str, Any], places: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
        """A row in our names. A column that the table does not have is missing, an empty one is there."""
        values: dict[str, Any] = dict(self._stated)
        for column, names in places.items():
            _take(values, column, [row.get(name) for name in names])
        return values

    def record_values(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """A JSON object in our names; a dot in the name of a place goes down into the object."""
        values: dict[str, Any] = dict(self._stated)
        for column in self._columns:
            found = [value for place in self._map.names_of(column) for there, value in [_under(record, place)] if there]
            if found:
                _take(values, column, found)
        return values


def _take(values: dict[str, Any], column: str, said: Sequence[Any]) -> None:
    """The first thing that is said; what holds for all rows holds where nothing is."""
    value = said[0] if len(said) == 1 else next((one for one in said if not _is_empty(one)), None)
    if not _is_empty(value):
        values[column] = value
    else:
        values.setdefault(column, None)


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _under(record: Mapping[str, Any], place: str) -> tuple[bool, Any]:
    """Whether there is such a place in an object, and what stands there."""
    if place in record:
        return True, record[place]
    value: Any = record
    for key in place.split("."):
        if not isinstance(value, dict) or key not in value:
            return False, None
        value = value[key]
    return True, value
