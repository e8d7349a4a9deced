"""Storage and paths outside of exceptions: tools that cannot read or write, file systems that are gone or full.

    tee: /logs/train.log: No space left on device
    python3: can't open file '/app/train.py': [Errno 2] No such file or directory
    cp: cannot stat '/ckpt/step40': Stale file handle
    train.py: error: unrecognized arguments: --lr-decay

Texts of the C library (strerror) behind the name of a program and of a file, and of argparse and click.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.faults.classes import class_of_text
from aftershock.parsers.training.faults.talk import speaks_of
from aftershock.parsers.training.rules import Match, Rule, Said
from aftershock.schemas.events import TrainingEvent

ORDER: Final = 82


def _told_by(error_class: str | None) -> Callable[[Match, Said], TrainingEvent | None]:
    def read(found: Match, said: Said) -> TrainingEvent | None:
        # The words of the error stand behind the last colon; what stands before may be a sentence.
        if speaks_of(said, said.message.rfind(b": ", 0, found.end()) + 1):
            return None
        known = (error_class, "root") if error_class else class_of_text(found["error"])
        if known is None:
            return None
        row = TrainingEvent(kind="error", error_class=known[0], error_role=known[1])
        row.error = text_of(found["error"]).strip()[:4096]
        return row

    return read


RULES: Final = (
    Rule(
        words=(
            *(b"No space left on device", b"Disk quota exceeded", b"Stale file handle", b"Input/output error"),
            *(
                b"Transport endpoint is not connected",
                b"Cannot send after transport endpoint shutdown",
                b"Remote I/O error",
            ),
        ),
        shape=later(
            rb"\A(?P<error>[^\r\n]{0,300}(?:: |: \[Errno \d{1,3}\] )(?:No space left on device|Disk quota exceeded"
            rb"|Stale (?:NFS )?file handle|Input/output error|Transport endpoint is not connected"
            rb"|Cannot send after transport endpoint shutdown|Remote I/O error)(?: \(\d{1,3}\))?)"
        ),
        row=_told_by(None),
        only="fault",
        tells=False,
    ),
    Rule(
        words=(b"can't open file '",),
        shape=later(rb"\A(?P<error>[\w./-]{1,200}: can't open file '[^'\r\n]{1,400}': [^\r\n]{1,120})"),
        row=_told_by("user_data_path"),
        only="fault",
        tells=False,
    ),
    Rule(
        words=(b": error: ",),
        scan=(b": error: unrecognized arguments", b": error: the following arguments are", b": error: argument "),
        shape=later(
            rb"\A(?:usage: .{0,400} )?(?P<error>[\w./-]{1,200}: error: (?:unrecognized arguments|the following "
            rb"arguments are req"
            rb"uired|argument |ambiguous option|one of the arguments)[^\r\n]{0,400})"
        ),
        row=_told_by("user_config"),
        only="fault",
        tells=False,
    ),
    Rule(
        words=(
            b"Error: No such option",
            b"Error: Missing option",
            b"Error: Invalid value for",
            b"Could not override '",
            b"Error merging ",
        ),
        shape=later(
            rb"\A(?P<error>(?:Error: (?:No such option|Missing (?:option|argument)|Invalid value for)|Could not "
            rb"override '|Error merging '?[\w/.@-]{1,200}=)[^\r\n]{1,400})"
        ),
        row=_told_by("user_config"),
        only="fault",
        tells=False,
    ),
    Rule(
        words=(b": No module named ", b"Error while finding module specification for"),
        shape=later(
            rb"\A(?P<error>/?[\w./-]{0,200}python[\d.]{0,5}: (?:No module named [^\r\n]{1,200}|Error while finding "
            rb"module spec"
            rb"ification for [^\r\n]{1,300}))"
        ),
        row=_told_by("user_environment"),
        only="fault",
        tells=False,
    ),
)

SAMPLES: Final = (
    Sample(
        "tee: /logs/train.log: No space left on device\n",
        (expect("training_events", error_class="disk_full_quota", error_role="root"),),
        title="A full disk",
    ),
    Sample(
        "ERROR:megatron.core.dist_checkpointing.strategies.filesystem_async:Local process 0 encountered an error: "
        "[Errno 5] Input/output error\n",
        (expect("training_events", error_class="storage_io", error_role="root"),),
        title="Megatron-LM: a process that cannot write",
    ),
    Sample(
        "usage: train.py [-h] [--lr LR]\ntrain.py: error: unrecognized arguments: --lr-decay\n",
        (expect("training_events", error_class="user_config", error_role="root"),),
        title="A wrong argument",
    ),
)

NON_SAMPLES: Final = (
    "free some space if you see: No space left on device\n",
    "gcc: error: unrecognized command-line option\n",
)
