"""Reading a result: its tables by name, and its graph.

>>> import aftershock
>>> result = aftershock.open("demo-out")  # doctest: +SKIP
>>> result.sessions.to_pandas()  # doctest: +SKIP
>>> result["gpu_errors"].dataset.to_table(filter=pc.field("code") == 79)  # doctest: +SKIP
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from aftershock.schemas.tables import TABLES

if TYPE_CHECKING:
    import networkx as nx

MANIFEST: Final = "manifest.json"

# What a table's folder is called, and how Arrow calls the format of its files.
_FORMATS: Final[Mapping[str, str]] = {"parquet": "parquet", "arrow": "ipc"}


class NoResult(Exception):
    """A folder that no finished run has written: one line that says why."""


class ResultTable:
    """One table of a result. Nothing is read before it is asked for."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder

    @cached_property
    def dataset(self) -> ds.Dataset:
        """The parts as one Arrow dataset, for filters and for what does not fit into memory."""
        suffix = self.folder.suffix[1:]
        parts = sorted(str(part) for part in self.folder.glob(f"part-*.{suffix}"))
        if not parts:
            known = TABLES.get(self.name)
            return ds.dataset((known.written_schema if known else pa.schema([])).empty_table())
        return ds.dataset(parts, format=_FORMATS[suffix])

    @property
    def schema(self) -> pa.Schema:
        """Columns with their types; doc and unit of a column are in the metadata of its field."""
        return self.dataset.schema

    @property
    def num_rows(self) -> int:
        """Number of rows; for Parquet without reading them."""
        return int(self.dataset.count_rows())

    def __len__(self) -> int:
        return self.num_rows

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows in memory, of all columns or of some.

        Raises:
            KeyError: a column that the table does not have.
        """
        unknown = set(columns or ()) - set(self.schema.names)
        if unknown:
            raise KeyError(f"{self.name} has no column {', '.join(sorted(unknown))}")
        # Each part has dictionaries of its own; with one for all, a column can be grouped and compared.
        return self.dataset.to_table(columns=None if columns is None else list(columns)).unify_dictionaries()

    def to_pandas(self, columns: Sequence[str] | None = None) -> Any:
        """All rows as a ``pandas.DataFrame``.

        Raises:
            ModuleNotFoundError: pandas is not installed.
        """
        if importlib.util.find_spec("pandas") is None:
            raise ModuleNotFoundError("to_pandas() needs pandas: pip install 'aftershock[pandas]'")
        return self.table(columns).to_pandas()

    def __repr__(self) -> str:
        return f"<{self.name}: {self.num_rows} rows, {len(self.schema)} columns>"


class Results(Mapping[str, ResultTable]):
    """The tables of one result by name, also as attributes: ``results["sessions"]`` is ``results.sessions``.

    folder: where it is. manifest: what was read, by which version, with which parameters.
    """

    def __init__(self, folder: Path, manifest: Mapping[str, Any]) -> None:
        self.folder = folder
        self.manifest = manifest
        self._tables = _tables_in(folder, str(manifest.get("table_format")))

    def __getitem__(self, name: str) -> ResultTable:
        try:
            return self._tables[name]
        except KeyError:
            raise KeyError(f"no table {name!r} in {self.folder}; the tables are {', '.join(self._tables)}") from None

    def __getattr__(self, name: str) -> ResultTable:
        # Copying and pickling ask for attributes before there are any.
        tables = self.__dict__.get("_tables", {})
        if name in tables:
            found: ResultTable = tables[name]
            return found
        raise AttributeError(f"no table and no attribute {name!r}; the tables are {', '.join(tables)}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._tables})

    def __repr__(self) -> str:
        return f"<result in {self.folder}: {', '.join(self._tables)}>"


def _tables_in(folder: Path, table_format: str) -> dict[str, ResultTable]:
    """The tables of a folder, those that are known first and in the order of the documentation."""
    suffixes = sorted(_FORMATS, key=lambda suffix: suffix != table_format)
    found: dict[str, ResultTable] = {}
    for suffix in suffixes:
        for path in sorted(folder.glob(f"*.{suffix}")):
            if path.is_dir() and not path.name.startswith("."):
                found.setdefault(path.stem, ResultTable(path.stem, path))
    order = {name: position for position, name in enumerate(TABLES)}
    return {name: found[name] for name in sorted(found, key=lambda name: (order.get(name, len(order)), name))}


def open(folder: str | os.PathLike[str]) -> Results:  # noqa: A001 - read as aftershock.open
    """The result in a folder.

    Raises:
        NoResult: there is no such folder, or no run has finished in it.
    """
    path = Path(folder)
    if not path.is_dir():
        raise NoResult(f"{path} is no result of aftershock run: there is no such folder")
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NoResult(f"{path} is no result of aftershock run: it has no {MANIFEST}") from None
    except (OSError, ValueError) as error:
        raise NoResult(f"{path} is no result of aftershock run: its {MANIFEST} cannot be read: {error}") from error
    if not isinstance(manifest, dict):
        raise NoResult(f"{path} is no result of aftershock run: its {MANIFEST} is another file's")
    return Results(path, manifest)


def graph(folder: str | os.PathLike[str]) -> nx.MultiDiGraph:
    """Sessions, chains, hosts and exclusions as one networkx graph.

    Nodes are called ``host:gpu004``, ``session:ID``, ``chain:ID`` and ``exclusion:ID``, and have the attributes
    ``kind``, ``label``, ``start_time`` and ``end_time`` (datetimes, None where unknown). Edges have the attribute
    ``kind``:

    - ``ran_on``: from a session to each of its hosts
    - ``retried_as``: from a session to the one that took up its work, with ``trigger``, ``mode`` and ``interval_s``
    - ``part_of``: from a session to its chain
    - ``excluded``: from an exclusion to its host, and from the session and the chain that asked for it

    Raises:
        NoResult: see :func:`open`.
    """
    from aftershock.result_graph import build_graph  # noqa: PLC0415 - brings in networkx

    return build_graph(open(folder))
