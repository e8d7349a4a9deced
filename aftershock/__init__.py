"""Which fault hit which training session of a GPU cluster, what it cost, and how the recovery went.

``aftershock.open(folder)`` reads the result of ``aftershock run``, ``aftershock.graph(folder)`` gives its graph.
Nothing heavy is imported before one of them is called for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aftershock.results import graph, open  # noqa: A004 - read as aftershock.open

    __version__: str

__all__ = ["__version__", "graph", "open"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib import metadata  # noqa: PLC0415 - takes longer than all the rest of this module

        value: Any = metadata.version("aftershock")
    elif name in __all__:
        from aftershock import results  # noqa: PLC0415 - brings in pyarrow

        value = getattr(results, name)
    else:
        raise AttributeError(f"module 'aftershock' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
