"""The launchers of DeepSpeed and Accelerate: how each process ended, and that the others are killed for it.

    [2026-03-01 10:20:30,123] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 811
    [2026-03-01 10:20:30,124] [ERROR] [launch.py:325:sigkill_handler] ['python', ...] exits with return code = -9
    [2026-03-01 10:20:30,125] [INFO] [launch.py:351:main] Process 811 exits successfully.

https://github.com/deepspeedai/DeepSpeed (deepspeed/launcher/launch.py). It names no rank but that of its command.
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.launchers.exits import role_of_exit
from aftershock.parsers.training.marks import PARTLY
from aftershock.parsers.training.rules import Match, Rule, Said, error, event, whole
from aftershock.schemas.events import TrainingEvent

ORDER: Final = 32

_LOCAL: Final = re.compile(rb"--local_rank[= ',]{1,6}(\d{1,4})")


def _read(found: Match, said: Said) -> TrainingEvent:
    code = whole(found["code"])
    error_class, role = role_of_exit(code)
    row = TrainingEvent(kind="exit", error_class=error_class, error_role=role)
    row.error = f"exits with return code = {text_of(found['code'])}"
    local = _LOCAL.search(said.message[: found.start()])
    row.local_rank = int(local[1]) if local else None
    return row


RULES: Final = (
    Rule(
        words=(b"exits with return code = ",),
        shape=later(rb"exits with return code = (?P<code>-?\d{1,5})"),
        row=_read,
    ),
    Rule(
        words=(b"Killing subprocess ", b"Main process received SIG"),
        shape=later(rb"(?P<error>Killing subprocess \d{1,9}|Main process received SIG[A-Z]{2,6}, exiting)"),
        row=error("teardown", "teardown", kind="exit"),
        only="slurm",
    ),
    Rule(
        words=(b" exits successfully.",),
        shape=later(rb"Process \d{1,9} exits successfully\."),
        row=event("exit"),
        mark=PARTLY,
    ),
)

SAMPLES: Final = (
    Sample(
        "[2026-03-01 10:20:30,123] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 811\n"
        "[2026-03-01 10:20:30,124] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python3', '-u', 'train.py', "
        "'--local_rank=3'] exits with return code = -9\n",
        (
            expect("training_events", kind="exit", error_class="teardown", error_role="teardown"),
            expect("training_events", kind="exit", error_class="unknown", error_role="symptom", local_rank=3),
        ),
        title="DeepSpeed: a process that was killed",
    ),
    Sample(
        "[2026-03-01 10:20:30,125] [INFO] [launch.py:351:main] Process 811 exits successfully.\n",
        (expect("training_events", kind="exit", error_class=None),),
        title="DeepSpeed: a process that ended well",
    ),
)

NON_SAMPLES: Final = ("the script exits with return code 1\n",)
