"""All formats: found by looking through this package, refused where they cannot prove themselves.

A module of this package (or of a package in it) that names ``FORMAT`` adds a format. Nothing else has to be edited: the
command line, the documentation and the generic tests run over what is found here.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import ModuleType

from aftershock import parsers
from aftershock.parsers.formats import DocumentFormat, Format, LineFormat
from aftershock.schemas.tables import TABLES


class BadFormat(Exception):
    """A format that the registry refuses: the developer has to mend it."""


@lru_cache(maxsize=1)
def formats() -> tuple[Format, ...]:
    """Every format, by name.

    Raises:
        BadFormat: a format has no samples, no source link, an unknown table or a name that is taken.
    """
    return check_declarations(module.FORMAT for module in _modules(parsers) if hasattr(module, "FORMAT"))


@lru_cache(maxsize=1)
def line_formats() -> tuple[LineFormat, ...]:
    """The formats that are found line by line."""
    return tuple(f for f in formats() if isinstance(f, LineFormat))


@lru_cache(maxsize=1)
def document_formats() -> tuple[DocumentFormat, ...]:
    """The formats that are read as a whole stream."""
    return tuple(f for f in formats() if isinstance(f, DocumentFormat))


def formats_named(name: str) -> tuple[Format, ...]:
    """The formats that answer to a name of the configuration: usually one, more where a tool has several outputs."""
    return tuple(f for f in formats() if f.name == name or name in getattr(f, "aliases", ()))


def known_names() -> list[str]:
    """Names that the configuration and ``--format`` accept."""
    return [f.name for f in formats()]


def check_declarations(found: Iterable[Format]) -> tuple[Format, ...]:
    """The formats sorted by name, if every one is complete.

    Raises:
        BadFormat: see :func:`formats`.
    """
    by_name: dict[str, Format] = {}
    for fmt in found:
        if fmt.name in by_name:
            raise BadFormat(f"two formats are named {fmt.name!r}")
        for wanted in ("name", "doc", "url", "tables", "samples", "non_samples"):
            if not getattr(fmt, wanted):
                raise BadFormat(f"format {fmt.name!r} has no {wanted}")
        unknown = sorted(set(fmt.tables) - set(TABLES))
        if unknown:
            raise BadFormat(f"format {fmt.name!r} feeds tables that do not exist: {', '.join(unknown)}")
        if isinstance(fmt, LineFormat) and not fmt.signatures:
            raise BadFormat(f"format {fmt.name!r} has no signatures")
        by_name[fmt.name] = fmt
    return tuple(by_name[name] for name in sorted(by_name))


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        yield importlib.import_module(info.name)
