"""Words with which rules tell ``settle`` what a line is, beside the row that it becomes."""

from __future__ import annotations

from typing import Final

# The line between an exception and the one that was raised while it was handled. No row.
CHAIN: Final = "chain"
# The same fault in further words: no row where a row of its class stands near.
REPRINT: Final = "reprint"
# A run that came to its end as it should. What was said before is noise, and so is what follows.
SUCCESS: Final = "success"
# A new attempt begins: workers are started, or started again.
ATTEMPT: Final = "attempt"
# An exit that names who exited first, as a launcher sees it.
FIRST_EXIT: Final = "first_exit"
