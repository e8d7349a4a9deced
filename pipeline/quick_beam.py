"""Imports Apache Beam without what every run would wait for in vain.

It takes longer to import than many a run, a third of that for things that no transform of ours uses, and it asks and
waits where it need not. What is done about it holds for the 2.77 that is pinned; import this module before anything
else imports ``apache_beam``.

- Optional packages (pandas, clients of databases and clouds) are hidden from its import: it does without them.
- Packages that it uses in seldom called functions are loaded at their first use.
- It asks each copy of each step for its state and timers, some ninety times in a run, by way of the signatures of all
  methods that the step has. They are the same for all copies, so they are looked up once.
- It reads the source of each step for a mixture of yield and return, which the linter has seen before.
- A stage ends when the thread has slept out that samples how long its steps take: up to a fifth of a second for a stage
  that took one. It is told to sleep no longer than two milliseconds.
"""

from __future__ import annotations

import importlib
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MethodType, ModuleType
from typing import Any, Final

# Each stands in a try block of Beam 2.77 that takes ImportError for an answer.
_OPTIONAL: Final = ("apache_beam.io.gcp.bigquery", "pandas", "pymongo", "google.cloud", "IPython", "redis", "hdfs")

# Imported as modules, and looked into by functions alone.
_LATER: Final = ("httplib2", "yaml")

_SAMPLING_MS: Final = 2


def _import_beam() -> Any:
    if "apache_beam" in sys.modules:
        return sys.modules["apache_beam"]
    level = logging.root.manager.disable
    logging.disable(max(level, logging.WARNING))  # "apitools not found": nothing that a person could act on
    try:
        with warnings.catch_warnings(), _hidden(_OPTIONAL), _later(_LATER), _later_subhint():
            warnings.simplefilter("ignore")
            import apache_beam  # noqa: PLC0415
    finally:
        logging.disable(level)
    from apache_beam.runners.worker.statesampler import StateSampler  # noqa: PLC0415
    from apache_beam.transforms import core, userstate  # noqa: PLC0415

    core._check_fn_use_yield_and_return = _is_not_looked_at
    StateSampler.__init__.__defaults__ = (_SAMPLING_MS,)
    userstate.get_dofn_specs = _remembered(userstate.get_dofn_specs)
    return apache_beam


@contextmanager
def _hidden(names: tuple[str, ...]) -> Iterator[None]:
    """Importing these raises ImportError."""
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None stands for a module that is not there
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


@contextmanager
def _later(names: tuple[str, ...]) -> Iterator[None]:
    """Whoever imports these meanwhile gets them when something in them is looked for; afterwards they are as ever."""
    stand_ins = {name: _Later(name) for name in names if name not in sys.modules}
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name, module in stand_ins.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


class _Later(ModuleType):
    """A module that is loaded when something in it is looked for."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        real = importlib.import_module(self.__name__)
        vars(self).update(vars(real))
        return getattr(real, name)


@contextmanager
def _later_subhint() -> Iterator[None]:
    """Let Beam's types have a stand-in for beartype, which takes as long to load as all of them and is asked seldom."""
    names = ("beartype.door", "beartype.roar")
    if any(name in sys.modules for name in names):
        yield
        return
    door, roar = (ModuleType(name) for name in names)

    def is_subhint(sub: Any, base: Any) -> Any:
        from apache_beam.typehints import typehints  # noqa: PLC0415
        from beartype.door import is_subhint as real  # noqa: PLC0415
        from beartype.roar import BeartypeDoorException  # noqa: PLC0415

        typehints.is_subhint, typehints.BeartypeDoorException = real, BeartypeDoorException
        return real(sub, base)

    vars(door)["is_subhint"] = is_subhint
    vars(roar)["BeartypeDoorException"] = None
    sys.modules.update({door.__name__: door, roar.__name__: roar})
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]


def _is_not_looked_at(_function: object) -> bool:
    return False


def _remembered(get_specs: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same function of a DoFn, asked once for each class that brings its own methods."""
    known: dict[type, Any] = {}

    def specs(dofn: Any) -> Any:
        if any(isinstance(value, MethodType) for value in vars(dofn).values()):
            return get_specs(dofn)
        if type(dofn) not in known:
            known[type(dofn)] = get_specs(dofn)
        return known[type(dofn)]

    return specs


beam = _import_beam()
