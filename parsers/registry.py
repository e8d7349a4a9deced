"""All formats: found by looking through this package, refused where they cannot prove themselves.

A module of this package (or of a package in it) that names ``FORMAT`` adds a format. Nothing else has to be edited: the
command line, the documentation and the generic tests run over what is found here.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import ModuleType

from aftershock import parsers
from aftershock.parsers.formats import DocumentFormat, Format, LineFormat
from aftershock.schemas.tables import TABLES

_PREFIX = parsers.__name__ + "."
_DOCUMENTS = _PREFIX + "documents."

# Line formats that are not looked for in a system's own logs, by name: they are not even loaded for those.
OF_JOBS = frozenset({"slurm_step", "training"})


class BadFormat(Exception):
    """A format that the registry refuses: the developer has to mend it."""


@lru_cache(maxsize=1)
def formats() -> tuple[Format, ...]:
    """Every format, by name.

    Raises:
        BadFormat: a format has no samples, no source link, an unknown table, a name that is taken or is not that of
            its module.
    """
    found = {module.__name__: module.FORMAT for module in _modules(parsers) if hasattr(module, "FORMAT")}
    for module, fmt in found.items():
        if module.rpartition(".")[2] != fmt.name:
            raise BadFormat(f"format {fmt.name!r} stands in {module}, not in a module of its name")
        if isinstance(fmt, DocumentFormat) != module.startswith(_DOCUMENTS):
            raise BadFormat(f"format {fmt.name!r} stands in {module}: documents and no others stand in documents/")
        if isinstance(fmt, LineFormat) and fmt.everywhere == (fmt.name in OF_JOBS):
            raise BadFormat(f"format {fmt.name!r}: OF_JOBS must name the formats that are not looked for everywhere")
    return check_declarations(found.values())


@lru_cache(maxsize=1)
def line_formats() -> tuple[LineFormat, ...]:
    """The formats that are found line by line. Those that are read as a whole are not loaded for it."""
    return _sorted([*system_formats(), *_line_formats(OF_JOBS)])


@lru_cache(maxsize=1)
def system_formats() -> tuple[LineFormat, ...]:
    """The line formats that are looked for in a system's own logs. The others are not loaded for it."""
    lines = {last for last, name in _module_names().items() if not name.startswith(_DOCUMENTS)}
    return _line_formats(lines - OF_JOBS)


def _line_formats(names: Iterable[str]) -> tuple[LineFormat, ...]:
    """The line formats in modules of these names: a package that holds no format is not looked into for one."""
    modules = _module_names()
    found = (getattr(importlib.import_module(modules[name]), "FORMAT", None) for name in sorted(names))
    return _sorted(fmt for fmt in found if isinstance(fmt, LineFormat))


def _sorted(found: Iterable[LineFormat]) -> tuple[LineFormat, ...]:
    return tuple(sorted(found, key=lambda fmt: fmt.name))


@lru_cache(maxsize=1)
def document_formats() -> tuple[DocumentFormat, ...]:
    """The formats that are read as a whole stream."""
    return tuple(f for f in formats() if isinstance(f, DocumentFormat))


@lru_cache(maxsize=64)
def format_named(name: str) -> Format | None:
    """The format of that name, without loading any other: it stands in the module of its name."""
    module = _module_names().get(name)
    return getattr(importlib.import_module(module), "FORMAT", None) if module else None


@lru_cache(maxsize=1)
def _module_names() -> dict[str, str]:
    """Full names of the modules that may hold a format by their last part: of files and packages, none is imported.

    A package is a module of its name; of what stands in it only documents may be formats.
    """
    names = {}
    for info in pkgutil.iter_modules(parsers.__path__, _PREFIX):
        names[info.name.rpartition(".")[2]] = info.name
    folders = [os.path.join(path, "documents") for path in parsers.__path__]
    for info in pkgutil.iter_modules(folders, _DOCUMENTS):
        names[info.name.rpartition(".")[2]] = info.name
    return names


def formats_named(name: str) -> tuple[Format, ...]:
    """The formats that answer to a name of the configuration: usually one, more where a tool has several outputs."""
    return tuple(f for f in formats() if f.name == name or name in f.aliases)


def known_names() -> list[str]:
    """Names that the configuration and ``--format`` accept."""
    return sorted({name for f in formats() for name in (f.name, *getattr(f, "aliases", ()))})


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
    for info in pkgutil.walk_packages(package.__path__, _PREFIX):
        yield importlib.import_module(info.name)
