"""NVIDIA's resiliency extension, restarts within the process: exceptions that its wrapper caught.

    2026-03-01 10:20:30,123 - ERROR - [2026-03-01 09:20:30.123456] rank=3 fn_ex: RuntimeError('CUDA error: ...')

https://github.com/NVIDIA/nvidia-resiliency-ext: inprocess/utils.py (log_exc), wrap.py. The stamp in brackets is UTC.
What the training function raised is an error; what is raised while it is ended (``term_ex``, ``abort_ex``) is not.
"""

from __future__ import annotations

import re
from typing import Final

from aftershock.parsers.clock import Reading
from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.faults.classes import class_of
from aftershock.parsers.training.prefixes import reading_of
from aftershock.parsers.training.rules import Match, Rule, Said, Told
from aftershock.schemas.events import TrainingEvent

ORDER: Final = 31

_STAMP: Final = re.compile(rb"\[(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?)\] rank=")
_ENDING: Final = frozenset({b"term_ex", b"abort_ex", b"finalize_ex"})


def _read(found: Match, said: Said) -> Told:
    error_class, role = class_of(found["type"], found["text"])
    if found["which"] in _ENDING:
        error_class, role = "teardown", "teardown"
    row = TrainingEvent(kind="error", error_class=error_class, error_role=role, rank=int(found["rank"]))
    row.error = f"{text_of(found['type'])}: {text_of(found['text'])}"
    return Told(row, _utc(said))


def _utc(said: Said) -> Reading | None:
    stamp = _STAMP.search(said.line.text[:600])
    reading = reading_of(stamp["at"]) if stamp else None
    return None if reading is None else reading._replace(kind="zoned")


RULES: Final = (
    Rule(
        words=(b"fn_ex: ", b"init_ex: ", b"health_ex: ", b"other_ex: ", b"term_ex: ", b"abort_ex: ", b"finalize_ex: "),
        shape=later(
            rb"\Arank=(?P<rank>\d{1,7}) (?P<which>(?:fn|init|health|other|term|abort|finalize)_ex): "
            rb"(?P<type>[\w.]{1,120})\(['\"]?(?P<text>[^\r\n]{0,2000}?)['\"]?\)?\s*\Z"
        ),
        row=_read,
        only="fault",
    ),
)

SAMPLES: Final = (
    Sample(
        "[2026-03-01 09:20:30.123456] rank=3 fn_ex: RuntimeError('CUDA error: an illegal memory access was "
        "encountered')\n"
        "[2026-03-01 09:20:31.123456] rank=3 abort_ex: ValueError('closed')\n",
        (
            expect(
                "training_events",
                error_class="cuda_kernel_fault",
                error_role="root",
                rank=3,
                error="RuntimeError: CUDA error: an illegal memory access was encountered",
                time=1_772_356_830_123_456,
                time_basis="zoned",
            ),
            expect("training_events", error_class="teardown", error_role="teardown", rank=3),
        ),
        title="NVRx: a restart within the process",
    ),
)

NON_SAMPLES: Final = ("rank=3 fn_ex is None\n",)
