"""Imports Apache Beam without the optional packages that it looks for.

Beam tries pandas, database clients and cloud libraries while it is imported, and does without where they are missing.
With them its import takes a third longer, which every run would pay for things that no transform of ours uses. Pinned
here: import this module before anything else imports ``apache_beam``.
"""

from __future__ import annotations

import logging
import sys
import warnings
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
    return apache_beam


beam = _import_beam()
