"""Imports Apache Beam without what every run would wait for in vain.

Beam tries pandas, database clients and cloud libraries while it is imported, and does without where they are missing.
With them its import takes a third longer, for things that no transform of ours uses. Pinned here: import this module
before anything else imports ``apache_beam``.

It also asks each copy of each step for its state and timers, some ninety times in a run, by way of the signatures of
all methods that the step has. They are the same for all copies, so they are looked up once.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable
from types import MethodType
from typing import Any, Final

# Each stands in a try block of Beam 2.77 that takes ImportError for an answer.
_OPTIONAL: Final = ("apache_beam.io.gcp.bigquery", "pandas", "pymongo", "google.cloud", "IPython", "redis", "hdfs")


def _import_beam() -> Any:
    if "apache_beam" in sys.modules:
        return sys.modules["apache_beam"]
    hidden = [name for name in _OPTIONAL if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: importing it raises ImportError
    level = logging.root.manager.disable
    logging.disable(max(level, logging.WARNING))  # "apitools not found": nothing that a person could act on
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import apache_beam  # noqa: PLC0415
    finally:
        logging.disable(level)
        for name in hidden:
            del sys.modules[name]
    from apache_beam.transforms import userstate  # noqa: PLC0415

    userstate.get_dofn_specs = _remembered(userstate.get_dofn_specs)
    return apache_beam


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
