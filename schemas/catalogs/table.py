"""Reading the catalogues: tab-separated files beside this module, with their sources and dates in their first lines."""

from __future__ import annotations

import pkgutil


def read_table(name: str) -> list[list[str]]:
    """The rows of a catalogue without its comments and without the line that names its columns."""
    data = pkgutil.get_data(__package__ or __name__.rpartition(".")[0], name)
    if data is None:
        raise FileNotFoundError(name)
    lines = [line for line in data.decode("utf-8").splitlines() if not line.startswith("#")]
    return [line.split("\t") for line in lines[1:]]


def words(cell: str) -> tuple[str, ...]:
    """The parts of a cell that holds several."""
    return tuple(part.strip() for part in cell.split("|")) if cell else ()
