"""Exceptions of Python, by what they say: the last line of a traceback, from its beginning.

    torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total capacity of 79.11 GiB ...
    FileNotFoundError: [Errno 2] No such file or directory: '/data/shard-0007.bin'
    RuntimeError: [enforce fail at inline_container.cc:603] . PytorchStreamWriter failed writing file data/12: ...

https://docs.python.org/3/library/exceptions.html. What an exception means is told by its text before its type, for a
``RuntimeError`` may be anything. The exception that others were raised from is the cause: ``settle`` is told of the
line between them.
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.training.faults.classes import class_of
from aftershock.parsers.training.marks import CHAIN, REPRINT
from aftershock.parsers.training.rules import Match, Rule, Said
from aftershock.schemas.events import TrainingEvent

ORDER: Final = 80  # what is known by its own words goes first

# The name of an exception at the beginning of a message, of any library. Warnings are no errors.
_NAME: Final = (
    rb"(?P<type>(?:[A-Za-z_]\w{0,40}\.){0,6}[A-Z]\w{0,60}?(?:Error|Exception|Interrupt|Timeout|NotFound|Exhausted))"
)
_SHAPE: Final = re.compile(rb"\A(?:E +)?" + _NAME + rb"(?:(?P<colon>: ?)(?P<text>[^\r\n]{0,4000})|\s*\Z)")
# Ranks that write without a buffer shred their lines: a name anywhere, its number and words anywhere behind it.
_SHREDDED: Final = re.compile(
    rb"(?P<type>FileNotFoundError|PermissionError|ModuleNotFoundError|OSError)[^\r\n]{0,400}?"
    rb"(?P<text>\[Errno (?:2|5|13|28|116|122)\] [A-Z][^\r\n]{0,400})"
)


def _read(found: Match, said: Said) -> TrainingEvent | None:
    name = found["type"]
    text = found["text"] or b""
    if _is_told_about(said, found):
        return None
    error_class, role = class_of(name, text)
    error = found[0].strip()
    return TrainingEvent(kind="error", error_class=error_class, error_role=role, error=text_of(error[:4096]))


def _is_told_about(said: Said, found: Match) -> bool:
    """Whether somebody speaks of an exception rather than raises it: logged below the level of an error."""
    del found
    return said.prefix.level in ("DEBUG", "INFO", "WARNING", "WARN", "I", "W")


def _chain(_found: Match, _said: Said) -> TrainingEvent:
    return TrainingEvent(kind="error")


RULES: Final = (
    Rule(
        words=(b"During handling of the above exception", b"The above exception was the direct cause"),
        shape=re.compile(
            rb"During handling of the above exception, another exception occurred"
            rb"|The above exception was the direct cause of the following exception"
        ),
        row=_chain,
        mark=CHAIN,
    ),
    Rule(
        words=(b"Error", b"Exception", b"KeyboardInterrupt", b"Timeout", b"NotFound", b"Exhausted"),
        scan=(b"Error: ", b"Error:\n", b"Error\n", b"Error\r", b"Exception: ", b"Interrupt\n", b"Timeout: "),
        shape=_SHAPE,
        row=_read,
        only="fault",
    ),
    Rule(
        words=(b"[Errno ",),
        shape=_SHREDDED,
        row=_read,
        only="fault",
    ),
    Rule(
        words=(b"what():  ",),
        shape=re.compile(rb"\A(?:terminate called .{0,200}?)?\s*what\(\):\s+(?P<text>[^\r\n]{1,4000})(?P<type>)"),
        row=_read,
        mark=REPRINT,
        only="fault",
    ),
)

SAMPLES: Final = (
    Sample(
        "[rank3]: Traceback (most recent call last):\n"
        '[rank3]:   File "/app/train.py", line 12, in <module>\n'
        "[rank3]:     main()\n"
        "[rank3]: FileNotFoundError: [Errno 2] No such file or directory: '/data/shard-0007.bin'\n",
        (
            expect(
                "training_events",
                kind="error",
                error_class="user_data_path",
                error_role="root",
                rank=3,
            ),
        ),
        title="Exception",
    ),
    Sample(
        "OSError: [Errno 5] Input/output error: '/ckpt/step40/mp_rank_00.pt'\n"
        "\n"
        "During handling of the above exception, another exception occurred:\n"
        "\n"
        "RuntimeError: unexpected pos 640 vs 512\n",
        (
            expect("training_events", error_class="storage_io", error_role="root"),
            expect("training_events", error_class="storage_io", error_role="symptom"),
        ),
        title="Exception raised from another",
    ),
)

NON_SAMPLES: Final = (
    "2026-03-01 10:20:30,123 - root - INFO - ValueError: of the last run, fixed\n",
    "the Error: word in a sentence\n",
    "UserWarning: torch.meshgrid: in an upcoming release\n",
)
