"""How examples are drawn: the same in every run of the gate, new ones when they are looked for.

A change must not be stopped by a defect that it does not have, which a lucky draw found; ``make explore`` is there to
draw others, more of them, and what it finds becomes an ``example`` or a test of its own.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("gate", derandomize=True, database=None)
settings.register_profile("explore", derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))
