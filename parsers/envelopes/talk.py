"""JSON objects that only talk about a line: rules, dashboards, entries of data sets, conversations, tickets, examples.

The same words of the driver stand in them as in a log, but nothing happened when they were written. Told by the members
of the object, never by what the line says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

# Objects that hold a line without telling that it was printed somewhere: rules and dashboards, entries of data sets,
# conversations and tickets. Each has all of the members of one set.
_TALK: Final = tuple(
    frozenset(names.split())
    for names in (
        *("expr", "pattern", "regex", "regexp", "legendFormat", "panels", "targets"),
        *("instruction output", "instruction input", "instruction response", "input output", "prompt completion"),
        *("prompt response", "prompt chosen", "prompt output", "question answer", "question context", "text label"),
        *("role content", "from value", "title body", "title content", "subject body", "user text", "author text"),
        *("description reporter", "summary reporter", "description assignee", "summary assignee", "summary creator"),
        *("username text", "user channel", "author content", "sender content", "author body", "login body"),
    )
)
_WORDS_OF_TALK: Final = frozenset(name for names in _TALK for name in names)
# Says of the object itself that nothing happened.
_EXAMPLE: Final = ("example", "examples", "is_example", "sample", "samples")


def is_talk(members: Mapping[str, Any]) -> bool:
    """Whether an object only talks about a line: a rule, an example, an entry of a data set, a message of a person."""
    if any(members.get(name) not in (None, False, 0, "", "false") for name in _EXAMPLE):
        return True
    if _WORDS_OF_TALK.isdisjoint(members):
        return False
    return any(names.issubset(members) for names in _TALK)
