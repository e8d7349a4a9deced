"""Keeps the start of a command short: what is imported only because it is there, what is collected in vain."""

from __future__ import annotations

import gc
import os
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


# New objects after which the collector looks for cycles. Rows are many and hold none.
_GC_THRESHOLD: Final = 100_000


def begin_quickly() -> None:
    """Call once, before anything heavy is imported."""
    # numpy's linear algebra begins with a thread for each processor, which spin while others wait. Nothing here uses it
    # for more than a handful of numbers.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()  # an import makes hundreds of thousands of objects that stay: looking through them finds nothing
    sys.meta_path.insert(0, _NotHere())


def imports_are_done() -> None:
    """Call when everything heavy is imported: what is there by now is never looked through again."""
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD)
    gc.enable()
