"""Who wrote a line: the rank, by the labels before its lines. It travels in the mark of a row: ``bar@3: [rank3]:``."""

from __future__ import annotations

from typing import Final

from aftershock.parsers.formats import Found
from aftershock.parsers.training.prefixes import Prefix

_SIGN: Final = "@"


def signed(mark: str, prefix: Prefix) -> str:
    """A mark with the writer; without one where the line does not tell it."""
    writer = f"{prefix.host or ''}{prefix.label.decode('latin-1')}"
    if not prefix.label and (prefix.rank is not None or prefix.local_rank is not None):
        writer += f"/{prefix.rank if prefix.rank is not None else ''}/{prefix.local_rank}"
    return f"{mark}{_SIGN}{writer}" if writer else mark


def mark_of(item: Found) -> str:
    """The mark of a row without its writer."""
    return item.mark.partition(_SIGN)[0]


def writer_of(item: Found) -> str:
    """Who wrote a row; empty if nobody knows."""
    return item.mark.partition(_SIGN)[2]
