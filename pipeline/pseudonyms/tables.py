"""The pass over the tables of a run: names are learned from all of them, then every part is written anew.

It works on parts that are finished and not yet the result, so that every table is covered, also one that somebody adds
tomorrow: a column of strings that does not say what it holds is read as free text.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from aftershock.pipeline.config import Config
from aftershock.pipeline.parts import part_table, read_part, write_part
from aftershock.pipeline.pseudonyms.key import Key
from aftershock.pipeline.pseudonyms.names import HIDEABLE, Kind, Names
from aftershock.pipeline.pseudonyms.text import TextRule
from aftershock.schemas.columns import Column
from aftershock.schemas.tables import TABLES

# Columns that say that what they hold is a name, and of which kind.
_NAMED: Final[Mapping[str, Kind]] = {
    "host": "host",
    "cluster": "cluster",
    "user": "user",
    "path": "path",
    "serial": "serial",
    "job": "job",
}

# Lists whose order says nothing: they are put in the order of the pseudonyms.
_SETS: Final = frozenset({"host", "user", "path", "place", "serial", "job", "member"})

# What the manifest says of the program, not of the inputs.
_PLAIN_KEYS: Final = frozenset({"aftershock", "created", "table_format", "timezone", "year", "since", "until", "rows"})
_KEYS: Final[Mapping[str, str]] = {"source": "path", "inputs": "path", "config": "path", "digest": "id"}

Rewrite = Callable[[str], str]


class Pseudonymiser:
    """Rewrites the parts of a run and its manifest. ``staging`` has a folder with parts for each table."""

    def __init__(self, key: Key, hide: tuple[str, ...], staging: Path, table_format: str, config: Config) -> None:
        self._hide = hide or tuple(HIDEABLE)
        self._names = Names(key, self._hide, config.aliases)
        self._key = key
        self._parts = [(TABLES[name], path) for name in TABLES for path in sorted((staging / name).glob("*"))]
        self._spare = staging / ".rewritten"
        self._format = table_format
        self._learn(config)
        self._text = TextRule(self._names)

    def rewrite_parts(self) -> None:
        """Write every part anew: names replaced, lists and rows in their new order."""
        for table, path in self._parts:
            whole = read_part(str(path), self._format, list(table.column_names))
            columns = [self._column(table_column, whole.column(table_column.name)) for table_column in table.columns]
            batch = pa.RecordBatch.from_arrays(columns, names=list(table.column_names))
            write_part(part_table(table, [batch]), str(self._spare), self._format)
            os.replace(self._spare, path)

    def manifest(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """The manifest with names replaced. It says what was hidden, and by a digest with which key."""
        said = {"hidden": list(self._hide), "key": self._key.digest("the key itself")}
        return {**{name: self._said(name, value) for name, value in manifest.items()}, "pseudonymised": said}

    def _said(self, name: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {inner: self._said(inner, one) for inner, one in value.items()}
        if isinstance(value, (list, tuple)):
            rewritten = [self._said(name, one) for one in value]
            return sorted(rewritten, key=str) if name == "inputs" else rewritten
        if not isinstance(value, str) or name in _PLAIN_KEYS:
            return value
        return self._rule(_KEYS.get(name, "text"))(value)

    def _learn(self, config: Config) -> None:
        cluster = config.cluster
        hosts = [*cluster.hosts, *cluster.train_hosts, *cluster.spare_hosts, *config.aliases, *config.aliases.values()]
        for host in hosts:
            self._names.learn("host", host)
        if cluster.name:
            self._names.learn("cluster", cluster.name)
        for table, path in self._parts:
            for column in table.columns:
                for kind, name in _names_in(column, read_part(str(path), self._format, [column.name]).column(0)):
                    self._names.learn(kind, name)

    def _rule(self, holds: str | None) -> Rewrite:
        names = self._names
        kind = _NAMED.get(holds or "")
        if kind is not None:
            return names.job if kind == "job" else lambda text: names.shown(kind, text)
        if holds == "place":
            return names.place
        if holds == "member":
            return names.member
        if holds == "id":
            return lambda text: names.id(text) or self._text(text)
        return str if holds == "fixed" else self._text

    def _column(self, column: Column, values: pa.ChunkedArray) -> pa.Array:
        """A column with its type in the schema, its strings rewritten. Distinct values are rewritten once."""
        plain = _plain(values)
        rule = self._rule(column.holds)
        if column.values:
            words = frozenset(column.values)
            return _mapped(plain, lambda text: text if text in words else self._text(text))
        kind = column.type
        if pa.types.is_string(kind):
            return _mapped(plain, rule)
        if pa.types.is_binary(kind):
            return _mapped_bytes(plain, rule)
        if pa.types.is_map(kind):
            return pa.array([self._labels(pairs) for pairs in plain.to_pylist()], type=kind)
        if pa.types.is_list(kind) and pa.types.is_string(kind.value_type):
            order = sorted if column.holds in _SETS else list
            return _mapped_lists(plain, rule, order)
        if any(word in str(kind) for word in ("string", "binary", "map")):
            raise TypeError(f"column {column.name}: a type whose names nobody can hide: {kind}")
        return plain

    def _labels(self, pairs: Iterable[tuple[str, str]] | None) -> list[tuple[str, str]] | None:
        """Labels of a series, in the order of their names as they are shown."""
        if pairs is None:
            return None
        return sorted((self._text(label), self._text.labelled(label, value)) for label, value in pairs)


def _names_in(column: Column, values: pa.ChunkedArray) -> Iterator[tuple[Kind, str]]:
    """The distinct names that a column tells about."""
    kind = _NAMED.get(column.holds or "")
    if kind is None and column.holds not in ("place", "member"):
        return
    plain = _plain(values)
    flat = plain.flatten() if pa.types.is_list(plain.type) else plain
    for text in pc.unique(flat).to_pylist():
        if not text:
            continue
        if kind is not None:
            yield kind, text
        elif column.holds == "place":
            yield "path", text.rpartition(":")[0] or text
        elif not text.startswith("rank:"):
            yield "host", text.partition("/")[0]


def _plain(values: pa.ChunkedArray) -> pa.Array:
    """One array without a dictionary."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    whole = values.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def _mapped(values: pa.Array, rule: Rewrite) -> pa.Array:
    coded = values.dictionary_encode()
    rewritten = pa.array([rule(text) for text in coded.dictionary.to_pylist()], type=pa.string())
    return rewritten.take(coded.indices)


def _mapped_bytes(values: pa.Array, rule: Rewrite) -> pa.Array:
    """Excerpts: what is no UTF-8 is part of a word, and no such word is known."""
    texts = [None if data is None else data.decode("utf-8", "surrogateescape") for data in values.to_pylist()]
    rewritten = [None if text is None else rule(text).encode("utf-8", "surrogateescape") for text in texts]
    return pa.array(rewritten, type=values.type)


def _mapped_lists(values: pa.Array, rule: Rewrite, order: Callable[[Iterable[str]], list[str]]) -> pa.Array:
    known: dict[str, str] = {text: rule(text) for text in pc.unique(values.flatten()).to_pylist() if text is not None}
    rows = (
        None if texts is None else order(known[text] for text in texts if text is not None)
        for texts in values.to_pylist()
    )
    return pa.array(rows, type=values.type)
