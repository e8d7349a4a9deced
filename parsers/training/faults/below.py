"""The rest of an error that goes on below its first line: its words, or why NCCL says that it failed."""

from __future__ import annotations

from typing import Final

from aftershock.parsers.training.rules import Said

# Lines below an error of NCCL that belong to it: its code, ``Last error:``, and what that was.
_MOST_BELOW: Final = 4
# What ends an error: frames, the next exception, the stack of C++.
_NOT_OF_IT: Final = (b"Traceback", b"File ", b"During handling", b"Exception raised from", b"frame #")


def with_words_below(text: bytes, said: Said) -> bytes:
    """The text of an error; with the lines below where it begins there, or where NCCL tells there why."""
    if text.strip() and b"NCCL" not in text:
        return text
    words: list[bytes] = []
    for line in said.below():
        if line.startswith(_NOT_OF_IT):
            break
        if line.strip():
            words.append(line.strip())
        if len(words) == (_MOST_BELOW if text.strip() else 1):
            break
    return b" ".join([text, *words])
