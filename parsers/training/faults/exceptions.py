"""Exceptions of Python, by what they say: the last line of a traceback, from its beginning.

    torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total capacity of 79.11 GiB ...
    FileNotFoundError: [Errno 2] No such file or directory: '/data/shard-0007.bin'
    ray.exceptions.RayTaskError(RuntimeError): ray::train() (pid=811, ip=10.0.0.7)

https://docs.python.org/3/library/exceptions.html and traceback.html. What an exception means is told by its text before
its type, for a ``RuntimeError`` may be anything. What stands around a traceback says whether it counts: the exception
that others were raised from is the cause, one that a logger shows may have been survived, one in a destructor has no
effect, and one within the shown output of another program is that program's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.faults.below import with_words_below
from aftershock.parsers.training.faults.classes import class_of
from aftershock.parsers.training.faults.talk import speaks_of
from aftershock.parsers.training.marks import CHAIN, IGNORED, INIT, LOGGED, QUOTE, RAISED_FROM, REPRINT, UNQUOTE
from aftershock.parsers.training.rules import Match, Rule, Said, Told
from aftershock.parsers.training.writers import signed
from aftershock.schemas.events import TrainingEvent

ORDER: Final = 80  # what is known by its own words goes first

# The name of an exception at the beginning of a message, of any library; some end unlike others. Warnings are no
# errors.
_NAME: Final = (
    rb"(?P<type>(?:[A-Za-z_]\w{0,40}\.){0,6}(?:(?:_?[A-Z]\w{0,60}?)??(?:Error|Exception|KeyboardInterrupt)"
    rb"|BadZipFile|SystemExit|NoSuchKey|NoSuchBucket"
    rb"|(?<=\.)(?:[A-Z]\w{0,60}?)??(?:Timeout|TimedOut|NotFound|Exhausted|Failed|Refused|Closed|Unsupported"
    rb"|OutOfResources|ProcessPool|Cancelled)))"
)
_SHAPE: Final = re.compile(
    rb"\A(?:E +|[|+][| +]{0,40})?"
    + _NAME
    + rb"(?:\((?P<wrapped>\w{1,60})\))?(?:(?P<colon>: ?)(?P<text>[^\r\n]{0,4000})|\s*\Z)"
)
# Ranks that write without a buffer shred their lines: a name anywhere, its number and words anywhere behind it.
_SHREDDED: Final = re.compile(
    rb"(?P<type>FileNotFoundError|PermissionError|ModuleNotFoundError|OSError)[^\r\n]{0,400}?"
    rb"(?P<text>\[Errno (?:2|5|13|28|116|122)\] [A-Z][^\r\n]{0,400})"
)
# How a documentation says when something is raised.
_DOCUMENTED: Final = re.compile(rb"\s*(?:\Z|(?:[Ii]f|[Ww]hen|[Rr]aise[ds]?|[Aa]lways|[Oo]n) |`)")
# What stands behind keys of a configuration.
_VALUES: Final = frozenset({b"true", b"false", b"none", b"null"})
_TRACEBACK: Final = b"Traceback (most recent call last)"


def _read(found: Match, said: Said) -> TrainingEvent | None:
    name = found["type"]
    text = found["text"] or b""
    if found["wrapped"]:
        name = found["wrapped"]
    if speaks_of(said) or _is_prose(found, text):
        return None
    error_class, role = class_of(name, with_words_below(text, said))
    if (error_class == "user_code_exception" or _DOCUMENTED.match(text)) and _is_indented(said):
        return None
    error = found[0].strip()[:4096]
    return TrainingEvent(kind="error", error_class=error_class, error_role=role, error=text_of(error))


def _is_prose(found: Match, text: bytes) -> bool:
    """Whether a word that is also a name of an exception is a key of a configuration, or a type."""
    name = found["type"]
    if name == b"Error" or (name == b"KeyboardInterrupt" and found["colon"]):
        return True
    if text.strip().rstrip(b",").lower() in _VALUES and not name.endswith(b"KeyError"):
        return True
    return b"." not in name and text.startswith((b"Optional[", b"<class ", b"Type["))


def _is_indented(said: Said) -> bool:
    """Whether blanks stand before a name: Python prints it at the beginning of a line, documentation does not."""
    at = said.line.text.find(said.message[:80])
    return at > 1 and not said.message.startswith((b"|", b"+")) and said.line.text[at - 2 : at].isspace()


def _read_shredded(found: Match, said: Said) -> TrainingEvent | None:
    if speaks_of(said, found.start()):
        return None
    error_class, role = class_of(found["type"], found["text"])
    return TrainingEvent(kind="error", error_class=error_class, error_role=role, error=text_of(found[0]).strip())


def _read_what(found: Match, _said: Said) -> TrainingEvent:
    """What C++ says as it ends the process: the exception once more, unless Python never saw it."""
    error_class, role = class_of(b"RuntimeError", found["text"])
    if error_class == "user_code_exception":
        error_class, role = "process_crash", "root"
    return TrainingEvent(kind="error", error_class=error_class, error_role=role, error=text_of(found["text"]).strip())


def _mark(mark: str) -> Callable[[Match, Said], Told]:
    def read(_found: Match, said: Said) -> Told:
        return Told(TrainingEvent(kind="error"), None, signed(mark, said.prefix))

    return read


def _read_logged(_found: Match, said: Said) -> Told | None:
    """A line of a logger that is followed by a traceback: it may show it, or be the last that was logged before."""
    if _TRACEBACK not in said.rest[:2048]:
        return None
    first = next(iter(said.below()), b"")
    if not first.startswith(_TRACEBACK):
        return None
    if said.prefix.level is None:
        return None
    return Told(TrainingEvent(kind="error"), None, signed(LOGGED, said.prefix))


RULES: Final = (
    Rule(
        words=(b"During handling of the above exception",),
        shape=later(rb"During handling of the above exception, another exception occurred"),
        row=_mark(CHAIN),
    ),
    Rule(
        words=(b"The above exception was the direct cause",),
        shape=later(rb"The above exception was the direct cause of the following exception"),
        row=_mark(RAISED_FROM),
    ),
    Rule(
        words=(
            b"Exception ignored in",
            b"Exception ignored on",
            b"--- Logging error ---",
            b"Error in atexit._run_exitfuncs",
        ),
        shape=later(rb"\A(?:Exception ignored (?:in|on)\b|--- Logging error ---|Error in atexit\._run_exitfuncs)"),
        row=_mark(IGNORED),
    ),
    Rule(
        words=(b" lines of output]", b"[end of output]"),
        shape=later(rb"\[(?:\d{1,6} lines of output|end of output)\]"),
        row=lambda found, said: Told(
            TrainingEvent(kind="error"), None, signed(UNQUOTE if b"end" in found[0] else QUOTE, said.prefix)
        ),
    ),
    Rule(
        words=(b"ERROR", b"WARNING", b"CRITICAL"),
        shape=later(rb"\A"),
        row=_read_logged,
        tells=False,
    ),
    Rule(
        words=(
            b"in barrier",
            b"in init_process_group",
            b"in _lazy_init",
            b"in set_device",
            b"in _cuda_init",
            b"in _initialize_distributed",
        ),
        shape=later(
            rb'\AFile "[^"\r\n]{1,400}", line \d{1,7}, in (?:barrier|init_process_group|_lazy_init|set_device'
            rb"|_initialize_distributed|get_rng_state)\b"
        ),
        row=_mark(INIT),
    ),
    Rule(
        words=(
            *(b"Error", b"Exception", b"KeyboardInterrupt", b"Timeout", b"TimedOut", b"NotFound: ", b"Exhausted: "),
            *(b"Failed: ", b"Refused: ", b"Closed: ", b"Unsupported: ", b"OutOfResources: ", b"ProcessPool: "),
            *(b"Cancelled: ", b"BadZipFile: ", b"SystemExit: ", b"NoSuchKey: ", b"NoSuchBucket: "),
        ),
        scan=(
            *(b"Error: ", b"Error:\n", b"Error\n", b"Error("),
            *(b"Exception: ", b"Exception\n", b"Exception:\n", b"Interrupt\n"),
            *(b"Timeout: ", b"TimedOut: ", b"NotFound: ", b"Exhausted: ", b"Failed: ", b"Refused: ", b"Closed: "),
            *(b"Unsupported: ", b"OutOfResources: ", b"ProcessPool: ", b"Cancelled: ", b"BadZipFile: "),
            *(b"SystemExit: ", b"NoSuchKey: ", b"NoSuchBucket: "),
        ),
        shape=_SHAPE,
        row=_read,
        only="fault",
        tells=False,
    ),
    Rule(
        words=(b"[Errno ",),
        shape=_SHREDDED,
        row=_read_shredded,
        only="fault",
        tells=False,
    ),
    Rule(
        words=(b"what():  ",),
        shape=later(rb"\A(?:terminate called .{0,200}?)?\s*what\(\):\s+(?P<text>[^\r\n]{1,4000})"),
        row=_read_what,
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
    Sample(
        "2026-03-01 10:20:30,123 - trainer - ERROR - Step failed\n"
        "Traceback (most recent call last):\n"
        '  File "/app/train.py", line 12, in step\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total capacity of 79.11 "
        "GiB "
        "of which 1.10 GiB is free.\n",
        (expect("training_events", error_class="user_gpu_oom", error_role="root"),),
        title="Exception in a line of a logger",
    ),
)

NON_SAMPLES: Final = (
    "2026-03-01 10:20:30,123 - root - INFO - ValueError: of the last run, fixed\n",
    "the Error: word in a sentence\n",
    "UserWarning: torch.meshgrid: in an upcoming release\n",
    "        ImportError: Raise if ``numpy`` is not installed.\n",
    "    FileNotFoundError: `directory` does not exist or is missing required files\n",
    "OSError: [Errno 5] Input/output error is raised when a disk fails\n",
    "ConnectionError: no answer of 10.0.0.9, retrying in 5 s\n",
    "Exception ignored in: <function _Iter.__del__ at 0x7f>\nTraceback (most recent call last):\nAssertionError: can "
    "only "
    "test a child process\n",
)
