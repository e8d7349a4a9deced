"""Keeps the start of a command short: packages that would be imported only because they are there."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Final

# pyarrow and Beam look for pandas at their first use, for a fifth of a second that no command has use for; both do
# without where it is missing. Only the process of a command hides it: a program that imports us has it.
_HIDDEN: Final = frozenset({"pandas"})


class _NotHere(MetaPathFinder):
    """Says of the hidden packages that they are not installed."""

    def find_spec(self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None) -> None:
        if name in _HIDDEN:
            raise ModuleNotFoundError(f"{name} is not used by this command", name=name)


def hide_unused_packages() -> None:
    """Call once, before anything heavy is imported."""
    sys.meta_path.insert(0, _NotHere())
