"""Words with which rules tell ``settle`` what a line is, beside the row that it becomes.

A mark may be followed by its writer (``chain@[rank3]:``, see ``writers``).
"""

from __future__ import annotations

from typing import Final

# The line between an exception and the one that was raised while it was handled. No row.
CHAIN: Final = "chain"
# The same between an exception and the one that was raised from it on purpose. No row.
RAISED_FROM: Final = "raised_from"
# The next exception of this writer is told of by a logger, by a program that may go on. No row.
LOGGED: Final = "logged"
# The next exception of this writer has no effect: it was raised in a destructor, or while something was logged. No row.
IGNORED: Final = "ignored"
# Output of another program is shown from here on, or to here. No row.
QUOTE, UNQUOTE = "quote", "unquote"
# A frame of a traceback that says that nothing had been set up yet: the next exception of this writer was raised there.
# No row.
INIT: Final = "init"
# A step that was skipped because numbers were too large for the loss scale. No row, but for many in a row.
OVERFLOW: Final = "overflow"

# The same fault in further words: no row where a row of its class stands near.
REPRINT: Final = "reprint"
# An error code that is handed up: no row where any error stands near.
ECHO: Final = "echo"
# A run that came to its end as it should. What was said before is noise, and so is what follows.
SUCCESS: Final = "success"
# One process of a run came to its end as it should; others may not.
PARTLY: Final = "partly"
# A new attempt begins: workers are started, or started again.
ATTEMPT: Final = "attempt"
# A launcher saw its workers end: the attempt is over, and what begins after it is the next one.
ENDED: Final = "ended"
# An exit that names who exited first, as a launcher sees it.
FIRST_EXIT: Final = "first_exit"
# One that the same launcher lists as a later one.
LATER_EXIT: Final = "later_exit"
# Said by who killed the process: surer than what the process said itself.
CONFIRMED: Final = "confirmed"

ROWLESS: Final = frozenset({CHAIN, RAISED_FROM, LOGGED, IGNORED, QUOTE, UNQUOTE, INIT, OVERFLOW})
