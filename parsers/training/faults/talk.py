"""Whether a line speaks of errors rather than reports one: advice, questions, settings, warnings of what may come."""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.training.rules import Said

# Levels of loggers below that of an error, in words and as the first letter of Google's loggers.
TALK_LEVELS: Final = frozenset({"DEBUG", "INFO", "WARNING", "WARN", "NOTICE", "TRACE", "I", "W", "V"})
# Words of a sentence before the words of an error.
_SENTENCE: Final = re.compile(
    rb"(?i)\b(?:if|when|whenever|see|avoids?|prevent\w*|fix(?:es|ed)?|such as|like|e\.g|example|may|might|could"
    rb"|can(?!')|should|known|handle\w*|catch\w*|docs?|faq|troubleshoot\w*|help|echo|printf?|grep|expect\w*"
    rb"|raise[sd]?|assert\w*|usage|default|retry)\b|(?:[\"'`{(]|\*\*)\Z|#"
    # a warning without a logger, and what a test says that failed
    rb"|\bwarn(?:ing)?\]?:|\b(?:FAILED|ERROR) \S{1,200}::"
)
# What is said of an error that is not the end.
SURVIVED: Final = re.compile(
    rb"(?i)\b(?:re-?trying|will (?:be )?re-?tr(?:y|ied)|retry (?:in|after|attempt)|re-?try \d{1,4}(?:/|\b)|attempt "
    rb"\d{1,4} ?/|trying again|will continue|continuing|ignoring|ignored|skipping|falling back|not fatal|non-fatal)\b"
)
# Words of the C library that a sentence goes on behind: who reports them puts nothing behind them, or a path.
_GOES_ON: Final = re.compile(
    rb"\[Errno \d{1,3}\] (?!Transport endpoint)[A-Z][\w/ ]{3,60}? (?:is|was|are|were|gets?|appears?|occurs?|happens?) "
)
# Quotes; an apostrophe stands between letters.
_QUOTE: Final = re.compile(rb"\"|`+|'(?!\w)|(?<!\w)'")
# Quoted mail, items of lists, rows of tables.
_NOTE: Final = re.compile(rb"(?:>|[*-](?! To our best knowledge)) |\|[^\r\n]{1,2000}\|\s*\Z")
_MOST: Final = 600


def is_shown(said: Said, at: int) -> bool:
    """Whether the words from ``at`` on stand in a comment, or within a string of a program."""
    message = said.message
    return message.startswith((b"#", b"//")) or len(_QUOTE.findall(message, max(0, at - _MOST), at)) % 2 == 1


def speaks_of(said: Said, at: int = 0) -> bool:
    """Whether the words from ``at`` on are not the report of an error that counts."""
    if said.prefix.level in TALK_LEVELS:
        return True
    message = said.message
    if _NOTE.match(message):
        return True
    if at and is_shown(said, at):
        return True
    if b"[Errno " in message and _GOES_ON.search(message, at):
        return True
    return bool(_SENTENCE.search(message[max(0, at - _MOST) : at]) or SURVIVED.search(message[at : at + _MOST]))
